# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""By window: which batch has a window, and the range between two cuts (STATE.md, *Two kinds of pipeline*)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.engine.sequence import decisions_of_skips, skips_in
from airflow_kafka_offsets.engine.state import Turn
from airflow_kafka_offsets.errors import DataLoss, WindowRefused
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.identity import Identity
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import (
    Decision,
    DecisionKind,
    Offset,
    Offsets,
    PlanBody,
    PlannedRange,
    is_other_topic,
)
from airflow_kafka_offsets.plan.window import MOST_STRETCHES, Covered, Window, with_window
from airflow_kafka_offsets.request import Request
from airflow_kafka_offsets.times import iso

FUTURE_MS = 3_600_000
"""A record later than this does not set a window's end: one wrong clock would hide all records behind it."""


def find_window(request: Request, log: PipelineLog, newest: Batch | None) -> Batch | None:
    """The batch that has the request's window; ``None``: it is not planned.

    :param newest: read before ``windows/``, so that only the newest batch can ever lack its name there.
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
        conf = json.dumps({"kafka_offsets": {"window": list(map(iso, parts[0]))}}) if parts else ""
        raise WindowRefused(
            what,
            f"It overlaps {', '.join(words_of((s.start_ms, s.end_ms)) for s in taken[:3])}, which is planned; "
            f"free: {free}.",
            f"Trigger a run with this conf:\n{conf}" if conf else "Clear the runs of these windows to rewrite them.",
        )
    if window[1] > request.now_ms:
        raise WindowRefused(what, f"It has not ended: it is {iso(request.now_ms)}.", "Run it once its end has passed.")
    require_not_lost(request, identity)
    touches = {s.end_ms for s in covered.stretches} & {window[0]} or {s.start_ms for s in covered.stretches} & {
        window[1]
    }
    if len(covered.stretches) >= MOST_STRETCHES and not touches:
        raise WindowRefused(
            what,
            f"The pipeline has {MOST_STRETCHES} stretches of windows with gaps between, and this would be one more.",
            f"Fill a gap first: the first is {words_of((covered.stretches[0].end_ms, covered.stretches[1].start_ms))}.",
        )


def require_not_lost(request: Request, identity: Identity) -> None:
    """:raises WindowRefused: a log that was lost, or whose table was adopted, may have written the window."""
    window = request.window
    if window is not None and identity.windows_from is not None and window[0] < identity.windows_from:
        raise WindowRefused(
            f"Window {words_of(window)} of pipeline {request.pipeline_id!r} is refused.",
            f"It begins before {iso(identity.windows_from)}: a lost log may have written it.",
            "Its rows may be in the output already. Read it with another pipeline_id, into an output of its own.",
        )


def words_of(window: Window) -> str:
    return f"{iso(window[0])} to {iso(window[1])}"


def plan_window(turn: Turn, covered: Covered) -> PlanBody:
    """The first plan of a window.

    :raises DataLoss: records that may have been this window's are gone, and ``on_data_loss`` is ``fail``.
    """
    look, window, own = turn.look, turn.request.window, turn.look.own
    assert window is not None
    log_starts = look.log_starts(own)  # with the ends, before timestamps (B6, B12)
    before, after = covered.nearest(window)
    floor = {} if before is None else _in_log(look, before.offsets)
    ceiling = None if after is None else _in_log(look, after.offsets)
    hidden = list[Decision]()
    if before is not None and before.time_ms == window[0]:
        low = before.offsets
    else:  # Kafka's answer without a correction: reading too much is safe
        answers = look.at_time(own, window[0])
        low = _cut(look, answers, floor, ceiling)
        hidden = _hidden(look, floor, low, answers)
        floor = {tp: at.offset for tp, at in low.items()}
    if after is not None and after.time_ms == window[1]:
        high = after.offsets
    else:
        answers = look.at_time(own, window[1])
        future = look.at_time(sorted(answers), look.request.now_ms + FUTURE_MS + 1)
        high = _cut(look, {tp: o for tp, o in answers.items() if o != future.get(tp)}, floor, ceiling)
    ends = {tp: high.get(tp, Offset(0, None, at.topic_id)) for tp, at in log_starts.items()}
    new = {tp: at for tp, at in log_starts.items() if tp not in low}  # read from its log start
    resume_from = {**low} | {tp: at._replace(offset=min(at.offset, ends[tp].offset)) for tp, at in new.items()}
    body = _plan_between(turn, resume_from, ends, refused=hidden)
    return replace(body, covered=with_window(covered.stretches, window, low, high))


def _cut(
    look: Look,
    answers: Mapping[TopicPartition, int],
    floor: Mapping[TopicPartition, int],
    ceiling: Mapping[TopicPartition, int] | None,
) -> Offsets:
    """Kafka's answers, or the log's end where there is none, between the nearest cuts before and after."""
    ids, found = look.description.topic_ids, dict[TopicPartition, Offset]()
    for tp, log in look.snapshots(look.own).items():
        offset = max(min(answers.get(tp, log.end_offset), log.end_offset), floor.get(tp, 0))
        offset = offset if ceiling is None else min(offset, ceiling.get(tp, 0))
        found[tp] = Offset(offset, log.leader_epoch, ids.get(tp.topic))
    return found


def _in_log(look: Look, cut: Offsets) -> dict[TopicPartition, int]:
    """The offsets of a cut in the logs as they are now: where one was truncated below it, the first offset that
    differs. The records behind that one are not those that the windows before have read."""
    known = {tp: (cut[tp].offset, cut[tp].leader_epoch) for tp in look.own if tp in cut}
    return {tp: offset for tp, (offset, _) in known.items()} | look.truncated(known)


def replan_window(turn: Turn, batch: Batch) -> PlanBody:
    """Plan the window again, between the cuts of its first plan: only its start moves, up to its end at most.
    Kept are decisions that cannot be found again: hidden records, and those lost behind the first plan's end.

    :raises DataLoss: records are gone, and ``on_data_loss`` is ``fail``.
    """
    first = turn.log.first_body(batch)
    ids = turn.look.topic_ids(first.ranges)
    kept = [d for d in turn.log.body(batch).decisions if d.kind == "hidden" or d.start >= first.ranges[d.partition].end]
    refused, ends, ended = list[Decision](), dict[TopicPartition, Offset](), dict[TopicPartition, PlannedRange]()
    for tp, r in sorted(first.ranges.items()):
        at = first.resume_from[tp]
        if tp.topic in ids and not is_other_topic(at, tp, ids):
            ends[tp] = Offset(r.end, r.leader_epoch, at.topic_id)
            continue
        ended[tp] = r._replace(start=r.end)
        if r.start < r.end:
            of_whom = kept if turn.identity.is_ended(at) else refused
            of_whom.append(Decision(tp, r.start, r.end, "lost", "the topic ended"))
    body = _plan_between(turn, {tp: first.resume_from[tp] for tp in ends}, ends, refused, kept)
    return replace(body, ranges={**body.ranges, **ended}, resume_from=first.resume_from)


def _plan_between(
    turn: Turn, resume_from: Offsets, ends: Offsets, refused: list[Decision], kept: Sequence[Decision] = ()
) -> PlanBody:
    """The plan body between two cuts.

    :param refused: what is lost besides, and ``on_data_loss`` decides about; ``kept``: what was accepted before.
    """
    look = turn.look
    logs, by = look.snapshots(list(ends)), f"on_data_loss={look.request.on_data_loss}"
    starts_in_log, ends_in_log = _in_log(look, resume_from), _in_log(look, ends)
    ranges, lost = dict[TopicPartition, PlannedRange](), list(refused)
    for tp, end in sorted(ends.items()):
        at, first, log = resume_from[tp].offset, starts_in_log[tp], logs[tp]
        left = max(first, min(ends_in_log[tp], log.high_watermark))
        start = min(max(first, log.log_start_offset), left)
        lost += [Decision(tp, a, z, "lost", by) for a, z in ((first, start), (max(at, left), end.offset)) if a < z]
        if start < min(at, left):
            lost.append(Decision(tp, start, min(at, left), "again", by))
        ranges[tp] = PlannedRange(start, left, log.leader_epoch, log.end_offset)
    _refuse_losses(look, lost)
    skips = skips_in(turn.identity, ranges, resume_from)
    return PlanBody(ranges, resume_from, skips, (*kept, *lost, *decisions_of_skips(skips)))


_WHAT: Mapping[DecisionKind, str] = {
    "lost": "are gone from Kafka, and were of",
    "hidden": "are gone from Kafka, and may have been of",
    "again": "are other records since the log was truncated (unclean leader election), and are read by",
}


def _refuse_losses(look: Look, lost: list[Decision]) -> None:
    window = look.request.window
    assert window is not None
    if lost and look.request.on_data_loss == "fail":
        raise DataLoss(
            [f"{d.partition}: offsets {d.start} to {d.end} {_WHAT[d.kind]} window {words_of(window)}" for d in lost],
            'Restore the records, or accept the loss with on_data_loss="advance". A first window cannot notice '
            "records that were deleted before it.",
        )


def _hidden(
    look: Look, floor: Mapping[TopicPartition, int], low: Offsets, answers: Mapping[TopicPartition, int]
) -> list[Decision]:
    """Records that are gone and may have been this window's: Kafka's answer for a new start is the first record that is
    left, and the cut before is lower.

    If an older record is left (timestamps out of order), the loss cannot be noticed. Compaction
    leaves no record on the log start, so the first record is asked for; after that, or retention in between could hide
    the loss.
    """
    suspects = [tp for tp, at in low.items() if at.offset > floor.get(tp, 0)]
    first, logs = look.at_time(suspects, 0), look.snapshots(suspects)
    hidden, by = list[Decision](), f"on_data_loss={look.request.on_data_loss}"
    for tp in suspects:
        answer, before = answers.get(tp, logs[tp].end_offset), floor.get(tp, 0)
        until = min(answer, low[tp].offset)
        if first.get(tp, answer) >= answer and until > before:
            hidden.append(Decision(tp, before, until, "hidden", by))
    return hidden
