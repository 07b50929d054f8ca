"""What a window claims, how it is named, where two claims meet, and when they are about the same records."""

import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_offsets.kafka_values import ClusterDescription, TopicDescription
from airflow_kafka_offsets.plan import window_claims as claims
from airflow_kafka_offsets.plan.window_claims import (
    OffsetClaim,
    TimeClaim,
    batch_name_of,
    claim_of,
    claim_of_request,
    pipeline_in_key,
    time_claim_of_name,
    window_of_key,
)
from airflow_kafka_offsets.request.modes import (
    AtTimestamp,
    SpecificOffsets,
)
from tests.builders import plan, planned, request, tp

HOUR, DAY = 3_600_000, 86_400_000
T = 1_795_132_800_000  # 2026-11-20T00:00Z
TIMES = st.integers(-DAY, 400 * DAY).map(lambda past: T - past)
LATEST = 253_402_300_799_999  # the last moment of 9999
WIDE = st.one_of(TIMES, st.sampled_from([0, 1, LATEST]))


def by_offsets(*ranges):
    return OffsetClaim(tuple(ranges))


def by_topic(orders, payments):
    hull = min(orders[0], payments[0]), max(orders[1], payments[1])
    bounds = (("orders", *orders), ("payments", *payments))
    return TimeClaim(T + hull[0], T + hull[1], tuple((name, T + a, T + b) for name, a, b in bounds))


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_name_of_a_window_is_its_bounds():
    assert TimeClaim(T, T + HOUR).name == "20261120T000000Z--20261120T010000Z"
    assert TimeClaim(5, T).name == "19700101T000000.005Z--20261120T000000Z"


@given(WIDE, st.integers(0, 3 * DAY), st.integers(0, 9), st.booleans())
@example(0, 0, 0, True)
@example(10**16, 5, 0, True)
def test_a_name_is_parsed_back_to_the_same_stretch_of_time(start, length, later, topics):
    claim = TimeClaim(start, start + length)
    if topics:
        claim = replace(claim, by_topic=(("orders", start, start + length), ("payments", start, start + later)))
    assert time_claim_of_name(claim.name) == TimeClaim(start, start + length)


@given(WIDE, st.integers(0, DAY), WIDE, st.integers(0, DAY))
def test_names_sort_by_start_and_then_by_end_and_are_the_bounds_own(start, length, other_start, other_length):
    one, other = TimeClaim(start, start + length), TimeClaim(other_start, other_start + other_length)
    times = (start, length, other_start, other_length)
    if not any(time % 1000 for time in times) and max(one.end_ms, other.end_ms) < 10**13:  # seconds, until 2286
        assert (one.name < other.name) == ((one.start_ms, one.end_ms) < (other.start_ms, other.end_ms))
    assert (one.name == other.name) == (one == other)


def test_windows_whose_topics_differ_in_time_have_names_of_their_own_within_one_hull():
    names = {by_topic((0, 10), (5, 20)).name, by_topic((0, 11), (5, 20)).name, TimeClaim(T, T + 20).name}
    assert len(names) == 3
    assert all(name.startswith(TimeClaim(T, T + 20).name) for name in names)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x",
        "20261120T000000Z",
        "20261120T000000Z--",
        "--20261120T000000Z",
        "20261120T000000Z-20261120T010000Z",
        "20261320T000000Z--20261120T010000Z",
        "1795132800000--1795136400000",
        "20261120T000000Z--20261120T010000Z-0a1b2c3",
        "20261120T000000Z--20261120T010000Z-0A1B2C3D",
        "20261120T000000Z--20261120T010000Z\n",
        "20261120T000000Z--20261120T010000Z.json",
        by_offsets(("o", "i", 0, 0, 5)).name,
    ],
)
def test_another_name_says_no_time(name):
    assert time_claim_of_name(name) is None


def test_windows_by_offsets_are_named_by_what_they_read():
    """The same offsets of a topic that was made anew are other records."""
    ranges = [("o", "i", 0, 0, 5), ("o", "j", 0, 0, 5), ("o", "i", 1, 0, 5), ("o", "i", 0, 0, 6), ("p", "i", 0, 0, 5)]
    names = {by_offsets(row).name for row in ranges}
    assert len(names) == len(ranges)
    assert all(name.startswith("offsets-") for name in names)
    assert by_offsets(ranges[0]).name == by_offsets(("o", "i", 0, 0, 5)).name


# ── the window as a batch ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_of_a_window_says_its_bounds_and_its_pipeline_and_is_the_same_for_every_run():
    name = batch_name_of(TimeClaim(T, T + HOUR), "g/dag/resolve")
    assert name.key == "20261120T000000Z--20261120T010000Z-1e7b1d38"
    assert (name.number, name.after) == (None, None)
    assert batch_name_of(TimeClaim(T, T + HOUR), "g/dag/resolve") == name


