"""What is known when a DAG is parsed: one list of parameters, refusals, and no word to Kafka or the work store."""

from __future__ import annotations

import inspect
from copy import deepcopy
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets import (
    CommitOffsetsOperator,
    KafkaOffsetsHook,
    OffsetLagSensor,
    PartitionDiscoverySensor,
    ResolveStartupOffsetsOperator,
    WindowCompleteSensor,
    kafka_spark_batch,
)
from airflow_kafka_offsets.offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.offsets.request.scope import ScopeParameters
from airflow_kafka_offsets.operators.resolve import PARAMETERS, WORDS_OF_THE_CONF

OPERATORS = [
    (ResolveStartupOffsetsOperator, {"topics": "a"}),
    (CommitOffsetsOperator, {"plan": {}}),
    (PartitionDiscoverySensor, {"topics": "a"}),
    (OffsetLagSensor, {"topics": "a"}),
    (WindowCompleteSensor, {"topics": "a"}),
]


def defaults_of(function: Any) -> dict[str, Any]:
    """The keyword parameters with their defaults."""
    found = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in found if p.kind is p.KEYWORD_ONLY}


def fields_of(kind: type[ScopeParameters]) -> dict[str, Any]:
    return {field.name: field.default for field in fields(kind)}


# ── one list of parameters ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_operator_has_the_parameters_of_a_request_with_their_defaults() -> None:
    own = defaults_of(ResolveStartupOffsetsOperator.__init__)
    expected = {name: value for name, value in fields_of(RequestParameters).items() if name not in WORDS_OF_THE_CONF}
    assert {name: own[name] for name in expected} == expected
    assert own.keys() - expected.keys() == {"kafka_config_id", "overlap_timeout", "work_store", "application_args"}
    assert set(PARAMETERS) == own.keys()


@pytest.mark.parametrize("sensor", [PartitionDiscoverySensor, OffsetLagSensor, WindowCompleteSensor])
def test_what_a_sensor_has_in_common_with_a_request_has_its_name_and_default(sensor: type) -> None:
    own = defaults_of(sensor.__init__)  # type: ignore[misc]
    scope = fields_of(ScopeParameters)
    shared = own.keys() & scope.keys()
    assert {"topics", "topic_pattern", "partitions", "include_internal_topics"} <= shared
    assert {name: own[name] for name in shared} == {name: scope[name] for name in shared}
    assert own["kafka_config_id"] == defaults_of(ResolveStartupOffsetsOperator.__init__)["kafka_config_id"]


@pytest.mark.parametrize(("kind", "arguments"), OPERATORS)
def test_every_template_field_is_an_attribute(kind: Any, arguments: dict[str, Any]) -> None:
    operator = kind(task_id="t", **arguments)
    assert [name for name in kind.template_fields if not hasattr(operator, name)] == []
    assert set(kind.template_fields) <= defaults_of(kind.__init__).keys()


@pytest.mark.parametrize(("kind", "arguments"), OPERATORS)
def test_every_parameter_is_kept_under_its_name(kind: Any, arguments: dict[str, Any]) -> None:
    """Where ``setattr`` by a list of names does it, one that is missing in the list would be lost without a word."""
    if kind is CommitOffsetsOperator:
        defaults: dict[str, Any] = {"plan": {}, "require_report": True, "asset": None}
    else:
        defaults = {**defaults_of(kind.__init__), **arguments}
    operator = kind(task_id="t", **arguments)
    assert {name: getattr(operator, name) for name in defaults} == defaults


