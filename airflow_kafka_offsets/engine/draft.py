"""Planning: what a batch reads, where it resumes, and what it gives up. The first plan of a batch, and later ones."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from airflow_kafka_offsets.engine.look import Look, cut_logs
from airflow_kafka_offsets.errors import DataLoss
from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, OffsetRange, TopicPartition
from airflow_kafka_offsets.log.entries import Batch, Plan, new_key
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import Decision, Offset, Offsets, PlanBody, PlannedRange, Skips
from airflow_kafka_offsets.plan.cap import cap_ranges
from airflow_kafka_offsets.plan.ranges import Facts, Placed, end_offset, for_each, place, startup_offset

_KEY_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


def draft_next(look: Look, position: Offsets | None, seen: Mapping[TopicPartition, CommittedOffset]) -> PlanBody | None:
    """The next batch in sequence; ``None``: there is nothing to read and nothing to record.

    :param position: after the last commit; ``None``: there is none, so the startup mode decides.
    :param seen: what the group holds where it is not ours.
    """
    asked = _with_restored(look, position or {})
    known = {tp: position[tp] for tp in asked if tp in position} if position else {}
    facts = look.facts(asked, known, is_startup=position is None)
    starts = known | for_each(
        [tp for tp in asked if tp not in known],
        lambda tp: startup_offset(look.want, facts, tp) if position is None else _log_start(facts, tp),
    )
    placed = for_each(asked, lambda tp: place(look.want, facts, tp, starts[tp]))
    ends = for_each(asked, lambda tp: end_offset(look.want, facts, tp, placed[tp].start))
    ranges = {tp: PlannedRange(placed[tp].start, ends[tp], facts.snapshots[tp].leader_epoch) for tp in asked}
    body = PlanBody(
        ranges=cap_ranges(ranges, look.want.max_records),
        resume_from={**(position or {}), **starts},
        decisions=_decisions(placed),
        seen=seen,
    )
    is_worth_it = position is None or body.offsets or body.decisions or len(known) < len(asked)
    return body if is_worth_it else None


def _with_restored(look: Look, position: Offsets) -> list[TopicPartition]:
    """With ``filter_restored_partitions=False`` the position's partitions are read on, subscribed to or not (F5)."""
    if look.want.filter_restored_partitions:
        return look.asked
    return sorted({*look.asked, *look.restored(position)})


def _log_start(facts: Facts, tp: TopicPartition) -> Offset:
    """A new partition starts at its log start, whatever the startup mode (F3, F4)."""
    log = facts.snapshots[tp]
    return Offset(log.log_start_offset, log.leader_epoch, facts.topic_ids.get(tp.topic))


def _decisions(placed: Mapping[TopicPartition, Placed]) -> tuple[Decision, ...]:
    return tuple(decision for tp in sorted(placed) for decision in placed[tp].decisions)


# ── planning again ────────────────────────────────────────────────────────────────────────────────────────────────────


def replan(look: Look, old: PlanBody, *, is_window: bool, skips: Skips | None = None) -> PlanBody:
    """The batch's next plan: whole, from the same ``resume_from``. The old ends are kept where they still exist.

    :param look: of a request whose subscription is what the old plan reads.
    :param skips: the batch's skips; by default the old plan's.
    """
    present = set(look.description.partitions)
    asked = [tp for tp in sorted(old.ranges) if tp in present]
    facts = look.facts(asked, old.resume_from, is_startup=False)
    placed = for_each(asked, lambda tp: place(look.want, facts, tp, old.resume_from[tp]))
    deleted = [tp for tp in sorted(old.ranges) if tp not in present]
    placed |= for_each(deleted, lambda tp: _deleted(look, tp, old.ranges[tp]))
    cut = _cut_ends(look, facts, old)
    ranges: dict[TopicPartition, PlannedRange] = {}
    for tp, was in sorted(old.ranges.items()):
        if tp not in present:
            ranges[tp] = was._replace(start=was.end)
        elif is_window:
            placed[tp], ranges[tp] = _again_in_window(facts, tp, placed[tp], old.resume_from[tp], was)
            placed[tp] = Placed(placed[tp].start, (*placed[tp].decisions, *cut.get(tp, ())))
        else:
            log, start = facts.snapshots[tp], placed[tp].start
            is_recreated = facts.is_recreated(tp, old.resume_from[tp])
            end = end_offset(look.want, facts, tp, start) if is_recreated else min(was.end, log.high_watermark)
            ranges[tp] = PlannedRange(start, max(start, end), log.leader_epoch)
            placed[tp] = Placed(start, (*placed[tp].decisions, *cut.get(tp, ())))
    same = {  # the ranges that have the records of the old plan; other records are not what a person skips
        tp: r._replace(end=min([r.end, *(d.start for d in cut.get(tp, ()))]))
        for tp, r in ranges.items()
        if tp in present and not facts.is_recreated(tp, old.resume_from[tp])
    }
    kept_skips = inside(old.skips if skips is None else skips, same)
    kept = tuple(d for d in old.decisions if d.keep and not _is_covered(d, placed))
    return replace(old, ranges=ranges, skips=kept_skips, decisions=(*_decisions(placed), *kept))