@pytest.mark.parametrize(
    ("start", "end", "begins"),
    [
        (T, T + 30_000, "20261120T000000Z--20261120T000030Z-"),
        (T, T + 1, "20261120T000000Z--20261120T000000.001Z-"),
        (T + 59_999, T + DAY, "20261120T000059.999Z--20261121T000000Z-"),
        (0, LATEST + 1, "19700101T000000Z--253402300800000ms-"),
    ],
)
def test_a_key_is_as_precise_as_its_bounds(start, end, begins):
    assert batch_name_of(TimeClaim(start, end), "p").key.startswith(begins)


def test_the_key_of_one_window_differs_by_pipeline_and_by_the_times_of_its_topics():
    keys = {
        batch_name_of(claim, pipeline).key
        for claim in (TimeClaim(T, T + 20), by_topic((0, 10), (5, 20)), by_topic((0, 11), (5, 20)))
        for pipeline in ("one", "other")
    }
    assert len(keys) == 6


@given(WIDE | st.integers(0, 10**30), st.integers(0, DAY), st.text())
def test_a_key_is_a_name_that_every_file_system_takes(start, length, pipeline):
    assert re.fullmatch(r"[A-Za-z0-9.-]+", batch_name_of(TimeClaim(start, start + length), pipeline).key)


@given(st.lists(st.tuples(WIDE, st.integers(0, DAY)), min_size=2, max_size=2, unique=True))
def test_two_windows_of_a_pipeline_never_share_a_key(bounds):
    one, other = (batch_name_of(TimeClaim(start, start + length), "p").key for start, length in bounds)
    assert one != other


# ── places ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("start", "end", "places"),
    [
        pytest.param(T, T + HOUR, ["2026-11"], id="an hour"),
        pytest.param(T, T + 30 * DAY, ["2026-11", "2026-12"], id="over the end of a month"),
        pytest.param(T, T + 11 * DAY, ["2026-11"], id="to the end of a month does not touch the next"),
        pytest.param(T, T + 11 * DAY + 1, ["2026-11", "2026-12"], id="a millisecond more does"),
        pytest.param(T + 11 * DAY, T + 12 * DAY, ["2026-12"], id="from the beginning of a month"),
        pytest.param(T, T + 60 * DAY, ["2026-11", "2026-12", "2027-01"], id="over the end of a year"),
        pytest.param(T, T, ["2026-11"], id="no length"),
        pytest.param(0, 1, ["2020-01"], id="long ago: all months before 2020 are one"),
        pytest.param(LATEST, LATEST + 1, ["2040-01"], id="the year 9999: all after 2040 are one"),
        pytest.param(10**30, 10**30 + 1, ["2040-01"], id="past every calendar"),
    ],
)
def test_a_window_is_listed_in_each_month_that_it_lies_in(start, end, places):
    assert TimeClaim(start, end).places == places


def test_a_window_of_all_times_has_a_bounded_number_of_places():
    assert len(TimeClaim(0, LATEST).places) == 20 * 12 + 1


@given(WIDE, st.integers(1, 70 * DAY), WIDE, st.integers(1, 70 * DAY))
def test_two_windows_that_overlap_have_a_place_in_common_and_places_ascend(start, length, other_start, other_length):
    """That is how each finds the other."""
    one, other = TimeClaim(start, start + length), TimeClaim(other_start, other_start + other_length)
    assert one.places == sorted(set(one.places))
    if one.overlaps(other):
        assert set(one.places) & set(other.places)


def test_windows_by_offsets_have_one_place_for_all():
    assert by_offsets(("o", "i", 0, 0, 5)).places == by_offsets(("p", "j", 3, 7, 9)).places == ["offsets"]


