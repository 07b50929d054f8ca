"""A pipeline's consumer group: whose offsets it holds, signing them, and making it equal to the position.

The group only mirrors the log: it is never ahead of it, and what somebody else wrote there is never overwritten unasked
(docs/log.md, rule 5). Kafka has no compare-and-set: a reset by a person between a look and the write is overwritten.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from airflow_kafka_offsets.broker.protocol import OffsetCommitter, OffsetReader
from airflow_kafka_offsets.errors import (
    AnotherAirflow,
    AnotherPipeline,
    ClusterUnavailable,
    GroupActive,
    GroupMoved,
    NotAuthorized,
)
from airflow_kafka_offsets.offsets.batch.log import Actor
from airflow_kafka_offsets.offsets.batch.mark import Held, Mark, Signature, writer_of
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan
from airflow_kafka_offsets.offsets.plan.position import KeptOffset, Position
from airflow_kafka_offsets.offsets.request.parse import PlanRequest
from airflow_kafka_offsets.pipeline.present import describe_present
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog, StoredBatch

_TRIES = 5  # at a group that other commits of this pipeline move on meanwhile


class Cluster(OffsetReader, OffsetCommitter, Protocol):
    """A cluster that can be asked and committed to."""


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What a commit did to the group.

    :ivar written: before → after of every partition that is written, also where the two are equal: that renews the
        offset's expiry (a group's offsets expire one by one).
    :ivar left_alone: why the group was not touched; ``None`` where it was.
    :ivar is_behind: whether it should follow, and cannot yet.
    """

    written: Mapping[TopicPartition, tuple[int | None, int]] = field(default_factory=dict)
    left_alone: str | None = None
    is_behind: bool = False


def look_at_group(
    request: PlanRequest, cluster: OffsetReader, partitions: Collection[TopicPartition]
) -> tuple[Held | None, list[str]]:
    """What the group holds, and what the plan should say about it. ``None`` if this plan does not need the group.

    Without the right to read the group, a plan that needs no commit of it is still made (L3).
    """
    group_id = request.scope.group_id
    if group_id is None or not (request.mirrors or request.reads_commits):
        return None, []
    try:
        return cluster.committed(group_id, partitions), []
    except NotAuthorized as error:
        if request.reads_commits or request.scope.pipeline_id is not None:
            raise
        return None, [f"Group {group_id!r} cannot follow this plan: {error.reason}"]


def refuse_another_airflow(
    request: PlanRequest, signature: Signature, batch: StoredBatch | None, marks: Mapping[TopicPartition, Mark]
) -> None:
    """:raises AnotherAirflow: the log or the group was written by one, and no policy says that this one takes over."""
    if request.policies.on_another_airflow == "take-over":
        return
    pipeline = request.scope.pipeline_id or ""
    wrote = batch.log.last_instance if batch else None
    if wrote is not None and wrote != signature.instance:
        raise AnotherAirflow(pipeline, signature.instance, wrote, f"its work store {batch.store.uri}" if batch else "")
    for mark in marks.values():
        if mark.instance != signature.instance:
            where = f"the marks in group {request.scope.group_id!r}"
            raise AnotherAirflow(pipeline, signature.instance, mark.instance, where)


def refuse_another_pipeline(request: PlanRequest, signature: Signature, held: Held) -> None:
    """:raises AnotherPipeline: a pipeline without a log is about to follow the group of another one."""
    marks = {tp: mark for tp, commit in sorted(held.items()) if (mark := Mark.of(commit)) is not None}
    others = {tp: mark for tp, mark in marks.items() if mark.pipeline != signature.pipeline}
    if others:
        lines = [f"{tp}: at {held[tp].offset}, by {writer_of(held[tp])}" for tp in others]
        other = next(iter(others.values())).pipeline
        raise AnotherPipeline(request.scope.pipeline_id or "", request.scope.group_id or "", lines, other)


def group_moved(
    group_id: str | None, foreign: Held, position: Position | None, *, committed: bool = False
) -> GroupMoved:
    """The refusal that names each partition that somebody else wrote."""
    kept = position.offsets if position else {}
    lines = [
        f"{tp}: the position is {kept[tp].offset if tp in kept else 'unknown (a new partition)'}, and the group is at "
        f"{commit.offset}, by {writer_of(commit)}"
        for tp, commit in sorted(foreign.items())
    ]
    done = "The batch is committed in the log; only the group was left as it is. " if committed else ""
    back = sum(max(0, kept[tp].offset - commit.offset) for tp, commit in foreign.items() if tp in kept)
    forward = sum(max(0, commit.offset - kept[tp].offset) for tp, commit in foreign.items() if tp in kept)
    adopting = [
        *([f"reads up to {back} records again, which are in the output twice then"] if back else []),
        *([f"leaves out up to {forward} records"] if forward else []),
    ]
    keeping = " and ".join([*(["forwards"] if back else []), *(["backwards"] if forward else [])])
    keeping = f" {keeping}: nothing is lost or read twice" if foreign.keys() <= kept.keys() else ""
    return GroupMoved(
        lines,
        f"Somebody else wrote to group {group_id!r}. {done}on_group_moved, for the next run in its conf "
        '({"kafka_offsets": {"on_group_moved": "keep-checkpoint"}}) or in the DAG: "keep-checkpoint" goes on from the '
        f'pipeline\'s own position and sets the group{keeping}; "adopt-group" goes on from the group'
        f"{', and ' * bool(adopting)}{' and '.join(adopting)}.",
    )