def _deleted(look: Look, tp: TopicPartition, was: PlannedRange) -> Placed:
    """A topic that no longer exists: what the plan had of it is lost."""
    if was.start == was.end:
        return Placed(was.end)
    if look.want.on_data_loss == "fail":
        raise DataLoss(
            [f"{tp}: the topic no longer exists, and offsets {was.start} to {was.end} are not read yet"],
            'Accept the loss with on_data_loss="advance".',
        )
    return Placed(was.end, (Decision(tp, was.start, was.end, "lost", f"on_data_loss={look.want.on_data_loss}"),))


def _cut_ends(look: Look, facts: Facts, old: PlanBody) -> dict[TopicPartition, tuple[Decision, ...]]:
    """Records of the plan that a cut log lacks: other ones get their offsets.

    :raises DataLoss: ``on_data_loss`` is ``fail``.
    """
    same = {
        tp: r
        for tp, r in old.ranges.items()
        if tp in facts.snapshots and not facts.is_recreated(tp, old.resume_from[tp])
    }
    cuts = cut_logs(look.kafka, {tp: (r.end, r.leader_epoch) for tp, r in same.items()}, facts.snapshots)

    def lost(tp: TopicPartition) -> tuple[Decision, ...]:
        first = max(same[tp].start, min(cuts.get(tp, same[tp].end), facts.snapshots[tp].high_watermark))
        if first >= same[tp].end:
            return ()
        if look.want.on_data_loss == "fail":
            raise DataLoss(
                [f"{tp}: the log was cut (unclean leader election) before offsets {first} to {same[tp].end} were read"],
                'Accept the loss with on_data_loss="advance".',
            )
        # A later plan has the new log's leader epoch, so that it does not find this again.
        return (Decision(tp, first, same[tp].end, "lost", f"on_data_loss={look.want.on_data_loss}", keep=True),)

    return for_each(same, lost)


def _again_in_window(
    facts: Facts, tp: TopicPartition, placed: Placed, cut: Offset, was: PlannedRange
) -> tuple[Placed, PlannedRange]:
    """Both cuts stay: the start moves up to the end at most, and what is lost past the end is another window's."""
    log = facts.snapshots[tp]
    end = max(cut.offset, was.end)
    if facts.is_recreated(tp, cut):
        return placed, PlannedRange(end, end, log.leader_epoch)
    last = max(cut.offset, min(end, log.high_watermark))
    start = min(max(placed.start, cut.offset), last)
    lost = [d._replace(end=min(d.end or end, end)) for d in placed.decisions if d.kind == "lost" and d.start < end]
    return Placed(start, tuple(lost)), PlannedRange(start, last, log.leader_epoch)


def _is_covered(decision: Decision, placed: Mapping[TopicPartition, Placed]) -> bool:
    """Whether a skip lies in what is lost since."""
    of_partition = placed[decision.partition].decisions if decision.partition in placed else ()
    return decision.kind == "skipped" and any(
        d.kind == "lost" and d.start <= decision.start and (d.end is None or (decision.end or 0) <= d.end)
        for d in of_partition
    )


def inside(
    skips: Skips, ranges: Mapping[TopicPartition, PlannedRange]
) -> dict[TopicPartition, tuple[OffsetRange, ...]]:
    """The parts of the skips that lie inside the ranges, merged."""
    kept: dict[TopicPartition, tuple[OffsetRange, ...]] = {}
    for tp, of_partition in skips.items():
        if tp in ranges and ranges[tp].end > ranges[tp].start:
            whole = OffsetRange(ranges[tp].start, ranges[tp].end)
            left = whole.without(of_partition)
            if inside := tuple(whole.without(left)):
                kept[tp] = inside
    return kept


# ── the header ────────────────────────────────────────────────────────────────────────────────────────────────────────


def header(
    look: Look,
    log: PipelineLog,
    number: int,
    k: int,
    body: PlanBody,
    by: Actor,
    *,
    last: Batch | None,
    kind: Literal["sequence", "window", "reset"],
    acknowledged: int = 0,
) -> Plan:
    """Write a plan's body, and compose the header that names it.

    :param last: the batch itself if it is planned again (its key is kept), else the one before.
    """
    want, again = look.want, last is not None and last.number == number
    old = last.plan if last is not None else None
    return Plan(
        pipeline=log.pipeline_id,
        number=number,
        key=old.key if again and old else new_key(number, want.now_ms, _four_characters()),
        plan_id=secrets.token_hex(8),
        by=by,
        at_ms=want.now_ms,
        asked=old.asked if again and old else want.asked,
        kind=kind,
        window=old.window if again and old else want.window,
        isolation_level=old.isolation_level if again and old else want.isolation_level,
        require_report=old.require_report if again and old else want.require_report,
        group_id=old.group_id if again and old else want.group_id,
        cluster_id=look.description.cluster_id,
        topics=look.topics(body.ranges),
        offsets=body.offsets,
        partitions=len(body.ranges),
        output=None if kind == "window" or last is None else old.output if again and old else last.output,
        acknowledged=acknowledged,
        given_up=body.given_up,
        ranges=log.write_body(number, k, body),
    )


def _four_characters() -> str:
    return "".join(secrets.choice(_KEY_CHARACTERS) for _ in range(4))
