"""How much is unread, when that is enough, and when it is told."""

from dataclasses import asdict
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.plan.consumer_lag import (
    Announced,
    Lag,
    LagLimits,
    PartitionLag,
    is_new_backlog,
    parse_limits,
    partition_lag,
    position_mark,
)
from tests.builders import snap, tp

HOUR_MS = 3_600_000
NOW = 1_795_132_800_000


def lag(*partitions: PartitionLag, limits: LagLimits, position: str = "p", now_ms: int = NOW) -> Lag:
    return Lag("g", "c", limits, now_ms, partitions, position)


@pytest.mark.parametrize(
    ("log", "position", "first_young", "records", "old"),
    [
        pytest.param(snap(0, 10), 4, 7, 6, True, id="4, 5 and 6 are unread and old"),
        pytest.param(snap(0, 10), 7, 7, 3, False, id="what is unread is young"),
        pytest.param(snap(0, 10), 10, 7, 0, False, id="all is read"),
        pytest.param(snap(0, 10), 10, None, 0, False, id="all is read, and old"),
        pytest.param(snap(0, 10), 9, None, 1, True, id="no record is young"),
        pytest.param(snap(0, 10), 10, 12, 0, False, id="records came between the two looks"),
        pytest.param(snap(3, 10), None, 5, 7, True, id="no position: from the log start"),
        pytest.param(snap(3, 10), 1, 3, 7, False, id="below the log start: what is gone waits for nobody"),
        pytest.param(snap(0, 10), 11, 10, 10, True, id="beyond the end: another log, all of it unread"),
        pytest.param(snap(0, 6, 10), 8, None, 0, False, id="beyond the last stable offset only"),
        pytest.param(snap(0, 0), None, None, 0, False, id="never written"),
        pytest.param(None, 4, None, None, False, id="no leader: unknown, not zero"),
    ],
)
def test_the_lag_of_a_partition(log, position, first_young, records, old):
    assert partition_lag(tp(), log, position, first_young, ages=True) == PartitionLag(tp(), records, old)
    assert not partition_lag(tp(), log, position, None, ages=False).old


@pytest.mark.parametrize(
    ("log", "position", "taken", "near"),
    [
        pytest.param(snap(0, 10), 4, 5, True, id="retention may take 4"),
        pytest.param(snap(0, 10), 5, 5, False, id="all that it may take is read"),
        pytest.param(snap(3, 10), 3, 3, False, id="it takes nothing"),
        pytest.param(snap(0, 10), 10, 12, False, id="nothing is unread"),
        pytest.param(snap(0, 6, 10), 6, 10, False, id="what an open transaction holds back is not counted"),
        pytest.param(snap(0, 10), 4, None, False, id="nobody looked"),
        pytest.param(None, 4, None, False, id="no leader"),
    ],
)
def test_retention_is_near_where_it_may_take_an_unread_record(log, position, taken, near):
    found = partition_lag(tp(), log, position, None, ages=False, taken=taken)
    assert found.near is near
    assert lag(found, limits=LagLimits(None, None, HOUR_MS)).is_enough is near


@given(
    timestamps=st.lists(st.integers(0, 20), max_size=8).map(sorted),
    read=st.integers(0, 8),
    threshold=st.integers(0, 21),
)
def test_for_timestamps_in_order_old_means_that_an_unread_record_is_older(timestamps, read, threshold):
    position = min(read, len(timestamps))
    first_young = next((offset for offset, time in enumerate(timestamps) if time >= threshold), None)
    found = partition_lag(tp(), snap(0, len(timestamps)), position, first_young, ages=True)
    assert found.old == any(time < threshold for time in timestamps[position:])
    assert found.records == len(timestamps) - position


@pytest.mark.parametrize(
    ("limits", "records", "old", "enough"),
    [
        (LagLimits(100, None), 99, False, False),
        (LagLimits(100, None), 100, False, True),
        (LagLimits(100, HOUR_MS), 1, True, True),
        (LagLimits(None, HOUR_MS), 1_000, False, False),
    ],
)
def test_either_limit_is_enough(limits, records, old, enough):
    assert lag(PartitionLag(tp(), records, old), limits=limits).is_enough is enough


def test_a_partition_without_a_leader_does_not_hold_the_others_back():
    found = lag(PartitionLag(tp(0), None), PartitionLag(tp(1), 5), limits=LagLimits(5, None))
    assert found.is_enough
    assert found.to_dict()["partitions_without_leader"] == 1


