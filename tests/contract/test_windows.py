"""A window is a batch whose name says its bounds (docs/log.md, "Windows"). Over both clusters."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import (
    AnotherAirflow,
    BatchClosed,
    BatchGone,
    DataLoss,
    InvalidRequest,
    NoPosition,
    OutputTaken,
    OverlappingRun,
    PlanReplaced,
    ReadNotVerified,
    WindowIncomplete,
    WindowOverlaps,
)
from airflow_kafka_offsets.kafka_values import RunKey, TopicPartition
from airflow_kafka_offsets.plan.window_claims import TimeClaim
from airflow_kafka_offsets.request.policies import Skip
from airflow_kafka_offsets.stores.local import LocalStore
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.contract.pipeline import Airflow, Lake, Pipeline, entries
from tests.contract.troubles import EventfulStore, Killed, die, names
from tests.engine import skip_window
from tests.stores.builders import as_it_is_now

HOUR = 3_600_000
T = 1_793_484_000_000  # 2026-10-31T22:00Z, so that four hours lie on both sides of a month's end


def hours(first: int, last: int) -> dict[str, Any]:
    return {
        "startup_mode": "timestamp",
        "startup_timestamp": T + first * HOUR,
        "bounded_mode": "timestamp",
        "bounded_timestamp": T + last * HOUR,
    }


def offsets(topic: str, start: int, end: int) -> dict[str, Any]:
    """Of partition 0; nothing of the others."""
    return {
        "startup_mode": "specific-offsets",
        "specific_offsets": {topic: {str(n): start if n == 0 else 0 for n in range(3)}},
        "bounded_mode": "specific-offsets",
        "bounded_offsets": {topic: {str(n): end if n == 0 else 0 for n in range(3)}},
    }


def fill(cluster: AnyCluster, topic: str) -> None:
    """Two records in each of four hours in partition 0; in partition 1 one of the second hour; partition 2 is empty."""
    cluster.produce(topic, timestamps_ms=[T + half * HOUR // 2 for half in range(8)])
    cluster.produce(topic, partition=1, timestamps_ms=[T + HOUR])


@pytest.fixture
def pipeline(cluster: AnyCluster, store: LocalStore, orders: str, group: str) -> Pipeline:
    fill(cluster, orders)
    return Pipeline(cluster.reader, store, orders, group, {}, run_type="manual")


@pytest.fixture
def in_memory(memory: AnyCluster, store: LocalStore, group: str) -> Pipeline:
    memory.create_topic("orders", 3)
    fill(memory, "orders")
    return Pipeline(memory.reader, store, "orders", group, {}, run_type="manual")


def test_the_month_ends_within_the_hours() -> None:
    assert (T + 2 * HOUR) % (24 * HOUR) == 0


# ── the same window ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.also_on_a_broker
def test_hourly_windows_read_each_record_once_in_any_order(cluster: AnyCluster, pipeline: Pipeline) -> None:
    found = [pipeline.run(f"hour-{n}", **hours(n, n + 1)).ranges[0] for n in (2, 0, 3, 1)]
    assert sorted(found) == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert pipeline.lake.offsets() == {0: list(range(8)), 1: [0]}


def test_a_windows_key_says_its_bounds_and_its_pipeline(in_memory: Pipeline) -> None:
    key = in_memory.resolve("one", **hours(1, 3)).batch_key
    assert re.fullmatch(r"20261031T230000Z--20261101T010000Z-[0-9a-f]{8}", key)
    other = in_memory.resolve("one", **hours(1, 3), pipeline_id="other").batch_key
    assert key != other
    assert key.rpartition("-")[0] == other.rpartition("-")[0]


def test_the_same_window_of_another_run_is_the_same_batch_replayed_into_the_same_place(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """A reprocessing backfill, a manual run."""
    first = pipeline.run("scheduled", **hours(0, 2))
    again = pipeline.resolve("backfill", run_type="backfill", **hours(0, 2))
    assert (again.batch_key, again.plan, again.splits) == (first.batch_key, first.plan, first.splits)
    assert again.sentence == (
        "does the window 2026-10-31T22:00Z to 2026-11-01T00:00Z once more: "
        "run dag/scheduled/resolve has committed it, and each run of a window writes it anew"
    )
    with pytest.raises(ReadNotVerified, match="it was not done again"):
        again.commit()
    again.done()
    assert pipeline.lake.offsets() == {0: [0, 1, 2, 3], 1: [0]}
    assert pipeline.resolve("scheduled", **hours(0, 2)).splits == (0,), "whoever has committed it"


def test_a_window_is_frozen_and_a_replay_says_what_the_look_up_would_find_now(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    run = pipeline.resolve("one", **hours(2, 4))
    cluster.produce(pipeline.topic, timestamps_ms=[T + 3 * HOUR] * 3)
    assert pipeline.resolve("one", **hours(2, 4)).plan == run.plan
    run.done()
    again = pipeline.resolve("two", **hours(2, 4))
    assert again.ranges[0] == (4, 8)
    assert again.sentence.endswith("each run of a window writes it anew")
    (warning,) = again.assignment.warnings
    assert warning.startswith("The same times would give 3 more offsets now, which this run does not read: ")
    assert f"{pipeline.topic}[0] 3. " in warning
    assert json.loads(warning[warning.index("{") : warning.rindex("}") + 1]) == {"kafka_offsets": {"re_plan": True}}
    assert again.batch.log.unread == 3, "show --windows has it from there"
    pipeline.resolve("three", re_plan=True, **hours(2, 4)).done()
    assert pipeline.resolve("four", **hours(2, 4)).assignment.warnings == ()


def test_a_topic_that_was_added_is_missed_by_each_window_and_said(in_memory: Pipeline) -> None:
    """Also where retention has taken as many records of the other topic, and where the window is still unfinished."""
    first = in_memory.resolve("one", **hours(0, 2))
    in_memory.cluster.create_topic("payments", 1)
    in_memory.cluster.produce(TopicPartition("payments", 0), [T] * 5)
    both = {"topics": "orders,payments", **hours(0, 2)}
    for run in ("two", "three"):
        again = in_memory.resolve(run, **both)
        assert again.plan == first.plan
        assert "payments[0] 5. " in again.assignment.warnings[0]
        assert again.batch.log.unread == 5
        again.done()
    in_memory.cluster.delete_records(TopicPartition("orders", 0), 4)
    left = in_memory.resolve("four", **both)
    assert left.splits == ()
    assert "payments[0] 5. " in left.assignment.warnings[0]


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "read"])
def test_a_window_is_not_planned_anew_over_rows_whose_records_are_gone(in_memory: Pipeline, committed: bool) -> None:
    """The rows would be replaced by fewer."""
    first = in_memory.resolve("one", **hours(0, 2)).spark()
    if committed:
        first.commit()
    in_memory.cluster.delete_records(TopicPartition("orders", 0), 3)
    before = entries(first.batch)
    with pytest.raises(DataLoss, match=r"orders\[0\]: start offset 0 is below log start offset 3 .*\n.*data_loss"):
        in_memory.resolve("two", re_plan=True, **hours(0, 2))
    assert entries(first.batch) == before
    assert in_memory.lake.offsets() == {0: [0, 1, 2, 3], 1: [0]}
    again = in_memory.resolve("two", re_plan=True, data_loss="advance", **hours(0, 2))
    assert again.plan.reason is not None
    assert again.plan.reason.startswith("re_plan; records are gone: orders[0]: start offset 0 ")
    assert again.plan.reason.endswith("(3 offsets are gone)")
    again.done()
    assert in_memory.lake.offsets() == {0: [3], 1: [0]}


def test_a_replay_is_not_refused_for_what_it_does_not_read(in_memory: Pipeline) -> None:
    """The same look-up would be refused now."""
    in_memory.run("one", **hours(0, 2))
    end = {"require_complete_window": True, "idle_timeout": "P999D"}
    with pytest.raises(WindowIncomplete):
        in_memory.resolve("another", **hours(8, 9), **end)
    in_memory.cluster.delete_records(TopicPartition("orders", 0), 8)
    in_memory.run("empty", **hours(5, 6))
    again = in_memory.resolve("two", **hours(5, 6), **end)
    assert again.sentence.startswith("does the window 2026-11-01T03:00Z to 2026-11-01T04:00Z once more: ")
    assert again.sentence.endswith("writes it anew"), "and nothing of what would be found"


def test_a_window_may_be_planned_anew_after_its_commit(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Then it is unfinished until the next one."""
    first = pipeline.run("one", **hours(2, 4))
    cluster.produce(pipeline.topic, timestamps_ms=[T + 3 * HOUR] * 3)
    again = pipeline.resolve("two", re_plan=True, **hours(2, 4))
    assert (again.batch_key, again.ranges[0], again.plan.reason) == (first.batch_key, (4, 11), "re_plan")
    with pytest.raises(PlanReplaced):
        first.commit()
    with pytest.raises(ReadNotVerified):
        again.commit()
    again.done()
    assert pipeline.lake.offsets() == {0: list(range(4, 11))}


