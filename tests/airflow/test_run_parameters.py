"""What the resolve task takes from its run: times, kind, conf, and the name of its pipeline."""

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_offsets import KafkaOffsetsHook, ResolveStartupOffsetsOperator
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.run_context import run_conf, run_context_of, run_key, this_airflow, without_a_name
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.request.subscription import default_pipeline_id


def context_of(conf: Any = None, run_type: Any = "manual", map_index: int | None = -1) -> dict[str, Any]:
    instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=map_index)
    return {"ti": instance, "dag_run": SimpleNamespace(run_type=run_type, conf=conf)}


def pipeline_of(context: dict[str, Any], **parameters: Any) -> str:
    operator = ResolveStartupOffsetsOperator(task_id="t", topics=["a"], **parameters)
    hook = KafkaOffsetsHook()
    hook.__dict__["client_config"] = {"bootstrap.servers": "h:1", "group.id": "of-the-connection"}
    return operator.pipeline_log(context, hook).pipeline_id


def test_a_pipeline_is_named_by_its_group_its_dag_and_its_task() -> None:
    assert default_pipeline_id("g", "d", "t") == "g/d/t"
    assert pipeline_of(context_of(), group_id="g") == "g/d/t"
    assert pipeline_of(context_of()) == "of-the-connection/d/t"
    assert pipeline_of(context_of(), group_id="g", pipeline_id="lake") == "lake"


def test_a_mapped_task_has_the_pipelines_that_it_is_told() -> None:
    with pytest.raises(InvalidRequest, match="needs a pipeline_id that goes with what it maps over"):
        pipeline_of(context_of(map_index=0), group_id="g")
    assert pipeline_of(context_of(map_index=0), pipeline_id="lake/orders") == "lake/orders"


def test_a_run_is_the_same_for_each_of_its_tries() -> None:
    assert run_key(context_of(map_index=None)) == RunKey("d", "r", "t")
    assert run_key(context_of(map_index=3)) == RunKey("d", "r", "t", 3)


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        (None, None),
        ({}, None),
        ({"other": 1}, None),
        ({"kafka_offsets": {"restart": True}}, {"restart": "run r"}),
        ({"kafka_offsets": {"restart": "2026-11-20"}}, {"restart": "2026-11-20"}),
        ({"kafka_offsets": {"re_plan": True}}, {"re_plan": True}),
        ({"kafka_offsets": True}, True),
    ],
)
def test_what_the_runs_conf_says_is_for_the_run(conf: Any, words: Any) -> None:
    assert run_conf(context_of(conf)) == words


def test_a_policy_at_the_top_level_of_a_runs_conf_is_refused_with_the_place_where_it_belongs() -> None:
    """It would be without effect, and the run red again for the same reason."""
    right = r'Put it under "kafka_offsets": \{"kafka_offsets": \{"policies": \{"topic_recreated": "earliest"\}\}\}'
    for misplaced in ({"policies": {"topic_recreated": "earliest"}}, {"topic_recreated": "earliest"}):
        with pytest.raises(InvalidRequest, match=right):
            run_conf(context_of({**misplaced, "topic": "orders"}))
    assert run_conf(context_of({"policies": "of another task"})) is None


def test_a_run_says_of_which_type_it_is_as_airflow_writes_it() -> None:
    """The SDK has an enumeration of its own, whose members print otherwise."""
    from airflow.utils.types import DagRunType

    assert run_context_of(context_of(run_type=DagRunType.BACKFILL_JOB)).run_type == "backfill"
    assert run_context_of(context_of(run_type="scheduled")).run_type == "scheduled"


def test_an_airflow_is_named_by_its_setting_else_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__KAFKA_OFFSETS__INSTANCE")
    assert this_airflow() == "airflow"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/prod/")
    assert this_airflow() == "https://airflow.example.com/prod"
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__INSTANCE", "production")
    assert this_airflow() == "production"


@pytest.mark.parametrize("address", [None, "http://localhost:8080", "http://127.0.0.1:8080/airflow"])
def test_an_airflow_without_a_name_of_its_own_is_told_so_where_others_may_reach_the_work_store(
    monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    """Its copy, for development, has planned a batch into its own output, and the run after that was green."""
    monkeypatch.delenv("AIRFLOW__KAFKA_OFFSETS__INSTANCE")
    if address is not None:
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", address)
    assert not without_a_name("/srv/kafka_offsets")
    assert not without_a_name("file:///srv/kafka_offsets")
    assert f"What it has planned so far is of '{address or 'airflow'}'" in without_a_name(
        "s3://lake@bucket/kafka_offsets"
    )
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    assert "file:///srv/kafka_offsets" in without_a_name("file:///srv/kafka_offsets")
    for variable, value in (("API__BASE_URL", "https://airflow.example.com"), ("KAFKA_OFFSETS__INSTANCE", "dev")):
        monkeypatch.setenv(f"AIRFLOW__{variable}", value)
        assert not without_a_name("s3://lake@bucket/kafka_offsets")
