"""How far a pipeline or a consumer group is behind the end of its topics.

Records are counted in offsets, which is an upper bound: compaction and transactions leave gaps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.engine.look import take_snapshots
from airflow_kafka_offsets.errors import NotAuthorized
from airflow_kafka_offsets.kafka_values import IsolationLevel, Subscription, TopicList, TopicPartition
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, Position
from airflow_kafka_offsets.plan.body import Offset
from airflow_kafka_offsets.plan.cap import flink_owner
from airflow_kafka_offsets.plan.window import is_other_topic

Note = Literal["", "no position", "records are gone", "past the end", "topic was re-created", "topic does not exist"]
_SHARD = re.compile(r"/([0-9]+)-of-([1-9][0-9]*)$")


class PartitionLag(NamedTuple):
    """One partition.

    :ivar position: the next offset to read; ``None``: all that is there counts as unread.
    :ivar log_start: ``None``, and the end, too: its topic does not exist.
    :ivar unread: offsets up to the end that still exist.
    :ivar in_transaction: offsets behind the end that an open transaction holds back: high watermark minus last stable
        offset (KIP-98); 0 where uncommitted records are read.
    :ivar oldest_ms: the time of the first unread record; ``None``: there is none, or it was not asked.
    """

    position: int | None
    log_start: int | None
    end: int | None
    unread: int
    in_transaction: int
    oldest_ms: int | None
    note: Note


Lag = Mapping[TopicPartition, PartitionLag]


def shard_of(pipeline_id: str) -> tuple[int, int] | None:
    """``(0, 4)`` of the pipeline ``orders/0-of-4``."""
    match = _SHARD.search(pipeline_id)
    return (int(match[1]), int(match[2])) if match else None


def position_of(log: PipelineLog, newest: Batch) -> Position:
    """Where a pipeline in sequence resumes: after its last commit, or where its unfinished batch begins."""
    return log.position_after(newest) if newest.is_committed else log.body(newest).resume_from


def last_run(log: PipelineLog, newest: Batch) -> Batch:
    """The newest batch that a run has planned, whose topics are what the pipeline reads."""
    while newest.plan.kind == "reset" and newest.number > 1:
        newest = log.existing(newest.number - 1)
    return newest


def lag_of_pipeline(log: PipelineLog, newest: Batch, kafka: Cluster, *, with_times: bool = True) -> Lag | None:
    """By the position, over the partitions that the pipeline reads. ``None``: by window, or on another cluster.

    A partition that the last run excluded is not read, nor a topic that it did not subscribe to.

    :param with_times: whether to read the first unread records, for their times.
    """
    if newest.plan.kind == "window":
        return None
    position, shard = position_of(log, newest), shard_of(newest.plan.pipeline)
    last = last_run(log, newest)
    known, planned = last.plan.topics, log.body(last).ranges
    now = kafka.describe(TopicList(tuple(sorted(known)), all_exist=False))
    if now.cluster_id != newest.plan.cluster_id:
        return None

    def is_read(tp: TopicPartition) -> bool:
        """A new partition is, unless single partitions are subscribed to, or it is another shard's."""
        is_new = tp not in position and known[tp.topic].partitions is not None
        return tp in planned or (is_new and (shard is None or flink_owner(tp, shard[1]) == shard[0]))

    asked = [tp for tp in now.partitions if is_read(tp)]
    gone = {
        tp: PartitionLag(position[tp].offset, None, None, 0, 0, None, "topic does not exist")
        for tp in planned
        if tp not in now.partitions
    }
    found = _lag(kafka, asked, position, now.topic_ids, newest.plan.isolation_level, with_times=with_times)
    return {**gone, **found}


def lag_of_group(
    kafka: Cluster,
    group_id: str,
    subscription: Subscription,
    isolation_level: IsolationLevel = "read_uncommitted",
    *,
    with_times: bool = True,
) -> Lag:
    """By the group's committed offsets.

    :param with_times: as of :func:`lag_of_pipeline`.
    """
    now = kafka.describe(subscription)
    position = {tp: Offset(c.offset, c.leader_epoch) for tp, c in kafka.committed(group_id, now.partitions).items()}
    return _lag(kafka, now.partitions, position, now.topic_ids, isolation_level, with_times=with_times)


def _lag(
    kafka: Cluster,
    partitions: Collection[TopicPartition],
    position: Position,
    topic_ids: Mapping[str, str | None],
    isolation_level: IsolationLevel,
    *,
    with_times: bool,
) -> Lag:
    logs = take_snapshots(kafka, partitions, isolation_level) if partitions else {}
    found: dict[TopicPartition, PartitionLag] = {}
    for tp, log in logs.items():
        at, first, end = position.get(tp), log.log_start_offset, log.end_offset
        note: Note = (
            "no position"
            if at is None
            else "topic was re-created"
            if is_other_topic(at, tp, topic_ids)
            else "records are gone"
            if at.offset < first
            else "past the end"
            if at.offset > log.high_watermark
            else ""
        )
        start = first if at is None or note else at.offset
        unread, held = max(0, end - start), log.high_watermark - end
        found[tp] = PartitionLag(None if at is None else at.offset, first, end, unread, held, None, note)
    firsts = {tp: lag.end - lag.unread for tp, lag in found.items() if lag.unread and lag.end is not None}
    times: Mapping[TopicPartition, int] = {}
    if with_times and firsts:
        try:
            times = kafka.first_times(firsts, isolation_level)
        except NotAuthorized:  # a time needs the right Read, offsets need Describe
            times = {}
    return {tp: lag._replace(oldest_ms=times.get(tp)) for tp, lag in found.items()}
