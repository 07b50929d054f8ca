"""Bounds that are times, on both clusters: by topic, whose clock they are compared with, and many windows at once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest, NotAuthorized
from airflow_kafka_offsets.offsets.plan.codec import plan_from_dict, plan_to_dict
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan
from airflow_kafka_offsets.offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.offsets.request.parse import Occasion, PlanRequest
from airflow_kafka_offsets.offsets.request.scope import ScopeParameters
from airflow_kafka_offsets.pipeline.estimate import WindowsOutlook, estimate_windows, window_moments
from airflow_kafka_offsets.pipeline.preview import preview
from airflow_kafka_offsets.pipeline.request import request_for, scope_for
from tests.contract.conftest import NOW_MS, AnyCluster

HOUR = 3_600_000
START = NOW_MS - 5 * HOUR


@pytest.fixture
def topics(cluster: AnyCluster) -> tuple[str, str]:
    """One stamped by its producers, one by the broker; both with records."""
    suffix = uuid.uuid4().hex[:12]
    orders, payments = f"orders-{suffix}", f"payments-{suffix}"
    cluster.create_topic(orders, 2)
    cluster.create_topic(payments, 1, log_append_time=True)
    return orders, payments


def asked(topics: tuple[str, ...], **parameters: Any) -> PlanRequest:
    return request_for({}, RequestParameters(topics=list(topics), **parameters), Occasion(NOW_MS))


def plan(cluster: AnyCluster, topics: tuple[str, ...], **parameters: Any) -> OffsetPlan:
    return preview(asked(topics, **parameters), cluster.reader, None)


def by_time(start: object, end: object) -> dict[str, Any]:
    return {
        "startup_mode": "timestamp",
        "startup_timestamp": start,
        "bounded_mode": "timestamp",
        "bounded_timestamp": end,
    }


def outlook(cluster: AnyCluster, topic: str, *moments: int, now: int = NOW_MS) -> WindowsOutlook:
    return estimate_windows(scope_for({}, ScopeParameters(topics=[topic])), cluster.reader, moments, now_ms=now)


# ── whose clock ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.also_on_a_broker
def test_a_plan_by_time_tells_whose_clock_stamped_each_topic(cluster: AnyCluster, topics: tuple[str, str]) -> None:
    orders, payments = topics
    made = plan(cluster, topics, **by_time(START, NOW_MS))
    assert made.timestamp_types == {orders: "CreateTime", payments: "LogAppendTime"}
    as_json = plan_to_dict(made)
    assert as_json["topics"][payments]["timestamp_type"] == "LogAppendTime"
    assert plan_from_dict(as_json) == made


def test_a_plan_without_a_time_does_not_ask_for_it(cluster: AnyCluster, topics: tuple[str, str]) -> None:
    made = plan(cluster, topics, startup_mode="earliest-offset")
    assert made.timestamp_types == {}
    assert plan_to_dict(made)["topics"][topics[0]]["timestamp_type"] is None


class Forbidding:
    """A cluster that gives this client no right to read configurations."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def topic_settings(self, topics: Any) -> Any:
        raise NotAuthorized("Not allowed to describe the configuration", "TOPIC_AUTHORIZATION_FAILED", "Ask.")


@pytest.mark.also_on_a_broker
def test_a_missing_right_leaves_the_clock_unknown_and_the_plan_as_it_is(
    cluster: AnyCluster, topics: tuple[str, str]
) -> None:
    request = asked(topics, **by_time(START, NOW_MS))
    known = preview(request, cluster.reader, None)
    refused = preview(request, Forbidding(cluster.reader), None)  # type: ignore[arg-type]
    assert known.timestamp_types
    assert refused.timestamp_types == {}
    assert refused.plan_id == known.plan_id


# ── times by topic ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_topic_is_read_between_its_own_times(cluster: AnyCluster, orders: str) -> None:
    other = f"{orders}-other"
    cluster.create_topic(other, 1)
    for name in (orders, other):
        cluster.produce(name, timestamps_ms=[START + hour * HOUR for hour in range(5)])
    starts, ends = {orders: START, other: START + 2 * HOUR}, {orders: START + HOUR, other: START + 4 * HOUR}
    made = plan(cluster, (orders, other), **by_time(starts, ends))
    ranges = {str(p.topic_partition): (p.start_offset, p.end_offset) for p in made.to_read()}
    assert ranges == {f"{orders}[0]": (0, 1), f"{other}[0]": (2, 4)}
    assert made.window
    assert made.window_bounds == (START, START + 4 * HOUR)
    assert plan_from_dict(plan_to_dict(made)) == made


