"""How things stand: the partitions of topics, a pipeline's position, its lag. It asks, and changes nothing.

Unknown is ``None``, never 0: a partition without a leader has no ends that anybody could name, and a group without a
commit has no lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.batch.mark import Signature, position_of_marks
from airflow_kafka_offsets.offsets.lag import Lag, LagLimits, partition_lag, position_mark
from airflow_kafka_offsets.offsets.model import (
    ClusterDescription,
    CommittedOffset,
    IsolationLevel,
    PartitionSnapshot,
    TopicPartition,
)
from airflow_kafka_offsets.offsets.plan.position import Position
from airflow_kafka_offsets.offsets.request.scope import Scope
from airflow_kafka_offsets.pipeline.draft import take_snapshots
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog


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

    def lag(self, committed: CommittedOffset | None) -> int | None:
        """End offset less committed offset: an upper bound of the records; unknown if either is."""
        return self.log.end_offset - committed.offset if self.log and committed else None


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
    ids = {name: topic.topic_id for name, topic in description.topics.items()}
    return [PartitionState(tp, ids.get(tp.topic), leaders.get(tp), logs.get(tp)) for tp in wanted]


def position_of(pipeline: PipelineLog) -> Position | None:
    """Where the pipeline goes on, by its log; ``None`` where it has no batch yet."""
    newest = pipeline.newest()
    if newest is None:
        return None
    committed = newest.log.committed
    return committed.position if committed else newest.log.planned.position


def look_at_lag(
    scope: Scope,
    limits: LagLimits,
    cluster: OffsetReader,
    description: ClusterDescription,
    pipeline: PipelineLog | None,
    now_ms: int,
) -> Lag:
    """How far a pipeline is behind: at most five batch questions, and the group has no new member.

    The position is read before the ends, so that a commit in between cannot lie beyond them.

    :param description: what there is of the subscription.
    :param pipeline: whose position it is measured from; ``None``: from what the group holds.
    :raises InvalidRequest: there is no group.
    """
    if scope.group_id is None:
        raise InvalidRequest(("Whose lag? Give group_id, or set group.id in the Kafka connection.",))
    partitions = description.partitions()
    offsets, position = _position(scope.group_id, cluster, description, partitions, pipeline)
    states = partition_states(cluster, description, partitions, scope.isolation_level)
    led = [state.topic_partition for state in states if state.log]
    young: Mapping[TopicPartition, int] = {}
    if limits.max_age_ms is not None:
        oldest_ms = max(0, now_ms - limits.max_age_ms)
        young = cluster.offsets_for_times(dict.fromkeys(led, oldest_ms), scope.isolation_level)
    lags = [
        partition_lag(tp, state.log, offsets.get(tp), young.get(tp), ages=limits.max_age_ms is not None)
        for state in states
        for tp in (state.topic_partition,)
    ]
    return Lag(scope.group_id, description.cluster_id, limits, now_ms, tuple(lags), position)


def _position(
    group_id: str,
    cluster: OffsetReader,
    description: ClusterDescription,
    partitions: list[TopicPartition],
    pipeline: PipelineLog | None,
) -> tuple[dict[TopicPartition, int], str]:
    """The next offsets of the pipeline and what tells this position from another.

    A pipeline whose first batch is not committed has no position yet: its first run has read nothing.
    """
    if pipeline is None:
        committed = cluster.committed(group_id, partitions, stable=False)
        offsets = {tp: commit.offset for tp, commit in committed.items()}
        return offsets, position_mark(offsets)
    position = position_of(pipeline)
    if position is None and pipeline.newest() is None:  # a lost work store: the group's marks tell
        held = cluster.committed(group_id, partitions, stable=False)
        own = Signature.of(pipeline.checkpoint_id, "").own(held)
        position = position_of_marks(held, own, description.cluster_id, {})
    kept = {tp: offset.offset for tp, offset in position.offsets.items()} if position else {}
    return kept, position_mark(kept)
