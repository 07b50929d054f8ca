"""The chart of the batches as shapes: bars of what was read, set aside and lost, and the line of what was left.

The server draws it, so that it is there without a script. Only places and sizes are worked out here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.page.views import BatchRow

WIDTH, HEIGHT, TOP, LEFT = 1180, 150, 20, 44
FLOOR = HEIGHT - 30
STEPS = (1, 2, 5, 10)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a bar; ``kind`` is ``read``, ``aside`` or ``lost``."""

    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Drawn:
    """One batch of the chart, with all of it."""

    row: BatchRow
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class BatchChart:
    """:ivar lines: of what was left; a batch of which it is not known ends one.
    :ivar grid: a height and the number that stands there.
    :ivar times: a place and the time that stands there, in milliseconds.
    """

    bars: tuple[Drawn, ...]
    lines: tuple[str, ...]
    grid: tuple[tuple[float, int], ...]
    times: tuple[tuple[float, int], ...]


def chart_of(rows: Sequence[BatchRow]) -> BatchChart:
    top = _round_up(max((max(sum(_counts(row).values()), row.left or 0) for row in rows), default=0))
    slot = (WIDTH - LEFT) / max(len(rows), 12)
    bars: list[Drawn] = []
    line: list[str] = []
    lines: list[list[str]] = []
    times: list[tuple[float, int]] = []
    for n, row in enumerate(rows):
        x, y, pieces = LEFT + n * slot, float(FLOOR), []
        for kind, count in _counts(row).items():
            # What is there is seen, however little it is beside the rest.
            height = max(2.0, _high(count, top)) if count else 0.0
            if height:
                y -= height
                pieces.append(Piece(kind, round(x, 1), round(y, 1), round(slot * 0.72, 1), round(height, 1)))
        bars.append(Drawn(row, tuple(pieces)))
        if row.left is None:
            lines, line = [*lines, line], []
        else:
            line.append(f"{x + slot * 0.36:.1f},{FLOOR - _high(row.left, top):.1f}")
        if n in {0, len(rows) // 2, len(rows) - 1}:
            times.append((round(x + slot * 0.72 * (n > len(rows) // 2), 1), row.planned_ms or 0))
    grid = tuple((round(FLOOR - _high(at, top), 1), at) for at in dict.fromkeys((0, top // 2, top)))
    return BatchChart(tuple(bars), tuple(" ".join(part) for part in (*lines, line) if part), grid, tuple(times))


def _counts(row: BatchRow) -> dict[str, int]:
    return {"read": row.records or 0, "aside": row.set_aside or 0, "lost": row.lost or 0}


def _high(count: int, top: int) -> float:
    return (FLOOR - TOP) * count / top


def _round_up(most: int) -> int:
    """The next 1, 2 or 5 with zeros, at least 2: the half of it is a number, too."""
    ten = int("1" + "0" * (len(str(most)) - 1))
    return max(2, next(step * ten for step in STEPS if step * ten >= most))