def test_an_unfinished_window_is_finished_by_another_run(cluster: AnyCluster, pipeline: Pipeline) -> None:
    failed = pipeline.resolve("failed", **hours(0, 2)).spark()
    run = pipeline.resolve("next", **hours(0, 2))
    assert (run.plan, entries(run.batch)) == (failed.plan, ["plan", "taken"])
    run.done()
    assert pipeline.lake.offsets() == {0: [0, 1, 2, 3], 1: [0]}


def test_a_run_waits_for_whoever_is_at_work_on_its_window(in_memory: Pipeline) -> None:
    held = in_memory.resolve("one", **hours(0, 2))
    in_memory.airflow.running = {"one"}
    with pytest.raises(OverlappingRun, match="run dag/one/resolve") as refused:
        in_memory.resolve("two", **hours(0, 2))
    assert in_memory.store.get(refused.value.next_entry) is None
    in_memory.resolve("another hour", **hours(2, 3))
    held.done()
    assert in_memory.store.get(refused.value.next_entry) is not None
    assert in_memory.resolve("two", **hours(0, 2)).splits == (0,)


def test_of_two_that_plan_one_window_in_the_same_moment_both_have_the_same_plan(in_memory: Pipeline) -> None:
    made = []
    store = EventfulStore(in_memory.store, "/1.json", lambda: made.append(in_memory.resolve("fast", **hours(0, 2))))
    run = replace(in_memory, store=store).resolve("slow", **hours(0, 2))
    assert run.plan == made[0].plan


