"""Makes the group equal to the position, and signs its offsets (docs/log.md, rule 5).

The group only follows the log: it is never ahead of it, and what somebody else wrote there is never overwritten
unasked. Kafka has no compare-and-set: a reset by a person between a look and the write is overwritten.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from airflow_kafka_offsets.batch.look_ups import World, topics_that_exist
from airflow_kafka_offsets.batch.ownership import refuse_foreign_offsets, refuse_live_group, signature_of
from airflow_kafka_offsets.broker.protocol import Cluster, OffsetReader
from airflow_kafka_offsets.errors import ADDRESS, ClusterUnavailable, GroupActive, named
from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, TopicPartition, topics_made_anew
from airflow_kafka_offsets.log.entries import Committed
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata, Held
from airflow_kafka_offsets.plan.plan import Draft, Plan
from airflow_kafka_offsets.plan.position import SavedOffset

_TRIES = 5  # at a group that other commits of this pipeline move on meanwhile


@dataclass(frozen=True, slots=True)
class Followed:
    """What a commit did to the group.

    :ivar written: before → after of every partition that is written, also where the two are equal: that renews the
        offset's expiry (a group's offsets expire one by one).
    :ivar left_alone: why the group was not touched; ``None`` where it was.
    :ivar is_behind: whether it should follow, and cannot yet.
    """

    written: Mapping[TopicPartition, tuple[int | None, int]] = field(default_factory=dict)
    left_alone: str | None = None
    is_behind: bool = False


def follow(world: World, me: Actor, known: StoredBatch | None = None) -> Followed:
    """Make the group equal to the position, on the partitions of the newest committed batch.

    Under live members it stays behind: the commit is on record, and a task that failed now would keep its asset event
    from downstream DAGs for good. The next commit lets the group follow.

    :param known: the batch that was just committed; it is not read again.
    :raises GroupMoved: somebody else wrote to the group; nothing is overwritten.
    """
    pipeline = world.pipeline
    newest = pipeline.newest_commit(known)
    for _ in range(_TRIES):
        if newest is None:
            return Followed(left_alone="the pipeline has no position yet")
        group_id = _group_of(newest.log.plan)
        if group_id is None:
            return _left_alone(newest.log.plan)
        partitions = partitions_now(world.cluster, newest.log.plan)
        held = world.cluster.committed(group_id, partitions)
        # The look at the log comes after the one at the group.
        newest = pipeline.newest_commit(newest) or newest
        offsets = _offsets(newest, partitions, held, me)
        try:
            world.cluster.commit_offsets(group_id, offsets)
        except GroupActive as active:
            later = "Once they are gone, the next commit lets the group follow; so does this task, if it is cleared."
            return Followed(left_alone=f"{active.found}\n{later}", is_behind=True)
        after = pipeline.newest_commit(newest)
        if after is None or after.folder == newest.folder:
            return _followed(held, offsets)
        newest = after
    return Followed(left_alone=f"{_TRIES} commits to it in a row were faster; the last of them writes the position")


def _group_of(plan: Plan) -> str | None:
    """The group that follows; ``None`` where none does."""
    return plan.asked.group_id if plan.asked.group_follows else None


def _left_alone(plan: Plan) -> Followed:
    if plan.asked.window:
        return Followed(left_alone="a window moves no group")
    why = "commit_mode is checkpoint-only" if plan.asked.group_id else "there is no group_id"
    return Followed(left_alone=f"{why}: the log has the position")


def _followed(held: Held, offsets: Mapping[TopicPartition, CommittedOffset]) -> Followed:
    return Followed({tp: (held[tp].offset if tp in held else None, c.offset) for tp, c in offsets.items()})


def _offsets(
    newest: StoredBatch, partitions: Collection[TopicPartition], held: Held, me: Actor
) -> dict[TopicPartition, CommittedOffset]:
    """What the group is to hold.

    :raises GroupMoved: somebody else wrote to it.
    """
    plan = newest.log.plan
    match newest.log.committed:
        case Committed(position=position) if position is not None:
            refuse_foreign_offsets(newest.log, me, held, position, done=True)
            text = signature_of(newest.log, me).after(plan.batch.key).encode()
            return {
                tp: CommittedOffset(position.offsets[tp].offset, position.offsets[tp].leader_epoch, text)
                for tp in partitions
                if tp in position.offsets
            }
    raise ValueError(f"{plan.batch} is not committed: it has no position")


def partitions_now(cluster: OffsetReader, plan: Draft) -> list[TopicPartition]:
    """The plan's partitions that are still there: not those of a topic that was deleted or made anew.

    :raises ClusterUnavailable: another cluster answers.
    """
    was, description = plan.found, topics_that_exist(cluster, plan.found.topic_ids)
    if description is None or description.cluster_id != was.cluster_id:
        raise ClusterUnavailable(
            f"Cannot write the position to group {plan.asked.group_id!r}",
            f"{plan.batch if isinstance(plan, Plan) else 'the plan'} was read from cluster {was.cluster_id}, and this "
            f"connection leads to {description.cluster_id if description else 'a cluster without its topics'}",
            f"Use {named(ADDRESS)} that the batch was planned with.",
        )
    present, anew = set(description.partitions()), topics_made_anew(was.topic_ids, description.topic_ids)
    return [tp for p in plan.partitions if (tp := p.topic_partition) in present and tp.topic not in anew]


def hand_over(world: World, me: Actor, batch: StoredBatch) -> Followed:
    """Name this Airflow beside the offsets that carry the pipeline's metadata. Each offset, and its batch, stay.

    :raises GroupActive: the group has live members.
    """
    plan, position = batch.log.plan, batch.log.position
    group_id = _group_of(plan)
    if group_id is None:
        return _left_alone(plan)
    known = {*(p.topic_partition for p in plan.partitions), *(position.offsets if position else ())}
    description = topics_that_exist(world.cluster, {tp.topic for tp in known})
    held = world.cluster.committed(
        group_id, [tp for tp in description.partitions() if tp in known] if description else []
    )
    signature = signature_of(batch.log, me)
    marked = {
        tp: CommittedOffset(held[tp].offset, held[tp].leader_epoch, signature.after(own.batch).encode())
        for tp, own in signature.own(held).items()
    }
    if marked:
        world.cluster.commit_offsets(group_id, marked)
    return _followed(held, marked)


def sign(
    cluster: Cluster,
    group_id: str,
    signature: CommitMetadata,
    held: Held,
    saved: Mapping[TopicPartition, SavedOffset],
    last: str | None,
) -> None:
    """Write this pipeline's metadata beside all offsets of the group that have other metadata or none.

    So live members are found before Spark works, and whatever lacks it later is somebody's. Metadata with a batch
    says that the pipeline goes on from just there, should the log be lost; so such an offset is set to the position.

    :param saved: the position; what is not in it keeps its offset, with metadata without a batch.
    :param last: the key of the last committed batch; ``None`` where there is none.
    :raises GroupActive: the group has live members.
    """
    unsigned = signature.unsigned(held)
    known, unknown = signature.after(last).encode(), signature.after(None).encode()
    signed = {tp: CommittedOffset(c.offset, c.leader_epoch, unknown) for tp, c in unsigned.items() if tp not in saved}
    signed |= {tp: CommittedOffset(saved[tp].offset, saved[tp].leader_epoch, known) for tp in unsigned if tp in saved}
    try:
        if signed:
            cluster.commit_offsets(group_id, signed)
        elif not held:  # there is nothing to write yet, which would find them out
            refuse_live_group(group_id, cluster.describe_group(group_id))
    except GroupActive as active:
        active.pipeline = signature.pipeline
        raise
