"""A day is as long as the calendar says."""

from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

import pytest

from airflow_kafka_offsets.request.times import Width, parse_timestamp_ms, parse_width, parse_zone

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000


def at(text, zone=BERLIN):
    return parse_timestamp_ms(text, zone=zone)


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
    ("start", "width", "hours"),
    [
        pytest.param("2026-03-28", "daily", 24, id="a day of 24 hours"),
        pytest.param("2026-03-29", "daily", 23, id="a day of 23 hours"),
        pytest.param("2026-10-25", "daily", 25, id="a day of 25 hours"),
        pytest.param("2026-03-29T01:30", "hourly", 1, id="over the hour that is not there"),
        pytest.param("2026-10-25T02:30", "hourly", 1, id="the hour that is there twice"),
        pytest.param("2026-10-25", "PT24H", 24, id="24 hours are not a day"),
    ],
)
def test_a_window_is_as_long_as_the_clocks_make_it(start, width, hours):
    assert parse_width(width).after(at(start), BERLIN) - at(start) == hours * HOUR


def test_an_end_at_a_time_that_the_day_does_not_have_is_moved():
    assert Width(1, 0).after(at("2026-03-28T02:30"), BERLIN) == at("2026-03-29T03:30")


@pytest.mark.parametrize("days", [4_000_000, 10**12])
def test_past_the_year_9999_a_day_is_24_hours(days):
    """There is no calendar; the width is a person's typing error, and no reason to fall over."""
    start = at("2026-11-20")
    assert Width(days, 5).after(start, BERLIN) == start + days * 24 * HOUR + 5


def test_a_zone_that_is_none_is_said():
    with pytest.raises(ValueError, match="'Europe/Bärlin'; give a name such as UTC"):
        parse_zone("Europe/Bärlin")
    assert Width(1, 0).after(0, UTC) == 24 * HOUR