def test_another_airflow_goes_on_with_no_window_of_this_one(in_memory: Pipeline) -> None:
    """Development was the first to plan the next hour, into its own output, and production could not."""
    in_memory.run("one", **hours(0, 1))
    other = replace(in_memory, airflow=Airflow("https://staging.example"))
    with pytest.raises(AnotherAirflow):
        other.resolve("two", **hours(1, 2))
    assert in_memory.run("two", **hours(1, 2)).number is None
    assert other.run("three", **hours(2, 3), another_airflow="take-over").number is None


def test_another_airflow_does_no_window_of_this_one(in_memory: Pipeline) -> None:
    in_memory.run("one", **hours(0, 1))
    other = replace(in_memory, airflow=Airflow("https://staging.example"))
    with pytest.raises(AnotherAirflow):
        other.resolve("two", **hours(0, 1))
    assert other.run("two", **hours(0, 1), another_airflow="take-over").plan.batch is not None


# ── apart from the log ────────────────────────────────────────────────────────────────────────────────────────────────


def test_windows_touch_neither_the_position_nor_the_group(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 0): 3})
    with cluster.live_member(pipeline.group, pipeline.topic):
        outcome = pipeline.resolve("window", **hours(0, 2)).spark().commit()
    assert outcome.group.left_alone == "a window moves no group"
    assert pipeline.held() == {0: 3}
    assert pipeline.log.newest() is None
    live = replace(pipeline, lake=Lake(), run_type="scheduled")
    assert live.run("live", startup_mode="earliest-offset", output_name="live").ranges[0] == (0, 8)
    pipeline.run("another window", **hours(2, 4))
    assert live.at() == pipeline.held() == {0: 8, 1: 1, 2: 0}


def test_a_moved_group_does_not_stop_a_window(cluster: AnyCluster, pipeline: Pipeline) -> None:
    replace(pipeline, lake=Lake()).run("live", startup_mode="earliest-offset", output_name="live")
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 0): 3})
    pipeline.run("window", **hours(0, 2))
    assert pipeline.held()[0] == 3


def test_windows_and_the_log_of_one_pipeline_share_no_output(in_memory: Pipeline) -> None:
    """Every record would be there under two keys."""
    in_memory.run("live", startup_mode="earliest-offset", output_name="lake/orders")
    with pytest.raises(OutputTaken, match="Output lake/orders belongs to pipeline 'pipeline', and the windows of"):
        in_memory.resolve("window", **hours(0, 1), output_name="lake/orders")


