"""How things stand: the partitions of topics, and how far a group is in them. It asks, and changes nothing.

Unknown is ``None``, never 0: a partition without a leader has no ends that anybody could name, and a group without a
commit has no lag.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import InvalidRequest, NothingToDiscover
from airflow_kafka_offsets.offsets.lag import Lag, LagLimits, partition_lag, position_mark
from airflow_kafka_offsets.offsets.model import (
    ClusterDescription,
    CommittedOffset,
    IsolationLevel,
    PartitionSnapshot,
    TopicPartition,
)
from airflow_kafka_offsets.offsets.restore import positions_in_group
from airflow_kafka_offsets.offsets.spec import PlanRequest, TopicPattern
from airflow_kafka_offsets.planner import take_snapshots
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.objects import WorkStore


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


def describe_present(cluster: OffsetReader, topics: Collection[str]) -> ClusterDescription | None:
    """Those of ``topics`` that exist, and the cluster's id; ``None`` where nothing at all is found.

    The groups' own topic is asked for beside them, and is there wherever a group is: with it, also a cluster that has
    none of the topics tells its id.
    """
    pattern = "|".join(map(re.escape, [*sorted(topics), "__consumer_offsets"]))
    try:
        return cluster.describe(TopicPattern(pattern, include_internal=True))
    except NothingToDiscover:
        return None


def look_at_lag(
    request: PlanRequest,
    limits: LagLimits,
    cluster: OffsetReader,
    description: ClusterDescription,
    store: WorkStore | None,
    now_ms: int,
) -> Lag:
    """How far the pipeline of ``request`` is behind: at most five batch questions, and the group has no new member.

    The position is read before the ends, so that a commit in between cannot lie beyond them.

    :param description: what there is of the subscription.
    :param store: the pipeline's work store, where ``request`` has a ``checkpoint_id``.
    :raises InvalidRequest: there is no group.
    """
    if request.group_id is None:
        raise InvalidRequest(("Whose lag? Give group_id, or set group.id in the Kafka connection.",))
    partitions = description.partitions()
    offsets, position = _position(request, request.group_id, cluster, description.cluster_id, partitions, store)
    states = partition_states(cluster, description, partitions, request.isolation_level)
    led = [state.topic_partition for state in states if state.log]
    young: Mapping[TopicPartition, int] = {}
    if limits.max_age_ms is not None:
        young = cluster.offsets_for_times(
            dict.fromkeys(led, max(0, now_ms - limits.max_age_ms)), request.isolation_level
        )
    lags = [
        partition_lag(tp, state.log, offsets.get(tp), young.get(tp), ages=limits.max_age_ms is not None)
        for state in states
        for tp in (state.topic_partition,)
    ]
    return Lag(request.group_id, description.cluster_id, limits, now_ms, tuple(lags), position)


def _position(
    request: PlanRequest,
    group_id: str,
    cluster: OffsetReader,
    cluster_id: str,
    partitions: list[TopicPartition],
    store: WorkStore | None,
) -> tuple[dict[TopicPartition, int], str]:
    """The next offsets of the pipeline and what marks them: its checkpoint's, else what the group holds.

    A checkpoint of starts marks nothing: it is written when the first run plans, and that run has read nothing yet.
    """
    if store is not None and request.checkpoint_id is not None:
        newest = CheckpointChain(store, cluster_id, request.checkpoint_id).newest()
        if newest is not None:
            kept = {tp: kept.offset for tp, kept in newest.offsets.items()}
            return kept, position_mark(kept if newest.plan_id else {})
        positions = positions_in_group(cluster.committed(group_id, partitions, stable=False)) or {}
        offsets = {tp: position.offset for tp, position in positions.items()}
    else:
        committed = cluster.committed(group_id, partitions, stable=False)
        offsets = {tp: commit.offset for tp, commit in committed.items()}
    return offsets, position_mark(offsets)
