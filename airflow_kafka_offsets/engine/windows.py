"""By window: which batch has a window, and the range between two cuts (STATE.md, *Two kinds of pipeline*)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.engine.sequence import decisions_of_skips, skips_in
from airflow_kafka_offsets.errors import DataLoss, WindowRefused
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.identity import Identity
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import Decision, Offset, Offsets, PlanBody, PlannedRange, is_other_topic
from airflow_kafka_offsets.plan.window import MOST_STRETCHES, Covered, Window, with_window
from airflow_kafka_offsets.request import Request
from airflow_kafka_offsets.times import iso

FUTURE_MS = 3_600_000
"""A record later than this does not decide where a window ends: one wrong clock would hide all that follows."""


def find_window(request: Request, log: PipelineLog, newest: Batch | None) -> Batch | None:
    """The batch that has the request's window; ``None``: it is not planned.

    :param newest: looked at before ``windows/``, so that only the newest batch can ever lack its name there.
    """
    assert request.window is not None
    if newest is not None and newest.first_plan.window is not None and not newest.is_committed:
        log.name_window(newest.first_plan.window, newest.number)  # no run is given a batch without the name
    number = log.batch_of_window(request.window)
    return None if number is None else log.existing(number)


def require_free(request: Request, identity: Identity, covered: Covered) -> None:
    """:raises WindowRefused: the window cannot be planned."""
    window = request.window
    assert window is not None
    what = f"Window {words_of(window)} of pipeline {request.pipeline_id!r} is refused."
    if taken := covered.overlapping(window):
        parts = covered.free(window)
        free = ", ".join(map(words_of, parts)) or "nothing"
        bounds = f'["{iso(parts[0][0])}", "{iso(parts[0][1])}"]' if parts else ""
        raise WindowRefused(
            what,
            f"It overlaps {', '.join(words_of((s.start_ms, s.end_ms)) for s in taken[:3])}, which is planned; "
            f"free: {free}.",
            f'Trigger a run with the conf {{"kafka_offsets": {{"window": {bounds}}}}}'
            if parts
            else "Clear the runs of these windows to rewrite them.",
        )
    if window[1] > request.now_ms:
        raise WindowRefused(what, f"It has not ended: it is {iso(request.now_ms)}.", "Run it once its end has passed.")
    if identity.windows_from is not None and window[0] < identity.windows_from:
        raise WindowRefused(
            what,
            f"It begins before {iso(identity.windows_from)}: a lost log may have written it.",
            "Its rows may be in the output already. Read it with another pipeline_id, into an output of its own.",
        )
    touches = {s.end_ms for s in covered.stretches} & {window[0]} or {s.start_ms for s in covered.stretches} & {
        window[1]
    }
    if len(covered.stretches) >= MOST_STRETCHES and not touches:
        raise WindowRefused(
            what,
            f"The pipeline has {MOST_STRETCHES} stretches of windows with gaps between, and this would be one more.",
            f"Fill a gap first: the first is {words_of((covered.stretches[0].end_ms, covered.stretches[1].start_ms))}.",
        )


def words_of(window: Window) -> str:
    return f"{iso(window[0])} to {iso(window[1])}"


class _Bound(NamedTuple):
    """The offsets of one bound of the window.

    :ivar cut: clamped between the nearest cuts. :ivar answers: Kafka's own; ``None``: the cut is a neighbour's.
    """

    cut: Offsets
    answers: Mapping[TopicPartition, int] | None = None


def plan_window(look: Look, identity: Identity, covered: Covered) -> PlanBody:
    """The first plan of a window.

    :raises DataLoss: records that may have been this window's are gone, and ``on_data_loss`` is ``fail``.
    """
    window = look.request.window
    assert window is not None
    low = _start(look, covered, window[0])
    high = _end(look, covered, window[1], low.cut)
    hidden = [] if low.answers is None else _hidden(look, covered, low)
    ends = {tp: high.cut.get(tp, Offset(0, None, at.topic_id)) for tp, at in look.log_starts(look.own).items()}
    new = {tp: at for tp, at in look.log_starts(look.own).items() if tp not in low.cut}  # read from its log start
    resume_from = {**low.cut} | {tp: at._replace(offset=min(at.offset, ends[tp].offset)) for tp, at in new.items()}
    body = _plan_between(look, identity, resume_from, ends, refused=hidden)
    return replace(body, covered=with_window(covered.stretches, window, low.cut, high.cut))


def replan_window(look: Look, identity: Identity, log: PipelineLog, batch: Batch) -> PlanBody:
    """The window once more, between the cuts of its first plan: only its start moves, up to its end at most.

    :raises DataLoss: records are gone, and ``on_data_loss`` is ``fail``.
    """
    first = log.first_body(batch)
    ids = look.topic_ids(first.ranges)
    kept = [decision for decision in log.body(batch).decisions if decision.kind == "hidden"]
    refused, ends, ended = list[Decision](), dict[TopicPartition, Offset](), dict[TopicPartition, PlannedRange]()
    for tp, r in sorted(first.ranges.items()):
        at = first.resume_from[tp]
        if tp.topic in ids and not is_other_topic(at, tp, ids):
            ends[tp] = Offset(r.end, r.leader_epoch, at.topic_id)
            continue
        ended[tp] = r._replace(start=r.end)
        if r.start < r.end:
            of_whom = kept if identity.is_ended(at) else refused
            of_whom.append(Decision(tp, r.start, r.end, "lost", "the topic ended"))
    body = _plan_between(look, identity, {tp: first.resume_from[tp] for tp in ends}, ends, refused, kept)
    return replace(body, ranges={**body.ranges, **ended}, resume_from=first.resume_from)


def _plan_between(
    look: Look,
    identity: Identity,
    resume_from: Offsets,
    ends: Offsets,
    refused: list[Decision],
    kept: Sequence[Decision] = (),
) -> PlanBody:
    """What is left between two cuts.

    :param refused: what is lost besides, and ``on_data_loss`` decides about; ``kept``: what was accepted before.
    """
    logs, by = look.snapshots(list(ends)), f"on_data_loss={look.request.on_data_loss}"
    truncated = look.truncated({tp: (end.offset, end.leader_epoch) for tp, end in ends.items()})
    ranges, lost = dict[TopicPartition, PlannedRange](), list(refused)
    for tp, end in sorted(ends.items()):
        at, log = resume_from[tp].offset, logs[tp]
        last = max(at, end.offset)
        # Of a truncated log: other records get the offsets that it lacks, and are a later window's.
        left = max(at, min(last, log.high_watermark, truncated.get(tp, last)))
        start = min(max(at, log.log_start_offset), left)
        lost += [Decision(tp, a, z, "lost", by) for a, z in ((at, start), (left, last)) if a < z]
        ranges[tp] = PlannedRange(start, left, log.leader_epoch, log.end_offset)
    _refuse_losses(look, lost)
    skips = skips_in(identity, ranges, resume_from)
    return PlanBody(ranges, resume_from, skips, (*kept, *lost, *decisions_of_skips(skips)))


def _refuse_losses(look: Look, lost: list[Decision]) -> None:
    window = look.request.window
    assert window is not None
    if lost and look.request.on_data_loss == "fail":
        raise DataLoss(
            [
                f"{d.partition}: offsets {d.start} to {d.end} are gone from Kafka, and "
                f"{'may have been' if d.kind == 'hidden' else 'were'} of window {words_of(window)}"
                for d in lost
            ],
            'Restore the records, or accept the loss with on_data_loss="advance". A first window cannot notice '
            "records that were deleted before it.",
        )


def _start(look: Look, covered: Covered, time_ms: int) -> _Bound:
    """A start is Kafka's answer without a correction: reading too much is safe."""
    if (shared := covered.cut_ending_at(time_ms)) is not None:
        return _Bound(shared)
    asked = look.own
    logs = look.snapshots(asked)
    answers = look.at_time(asked, time_ms)
    offsets = {tp: min(answers.get(tp, log.end_offset), log.end_offset) for tp, log in logs.items()}
    return _Bound(_cut(look, {tp: covered.clamp(time_ms, tp, offset) for tp, offset in offsets.items()}), answers)


