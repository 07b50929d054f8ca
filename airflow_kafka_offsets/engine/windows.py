"""By window: which batch has a window, and planning it between two cuts (STATE.md, Two kinds of pipeline)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_kafka_offsets.engine.changes import has_succeeded, refuse_other_cluster
from airflow_kafka_offsets.engine.draft import header
from airflow_kafka_offsets.engine.group import refuse_lost_log
from airflow_kafka_offsets.engine.history import unfinished
from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.engine.surroundings import Airflow
from airflow_kafka_offsets.engine.work import Work, summary_of
from airflow_kafka_offsets.errors import DataLoss, WindowRefused
from airflow_kafka_offsets.kafka_values import Actor, PartitionSnapshot, RunKey, TopicPartition
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import Decision, Offset, Offsets, PlanBody, PlannedRange
from airflow_kafka_offsets.plan.ranges import for_each
from airflow_kafka_offsets.plan.window import Covered, Window, is_other_topic, with_window
from airflow_kafka_offsets.request import Request
from airflow_kafka_offsets.times import iso

FUTURE_MS = 3_600_000
"""A record later than this does not decide where a window ends: one wrong clock would hide all that follows."""


def turn(
    want: Request, me: RunKey, look: Look, log: PipelineLog, newest: Batch | None, airflow: Airflow
) -> Batch | Work | None:
    """The window's batch; or, if it was not planned yet, the work of planning it now. ``None``: another writer was
    faster; look again.

    :param newest: looked at before ``windows/``, so that only the newest batch can ever lack its name there.
    :raises WindowRefused: it overlaps windows that are taken, or has not ended.
    """
    assert want.window is not None
    last = newest.first_plan.window if newest is not None else None
    if newest is not None and last is not None and not newest.is_committed:  # no run is given a batch without the name
        log.name_window(last, newest.number)
    if (number := log.batch_of_window(want.window)) is not None:
        return log.existing(number)
    refuse_other_cluster(look, newest)
    refuse_lost_log(log.pipeline_id, None, {}, newest, has_succeeded=has_succeeded(want, log, newest, airflow))
    stretches = log.first_body(newest).covered if newest is not None else ()
    covered = Covered(stretches, look.description.topic_ids)
    _refuse_window(want, covered)
    body = plan_window(look, covered)
    number = 1 if newest is None else newest.number + 1
    plan = header(look, log, number, 1, body, Actor(me), last=newest, kind="window")
    if newest is not None:
        plan = replace(plan, unfinished=tuple(batch.number for batch in unfinished(log, newest)))
    if not log.append(number, 1, plan):
        return None
    log.name_window(want.window, number)
    batch = Batch(number, (plan,))
    return Work(log, batch, body, me, bool(body.offsets), 0, summary_of(batch, body))


def _refuse_window(want: Request, covered: Covered) -> None:
    window = want.window
    assert window is not None
    if taken := covered.overlapping(window):
        free = ", ".join(_in_words(part) for part in covered.free(window)) or "none of it"
        parts = covered.free(window)
        way = (
            f'Run it with another window in the run\'s conf: {{"kafka_offsets": {{"window": ["{iso(parts[0][0])}", "{iso(parts[0][1])}"]}}}}'  # noqa: E501
            if parts
            else "Clear the runs that took it to write it again."
        )
        raise WindowRefused(
            f"Window {_in_words(window)} of pipeline {want.pipeline_id!r} is refused.",
            f"It overlaps {', '.join(_in_words((s.start_ms, s.end_ms)) for s in taken[:3])}, which is taken; free of it: {free}.",  # noqa: E501
            way,
        )
    if window[1] > want.now_ms:
        raise WindowRefused(
            f"Window {_in_words(window)} of pipeline {want.pipeline_id!r} is refused.",
            f"It has not ended: it is {iso(want.now_ms)}.",
            "Run it once its end has passed.",
        )


def _in_words(window: Window) -> str:
    return f"{iso(window[0])} to {iso(window[1])}"


# ── planning ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def plan_window(look: Look, covered: Covered) -> PlanBody:
    """The range between the window's two cuts. A neighbour's cut is shared; a new one is looked up and clamped.

    :raises DataLoss: records that may have been this window's are gone, and ``on_data_loss`` is ``fail``.
    """
    want, asked = look.want, look.asked
    assert want.window is not None
    start_ms, end_ms = want.window
    facts = look.facts(asked, {}, is_startup=False)
    logs, ids = facts.snapshots, facts.topic_ids
    left, right = covered.cut_ending_at(start_ms), covered.cut_starting_at(end_ms)
    found, at_start = ({}, {}) if left is not None else _look_up(look, logs, start_ms)
    low = _cut(left, {tp: covered.clamp(start_ms, tp, offset) for tp, offset in found.items()}, logs, ids)
    answers = {} if right is not None else _look_up(look, logs, end_ms)[0]
    high = _cut(
        right,
        {tp: max(covered.clamp(end_ms, tp, max(o, covered.offset_in(low, tp))), 0) for tp, o in answers.items()},
        logs,
        ids,
    )
    if left is None and right is not None:
        old = Covered(covered.stretches, {})
        low |= {
            tp: Offset(old.before(start_ms, tp), None, right[tp].topic_id)
            for tp in low
            if tp in right and is_other_topic(right[tp], tp, ids)
        }
    unasked = _keep_unasked(look, covered, low, high, has_left=left is not None, has_right=right is not None)
    lost = {} if left is not None else _hidden(look, covered, low, at_start, logs)
    ranges: dict[TopicPartition, PlannedRange] = {}
    resume_from: dict[TopicPartition, Offset] = {}
    decisions: list[Decision] = [*unasked, *(d for tp in sorted(lost) for d in lost[tp])]

    def place(tp: TopicPartition) -> tuple[Offset, PlannedRange, tuple[Decision, ...]]:
        end = covered.offset_in(high, tp)
        at = low.get(tp)
        if tp in high and is_other_topic(high[tp], tp, ids):  # its end is in a topic that is no more
            former = high[tp]
            if at is None or is_other_topic(at, tp, ids):  # so is its start, or in one before that
                at, end = at or Offset(0, None, former.topic_id), former.offset
                until = None if is_other_topic(at, tp, {tp.topic: former.topic_id}) else end
                gone = _loss(look, tp, at.offset, until) if until is None or at.offset < until else ()
                return at, PlannedRange(end, end, logs[tp].leader_epoch), gone
            before = covered.before_in(start_ms, tp, former.topic_id)
            gone = _loss(look, tp, before, former.offset) if before < former.offset else ()
            return at, PlannedRange(at.offset, at.offset, logs[tp].leader_epoch), _kept(gone)
        if at is not None and is_other_topic(at, tp, ids):
            new = Offset(min(logs[tp].log_start_offset, end), None, ids.get(tp.topic))
            gone = _kept(_loss(look, tp, at.offset, None))  # a later plan resumes from the new topic
            return new, PlannedRange(new.offset, end, logs[tp].leader_epoch), gone
        if at is None:  # a new partition is read from its log start, which is no loss
            at = Offset(min(logs[tp].log_start_offset, end), None, ids.get(tp.topic))
        end = max(at.offset, end)
        start = min(max(at.offset, logs[tp].log_start_offset), end)
        gone = _loss(look, tp, at.offset, start) if start > at.offset else ()
        return at, PlannedRange(start, end, logs[tp].leader_epoch), gone

    for tp, (at, planned, gone) in for_each(asked, place).items():
        resume_from[tp], ranges[tp] = at, planned
        decisions += gone
    stretches, gaps = with_window(covered.stretches, want.window, low, high)
    return PlanBody(ranges, resume_from, {}, (*decisions, *gaps), {}, stretches)


def _look_up(
    look: Look, logs: Mapping[TopicPartition, PartitionSnapshot], time_ms: int
) -> tuple[dict[TopicPartition, int], Mapping[TopicPartition, int]]:
    """The first record with this time or a later one; if there is none, or it is of the future, the log's end.

    :returns: that, and Kafka's own answers.
    """
    level, kafka = look.want.isolation_level, look.kafka
    at = kafka.offsets_for_times(dict.fromkeys(logs, time_ms), level) if logs else {}
    future_ms = look.want.now_ms + FUTURE_MS + 1
    future = kafka.offsets_for_times(dict.fromkeys(at, future_ms), level) if at else {}
    offsets = {
        tp: log.end_offset if tp not in at or at[tp] == future.get(tp) else min(at[tp], log.end_offset)
        for tp, log in logs.items()
    }
    return offsets, at


def _cut(
    shared: Offsets | None,
    found: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, PartitionSnapshot],
    ids: Mapping[str, str | None],
) -> dict[TopicPartition, Offset]:
    if shared is not None:
        return dict(shared)
    return {tp: Offset(offset, logs[tp].leader_epoch, ids.get(tp.topic)) for tp, offset in found.items()}


def _keep_unasked(
    look: Look,
    covered: Covered,
    low: dict[TopicPartition, Offset],
    high: dict[TopicPartition, Offset],
    *,
    has_left: bool,
    has_right: bool,
) -> list[Decision]:
    """For a partition that the run does not ask for, the window is empty: both cuts have the same offset.

    :returns: what is between two old cuts of a topic that was deleted or re-created.
    :raises WindowRefused: two old cuts differ there, and the records between them are in Kafka.
    :raises DataLoss: they are not, and ``on_data_loss`` is ``fail``.
    """
    assert look.want.window is not None
    differ: list[tuple[TopicPartition, Offset, Offset]] = []
    for tp in sorted((covered.partitions() | set(low) | set(high)) - set(look.asked)):
        if has_left and has_right:
            start, end = low.get(tp, Offset(0)), high.get(tp, Offset(0))
            if is_other_topic(start, tp, {tp.topic: end.topic_id}):
                start = Offset(0)
            if start.offset < end.offset:
                differ.append((tp, start, end))
        elif has_left:
            if tp in low:
                high[tp] = low[tp]
        elif has_right:
            if tp in high:
                low[tp] = high[tp]
        else:
            topic_id = look.description.topic_ids.get(tp.topic) or _topic_id(covered, tp)
            low[tp] = high[tp] = Offset(covered.clamp(look.want.window[0], tp, 0), None, topic_id)
    described = look.restored({tp: end for tp, _, end in differ})
    present = {*described, *look.description.partitions}
    is_gone = {tp: tp not in present or is_other_topic(end, tp, look.description.topic_ids) for tp, _, end in differ}
    if left := [str(tp) for tp, gone in is_gone.items() if not gone]:
        raise WindowRefused(
            f"Window {_in_words(look.want.window)} of pipeline {look.want.pipeline_id!r} is refused.",
            f"The windows beside it have records of {', '.join(left)}, which this run does not ask for.",
            "Subscribe to the same topics as the windows beside it.",
        )
    return [d for tp, start, end in differ for d in _kept(_loss(look, tp, start.offset, end.offset))]


def _topic_id(covered: Covered, tp: TopicPartition) -> str | None:
    cuts = (cut for s in covered.stretches for cut in (s.end_cut, s.start_cut))
    return next((cut[tp].topic_id for cut in cuts if tp in cut), None)


def _hidden(
    look: Look,
    covered: Covered,
    low: Offsets,
    at: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, PartitionSnapshot],
) -> dict[TopicPartition, tuple[Decision, ...]]:
    """Records that are gone and may have been this window's: Kafka's answer for a new start is the first record that is
    left, and the cut before is lower.

    Where an older record is left (timestamps out of order), nobody can tell, and nothing is said. Compaction leaves no
    record on the log start, so the first record is asked for; after that, or retention in between could hide the loss.

    :param at: Kafka's answer for the new start.
    """
    want = look.want
    assert want.window is not None
    start_ms = want.window[0]
    first = look.kafka.offsets_for_times(dict.fromkeys(logs, 0), want.isolation_level) if logs else {}

    def hidden(tp: TopicPartition) -> tuple[Decision, ...]:
        before = covered.before(start_ms, tp)
        found = at.get(tp, logs[tp].end_offset)
        until = min(found, low[tp].offset)
        if first.get(tp, found) < found or until <= before:
            return ()
        return _kept(_loss(look, tp, before, until))

    return for_each(look.asked, hidden)


def _kept(decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
    """The same, also in later plans of the batch, which cannot find them again."""
    return tuple(decision._replace(keep=True) for decision in decisions)


def _loss(look: Look, tp: TopicPartition, start: int, end: int | None) -> tuple[Decision, ...]:
    """:raises DataLoss: ``on_data_loss`` is ``fail``."""
    want = look.want
    assert want.window is not None
    if want.on_data_loss == "fail":
        which = (
            f"offsets {start} to {end}" if end is not None else f"offsets from {start} on (the topic was re-created)"
        )
        raise DataLoss(
            [f"{tp}: {which} are gone from Kafka, and may have been of window {_in_words(want.window)}"],
            'Restore the records, or accept the loss with on_data_loss="advance".',
        )
    return (Decision(tp, start, end, "lost", f"on_data_loss={want.on_data_loss}"),)