# ── many windows ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_windows_count_the_records_of_each(cluster: AnyCluster, orders: str) -> None:
    hours = [0, 0, 1, 3, 3, 3]
    cluster.produce(orders, timestamps_ms=[START + hour * HOUR for hour in hours])
    cluster.produce(orders, partition=1, timestamps_ms=[START + HOUR])
    found = outlook(cluster, orders, *(START + hour * HOUR for hour in range(5)))
    assert [window.records[orders] for window in found.windows] == [2, 2, 0, 3]
    assert [window.retention for window in found.windows] == ["kept"] * 4
    assert found.timestamp_types == {orders: "CreateTime"}


class Busy:
    """A cluster where records come between the look at the ends and every look by time."""

    def __init__(self, cluster: Any, come: Callable[[], object]) -> None:
        self._cluster, self._come = cluster, come

    def __getattr__(self, name: str) -> Any:
        if name == "offsets_for_times":
            self._come()
        return getattr(self._cluster, name)


def test_what_comes_while_windows_are_counted_is_in_none_of_them(cluster: AnyCluster, orders: str) -> None:
    cluster.produce(orders, timestamps_ms=[START, START])
    busy = Busy(cluster.reader, lambda: cluster.produce(orders, timestamps_ms=[START, START + 2 * HOUR]))
    scope = scope_for({}, ScopeParameters(topics=[orders]))
    found = estimate_windows(scope, busy, [START, START + HOUR, START + 2 * HOUR], now_ms=NOW_MS)
    assert [window.records[orders] for window in found.windows] == [2, 0]


def test_a_window_is_complete_by_the_rule_of_a_plan(cluster: AnyCluster, orders: str) -> None:
    """A later record in every partition; or its end so long ago that no more is expected."""
    for partition in range(3):
        cluster.produce(orders, partition=partition, timestamps_ms=[START, START + 2 * HOUR])
    moments = [START + hour * HOUR for hour in range(4)]
    assert [w.complete for w in outlook(cluster, orders, *moments, now=moments[-1]).windows] == [True, True, False]
    assert [w.complete for w in outlook(cluster, orders, *moments).windows] == [True] * 3


def test_what_retention_has_taken_is_told_wholly_or_perhaps_in_part(cluster: AnyCluster, orders: str) -> None:
    for partition in range(3):
        times = [START + minutes * 60_000 for minutes in (0, 30, 60, 90, 120, 150)]
        cluster.produce(orders, partition=partition, timestamps_ms=times)
    cluster.delete_records(orders, before=3)  # the first hour is gone, and half of the second
    found = outlook(cluster, orders, *(START + hour * HOUR for hour in range(4)))
    assert [window.retention for window in found.windows] == ["partly gone", "perhaps partly gone", "kept"]
    assert [[str(tp) for tp in window.gone] for window in found.windows] == [[f"{orders}[0]"], [], []]
    for partition in (1, 2):
        cluster.delete_records(orders, before=3, partition=partition)
    found = outlook(cluster, orders, *(START + hour * HOUR for hour in range(4)))
    assert [window.retention for window in found.windows] == ["gone", "perhaps partly gone", "kept"]


def test_of_an_empty_log_nobody_can_say_what_was_in_it(cluster: AnyCluster, orders: str) -> None:
    for partition in range(3):
        cluster.produce(orders, partition=partition, timestamps_ms=[START])
        cluster.delete_records(orders, before=1, partition=partition)
    [window] = outlook(cluster, orders, START, START + HOUR).windows
    assert (window.retention, window.record_count_upper_bound) == ("perhaps partly gone", 0)


# ── the moments between them ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("start", "end", "width", "problem"),
    [
        ("now-3h", "now", "hourly", None),
        ("now", "now-3h", "hourly", "is not after start"),
        ("now", "now", "hourly", "is not after start"),
        ("2100-01-01", "2100-01-02", "hourly", "is in the future"),
        ("now-30d", "now", "PT1S", "more than 100000 windows"),
        ("now-3h", "now", "fortnightly", "width"),
    ],
)
def test_windows_lie_between_moments_or_the_question_is_refused(
    start: str, end: str, width: str, problem: str | None
) -> None:
    if problem is None:
        moments = window_moments(start, end, width, "UTC", NOW_MS)
        assert (moments[0], moments[-1]) == (NOW_MS - 3 * HOUR, NOW_MS)
        assert all(after - before <= HOUR for before, after in pairwise(moments))
        return
    with pytest.raises(InvalidRequest, match=problem):
        window_moments(start, end, width, "UTC", NOW_MS)
