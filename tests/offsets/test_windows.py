"""What a window plan claims, where two claims meet, and when they are about the same records."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.offsets.windows import OffsetClaim, TimeClaim, claim_from_dict, claim_of
from tests.offsets.builders import plan, planned, tp

HOUR, DAY = 3_600_000, 86_400_000
T = 1_795_132_800_000  # 2026-11-20T00:00Z
TIMES = st.integers(-DAY, 400 * DAY).map(lambda past: T - past)
WIDE = st.one_of(TIMES, st.sampled_from([0, 1, 253_402_300_799_999]))  # 1970, and the last moment of 9999


def by_offsets(*ranges):
    return OffsetClaim(tuple(ranges))


@pytest.mark.parametrize(
    ("start", "end", "places"),
    [
        pytest.param(T, T + HOUR, ["2026-11-20"], id="an hour"),
        pytest.param(T - HOUR, T, ["2026-11-19"], id="the last hour of a day does not touch the next"),
        pytest.param(T - 1, T + 1, ["2026-11-19", "2026-11-20"], id="over midnight"),
        pytest.param(T, T + DAY, ["2026-11-20"], id="a day"),
        pytest.param(0, 1, ["2019-12-31"], id="long ago"),
        pytest.param(253_402_300_799_999, 253_402_300_800_000, ["2040-01-01"], id="the year 9999"),
    ],
)
def test_a_window_is_looked_for_in_each_of_its_days(start, end, places):
    assert TimeClaim(start, end).places == places


def test_a_window_of_all_times_has_a_bounded_number_of_places():
    assert len(TimeClaim(0, 253_402_300_800_000).places) == 7307


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        pytest.param(TimeClaim(T, T + 2), TimeClaim(T + 2, T + 4), False, id="neighbours"),
        pytest.param(TimeClaim(T, T + 3), TimeClaim(T + 2, T + 4), True, id="one millisecond"),
        pytest.param(TimeClaim(T, T + 9), TimeClaim(T + 2, T + 4), True, id="inside"),
        pytest.param(TimeClaim(T, T + 9), TimeClaim(T, T + 9), True, id="the same"),
        pytest.param(by_offsets(("o", "i", 0, 0, 5)), by_offsets(("o", "i", 0, 5, 9)), False, id="offsets: neighbours"),
        pytest.param(by_offsets(("o", "i", 0, 0, 6)), by_offsets(("o", "i", 0, 5, 9)), True, id="offsets: one record"),
        pytest.param(by_offsets(("o", "i", 0, 0, 6)), by_offsets(("o", "i", 1, 5, 9)), False, id="another partition"),
        pytest.param(by_offsets(("o", "i", 0, 0, 6)), by_offsets(("p", "j", 0, 5, 9)), False, id="another topic"),
        pytest.param(by_offsets(("o", "i", 0, 0, 6)), by_offsets(("o", "j", 0, 5, 9)), False, id="a topic made anew"),
        pytest.param(by_offsets(("o", None, 0, 0, 6)), by_offsets(("o", "j", 0, 5, 9)), True, id="an unknown id"),
        pytest.param(TimeClaim(T, T + 9), by_offsets(("o", "i", 0, 0, 6)), False, id="the two kinds are not compared"),
    ],
)  # fmt: skip
def test_windows_overlap_if_they_have_a_record_in_common(one, other, overlap):
    assert one.overlaps(other) is overlap
    assert other.overlaps(one) is overlap


@given(WIDE, st.integers(1, 3 * DAY), WIDE, st.integers(1, 3 * DAY))
def test_two_windows_that_overlap_have_a_place_in_common_and_places_ascend(start, length, other_start, other_length):
    one, other = TimeClaim(start, start + length), TimeClaim(other_start, other_start + other_length)
    assert one.places == sorted(set(one.places))
    if one.overlaps(other):
        assert set(one.places) & set(other.places)


@pytest.mark.parametrize("claim", [TimeClaim(1, 2), by_offsets(("o", None, 0, 0, 6), ("o", None, 1, 3, 4))], ids=str)
def test_a_claim_is_read_back_as_it_was_written(claim):
    assert claim_from_dict(json.loads(json.dumps(claim.to_dict()))) == claim


TIMED = {"window": True, "startup_mode": "timestamp", "bounded_mode": "timestamp"}
GIVEN = {"window": True, "startup_mode": "specific-offsets", "bounded_mode": "specific-offsets"}


@pytest.mark.parametrize(
    ("fields", "claim"),
    [
        pytest.param({**TIMED, "window_bounds": (T, T + 1)}, TimeClaim(T, T + 1), id="by time"),
        pytest.param({**TIMED, "window_bounds": (T, T)}, None, id="no length"),
        pytest.param({**TIMED}, None, id="a plan from before there were bounds"),
        pytest.param({**TIMED, "window_bounds": (T, T + 1), "window": False}, None, id="no window"),
        pytest.param({**TIMED, "window_bounds": (T, T + 1), "checkpoint_id": None}, None, id="no pipeline"),
        pytest.param(GIVEN, by_offsets(("orders", "id-of-orders", 1, 2, 4)), id="by offsets, where there are records"),
    ],
)
def test_what_a_plan_claims(fields, claim):
    assert claim_of(plan([planned(tp(0), 3, 3), planned(tp(1), 2, 4)], **fields)) == claim


def test_a_window_by_offsets_without_records_claims_nothing():
    assert claim_of(plan([planned(tp(0), 3, 3)], **GIVEN)) is None


def test_a_claim_by_topic_is_read_back_and_overlaps_where_a_topic_does() -> None:
    def claim(orders, payments):
        bounds = (("orders", *orders), ("payments", *payments))
        hull = min(orders[0], payments[0]), max(orders[1], payments[1])
        return TimeClaim(T + hull[0], T + hull[1], tuple((name, T + a, T + b) for name, a, b in bounds))

    first = claim((0, 10), (20, 30))
    assert claim_from_dict(first.to_dict()) == first
    assert not first.overlaps(claim((10, 20), (30, 40))), "the next one, whose hull overlaps"
    assert first.overlaps(claim((10, 20), (29, 40)))
    assert first.overlaps(TimeClaim(T + 9, T + 12))
    assert TimeClaim(T + 9, T + 12).overlaps(first)
    assert not first.overlaps(TimeClaim(T + 12, T + 18)), "between the two"
    assert not first.overlaps(claim((5, 5), (30, 40))), "no length"
