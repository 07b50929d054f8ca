"""The calendar of a pipeline's windows: each done, late, overlapping, not committed, or missing between two others."""

from __future__ import annotations

import calendar
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from airflow_kafka_offsets.batch.pipeline_status import Tone
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.kafka_values import grouped
from airflow_kafka_offsets.log.batch_lines import BatchLine, Line, read_lines
from airflow_kafka_offsets.page.batch_rows import batch_row, state_of
from airflow_kafka_offsets.page.dag_pipelines import PagePipeline, found_in
from airflow_kafka_offsets.page.views import BatchRow, WindowCell, WindowsView
from airflow_kafka_offsets.plan.window_claims import TimeClaim, time_claim_of_name

_MOST_MISSING = 1_000  # in a row, before they are shown as one gap


def windows_view(pipeline: PagePipeline, month: str | None = None) -> WindowsView:
    """The calendar of a month.

    :param month: ``2026-11``; ``None``: the last that has windows.
    """
    now, log = now_ms(), pipeline.log
    empty = WindowsView(None, (), (), (), now, ())
    try:
        places = found_in(pipeline).window_places
        months = tuple(place for place in places if place != "offsets")
        shown = month if month in months else months[-1] if months else None
        names = log.windows_in(shown) if shown else []
        others = log.windows_in("offsets") if "offsets" in places else []
        lines = read_lines(log.store, map(log.folder_of_window, (*names, *others)))
    except KafkaOffsetsError as error:
        return replace(empty, not_asked=(str(error),))
    cells, rest = _cells(lines, now)
    return WindowsView(shown, months, cells, rest, now, ())


def _cells(lines: Sequence[Line], now: int) -> tuple[tuple[WindowCell, ...], tuple[BatchRow, ...]]:
    by_time: list[tuple[TimeClaim, Line]] = []
    others: list[BatchRow] = []
    for line in lines:
        claim = time_claim_of_name(line.folder.rpartition("/")[2])
        if claim is None:
            others.append(batch_row(line, now))
        else:
            by_time.append((claim, line))
    by_time.sort(key=lambda each: (each[0].start_ms, each[0].end_ms))
    overlapping = _overlapping(by_time)
    cells = [_cell(claim, line, claim.name in overlapping, batch_row(line, now)) for claim, line in by_time]
    return tuple(sorted([*cells, *_missing(by_time)], key=lambda cell: (cell.start_ms, cell.end_ms))), tuple(others)


def _cell(claim: TimeClaim, line: Line, overlaps: bool, row: BatchRow) -> WindowCell:
    state, tone = _state(line, overlaps)
    return WindowCell(claim.start_ms, claim.end_ms, state, tone, row, row.why)


def _state(line: Line, overlaps: bool) -> tuple[str, Tone]:
    if not isinstance(line, BatchLine):
        return "damaged", "bad"
    state, tone = state_of(line)
    if state == "given way":
        return state, tone
    if overlaps:
        return "overlapping", "bad"
    if state in ("not committed", "being done again"):
        return state, tone
    return ("late", "bad") if line.unread else ("done", "good")


def _overlapping(by_time: Sequence[tuple[TimeClaim, Line]]) -> set[str]:
    """The names of windows that have time in common with another one that has not given way."""
    found: set[str] = set()
    last: TimeClaim | None = None
    for claim, line in by_time:
        if isinstance(line, BatchLine) and line.summary.withdrawn:
            continue
        if last is not None and claim.overlaps(last):
            found |= {claim.name, last.name}
        if last is None or claim.end_ms > last.end_ms:
            last = claim
    return found


def _missing(by_time: Sequence[tuple[TimeClaim, Line]]) -> list[WindowCell]:
    """What lies between two windows and was never planned: in pieces of the usual length, where it divides the gap."""
    lengths = Counter(claim.end_ms - claim.start_ms for claim, _ in by_time)
    if not lengths:
        return []
    usual = lengths.most_common(1)[0][0]
    cells, until = [], by_time[0][0].end_ms
    for claim, _ in by_time[1:]:
        gap = claim.start_ms - until
        if gap > 0:
            divides = gap % usual == 0 and gap // usual <= _MOST_MISSING
            step = usual if divides else gap
            cells += [
                WindowCell(start, start + step, "missing", "bad", None, "no run has planned it")
                for start in range(until, claim.start_ms, step)
            ]
        until = max(until, claim.end_ms)
    return cells


# ── the month: its windows by the days on which they begin, in weeks from Monday on. Days are days in UTC ─


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
