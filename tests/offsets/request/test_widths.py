"""Windows of a width join, and a day is as long as the calendar says."""

from datetime import UTC, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from airflow_kafka_offsets.offsets.request.times import parse_timestamp_ms
from airflow_kafka_offsets.offsets.request.widths import Width, boundaries, parse_width, parse_zone

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000


def at(text, zone=BERLIN):
    return parse_timestamp_ms(text, zone=zone)


def lengths(start, end, width, zone=BERLIN):
    """In hours."""
    return [(after - before) / HOUR for before, after in pairwise(boundaries(at(start), at(end), width, zone))]


@pytest.mark.parametrize(
    ("written", "width"),
    [
        ("hourly", Width(0, HOUR)),
        ("Daily", Width(1, 0)),
        ("weekly", Width(7, 0)),
        ("PT15M", Width(0, 15 * 60_000)),
        ("PT24H", Width(0, 24 * HOUR)),
        ("P1DT12H", Width(1, 12 * HOUR)),
        (timedelta(minutes=5), Width(0, 5 * 60_000)),
        (timedelta(days=1), Width(1, 0)),
    ],
)
def test_a_width_is_days_of_the_calendar_and_time_that_passes(written, width):
    assert parse_width(written) == width


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("monthly", "give hourly, daily, weekly or an ISO 8601 duration"),
        ("P1M", "without months and years"),
        ("PT0S", "no length"),
        (timedelta(0), "no length"),
        (timedelta(hours=-1), "no length"),
        (3600, "give an ISO 8601 duration"),
    ],
)
def test_a_width_that_is_none_is_refused_in_words(written, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_width(written)


@pytest.mark.parametrize(
    ("start", "end", "width", "expected"),
    [
        pytest.param("2026-03-28", "2026-03-31", "daily", [24, 23, 24], id="a day of 23 hours"),
        pytest.param("2026-10-24", "2026-10-27", "daily", [24, 25, 24], id="a day of 25 hours"),
        pytest.param("2026-03-29", "2026-03-30", "hourly", [1] * 23, id="its hours"),
        pytest.param("2026-10-25", "2026-10-26", "hourly", [1] * 25, id="the hour that is there twice"),
        pytest.param("2026-10-24", "2026-10-27", "PT24H", [24, 24, 24, 1], id="24 hours are not a day"),
        pytest.param("2026-11-20", "2026-11-20T02:30", "hourly", [1, 1, 0.5], id="the last one is shorter"),
    ],
)
def test_windows_are_as_long_as_the_clocks_make_them(start, end, width, expected):
    assert lengths(start, end, parse_width(width)) == expected


def test_a_boundary_that_a_change_of_clocks_has_moved_moves_no_other():
    found = list(boundaries(at("2026-03-28T02:30"), at("2026-03-31T02:30"), Width(1, 0), BERLIN))
    assert found == [at(f"2026-03-{day}") for day in ("28T02:30", "29T03:30", "30T02:30", "31T02:30")]


@pytest.mark.parametrize("days", [4_000_000, 10**12])
def test_past_the_year_9999_a_day_is_24_hours(days):
    """There is no calendar; the width is a person's typing error, and no reason to fall over."""
    start = at("2026-11-20")
    assert Width(days, 5).after(start, BERLIN) == start + days * 24 * HOUR + 5
    assert list(boundaries(start, start + HOUR, Width(days, 0), BERLIN)) == [start, start + HOUR]


def test_a_zone_that_is_none_is_said():
    with pytest.raises(ValueError, match="'Europe/Bärlin'; give a name such as UTC"):
        parse_zone("Europe/Bärlin")
    assert Width(1, 0).after(0, UTC) == 24 * HOUR
