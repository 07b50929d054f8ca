"""Whether a run is to follow at once: run after run on a cluster in memory, as the commit task asks."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.offsets.model import Actor
from airflow_kafka_offsets.pipeline.catch_up import NextRun, next_run
from tests.contract.pipeline import Pipeline, Run
from tests.contract.troubles import produce
from tests.engine import left_in_kafka


def follows(run: Run, target: int | None = None) -> NextRun | str:
    """Spark and commit; then what the commit task would ask Airflow for."""
    if not any(entry.by.run == run.key for entry in _commits(run)):
        run.spark()
    outcome = run.commit()
    left = left_in_kafka(outcome.plan, run.pipeline.cluster) if outcome.plan else None
    return next_run(outcome, run.pipeline.log, Actor(run.key, run.pipeline.airflow.instance), left, target)


def _commits(run: Run) -> list[Any]:
    newest = run.pipeline.log.newest()
    return [newest.log.committed] if newest and newest.log.committed else []


def test_runs_follow_each_other_until_what_the_first_one_has_left_is_read(in_memory: Pipeline) -> None:
    """12 records and a cap of 5."""
    first = follows(in_memory.resolve("one", max_records=5))
    assert isinstance(first, NextRun)
    assert (first.target, first.run_id.startswith("catch_up__0000000001-")) == (7, True)
    second = follows(in_memory.resolve("two", max_records=5), first.target)
    assert isinstance(second, NextRun)
    assert second.target == 2
    assert follows(in_memory.resolve("three", max_records=5), 2) == (
        "its batch had all that was there when it was planned"
    )


def test_it_ends_although_as_much_arrives_as_is_read(memory: Any, in_memory: Pipeline) -> None:
    found = follows(in_memory.resolve("0", max_records=5))
    runs = 0
    while isinstance(found, NextRun):
        runs += 1
        assert runs < 10
        produce(memory, in_memory)
        found = follows(in_memory.resolve(str(runs), max_records=5), found.target)
    assert (runs, found) == (
        2,
        "what the first of these runs has left is read; what has come since is the next scheduled run's",
    )


def test_a_run_with_nothing_to_read_asks_for_none(in_memory: Pipeline) -> None:
    in_memory.run("one")
    assert follows(in_memory.resolve("two")) == "this one has read nothing"


def test_an_older_batch_without_records_asks_for_none_although_more_has_come(memory: Any, in_memory: Pipeline) -> None:
    """A first batch at the end of the log, which another run left."""
    in_memory.resolve("one", startup_mode="latest-offset")
    produce(memory, in_memory)
    assert follows(in_memory.resolve("two", startup_mode="latest-offset")) == "this one has read nothing"


def test_a_run_that_did_an_older_batch_is_followed_by_one_for_what_has_come_since(
    memory: Any, in_memory: Pipeline
) -> None:
    in_memory.resolve("one")
    produce(memory, in_memory)
    found = follows(in_memory.resolve("two"))
    assert isinstance(found, NextRun)
    assert found.target == 6
    assert isinstance(follows(in_memory.resolve("three"), found.target), str)


def test_a_batch_that_had_all_asks_for_none_although_more_has_come(memory: Any, in_memory: Pipeline) -> None:
    run = in_memory.resolve("one")
    produce(memory, in_memory)
    assert follows(run) == "its batch had all that was there when it was planned"


def test_a_commit_that_is_retried_asks_for_the_same_run(in_memory: Pipeline) -> None:
    """It died after the commit's creation: the batch is on record, and nobody was asked for a run yet."""
    run = in_memory.resolve("one", max_records=5).spark()
    run.commit()
    assert follows(run) == follows(run) == NextRun(f"catch_up__{run.plan.batch.key}", 7)  # type: ignore[union-attr]


def test_a_cleared_run_asks_for_the_run_that_there_is_and_an_older_one_for_none(in_memory: Pipeline) -> None:
    first = follows(in_memory.resolve("one", max_records=5))
    again = in_memory.resolve("one", max_records=5)
    again.spark()
    assert follows(again) == first
    in_memory.run("two", max_records=5)
    cleared = in_memory.resolve("one", max_records=5)
    cleared.spark()
    assert follows(cleared) == "another run has gone on from here"


def test_where_a_later_batch_is_there_whoever_does_it_sees_to_the_rest(in_memory: Pipeline) -> None:
    """The retry of a commit that died comes after another run's resolve."""
    run = in_memory.resolve("one", max_records=5).spark()
    run.commit()
    in_memory.resolve("two", max_records=5)
    assert follows(run) == "another run has gone on from here"


def test_where_kafka_does_not_tell_what_is_left_the_cap_does(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one", max_records=5).spark()
    outcome, me = run.commit(), Actor(run.key, in_memory.airflow.instance)
    found = next_run(outcome, in_memory.log, me, None, None)
    assert isinstance(found, NextRun)
    assert found.target == 7
    assert next_run(outcome, in_memory.log, me, 0, None) == "nothing is left in Kafka"


@pytest.mark.parametrize("mode", ["window", "bounded"])
def test_what_ends_by_time_is_followed_by_none(in_memory: Pipeline, mode: str) -> None:
    times = {"bounded_mode": "timestamp", "bounded_timestamp": in_memory.now_ms}
    if mode == "window":
        times |= {"startup_mode": "timestamp", "startup_timestamp": 0}
    assert follows(in_memory.resolve("one", **times)) == "this one ends by time, which is its data interval's"
