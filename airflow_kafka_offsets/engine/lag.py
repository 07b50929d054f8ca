# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""How far a pipeline or a consumer group is behind the end of its topics.

Records are counted in offsets, which is an upper bound: compaction and transactions leave gaps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.engine.look import is_of_shard, take_snapshots
from airflow_kafka_offsets.engine.state import Decided
from airflow_kafka_offsets.errors import NotAuthorized
from airflow_kafka_offsets.kafka_values import IsolationLevel, Subscription, TopicList, TopicPartition
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import Offset, Offsets, is_other_topic

Note = Literal["", "no position", "records are gone", "past the end", "topic was re-created", "topic does not exist"]


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


def position_of(log: PipelineLog, newest: Batch | None) -> Offsets:
    """Where a pipeline in sequence resumes: its unfinished batch, or the next one. Empty without an identity."""
    identity = log.identity()
    if identity is None:
        return {}
    return Decided(identity).resumed(log, *log.head(newest)).position


def lag_of_pipeline(log: PipelineLog, newest: Batch | None, kafka: Cluster, *, with_times: bool = True) -> Lag | None:
    """From the position, over the partitions that the pipeline reads; before its first batch, over those that it found.

    ``None``: it has no identity, reads by window, or the cluster is another one. A partition that the last run excluded
    is not read, nor a topic that it did not subscribe to.

    :param newest: its newest batch.
    :param with_times: whether to read the first unread records, for their times.
    """
    identity = log.identity()
    if identity is None or identity.kind == "window":
        return None
    position, plan = position_of(log, newest), None if newest is None else newest.plan
    planned = position if newest is None else log.body(newest).ranges
    known = {tp.topic for tp in position} if plan is None else plan.topics
    now = kafka.describe(TopicList(tuple(sorted(known)), all_exist=False))
    if now.cluster_id != identity.cluster_id:
        return None

    def is_read(tp: TopicPartition) -> bool:
        """A new partition is, unless single partitions are subscribed to, or it is another shard's."""
        is_new = plan is not None and tp not in position and plan.topics[tp.topic].partitions is not None
        return tp in planned or (is_new and is_of_shard(tp, log.shard))

    asked = [tp for tp in now.partitions if is_read(tp)]
    gone = {
        tp: PartitionLag(position[tp].offset, None, None, 0, 0, None, "topic does not exist")
        for tp in planned
        if tp in position and tp not in now.partitions
    }
    level: IsolationLevel = "read_uncommitted" if plan is None else plan.isolation_level
    return {**gone, **_lag(kafka, asked, position, now.topic_ids, level, with_times=with_times)}


def lag_of_group(
    kafka: Cluster,
    group_id: str,
    subscription: Subscription,
    isolation_level: IsolationLevel = "read_uncommitted",
    *,
    with_times: bool = True,
) -> Lag:
    """From the group's committed offsets.

    :param with_times: as of :func:`lag_of_pipeline`.
    """
    now = kafka.describe(subscription)
    position = {tp: Offset(c.offset, c.leader_epoch) for tp, c in kafka.committed(group_id, now.partitions).items()}
    return _lag(kafka, now.partitions, position, now.topic_ids, isolation_level, with_times=with_times)


def _lag(
    kafka: Cluster,
    partitions: Collection[TopicPartition],
    position: Offsets,
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