# ── overlap ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        pytest.param(TimeClaim(T, T + 2), TimeClaim(T + 2, T + 4), False, id="neighbours"),
        pytest.param(TimeClaim(T, T + 3), TimeClaim(T + 2, T + 4), True, id="one millisecond"),
        pytest.param(TimeClaim(T, T + 9), TimeClaim(T + 2, T + 4), True, id="inside"),
        pytest.param(TimeClaim(T, T + 9), TimeClaim(T, T + 9), True, id="the same"),
        pytest.param(TimeClaim(T, T + 9), TimeClaim(T + 2, T + 2), False, id="one without length is about no record"),
        pytest.param(by_offsets(("o", "i", 0, 0, 5)), by_offsets(("o", "i", 0, 5, 9)), False, id="offsets: neighbours"),
        pytest.param(by_offsets(("o", "i", 0, 0, 6)), by_offsets(("o", "i", 0, 5, 9)), True, id="offsets: one record"),
        pytest.param(by_offsets(("o", "i", 0, 0, 6)), by_offsets(("o", "i", 1, 5, 9)), False, id="another partition"),
        pytest.param(by_offsets(("o", "i", 0, 0, 6)), by_offsets(("p", "j", 0, 5, 9)), False, id="another topic"),
        pytest.param(by_offsets(("o", "i", 0, 0, 6)), by_offsets(("o", "j", 0, 5, 9)), False, id="a topic made anew"),
        pytest.param(by_offsets(("o", None, 0, 0, 6)), by_offsets(("o", "j", 0, 5, 9)), True, id="an unknown id"),
        pytest.param(by_offsets(), by_offsets(("o", "j", 0, 5, 9)), False, id="no record at all"),
        pytest.param(
            by_offsets(("o", "i", 0, 0, 6), ("o", "i", 1, 0, 6)),
            by_offsets(("o", "i", 0, 6, 9), ("o", "i", 1, 5, 9)),
            True,
            id="in the second partition",
        ),
        pytest.param(TimeClaim(T, T + 9), by_offsets(("o", "i", 0, 0, 6)), False, id="the two kinds are not compared"),
        pytest.param(by_topic((0, 10), (20, 30)), by_topic((10, 20), (30, 40)), False, id="the next one by topic"),
        pytest.param(by_topic((0, 10), (20, 30)), by_topic((10, 20), (29, 40)), True, id="in one topic"),
        pytest.param(by_topic((0, 10), (20, 30)), TimeClaim(T + 9, T + 12), True, id="in one topic, of all"),
        pytest.param(by_topic((0, 10), (20, 30)), TimeClaim(T + 12, T + 18), False, id="between the two"),
        pytest.param(by_topic((0, 10), (20, 30)), by_topic((5, 5), (30, 40)), False, id="by topic, no length"),
        pytest.param(
            TimeClaim(T, T + 9, (("orders", T, T + 9),)),
            TimeClaim(T, T + 9, (("clicks", T, T + 9),)),
            False,
            id="no topic in common",
        ),
    ],
)
def test_windows_overlap_if_they_have_a_record_in_common(one, other, overlap):
    assert one.overlaps(other) is overlap
    assert other.overlaps(one) is overlap


RANGES = st.lists(
    st.tuples(st.sampled_from(["o", "p"]), st.integers(0, 2), st.integers(0, 9), st.integers(0, 5)),
    unique_by=lambda row: row[:2],
    max_size=6,
).map(lambda rows: by_offsets(*((t, f"id-{t}", n, start, start + size) for t, n, start, size in rows)))


@given(RANGES, RANGES)
def test_windows_by_offsets_overlap_if_a_record_is_in_both(one, other):
    def records(claim):
        return {(topic, number, offset) for topic, _, number, a, b in claim.ranges for offset in range(a, b)}

    assert one.overlaps(other) == bool(records(one) & records(other))


def test_ten_thousand_partitions_against_ten_thousand_are_ten_thousand_comparisons(monkeypatch):
    """It was quadratic: a hundred million, minutes of a scheduler's time."""
    compared = []
    overlap = claims._overlap
    monkeypatch.setattr(claims, "_overlap", lambda *both: compared.append(both) or overlap(*both))
    rows = range(10_000)
    one = by_offsets(*(("orders", "id", number, 0, 10) for number in rows))
    other = by_offsets(*(("orders", "id", number, 10, 20) for number in rows))
    assert not one.overlaps(other)
    assert len(compared) == 10_000


# ── what a plan claims ────────────────────────────────────────────────────────────────────────────────────────────────

TIMED = {"window": True, "startup_mode": "timestamp", "bounded_mode": "timestamp", "window_bounds": (T, T + 1)}
GIVEN = {"window": True, "startup_mode": "specific-offsets", "bounded_mode": "specific-offsets"}
PARTITIONS = [planned(tp(0), 3, 3), planned(tp(1), 2, 4)]


@pytest.mark.parametrize(
    ("fields", "claim"),
    [
        pytest.param(TIMED, TimeClaim(T, T + 1), id="by time"),
        pytest.param({**TIMED, "window_bounds": (T, T)}, TimeClaim(T, T), id="no length"),
        pytest.param(
            {**TIMED, "window_bounds_by_topic": {"payments": (T, T + 1), "orders": (T, T)}},
            TimeClaim(T, T + 1, (("orders", T, T), ("payments", T, T + 1))),
            id="by topic, sorted",
        ),
        pytest.param(GIVEN, by_offsets(("orders", "id-of-orders", 1, 2, 4)), id="by offsets, where there are records"),
        pytest.param(
            {**GIVEN, "topic_ids": {"orders": None}}, by_offsets(("orders", None, 1, 2, 4)), id="no topic ids"
        ),
    ],
)
def test_what_a_plan_claims(fields, claim):
    assert claim_of(plan(PARTITIONS, **fields)) == claim


