"""The wait for a complete window in a real Airflow, poked and deferred: for whom, for how long, and what is told."""

import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_kafka_offsets import WindowCompleteSensor
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.triggers.sensor_waits import WindowCompleteTrigger
from testbed.broker import KafkaBroker
from testbed.dag_runs import RunResult

HOUR = 3_600_000
BOTH = ("poked", "deferred")


def states(result: RunResult) -> list[str]:
    return [state for task_id in BOTH for state in result.states(task_id)]


def after_looks(monkeypatch: pytest.MonkeyPatch, count: int, act: Callable[[], Any]) -> threading.Thread:
    """`act` in a thread of its own, once the cluster has been looked at, or not answered, `count` times."""
    looked = threading.Semaphore(0)
    real_look = WindowCompleteTrigger.look

    def look(self: WindowCompleteTrigger) -> Any:
        try:
            return real_look(self)
        finally:
            looked.release()

    def wait_and_act() -> None:
        if all(looked.acquire(timeout=100) for _ in range(count)):
            act()

    monkeypatch.setattr(WindowCompleteTrigger, "look", look)
    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


def test_waits_until_each_partition_has_a_record_at_the_end(
    run: Callable[..., RunResult],
    xcom: Callable[..., Any],
    broker: KafkaBroker,
    topic: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, end = topic(2), now_ms()
    broker.produce(name, [(0, None, "x", end + 7), (1, None, "x", end - 1)])
    producer = after_looks(monkeypatch, 3, lambda: broker.produce(name, [(1, None, "x", end)]))
    try:
        result = run("window_awaited", {"topic": name, "end": end})
    finally:
        producer.join()

    assert states(result) == ["success", "success"]
    expected = {
        "end_ms": end,
        "low_watermark_ms": end,
        "newest_timestamps": {name: {"0": end + 7, "1": end}},
        "idle": {},
    }
    assert [xcom("window_awaited", result, task_id) for task_id in BOTH] == [expected, expected]


def test_an_idle_and_an_empty_partition_do_not_hold_the_others_back(
    run: Callable[..., RunResult], xcom: Callable[..., Any], broker: KafkaBroker, topic: Any
) -> None:
    name, end = topic(3), now_ms()
    broker.produce(name, [(0, None, "x", end + 7), (1, None, "x", end - HOUR)])

    result = run("window_awaited", {"topic": name, "end": end, "idle_timeout": 2})

    assert states(result) == ["success", "success"]
    assert now_ms() >= end + 2000, "they were waited for as long as that"
    for task_id in BOTH:
        report = xcom("window_awaited", result, task_id)
        assert (report["idle"], report["low_watermark_ms"]) == ({name: [1, 2]}, end + 7)
        assert report["newest_timestamps"] == {name: {"0": end + 7, "1": end - HOUR, "2": None}}


def test_where_the_broker_stamps_the_records_the_clock_decides(
    run: Callable[..., RunResult], xcom: Callable[..., Any], broker: KafkaBroker
) -> None:
    name, end = f"append-{uuid.uuid4().hex[:8]}", now_ms() - 8000  # less than the clock skew that is allowed for
    broker.create_topic(name, 2, {"message.timestamp.type": "LogAppendTime"})

    result = run("window_awaited", {"topic": name, "end": end})

    assert states(result) == ["success", "success"]
    assert now_ms() >= end + 10_000
    assert xcom("window_awaited", result, "deferred")["low_watermark_ms"] == end


def test_the_end_is_that_of_the_runs_interval(
    run: Callable[..., RunResult], xcom: Callable[..., Any], topic: Any
) -> None:
    name, now = topic(1), datetime(2026, 11, 20, 10, tzinfo=UTC)

    result = run("window_of_the_run_awaited", {"topic": name}, logical_date=now + timedelta(minutes=30))

    report = xcom("window_of_the_run_awaited", result, "wait")
    assert report["end_ms"] == int(now.timestamp() * 1000)
    assert (report["idle"], report["low_watermark_ms"]) == ({name: [0]}, None)


def test_a_run_without_a_window_fails_at_once_with_every_problem(
    run: Callable[..., RunResult], topic: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    result = run("no_window_to_await", {"topic": topic(1)})

    assert result.states("wait") == ["failed"]
    said = "".join(capfd.readouterr())
    assert "- end (bounded_timestamp in kafka_spark_batch) is missing and the run" in said
    assert "idle_timeout is 'soon'" in said


@pytest.mark.slow
def test_a_broker_that_is_down_for_a_while_fails_no_wait(
    run: Callable[..., RunResult], xcom: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from testbed.airflow_home import connections

    end = now_ms()
    with KafkaBroker() as own:
        own.create_topic("orders")
        own.produce("orders", [(0, None, "x", end)])
        connection = connections(own.client_config)["AIRFLOW_CONN_KAFKA_DEFAULT"]
        monkeypatch.setenv("AIRFLOW_CONN_ITS_OWN_BROKER", connection)
        own.stop()
        operator = after_looks(monkeypatch, 2, own.start)
        try:
            result = run("window_awaited", {"topic": "orders", "end": end, "kafka": "its_own_broker"})
        finally:
            operator.join()

    assert states(result) == ["success", "success"]
    assert xcom("window_awaited", result, "deferred")["newest_timestamps"] == {"orders": {"0": end}}


def test_a_topic_that_does_not_exist_yet_is_waited_for(
    run: Callable[..., RunResult], broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"late-{uuid.uuid4().hex[:8]}"
    creator = after_looks(monkeypatch, 1, lambda: broker.create_topic(name))
    try:
        result = run("window_awaited", {"topic": name, "end": now_ms(), "idle_timeout": 0})
    finally:
        creator.join()
    assert states(result) == ["success", "success"]


def test_a_wait_that_cannot_end_well_fails_in_the_triggerer_too(airflow: Any) -> None:
    import asyncio

    from airflow.sdk.exceptions import AirflowFailException

    trigger = WindowCompleteTrigger(
        **{**SERIALIZED, "kafka_config_id": "no_such_connection", "poke_interval": 0, "until_ms": None}
    )
    event = asyncio.run(anext(trigger.run()))
    with pytest.raises(AirflowFailException, match="no_such_connection"):
        WindowCompleteSensor(
            task_id="wait", topics=["a"], kafka_config_id="no_such_connection", end=0
        ).execute_complete({}, event.payload)


SERIALIZED: dict[str, Any] = {
    "kafka_config_id": "k",
    "scope": ScopeParameters(topics=["a"], isolation_level="read_committed").to_dict(),
    "isolation_level": "read_committed",
    "end_ms": 5,
    "idle_timeout_ms": 6,
    "clock_skew_ms": 7,
    "ends_by_topic": {"a": 4},
    "poke_interval": 1.5,
    "until_ms": 8,
    "silent_fail": False,
}


def test_the_trigger_survives_its_serialization() -> None:
    from airflow.sdk._shared.module_loading import import_string

    path, arguments = WindowCompleteTrigger(**SERIALIZED).serialize()
    assert arguments == SERIALIZED
    assert import_string(path)(**arguments).serialize() == (path, arguments)


# ── in the task group ─────────────────────────────────────────────────────────────────────────────────────────────────


def batch(**arguments: Any) -> dict[str, Any]:
    """The tasks of a `kafka_spark_batch`, by their names in the group."""
    from airflow.sdk import DAG

    from airflow_kafka_offsets import kafka_spark_batch

    with DAG("any", schedule=None) as dag:
        kafka_spark_batch("b", topics=["orders"], application="job.py", **arguments)
    return {task_id.removeprefix("b."): task for task_id, task in dag.task_dict.items()}


BY_TIME = {"startup_mode": "timestamp", "bounded_mode": "timestamp"}


def test_a_batch_whose_end_is_a_time_waits_for_it_between_discovery_and_resolve(airflow: Any) -> None:
    tasks = batch(**BY_TIME, bounded_timestamp="{{ params.to }}", idle_timeout=60, isolation_level="read_committed")
    waits = tasks["wait_for_window"]
    assert waits.upstream_task_ids == {"b.wait_for_partitions"}
    assert "b.wait_for_window" in tasks["resolve"].upstream_task_ids
    assert (waits.topics, waits.end, waits.idle_timeout) == (["orders"], "{{ params.to }}", 60)
    assert waits.isolation_level == "read_committed"


@pytest.mark.parametrize(
    "arguments", [{}, {"bounded_mode": "latest-offset"}, {**BY_TIME, "wait_for_window": False}], ids=str
)
def test_another_batch_does_not(airflow: Any, arguments: dict[str, Any]) -> None:
    assert "wait_for_window" not in batch(**arguments)


def test_the_wait_of_a_batch_takes_arguments_of_its_own(airflow: Any) -> None:
    own = {"timeout": 600, "deferrable": True}
    waits = batch(**BY_TIME, idle_timeout=5, wait_for_window=own)["wait_for_window"]
    assert (waits.timeout, waits.deferrable, waits.idle_timeout) == (600, True, 5)
