"""What a person clears, of a run whose batch another run has committed, and of one that has committed it itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testbed.dag_runs import RunResult
from tests.airflow.conftest import Orders

Said = Callable[[], str]


@pytest.fixture
def passed(orders: Orders) -> RunResult:
    """A run that was rejected, and whose batch the next run has done; three more records have come since."""
    orders.produce(5)
    first = orders.run(reject=True)
    second = orders.run()
    assert (first.state, second.state, orders.committed) == ("failed", "success", {0: 5})
    orders.produce(3)
    return first


def test_a_whole_run_that_was_passed_is_told_who_has_done_its_batch_and_leaves_it(
    orders: Orders, passed: RunResult, said: Said
) -> None:
    before, log = orders.rows, orders.newest.log

    again = orders.clear(passed, "orders.wait_for_partitions", reject=False)

    assert again.state == "success"
    assert again.states("orders.read") in (["skipped"], ["removed"]), "the mapped task that there was has no place now"
    assert again.states("orders.commit") == ["success"]
    assert "leaves batch 1 as it is: it was done by run batch/" in said()
    assert (orders.rows, orders.newest.log, orders.committed) == (before, log, {0: 5})


def test_redo_does_it_all_the_same_into_the_same_place(orders: Orders, passed: RunResult, said: Said) -> None:
    key, attempts = orders.key, orders.attempts()

    again = orders.clear(passed, "orders.wait_for_partitions", words={"redo": True}, reject=False)

    assert again.state == "success"
    assert again.states("orders.read") == ["success"]
    assert "This run does batch 1 once more" in said()
    assert (orders.key, orders.attempts()) == (key, attempts + 1)
    assert [len(rows) for rows in orders.rows.values()] == [5]
    assert orders.run().state == "success"
    assert orders.is_exact()


@pytest.mark.parametrize("task_id", ["orders.read", "orders.commit"])
def test_a_task_of_a_run_that_was_passed_repeats_and_doubles_nothing(
    orders: Orders, passed: RunResult, said: Said, task_id: str
) -> None:
    """Only Spark (and what comes after it), or only the commit."""
    if task_id == "orders.commit":
        orders.clear(passed, "check", reject=False)  # a commit is only tried once the check has passed
        said()

    again = orders.clear(passed, task_id, reject=False)

    assert again.state == "success"
    assert "Batch 1 was committed before: up to 5 records of 1 partition; " in said()
    assert orders.committed == {0: 5}
    assert orders.run().state == "success"
    assert orders.is_exact()
    assert orders.committed == {0: 8}


def test_a_run_that_has_committed_does_its_own_batch_once_more(orders: Orders, said: Said) -> None:
    orders.produce(5)
    first = orders.run(splits=1)
    orders.produce(3)
    key = orders.key

    again = orders.clear(first, "orders.wait_for_partitions")

    assert again.state == "success"
    assert (
        "This run does batch 1 once more: it committed it before, and was started again; 3 records have come "
        "since, for the next run." in said()
    )
    assert (orders.key, orders.attempts(), [len(rows) for rows in orders.rows.values()]) == (key, 2, [5])
    assert orders.run().state == "success"
    assert orders.is_exact()


def test_a_redo_whose_spark_job_does_not_come_to_its_end_is_not_verified(orders: Orders, said: Said) -> None:
    """The output of a committed batch may be half new: the commit fails, and names what to clear."""
    orders.produce(5)
    first = orders.run()
    folder = orders.output / f"kafka_batch={orders.key}"
    aside = folder.rename(orders.output / "aside")
    folder.touch()

    again = orders.clear(first, "orders.wait_for_partitions")
    assert (again.states("orders.read"), again.states("orders.commit")) == (["failed"], ["upstream_failed"])
    said()

    set_task_state(again, "orders.read", "success")  # somebody believes that it does not matter
    set_task_state(again, "check", "success")
    again = orders.clear(again, "orders.commit")
    assert again.states("orders.commit") == ["failed"]
    text = said()
    assert "attempt 2 began and has not reported; its output may be half written" in text
    assert "Clear the run from its Spark task on" in text

    folder.unlink()
    aside.rename(folder)
    assert orders.clear(again, "orders.read").state == "success"
    assert orders.is_exact()


def test_a_run_that_had_nothing_to_do_has_nothing_to_do_when_it_is_cleared(orders: Orders, said: Said) -> None:
    """What has come since is the next run's: else a cleared run of the past would read the present."""
    orders.produce(2)
    orders.run()
    idle = orders.run()
    assert idle.states("orders.read") == ["skipped"]
    orders.produce(1)
    said()

    again = orders.clear(idle, "orders.wait_for_partitions")

    assert (again.state, again.states("orders.read")) == ("success", ["skipped"])
    assert "This run has nothing to do: it found nothing when it was first tried." in said()
    assert orders.committed == {0: 2}


def set_task_state(result: RunResult, task_id: str, state: str) -> None:
    """A person marks a task."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update

    chosen: Any = (TaskInstance.run_id == result.run_id) & (TaskInstance.task_id == task_id)
    with create_session() as session:
        session.execute(update(TaskInstance).where(chosen).values(state=state))
