"""What a backfill run may do: its own batch again, and windows. In memory."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline
from tests.contract.troubles import produce


def test_three_days_are_done_again_with_corrected_code_into_the_same_place(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    """``airflow backfill create --reprocess-behavior completed``: the runs keep their ids and are backfill runs now."""
    days = []
    for number in range(3):
        days.append(in_memory.run(f"day-{number}"))
        produce(memory, in_memory)
    live = in_memory.run("live")
    for number, day in enumerate(days):
        again = in_memory.resolve(f"day-{number}", run_type="backfill")
        assert (again.plan, again.splits) == (day.plan, day.splits)
        assert again.sentence == f"does batch {number + 1} once more: it committed it before, and was started again"
        again.done()
    assert in_memory.lake.offsets() == {number: list(range(10)) for number in range(3)}
    assert in_memory.held() == in_memory.at() == dict(enumerate(end for _, end in live.ranges))


def test_a_day_that_another_run_has_done_is_left(in_memory: Pipeline) -> None:
    in_memory.resolve("day")
    in_memory.run("next day")
    assert in_memory.resolve("day", run_type="backfill").splits == ()
    assert in_memory.resolve("day", run_type="backfill", redo=True).splits == (0,)


def test_a_day_that_had_nothing_to_do_has_nothing_to_do(in_memory: Pipeline, memory: AnyCluster) -> None:
    in_memory.run("one")
    in_memory.run("empty")
    produce(memory, in_memory)
    assert in_memory.resolve("empty", run_type="backfill").assignment.batch is None


@pytest.mark.parametrize("there_was_one", [True, False])
def test_a_backfill_run_plans_no_batch_and_the_way_to_read_the_past_is_named(
    in_memory: Pipeline, memory: AnyCluster, there_was_one: bool
) -> None:
    if there_was_one:
        in_memory.run("one")
        produce(memory, in_memory)
    with pytest.raises(InvalidRequest, match="startup_mode='timestamp' and bounded_mode='timestamp'"):
        in_memory.resolve("backfill", run_type="backfill")
    number = in_memory.log.newest()
    assert (number.log.plan.batch.number if number and number.log.plan.batch else None) == (
        1 if there_was_one else None
    )


def test_what_another_run_left_is_done_by_a_backfill_run_too(in_memory: Pipeline) -> None:
    """It plans nothing: it does the batch as it is (rule 1)."""
    left = in_memory.resolve("live")
    run = in_memory.resolve("backfill", run_type="backfill")
    assert run.plan == left.plan
    run.done()
    assert in_memory.resolve("live").splits == ()
