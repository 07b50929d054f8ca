"""What people write for a moment becomes UTC milliseconds, or a sentence about what is wrong with it."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from airflow_kafka_offsets.request.times import (
    is_relative,
    iso,
    looks_like_seconds,
    parse_duration_ms,
    parse_timestamp_ms,
    parse_wait_ms,
)

TEN = 1_795_168_800_000  # 2026-11-20T10:00Z
CET = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        pytest.param(TEN, TEN, id="milliseconds"),
        pytest.param(f" {TEN} ", TEN, id="the digits of milliseconds"),
        pytest.param("2026-11-20T10:00:00Z", TEN, id="ISO with Z"),
        pytest.param("2026-11-20T11:00:00+01:00", TEN, id="ISO with an offset"),
        pytest.param("2026-11-20T10:00", TEN, id="ISO without a zone is UTC"),
        pytest.param("2026-11-20", TEN - 10 * 3_600_000, id="a date is its midnight, UTC"),
        pytest.param(datetime(2026, 11, 20, 10, tzinfo=UTC), TEN, id="datetime"),
        pytest.param(datetime(2026, 11, 20, 11, tzinfo=CET), TEN, id="datetime of another zone"),
        pytest.param(datetime(2026, 11, 20, 10), TEN, id="naive datetime is UTC"),
        # As floats the next two are 1 ms off: 1795168800001.001 * 1000 and its like are not exact.
        pytest.param(datetime(2026, 11, 20, 10, 0, 0, 1_000, tzinfo=UTC), TEN + 1, id="exact to the millisecond"),
        pytest.param(datetime(4001, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC), 64_092_211_200_999, id="micros are cut off"),
        pytest.param(0, 0, id="B3 the epoch itself"),
    ],
)
def test_a_moment_is_milliseconds_since_the_epoch(written, milliseconds):
    assert parse_timestamp_ms(written) == milliseconds


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        pytest.param(-1, "is -1, before 1970", id="B1 negative"),
        pytest.param("-3", "is '-3', before 1970", id="B1 Kafka's special timestamps are no times"),
        pytest.param("1969-12-31T23:59:59Z", "before 1970", id="B1 ISO before the epoch"),
        pytest.param(True, "is True, not a time", id="a flag"),
        pytest.param("yesterday", "is 'yesterday'; give epoch milliseconds", id="a word"),
        pytest.param("", "is ''; give epoch milliseconds", id="nothing, as of an empty template"),
        pytest.param("None", "is 'None'; give epoch milliseconds", id="a template that rendered None"),
        pytest.param(2**63, "past what Kafka's timestamps can hold", id="more than an int64"),
        pytest.param("9" * 30, "past what Kafka's timestamps can hold", id="digits of micros of nanos"),
        pytest.param(1.5e12, "is 1500000000000.0; give epoch milliseconds", id="a float"),
    ],
)
def test_what_is_no_moment_is_refused_in_words(written, sentence):
    with pytest.raises(ValueError, match=r"^is ") as refused:
        parse_timestamp_ms(written)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("timestamp_ms", "suspected"),
    [(0, False), (1, True), (TEN // 1000, True), (10**11 - 1, True), (10**11, False), (TEN, False)],
)
def test_B10_a_number_below_10_to_the_11_looks_like_seconds(timestamp_ms, suspected):
    """0 is the same moment in both units, so it is not suspected."""
    assert looks_like_seconds(timestamp_ms) is suspected


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (TEN, "2026-11-20T10:00Z"),
        (TEN + 7_000, "2026-11-20T10:00:07Z"),
        (TEN + 7_089, "2026-11-20T10:00:07.089Z"),
        (TEN + 5, "2026-11-20T10:00:00.005Z"),
        (10**18, f"{10**18} ms"),
    ],
)
def test_a_moment_is_shown_as_precisely_as_it_is_and_no_more(timestamp_ms, text):
    assert iso(timestamp_ms) == text


@pytest.mark.parametrize(
    ("written", "days"),
    [("90d", 90), ("P90D", 90), ("p2w", 14), ("PT36H", 1.5), ("P1DT12H", 1.5), ("PT0S", 0), (" 1d ", 1)],
)
def test_a_duration_is_days_or_iso_8601(written, days):
    assert parse_duration_ms(written) == days * 86_400_000


@pytest.mark.parametrize("written", ["", "P", "PT", "90", "-1d", "P1M", "P1Y", "1.5d", "a week"])
def test_a_duration_without_a_fixed_length_is_refused(written):
    with pytest.raises(ValueError, match="give days"):
        parse_duration_ms(written)


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("written", "back"),
    [
        pytest.param("now", 0, id="now"),
        pytest.param("now-2h", 2 * HOUR, id="hours"),
        pytest.param(" Now - 90m ", 90 * 60_000, id="spaces and capitals"),
        pytest.param("now-1d", 24 * HOUR, id="a day is 24 hours"),
        pytest.param("now-1w", 168 * HOUR, id="a week"),
        pytest.param("now-30s", 30_000, id="seconds"),
        pytest.param("now-PT2H30M", 2.5 * HOUR, id="now and ISO 8601"),
        pytest.param("PT2H", 2 * HOUR, id="a duration alone counts back"),
        pytest.param("-PT2H", 2 * HOUR, id="with its minus it is the same"),
        pytest.param("P1DT1H", 25 * HOUR, id="days and hours"),
    ],
)
def test_a_relative_time_counts_back_from_now(written, back):
    assert is_relative(written)
    assert parse_timestamp_ms(written, now_ms=TEN) == TEN - back


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        pytest.param("now+1h", "counts back from now", id="no time to come"),
        pytest.param("now 2h", "counts back from now", id="no minus"),
        pytest.param("now-2", "a number with one of w, d, h, m, s", id="no unit"),
        pytest.param("now-P1M", "without months and years", id="a month has no length"),
        pytest.param("P", "is 'P'", id="nothing behind it"),
        pytest.param("now-100000d", "before 1970", id="before the epoch"),
    ],
)
def test_a_relative_time_that_is_none_is_refused_in_words(written, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_timestamp_ms(written, now_ms=TEN)


def test_where_there_is_no_now_nothing_is_relative():
    with pytest.raises(ValueError, match="is 'now-2h'; give epoch milliseconds"):
        parse_timestamp_ms("now-2h")


@pytest.mark.parametrize("written", [TEN, str(TEN), "2026-11-20T10:00Z", datetime(2026, 11, 20, 10, tzinfo=UTC)])
def test_a_moment_is_not_relative(written):
    assert not is_relative(written)
    assert parse_timestamp_ms(written, now_ms=0) == TEN


def test_a_time_without_a_zone_is_of_the_zone_asked_for():
    assert parse_timestamp_ms("2026-11-20T11:00", zone=ZoneInfo("Europe/Berlin")) == TEN
    assert parse_timestamp_ms("2026-11-20T10:00Z", zone=ZoneInfo("Europe/Berlin")) == TEN


# ── how long ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [(timedelta(minutes=1), 60_000), (30, 30_000), (0.5, 500), ("45", 45_000), ("1.5", 1_500), ("PT10M", 600_000),
     (0, 0)],
    ids=str,
)  # fmt: skip
def test_a_wait_is_seconds_a_timedelta_or_ISO_8601(value, milliseconds):
    assert parse_wait_ms(value) == milliseconds


@pytest.mark.parametrize(
    "value",
    [-1, timedelta(seconds=-1), "soon", True, "P1M", "nan", "inf", "-1", "1e5", None, [1], float("nan"), float("inf"),
     float("-inf"), "9" * 400],
    ids=lambda value: str(value)[:9],
)  # fmt: skip
def test_what_is_no_wait_is_refused_and_never_waits_for_ever(value):
    with pytest.raises(ValueError, match=r"^is "):
        parse_wait_ms(value)
