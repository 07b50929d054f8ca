"""A plan under a cap says how many more runs there are, and what retention may delete before they come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.batch.carry_out import named
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import NotAuthorized
from airflow_kafka_offsets.kafka_values import Actor, TopicPartition, TopicSettings
from airflow_kafka_offsets.plan.backlog import Backlog
from airflow_kafka_offsets.plan.plan import BatchName, Draft, new_key
from airflow_kafka_offsets.plan.plan_json import plan_from_dict, plan_to_dict
from airflow_kafka_offsets.request.parse_request import RunContext, request_for
from tests.asked import request_parameters
from tests.contract.conftest import AnyCluster
from tests.engine import last_sentence, preview

HOUR = 3_600_000


def planned(reader: Any, topic: str, *, hourly: bool = True, **asked: Any) -> Draft:
    now = now_ms()
    run_context = RunContext(now, (now - HOUR, now) if hourly else None)
    parameters = request_parameters(topics=[topic], group_id="g", startup_mode="earliest-offset", **asked)
    return preview(request_for({}, parameters, run_context), reader, None)


@pytest.fixture
def aged(cluster: AnyCluster, group: str) -> str:
    """A topic whose records stay for a day: 24 of them, of the last 12 hours, two an hour."""
    name, now = f"aged-{group}", now_ms()
    cluster.create_topic(name, retention_ms=24 * HOUR)
    cluster.produce(name, timestamps_ms=[now - 12 * HOUR + n * HOUR // 2 + 60_000 for n in range(24)])
    return name


def test_a_plan_without_caps_or_below_them_has_no_backlog(cluster: AnyCluster, aged: str) -> None:
    assert planned(cluster.reader, aged).found.backlog is None
    assert planned(cluster.reader, aged, max_records=24).found.backlog is None


def test_runs_that_are_faster_than_retention_lose_nothing(cluster: AnyCluster, aged: str) -> None:
    backlog = planned(cluster.reader, aged, max_records=4).found.backlog
    assert backlog == Backlog(20, 5, 0, "by retention.ms, with 1 h between two runs")


@pytest.mark.also_on_a_broker
def test_runs_that_are_slower_than_retention_lose_what_it_overtakes(cluster: AnyCluster, aged: str) -> None:
    """One record an hour is read. Twelve hours from now two an hour become too old; the last of them in 24 hours, when
    22 of the 23 are read."""
    assert planned(cluster.reader, aged, max_records=1).found.backlog.expiring == 0  # type: ignore[union-attr]
    cluster.produce(aged, timestamps_ms=[now_ms() - HOUR] * 24)
    plan = planned(cluster.reader, aged, max_records=1)
    assert plan.found.backlog is not None
    assert (plan.found.backlog.carried_over, plan.found.backlog.more_runs) == (47, 47)
    assert plan.found.backlog.expiring == 47 - 23, "all are too old in 23 hours, when 23 more runs have come"
    assert "retention may delete about 24 records of them before" in last_sentence(plan, 1)


def test_without_a_limit_by_time_nothing_expires(cluster: AnyCluster, group: str) -> None:
    name = f"kept-{group}"
    cluster.create_topic(name)
    cluster.produce(name, 9)
    assert planned(cluster.reader, name, max_records_per_partition=2).found.backlog == Backlog(
        7, 4, 0, "retention.ms is without a limit"
    )


def test_what_is_not_known_is_said_as_not_known(cluster: AnyCluster, aged: str) -> None:
    """How far apart the runs are, where they have no interval and there was none before; and the topic's settings."""
    asked = {"max_records": 4}
    assert planned(cluster.reader, aged, hourly=False, **asked).found.backlog == Backlog(
        20, 5, None, "how far apart the runs are is not known"
    )
    for settings, because in (
        (
            None,
            f"this client may not see the configuration of {aged} (the right DescribeConfigs)",
        ),
        (TopicSettings("CreateTime", HOUR, 1_000_000), f"{aged} has retention.bytes, which deletes by size"),
    ):
        told = Telling(cluster.reader, settings)
        assert planned(told, aged, **asked).found.backlog == Backlog(20, 5, None, because)


def test_the_estimate_is_kept_with_the_plan_and_is_no_part_of_its_id(cluster: AnyCluster, aged: str) -> None:
    plan = named(planned(cluster.reader, aged, max_records=4), BatchName(new_key(1, 0, "aaaa"), 1), Actor(None))
    assert plan_from_dict(plan_to_dict(plan)).found.backlog == plan.found.backlog
    assert replace(plan, found=replace(plan.found, backlog=None)).plan_id == plan.plan_id


class Telling:
    """A cluster that tells these settings of each topic; ``None``: the right to know them is missing."""

    def __init__(self, cluster: Any, settings: TopicSettings | None) -> None:
        self._cluster, self._settings = cluster, settings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def topic_settings(self, topics: Any) -> Any:
        if self._settings is None:
            raise NotAuthorized("Not allowed to describe the configuration", "TOPIC_AUTHORIZATION_FAILED", "Ask.")
        return dict.fromkeys(topics, self._settings)


def test_the_pace_is_that_of_the_last_two_plans_where_runs_have_no_interval(in_memory: Any, memory: Any) -> None:
    """A run that is triggered has none."""
    memory.hands.create_topic(f"aged-{in_memory.group}", retention_ms=24 * HOUR)
    topic, now = f"aged-{in_memory.group}", now_ms()
    memory.hands.produce(TopicPartition(topic, 0), [now] * 9)
    in_memory.topic = topic
    in_memory.run("one", max_records=2)
    backlog = in_memory.resolve("two", max_records=2).plan.found.backlog
    assert (backlog.carried_over, backlog.more_runs, backlog.expiring) == (5, 3, 0)
    assert backlog.because.endswith(" s between two runs")
