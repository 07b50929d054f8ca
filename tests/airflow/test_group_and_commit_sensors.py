"""``GroupEmptySensor`` on a real broker, and ``BatchCommittedSensor`` on the log of a pipeline."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets import BatchCommittedSensor, GroupEmptySensor
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.triggers.deferred_wait import NotYet
from airflow_kafka_offsets.triggers.sensor_waits import BatchCommittedTrigger, GroupEmptyTrigger
from testbed.broker import KafkaBroker
from tests.cli.pipeline import Pipeline
from tests.cluster.memory import InMemoryCluster
from tests.cluster.real import RealHands

# ── a group ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def deferred(sensor: Any) -> Any:
    """The trigger that a sensor defers to, as the triggerer makes it of what the database holds."""
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as raised:
        sensor.execute({})
    path, arguments = raised.value.trigger.serialize()
    made = {kind.__name__: kind for kind in (GroupEmptyTrigger, BatchCommittedTrigger)}[path.rpartition(".")[2]]
    return made(**json.loads(json.dumps(arguments)))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_waited_for_until_its_last_member_has_left(
    airflow: Path, broker: KafkaBroker, topic: Any, group: str, protocol: str
) -> None:
    name = topic(1)
    waiting = GroupEmptySensor(task_id="wait", group_id=group, poke_interval=0.05, timeout=60)
    with RealHands(broker).live_member(group, name, "old-consumer", protocol):
        trigger = deferred(waiting)
        found = trigger.look()
        assert isinstance(found, NotYet)
        assert re.match(f"group {group} is Stable: old-consumer at ", found.missing)
    event = asyncio.run(anext(trigger.run())).payload
    assert waiting.execute_complete({}, event) == {"group_id": group, "state": "Empty"}


def test_a_group_that_kafka_does_not_know_has_no_member(airflow: Path, group: str) -> None:
    assert GroupEmptySensor(task_id="wait", group_id=group).execute({}) == {"group_id": group, "state": "Dead"}


def test_a_group_with_offsets_alone_has_no_member(airflow: Path, broker: KafkaBroker, topic: Any, group: str) -> None:
    RealHands(broker).commit_as_somebody_else(group, {TopicPartition(topic(1), 0): CommittedOffset(0)})
    poked = GroupEmptySensor(task_id="wait", group_id=group, mode="poke", timeout=30)
    assert poked.execute({}) == {"group_id": group, "state": "Empty"}


def test_without_a_group_the_connections_is_waited_for(
    airflow: Path, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert GroupEmptySensor(task_id="wait").execute({})["group_id"] == "connection-group"
    extra = json.dumps(broker.client_config)
    monkeypatch.setenv("AIRFLOW_CONN_NO_GROUP", json.dumps({"conn_type": "kafka", "extra": extra}))
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match="Which group"):
        GroupEmptySensor(task_id="wait", kafka_config_id="no_group").execute({})


# ── a commit ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def stored(tmp_path: Path) -> Pipeline:
    """A pipeline of another Airflow, whose first batch of four records is committed."""
    cluster = InMemoryCluster()
    cluster.create_topic("orders")
    cluster.produce(TopicPartition("orders", 0), [1] * 4)
    pipeline = Pipeline(cluster, LocalStore(tmp_path / "store"), "orders", "g")
    pipeline.run("one")
    return pipeline


def sensor(pipeline: Pipeline, **asked: Any) -> Any:
    asked = {"poke_interval": 0.05, "timeout": 30, **asked}
    store = f"file://{pipeline.store.root}"
    return BatchCommittedSensor(task_id="wait", pipeline_id=pipeline.pipeline_id, work_store=store, **asked)


@pytest.mark.parametrize("asked", [{"batch": 2}, {"batch": "2"}, {"offsets": {"orders": {"0": 5}}}])
def test_a_commit_is_waited_for_in_the_triggerer_without_kafka(
    airflow: Path, stored: Pipeline, asked: dict[str, Any]
) -> None:
    stored.cluster.produce(TopicPartition("orders", 0), [1])
    waiting = sensor(stored, kafka_config_id="there_is_none", **asked)
    trigger = deferred(waiting)
    assert isinstance(trigger.look(), NotYet)
    stored.run("two")
    event = asyncio.run(anext(trigger.run())).payload
    expected = {"pipeline_id": stored.pipeline_id, "batch": stored.newest_key}
    assert waiting.execute_complete({}, event) == expected == waiting.execute({})


def test_without_a_target_the_end_of_the_runs_interval_is_waited_for(airflow: Path, stored: Pipeline) -> None:
    times = {"data_interval_start": "2026-11-20T00:00Z", "data_interval_end": "2026-11-21T00:00Z"}
    trigger = sensor(stored)._trigger(times)
    assert trigger.target == {"end_ms": 1_795_219_200_000, "by_topic": {}}


def test_a_time_is_waited_for_by_the_log_and_the_broker(
    run: Callable[..., Any], xcom: Callable[..., Any], broker: KafkaBroker, topic: Any, group: str
) -> None:
    """Of a pipeline of another DAG."""
    conf = {"topic": topic(1), "group": group}
    end = now_ms()
    broker.produce(conf["topic"], [(0, None, b"x", end - 60_000)])
    assert run("checkpoint_only", conf).state == "success"
    result = run("commit_awaited", {**conf, "end": end})
    assert result.states("wait") == ["success"]
    assert xcom("commit_awaited", result, "wait")["pipeline_id"] == f"{group}/checkpoint_only/resolve"


def test_what_is_missing_is_said_when_the_time_is_up(airflow: Path, stored: Pipeline) -> None:
    from airflow.sdk.exceptions import AirflowSensorTimeout

    waiting = sensor(stored, offsets={"orders": {"0": 5}}, mode="poke", timeout=0)
    with pytest.raises(AirflowSensorTimeout, match=re.escape("orders[0] is committed up to 4, not 5")):
        waiting.execute({})


# ── when the DAG is parsed ────────────────────────────────────────────────────────────────────────────────────────────

WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (GroupEmptySensor, {"group_id": " "}, "group_id is empty"),
    (GroupEmptySensor, {"timeout": "P1M"}, "timeout is 'P1M'"),
    (BatchCommittedSensor, {"pipeline_id": ""}, "pipeline_id is empty; name the pipeline"),
    (BatchCommittedSensor, {"batch": 1, "end": 2}, "Give one of batch, offsets and end, not batch and end"),
    (BatchCommittedSensor, {"batch": []}, "batch is []; give a batch's number or key, or a window's name"),
    (BatchCommittedSensor, {"offsets": {}}, "offsets names no partition"),
    (BatchCommittedSensor, {"offsets": {"orders": {"0": -1}}}, "negative numbers are sentinels"),
    (BatchCommittedSensor, {"end": "tomorrow"}, "end is 'tomorrow'"),
    (BatchCommittedSensor, {"topics": "two words"}, "topics has 'two words'"),
    (BatchCommittedSensor, {"partition_width": "P1Y"}, "partition_width is 'P1Y'"),
    (BatchCommittedSensor, {"work_store": "ftp://lake"}, "ftp://lake cannot be used"),
]


@pytest.mark.parametrize(("kind", "parameters", "problem"), WRONG)
def test_a_wrong_value_is_refused_when_the_dag_is_parsed(
    airflow: Path, kind: Any, parameters: dict[str, Any], problem: str
) -> None:
    required = {"pipeline_id": "p"} if kind is BatchCommittedSensor else {}
    with pytest.raises(InvalidRequest, match=re.escape(problem)):
        kind(task_id="wait", **{**required, **parameters})


def test_all_problems_are_told_at_once(airflow: Path) -> None:
    with pytest.raises(InvalidRequest) as refused:
        BatchCommittedSensor(task_id="wait", pipeline_id=" ", end="tomorrow", topics="a b", timeout=-1, mode="push")
    named = [problem.split()[0] for problem in refused.value.problems]
    assert named == ["mode", "timeout", "pipeline_id", "end", "topics"]


@pytest.mark.parametrize("kind", [GroupEmptySensor, BatchCommittedSensor])
def test_what_a_template_decides_is_left_to_the_run(airflow: Path, kind: Any) -> None:
    required = {"pipeline_id": "p"} if kind is BatchCommittedSensor else {}
    for name in kind.template_fields:
        assert kind(task_id="wait", **{**required, name: "{{ params.any }}"}).task_id == "wait"


@pytest.mark.parametrize("kind", [GroupEmptySensor, BatchCommittedSensor])
def test_they_wait_deferred_for_ten_minutes_as_all_sensors_do(airflow: Path, kind: Any) -> None:
    required = {"pipeline_id": "p"} if kind is BatchCommittedSensor else {}
    made = kind(task_id="wait", **required)
    assert (made.deferrable, made.timeout) == (True, 600)
    assert not kind(task_id="wait", mode="reschedule", **required).deferrable
