"""Whether a pipeline has committed up to a batch, up to offsets, or up to a time, as the sensor asks."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.batch.measured_lag import look_at_commits
from airflow_kafka_offsets.errors import ClusterChanged, InvalidRequest, WindowOverlaps
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.window_claims import TimeClaim
from airflow_kafka_offsets.request.commit_target import CommitTarget, target_from_dict, target_to_dict
from airflow_kafka_offsets.request.modes import AtTimestamp, SpecificOffsets
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.contract.pipeline import Pipeline
from tests.contract.troubles import produce

HOUR_MS = 3_600_000


def missing(pipeline: Pipeline, target: CommitTarget, *topics: str, now_ms: int = NOW_MS) -> list[str]:
    def no_cluster() -> Any:
        raise AssertionError("the log alone answers this")

    by_time = isinstance(target, AtTimestamp)
    opened = (lambda: nullcontext(pipeline.cluster)) if by_time else no_cluster
    return look_at_commits(target, pipeline.log, opened, topics, now_ms)[1]


def up_to(topic: str, *ends: int) -> SpecificOffsets:
    return SpecificOffsets({TopicPartition(topic, number): end for number, end in enumerate(ends)})


def test_a_batch_is_committed_when_it_or_a_later_one_is(memory: AnyCluster, in_memory: Pipeline) -> None:
    assert missing(in_memory, "1") == ["pipeline pipeline has no batch"]
    first = in_memory.resolve("one")
    assert missing(in_memory, "1") == ["batch 1 of pipeline pipeline, its first, is not committed"]
    first.done()
    assert missing(in_memory, "1") == missing(in_memory, first.batch_key) == []

    produce(memory, in_memory)
    second = in_memory.resolve("two").spark()
    for named in ("2", second.batch_key):
        assert missing(in_memory, named) == [f"batch 2 is not committed; the newest that is, is {first.batch_key}"]
    assert missing(in_memory, "1") == []
    second.commit()
    assert missing(in_memory, "1") == missing(in_memory, "2") == []


def test_the_key_of_the_newest_batch_that_is_committed_is_given(in_memory: Pipeline) -> None:
    done = in_memory.run("one")
    found = look_at_commits("1", in_memory.log, lambda: nullcontext(in_memory.cluster), (), NOW_MS)
    assert found == (done.batch_key, [])


def test_offsets_are_committed_when_no_partition_is_behind(memory: AnyCluster, in_memory: Pipeline) -> None:
    in_memory.run("one")
    assert missing(in_memory, up_to("orders", 4, 3)) == []
    assert missing(in_memory, up_to("orders", 4, 5)) == ["orders[1] is committed up to 4, not 5"]
    assert missing(in_memory, up_to("payments", 1)) == ["payments[0] is committed up to nothing, not 1"]
    produce(memory, in_memory)
    planned = in_memory.resolve("two")
    assert missing(in_memory, up_to("orders", 4, 5)) == ["orders[1] is committed up to 4, not 5"]
    planned.done()
    assert missing(in_memory, up_to("orders", 4, 5)) == []


@pytest.mark.also_on_a_broker
def test_a_time_is_committed_when_no_record_of_before_lies_ahead(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Partition 0 gets a record of before the time, partition 1 one of after it, and partition 2 none."""
    pipeline.run("one")
    end = AtTimestamp(NOW_MS + HOUR_MS)
    later = NOW_MS + 2 * HOUR_MS
    assert missing(pipeline, end, now_ms=later) == [], "nothing is ahead, whenever it was written"
    cluster.produce(pipeline.topic, timestamps_ms=[NOW_MS + HOUR_MS - 1, NOW_MS + HOUR_MS])
    cluster.produce(pipeline.topic, partition=1, timestamps_ms=[NOW_MS + HOUR_MS])
    assert missing(pipeline, end, now_ms=later) == [f"{pipeline.topic}[0] is committed up to 4, not 5"]
    pipeline.run("two", max_records_per_partition=1)
    assert missing(pipeline, end, now_ms=later) == []
    assert pipeline.at() == {0: 5, 1: 5, 2: 4}


