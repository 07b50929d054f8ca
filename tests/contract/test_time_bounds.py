"""Bounds that are times, on both clusters: by topic, and whose clock they are compared with."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from airflow_kafka_offsets.errors import NotAuthorized
from airflow_kafka_offsets.plan.plan import Draft
from airflow_kafka_offsets.plan.plan_json import plan_to_dict
from airflow_kafka_offsets.request.parse_request import PlanRequest, RunContext, request_for
from tests.asked import request_parameters
from tests.contract.conftest import NOW_MS, AnyCluster
from tests.engine import preview

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
    return request_for({}, request_parameters(topics=list(topics), **parameters), RunContext(NOW_MS))


def plan(cluster: AnyCluster, topics: tuple[str, ...], **parameters: Any) -> Draft:
    return preview(asked(topics, **parameters), cluster.reader, None)


def by_time(start: object, end: object) -> dict[str, Any]:
    return {
        "startup_mode": "timestamp",
        "startup_timestamp": start,
        "bounded_mode": "timestamp",
        "bounded_timestamp": end,
    }


# ── whose clock ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.also_on_a_broker
def test_a_plan_by_time_tells_whose_clock_stamped_each_topic(cluster: AnyCluster, topics: tuple[str, str]) -> None:
    orders, payments = topics
    made = plan(cluster, topics, **by_time(START, NOW_MS))
    assert made.found.timestamp_types == {orders: "CreateTime", payments: "LogAppendTime"}
    as_json = plan_to_dict(made)
    assert as_json["topics"][payments]["timestamp_type"] == "LogAppendTime"


def test_a_plan_without_a_time_does_not_ask_for_it(cluster: AnyCluster, topics: tuple[str, str]) -> None:
    made = plan(cluster, topics, startup_mode="earliest-offset")
    assert made.found.timestamp_types == {}
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
    assert known.found.timestamp_types
    assert refused.found.timestamp_types == {}
    assert refused.partitions == known.partitions


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
    assert made.asked.window
    assert made.asked.window_bounds == (START, START + 4 * HOUR)
