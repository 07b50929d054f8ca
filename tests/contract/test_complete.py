"""Whether a window is complete, over both clusters: what is asked, what the plan says, and what came too late."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

import pytest

from airflow_kafka_offsets.batch.measured_lag import look_for_arrivals
from airflow_kafka_offsets.errors import (
    ClusterChanged,
    DataLoss,
    TopicRecreated,
    TopicVanished,
    WindowIncomplete,
    WindowOverlaps,
)
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.completeness import Arrived
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.window_claims import TimeClaim
from airflow_kafka_offsets.request.policies import Skip
from airflow_kafka_offsets.stores.local import LocalStore
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.contract.pipeline import Pipeline, ranges
from tests.engine import skip_window

HOUR = 3_600_000


def look(cluster: AnyCluster, topic: str, end_ms: int, isolation_level: Any = "read_committed") -> list[Arrived]:
    partitions = [TopicPartition(topic, number) for number in range(3)]
    found = look_for_arrivals(cluster.reader, dict.fromkeys(partitions, end_ms), isolation_level)
    return [found[tp] for tp in partitions]


def window(start_ms: int, end_ms: int, **more: Any) -> dict[str, Any]:
    bounds = {"startup_timestamp": start_ms, "bounded_timestamp": end_ms}
    return {"startup_mode": "timestamp", "bounded_mode": "timestamp", **bounds, **more}


@pytest.fixture
def pipeline(cluster: AnyCluster, store: LocalStore, orders: str, group: str) -> Pipeline:
    return Pipeline(cluster.reader, store, orders, group, {})


def planned(pipeline: Pipeline, run: str, **parameters: Any) -> Plan:
    return pipeline.resolve(run, **parameters).plan


# ── the look ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_a_record_at_the_end_a_record_before_it_and_none(cluster: AnyCluster, orders: str, level: str) -> None:
    cluster.produce(orders, timestamps_ms=[NOW_MS])
    cluster.produce(orders, partition=1, timestamps_ms=[NOW_MS - 1])
    assert look(cluster, orders, NOW_MS, level) == [Arrived(NOW_MS, True), Arrived(NOW_MS - 1), Arrived()]


def test_for_a_committed_reader_an_open_transaction_is_not_an_empty_partition(cluster: AnyCluster, orders: str) -> None:
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(orders, 0), [NOW_MS])
    assert look(cluster, orders, NOW_MS)[0] == Arrived(None, False, True)
    assert look(cluster, orders, NOW_MS, "read_uncommitted")[0] == Arrived(NOW_MS, True)
    transaction.commit()
    assert look(cluster, orders, NOW_MS)[0].past_end


def test_a_transaction_behind_a_decided_record_past_the_end_is_the_next_windows(
    cluster: AnyCluster, orders: str
) -> None:
    cluster.produce(orders, timestamps_ms=[NOW_MS])
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(orders, 0), [NOW_MS + 10])
    found = look(cluster, orders, NOW_MS)[0]
    assert (found.past_end, found.newest_ms) == (True, None)
    transaction.abort()


class Counting:
    """The calls that a reader gets."""

    def __init__(self, reader: Any) -> None:
        self.reader = reader
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self.reader, name)


def test_a_look_is_one_call_however_many_partitions_there_are(cluster: AnyCluster, orders: str) -> None:
    counting = Counting(cluster.reader)
    partitions = [TopicPartition(orders, number) for number in range(3)]
    look_for_arrivals(counting, dict.fromkeys(partitions, NOW_MS), "read_uncommitted")
    assert counting.calls == ["newest_timestamps"]


# ── the plan ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def columns(plan: Plan) -> tuple[bool | None, int | None, list[int | None]]:
    return plan.found.window_complete, plan.found.low_watermark_ms, [p.newest_timestamp for p in plan.partitions]


def test_a_plan_tells_the_newest_timestamps_and_the_low_watermark(cluster: AnyCluster, pipeline: Pipeline) -> None:
    end = pipeline.now_ms - HOUR
    cluster.produce(pipeline.topic, timestamps_ms=[end - 5, end + 50])
    cluster.produce(pipeline.topic, partition=1, timestamps_ms=[end + 20])
    plan = planned(pipeline, "one", **window(end - HOUR, end))
    assert columns(plan) == (True, end + 20, [end + 50, end + 20, None])


def test_a_plan_whose_end_is_no_time_asks_for_none_of_it(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 1)
    pipeline.cluster = Counting(cluster.reader)
    plan = planned(pipeline, "one", startup_mode="earliest-offset")
    assert columns(plan) == (None, None, [None, None, None])
    assert not {"newest_timestamps", "topic_settings"} & set(pipeline.cluster.calls)


def test_a_window_that_has_just_ended_waits_for_an_empty_partition_and_no_longer_than_the_timeout(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    end = pipeline.now_ms
    for partition in (0, 1):
        cluster.produce(pipeline.topic, partition=partition, timestamps_ms=[end + 1])
    just_ended = window(end - HOUR, end, require_complete_window=True)
    with pytest.raises(WindowIncomplete, match=rf"{pipeline.topic}\[2\]: it has no record") as refused:
        planned(pipeline, "one", **just_ended, idle_timeout="PT1H")
    assert len(refused.value.partitions) == 1
    assert planned(pipeline, "one", **just_ended, idle_timeout=0).found.window_complete


def test_a_window_that_is_not_complete_is_planned_and_says_so(cluster: AnyCluster, pipeline: Pipeline) -> None:
    end = pipeline.now_ms
    plan = planned(pipeline, "one", **window(end - HOUR, end), idle_timeout="PT1H")
    [words] = plan.warnings
    assert words.startswith("The end is not reached yet: 3 partitions may still get records before ")
    assert planned(pipeline, "two", **window(end - 3 * HOUR, end - 2 * HOUR), idle_timeout="PT1H").warnings == ()


def test_where_the_broker_stamps_the_records_the_clock_completes_a_window(
    cluster: AnyCluster, store: LocalStore, group: str
) -> None:
    name = f"append-time-{group}"
    cluster.create_topic(name, 2, log_append_time=True)
    pipeline = Pipeline(cluster.reader, store, name, group, {})
    end = pipeline.now_ms - 60_000
    plan = planned(pipeline, "one", **window(end - HOUR, end), idle_timeout="PT1H", require_complete_window=True)
    assert (plan.found.window_complete, plan.found.low_watermark_ms) == (True, end)


@pytest.mark.also_on_a_broker
def test_an_open_transaction_makes_a_window_incomplete_for_a_committed_reader(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    end = pipeline.now_ms - 24 * HOUR
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(pipeline.topic, 0), [end - 1, end])
    committed = window(end - HOUR, end, isolation_level="read_committed", require_complete_window=True)
    with pytest.raises(WindowIncomplete, match="records of an open transaction are not decided yet"):
        planned(pipeline, "one", **committed)
    transaction.commit()
    assert ranges(planned(pipeline, "one", **committed))[0] == (0, 1)


class ProducesBehindTheEnd:
    """Records are written between the look at the ends of the logs and the one for the times."""

    def __init__(self, cluster: AnyCluster, topic: str, timestamps_ms: list[int]) -> None:
        self.cluster = cluster
        self.topic = topic
        self.timestamps_ms = timestamps_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cluster.reader, name)

    def offsets_for_times(self, times_ms: Any, isolation_level: Any) -> dict[TopicPartition, int]:
        self.cluster.produce(self.topic, timestamps_ms=self.timestamps_ms)
        self.timestamps_ms = []
        return self.cluster.reader.offsets_for_times(times_ms, isolation_level)


def test_a_record_past_the_end_that_came_while_the_plan_was_made_bounds_the_window_and_completes_nothing(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """What came in front of it is in the range, for the next window starts behind it. Complete it was not yet."""
    end = pipeline.now_ms
    cluster.produce(pipeline.topic, timestamps_ms=[end - 10])
    produce(cluster, pipeline.topic, end + 1, partitions=(1, 2))
    pipeline.cluster = ProducesBehindTheEnd(cluster, pipeline.topic, [end - 5, end + 5])
    first = planned(pipeline, "one", **window(end - HOUR, end), idle_timeout="PT1H")
    assert (ranges(first)[0], first.found.window_complete) == ((0, 2), False)


# ── what came too late ────────────────────────────────────────────────────────────────────────────────────────────────


def late(plan: Plan) -> list[int]:
    return [p.late for p in plan.partitions]


def produce(cluster: AnyCluster, topic: str, *timestamps_ms: int, partitions: Collection[int] = (0,)) -> None:
    for partition in partitions:
        cluster.produce(topic, partition=partition, timestamps_ms=timestamps_ms)


def test_records_that_came_too_late_for_a_window_are_counted_by_the_next_one(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    start = NOW_MS - 48 * HOUR
    produce(cluster, pipeline.topic, start + 1, start + 2)
    planned(pipeline, "earlier", **window(start - HOUR, start))
    first = planned(pipeline, "first", **window(start, start + HOUR))
    produce(cluster, pipeline.topic, start + 3, start + 4, start + HOUR)

    second = planned(pipeline, "second", **window(start + HOUR, start + 2 * HOUR))

    assert (ranges(first)[0], ranges(second)[0]) == ((0, 2), (4, 5))
    assert late(second) == [2, 0, 0]
    assert any("2 offsets came too late" in words and "dag/first/resolve" in words for words in second.warnings)
    assert late(pipeline.resolve("second", **window(start + HOUR, start + 2 * HOUR)).plan) == [2, 0, 0], "it is frozen"


def test_a_window_that_is_planned_anew_reads_them_and_then_nothing_is_late(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    start = NOW_MS - 48 * HOUR
    produce(cluster, pipeline.topic, start + 1)
    planned(pipeline, "first", **window(start, start + HOUR))
    produce(cluster, pipeline.topic, start + 3, start + HOUR)

    again = planned(pipeline, "first", **window(start, start + HOUR), re_plan=True)

    second = planned(pipeline, "second", **window(start + HOUR, start + 2 * HOUR))
    assert (ranges(again)[0], ranges(second)[0], late(second)) == ((0, 2), (2, 3), [0, 0, 0])
    assert second.warnings == ()


def test_a_replaced_window_counts_what_came_too_late_as_well(cluster: AnyCluster, pipeline: Pipeline) -> None:
    start = NOW_MS - 48 * HOUR
    planned(pipeline, "first", **window(start, start + HOUR))
    second = window(start + HOUR, start + 2 * HOUR)
    assert late(planned(pipeline, "second", **second)) == [0, 0, 0]
    produce(cluster, pipeline.topic, start + 3, start + HOUR)
    assert late(planned(pipeline, "second", **second, re_plan=True)) == [1, 0, 0]


def test_late_records_behind_the_first_one_of_the_next_window_are_read_there(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    start = NOW_MS - 48 * HOUR
    produce(cluster, pipeline.topic, start + 1, start + HOUR)
    planned(pipeline, "first", **window(start, start + HOUR))
    produce(cluster, pipeline.topic, start + 2)
    second = planned(pipeline, "second", **window(start + HOUR, start + 2 * HOUR))
    assert (ranges(second)[0], late(second)) == ((1, 3), [0, 0, 0])


def test_windows_over_midnight_are_compared_too(cluster: AnyCluster, pipeline: Pipeline) -> None:
    midnight = (NOW_MS - 48 * HOUR) // (24 * HOUR) * 24 * HOUR
    planned(pipeline, "first", **window(midnight - HOUR, midnight))
    produce(cluster, pipeline.topic, midnight - 1, midnight, partitions=(0, 2))
    assert late(pipeline.resolve("second", **window(midnight, midnight + HOUR)).plan) == [1, 0, 1]


def test_a_window_of_another_pipeline_is_not_compared(cluster: AnyCluster, pipeline: Pipeline) -> None:
    start = NOW_MS - 48 * HOUR
    planned(pipeline, "first", **window(start, start + HOUR), pipeline_id="another")
    produce(cluster, pipeline.topic, start + 3, start + HOUR)
    assert late(pipeline.resolve("second", **window(start + HOUR, start + 2 * HOUR)).plan) == [0, 0, 0]


def three_hours_out_of_order(
    memory: AnyCluster, store: LocalStore, group: str
) -> tuple[Pipeline, list[dict[str, Any]]]:
    """A topic whose first hour has a record behind the first one of the second; and the windows of three hours."""
    hours = [NOW_MS - (48 - hour) * HOUR for hour in range(4)]
    memory.create_topic("orders", 1)
    memory.produce("orders", timestamps_ms=[hours[0], hours[1], hours[0] + 1, hours[1] + 1, hours[2]])
    return Pipeline(memory.reader, store, "orders", group, {}), [window(*both) for both in pairwise(hours)]


@pytest.mark.parametrize("by", ["retention", "compaction"])
def test_a_window_reads_nothing_that_the_next_one_has_read_though_its_first_record_is_gone(
    memory: AnyCluster, store: LocalStore, group: str, by: str
) -> None:
    """A backfill that runs backwards; and a window that is planned anew. The record was in the output twice."""
    pipeline, (first, second, _) = three_hours_out_of_order(memory, store, group)
    if by == "compaction":
        pipeline.run("first", **first)
    assert pipeline.run("second", **second).ranges == [(1, 4)]
    if by == "compaction":
        memory.hands.compact(TopicPartition("orders", 0), [NOW_MS], {1: 5})
        again = pipeline.run("first", re_plan=True, **first)
    else:
        memory.delete_records("orders", 2)
        again = pipeline.run("first", **first)
    assert again.ranges == [(0, 1) if by == "compaction" else (2, 2)]
    assert again.plan.partitions[0].end_reason.endswith(" → where the next window begins")
    assert pipeline.lake.offsets() == {0: [0, 1, 2, 3] if by == "compaction" else [1, 2, 3]}
    assert pipeline.resolve("first", **first).assignment.warnings == (), "nor does it miss what the next one has"


@pytest.mark.parametrize("is_planned", [True, False], ids=["the second reads nothing", "nobody has planned the second"])
def test_a_window_reads_nothing_that_a_later_one_has_read_though_another_lies_between(
    memory: AnyCluster, store: LocalStore, group: str, is_planned: bool
) -> None:
    """Of three hours the third has read all, for its first record comes first; and that one is gone. It was twice."""
    hours = [NOW_MS - (48 - hour) * HOUR for hour in range(4)]
    first, second, third = (window(*both) for both in pairwise(hours))
    memory.create_topic("orders", 1)
    memory.produce("orders", timestamps_ms=[hours[2], hours[0], hours[1], hours[0]])
    pipeline = Pipeline(memory.reader, store, "orders", group, {})
    if is_planned:
        assert pipeline.run("second", **second).ranges == [(0, 0)]
    assert pipeline.run("third", **third).ranges == [(0, 4)]
    memory.delete_records("orders", 1)
    assert pipeline.run("first", **first).ranges == [(1, 1)]
    assert pipeline.run("second", **second).plan.empty
    assert pipeline.lake.offsets() == {0: [0, 1, 2, 3]}


def test_the_first_later_window_is_the_first_in_time_also_where_names_sort_otherwise(
    memory: AnyCluster, store: LocalStore, group: str
) -> None:
    """``…T020000.500Z`` sorts before ``…T020000Z``."""
    begin = NOW_MS // 1000 * 1000 - 48 * HOUR
    first, second, third = (window(*both) for both in pairwise([begin - HOUR, begin, begin + 500, begin + HOUR]))
    memory.create_topic("orders", 1)
    memory.produce("orders", timestamps_ms=[begin, begin - 1, begin, begin + 500])
    pipeline = Pipeline(memory.reader, store, "orders", group, {})
    assert pipeline.run("second", **second).ranges == [(0, 3)]
    assert pipeline.run("third", **third).ranges == [(3, 4)]
    memory.delete_records("orders", 1)
    assert pipeline.run("first", **first).ranges == [(1, 1)]


@pytest.mark.parametrize("by", ["compaction", "retention"])
def test_a_window_reads_what_the_one_before_has_left_to_it_though_its_first_record_is_gone(
    memory: AnyCluster, store: LocalStore, group: str, by: str
) -> None:
    """The look-up gives a later record then. What lay in front of it was in no window, and what is gone not counted."""
    pipeline, (first, second, third) = three_hours_out_of_order(memory, store, group)
    assert pipeline.run("first", **first).ranges == [(0, 1)]
    if by == "compaction":
        memory.hands.compact(TopicPartition("orders", 0), [NOW_MS], {1: 5})
        assert pipeline.run("second", **second).ranges == [(1, 4)]
    else:
        memory.delete_records("orders", 2)
        with pytest.raises(DataLoss, match=r"ended at 1, and the log begins at 2 now \(1 offsets are gone\)"):
            pipeline.resolve("second", **second)
        run = pipeline.run("second", data_loss="advance", **second)
        assert (run.ranges, run.plan.lost, late(run.plan)) == ([(2, 4)], 1, [0])
    assert pipeline.resolve("second", **second).assignment.warnings == (), "nor does it miss what it has"
    assert pipeline.run("third", **third).ranges[0][0] == 4


def test_G5_a_topic_that_the_window_before_has_and_the_pattern_finds_no_more_is_refused(
    memory: AnyCluster, store: LocalStore, group: str
) -> None:
    """The right to describe it was taken away: its records of that hour were in no window."""
    start, cluster = NOW_MS - 48 * HOUR, memory.hands
    for topic in ("orders", "payments"):
        memory.create_topic(topic, 1)
        memory.produce(topic, timestamps_ms=[start + hour * HOUR for hour in range(3)])
    by_pattern = {"topics": None, "topic_pattern": "orders|payments"}
    pipeline = Pipeline(memory.reader, store, "orders", group, by_pattern)
    pipeline.run("first", **window(start, start + HOUR))
    second = window(start + HOUR, start + 2 * HOUR)
    hidden = cluster.topics.pop("payments")
    with pytest.raises(TopicVanished, match="payments: the pipeline has read it") as refused:
        pipeline.resolve("second", **second)
    assert "saved" not in str(refused.value), "a window has no position"
    cluster.topics["payments"] = hidden
    assert pipeline.run("second", **second).ranges == [(1, 2), (1, 2)]
    del cluster.topics["payments"]
    third = pipeline.run("third", topic_vanished="drop", **window(start + 2 * HOUR, start + 3 * HOUR))
    assert (third.ranges, third.plan.found.vanished) == ([(2, 3)], ("payments",))
    assert third.plan.warnings[0].startswith("Topics payments are not matched any more")
    assert pipeline.run("fourth", **window(start + 3 * HOUR, start + 4 * HOUR)).plan.found.vanished == ()


def test_E6_a_window_of_a_topic_that_was_made_anew_since_the_window_before_is_refused(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """What the old topic still had of this hour is in no window, and nobody had said so."""
    start = NOW_MS - 48 * HOUR
    produce(cluster, pipeline.topic, start, start + HOUR)
    pipeline.run("first", **window(start, start + HOUR))
    cluster.recreate_topic(pipeline.topic)
    produce(cluster, pipeline.topic, start + HOUR + 1, start + 2 * HOUR)
    second = window(start + HOUR, start + 2 * HOUR)
    with pytest.raises(TopicRecreated, match="the window before is of"):
        pipeline.resolve("second", **second)
    assert pipeline.run("second", topic_recreated="earliest", **second).ranges[0] == (0, 1)
    assert pipeline.run("third", **window(start + 2 * HOUR, start + 3 * HOUR)).ranges[0] == (1, 2), "it is said once"


def test_N2_a_window_of_another_cluster_than_the_window_before_is_refused(
    memory: AnyCluster, store: LocalStore, group: str
) -> None:
    """The connection leads elsewhere: records of a staging cluster were in the output."""
    start = NOW_MS - 48 * HOUR
    memory.create_topic("orders", 1)
    memory.produce("orders", timestamps_ms=[start, start + HOUR])
    pipeline = Pipeline(memory.reader, store, "orders", group, {})
    pipeline.run("first", **window(start, start + HOUR))
    memory.hands.cluster_id = "another"
    second = window(start + HOUR, start + 2 * HOUR)
    with pytest.raises(ClusterChanged, match=r"has read cluster memory, .* leads to cluster another"):
        pipeline.resolve("second", **second)
    assert pipeline.run("second", cluster_changed="earliest", **second).ranges == [(1, 2)]


# ── what was gone before it was planned ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.also_on_a_broker
def test_after_an_outage_longer_than_retention_the_next_window_is_refused_and_counts_what_is_gone(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """A look-up by time finds what is left: three windows were green, and nobody had read three records."""
    start = NOW_MS - 48 * HOUR
    cluster.produce(pipeline.topic, timestamps_ms=[start + half * HOUR // 2 for half in range(8)])
    pipeline.run("first", **window(start, start + HOUR))
    cluster.delete_records(pipeline.topic, 5)
    second = window(start + HOUR, start + 2 * HOUR)
    with pytest.raises(DataLoss, match=r"\[0\]: the window before this one ended at 2, .* at 5 now \(3 offsets are"):
        pipeline.resolve("second", **second)
    assert pipeline.log.windows() == [TimeClaim(start, start + HOUR).name]

    run = pipeline.run("second", data_loss="advance", **second)
    third = pipeline.run("third", **window(start + 2 * HOUR, start + 3 * HOUR))

    assert (ranges(run.plan)[0], run.plan.partitions[0].lost) == ((5, 5), 3)
    assert run.plan.partitions[0].start_reason.endswith(" → log start, 3 lost")
    assert (ranges(third.plan)[0], third.plan.lost) == ((5, 6), 0), "they are counted once"
    assert pipeline.lake.offsets() == {0: [0, 1, 5]}


def test_what_came_too_late_for_the_window_before_is_not_lost_to_one_that_is_planned_anew(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    start = NOW_MS - 48 * HOUR
    planned(pipeline, "first", **window(start, start + HOUR))
    produce(cluster, pipeline.topic, start + 3, start + HOUR)
    second = window(start + HOUR, start + 2 * HOUR)
    assert late(planned(pipeline, "second", **second)) == [1, 0, 0]
    cluster.delete_records(pipeline.topic, 1)
    anew = planned(pipeline, "second", re_plan=True, **second)
    assert (ranges(anew)[0], anew.lost) == ((1, 2), 0)


def test_a_window_that_gave_way_has_read_nothing_either(cluster: AnyCluster, pipeline: Pipeline) -> None:
    start = NOW_MS - 48 * HOUR
    produce(cluster, pipeline.topic, start, start + HOUR, start + HOUR, start + 2 * HOUR)
    pipeline.run("first", **window(start, start + HOUR))
    second, over = window(start + HOUR, start + 2 * HOUR), window(start + HOUR, start + 3 * HOUR)
    other = pipeline.resolve("other", **over)
    with pytest.raises(WindowOverlaps):
        pipeline.resolve("second", **second)
    skip_window(pipeline.log, Skip(other.batch_key, reason="it is in the way"), now_ms=pipeline.now_ms)
    pipeline.run("other", **over)
    cluster.delete_records(pipeline.topic, 3)
    with pytest.raises(DataLoss, match="ended at 1"):
        pipeline.resolve("second", **second)


@pytest.mark.parametrize(
    ("kept_hours", "log_start", "warns"),
    [
        pytest.param(24, 1, True, id="retention has come so far"),
        pytest.param(72, 1, False, id="it cannot have: somebody else took what is gone"),
        pytest.param(24, 0, False, id="nothing was ever deleted"),
    ],
)
def test_the_first_window_of_a_backfill_warns_where_retention_may_have_taken_records_of_it(
    memory: AnyCluster, store: LocalStore, group: str, kept_hours: int, log_start: int, warns: bool
) -> None:
    start = NOW_MS - 48 * HOUR
    memory.create_topic("orders", 1, retention_ms=kept_hours * HOUR)
    memory.produce("orders", timestamps_ms=[start, start + 1, start + HOUR])
    memory.delete_records("orders", log_start)
    pipeline = Pipeline(memory.reader, store, "orders", group, {}, now_ms=NOW_MS)
    first = planned(pipeline, "first", **window(start, start + HOUR))
    told = [words for words in first.warnings if "Kafka may have deleted records" in words]
    assert bool(told) == warns
    assert not warns or "orders[0] starts with its log" in told[0]
    assert planned(pipeline, "second", **window(start + HOUR, start + 2 * HOUR)).warnings == ()


def test_so_does_a_first_batch_that_starts_by_time_and_none_after_it(
    memory: AnyCluster, store: LocalStore, group: str
) -> None:
    start = NOW_MS - 48 * HOUR
    memory.create_topic("orders", 1, retention_ms=24 * HOUR)
    memory.produce("orders", timestamps_ms=[start, start + 1])
    memory.delete_records("orders", 1)
    parameters = {"startup_mode": "timestamp", "startup_timestamp": start}
    pipeline = Pipeline(memory.reader, store, "orders", group, parameters, now_ms=NOW_MS)
    assert any("orders[0] starts with its log" in words for words in pipeline.run("one").plan.warnings)
    memory.produce("orders")
    memory.delete_records("orders", 2)
    assert not any("may have deleted" in words for words in pipeline.run("two").plan.warnings)