def test_a_time_that_is_still_to_come_is_not_committed(in_memory: Pipeline) -> None:
    in_memory.run("one")
    (line,) = missing(in_memory, AtTimestamp(NOW_MS + 1), now_ms=NOW_MS)
    assert "before" in line


def test_records_of_a_partition_that_is_new_since_are_ahead(memory: AnyCluster, in_memory: Pipeline) -> None:
    in_memory.run("one")
    memory.hands.add_partitions("orders", 1)
    assert missing(in_memory, AtTimestamp(NOW_MS)) == [], "it is empty"
    memory.produce("orders", 2, 3)
    assert missing(in_memory, AtTimestamp(NOW_MS)) == [], "its records are not of before"
    assert missing(in_memory, AtTimestamp(NOW_MS + 1), now_ms=NOW_MS + 1) == ["orders[3] is committed up to 0, not 2"]


def test_a_topic_that_is_not_read_any_more_holds_nobody_up_where_topics_are_named(
    memory: AnyCluster, in_memory: Pipeline
) -> None:
    memory.create_topic("payments")
    in_memory.run("one", topics=["orders", "payments"])
    memory.produce("payments", 3)
    end = AtTimestamp(NOW_MS + 1)
    assert missing(in_memory, end, now_ms=NOW_MS + 1) == ["payments[0] is committed up to 0, not 3"]
    assert missing(in_memory, end, "orders", now_ms=NOW_MS + 1) == []
    assert missing(in_memory, end, "typo", now_ms=NOW_MS + 1) == ["topic typo does not exist"]


def test_offsets_of_a_topic_that_was_created_again_say_nothing_of_a_time(
    memory: AnyCluster, in_memory: Pipeline
) -> None:
    in_memory.run("one")
    memory.recreate_topic("orders")
    assert missing(in_memory, AtTimestamp(NOW_MS)) == ["topic orders was created again since"]


def test_another_cluster_is_refused(in_memory: Pipeline, memory_anew: Any) -> None:
    in_memory.run("one")
    other = memory_anew()
    other.reader.cluster_id = "another"
    other.create_topic("orders", 3)
    with pytest.raises(ClusterChanged):
        missing(replace(in_memory, cluster=other.reader), AtTimestamp(NOW_MS))


def test_a_window_is_waited_for_by_its_name_or_its_key(in_memory: Pipeline) -> None:
    hour = {
        "startup_mode": "timestamp",
        "startup_timestamp": NOW_MS - HOUR_MS,
        "bounded_mode": "timestamp",
        "bounded_timestamp": NOW_MS,
    }
    name = TimeClaim(NOW_MS - HOUR_MS, NOW_MS).name
    assert missing(in_memory, name) == [f"pipeline pipeline has no window {name}"]
    window = in_memory.resolve("one", **hour)
    assert missing(in_memory, name) == [f"window {window.batch_key} is not committed"]
    window.done()
    assert missing(in_memory, name) == missing(in_memory, window.batch_key) == []
    with pytest.raises(InvalidRequest, match="has windows and no position: name one of them with batch"):
        missing(in_memory, AtTimestamp(NOW_MS))


def test_a_window_that_gave_way_to_another_one_is_waited_for(memory: AnyCluster, in_memory: Pipeline) -> None:
    """It is committed as empty, so that it blocks nobody: its run has failed, and nobody has read its records."""

    def hours(first: int, last: int) -> dict[str, Any]:
        times = {"startup_timestamp": NOW_MS + first * HOUR_MS, "bounded_timestamp": NOW_MS + last * HOUR_MS}
        return {"startup_mode": "timestamp", "bounded_mode": "timestamp", **times}

    memory.produce("orders")
    in_memory.run("one", **hours(-1, 1))
    with pytest.raises(WindowOverlaps):
        in_memory.resolve("two", **hours(0, 1))
    (line,) = missing(in_memory, TimeClaim(NOW_MS, NOW_MS + HOUR_MS).name)
    assert line.endswith("gave way to another one, and nothing of it is read")


@pytest.mark.parametrize(
    "target", ["7", up_to("orders", 4, 3), AtTimestamp(NOW_MS), AtTimestamp(NOW_MS, {"orders": 1})]
)
def test_a_target_is_the_same_after_it_was_stored(target: CommitTarget) -> None:
    assert target_from_dict(target_to_dict(target)) == target
