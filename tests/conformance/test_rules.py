"""The rule table end to end: a cluster's state and the operator's parameters in, a plan or a refusal out.

Each row runs in memory; each that asks Kafka runs on a real broker, too, unless it says why not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest, KafkaOffsetsError, PartitionsRefused
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.request import RunContext, parse_request
from airflow_kafka_offsets.templated import Templated, fields_of
from tests.conformance.cases import CASES
from tests.conformance.conftest import Site
from tests.conformance.pipeline import Pipeline, Run
from tests.conformance.situations import NOW, Case, Refused


def renamed(value: Any, topic: str) -> Any:
    """``value`` with ``orders`` replaced in every text and key of it."""
    match value:
        case str():
            return value.replace("orders", topic)
        case Mapping():
            return {renamed(key, topic): renamed(item, topic) for key, item in value.items()}
        case list():
            return [renamed(item, topic) for item in value]
        case Templated():
            return replace(value, **{name: renamed(item, topic) for name, item in fields_of(value)})  # type: ignore[type-var]
    return value


def resolved(case: Case, site: Site, group: str) -> Run:
    topic = site.topic_in(case.state)
    if case.commits:
        commits = {
            TopicPartition(topic, number): CommittedOffset(c) if isinstance(c, int) else c
            for number, c in case.commits.items()
        }
        site.hands.commit_as_somebody_else(group, commits)
    return Pipeline(site.cluster, topic, group, renamed(case.ask, topic), dict(case.connection)).next()


def check(case: Case, site: Site, group: str) -> None:
    if not isinstance(case.then, Refused):
        assert resolved(case, site, group).planned == dict(case.then)
        return
    with pytest.raises(KafkaOffsetsError) as caught:
        resolved(case, site, group)
    error, topic = caught.value, site.topic_in(case.state)
    text = str(error).replace(topic, "orders")
    assert type(error) is case.then.error, text
    assert all(word in text for word in case.then.words), text
    if case.then.lines:
        assert isinstance(error, PartitionsRefused)
        lines = [line.replace(topic, "orders") for line in error.partitions]
        assert len(lines) == len(case.then.lines), lines
        for line, (number, words) in zip(lines, case.then.lines.items(), strict=True):
            assert line.startswith(f"orders-{number}"), line
            assert all(word in line for word in words), line


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_in_memory(case: Case, memory_site: Site, group: str) -> None:
    check(case, memory_site, group)


ASKING = [c for c in CASES if not c.because and not (isinstance(c.then, Refused) and c.then.error is InvalidRequest)]


@pytest.mark.parametrize("case", ASKING, ids=lambda case: case.id)
def test_on_a_broker(case: Case, real_site: Site, group: str) -> None:
    check(case, real_site, group)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_request_warns_of_nothing_but_what_its_case_says(case: Case) -> None:
    parameters = {"topics": ["orders"], "group_id": "g", "pipeline_id": "p", **case.ask}
    try:
        warnings = "".join(parse_request(parameters, RunContext(NOW), case.connection).warnings)
    except InvalidRequest:
        warnings = ""
    assert case.says in warnings
    assert case.says or not warnings
