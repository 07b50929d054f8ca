"""What people write for a moment becomes UTC milliseconds, or a sentence about what is wrong with it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from airflow_kafka_offsets.times import iso, looks_like_seconds, parse_timestamp_ms
from tests.request.asking import NOW as TEN


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        pytest.param(TEN, TEN, id="milliseconds"),
        pytest.param(f" {TEN} ", TEN, id="the digits of milliseconds"),
        pytest.param("2026-11-20T10:00:00Z", TEN, id="ISO with Z"),
        pytest.param("2026-11-20T11:00:00+01:00", TEN, id="ISO with an offset"),
        pytest.param("2026-11-20T10:00", TEN, id="ISO without a zone is UTC"),
        pytest.param("2026-11-20", TEN - 10 * 3_600_000, id="a date is its midnight, UTC"),
        pytest.param(datetime(2026, 11, 20, 11, tzinfo=timezone(timedelta(hours=1))), TEN, id="datetime"),
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
        pytest.param(True, "is True; give epoch milliseconds", id="a flag"),
        pytest.param("yesterday", "is 'yesterday'; give epoch milliseconds", id="a word"),
        pytest.param("", "is ''; give epoch milliseconds", id="an empty template"),
        pytest.param("None", "is 'None'; give epoch milliseconds", id="a template that rendered None"),
        pytest.param(2**63, "more than 64 bits", id="more than an int64"),
        pytest.param("9" * 30, "more than 64 bits", id="digits of micros of nanos"),
        pytest.param(1.5e12, "is 1500000000000.0; give epoch milliseconds", id="a float"),
        pytest.param(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), "before 1970", id="the year 1"),
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
def test_a_time_is_written_as_short_as_it_can_be(timestamp_ms, text):
    assert iso(timestamp_ms) == text
    assert timestamp_ms == 10**18 or parse_timestamp_ms(text) == timestamp_ms
