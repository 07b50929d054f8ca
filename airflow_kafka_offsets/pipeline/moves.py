"""Which partitions a reset moves, and where to, by what the person asked, the position and the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import NoCommittedOffset, NoPosition, ResetRefused
from airflow_kafka_offsets.offsets.model import ClusterDescription, IsolationLevel, TopicPartition
from airflow_kafka_offsets.offsets.plan.position import KeptOffset, Position
from airflow_kafka_offsets.offsets.plan.reset import Move, Target, ToOffsets, ToTime, move
from airflow_kafka_offsets.pipeline.draft import take_snapshots


@dataclass(frozen=True, slots=True)
class OfGroup:
    """The offsets of another group, which are not known before the cluster is asked."""

    group_id: str


@dataclass(frozen=True, slots=True)
class Reset:
    """What a person asks for.

    :ivar topics: all partitions of these topics; :ivar partitions: these; neither: all that the position has.
    :ivar allow_duplicates: whether records may be read, and written, a second time.
    """

    target: Target | OfGroup
    reason: str
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    allow_duplicates: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """The pipeline's position, and its topics that exist."""

    position: Position
    description: ClusterDescription
    isolation_level: IsolationLevel


@dataclass(frozen=True, slots=True)
class Decided:
    """Where each partition goes.

    :ivar stays: partitions that the target has no offset for: they stay where they are.
    """

    target: Target
    moves: tuple[Move, ...]
    stays: tuple[TopicPartition, ...] = ()


def decide(asked: Reset, standing: Standing, cluster: OffsetReader) -> Decided:
    """Four batch questions at most.

    :raises NoPosition: a partition is asked for that is not of this pipeline, or does not exist.
    :raises NoCommittedOffset: the other group has no offset of this pipeline's topics.
    """
    target = _of_group(asked.target, standing, cluster) if isinstance(asked.target, OfGroup) else asked.target
    meant = _meant(asked, standing, target)
    partitions = [tp for tp in meant if not isinstance(target, ToOffsets) or tp in target.offsets]
    stays = tuple(sorted(set(meant) - set(partitions)))
    logs = take_snapshots(cluster, partitions, standing.isolation_level)
    found: Mapping[TopicPartition, int] = {}
    if isinstance(target, ToTime):
        times = dict.fromkeys(partitions, target.timestamp_ms)
        found = cluster.offsets_for_times(times, standing.isolation_level)
    kept = standing.position.offsets
    moves = tuple(move(target, tp, kept.get(tp), logs[tp], found.get(tp)) for tp in partitions)
    return Decided(target, moves, stays)


def refuse_duplicates(moves: Iterable[Move]) -> None:
    """:raises ResetRefused: records that an earlier batch has read would be read again."""
    back = [one for one in moves if one.reads_again]
    if back:
        raise ResetRefused(
            [
                f"{one.topic_partition}: from {one.goes_on_at} back to {one.after.offset}, so up to {one.reads_again} "
                "records are read again"
                for one in back
            ],
            "They were written under the keys of earlier batches and would be in the output twice. If that is meant, "
            "or the output is another one by now: --allow-duplicates. To replace what earlier batches wrote, redo them "
            "(kafka-offsets redo).",
        )


def topics_of(position: Position) -> set[str]:
    return {tp.topic for tp in position.offsets}


def _of_group(group: OfGroup, standing: Standing, cluster: OffsetReader) -> ToOffsets:
    known = topics_of(standing.position)
    partitions = [tp for tp in standing.description.partitions() if tp.topic in known]
    held = cluster.committed(group.group_id, partitions)
    if not held:
        raise NoCommittedOffset(
            [f"Group {group.group_id!r} holds no offset of {', '.join(sorted(known))}"],
            "Correct the name of the group, or the cluster.",
        )
    offsets = {tp: KeptOffset(commit.offset, commit.leader_epoch) for tp, commit in held.items()}
    return ToOffsets(offsets, f"group {group.group_id}")


def _meant(asked: Reset, standing: Standing, target: Target) -> list[TopicPartition]:
    """The partitions that are asked for; of a file, those that it has."""
    known, present = topics_of(standing.position), set(standing.description.partitions())
    if asked.partitions:
        wanted = set(asked.partitions)
    elif asked.topics:
        wanted = {tp for tp in present if tp.topic in asked.topics}
    elif isinstance(target, ToOffsets) and not isinstance(asked.target, OfGroup):
        wanted = set(target.offsets)
    else:
        wanted = {tp for tp in standing.position.offsets if tp in present}
    strange = sorted({*asked.topics, *(tp.topic for tp in wanted)} - known)
    lines = [f"{topic}: the pipeline has no position in this topic" for topic in strange]
    absent = sorted({topic for topic in asked.topics if topic in known} - standing.description.topics.keys())
    lines += [f"{topic} does not exist" for topic in absent]
    lines += [f"{tp} does not exist" for tp in sorted(wanted - present) if tp.topic in known]
    if lines or not wanted:
        raise NoPosition(lines or ["Nothing is there of what the position holds"], "Correct the topics, or the file.")
    return sorted(wanted)
