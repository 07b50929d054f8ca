"""Plans and group moves for the task log: a table of ten rows, and one sentence.

A plan of 10,000 partitions is ten lines and a summary. The largest come first: they are what a run's time goes into.
What is lost or skipped is never left to the table alone: the sentence has all of it, with the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from airflow_kafka_offsets.errors import counted
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.plan import Draft, PlannedPartition

MOST_ROWS = 10
_MOST_REASONS = 3


def plan_table(plan: Draft) -> str:
    """The ten largest partitions, a row each, and a summary of the others."""
    largest = sorted(plan.partitions, key=lambda p: (-p.size, -p.lost - p.skipped, p.topic_partition))
    rows = [
        (
            str(p.topic_partition),
            f"{p.start_offset:,}",
            p.start_reason,
            f"{p.end_offset:,}",
            f"{p.size:,}",
            f"{p.lost:,}",
            f"{p.skipped:,}",
        )
        for p in largest[:MOST_ROWS]
    ]
    lines = aligned(("partition", "from", "why", "to", "records", "lost", "skipped"), rows, left=("partition", "why"))
    rest = largest[MOST_ROWS:]
    if rest:
        lines.append(
            f"… and {counted(len(rest), 'more partition')} with {counted(sum(p.size for p in rest), 'record')}, "
            f"{sum(p.lost for p in rest):,} lost, {sum(p.skipped for p in rest):,} skipped"
        )
    return "\n".join(lines)


def moves_table(moves: Mapping[TopicPartition, tuple[int | None, int]]) -> str:
    """Before → after of the ten partitions that move furthest, and a summary of the others."""
    furthest = sorted(moves, key=lambda tp: (-abs(_distance(*moves[tp])), tp))
    rows = [
        (str(tp), "none" if moves[tp][0] is None else f"{moves[tp][0]:,}", f"{moves[tp][1]:,}")
        for tp in furthest[:MOST_ROWS]
    ]
    lines = aligned(("partition", "before", "after"), rows, left=("partition",))
    rest = furthest[MOST_ROWS:]
    if rest:
        moved = sum(_distance(*moves[tp]) for tp in rest)
        lines.append(f"… and {counted(len(rest), 'more partition')}, together {moved:+,}")
    return "\n".join(lines)


def plan_in_words(plan: Draft, *, is_shown: bool = True) -> str:
    """``up to 12,000 records of 3 partitions; 300 are lost (…); nothing is skipped``, without the full stop.

    :param is_shown: whether the output is known to have what was planned; else that is said of the plan alone.
    """
    read = counted(plan.record_count_upper_bound, "record")
    jumped = _jumped_in_words(plan) or ("nothing is lost or skipped" if is_shown else "the plan leaves no record out")
    held = [str(p.topic_partition) for p in plan.partitions if p.held]
    more = f"; {', '.join(held[:_MOST_REASONS])}{' and others' * (len(held) > _MOST_REASONS)} held" if held else ""
    return f"up to {read} of {counted(len(plan.to_read()), 'partition')}; {jumped}{more}"


def _jumped_in_words(plan: Draft) -> str:
    """What the plan reads although a batch has read it, or does not read although no batch has; and why."""
    lost = _jumped([(p, p.lost) for p in plan.partitions], "lost")
    skipped = _jumped([(p, p.skipped) for p in plan.partitions], "skipped although still in Kafka")
    again = sum(p.position - p.start_offset for p in plan.partitions if p.continuity == "overlap")
    read_again = f"up to {counted(again, 'record', 'is')} read again" * bool(again)
    return "; ".join(filter(None, (read_again, lost, skipped)))


def first_few(parts: Sequence[str], most: int, what: str = "", between: str = ", ") -> str:
    """The first parts, and how many more there are: ``a, b and 3 more partitions``.

    :param what: they are: ``partitions``.
    :param between: the parts; ``"; "`` where they are sentences.
    """
    rest = len(parts) - most
    if rest <= 0:
        return between.join(parts)
    more = f"{between.rstrip(', ')} and {rest} more"
    return f"{between.join(parts[:most])}{more}{f' {what}' if what else ''}"


def aligned(columns: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str]) -> list[str]:
    """A line for the columns and one for each row; those in ``left`` begin at the left, numbers end at the right."""
    cells = [columns, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in cells
    ]


def _jumped(counts: Sequence[tuple[PlannedPartition, int]], what: str) -> str:
    """The sum, and what it is because of: the reasons of the partitions, those with most first."""
    by_reason: dict[str, int] = {}
    for partition, count in counts:
        if count:
            by_reason[partition.start_reason] = by_reason.get(partition.start_reason, 0) + count
    if not by_reason:
        return ""
    reasons = sorted(by_reason, key=lambda name: (-by_reason[name], name))
    why = first_few(reasons, _MOST_REASONS, "reasons")
    total = sum(by_reason.values())
    return f"up to {counted(total, 'record', 'is')} {what} ({why})"


def _distance(before: int | None, after: int) -> int:
    return after - (before or 0)
