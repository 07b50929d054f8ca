"""The lag of a pipeline counts what its next batch would read, also if no batch has been planned since a decision."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.engine.lag import PartitionLag, lag_of_group, lag_of_pipeline
from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.errors import NotAuthorized
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicList
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline, conf_of, fail_to_plan, produce, tp


def unread(pipeline: Pipeline) -> dict[int, int] | None:
    log = pipeline.log
    lag = lag_of_pipeline(log, log.newest(), pipeline.cluster)
    return None if lag is None else {tp.partition: found.unread for tp, found in lag.items()}


def test_a_pipeline_without_a_batch_is_behind_where_it_starts(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.parameters = {"start": "latest"}
    assert unread(pipeline) is None
    fail_to_plan(pipeline)
    produce(cluster, 0, 3)
    produce(cluster, 2, 2)
    assert unread(pipeline) == {0: 3, 1: 0, 2: 2}


def test_a_reset_counts_before_its_batch_is_planned(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    fail_to_plan(pipeline, conf_of(1, reset={"start": {"orders-0": 4}, "allow_duplicates": True}))
    assert unread(pipeline) == {0: 6, 1: 0, 2: 0}


def test_an_unfinished_batch_counts_from_where_it_resumes(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    cluster.add_partitions("orders", 1)
    produce(cluster, 3, 5)
    pipeline.work()
    produce(cluster, 3, 2)
    assert unread(pipeline) == {0: 0, 1: 0, 2: 0, 3: 7}


# ── each partition ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def odd(cluster: InMemoryCluster) -> InMemoryCluster:
    """Partition 0 has an open transaction behind 4 records, 1 has lost its first 6 of 10 records, 2 is empty."""
    produce(cluster, 0, 4, age_s=60)
    cluster.begin_transaction().produce(tp(0), [cluster.now_ms] * 3)
    produce(cluster, 1, 10, age_s=30)
    cluster.delete_records(tp(1), 6)
    return cluster


def test_a_group_is_behind_what_its_isolation_level_lets_it_read(odd: InMemoryCluster) -> None:
    odd.commit_as_somebody_else(
        "lake", {tp(0): CommittedOffset(1), tp(1): CommittedOffset(2), tp(2): CommittedOffset(5)}
    )
    minute, half = odd.now_ms - 60_000, odd.now_ms - 30_000
    others = {
        tp(1): PartitionLag(2, 6, 10, 4, 0, half, "records are gone"),
        tp(2): PartitionLag(5, 0, 0, 0, 0, None, "past the end"),
    }
    uncommitted = lag_of_group(odd, "lake", TopicList((TOPIC,)))
    assert uncommitted == {tp(0): PartitionLag(1, 0, 7, 6, 0, minute, ""), **others}
    committed = lag_of_group(odd, "lake", TopicList((TOPIC,)), "read_committed")
    assert committed == {tp(0): PartitionLag(1, 0, 4, 3, 3, minute, ""), **others}
    untimed = lag_of_group(odd, "lake", TopicList((TOPIC,)), with_times=False)
    assert untimed == {key: lag._replace(oldest_ms=None) for key, lag in uncommitted.items()}


def test_a_group_without_offsets_has_read_nothing(odd: InMemoryCluster) -> None:
    found = lag_of_group(odd, "new", TopicList((TOPIC,)))
    assert [(lag.position, lag.unread, lag.note) for lag in found.values()] == [
        (None, unread, "no position") for unread in (7, 4, 0)
    ]


def test_a_pipeline_is_behind_what_its_isolation_level_lets_it_read(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    pipeline.connection = {"isolation.level": "read_committed"}
    produce(cluster, 0, 2)
    pipeline.whole_run()
    produce(cluster, 0, 1, age_s=5)
    cluster.begin_transaction().produce(tp(0), [cluster.now_ms] * 2)
    log = pipeline.log
    lag = lag_of_pipeline(log, log.newest(), cluster)
    assert lag is not None
    assert lag[tp(0)] == PartitionLag(2, 0, 3, 1, 2, cluster.now_ms - 5_000, "")
    untimed = lag_of_pipeline(log, log.newest(), cluster, with_times=False)
    assert untimed == {key: one._replace(oldest_ms=None) for key, one in lag.items()}


def test_what_a_pipeline_has_read_and_is_gone_or_another_topic_is_said(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    cluster.create_topic("other")
    pipeline.parameters = {"topics": [TOPIC, "other"]}
    for partition in range(3):
        produce(cluster, partition, 4)
    pipeline.whole_run()
    cluster.recreate_topic(TOPIC)
    produce(cluster, 0, 6)
    cluster.delete_topic("other")
    log = pipeline.log
    lag = lag_of_pipeline(log, log.newest(), cluster)
    assert lag is not None
    assert [(key, one.position, one.end, one.unread, one.note) for key, one in sorted(lag.items())] == [
        (tp(0), 4, 6, 6, "topic was re-created"),
        (tp(1), 4, 0, 0, "topic was re-created"),
        (tp(2), 4, 0, 0, "topic was re-created"),
        (tp(0, "other"), 0, None, 0, "topic does not exist"),
    ]


def test_another_cluster_and_windows_have_no_lag(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    other = InMemoryCluster("another")
    other.create_topic(TOPIC, 3)
    assert lag_of_pipeline(pipeline.log, pipeline.log.newest(), other) is None
    hours = Pipeline(cluster)
    hours.resolve(want=hours.window(cluster.now_ms - 3_600_000, cluster.now_ms))
    assert lag_of_pipeline(hours.log, hours.log.newest(), cluster) is None


def test_a_partition_of_another_shard_or_of_a_topic_that_is_not_read_does_not_count(cluster: InMemoryCluster) -> None:
    cluster.create_topic("other", 2)
    one = Pipeline(cluster, {"shard": (0, 2), "group_id": None})
    for partition in range(3):
        produce(cluster, partition, 1)
    work = one.whole_run()
    assert isinstance(work, ResolvedBatch)
    cluster.add_partitions(TOPIC, 4)
    for partition in range(7):
        produce(cluster, partition, 1)
    lag = lag_of_pipeline(one.log, one.log.newest(), cluster)
    assert lag is not None
    assert 0 < len(work.body.ranges) < len(lag) < 7
    assert all(found.unread == 1 for found in lag.values())


def test_times_are_left_out_where_the_right_to_read_is_missing(
    odd: InMemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NotAuthorized("somebody is not allowed to read", "no right", "Give it")

    monkeypatch.setattr(odd, "first_times", refuse)
    found = lag_of_group(odd, "new", TopicList((TOPIC,)))
    assert [(lag.unread, lag.oldest_ms) for lag in found.values()] == [(7, None), (4, None), (0, None)]
