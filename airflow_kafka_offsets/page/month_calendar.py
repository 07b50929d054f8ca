"""The windows of a month by the days on which they begin, in weeks from Monday on. Days are days in UTC."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from airflow_kafka_offsets.kafka_values import grouped
from airflow_kafka_offsets.page.views import WindowCell


@dataclass(frozen=True, slots=True)
class Day:
    """:ivar is_outside: it belongs to the month before or after, and stands here for the week."""

    on: date
    is_outside: bool
    cells: tuple[WindowCell, ...]


def weeks_of(month: str, cells: Sequence[WindowCell]) -> list[list[Day]]:
    """:param month: such as ``2026-11``."""
    first = date.fromisoformat(f"{month}-01")
    # A window that began before the month reaches into it: it stands on the first day.
    by_day = grouped((max(datetime.fromtimestamp(cell.start_ms / 1000, UTC).date(), first), cell) for cell in cells)
    return [
        [Day(on, on.month != first.month, tuple(by_day.get(on, ()))) for on in week]
        for week in calendar.Calendar().monthdatescalendar(first.year, first.month)
    ]
