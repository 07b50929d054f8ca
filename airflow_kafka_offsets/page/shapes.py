"""The chart of batches and the calendar of windows as places and sizes; a template draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from airflow_kafka_offsets.kafka_values import grouped
from airflow_kafka_offsets.plan.body import Stretch
from airflow_kafka_offsets.times import iso

WIDTH, HEIGHT, TOP, LEFT, FLOOR = 1180, 140, 16, 60, 116
_MOST_DAYS = 42


class Piece(NamedTuple):
    """A part of a bar: ``planned``, ``rows``, ``filtered``, ``bad`` or ``lost``."""

    kind: str
    x: float
    y: float
    width: float
    height: float


Bar = tuple[Mapping[str, Any], Sequence[Piece]]
Grid = Sequence[tuple[float, int]]


def chart_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Bar], Grid]:
    """A bar for each batch; and heights, with the number of records that stands there.

    :param rows: the oldest first.
    """
    most = max((sum(_counts(row).values()) for row in rows), default=0)
    ten = 10 ** (len(str(most)) - 1)
    top = max(2, next(step * ten for step in (1, 2, 5, 10) if step * ten >= most))
    slot = (WIDTH - LEFT) / max(len(rows), 1)
    bars = []
    for at, row in enumerate(rows):
        y, pieces = float(FLOOR), []
        for kind, count in _counts(row).items():
            if count:
                height = max(2.0, (FLOOR - TOP) * count / top)  # whatever is there is seen
                y -= height
                width = min(slot * 0.72, 60.0)
                pieces.append(Piece(kind, round(LEFT + at * slot, 1), round(y, 1), round(width, 1), round(height, 1)))
        bars.append((row, pieces))
    return bars, [(FLOOR - (FLOOR - TOP) * at / top, at) for at in (0, top // 2, top)]


def _counts(row: Mapping[str, Any]) -> dict[str, int]:
    lost = row["given_up"].get("lost", 0) + row["given_up"].get("skipped", 0)
    if row["rows"] is None:
        return {"planned": row["offsets"], "lost": lost}
    return {"rows": row["rows"], "filtered": row["filtered"], "bad": row["bad"], "lost": lost}


class Cell(NamedTuple):
    """A window in the calendar.

    :ivar row: its batch; ``None``: no run has planned it.
    """

    start: str
    end: str
    row: Mapping[str, Any] | None


Day = tuple[date, list[Cell]]


def weeks_of(rows: Sequence[Mapping[str, Any]], stretches: Sequence[Stretch]) -> list[list[Day]]:
    """The windows of these batches by the days (UTC) on which they begin, in weeks from Monday on.

    :param stretches: of the pipeline: what lies between two of them is shown as missing.
    """
    planned = [Cell(row["window"][0], row["window"][1], row) for row in rows if row["window"]]
    if not planned:
        return []
    gaps = (Cell(iso(one.end_ms), iso(other.start_ms), None) for one, other in pairwise(stretches))
    first, last = min(cell.start for cell in planned), max(cell.end for cell in planned)
    cells = sorted([*planned, *(gap for gap in gaps if first < gap.end and gap.start < last)], key=lambda c: c.start)
    by_day = grouped((date.fromisoformat(cell.start[:10]), cell) for cell in cells)
    day = max(min(by_day), max(by_day) - timedelta(days=_MOST_DAYS))
    day -= timedelta(days=day.weekday())
    weeks = []
    while day <= max(by_day):
        week = [day + timedelta(days=n) for n in range(7)]
        weeks.append([(on, by_day.get(on, [])) for on in week])
        day += timedelta(days=7)
    return weeks
