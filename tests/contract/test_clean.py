"""What is cleaned away, what stays, and what a run whose batch is gone is told. In memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from airflow_kafka_offsets.errors import BatchGone
from airflow_kafka_offsets.plan.window_claims import time_claim_of_name
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.contract.pipeline import Lake, Pipeline, Run
from tests.contract.troubles import EventfulStore, names, produce
from tests.engine import find_old, remove
from tests.model.store import MemoryStore
from tests.stores.watched import Crash, Watched

DAY = 86_400_000
HOUR = 3_600_000


def day(pipeline: Pipeline, number: int) -> Pipeline:
    return replace(pipeline, now_ms=NOW_MS + number * DAY)


@pytest.fixture
def five_days(in_memory: Pipeline, memory: AnyCluster) -> Pipeline:
    """Batches 1 to 5, one a day from day 1 on."""
    for number in range(1, 6):
        day(in_memory, number).run(f"day-{number}", output_name="lake/orders")
        produce(memory, in_memory)
    return in_memory


def clean(pipeline: Pipeline, before_day: float) -> list[str]:
    """The batches that went, by folder."""
    gone = []
    for removal in find_old(pipeline.store, NOW_MS + round(before_day * DAY)):
        gone.append(removal.folder)
        remove(removal)
    return gone


def batches(pipeline: Pipeline) -> set[str]:
    return {name.split("/")[4].lstrip("0") for name in names(pipeline.store) if "/batches/" in name}


def test_what_is_older_goes_from_the_oldest_on_with_its_reads(five_days: Pipeline) -> None:
    assert [name[-2:] for name in clean(five_days, 2.5)] == ["01", "02"]
    assert batches(five_days) == {"3", "4", "5"}
    assert clean(five_days, 2.5) == []


def test_two_that_clean_at_one_moment_do_not_hinder_each_other(five_days: Pipeline) -> None:
    before_ms = NOW_MS + round(2.5 * DAY)
    slow = find_old(five_days.store, before_ms)
    first = next(slow)
    assert len(clean(five_days, 2.5)) == 2
    for removal in (first, *slow):
        remove(removal)
    assert batches(five_days) == {"3", "4", "5"}


def test_who_slept_while_the_log_was_cleaned_plans_no_batch_with_a_number_that_was_passed(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    """It has seen a log without a batch, and wakes up when batch 1 has come and gone."""

    def days_pass() -> None:
        for number in range(1, 6):
            day(in_memory, number).run(f"day-{number}")
            produce(memory, in_memory)
        clean(in_memory, 2.5)

    store = EventfulStore(in_memory.store, "/0000000001/1.json", days_pass)
    late = replace(in_memory, store=store).resolve("late")
    assert late.number == 6
    late.done()
    read = in_memory.lake.offsets()
    assert read == {partition: list(range(len(offsets))) for partition, offsets in read.items()}


def test_the_last_two_commits_and_all_after_them_stay(five_days: Pipeline, memory: AnyCluster) -> None:
    day(five_days, 6).resolve("failed")
    assert len(clean(five_days, 99)) == 3
    assert batches(five_days) == {"4", "5", "6"}
    assert five_days.resolve("next").number == 6
    assert day(five_days, 7).run("next").number == 6
    produce(memory, five_days)
    assert five_days.run("then").number == 7, "and no number comes back"


def test_a_cleared_run_whose_batch_is_gone_is_told_its_key_and_where_its_rows_are(five_days: Pipeline) -> None:
    key = five_days.log.batch(1).log.plan.batch.key  # type: ignore[union-attr]
    first = five_days.resolve("day-1")
    clean(five_days, 99)
    with pytest.raises(BatchGone) as refused:
        five_days.resolve("day-1")
    assert (refused.value.batch, refused.value.output) == (f"batch {key}", "lake/orders")
    assert "was cleaned away. Its rows are in lake/orders" in str(refused.value)
    with pytest.raises(BatchGone, match="was cleaned away"):
        first.commit()
    assert five_days.lake.offsets()[0] == list(range(12))


def test_a_clean_that_died_half_way_is_ended_by_the_next(five_days: Pipeline) -> None:
    removal = next(find_old(five_days.store, NOW_MS + 99 * DAY))
    for name in removal.names[:-1]:
        five_days.store.delete(name)
        left = five_days.log.read("batches/00000000/0000000001")
        assert left is None or left.log.committed, "never a batch that seems to be unfinished"
    assert len(clean(five_days, 99)) == 3
    assert batches(five_days) == {"4", "5"}


def test_a_batch_that_was_done_again_lately_is_young(five_days: Pipeline) -> None:
    day(five_days, 6).run("day-1")
    assert clean(five_days, 5) == [], "and so is what comes after it: from the oldest on"


def window(pipeline: Pipeline, hour: int) -> Any:
    bounds = {"startup_timestamp": NOW_MS + hour * HOUR, "bounded_timestamp": NOW_MS + (hour + 1) * HOUR}
    return {"startup_mode": "timestamp", "bounded_mode": "timestamp", **bounds}


def test_windows_go_with_their_claims_and_one_that_may_be_half_written_stays(in_memory: Pipeline) -> None:
    in_memory.run_type = "manual"
    day(in_memory, 1).run("old", **window(in_memory, 0))
    day(in_memory, 1).resolve("begun", **window(in_memory, 1)).job().begin()
    day(in_memory, 1).resolve("never begun", **window(in_memory, 2))
    day(in_memory, 3).run("young", **window(in_memory, 3))
    assert len(clean(in_memory, 2)) == 2
    left = [time_claim_of_name(name) for name in in_memory.log.windows()]
    assert [claim and claim.start_ms for claim in left] == [NOW_MS + hour * HOUR for hour in (1, 3)]
    with pytest.raises(BatchGone, match="was cleaned away"):
        day(in_memory, 3).resolve("old", **window(in_memory, 0))


def test_a_window_that_was_cleaned_away_is_planned_again_by_another_run(in_memory: Pipeline) -> None:
    in_memory.run_type = "manual"
    first = day(in_memory, 1).run("old", **window(in_memory, 0))
    clean(in_memory, 2)
    again = day(in_memory, 3).run("another", **window(in_memory, 0))
    assert again.batch.folder == first.batch.folder
    assert (first.batch.log.plan_number, again.batch.log.plan_number) == (1, 4), "after a commit, and who cleaned"
    read = in_memory.lake.offsets()
    assert all(len(offsets) == len(set(offsets)) for offsets in read.values())


@pytest.mark.parametrize("dies", [True, False])
def test_a_window_that_is_done_again_while_it_is_cleaned_is_done(in_memory: Pipeline, dies: bool) -> None:
    """Whenever the run comes, and whether the clean goes on after that or is cut off."""
    for moment in count():
        world = replace(in_memory, store=MemoryStore(), lake=Lake(), run_type="manual")
        day(world, 1).run("old", **window(world, 0))
        again: list[Run] = []
        left = count(moment, -1)

        def another_run(*_: str, world: Pipeline = world, again: list[Run] = again, left: Iterator[int] = left) -> None:
            if next(left) == 0:
                again.append(day(world, 3).resolve("another", **window(world, 0)))
                if dies:
                    raise Crash

        with suppress(Crash):
            clean(replace(world, store=Watched(world.store, another_run)), 2)
        if not again:
            break
        again[0].done()
        found = world.log.window(world.log.windows()[0])
        assert found is not None
        assert found.log.committed, "it is claimed, and can be done once more"
        assert all(len(rows) == len(set(rows)) for rows in world.lake.offsets().values())
    assert moment > 10


def test_who_slept_while_a_window_came_and_was_cleaned_plans_it_after_what_is_left(in_memory: Pipeline) -> None:
    in_memory.run_type = "manual"

    def days_pass() -> None:
        day(in_memory, 1).run("old", **window(in_memory, 0))
        clean(in_memory, 2)

    store = EventfulStore(in_memory.store, "/1.json", days_pass)
    late = replace(day(in_memory, 3), store=store).resolve("late", **window(in_memory, 0))
    assert late.batch.log.plan_number == 4, "after a commit, and who cleaned"
    late.done()


def test_what_runs_took_stays(five_days: Pipeline) -> None:
    before = [name for name in names(five_days.store) if "/runs/" in name]
    clean(five_days, 99)
    assert [name for name in names(five_days.store) if "/runs/" in name] == before