def _end(look: Look, covered: Covered, time_ms: int, low: Offsets) -> _Bound:
    """The first record with this time or a later one; if there is none, or it is of the future, the log's end."""
    if (shared := covered.cut_starting_at(time_ms)) is not None:
        return _Bound(shared)
    asked = look.own
    logs = look.snapshots(asked)
    answers = look.at_time(asked, time_ms)
    future = look.at_time(sorted(answers), look.request.now_ms + FUTURE_MS + 1)
    offsets = {
        tp: log.end_offset if tp not in answers or answers[tp] == future.get(tp) else min(answers[tp], log.end_offset)
        for tp, log in logs.items()
    }
    return _Bound(
        _cut(
            look,
            {tp: covered.clamp(time_ms, tp, max(o, low[tp].offset if tp in low else 0)) for tp, o in offsets.items()},
        ),
        answers,
    )


def _cut(look: Look, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Offset]:
    logs, ids = look.snapshots(list(offsets)), look.description.topic_ids
    return {tp: Offset(offset, logs[tp].leader_epoch, ids.get(tp.topic)) for tp, offset in offsets.items()}


def _hidden(look: Look, covered: Covered, low: _Bound) -> list[Decision]:
    """Records that are gone and may have been this window's: Kafka's answer for a new start is the first record that is
    left, and the cut before is lower.

    If an older record is left (timestamps out of order), the loss cannot be noticed. Compaction leaves no
    record on the log start, so the first record is asked for; after that, or retention in between could hide the loss.
    """
    window = look.request.window
    assert window is not None
    assert low.answers is not None
    suspects = [tp for tp, at in low.cut.items() if at.offset > covered.before(window[0], tp)]
    first = look.at_time(suspects, 0)
    logs, hidden = look.snapshots(suspects), list[Decision]()
    for tp in suspects:
        answer, before = low.answers.get(tp, logs[tp].end_offset), covered.before(window[0], tp)
        until = min(answer, low.cut[tp].offset)
        if first.get(tp, answer) >= answer and until > before:
            hidden.append(Decision(tp, before, until, "hidden", f"on_data_loss={look.request.on_data_loss}"))
    return hidden
