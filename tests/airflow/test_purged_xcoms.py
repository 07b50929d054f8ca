"""Airflow has forgotten what the resolve task pushed: the work store knows which batch the run took."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.stores.open import open_store
from testbed.dag_runs import RunResult
from tests.airflow.conftest import STORE, Orders
from tests.airflow.test_clearing import set_task_state

Purge = Callable[[RunResult], None]
Said = Callable[[], str]


@pytest.mark.parametrize("dag_id", ["batch", "batch_by_its_own_name"])
def test_the_commit_finds_its_batch_in_the_work_store(orders: Orders, purge: Purge, dag_id: str) -> None:
    """By the default name, and by a pipeline_id; group, topic and that name are templates."""
    orders.dag_id = dag_id
    orders.produce(5)
    held = orders.run(reject=True)
    assert orders.committed == {}
    purge(held)

    again = orders.clear(held, "check", reject=False)

    assert again.states("orders.commit") == ["success"]
    assert orders.committed == {0: 5}
    name = f"lake/{orders.group}" if "own" in dag_id else f"{orders.group}/batch/orders.resolve"
    newest = PipelineLog(open_store(str(STORE)), name).newest()
    assert newest is not None
    assert newest.log.committed is not None
    assert orders.run().state == "success"
    assert orders.is_exact()


def test_a_run_that_found_nothing_new_still_renews_its_group(orders: Orders, purge: Purge, said: Said) -> None:
    orders.produce(2)
    orders.run()
    idle = orders.run()
    purge(idle)
    said()
    assert orders.clear(idle, "orders.commit").states("orders.commit") == ["success"]
    assert "The group follows in 1 partition:" in said()


def test_where_the_run_has_taken_nothing_the_commit_says_so_and_what_to_clear(orders: Orders, said: Said) -> None:
    """Its resolve task was marked as successful by hand."""
    orders.dag_id = "batch_marked"
    result = orders.run(startup_mode="no such mode")
    for task_id in ("orders.resolve", "orders.read", "check"):
        set_task_state(result, task_id, "success")
    said()

    again = orders.clear(result, "orders.commit")

    assert [(t.state, t.tries) for t in again.tasks if t.task_id == "orders.commit"] == [("failed", 1)]
    pipeline = f"pipeline '{orders.group}/batch_marked/orders.resolve' in work store file://{STORE}"
    assert (
        f"There is no XCom 'plan' of task orders.resolve, and {pipeline} has no batch of this run: there is nothing to "
        "commit. Clear task orders.resolve."
    ) in said()


def test_without_reports_a_batch_that_another_run_has_taken_is_not_committed_by_guess(
    orders: Orders, purge: Purge, said: Said
) -> None:
    """Which plan this run's Spark was given is forgotten, and no report tells."""
    orders.dag_id = "unreported"
    orders.produce(5)
    first = orders.run(reject=True)
    orders.produce(2)
    second = orders.run({"re_plan": True}, reject=True)
    assert second.states("check") == ["failed"]
    purge(first)
    said()

    again = orders.clear(first, "check", reject=False)

    assert again.states("commit") == ["failed"]
    assert f"run unreported/{second.run_id}/resolve has taken batch 1 since" in said()
    assert orders.committed == {}
