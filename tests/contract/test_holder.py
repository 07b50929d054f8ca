"""Who goes to work on a batch, and who waits for it (docs/log.md, rule 3). The store alone decides it: in memory."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import LateAttempt, OverlappingRun, ReadNotVerified
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.entries import Taken
from airflow_kafka_offsets.request.policies import Skip
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.contract.pipeline import Pipeline, entries
from tests.contract.troubles import produce
from tests.engine import skip_batch

ALL_FOUR = {number: [0, 1, 2, 3] for number in range(3)}


def test_a_run_waits_for_a_holder_that_is_running_and_is_told_which_and_until_when(in_memory: Pipeline) -> None:
    held = in_memory.resolve("one").batch
    in_memory.airflow.running = {"one", "two"}
    with pytest.raises(OverlappingRun) as refused:
        in_memory.resolve("two")
    error = refused.value
    assert (error.holder, error.batch, error.dag_id, error.run_id) == ("run dag/one/resolve", "batch 1", "dag", "one")
    assert "is being done by run dag/one/resolve, which is running. Nothing was planned or written" in str(error)
    assert "mark it failed if it is stuck" in str(error)
    assert error.retriable
    assert entries(held) == ["plan"]
    assert in_memory.log.batch_of_run(RunKey("dag", "two", "resolve")) is None


def test_what_ends_the_wait_is_the_next_entry_of_the_batchs_log(in_memory: Pipeline) -> None:
    one = in_memory.resolve("one")
    in_memory.airflow.running = {"one"}
    with pytest.raises(OverlappingRun) as refused:
        in_memory.resolve("two")
    assert in_memory.store.get(refused.value.next_entry) is None
    one.done()
    assert in_memory.store.get(refused.value.next_entry) is not None


def test_a_holder_that_is_queued_is_not_waited_for(in_memory: Pipeline) -> None:
    """Under ``max_active_runs=1`` a cleared run would hold up the live one for ever."""
    in_memory.resolve("queued")
    in_memory.airflow.running = {"live"}
    assert in_memory.run("live").sentence.startswith("does batch 1 again: run dag/queued/resolve, which took it at ")


def test_a_retry_does_not_wait_for_itself(in_memory: Pipeline) -> None:
    in_memory.airflow.running = {"one"}
    run = in_memory.resolve("one")
    assert in_memory.resolve("one").plan == run.plan


@pytest.mark.parametrize("other", [RunKey("dag", "one", "resolve", 1), RunKey("dag", "one", "another")], ids=str)
def test_tasks_of_one_dag_run_do_not_wait_for_each_other(in_memory: Pipeline, other: RunKey) -> None:
    """Each would wait for the end of the run that it is a part of."""
    in_memory.airflow.running = {"one"}
    in_memory.resolve(RunKey("dag", "one", "resolve", 0))
    run = in_memory.resolve(other)
    assert (run.number, entries(run.batch)) == (1, ["plan", "taken"])


def test_another_dags_run_of_the_same_name_is_another_run(in_memory: Pipeline) -> None:
    in_memory.airflow.running = {"one"}
    in_memory.resolve("one")
    with pytest.raises(OverlappingRun):
        in_memory.resolve(RunKey("other dag", "one", "resolve"))


def test_who_takes_a_batch_is_its_holder(in_memory: Pipeline) -> None:
    in_memory.resolve("dead")
    taker = in_memory.resolve("taker")
    in_memory.airflow.running = {"dead", "taker", "third"}
    for waiting in ("third", "dead"):  # also whom it was taken from, cleared meanwhile
        with pytest.raises(OverlappingRun, match="run dag/taker/resolve"):
            in_memory.resolve(waiting)
    assert in_memory.resolve("taker").sentence == "does batch 1, which it took before and has not committed"
    taker.done()
    assert in_memory.resolve("dead").sentence == "leaves batch 1 as it is: it was done by run dag/taker/resolve"


def test_nobody_waits_for_a_run_whose_batch_is_committed(in_memory: Pipeline, memory: AnyCluster) -> None:
    """It is running on: something comes after its commit."""
    in_memory.airflow.running = {"one"}
    in_memory.run("one")
    produce(memory, in_memory)
    assert in_memory.resolve("two").number == 2


def test_nobody_waits_for_a_person(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one")
    in_memory.airflow.running = {"one", "two"}
    skip_batch(in_memory.log, Skip(run.batch_key), now_ms=NOW_MS, dry_run=False)
    assert in_memory.resolve("two").number == 1


def test_a_running_holder_is_left_in_peace_whatever_a_person_orders(in_memory: Pipeline) -> None:
    held = in_memory.resolve("one")
    in_memory.airflow.running = {"one"}
    for words in ({"re_plan": True}, {"restart": "now"}, {"redo": True}, {"skip": held.batch_key}):
        with pytest.raises(OverlappingRun):
            in_memory.resolve("two", **words)
    assert entries(held.batch) == ["plan"]


def test_a_redo_is_written_down_also_by_its_own_holder(in_memory: Pipeline) -> None:
    """With the highest attempt of each split: newer ones have to show that it was done again."""
    run = in_memory.run("one", splits=3)
    run.job(1).begin().write().report()
    redone = in_memory.resolve("one").batch.log.redone
    assert redone == Taken(redone.by, in_memory.now_ms, {0: 1, 1: 2, 2: 1}) if redone else False
    assert in_memory.resolve("one").batch.log.later[-1] == redone
    assert entries(run.batch) == ["plan", "commit", "taken", "taken"]


# ── courtesy, not safety ──────────────────────────────────────────────────────────────────────────────────────────────


def test_two_that_do_a_batch_at_the_same_time_disturb_each_other_and_double_nothing(in_memory: Pipeline) -> None:
    """The driver that is overtaken before it writes stops, and takes nothing from the other."""
    one = in_memory.resolve("one")
    late = one.job()
    late.begin()
    two = in_memory.resolve("two")
    job = two.job().begin().write()
    assert late.attempt is not None
    with pytest.raises(LateAttempt, match="stops before it writes"):
        late.attempt.look()
    job.report()
    two.commit()
    assert in_memory.lake.offsets() == ALL_FOUR


def test_a_driver_that_was_overtaken_after_it_wrote_leaves_nothing_verified(in_memory: Pipeline) -> None:
    one, two = in_memory.resolve("one"), in_memory.resolve("two")
    late = one.job().begin()
    two.spark()
    late.write()
    with pytest.raises(LateAttempt, match="comes too late"):
        late.report()
    for run in (one, two):
        with pytest.raises(ReadNotVerified, match="attempt 3 began and has not reported"):
            run.commit()
    in_memory.run("two")
    assert in_memory.lake.offsets() == ALL_FOUR