# ── overlap ───────────────────────────────────────────────────────────────────────────────────────────────────────────


OVERLAPS: list[Any] = [
    # the first window, the second, an hour of the second that is free
    ((0, 2), (1, 3), 2),
    ((1, 3), (0, 2), 0),
    ((0, 4), (1, 2), None),
    ((1, 2), (0, 4), 3),
    ((2, 3), (1, 4), 1),
    ((0, 4), (3, 4), None),
]


@pytest.mark.parametrize(("first", "second", "free"), OVERLAPS, ids=str)
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "open"])
def test_a_window_that_overlaps_another_is_refused_withdrawn_and_in_nobodys_way(
    in_memory: Pipeline, first: tuple[int, int], second: tuple[int, int], free: int | None, committed: bool
) -> None:
    run = in_memory.resolve("first", **hours(*first))
    if committed:
        run.done()
    with pytest.raises(WindowOverlaps) as refused:
        in_memory.resolve("second", **hours(*second))
    assert refused.value.withdrawn
    [line] = refused.value.others
    assert line.endswith(", by run dag/first/resolve")
    assert "clear its run" in str(refused.value)
    if not committed:
        assert in_memory.resolve("first", **hours(*first)).plan == run.plan
        run.done()
    assert in_memory.lake.offsets()[0] == list(range(2 * first[0], 2 * first[1]))
    if free is not None:
        assert in_memory.run("third", **hours(free, free + 1)).ranges[0] == (2 * free, 2 * free + 2)


def test_neighbours_are_in_nobodys_way_and_their_names_alone_tell(in_memory: Pipeline) -> None:
    """A plan reads no other window's log, where its bounds say that they have nothing in common.

    Where it does not join the last one before it, that one is read: it may have given way.
    """
    for number in range(4):
        in_memory.run(f"hour-{number}", **hours(number, number + 1))
    read: list[str] = []

    class Noting(EventfulStore):
        def get(self, name: str) -> bytes | None:
            read.append(name)
            return self.store.get(name)

    replace(in_memory, store=Noting(in_memory.store, "never", None)).run("hour-9", **hours(9, 10))
    others = [name for name in read if "/windows/" in name and TimeClaim(T + 9 * HOUR, T + 10 * HOUR).name not in name]
    assert all(f"/{TimeClaim(T + 3 * HOUR, T + 4 * HOUR).name}/" in name for name in others)


def test_a_window_that_does_not_join_the_one_before_it_says_which_time_no_run_has_planned(
    in_memory: Pipeline,
) -> None:
    """After a pause without catchup all runs were green, and a whole month was in no output."""
    said = "No run has planned a window for {} to {} yet: the last window before this one ends there"
    assert in_memory.run("in September", **hours(-1000, -999)).plan.warnings == ()
    (pause,) = in_memory.run("after a pause", **hours(-1, 0)).plan.warnings
    assert pause.startswith(said.format("2026-09-20T07:00Z", "2026-10-31T21:00Z"))
    assert in_memory.run("joins", **hours(0, 1)).plan.warnings == ()
    (day,) = in_memory.run("in another month", **hours(3, 4)).plan.warnings
    assert day.startswith(said.format("2026-10-31T23:00Z", "2026-11-01T01:00Z"))
    assert in_memory.run("between", **hours(1, 3)).plan.warnings == ()


def test_a_window_that_gave_way_leaves_its_time_to_be_planned(in_memory: Pipeline) -> None:
    in_memory.run("first", **hours(0, 1))
    in_memory.run("second", **hours(2, 3))
    with pytest.raises(WindowOverlaps):
        in_memory.resolve("both", **hours(1, 3))
    found = in_memory.run("third", **hours(3, 4)).plan.warnings
    assert found == ()
    with pytest.raises(WindowOverlaps):
        in_memory.resolve("later", **hours(3, 5))
    assert (
        in_memory.run("last", **hours(5, 6))
        .plan.warnings[0]
        .startswith("No run has planned a window for 2026-11-01T02:00Z to 2026-11-01T03:00Z yet")
    )


