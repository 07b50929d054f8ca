# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The chart of batches and the calendar of windows as places and sizes; a template draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from airflow_kafka_offsets.plan.body import Stretch
from airflow_kafka_offsets.times import iso, parse_timestamp_ms

WIDTH, HEIGHT, TOP, LEFT, FLOOR = 1180, 140, 16, 60, 116
_MOST_DAYS, _DAY_MS = 34, 86_400_000


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
    """A part of a day in the calendar, as ``10:00`` and ``24:00``.

    :ivar state: ``read``, ``not planned``, or the state of ``row``.
    :ivar row: the batch of a window that is not committed.
    """

    start: str
    end: str
    state: str
    row: Mapping[str, Any] | None


Day = tuple[date, list[Cell]]
Span = tuple[int, int, str, Mapping[str, Any] | None]
"""Start and end in milliseconds, a state, and the batch of a window that is not committed."""


def weeks_of(stretches: Sequence[Stretch], unfinished: Sequence[Mapping[str, Any]]) -> list[list[Day]]:
    """What the windows have read, by days (UTC), in weeks from Monday on; the last five weeks or so.

    :param stretches: of the pipeline: all that was planned, adjacent windows merged.
    :param unfinished: the rows of its windows that are not committed.
    """
    if not stretches:
        return []
    spans = _spans(stretches, unfinished)
    last = (stretches[-1].end_ms - 1) // _DAY_MS
    first = max(stretches[0].start_ms // _DAY_MS, last - _MOST_DAYS)
    first -= _date(first).weekday()
    days = [(_date(day), _cells(spans, day * _DAY_MS)) for day in range(first, last + 1)]
    days += [(_date(day), []) for day in range(last + 1, last + 1 + -len(days) % 7)]
    return [days[at : at + 7] for at in range(0, len(days), 7)]


def missing_of(stretches: Sequence[Stretch]) -> list[tuple[str, str]]:
    """What lies between two stretches, which no run has planned; the oldest first."""
    return [(iso(one.end_ms), iso(other.start_ms)) for one, other in pairwise(stretches)]


def _spans(stretches: Sequence[Stretch], unfinished: Sequence[Mapping[str, Any]]) -> list[Span]:
    """From the start of the first stretch to the end of the last one, side by side."""
    others: list[Span] = [(one.end_ms, other.start_ms, "not planned", None) for one, other in pairwise(stretches)]
    others += [(*map(parse_timestamp_ms, row["window"]), row["state"], row) for row in unfinished]
    spans, at = list[Span](), stretches[0].start_ms
    for other in (*sorted(others, key=itemgetter(0)), (stretches[-1].end_ms, 0, "", None)):
        if at < other[0]:
            spans.append((at, other[0], "read", None))
        spans.append(other)
        at = other[1]
    return spans[:-1]


def _cells(spans: Sequence[Span], day_ms: int) -> list[Cell]:
    """The parts that lie in a day."""
    cells = []
    for start, end, state, row in spans:
        start, end = max(start - day_ms, 0), min(end - day_ms, _DAY_MS)
        if start < end:
            cells.append(Cell(_time(start), _time(end), state, row))
    return cells


def _time(ms: int) -> str:
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}"


def _date(day: int) -> date:
    return date(1970, 1, 1) + timedelta(days=day)
