"""How far an offset is from both ends of its log; and that retention comes no earlier than is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.kafka_values import ClusterDescription, OffsetRange, TopicDescription, TopicSettings
from airflow_kafka_offsets.plan.lag_and_margin import (
    LagAndMargin,
    LogStart,
    lag_and_margin,
    log_starts_of,
    taken_within,
    together,
)
from tests.builders import plan, planned, snap, tp

NOW, HOUR, DAY = 1_795_168_800_000, 3_600_000, 86_400_000
BY_TIME, BY_SIZE, BY_BOTH = (TopicSettings("CreateTime", *limits) for limits in ((DAY, None), (None, 10), (DAY, 10)))
KEPT = TopicSettings()
AN_HOUR_AGO = LogStart(80, NOW - HOUR)
LOG = snap(100, 200)


@pytest.mark.parametrize(
    ("at", "log", "given", "found"),
    [
        pytest.param(None, LOG, {}, LagAndMargin(), id="no position: nothing is known"),
        pytest.param(150, None, {}, LagAndMargin(), id="no leader: nothing is known"),
        pytest.param(150, LOG, {}, LagAndMargin(50, None, 50, None), id="nobody looked at times and settings"),
        pytest.param(150, LOG, {"record_ms": NOW - HOUR}, LagAndMargin(50, HOUR, 50, None), id="no right"),
        pytest.param(150, LOG, {"record_ms": NOW + 5}, LagAndMargin(50, 0, 50, None), id="a record of the future"),
        pytest.param(
            150, LOG, {"record_ms": NOW - HOUR, "settings": BY_TIME}, LagAndMargin(50, HOUR, 50, DAY - HOUR),
            id="by time",
        ),
        pytest.param(
            150, LOG, {"record_ms": NOW - 2 * DAY, "settings": BY_TIME}, LagAndMargin(50, 2 * DAY, 50, 0), id="overdue"
        ),
        pytest.param(150, LOG, {"settings": BY_TIME}, LagAndMargin(50, None, 50, None), id="a record without a time"),
        pytest.param(
            150, LOG, {"settings": BY_TIME, "before": AN_HOUR_AGO}, LagAndMargin(50, None, 50, 5 * HOUR // 2),
            id="by the pace of the log start, where no time is known",
        ),
        pytest.param(
            150, LOG, {"record_ms": NOW, "settings": BY_TIME, "before": AN_HOUR_AGO}, LagAndMargin(50, 0, 50, DAY),
            id="a time is exact, and the pace is not asked",
        ),
        pytest.param(150, LOG, {"record_ms": NOW, "settings": BY_SIZE}, LagAndMargin(50, 0, 50, None), id="by size"),
        pytest.param(
            150, LOG, {"settings": BY_SIZE, "before": AN_HOUR_AGO}, LagAndMargin(50, None, 50, 5 * HOUR // 2),
            id="by size, by the pace",
        ),
        pytest.param(
            150, LOG, {"record_ms": NOW, "settings": BY_BOTH}, LagAndMargin(50, 0, 50, None),
            id="by both: one limit alone is no margin",
        ),
        pytest.param(
            150, LOG, {"record_ms": NOW, "settings": BY_BOTH, "before": AN_HOUR_AGO},
            LagAndMargin(50, 0, 50, 5 * HOUR // 2), id="by both: what comes first",
        ),
        pytest.param(
            150, LOG, {"record_ms": NOW - DAY + 1, "settings": BY_BOTH, "before": AN_HOUR_AGO},
            LagAndMargin(50, DAY - 1, 50, 1), id="by both: the time comes first",
        ),
        pytest.param(
            150, LOG, {"record_ms": NOW - HOUR, "settings": KEPT, "before": AN_HOUR_AGO}, LagAndMargin(50, HOUR),
            id="only compacted, or without a limit: no margin",
        ),
        pytest.param(90, LOG, {"settings": BY_TIME}, LagAndMargin(110, None, -10, 0), id="ten are gone already"),
        pytest.param(200, LOG, {"before": AN_HOUR_AGO}, LagAndMargin(0, 0), id="all is read: nothing can be taken"),
        pytest.param(210, LOG, {}, LagAndMargin(-10), id="beyond the end: another log"),
        pytest.param(150, LOG, {"before": LogStart(100, NOW - HOUR)}, LagAndMargin(50, None, 50), id="it did not move"),
        pytest.param(150, LOG, {"before": LogStart(150, NOW - HOUR)}, LagAndMargin(50, None, 50), id="it went back"),
        pytest.param(150, LOG, {"before": LogStart(80, NOW)}, LagAndMargin(50, None, 50), id="no time has passed"),
    ],
)  # fmt: skip
def test_the_lag_and_the_margin_of_an_offset(at, log, given, found):
    assert lag_and_margin(at, log, NOW, **given) == found


def test_several_together_are_the_sum_the_oldest_and_the_nearest_of_what_is_known():
    rows = [LagAndMargin(5, HOUR, 7, DAY), LagAndMargin(), LagAndMargin(1, 2 * HOUR, 9, HOUR), LagAndMargin(0, 0)]
    assert together(rows) == LagAndMargin(6, 2 * HOUR, 7, HOUR)
    assert together([LagAndMargin()]) == together([]) == LagAndMargin()


@pytest.mark.parametrize(
    ("settings", "young", "before", "taken"),
    [
        pytest.param(BY_TIME, 130, None, 130, id="by time"),
        pytest.param(BY_TIME, None, None, 200, id="by time: no record is young enough"),
        pytest.param(BY_TIME, 250, None, 200, id="records came between the two looks"),
        pytest.param(BY_TIME, 130, AN_HOUR_AGO, 130, id="by time, and the pace is not asked"),
        pytest.param(BY_SIZE, None, AN_HOUR_AGO, 160, id="by size: three hours at that pace"),
        pytest.param(BY_SIZE, None, None, 100, id="by size, and no pace: nothing is known"),
        pytest.param(BY_BOTH, 130, AN_HOUR_AGO, 160, id="by both"),
        pytest.param(BY_BOTH, 130, None, 130, id="by both, and no pace"),
        pytest.param(KEPT, None, AN_HOUR_AGO, 100, id="it deletes nothing"),
        pytest.param(None, None, AN_HOUR_AGO, 160, id="no right: the pace"),
        pytest.param(None, None, None, 100, id="nothing is known"),
    ],
)
def test_what_may_be_taken_within_three_hours(settings, young, before, taken):
    found = taken_within(
        3 * HOUR,
        {tp(): OffsetRange(100, 200)},
        NOW,
        lambda _: {} if young is None else {tp(): young},
        {} if settings is None else {"orders": settings},
        {} if before is None else {tp(): before},
    )
    assert found == {tp(): taken}


@given(
    segments=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), min_size=1, max_size=5),
    kept_ms=st.integers(0, 40),
    now_ms=st.integers(50, 90),
    margin_ms=st.integers(0, 40),
)
def test_retention_takes_nothing_that_is_not_said_whatever_the_order_of_the_times(segments, kept_ms, now_ms, margin_ms):
    """Kafka deletes from the front, each segment whose newest time is more than ``retention.ms`` ago."""
    times = [time for segment in segments for time in segment]
    then = now_ms + margin_ms
    gone = 0
    for segment in segments:
        if then - max(segment) <= kept_ms:
            break
        gone += len(segment)
    settings = {"orders": TopicSettings("CreateTime", kept_ms)}

    def first_at(asked):
        young = next((offset for offset, time in enumerate(times) if time >= asked[tp()]), None)
        return {} if young is None else {tp(): young}

    taken = taken_within(margin_ms, {tp(): OffsetRange(0, len(times))}, now_ms, first_at, settings, {})[tp()]
    assert gone <= taken
    for offset in range(gone):
        own = lag_and_margin(offset, snap(0, len(times)), now_ms, record_ms=times[offset], settings=settings["orders"])
        assert own.margin_ms is not None
        assert own.margin_ms <= margin_ms


def test_only_topics_with_a_limit_by_time_are_looked_up():
    settings = {"orders": BY_TIME, "payments": BY_SIZE, "kept": KEPT}
    logs = dict.fromkeys([tp(0), tp(0, "payments"), tp(0, "kept"), tp(0, "hidden")], OffsetRange(0, 9))
    asked = []

    def first_at(times):
        asked.append(times)
        return {}

    taken_within(HOUR, logs, NOW, first_at, settings, {})
    taken_within(HOUR, logs, 0, first_at, settings, {})
    assert asked == [{tp(0): NOW + HOUR - DAY}, {tp(0): 0}], "never a time that stands for something else"


def test_a_pace_is_of_one_log():
    before = plan([planned(0, 5, 9, log_start_offset=3)], topic_ids={"orders": "a"})
    now = ClusterDescription(before.found.cluster_id, {"orders": TopicDescription("a", {0: 1})})
    assert log_starts_of(before, now) == {tp(0): LogStart(3, before.resolved_at_ms)}
    anew = ClusterDescription(before.found.cluster_id, {"orders": TopicDescription("b", {0: 1})})
    assert log_starts_of(before, anew) == log_starts_of(before, ClusterDescription("other", now.topics)) == {}
    assert log_starts_of(None, now) == {}