def test_a_window_that_gave_way_is_planned_anew_once_the_other_is_gone(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("first", **hours(0, 2))
    with pytest.raises(WindowOverlaps):
        pipeline.resolve("second", **hours(1, 4))
    with pytest.raises(WindowOverlaps) as again:
        pipeline.resolve("second", **hours(1, 4))
    assert again.value.withdrawn, "also the second time"
    emptied_by_hand(pipeline, "first", 0, 2)
    run = pipeline.resolve("second", **hours(1, 4))
    assert (run.ranges[0], run.plan.reason, run.plan.withdrawn) == ((2, 8), "it was withdrawn", False)
    run.done()
    assert pipeline.lake.offsets() == {0: list(range(2, 8)), 1: [0]}


def emptied_by_hand(pipeline: Pipeline, run: str, first: int, last: int) -> None:
    skip_window(pipeline.log, Skip(TimeClaim(T + first * HOUR, T + last * HOUR).name), now_ms=NOW_MS, dry_run=False)
    pipeline.run(run, **hours(first, last))


def test_a_window_that_a_job_has_begun_is_not_withdrawn(in_memory: Pipeline) -> None:
    """A job of the run whose claim came later: rows may be there, so it stays until a person empties it."""
    second = in_memory.resolve("second", **hours(1, 3))
    second.job().begin().write()
    remove_claims(in_memory, 1, 3)  # as if it had not got there before it died
    in_memory.resolve("first", **hours(0, 2))
    with pytest.raises(WindowOverlaps) as refused:
        in_memory.resolve("second", **hours(1, 3))
    assert not refused.value.withdrawn
    assert "kafka-offsets skip --window empties it" in str(refused.value)
    assert as_it_is_now(second.batch).log.plan == second.plan
    with pytest.raises(WindowOverlaps, match="by run dag/second/resolve"):
        in_memory.resolve("first", **hours(0, 2))


def test_a_window_whose_job_tells_nobody_that_it_has_begun_is_not_withdrawn_once_it_was_handed_over(
    in_memory: Pipeline,
) -> None:
    """A job that is given its offsets may have written; the window that was never handed over is withdrawn as ever."""
    second = in_memory.resolve("second", **hours(1, 3), jobs_tell=False)
    remove_claims(in_memory, 1, 3)
    in_memory.resolve("first", **hours(0, 2), jobs_tell=False)
    with pytest.raises(WindowOverlaps) as refused:
        in_memory.resolve("second", **hours(1, 3), jobs_tell=False)
    assert not refused.value.withdrawn
    assert as_it_is_now(second.batch).log.plan == second.plan
    for _ in range(2):
        with pytest.raises(WindowOverlaps) as refused:
            in_memory.resolve("third", **hours(1, 4), jobs_tell=False)
        assert refused.value.withdrawn


def test_of_two_windows_that_have_both_begun_one_is_emptied_and_the_other_goes_on(in_memory: Pipeline) -> None:
    second = in_memory.resolve("second", **hours(1, 3)).spark()
    remove_claims(in_memory, 1, 3)
    first = in_memory.resolve("first", **hours(0, 2)).spark()
    for run, window in ((second, (1, 3)), (first, (0, 2))):
        with pytest.raises(WindowOverlaps):
            in_memory.resolve(run.key, **hours(*window))
    emptied_by_hand(in_memory, "second", 1, 3)
    in_memory.run("first", **hours(0, 2))
    assert in_memory.lake.offsets() == {0: [0, 1, 2, 3], 1: [0]}


def test_a_job_that_begins_while_its_window_is_withdrawn_keeps_it_open(in_memory: Pipeline) -> None:
    """It may write: so the empty plan is not committed, its split is overwritten, and the next resolve plans anew."""
    second = in_memory.resolve("second", **hours(1, 3))
    remove_claims(in_memory, 1, 3)
    in_memory.run("first", **hours(0, 2))
    store = EventfulStore(in_memory.store, "/2.json", lambda: second.job().begin())
    with pytest.raises(WindowOverlaps) as refused:
        replace(in_memory, store=store).resolve("second", **hours(1, 3))
    assert not refused.value.withdrawn
    window = in_memory.log.window(second.batch.name.removeprefix("windows/"))
    assert window is not None
    assert (window.log.plan.withdrawn, window.log.committed, window.log.plan.overwrites) == (True, None, (0,))
    emptied_by_hand(in_memory, "first", 0, 2)
    again = in_memory.resolve("second", **hours(1, 3))
    assert (again.ranges[0], again.plan.reason) == ((2, 6), "it was withdrawn")


def remove_claims(pipeline: Pipeline, first: int, last: int) -> None:
    for name in names(pipeline.store):
        if "window-claims" in name and f"{TimeClaim(T + first * HOUR, T + last * HOUR).name}." in name:
            pipeline.store.delete(name)


def test_of_two_windows_that_plan_in_the_same_moment_one_finds_the_other(in_memory: Pipeline) -> None:
    """The slower one has its plan on record and not its claim; it claims, and then looks."""
    fast = []
    store = EventfulStore(
        in_memory.store, "window-claims", lambda: fast.append(in_memory.resolve("fast", **hours(0, 2)))
    )
    with pytest.raises(WindowOverlaps, match="by run dag/fast/resolve"):
        replace(in_memory, store=store).resolve("slow", **hours(1, 3))
    fast[0].done()
    assert in_memory.lake.offsets() == {0: [0, 1, 2, 3], 1: [0]}


def test_of_two_windows_that_have_both_claimed_the_one_that_looks_gives_way(in_memory: Pipeline) -> None:
    def rival() -> None:
        with pytest.raises(WindowOverlaps, match="by run dag/first/resolve") as refused:
            in_memory.resolve("rival", **hours(1, 2))
        assert refused.value.withdrawn

    store = EventfulStore(in_memory.store, "window-claims/2026-11", rival, after=True)
    run = replace(in_memory, store=store).resolve("first", **hours(1, 3))
    assert run.ranges[0] == (2, 6)


@pytest.mark.parametrize("before", ["window-claims/2026-10", "window-claims/2026-11"])
def test_a_run_that_dies_before_it_has_claimed_every_month_claims_them_at_the_retry(
    in_memory: Pipeline, before: str
) -> None:
    with pytest.raises(Killed):
        replace(in_memory, store=EventfulStore(in_memory.store, before, die)).resolve("one", **hours(1, 3))
    in_memory.resolve("one", **hours(1, 3))
    for window in ((0, 2), (2, 4)):
        with pytest.raises(WindowOverlaps):
            in_memory.resolve("two", **hours(*window))


def test_a_window_is_claimed_at_every_resolve_that_is_not_a_replay(in_memory: Pipeline) -> None:
    """Also where another process planned it and died."""
    in_memory.resolve("one", **hours(0, 2))
    remove_claims(in_memory, 0, 2)
    in_memory.resolve("one", **hours(0, 2))
    with pytest.raises(WindowOverlaps):
        in_memory.resolve("two", **hours(0, 1))


def test_an_empty_window_that_is_not_committed_is_in_the_way(in_memory: Pipeline) -> None:
    """Records may come before it is planned anew."""
    run = in_memory.resolve("empty", **hours(9, 10))
    assert run.plan.empty
    with pytest.raises(WindowOverlaps):
        in_memory.resolve("two", **hours(8, 10))
    run.commit()
    assert in_memory.resolve("two", **hours(8, 10)).plan.empty


def test_another_pipeline_has_windows_of_its_own(in_memory: Pipeline) -> None:
    in_memory.resolve("one", **hours(0, 2))
    assert in_memory.resolve("two", **hours(1, 2), pipeline_id="for the auditors").ranges[0] == (2, 4)


def test_windows_by_topic_overlap_only_where_a_topic_does(in_memory: Pipeline, memory: AnyCluster) -> None:
    """From the earliest start to the latest end they all do."""
    memory.create_topic("other")
    in_memory.parameters["topics"] = ["orders", "other"]

    def window(hour: int, later: int) -> dict[str, Any]:
        starts = {"orders": T + hour * HOUR, "other": T + (hour + later) * HOUR}
        ends = {name: start + HOUR for name, start in starts.items()}
        return {**hours(0, 1), "startup_timestamp": starts, "bounded_timestamp": ends}

    first = in_memory.resolve("first", **window(0, 2))
    assert in_memory.resolve("next", **window(1, 2)).batch_key != first.batch_key
    with pytest.raises(WindowOverlaps, match="dag/first/resolve"):
        in_memory.resolve("first of the other topic again", **window(2, 0))


# ── by explicit offsets ───────────────────────────────────────────────────────────────────────────────────────────────


def test_windows_by_offsets_are_compared_by_partition(cluster: AnyCluster, pipeline: Pipeline) -> None:
    first = pipeline.run("by hand", **offsets(pipeline.topic, 0, 4))
    with pytest.raises(WindowOverlaps, match=rf"offsets 0 to 4 of {pipeline.topic}\[0\]"):
        pipeline.resolve("again", **offsets(pipeline.topic, 3, 6))
    assert pipeline.run("rest", **offsets(pipeline.topic, 4, 8)).ranges[0] == (4, 8)
    assert pipeline.resolve("the same", **offsets(pipeline.topic, 0, 4)).batch_key == first.batch_key
    assert pipeline.lake.offsets() == {0: list(range(8))}
    assert pipeline.log.newest() is None


def test_the_same_offsets_of_a_topic_that_was_made_anew_are_other_records(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    old = pipeline.run("one", **offsets(pipeline.topic, 0, 4))
    cluster.recreate_topic(pipeline.topic)
    cluster.produce(pipeline.topic, 6)
    new = pipeline.run("two", **offsets(pipeline.topic, 0, 6))
    assert new.batch_key != old.batch_key


def test_on_a_schedule_explicit_offsets_make_no_window(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """They would be read again and again."""
    run = pipeline.resolve("one", run_type="scheduled", **offsets(pipeline.topic, 0, 4))
    assert run.number == 1


# ── records that are gone ─────────────────────────────────────────────────────────────────────────────────────────────


WINDOWS: list[Any] = [
    pytest.param(lambda topic: hours(0, 2), id="by time"),
    pytest.param(lambda topic: offsets(topic, 0, 4), id="by offsets"),
]


@pytest.mark.parametrize("of", WINDOWS)
@pytest.mark.parametrize("data_loss", ["fail", "advance"])
def test_a_committed_window_whose_records_are_gone_is_left_as_it_is(
    cluster: AnyCluster, pipeline: Pipeline, of: Any, data_loss: str
) -> None:
    first = pipeline.run("one", **of(pipeline.topic))
    rows = pipeline.lake.offsets()
    cluster.delete_records(pipeline.topic, 3)
    run = pipeline.resolve("one", data_loss=data_loss, **of(pipeline.topic))
    assert (run.splits, run.plan) == ((), first.plan)
    assert run.sentence.endswith("it is committed, and its records are gone from Kafka")
    run.commit()
    assert pipeline.lake.offsets() == rows
    with pytest.raises(DataLoss, match=r"is committed, and its output stays as it is\. Leave out redo"):
        pipeline.resolve("one", redo=True, data_loss=data_loss, **of(pipeline.topic))


@pytest.mark.parametrize("of", WINDOWS)
def test_an_unfinished_window_whose_records_are_gone(cluster: AnyCluster, pipeline: Pipeline, of: Any) -> None:
    first = pipeline.resolve("one", **of(pipeline.topic))
    cluster.delete_records(pipeline.topic, 3)
    with pytest.raises(DataLoss, match=r"start offset 0 .*is below log start offset 3"):
        pipeline.resolve("one", **of(pipeline.topic))
    run = pipeline.resolve("one", data_loss="advance", **of(pipeline.topic))
    assert (run.batch_key, run.ranges[0]) == (first.batch_key, (3, 4))
    run.done()
    assert pipeline.lake.offsets()[0] == [3]


@pytest.mark.parametrize("gone", ["made anew", "deleted"])
def test_an_unfinished_window_whose_topic_is_gone_is_not_planned_anew_in_silence(
    in_memory: Pipeline, memory: AnyCluster, gone: str
) -> None:
    memory.create_topic("more", 1)
    memory.produce("more", 1)
    both = hours(0, 4) | {"topics": None, "topic_pattern": f"{in_memory.topic}|more"}
    in_memory.resolve("one", **both)
    if gone == "made anew":
        memory.recreate_topic(in_memory.topic)
    else:
        in_memory.cluster.topics.pop(in_memory.topic)
    with pytest.raises(DataLoss, match=f"{in_memory.topic}: it"):
        in_memory.resolve("one", **both)
    assert in_memory.resolve("one", **both, data_loss="advance").plan.reason


@pytest.mark.parametrize("of", WINDOWS)
def test_an_unfinished_window_whose_records_are_gone_and_that_is_verified_is_finished(
    cluster: AnyCluster, pipeline: Pipeline, of: Any
) -> None:
    pipeline.resolve("one", **of(pipeline.topic)).spark()
    cluster.delete_records(pipeline.topic, 8)
    run = pipeline.resolve("one", data_loss="advance", **of(pipeline.topic))
    assert run.splits == ()
    assert run.commit().by_this
    assert pipeline.lake.offsets()[0] == [0, 1, 2, 3]


# ── skip ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "begun"])
def test_a_window_that_is_skipped_holds_no_row_and_is_in_nobodys_way(
    cluster: AnyCluster, pipeline: Pipeline, committed: bool
) -> None:
    run = pipeline.resolve("one", splits=2, **hours(0, 2)).spark()
    if committed:
        run.commit()
    name = run.batch.name.removeprefix("windows/")
    before, after = skip_window(pipeline.log, Skip(name, reason="test data"), now_ms=NOW_MS, dry_run=True)
    assert (before, after.empty) == (run.plan, True)
    assert skip_window(pipeline.log, Skip(run.batch_key, reason="test data"), now_ms=NOW_MS, dry_run=False)[1] == after
    again = pipeline.resolve("one", **hours(0, 2))
    assert (again.plan.empty, again.splits, again.plan.reason) == (True, (0, 1), "skip: test data")
    again.done()
    assert pipeline.lake.offsets() == {}
    assert pipeline.run("other", **hours(0, 1)).ranges[0] == (0, 2)


def test_a_window_may_begin_after_an_offset(in_memory: Pipeline) -> None:
    failed = in_memory.resolve("one", **hours(0, 2))
    run = in_memory.resolve("two", **hours(0, 2), skip={"batch": failed.batch_key, "past": "orders-0:0"})
    assert run.ranges[0] == (1, 4)
    again = in_memory.resolve("two", **hours(0, 2), skip={"batch": failed.batch_key, "past": "orders-0:0"})
    assert again.plan == run.plan


def test_F16_of_a_window_one_record_may_be_left_out_until_a_person_has_it_planned_anew(in_memory: Pipeline) -> None:
    failed = in_memory.resolve("one", **hours(0, 2))
    run = in_memory.resolve("two", **hours(0, 2), skip={"batch": failed.batch_key, "only": "orders-0:1"})
    assert (run.plan.skipped, run.splits) == (1, (0, 1))
    anew = in_memory.resolve("two", **hours(0, 2), re_plan=True)
    assert (anew.ranges[0], anew.plan.skipped) == ((0, 4), 0)


def test_a_run_that_has_left_a_record_out_of_a_window_does_it_again_when_it_is_cleared(in_memory: Pipeline) -> None:
    """A run keeps its conf."""
    failed = in_memory.resolve("failed", **hours(0, 2))
    order = {"skip": {"batch": failed.batch_key, "only": "orders-0:0"}}
    done = in_memory.run("one", **hours(0, 2), **order)
    assert in_memory.run("one", **hours(0, 2), **order).plan == done.plan
    with pytest.raises(BatchClosed):
        in_memory.resolve("another", **hours(0, 2), **order)


def test_a_word_that_names_another_window_is_refused(in_memory: Pipeline) -> None:
    run = in_memory.resolve("one", **hours(0, 2))
    with pytest.raises(BatchClosed, match="this run's window is"):
        in_memory.resolve("one", **hours(0, 2), skip="0000000001-20261122T022057-k3f9")
    run.done()
    with pytest.raises(BatchClosed, match="it is committed; use re_plan"):
        in_memory.resolve("one", **hours(0, 2), skip=run.batch_key)
    with pytest.raises(NoPosition, match="has no window"):
        skip_window(in_memory.log, Skip("nothing"), now_ms=NOW_MS, dry_run=False)


def test_a_window_takes_no_restart_and_no_cap(in_memory: Pipeline) -> None:
    with pytest.raises(InvalidRequest) as refused:
        in_memory.resolve("one", **hours(0, 2), restart="w", max_records=1)
    assert len(refused.value.problems) == 2


# ── cleaned away ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cleared_run_whose_window_was_cleaned_away_is_told_so(in_memory: Pipeline) -> None:
    """Its records may be gone by now: what would be found is not what its output has."""
    run = in_memory.run("one", **hours(0, 2), output_name="lake/hours")
    for name in names(in_memory.store):
        if "/windows/" in name or "window-claims" in name:
            in_memory.store.delete(name)
    with pytest.raises(BatchGone, match=r"was cleaned away\. Its rows are in lake/hours"):
        in_memory.resolve("one", **hours(0, 2))
    assert in_memory.log.batch_of_run(RunKey("dag", "one", "resolve")).key == run.batch_key  # type: ignore[union-attr]
    assert in_memory.resolve("another run", **hours(0, 2)).batch_key == run.batch_key
