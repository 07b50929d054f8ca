"""What a person orders at a terminal: a position, a batch that is left out, a batch that is done again.

Each goes by the same rules as a run. A person's position is a batch that reads nothing and is committed at once: who
dies in between leaves an unfinished batch without records, which the next run commits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from airflow_kafka_offsets.batch.make_draft import lines_of_topics_made_anew
from airflow_kafka_offsets.batch.orders import (
    Create,
    Do,
    LeaveOut,
    OfBatch,
    OfGroup,
    Redo,
    Replace,
    Reset,
    SetPosition,
    TakeOver,
)
from airflow_kafka_offsets.batch.ownership import (
    refuse_another_airflows_log,
    refuse_foreign_offsets,
    refuse_live_group,
    signature_of,
)
from airflow_kafka_offsets.batch.situation import (
    HighestAttempts,
    NewestBatch,
    RangeLookUps,
    RecordsOf,
    Reports,
    Situation,
    TopicsThatExist,
)
from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import (
    ADDRESS,
    BatchClosed,
    ClusterChanged,
    DataLoss,
    NoCommittedOffset,
    NoPosition,
    NothingToDiscover,
    ResetRefused,
    StoreBehindGroup,
    TopicRecreated,
    named,
)
from airflow_kafka_offsets.kafka_values import Actor, ClusterDescription, TopicPartition, topics_made_anew
from airflow_kafka_offsets.log.entries import Taken
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.log.verify_reads import verified_splits
from airflow_kafka_offsets.plan.commit_metadata import Held, newest_batch
from airflow_kafka_offsets.plan.plan import number_of
from airflow_kafka_offsets.plan.planned_anew import skipped
from airflow_kafka_offsets.plan.position import (
    Move,
    Position,
    SavedOffset,
    Target,
    ToOffsets,
    move,
    reset_draft,
)
from airflow_kafka_offsets.request.modes import AtTimestamp

# ── a position ────────────────────────────────────────────────────────────────────────────────────────────────────────


def decide_reset(order: Reset, s: Situation) -> SetPosition | None:
    """``None``: the log went on while the group was looked at.

    :raises ResetRefused: a batch is unfinished; or records would be read again, and nobody has said that this is meant.
    :raises GroupMoved: somebody else wrote to the group.
    :raises GroupActive: the group has live members.
    """
    newest = s.need(NewestBatch(None)).newest
    if newest is None:
        raise NoPosition(
            [f"Pipeline {s.pipeline!r} has no batch in its log"],
            "Its first run begins where startup_mode says: set that instead of a reset.",
        )
    committed, plan = newest.log.committed, newest.log.plan
    if committed is None or committed.position is None:
        raise _unfinished(newest)
    position = committed.position
    refuse_another_airflows_log(order.me, newest)
    description = _topics_of(position, s)
    in_group = 0
    held: Held = {}
    if plan.asked.group_follows and plan.asked.group_id is not None:
        known = {tp.topic for tp in position.offsets}
        partitions = tuple(tp for tp in description.partitions() if tp.topic in known)
        held = s.cluster(Cluster.committed, plan.asked.group_id, partitions)
        in_group = number_of(newest_batch(signature_of(newest.log, order.me).own(held)))
        # The log is looked at once more after the group: a key that it does not know then means that it is old.
        again = s.log(PipelineLog.newest, newest)
        if again is None or again.folder != newest.folder:
            return None
        if in_group > number_of(plan.batch.key):
            raise StoreBehindGroup(s.pipeline, s.store, number_of(plan.batch.key), in_group)
        refuse_foreign_offsets(newest.log, order.me, held, position)
        refuse_live_group(plan.asked.group_id, s.cluster(Cluster.describe_group, plan.asked.group_id))
    target, moves, stays = _moves(order, s, position, description, newest)
    number = max(number_of(plan.batch.key), in_group) + 1
    by = replace(order.me, instance=order.me.instance or newest.log.last_instance)
    create, reason = None, f"reset to {target}: {order.reason}"
    if any(one.changes or one.before is None for one in moves):  # another policy may begin a new partition elsewhere
        if not order.allow_duplicates:
            _refuse_duplicates(moves)
        draft = reset_draft(plan, moves, description.topic_ids, held, reason, order.now_ms)
        create = Create(draft, number, "", plan.batch.key, position=position, history=newest.log.history, reason=reason)
    return SetPosition(moves, stays, create, by)


def _refuse_duplicates(moves: Iterable[Move]) -> None:
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


def _unfinished(batch: StoredBatch) -> ResetRefused:
    plan, key = batch.log.plan, batch.log.plan.batch.key
    if plan.splits_to_start():
        way = (
            "Let the pipeline's next run finish it, then reset. If its records cannot be processed: kafka-offsets skip "
            f"--batch {key} first."
        )
    else:
        way = (
            "It reads nothing (a reset that was cut off, usually): the pipeline's next run commits it, or "
            f"kafka-offsets commit --batch {key} --execute does."
        )
    return ResetRefused(
        [f"{plan.batch}, {key}, is not committed: it is with {batch.log.holder}, and only one is done at a time"],
        way,
    )


def _topics_of(position: Position, s: Situation) -> ClusterDescription:
    """The topics of the position that exist.

    :raises ClusterChanged: another cluster answers.
    :raises TopicRecreated: a topic is another log by now: the position means nothing in it.
    """
    topics = tuple(sorted({tp.topic for tp in position.offsets}))
    description = s.need(TopicsThatExist(topics))
    if description is None:
        raise NothingToDiscover(
            [f"{topic} does not exist" for topic in topics], f"Correct {named(ADDRESS)}, or the pipeline's name."
        )
    if description.cluster_id != position.cluster_id:
        raise ClusterChanged(s.pipeline, position.cluster_id, description.cluster_id)
    ids = description.topic_ids
    anew = topics_made_anew(position.topic_ids, ids)
    if anew:
        raise TopicRecreated(
            lines_of_topics_made_anew(anew, position, ids),
            "The topic was deleted and created again: it is another log. Let one run with the conf "
            '{"kafka_offsets": {"policies": {"topic_recreated": "earliest"}}} take up the new one, then reset.',
        )
    return description


def _moves(
    order: Reset, s: Situation, position: Position, description: ClusterDescription, newest: StoredBatch
) -> tuple[Target, tuple[Move, ...], tuple[TopicPartition, ...]]:
    """Where each partition goes, and those that the target has no offset for: they stay where they are."""
    target = order.target
    if isinstance(target, OfGroup):
        target = _offsets_of_group(target, s, position, description)
    elif isinstance(target, OfBatch):
        target = _offsets_of_batch(target, order, position, description)
    meant = _meant(order, s, position, description, target)
    partitions = tuple(tp for tp in meant if not isinstance(target, ToOffsets) or tp in target.offsets)
    times = dict.fromkeys(partitions, target.timestamp_ms) if isinstance(target, AtTimestamp) else {}
    ends = {tp: saved.offset for tp, saved in position.offsets.items()}
    logs = s.need(RangeLookUps(partitions, newest.log.plan.asked.isolation_level, times, {}, known_ends=ends))
    moves = tuple(
        move(target, tp, position.offsets.get(tp), logs.snapshots[tp], logs.starts.get(tp)) for tp in partitions
    )
    return target, moves, tuple(sorted(set(meant) - set(partitions)))


def _offsets_of_group(group: OfGroup, s: Situation, position: Position, description: ClusterDescription) -> ToOffsets:
    known = {tp.topic for tp in position.offsets}
    partitions = tuple(tp for tp in description.partitions() if tp.topic in known)
    held = s.cluster(Cluster.committed, group.group_id, partitions)
    if not held:
        raise NoCommittedOffset(
            [f"Group {group.group_id!r} holds no offset of {', '.join(sorted(known))}"],
            "Correct the name of the group, or the cluster.",
        )
    offsets = {tp: SavedOffset(commit.offset, commit.leader_epoch) for tp, commit in held.items()}
    return ToOffsets(offsets, f"group {group.group_id}")


def _offsets_of_batch(batch: OfBatch, order: Reset, position: Position, description: ClusterDescription) -> ToOffsets:
    """The position after the batch. A partition that is new since goes on from its log start, as after the batch.

    :raises ResetRefused: a topic, or the cluster, is another one since.
    """
    then, ids = batch.position, description.topic_ids
    asked = {*order.topics, *(tp.topic for tp in order.partitions)} or then.topic_ids.keys()
    lines = lines_of_topics_made_anew(topics_made_anew(then.topic_ids, ids) & asked, then, ids)
    if then.cluster_id != description.cluster_id:
        lines = [f"{batch.name} was read from cluster {then.cluster_id}, and this is {description.cluster_id}"]
    if lines:
        raise ResetRefused(
            lines,
            f"The offsets after {batch.name} are of another log. Give a later batch, or --to-earliest; --topics sets "
            "the position of other topics alone.",
        )
    new_since = dict.fromkeys(position.offsets, SavedOffset(0))  # brought to the log start
    return ToOffsets({**new_since, **then.offsets}, batch.name)


def _meant(
    order: Reset, s: Situation, position: Position, description: ClusterDescription, target: Target
) -> list[TopicPartition]:
    """The partitions that are asked for; of a file, those that it has."""
    known, present = {tp.topic for tp in position.offsets}, set(description.partitions())
    if order.partitions:
        wanted = set(order.partitions)
    elif order.topics:
        wanted = {tp for tp in present if tp.topic in order.topics}
    elif isinstance(target, ToOffsets) and not isinstance(order.target, OfGroup | OfBatch):
        wanted = set(target.offsets)
    else:
        wanted = {tp for tp in position.offsets if tp in present}
    strange = sorted({*order.topics, *(tp.topic for tp in wanted)} - known)
    lines = [f"{topic}: the pipeline has no position in this topic" for topic in strange]
    absent = sorted({topic for topic in order.topics if topic in known} - description.topics.keys())
    lines += [f"{topic} does not exist" for topic in absent]
    lines += [f"{tp} does not exist" for tp in sorted(wanted - present) if tp.topic in known]
    if lines or not wanted:
        raise NoPosition(lines or ["Nothing is there of what the position holds"], "Correct the topics, or the file.")
    return sorted(wanted)


# ── a batch ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def decide_leave_out(order: LeaveOut, s: Situation) -> Replace:
    """
    :raises BatchClosed: it names another batch than the unfinished one.
    :raises NoPosition: there is no such batch or window.
    """
    batch = _window_named(order, s) if order.window else _unfinished_batch(order, s)
    plan = batch.log.plan
    by = Actor(None, batch.log.last_instance, order.person)  # the Airflow that the batch is of stays named
    verified = verified_splits(plan, s.need(Reports(batch))) if order.skip.named else {}
    without = skipped(plan, by, order.skip, verified) or plan
    return Replace(batch, replace(without, resolved_at_ms=order.now_ms))


def _window_named(order: LeaveOut, s: Situation) -> StoredBatch:
    window = s.log(PipelineLog.find_window, order.skip.batch)
    if window is None:
        raise NoPosition(
            [f"Pipeline {s.pipeline!r} has no window {order.skip.batch!r}"],
            "kafka-offsets show --windows lists those that it has.",
        )
    return window


def _unfinished_batch(order: LeaveOut, s: Situation) -> StoredBatch:
    newest = s.need(NewestBatch(None)).newest
    if newest is None:
        raise NoPosition([f"Pipeline {s.pipeline!r} has no batch"], "Correct the name, or the work store.")
    key = newest.log.plan.batch.key
    if newest.log.committed:
        raise BatchClosed("skip", order.skip.batch, f"the newest batch, {key}, is committed")
    if key != order.skip.batch:
        raise BatchClosed("skip", order.skip.batch, f"the unfinished batch is {key}")
    return newest


def decide_redo(order: Redo, s: Situation) -> Do:
    """
    :raises BatchClosed: it is not committed, so that the pipeline's next run does it anyway; or was cleaned away.
    :raises DataLoss: its records are gone.
    """
    batch, key = s.log(PipelineLog.read, order.batch.name), order.batch.log.plan.batch.key
    if batch is None or not batch.log.committed:
        why = "it is not committed, so its pipeline's next run does it anyway" if batch else "it was cleaned away"
        raise BatchClosed("redo", key, why)
    plan = batch.log.plan
    refuse_another_airflows_log(order.me, batch)
    gone = s.need(RecordsOf(plan)).missing(plan)
    if gone:
        raise DataLoss(
            gone, f"{plan.batch} is committed, and its output stays as it is. Leave it: there is nothing to do."
        )
    splits = tuple(sorted(plan.splits_with_rows()))
    return Do(batch, splits, Taken(order.me, order.now_ms, s.need(HighestAttempts(batch, splits))))


def decide_take_over(order: TakeOver, s: Situation) -> Do:
    """Nothing is done again by it: a ``taken`` without attempts says who has the pipeline.

    :raises NoPosition: it has no batch.
    :raises BatchClosed: it is this Airflow's already.
    """
    newest = s.need(NewestBatch(None)).newest
    if newest is None:
        raise NoPosition(
            [f"Pipeline {s.pipeline!r} has no batch in its log"],
            'Whose a window is, each says itself: policies={"another_airflow": "take-over"} in the conf of its run.',
        )
    if newest.log.last_instance in (None, order.me.instance):
        raise BatchClosed("take-over", s.pipeline, f"{order.me.instance} is the Airflow that wrote to it last")
    return Do(newest, (), Taken(order.me, order.now_ms))
