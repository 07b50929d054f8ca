"""The state of topics' partitions, and a pipeline's position. Read only.

Unknown is ``None``, never 0: a partition without a leader has no ends that anybody could name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.batch.look_ups import take_snapshots
from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    IsolationLevel,
    PartitionSnapshot,
    TopicPartition,
)
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.completeness import Arrived
from airflow_kafka_offsets.plan.position import Position


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition now.

    :ivar topic_id: ``None`` where the topic does not exist, or the cluster gives topics no ids.
    :ivar leader: the broker that leads it; ``None`` where none does, or the partition does not exist.
    :ivar log: both ends of its log; ``None`` where there is no leader to ask.
    """

    topic_partition: TopicPartition
    topic_id: str | None
    leader: int | None
    log: PartitionSnapshot | None

    @property
    def record_count_upper_bound(self) -> int | None:
        return self.log.end_offset - self.log.log_start_offset if self.log else None


def partition_states(
    cluster: OffsetReader,
    description: ClusterDescription,
    partitions: Iterable[TopicPartition],
    isolation_level: IsolationLevel,
) -> list[PartitionState]:
    """The state of each of ``partitions``, sorted; one that ``description`` lacks does not exist."""
    leaders: Mapping[TopicPartition, int | None] = {
        TopicPartition(name, number): leader
        for name, topic in description.topics.items()
        for number, leader in topic.leaders.items()
    }
    wanted = sorted(set(partitions))
    logs = take_snapshots(cluster, [tp for tp in wanted if leaders.get(tp) is not None], isolation_level)
    ids = description.topic_ids
    return [PartitionState(tp, ids.get(tp.topic), leaders.get(tp), logs.get(tp)) for tp in wanted]


def position_of(pipeline: PipelineLog) -> Position | None:
    """Where the pipeline goes on, by its log; ``None`` where it has no batch yet."""
    newest = pipeline.newest()
    return newest.log.position if newest else None


# ── what has arrived before and after a window's end ──────────────────────────────────────────────────────────────────
# One batch question for the newest timestamps answers nearly every look. Only for a ``read_committed`` reader, and
# only for partitions that it leaves open, is it asked whether a transaction is open there: the committed end first,
# so that what is written in between makes a partition look undecided, and never the other way round.


def look_for_arrivals(
    cluster: OffsetReader, ends_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
) -> dict[TopicPartition, Arrived]:
    """What a look at the cluster says of each partition, for a window that ends there at that time.

    :raises ClusterUnavailable: a partition has no answer.
    """
    newest = cluster.newest_timestamps(ends_ms, isolation_level)
    open_ended = [tp for tp, end_ms in ends_ms.items() if newest.get(tp, -1) < end_ms]
    undecided: set[TopicPartition] = set()
    past_end: Mapping[TopicPartition, int] = {}
    if open_ended and isolation_level == "read_committed":
        committed = cluster.end_offsets(open_ended, "read_committed")
        high_watermarks = cluster.end_offsets(open_ended, "read_uncommitted")
        undecided = {tp for tp in open_ended if committed[tp].offset < high_watermarks[tp].offset}
        past_end = (
            cluster.offsets_for_times({tp: ends_ms[tp] for tp in undecided}, isolation_level) if undecided else {}
        )
    return {
        tp: Arrived(newest.get(tp), newest.get(tp, -1) >= end_ms or tp in past_end, tp in undecided)
        for tp, end_ms in ends_ms.items()
    }
