"""A job that knows of no batch and gets its offsets in its own arguments: docs/existing-dag.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.airflow.conftest import Orders


def written_by(orders: Orders) -> dict[str, list[str]]:
    return {file.name: json.loads(file.read_text()) for file in Path(orders.output).glob("*.json")}


def test_it_reads_each_batch_once_is_not_started_for_nothing_and_writes_a_batch_again_into_its_place(
    orders: Orders,
) -> None:
    orders.dag_id = "batch_of_an_old_job"

    def written() -> dict[str, list[str]]:
        return written_by(orders)

    orders.produce(5)
    failed = orders.run(reject=True)
    assert (failed.state, orders.committed, list(written().values())) == ("failed", {}, [list("01234")])

    orders.produce(2)
    again = orders.run()
    assert (again.state, orders.committed, list(written().values())) == ("success", {0: 5}, [list("01234")])

    orders.run()
    assert (orders.committed, sorted(written().values())) == ({0: 7}, [list("01234"), list("56")])

    nothing = orders.run()
    assert (nothing.state, nothing.states("orders.read_by_offsets"), len(written())) == ("success", ["skipped"], 2)


def test_what_a_failed_run_has_written_of_a_partition_that_is_held_is_not_there_twice(
    orders: Orders, topic: Callable[..., str]
) -> None:
    """The split of that partition has nothing to read any more. Its job reads an empty range, and so writes nothing."""
    orders.dag_id, orders.topic, orders.partitions = "batch_of_an_old_job", topic(2), 2
    orders.produce(6)
    assert orders.run(reject=True, splits=2).state == "failed"
    assert sorted(map(sorted, written_by(orders).values())) == [list("024"), list("135")]
    assert orders.run({"hold": [f"{orders.topic}-1"]}).state == "success"
    assert sorted(map(sorted, written_by(orders).values())) == [[], list("024")]
    orders.run()
    assert sorted(value for values in written_by(orders).values() for value in values) == list("012345")


def test_a_plan_that_its_job_is_not_given_is_not_committed(orders: Orders, said: Callable[[], str]) -> None:
    """A person clears resolve and the commit, and not the task between them, which has succeeded with another plan."""
    orders.dag_id = "batch_of_an_old_job"
    orders.produce(5)
    failed = orders.run(reject=True)
    orders.produce(2)
    alone = ("orders.resolve", "check", "orders.commit")
    again = orders.clear(failed, *alone, words={"re_plan": True}, downstream=False, reject=False)
    assert (again.state, again.states("orders.resolve"), orders.committed) == ("failed", ["failed"], {})
    assert "Clear this task together with those after it" in said()
    assert orders.clear(failed, "orders.resolve").state == "success"
    assert (orders.committed, list(written_by(orders).values())) == ({0: 7}, [list("0123456")])


def test_what_a_failed_run_has_written_of_a_batch_that_is_skipped_goes(orders: Orders) -> None:
    orders.dag_id = "batch_of_an_old_job"
    orders.produce(5)
    assert orders.run(reject=True).state == "failed"
    skipped = orders.run({"skip": {"batch": orders.key, "reason": "they are wrong"}})
    assert (skipped.state, list(written_by(orders).values()), orders.committed) == ("success", [[]], {0: 5})


def test_a_batch_that_another_run_may_have_written_does_not_move_to_this_runs_path(orders: Orders) -> None:
    """The job leaves no record of its own, and its rows would be in both."""
    orders.dag_id = "batch_of_an_old_job"
    orders.produce(5)
    assert orders.run(reject=True).state == "failed"
    moved = orders.run(output=f"{orders.output}-of-tomorrow")
    assert (moved.states("orders.resolve"), moved.states("orders.read_by_offsets")) == (["failed"], ["upstream_failed"])
    assert (orders.run().state, orders.committed) == ("success", {0: 5})
    assert list(written_by(orders).values()) == [list("01234")]
