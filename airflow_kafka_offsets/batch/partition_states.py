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