def dag_of(default_args: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """The tasks of a `kafka_spark_batch`, by their names in the group."""
    from airflow.sdk import DAG

    arguments = {"application": "job.py", "topics": ["orders"], **arguments}
    with DAG("any", schedule=None, default_args=default_args or {}) as dag:
        kafka_spark_batch("b", **arguments)
    return {task_id.removeprefix("b."): task for task_id, task in dag.task_dict.items()}


def test_a_dags_default_args_reach_the_parameters_of_all_tasks(airflow: Path) -> None:
    """Also through the task group, which must not hand on defaults of its own."""
    given = {"kafka_config_id": "lake", "group_id": "g", "on_data_loss": "advance", "bounded_mode": "timestamp"}
    tasks = dag_of({**given, "work_store": "/lake", "retries": 7})
    resolve = tasks["resolve"]
    assert {name: getattr(resolve, name) for name in given} == given
    assert {task.kafka_config_id for name, task in tasks.items() if name != "spark"} == {"lake"}
    assert (tasks["wait_for_partitions"].group_id, tasks["wait_for_partitions"].work_store) == ("g", "/lake")
    assert "wait_for_window" in tasks
    assert {task.retries for task in tasks.values()} == {7}


def test_what_the_task_group_is_given_wins_over_default_args_and_reaches_every_task_that_has_it(airflow: Path) -> None:
    more: dict[str, Any] = {
        "kafka_config_id": "mine",
        "group_id": "own",
        "max_records": 5,
        "output": "s3://lake/orders",
    }
    tasks = dag_of({"kafka_config_id": "lake", "group_id": "g"}, **more)
    resolve = tasks["resolve"]
    assert (resolve.kafka_config_id, resolve.group_id, resolve.max_records) == ("mine", "own", 5)
    assert resolve.output_name == "s3://lake/orders"
    assert tasks["wait_for_partitions"].group_id == "own"
    assert tasks["wait_for_partitions"].resolve_task_id == "b.resolve"
    assert tasks["commit"].kafka_config_id == "mine"
    assert tasks["resolve"].upstream_task_ids == {"b.wait_for_partitions"}


@pytest.mark.parametrize("name", ["on_superseded", "retries", "output_name"])
def test_a_parameter_that_the_task_group_does_not_have_is_refused(airflow: Path, name: str) -> None:
    with pytest.raises(TypeError, match=f"has no parameter {name}"):
        dag_of(**{name: "x"})


@pytest.mark.parametrize(
    "arguments", [{"application": None}, {"submit": lambda arguments: arguments}], ids=["no", "two"]
)
def test_one_way_to_submit_is_needed(airflow: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give either application= "):
        dag_of(**arguments)


# ── depends_on_past ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", ["depends_on_past", "wait_for_downstream"])
@pytest.mark.parametrize("where", ["default_args", "spark", "operator", "task", "group of tasks", "commit", "submit"])
def test_a_task_between_resolve_and_commit_that_depends_on_its_past_is_refused(
    airflow: Path, where: str, word: str
) -> None:
    """Run N + 1 holds the batch and waits for run N's task; run N, cleared, waits for that batch."""
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG, TaskGroup, task

    past = {word: True}

    @task
    def check(**_: Any) -> None: ...

    with DAG("any", schedule=None, default_args=past if where == "default_args" else {}):
        arguments: dict[str, Any] = {"application": "job.py", "topics": "a"}
        match where:
            case "spark":
                arguments["spark"] = past
            case "operator":
                arguments["before_commit"] = [EmptyOperator(task_id="ok"), EmptyOperator(task_id="check", **past)]
            case "task":
                arguments["before_commit"] = [check.override(**past)()]
            case "group of tasks":
                with TaskGroup("checks") as checks:
                    EmptyOperator(task_id="first") >> EmptyOperator(task_id="check", **past)
                arguments["before_commit"] = [checks]
            case "submit":
                arguments["application"] = None
                arguments["submit"] = lambda found: check.override(**past).partial().expand(arguments=found)
        if where == "commit":
            arguments = {"task_id": "commit", "plan": {}, **past}
        make: Any = CommitOffsetsOperator if where == "commit" else partial(kafka_spark_batch, "b")
        with pytest.raises(ValueError, match="cannot have depends_on_past or wait_for_downstream"):
            make(**arguments)


def test_the_tasks_before_resolve_may_depend_on_their_past(airflow: Path) -> None:
    tasks = dag_of(sensor={"depends_on_past": True})
    assert tasks["wait_for_partitions"].depends_on_past


# ── no word to anybody ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", ["hourly_batch.py", "backfill_by_timestamp.py"])
def test_a_dag_file_is_parsed_and_stored_without_a_look_at_kafka_or_the_work_store(
    airflow: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    from testbed.dag_runs import load_dag
    from tests.airflow.fixtures import PROJECT_DAGS

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("asked while the DAG is parsed")

    monkeypatch.setattr("airflow.providers.apache.kafka.hooks.base.KafkaBaseHook.__init__", never)
    monkeypatch.setattr("airflow_kafka_offsets.stores.local.LocalStore.__init__", never)
    monkeypatch.setattr("airflow_kafka_offsets.broker.cluster.KafkaCluster.__init__", never)
    dag_id = {"hourly_batch.py": "kafka_hourly_batch", "backfill_by_timestamp.py": "kafka_backfill_by_timestamp"}[file]
    dag = load_dag(PROJECT_DAGS / file, dag_id)
    stored = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert set(stored.task_dict) == set(dag.task_dict)
    with pytest.raises(AssertionError, match="asked while"):
        KafkaOffsetsHook()


def test_operators_can_be_copied_and_stored(airflow: Path) -> None:
    """With values that are no JSON, too: durations, dates, an asset."""
    from airflow.sdk import DAG, Asset
    from airflow.serialization.serialized_objects import DagSerialization

    with DAG("any", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        kafka_spark_batch(
            "b",
            application="job.py",
            topics=["orders"],
            group_id="g",
            overlap_timeout=timedelta(minutes=5),
            startup_mode="timestamp",
            startup_timestamp=datetime(2026, 1, 1, tzinfo=UTC),
            bounded_mode="timestamp",
            idle_timeout=timedelta(seconds=3),
            asset=Asset("read"),
        )
    assert set(DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).task_dict) == set(dag.task_dict)
    assert deepcopy(dag.task_dict["b.resolve"]).overlap_timeout == timedelta(minutes=5)