def test_a_window_by_time_claims_its_stretch_also_where_it_found_nothing():
    assert claim_of(plan([planned(0, 3, 3)], **TIMED)) == TimeClaim(T, T + 1)
    assert claim_of(plan([planned(0, 3, 3)], **GIVEN)) == by_offsets()


def described(**partitions):
    """``orders=2``: two partitions."""
    return ClusterDescription(
        "c",
        {name: TopicDescription(f"id-of-{name}", dict.fromkeys(range(count), 1)) for name, count in partitions.items()},
    )


def starts(**offsets):
    return SpecificOffsets({tp(int(name[1:])): offset for name, offset in offsets.items()})


def ends(**offsets):
    return SpecificOffsets({tp(int(name[1:])): offset for name, offset in offsets.items()})


@pytest.mark.parametrize(
    ("startup", "bounded", "claim"),
    [
        pytest.param(AtTimestamp(T), AtTimestamp(T + HOUR), TimeClaim(T, T + HOUR), id="by time"),
        pytest.param(
            AtTimestamp(T, {"orders": T}), AtTimestamp(T + HOUR),
            TimeClaim(T, T + HOUR, (("orders", T, T + HOUR),)), id="by topic",
        ),
        pytest.param(
            starts(p0=5, p1=5, p9=1), ends(p0=9, p1=5, p9=2), by_offsets(("orders", "id-of-orders", 0, 5, 9)),
            id="by offsets, of partitions that are there and have records in it",
        ),
        pytest.param(starts(p0=5), ends(p0=9, p1=9), None, id="a start that the group tells"),
        pytest.param(starts(p0=5, p1=5), ends(p0=9), None, id="an end that is missing"),
        pytest.param("group-offsets", AtTimestamp(T), None, id="no window"),
    ],
)  # fmt: skip
def test_what_a_request_claims_before_the_cluster_is_asked_for_an_offset(startup, bounded, claim):
    """So a window is found again when its records are gone."""
    assert claim_of_request(request(startup, bounded), described(orders=2)) == claim


@pytest.mark.parametrize("bounds", [(T, T + HOUR), {"orders": (T, T + HOUR), "payments": (T + 5, T + DAY)}], ids=str)
def test_a_request_and_the_plan_that_it_makes_claim_the_same(bounds):
    by_topic = bounds if isinstance(bounds, dict) else {}
    hull = (T, T + DAY) if by_topic else bounds
    asked = request(
        AtTimestamp(hull[0], {topic: start for topic, (start, _) in by_topic.items()}),
        AtTimestamp(hull[1], {topic: end for topic, (_, end) in by_topic.items()}),
    )
    fields = {"window_bounds": asked.window_bounds, "window_bounds_by_topic": asked.window_bounds_by_topic}
    assert claim_of_request(asked, described(orders=1)) == claim_of(plan(PARTITIONS, **{**TIMED, **fields}))


def test_offsets_that_a_request_names_and_the_plan_that_it_makes_claim_the_same():
    made = plan([planned(0, 5, 9), planned(1, 3, 3)], **GIVEN)
    asked = request(starts(p0=5, p1=3), ends(p0=9, p1=3))
    assert claim_of_request(asked, described(orders=2)) == claim_of(made)


def test_a_window_is_said_in_words():
    assert str(TimeClaim(T, T + HOUR)) == "window 2026-11-20T00:00Z to 2026-11-20T01:00Z"
    assert str(by_offsets(("o", "i", 0, 2, 6), ("o", "i", 1, 0, 1))) == (
        "window of offsets 2 to 6 of o[0] and 1 more partitions"
    )
    assert str(by_offsets(("o", "i", 0, 2, 6))) == "window of offsets 2 to 6 of o[0]"
    assert str(by_offsets()) == "window without a record"


@given(WIDE, WIDE)
@example(T, LATEST + 9)
def test_a_windows_key_tells_its_stretch_of_time_and_its_name(start, end):
    claim = TimeClaim(start, end)
    of_shop = pipeline_in_key("shop")
    assert window_of_key(batch_name_of(claim, "shop").key) == (claim, claim.name, of_shop)
    different = TimeClaim(start, end, (("orders", start, end),))
    assert window_of_key(batch_name_of(different, "shop").key) == (claim, different.name, of_shop)
    assert window_of_key(batch_name_of(claim, "another").key) == (claim, claim.name, pipeline_in_key("another"))


def test_no_other_key_is_taken_for_that_of_a_window_by_time():
    for key in (
        batch_name_of(by_offsets(("o", "i", 0, 2, 6)), "shop").key,
        "0000000007-20261122T022057-k3f9",
        "20261120T000000Z--20261120T010000Z",
    ):
        assert window_of_key(key) is None