def sign(
    cluster: Cluster,
    request: PlanRequest,
    signature: Signature,
    held: Held,
    kept: Mapping[TopicPartition, KeptOffset],
    last: str | None,
) -> None:
    """Put this pipeline's mark on all offsets of the group that have another mark or none.

    So live members are found before Spark works, and whatever is not marked later is somebody's. A mark with a batch
    says that the pipeline goes on from just there, should the log be lost; so such an offset is set to the position.

    :param kept: the position; what is not in it keeps its offset, under a mark without a batch.
    :param last: the key of the last committed batch; ``None`` where there is none.
    :raises GroupActive: the group has live members.
    """
    unsigned, group_id = signature.unsigned(held), request.scope.group_id or ""
    known, unknown = signature.mark(last).encode(), signature.mark(None).encode()
    marked = {tp: CommittedOffset(c.offset, c.leader_epoch, unknown) for tp, c in unsigned.items() if tp not in kept}
    marked |= {tp: CommittedOffset(kept[tp].offset, kept[tp].leader_epoch, known) for tp in unsigned if tp in kept}
    try:
        if marked:
            cluster.commit_offsets(group_id, marked)
        elif not held:  # there is nothing to write yet, which would find them out
            refuse_live_group(cluster, group_id)
    except GroupActive as active:
        active.pipeline = signature.pipeline
        raise


def signature_of(plan: OffsetPlan, me: Actor) -> Signature:
    """Who writes the marks of a plan's pipeline; a person without Airflow writes as the Airflow that planned it."""
    return Signature.of(plan.pipeline or "", me.instance or plan.instance or "")


def mirror(
    pipeline: PipelineLog,
    cluster: Cluster,
    me: Actor,
    *,
    known: StoredBatch | None = None,
    dry_run: bool = False,
    as_if: StoredBatch | None = None,
) -> Mirrored:
    """Make the group equal to the position, on the partitions of the newest committed batch.

    Under live members it stays behind: the commit is on record, and a task that failed now would keep its asset event
    from downstream DAGs for good. The next commit lets the group follow.

    :param known: the batch that was just committed; it is not read again.
    :param as_if: for a dry run, the batch that would be that one.
    :raises GroupMoved: somebody else wrote to the group; nothing is overwritten.
    """
    newest = as_if or pipeline.newest_commit(known)
    for _ in range(_TRIES):
        if newest is None:
            return Mirrored(left_alone="the pipeline has no position yet")
        plan = newest.log.plan
        if not plan.mirrors or plan.group_id is None:
            why = "commit_mode is checkpoint-only" if plan.group_id else "there is no group_id"
            return Mirrored(left_alone=f"{why}: the log has the position")
        partitions = _partitions_now(cluster, newest)
        held = cluster.committed(plan.group_id, partitions)
        # The look at the log comes after the one at the group.
        newest = as_if or pipeline.newest_commit(newest) or newest
        offsets = _to_mirror(newest, partitions, held, signature_of(plan, me))
        try:
            if not dry_run:
                cluster.commit_offsets(plan.group_id, offsets)
        except GroupActive as active:
            later = "Once they are gone, the next commit lets the group follow; so does this task, if it is cleared."
            return Mirrored(left_alone=f"{active.found}\n{later}", is_behind=True)
        after = pipeline.newest_commit(newest)
        if dry_run or after is None or after.folder == newest.folder:
            return Mirrored({tp: (held[tp].offset if tp in held else None, c.offset) for tp, c in offsets.items()})
        newest = after
    return Mirrored(left_alone=f"{_TRIES} commits to it in a row were faster; the last of them mirrors the position")


def _to_mirror(
    newest: StoredBatch, partitions: Collection[TopicPartition], held: Held, signature: Signature
) -> dict[TopicPartition, CommittedOffset]:
    committed = newest.log.committed
    position = committed.position if committed else None
    assert position is not None  # a committed batch of the log has one
    foreign = signature.foreign(held, position)
    if foreign:
        raise group_moved(newest.log.plan.group_id, foreign, position, committed=True)
    batch = newest.log.plan.batch
    text = signature.mark(batch.key if batch else None).encode()
    return {
        tp: CommittedOffset(position.offsets[tp].offset, position.offsets[tp].leader_epoch, text)
        for tp in partitions
        if tp in position.offsets
    }


def refuse_live_group(cluster: OffsetCommitter, group_id: str) -> None:
    """:raises GroupActive: the group has live members."""
    group = cluster.describe_group(group_id)
    # Some brokers (Azure Event Hubs) report an empty group as Dead; both are without members.
    if group.members or group.state not in ("Empty", "Dead"):
        raise GroupActive(group_id, group.state, group.members)


def _partitions_now(cluster: OffsetReader, batch: StoredBatch) -> list[TopicPartition]:
    """The batch's partitions that are still there: not those of a topic that was deleted or made anew.

    :raises ClusterUnavailable: another cluster answers.
    """
    plan = batch.log.plan
    description = describe_present(cluster, plan.topic_ids)
    if description is None or description.cluster_id != plan.cluster_id:
        raise ClusterUnavailable(
            f"Cannot mirror the position to group {plan.group_id!r}",
            f"{plan.batch} was read from cluster {plan.cluster_id}, and this connection leads to "
            f"{description.cluster_id if description else 'a cluster without its topics'}",
            "Use the connection that the batch was planned with.",
        )
    present = set(description.partitions())
    same = {name for name, topic in description.topics.items() if plan.topic_ids.get(name) in (None, topic.topic_id)}
    return [tp for p in plan.partitions if (tp := p.topic_partition).topic in same and tp in present]
