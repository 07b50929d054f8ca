"""A batch that is planned anew in place: the plan that takes the place of the one before.

What must stay true: it has at least as many splits as any plan before, and starts every split that may hold rows of an
earlier plan, so that they are overwritten and nobody has to look who had begun. Only a split that is
written and verified is not started; then no record changes its split, and nothing newer is added: apart from those
behind a record that a person leaves out, which another split reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from airflow_kafka_offsets.errors import refuse
from airflow_kafka_offsets.kafka_values import Actor, OffsetRange, TopicPartition, grouped, in_same_logs
from airflow_kafka_offsets.plan.plan import Draft, Plan, PlannedPartition, SkippedRange, Splits, VerifiedSplit, placed
from airflow_kafka_offsets.plan.splits import one_range_each, split_ranges
from airflow_kafka_offsets.request.policies import Skip

Verified = Mapping[int, VerifiedSplit]


def planned_anew(before: Plan, fresh: Draft, by: Actor, reason: str) -> Plan:
    """The plan that takes the place of ``before``: the ranges of ``fresh``, under the key of the batch."""
    count = max(before.split_count, fresh.split_count)
    partitions = _with_skips(before, fresh)
    whole = split_ranges((replace(p, gap=0) for p in partitions), count, fresh.asked.split_by)
    splits = one_range_each(
        [_within(piece, left) for piece in split for left in piece.range.without(piece.skips)] for split in whole
    )
    more = {"overwrites": _left_over(before, splits), "reason": reason}
    return placed(fresh, before.batch, by, splits, partitions=partitions, **more)


def _with_skips(before: Plan, fresh: Draft) -> tuple[PlannedPartition, ...]:
    """The partitions without what a person has left out of the batch. Of a window its times alone say what it reads."""
    skips = {} if before.asked.window else {p.topic_partition: p.skips for p in before.partitions if p.skips}
    skips = in_same_logs(skips, before.found, fresh.found)

    def without(p: PlannedPartition) -> PlannedPartition:
        of_it = skips.get(p.topic_partition, ())
        if p.skips or not of_it:
            return p
        left = p.range.without(of_it)
        size = sum(piece.size for piece in left)
        start = left[0].start_offset if left else p.end_offset
        return replace(
            p,
            range=OffsetRange(start, p.end_offset),
            gap=p.end_offset - start - size,
            skipped=p.skipped + p.size - size,
            skips=of_it,
            start_reason=_reason(p, p.size - size, of_it[-1].reason),
        )

    return tuple(map(without, fresh.partitions))


def _reason(p: PlannedPartition, given_up: int, reason: str) -> str:
    return f"{p.start_reason}, then {given_up} skipped by order: {reason}" if given_up else p.start_reason


def as_first_started(before: Plan, fresh: Draft) -> Draft:
    """``fresh`` with what its partitions jumped over when the batch first started them, and no position had them.

    It goes on from where they started, so what lies before that is in none of its counts.
    """
    started = {p.topic_partition: p for p in before.partitions if p.continuity in (None, "new", "re-created")}

    def with_first(p: PlannedPartition) -> PlannedPartition:
        first = started.get(p.topic_partition)
        if first is None or p.continuity != "new":
            return p
        jumped = first.lost + first.skipped - first.gap - (first.start_offset - first.position)
        jumped = jumped if first.start_offset >= first.position else 0  # else it is looked up anew
        skipped = min(first.skipped, jumped)
        lost = p.lost + jumped - skipped
        return replace(p, continuity=first.continuity, lost=lost, skipped=p.skipped + skipped)

    return replace(fresh, partitions=tuple(map(with_first, fresh.partitions)))


def emptied(before: Plan, by: Actor, reason: str, *, withdrawn: bool = False) -> Plan:
    """The plan that takes the place of ``before`` and reads nothing."""
    nothing = tuple(p.within(p.end_offset, p.end_offset) for p in before.partitions)
    splits: Splits = ((),) * before.split_count
    left = {"overwrites": _left_over(before, splits), "verified": {}, "reason": reason, "withdrawn": withdrawn}
    return placed(before, before.batch, by, splits, partitions=nothing, **left)


def shortened(
    before: Plan, by: Actor, verified: Verified, log_starts: Mapping[TopicPartition, int], reason: str
) -> Plan:
    """``before`` without the records that are gone from Kafka.

    :param verified: the splits that are verified: they need no records.
    :param log_starts: of each partition the first offset that may be there.
    """

    def left(p: PlannedPartition) -> list[OffsetRange]:
        return p.range.without([OffsetRange(0, log_starts.get(p.topic_partition, 0))])

    def without(p: PlannedPartition, gone: int) -> PlannedPartition:
        return replace(
            p,
            lost=p.lost + gone,
            continuity="gap" if gone and p.continuity == "contiguous" else p.continuity,
            start_reason=f"{p.start_reason}, then gone from Kafka, {gone} lost" if gone else p.start_reason,
        )

    return _cut(before, by, verified, left, without, reason)


def skipped(before: Plan, by: Actor, skip: Skip, verified: Verified) -> Plan | None:
    """The plan that takes the place of ``before``, without what a person gives up.

    ``None`` where the batch reads nothing any more of what it names: it was skipped before, or is lost.

    :param verified: the splits whose reads are verified; those that lose nothing stay as they are.
    :raises InvalidRequest: it names what the batch never had to read.
    """
    ranges = {p.topic_partition: p for p in before.partitions}
    problems = [
        f"skip {words}: the batch reads "
        + (f"[{p.start_offset}, {p.end_offset}) of it." if p is not None and p.size else "nothing of it.")
        for words, tp, first, last in skip.named
        if (p := ranges.get(tp)) is None
        or not p.start_offset + p.gap - p.lost - p.skipped <= first <= last < p.end_offset
    ]
    refuse(problems)

    def left(p: PlannedPartition) -> list[OffsetRange]:
        return p.range.without(skip.of(p.topic_partition, p.range))

    if all(left(piece) == [piece.range] for split in before.splits for piece in split) and skip.named:
        return None

    def without(p: PlannedPartition, given_up: int) -> PlannedPartition:
        position, epoch = p.position, p.position_epoch
        began, rest = ranges[p.topic_partition], left(ranges[p.topic_partition])
        begins = rest[0].start_offset if rest else p.end_offset
        if given_up and begins > began.start_offset:
            position = begins  # so that a batch that is planned anew does not bring it back
            epoch = p.leader_epoch if position == p.end_offset else None  # whose leader wrote it is not known
        by_name = tuple(
            SkippedRange(one.start_offset, one.end_offset, skip.reason)
            for tp, one in skip.only
            if tp == p.topic_partition
        )
        return replace(
            p,
            position=position,
            position_epoch=epoch,
            skipped=p.skipped + given_up,
            start_reason=_reason(p, given_up, skip.reason),
            skips=(*p.skips, *by_name),
        )

    untouched = {n: k for n, k in verified.items() if all(left(piece) == [piece.range] for piece in before.splits[n])}
    return _cut(before, by, untouched if skip.named else {}, left, without, skip.words)


def _cut(
    before: Plan,
    by: Actor,
    verified: Verified,
    left: Callable[[PlannedPartition], list[OffsetRange]],
    without: Callable[[PlannedPartition, int], PlannedPartition],
    reason: str,
) -> Plan:
    """The same splits, of which each that is not verified has what ``left`` gives, and one range of each partition.

    :param without: says of a partition with what is left of it why so many offsets are not.
    """
    splits = one_range_each(
        (
            split if number in verified else (_within(piece, range_) for piece in split for range_ in left(piece))
            for number, split in enumerate(before.splits)
        ),
        verified,
    )
    pieces = grouped((piece.topic_partition, piece) for split in splits for piece in split)
    partitions = []
    for p in before.partitions:
        of_it = pieces.get(p.topic_partition, [])
        start = min((piece.start_offset for piece in of_it), default=p.end_offset)
        size = sum(piece.size for piece in of_it)
        cut = replace(p, range=OffsetRange(start, p.end_offset), gap=p.end_offset - start - size)
        partitions.append(without(cut, p.size - size))
    now = {p.topic_partition: p for p in partitions}
    splits = tuple(tuple(_within(now[piece.topic_partition], piece.range) for piece in split) for split in splits)
    more = {"overwrites": _left_over(before, splits), "verified": verified, "reason": reason}
    return placed(before, before.batch, by, splits, partitions=tuple(partitions), **more)


def _within(piece: PlannedPartition, range_: OffsetRange) -> PlannedPartition:
    return piece if range_ == piece.range else piece.within(range_.start_offset, range_.end_offset)


def _left_over(before: Plan, splits: Splits) -> tuple[int, ...]:
    """The splits that may hold rows of an earlier plan and have nothing to read now."""
    with_records = {number for number, split in enumerate(splits) if split}
    return tuple(sorted(before.splits_with_rows() - with_records))
