"""What is wrong with a sensor is found when its DAG is parsed; what a template decides is left to the run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets import OffsetLagSensor, PartitionDiscoverySensor, WindowCompleteSensor
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.templates import is_settled

DISCOVERY, LAG, WINDOW = PartitionDiscoverySensor, OffsetLagSensor, WindowCompleteSensor
ALL: tuple[Any, ...] = (DISCOVERY, LAG, WINDOW)

WRONG: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (ALL, {"topics": None}, "Give exactly one of topics, topic_pattern and partitions, not none"),
    (ALL, {"topic_pattern": "a.*"}, "exactly one of topics, topic_pattern and partitions"),
    (ALL, {"partitions": {"a": [0]}}, "exactly one of topics, topic_pattern and partitions"),
    (ALL, {"topics": "two words"}, "topics has 'two words'; Kafka's topic names have"),
    (ALL, {"topics": None, "topic_pattern": "("}, "topic_pattern '(' is not a regular expression"),
    (ALL, {"topics": None, "partitions": {"a": "x"}}, "partitions has 'x' for topic 'a'"),
    (ALL, {"poke_interval": "often"}, "poke_interval is 'often'; give days"),
    (ALL, {"poke_interval": -1}, "poke_interval is -1; a duration cannot be negative"),
    (ALL, {"timeout": "P1M"}, "timeout is 'P1M'; give days"),
    (ALL, {"timeout": float("inf")}, "timeout is inf, which has no end; give seconds"),
    (ALL, {"timeout": "{{ params.timeout }}"}, "timeout is '{{ params.timeout }}'"),  # nothing renders it
    (ALL, {"mode": "push"}, "mode is 'push'; use one of poke, reschedule"),
    ((LAG, WINDOW), {"isolation_level": "serializable"}, "isolation_level is 'serializable'; use one of"),
    ((DISCOVERY, LAG), {"work_store": "ftp://lake"}, "ftp://lake cannot be used"),
    ((DISCOVERY, LAG), {"group_id": " "}, "group_id is empty"),
    ((DISCOVERY, LAG), {"pipeline_id": ""}, "pipeline_id is empty"),
    ((DISCOVERY,), {"min_partitions": 0}, "min_partitions is 0; it must be at least 1"),
    ((DISCOVERY,), {"min_partitions": "{{ 3 }}"}, "min_partitions is '{{ 3 }}'"),  # nothing renders it
    ((LAG,), {"min_records": "many"}, "min_records is 'many'"),
    ((LAG,), {"max_age": "abc"}, "max_age is 'abc'"),
    ((WINDOW,), {"end": "tomorrow"}, "is 'tomorrow'; give epoch milliseconds"),
    ((WINDOW,), {"idle_timeout": "soon"}, "idle_timeout is 'soon'"),
    ((WINDOW,), {"idle_timeout": float("inf")}, "idle_timeout is inf, which has no end"),
    ((WINDOW,), {"clock_skew": -3}, "clock_skew is -3"),
    ((WINDOW,), {"partition_width": "P1Y"}, "partition_width is 'P1Y'"),
]


@pytest.mark.parametrize(
    ("kind", "parameters", "problem"),
    [(kind, parameters, problem) for kinds, parameters, problem in WRONG for kind in kinds],
)
def test_a_wrong_value_is_refused_when_the_dag_is_parsed(
    airflow: Path, kind: Any, parameters: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(problem)):
        kind(task_id="wait", **{"topics": "a", **parameters})


@pytest.mark.parametrize(
    ("kind", "parameters", "problem"),
    [(kind, parameters, problem) for kinds, parameters, problem in WRONG for kind in kinds],
)
def test_a_template_hides_no_problem_of_another_parameter(
    airflow: Path, kind: Any, parameters: dict[str, Any], problem: str
) -> None:
    """Words of a sentence are parameters' names, too: "which has no end"."""
    what = {"topics", "topic_pattern", "partitions"}  # only one of them is given, so they belong together
    for name in set(kind.template_fields) - parameters.keys() - (what if what & parameters.keys() else set()):
        given = {"topics": "a", **parameters, name: "{{ params.x }}"}
        if name in what:
            given = {**parameters, name: "{{ params.x }}"}
        with pytest.raises(InvalidRequest, match=re.escape(problem)):
            kind(task_id="wait", **given)


@pytest.mark.parametrize("kind", ALL)
def test_all_problems_are_told_at_once(airflow: Path, kind: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        kind(task_id="wait", topics="two words", poke_interval="often", timeout=-1, mode="push")
    named = [problem.split()[0] for problem in refused.value.problems]
    assert named == ["mode", "poke_interval", "timeout", "topics"]


TEMPLATE = "{{ params.any }}"


@pytest.mark.parametrize("kind", ALL)
def test_what_a_template_decides_is_left_to_the_run(airflow: Path, kind: Any) -> None:
    for name in kind.template_fields:
        kind(task_id="wait", **{"topics": "a", name: TEMPLATE})
    with pytest.raises(InvalidRequest, match="timeout is -1"):
        kind(task_id="wait", topics=TEMPLATE, timeout=-1)


def test_so_is_what_another_task_gives(airflow: Path) -> None:
    from airflow.sdk import DAG, task

    @task
    def names() -> list[str]:
        return ["a"]

    with DAG("any", schedule=None):
        PartitionDiscoverySensor(task_id="wait", topics=names())
        OffsetLagSensor.partial(task_id="each", group_id="g").expand(topics=names())


def test_a_group_may_come_from_the_connection(airflow: Path) -> None:
    assert OffsetLagSensor(task_id="wait", topics="a").group_id is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", True),
        (None, True),
        (["a", 3], True),
        ({"a": [0]}, True),
        ("{{ ds }}", False),
        ("{% if x %}a{% endif %}", False),
        (["a", "{{ ds }}"], False),
        ({"{{ ds }}": [0]}, False),
        (object(), False),
    ],
)
def test_a_value_is_settled_where_nothing_can_change_it_any_more(value: object, expected: bool) -> None:
    assert is_settled(value) is expected
