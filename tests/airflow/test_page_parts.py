"""Where things stand in the calendar of windows and in the chart of batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.page.actions import fields_given
from airflow_kafka_offsets.page.batch_chart import FLOOR, TOP, chart_of
from airflow_kafka_offsets.page.views import BatchRow, WindowCell
from airflow_kafka_offsets.page.window_page import weeks_of
from tests.airflow.page_examples import HOUR, NOON, batch_row


def point(read: int, set_aside: int = 0, lost: int = 0, left: int | None = 0) -> BatchRow:
    return replace(batch_row(), records=read, set_aside=set_aside, lost=lost, left=left)


def test_the_parts_of_a_bar_stand_on_each_other_and_none_of_them_is_invisible() -> None:
    ((bar,),) = (chart_of([point(10_000, set_aside=1, lost=5_000)]).bars,)
    read, aside, lost = bar.pieces
    assert (read.kind, aside.kind, lost.kind) == ("read", "aside", "lost")
    assert read.y + read.height == FLOOR
    assert aside.y + aside.height == pytest.approx(read.y)
    assert lost.y + lost.height == pytest.approx(aside.y)
    assert aside.height >= 2


@pytest.mark.parametrize(
    ("most", "top"), [(0, 2), (1, 2), (7, 10), (10, 10), (11, 20), (4_999, 5_000), (5_001, 10_000)]
)
def test_the_scale_ends_at_a_round_number_above_all(most: int, top: int) -> None:
    drawn = chart_of([point(most)])
    assert drawn.grid[0] == (FLOOR, 0)
    assert drawn.grid[-1] == (TOP, top)


def test_no_batches_make_no_bars() -> None:
    assert chart_of([]).bars == ()


def test_a_window_stands_on_the_day_on_which_it_begins_and_one_from_before_on_the_first() -> None:
    before = WindowCell(NOON - 30 * 24 * HOUR, NOON, "done", "good", None, "")
    today = WindowCell(NOON, NOON + HOUR, "done", "good", None, "")
    weeks = weeks_of("2026-11", [before, today])
    assert all(len(week) == 7 for week in weeks)
    found = {day.on.isoformat(): day.cells for week in weeks for day in week if day.cells}
    assert found == {"2026-11-01": (before,), "2026-11-25": (today,)}


def test_of_the_choices_the_one_that_was_picked_counts_and_nothing_that_is_empty() -> None:
    given = {"where": "to_datetime", "to_datetime": " 2026-11-24 ", "shift_by": "-5", "topics": " ", "reason": "why"}
    assert fields_given("reset", given) == {"to_datetime": "2026-11-24", "reason": "why"}
    assert fields_given("reset", {"where": "to_latest", "allow_duplicates": "yes"}) == {
        "to_latest": "yes",
        "allow_duplicates": "yes",
    }
    assert fields_given("redo", {"where": "to_latest", "batch": "7", "other": "x"}) == {"batch": "7"}