def test_the_lag_as_json_has_each_topic_and_a_bound_of_the_age():
    rows = [PartitionLag(tp(0), 5, old=True), PartitionLag(tp(1), 2), PartitionLag(tp(0, "payments"), 0)]
    assert lag(*rows, limits=LagLimits(None, HOUR_MS)).to_dict() == {
        "group_id": "g",
        "cluster_id": "c",
        "lag": 7,
        "topics": {"orders": 7, "payments": 0},
        "oldest_unread_before_ms": NOW - HOUR_MS,
        "partitions_with_old_records": 1,
        "partitions_near_retention": 0,
        "partitions_without_leader": 0,
        "looked_at_ms": NOW,
    }
    young = [PartitionLag(tp(0), 5)]
    assert lag(*young, limits=LagLimits(1, HOUR_MS)).to_dict()["oldest_unread_before_ms"] is None


@pytest.mark.parametrize(
    ("announced", "remind_after_ms", "told"),
    [
        pytest.param(None, HOUR_MS, True, id="the first time"),
        pytest.param(Announced("p", NOW - HOUR_MS + 1), HOUR_MS, False, id="the run has not committed yet"),
        pytest.param(Announced("p", NOW - HOUR_MS), HOUR_MS, True, id="nobody has moved the position for long"),
        pytest.param(Announced("p", 0), None, False, id="never reminded"),
        pytest.param(Announced("q", NOW), None, True, id="a run has committed, and it is enough again"),
    ],
)
def test_one_backlog_is_told_once(announced, remind_after_ms, told):
    backlog = lag(PartitionLag(tp(), 5), limits=LagLimits(5, None))
    assert is_new_backlog(backlog, announced, remind_after_ms) is told
    assert not is_new_backlog(lag(PartitionLag(tp(), 4), limits=LagLimits(5, None)), announced, remind_after_ms)


@given(st.lists(st.sampled_from(["produce", "look", "plan", "commit", "die"]), max_size=40))
def test_no_backlog_waits_for_ever_and_none_starts_two_runs(steps):
    """Whatever the order of records, looks, and runs that take their time, fail, or are one behind the other."""
    limits, remind = LagLimits(3, None), 10
    end = position = clock = 0
    announced, queued, planned = None, 0, None

    def look():
        nonlocal announced, queued
        seen = lag(
            PartitionLag(tp(), end - position), limits=limits, position=position_mark({tp(): position}), now_ms=clock
        )
        if is_new_backlog(seen, announced, remind):
            if announced and announced.position == seen.position:
                assert clock - announced.at_ms >= remind  # the only way to a second run of one position
            announced = Announced(seen.position, clock)
            queued += 1

    def plan():
        nonlocal planned, queued
        if queued and planned is None:
            queued, planned = queued - 1, end

    def finish():
        nonlocal planned, position
        if planned is not None:
            position, planned = planned, None

    for step in steps:
        clock += 1
        match step:
            case "produce":
                end += 2
            case "look":
                look()
            case "plan":
                plan()
            case "commit":
                finish()
            case "die":
                planned = None
    clock += remind
    for _ in range(3):  # the world stands still, and the triggerer and the scheduler go on
        look()
        while queued:
            plan()
            finish()
    assert end - position < 3


@pytest.mark.parametrize(
    ("value", "age_ms"),
    [(90, 90_000), ("90", 90_000), (0.5, 500), ("PT10M", 600_000), (timedelta(hours=1), HOUR_MS), ("2d", 172_800_000)],
)
def test_an_age_and_a_margin_are_seconds_or_a_duration(value, age_ms):
    assert parse_limits(None, value) == LagLimits(None, age_ms)
    assert parse_limits(None, None, value) == LagLimits(None, None, age_ms)


@pytest.mark.parametrize("value", [0, -1, "0", "soon", "", True, timedelta(0), "PT0S"])
def test_an_age_or_a_margin_that_is_none_is_refused(value):
    with pytest.raises(InvalidRequest, match=r"(?s)max_age (is|has) .*min_retention_margin (is|has) "):
        parse_limits(None, value, value)


def test_all_wrong_limits_are_named_at_once():
    with pytest.raises(InvalidRequest) as refused:
        parse_limits(0, "soon", "never")
    named = [problem.split()[0] for problem in refused.value.problems]
    assert named == ["min_records", "max_age", "min_retention_margin"]


def test_without_any_limit_one_record_is_enough():
    assert parse_limits(None, None) == LagLimits(1, None)
    assert parse_limits("20", "PT1H") == LagLimits(20, HOUR_MS)
    assert parse_limits(None, 5) == LagLimits(None, 5_000)


@pytest.mark.parametrize("found", [None, "x", {}, {"position": 1, "at_ms": 2}, {"position": "p"}])
def test_what_is_not_a_kept_announcement_is_none(found):
    assert Announced.from_dict(found) is None
    assert Announced.from_dict(asdict(Announced("p", 5))) == Announced("p", 5)


def test_a_new_partition_moves_no_position():
    assert position_mark({tp(0): 5}) == position_mark({tp(0): 5})
    assert len({position_mark(offsets) for offsets in ({}, {tp(0): 5}, {tp(0): 6}, {tp(1): 5})}) == 4
