"""The rule table end to end: a cluster's state and the operator's parameters in, a plan or a refusal out.

Each row runs in memory and, unless it says why not, on a real broker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from airflow_kafka_offsets.errors import KafkaOffsetsError, PartitionsRefused
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.plan.plan import Draft
from airflow_kafka_offsets.request.parse_request import RunContext, request_for
from tests.asked import request_parameters
from tests.conformance.cases import CASES
from tests.conformance.conftest import Site
from tests.conformance.situations import NOW, Case, Refused, Start
from tests.engine import preview


def renamed(value: Any, old: str, new: str) -> Any:
    """``value`` with ``old`` replaced in every text and key of it."""
    match value:
        case str():
            return value.replace(old, new)
        case Mapping():
            return {renamed(key, old, new): renamed(item, old, new) for key, item in value.items()}
        case list():
            return [renamed(item, old, new) for item in value]
        case _:
            return value


def plan_of(case: Case, site: Site, group: str) -> tuple[str, Draft]:
    topic = site.topic_in(case.state)
    if case.commits:
        commits = {
            TopicPartition(topic, number): CommittedOffset(c) if isinstance(c, int) else c
            for number, c in case.commits.items()
        }
        site.hands.commit_as_somebody_else(group, commits)
    ask = {"group_id": group, **renamed(dict(case.ask), "orders", topic)}
    if not {"topics", "topic_pattern", "partitions"} & ask.keys():
        ask["topics"] = [topic]
    request = request_for(case.connection, request_parameters(**ask), RunContext(NOW))
    return topic, preview(request, site.cluster, None)


def check(case: Case, site: Site, group: str) -> None:
    if isinstance(case.then, Refused):
        _check_refusal(case, case.then, site, group)
        return
    topic, plan = plan_of(case, site, group)
    found = {
        p.topic_partition.partition: Start(
            p.start_offset, p.end_offset, p.start_reason, p.lost, p.skipped, p.end_reason
        )
        for p in plan.partitions
        if p.topic_partition.topic == topic
    }
    assert found == dict(case.then)
    assert [p.topic_partition for p in plan.partitions] == sorted(TopicPartition(topic, n) for n in case.then)
    warnings = "\n".join(plan.warnings)
    assert all(word in warnings for word in case.says), warnings
    assert case.says or not warnings, warnings
    fields = {
        one.name: getattr(part, one.name) for part in (plan.asked, plan.found) for one in dataclasses.fields(part)
    }
    for name, value in case.also.items():
        shown = tuple(TopicPartition(tp.topic.replace(topic, "orders"), tp.partition) for tp in plan.found.ignored)
        assert (shown if name == "ignored" else fields[name]) == value


def _check_refusal(case: Case, expected: Refused, site: Site, group: str) -> None:
    with pytest.raises(KafkaOffsetsError) as caught:
        plan_of(case, site, group)
    error, topic = caught.value, site.topic_in(case.state)
    assert type(error) is expected.error
    text = str(error).replace(topic, "orders")
    assert all(word in text for word in expected.words), text
    if expected.lines:
        assert isinstance(error, PartitionsRefused)
        lines = [line.replace(topic, "orders") for line in error.partitions]
        assert len(lines) == len(expected.lines), lines
        for line, (number, words) in zip(lines, expected.lines.items(), strict=True):
            assert line.startswith(f"orders[{number}]"), line
            assert all(word in line for word in words), line


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_in_memory(case: Case, memory_site: Site, group: str) -> None:
    check(case, memory_site, group)


@pytest.mark.parametrize("case", [case for case in CASES if not case.because], ids=lambda case: case.id)
def test_on_a_broker(case: Case, real_site: Site, group: str) -> None:
    check(case, real_site, group)
