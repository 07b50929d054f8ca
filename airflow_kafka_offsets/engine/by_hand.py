"""What a person does to a pipeline: ``reset`` (the startup request, applied once more), ``skip``, and acknowledging.

Each writes an entry that carries the highest attempt there is, so that only Spark jobs that begin later verify.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from shlex import quote
from typing import NoReturn

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.engine.draft import header, inside, replan
from airflow_kafka_offsets.engine.group import later_marks, marks_of, strange
from airflow_kafka_offsets.engine.look import Look, records_gone
from airflow_kafka_offsets.engine.mirror import mirror
from airflow_kafka_offsets.errors import ResetRefused
from airflow_kafka_offsets.kafka_values import Actor, OffsetRange, TopicList, TopicPartition
from airflow_kafka_offsets.log.entries import Batch, Claim, Commit
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, Position
from airflow_kafka_offsets.plan.body import Decision, Offset, PlanBody, PlannedRange, Skips
from airflow_kafka_offsets.plan.ranges import for_each, moved, startup_offset
from airflow_kafka_offsets.plan.window import is_other_topic
from airflow_kafka_offsets.request import GroupStart, Request


@dataclass(frozen=True, slots=True)
class Moved:
    """What a reset did, or would do.

    :ivar batch: the batch that records it.
    :ivar before: the position, as far as there was one; ``after``: the new one.
    :ivar decisions: what it skips, loses and reads again.
    """

    batch: int
    before: Position
    after: Mapping[TopicPartition, Offset]
    decisions: tuple[Decision, ...]


def reset(want: Request, who: Actor, log: PipelineLog, kafka: Cluster, *, allow_duplicates: bool = False) -> Moved:
    """Run the startup request once more: in a batch of its own, or by planning the unfinished one again.

    :param want: its ``start`` is where to go; ``end`` and ``max_records`` are not used.
    :param allow_duplicates: whether records may be read again, whose rows are in the output already.
    :raises ResetRefused: what the move would do is not allowed, or the pipeline has windows.
    """
    while True:
        look = Look(want, kafka)
        held = look.group
        newest = log.newest()
        _refuse_window(log, newest)
        at = _position(log, newest)
        is_lost = newest is None and bool(marks_of(held))
        if is_lost and not isinstance(want.start, GroupStart):
            _refuse(
                f"Pipeline {log.pipeline_id!r} has no batch, and its group carries marks of one",
                f"Go on from what the group has: kafka-offsets reset {quote(log.pipeline_id)} --start group-offsets",
            )
        if newest is not None and not at and later_marks(held, log.pipeline_id, None):
            _refuse(  # rows of this batch may be there: another plan under its key would remove them
                f"Pipeline {log.pipeline_id!r} has no committed batch, and its group knows one",
                f"Finish batch {newest.number} first: "
                f"kafka-offsets reset {quote(log.pipeline_id)} --start current --execute",
            )
        facts = look.facts(look.asked, {}, is_startup=True)
        to = for_each(look.asked, partial(startup_offset, want, facts))
        outside = [
            f"{tp}: offset {to[tp].offset} is outside of the log, {log_.log_start_offset} to {log_.high_watermark}"
            for tp, log_ in sorted(facts.snapshots.items())
            if not log_.log_start_offset <= to[tp].offset <= log_.high_watermark
        ]
        if outside and not isinstance(want.start, GroupStart):  # the next plan says what a group's offsets lost
            raise ResetRefused(outside, "Give offsets that the log has.")
        by = f"reset by {who}"
        decisions = tuple(
            d._replace(keep=True)
            for tp in sorted(to)
            if tp in at
            for d in moved(tp, at[tp].offset, to[tp].offset, facts.snapshots[tp].log_start_offset, by,
                           recreated=facts.is_recreated(tp, at[tp]))
        )  # fmt: skip
        is_other_cluster = newest is not None and newest.plan.cluster_id != look.description.cluster_id
        _refuse_duplicates(log, to, decisions, is_lost=is_lost, is_other=is_other_cluster, allowed=allow_duplicates)
        base: Position = {} if is_other_cluster else _resumes_from(log, newest)
        if _append(look, log, newest, who, base, to, decisions):
            return Moved(1 if newest is None else newest.number + newest.is_committed, at, to, decisions)


def acknowledge(look: Look, log: PipelineLog, batch: Batch, who: Actor) -> bool:
    """What changed around the pipeline counts as known from here on. ``False``: another writer was faster; look again.

    An unfinished batch gets a claim; in sequence, a committed one is followed by an empty batch at its position.

    :raises ResetRefused: the batch of a window is committed.
    """
    is_same_cluster = batch.plan.cluster_id == look.description.cluster_id
    if (not batch.is_committed and is_same_cluster) or batch.plan.kind == "window":
        if batch.is_closed:
            _refuse(f"{batch} is committed", "There is nothing to acknowledge: to write it again, clear its run.")
        k, highest, seen = len(batch.entries) + 1, batch.highest_attempt, None
        if batch.plan.kind != "window":
            held = strange(look.group, log.pipeline_id, log.batch(batch.number - 1))
            seen = log.write_body(batch.number, k, PlanBody(seen=held))
        claim = Claim(by=who, at_ms=look.want.now_ms, after=highest, acknowledged=highest, ranges=seen)
        return log.append(batch.number, k, claim)
    at = _resumes_from(log, batch)
    if is_same_cluster:  # the position stays as it is, also where a topic was re-created since: the next plan says so
        return _append(look, log, batch, who, at, {}, ())
    ids = look.description.topic_ids  # the same offsets, in the topics of the cluster that answers now
    at = {tp: Offset(o.offset, None, ids[tp.topic]) for tp, o in at.items() if tp in look.description.partitions}
    return _append(look, log, batch, who, {}, at, ())


def skip(
    want: Request, who: Actor, log: PipelineLog, kafka: Cluster, tp: TopicPartition, skipped: OffsetRange
) -> Batch:
    """Give up offsets of an unfinished batch, and plan it again without them.

    :raises ResetRefused: no unfinished batch has them, or records of it are gone already.
    """
    while True:
        batch = _batch_with(log, tp, skipped)
        body = log.body(batch)
        if records_gone(kafka, batch.plan, body):
            _refuse(f"{batch} has records that are gone from Kafka", "Let its run plan it again first, then skip.")
        topics = TopicList(tuple(sorted(batch.plan.topics)), all_exist=False)
        again = replace(want, subscription=topics, isolation_level=batch.plan.isolation_level)
        look = Look(again, kafka)
        skips = {**body.skips, tp: (*body.skips.get(tp, ()), skipped)}
        decision = Decision(tp, skipped.start_offset, skipped.end_offset, "skipped", f"skip by {who}", keep=True)
        new = replan(look, body, is_window=batch.plan.kind == "window", skips=skips)
        new = replace(new, decisions=(*new.decisions, decision), seen=log.seen(batch))
        k = len(batch.entries) + 1
        plan = header(look, log, batch.number, k, new, who, last=batch, kind=batch.plan.kind,
                      acknowledged=batch.highest_attempt)  # fmt: skip
        if log.append(batch.number, k, plan):
            return log.existing(batch.number)


def _batch_with(log: PipelineLog, tp: TopicPartition, skipped: OffsetRange) -> Batch:
    """The unfinished batch that has these offsets: the newest in sequence, any by window."""
    newest = log.newest()
    for number in range(newest.number if newest else 0, 0, -1):
        batch = log.existing(number)
        if not batch.is_committed:
            body = log.body(batch)
            planned, skips = body.ranges.get(tp), body.skips.get(tp, ())
            if planned and planned.start <= skipped.start_offset and skipped.end_offset <= planned.end:
                if skipped.without(skips) != [skipped]:
                    _refuse(f"{tp}: some of offsets {_words(skipped)} are skipped already", "Name the others only.")
                return batch
        if batch.plan.kind != "window":
            break
    raise ResetRefused(
        [f"{tp}: no unfinished batch of pipeline {log.pipeline_id!r} has offsets {_words(skipped)}"],
        f"See what the newest one has: kafka-offsets show {quote(log.pipeline_id)}",
    )


def _words(skipped: OffsetRange) -> str:
    return f"{skipped.start_offset} to {skipped.end_offset}"


def _append(
    look: Look,
    log: PipelineLog,
    newest: Batch | None,
    who: Actor,
    base: Position,
    to: Position,
    decisions: tuple[Decision, ...],
) -> bool:
    """The unfinished batch planned again from ``to``, or an empty batch whose position is that, committed.

    :param base: the position of partitions that ``to`` lacks.
    """
    is_unfinished = newest is not None and not newest.is_committed
    committed = log.batch(newest.number - 1) if newest is not None and is_unfinished else newest
    seen = strange(look.group, log.pipeline_id, committed)
    if newest is not None and is_unfinished:
        old = log.body(newest)
        snapshots = look.facts(list(to), to, is_startup=False).snapshots
        # A partition that is not asked for stays as it is; of a re-created topic, it is for the next plan.
        now = look.description.topic_ids
        ranges = {tp: r for tp, r in old.ranges.items() if tp in base and not is_other_topic(base[tp], tp, now)}
        for tp, offset in to.items():
            end = min(old.ranges[tp].end if tp in old.ranges else 0, snapshots[tp].high_watermark)
            ranges[tp] = PlannedRange(offset.offset, max(offset.offset, end), snapshots[tp].leader_epoch)
        ids = {tp: offset.topic_id for tp, offset in old.resume_from.items()}
        same = {tp: r for tp, r in ranges.items() if tp not in to or to[tp].topic_id == ids.get(tp)}
        skips = inside(old.skips, same)
        kept = tuple(d for d in old.decisions if d.partition not in to or _is_skip(d, skips))
        body = PlanBody(ranges, {**base, **to}, skips, (*decisions, *kept), seen)
        k = len(newest.entries) + 1
        plan = header(look, log, newest.number, k, body, who, last=newest, kind=newest.plan.kind,
                      acknowledged=newest.highest_attempt)  # fmt: skip
        return log.append(newest.number, k, plan)
    number = 1 if newest is None else newest.number + 1
    ranges = {tp: PlannedRange(o.offset, o.offset, o.leader_epoch) for tp, o in to.items()}
    body = PlanBody(ranges, {**base, **to}, {}, decisions, seen)
    plan = header(look, log, number, 1, body, who, last=newest, kind="reset")
    if not log.append(number, 1, plan):
        return False
    after = body.position_after(plan.topic_ids)
    commit = Commit(by=who, at_ms=look.want.now_ms, plan_id=plan.plan_id, output=plan.output,
                    ranges=log.write_body(number, 2, after))  # fmt: skip
    if log.append(number, 2, commit):  # else a run went on with it
        mirror(log, look.kafka, log.existing(number))
    return True


def _is_skip(decision: Decision, skips: Skips) -> bool:
    """Whether a decision is about offsets that the plan still skips."""
    of_partition = skips.get(decision.partition, ())
    return any(s.start_offset <= decision.start and (decision.end or 0) <= s.end_offset for s in of_partition)


def _position(log: PipelineLog, newest: Batch | None) -> Position:
    """After the newest commit; empty where there is none."""
    if newest is not None and not newest.is_committed:
        newest = log.batch(newest.number - 1) if newest.number > 1 else None
    return {} if newest is None else log.position_after(newest)


def _resumes_from(log: PipelineLog, newest: Batch | None) -> Position:
    """Where the pipeline goes on: at the position, or where its unfinished batch begins."""
    if newest is not None and not newest.is_committed:
        return log.body(newest).resume_from
    return _position(log, newest)


def _refuse_window(log: PipelineLog, newest: Batch | None) -> None:
    if newest is not None and newest.plan.kind == "window":
        _refuse(
            f"Pipeline {log.pipeline_id!r} reads by window, and has no position to reset",
            "Clear a window's run to write it again. To acknowledge a change of an unfinished one: "
            f"kafka-offsets reset {quote(log.pipeline_id)} --start current --window START END",
        )


def _refuse_duplicates(
    log: PipelineLog,
    to: Mapping[TopicPartition, Offset],
    decisions: tuple[Decision, ...],
    *,
    is_lost: bool,
    is_other: bool,
    allowed: bool,
) -> None:
    again = [d for d in decisions if d.kind == "again"]
    if allowed or not (again or is_lost or is_other):
        return
    if is_lost or is_other:
        lines = [f"{tp}: rows with offset {to[tp].offset} or a later one would be written again" for tp in sorted(to)]
        why = "Delete these rows from the output first, or accept that records are in it twice"
    else:
        lines = [f"{d.partition}: offsets {d.start} to {d.end} would be read again" for d in again]
        why = "Their rows are in the output already"
    raise ResetRefused(lines, f"{why}: add --allow-duplicates to kafka-offsets reset {quote(log.pipeline_id)}")


def _refuse(line: str, remedy: str) -> NoReturn:
    raise ResetRefused([line], remedy)
