"""How the sensors wait: for how long, where, what they say meanwhile, and how they end; alike wherever they wait."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets import OffsetLagSensor, PartitionDiscoverySensor, WindowCompleteSensor
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import ClusterUnavailable, InvalidRequest, KafkaOffsetsError, NotAuthorized
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.triggers.deferred_wait import WaitingTrigger
from airflow_kafka_offsets.triggers.lag_event import OffsetLagTrigger
from airflow_kafka_offsets.triggers.sensor_waits import PartitionDiscoveryTrigger, WindowCompleteTrigger

SENSORS: list[Any] = [PartitionDiscoverySensor, OffsetLagSensor, WindowCompleteSensor]
MINUTE_S = 60.0


def sensor(kind: Any = PartitionDiscoverySensor, **more: Any) -> Any:
    more = {"topics": "a", **more}
    if kind is OffsetLagSensor:
        more.setdefault("group_id", "g")
    return kind(task_id="wait", **more)


# ── where, and for how long ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", SENSORS)
def test_a_sensor_waits_deferred_unless_it_is_given_a_mode(airflow: Path, kind: Any) -> None:
    assert sensor(kind).deferrable
    assert (sensor(kind, mode="reschedule").deferrable, sensor(kind, mode="poke").deferrable) == (False, False)
    assert sensor(kind, mode="reschedule").reschedule
    assert sensor(kind, mode="reschedule", deferrable=True).deferrable
    assert not sensor(kind, deferrable=False).deferrable


@pytest.mark.parametrize("kind", [PartitionDiscoverySensor, OffsetLagSensor])
def test_a_sensor_waits_for_ten_minutes(airflow: Path, kind: Any) -> None:
    assert sensor(kind).timeout == 10 * MINUTE_S
    assert sensor(kind, timeout=timedelta(hours=2)).timeout == 120 * MINUTE_S


def test_a_window_is_waited_for_ten_minutes_more_than_an_idle_partition(airflow: Path) -> None:
    """Else a window with an idle partition would never be complete."""
    assert sensor(WindowCompleteSensor).timeout == (10 + 5) * MINUTE_S
    assert sensor(WindowCompleteSensor, idle_timeout="PT1H").timeout == (10 + 60) * MINUTE_S
    assert sensor(WindowCompleteSensor, idle_timeout="PT1H", timeout=5).timeout == 5


@pytest.mark.parametrize("configured", [True, False])
def test_where_somebody_has_set_airflows_default_it_holds(
    airflow: Path, configured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the environment; Airflow's own default, which is no, is nobody's word."""
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", str(configured))
    monkeypatch.setenv("AIRFLOW__SENSORS__DEFAULT_TIMEOUT", "77")
    assert [sensor(kind).deferrable for kind in SENSORS] == [configured] * 3
    assert [sensor(kind).timeout for kind in SENSORS] == [77] * 3
    assert sensor(deferrable=not configured).deferrable is not configured
    assert sensor(timeout=5).timeout == 5


@pytest.fixture
def airflow_cfg() -> Iterator[Callable[[str, str, str], None]]:
    """`airflow_cfg(section, key, value)`: what `airflow.cfg` says."""
    from airflow.sdk.configuration import conf

    given: list[tuple[str, str]] = []

    def write(section: str, key: str, value: str) -> None:
        conf.read_dict({section: {key: value}})
        given.append((section, key))

    yield write
    for section, key in given:
        conf.remove_option(section, key, remove_default=False)


@pytest.fixture
def cfg_of_airflow(airflow: Path, airflow_cfg: Callable[[str, str, str], None], tmp_path: Path) -> None:
    """What Airflow writes where there is no `airflow.cfg`."""
    command = [sys.executable, "-m", "airflow", "config", "get-value", "core", "executor"]
    subprocess.run(command, env={**os.environ, "AIRFLOW_HOME": str(tmp_path)}, check=True, capture_output=True)
    written = ConfigParser(interpolation=None)
    written.read(tmp_path / "airflow.cfg")
    for section in ("operators", "sensors"):
        for key, value in written.items(section):
            airflow_cfg(section, key, value)


def test_the_lines_that_airflow_writes_into_a_new_airflow_cfg_are_nobodys_choice(
    cfg_of_airflow: None, airflow_cfg: Callable[[str, str, str], None]
) -> None:
    assert (sensor().deferrable, sensor().timeout) == (True, 10 * MINUTE_S)
    airflow_cfg("sensors", "default_timeout", "1200")
    assert sensor().timeout == 20 * MINUTE_S


def test_what_a_person_has_written_into_airflow_cfg_holds_also_where_it_is_airflows_default(
    airflow: Path, airflow_cfg: Callable[[str, str, str], None]
) -> None:
    airflow_cfg("operators", "default_deferrable", "False")
    assert [sensor(kind).deferrable for kind in SENSORS] == [False] * 3
    airflow_cfg("sensors", "default_timeout", "604800")
    assert sensor().timeout == 7 * 24 * 60 * MINUTE_S


def test_a_dags_default_args_say_it_too(airflow: Path) -> None:
    from airflow.sdk import DAG

    with DAG("any", schedule=None, default_args={"mode": "reschedule", "timeout": 5, "poke_interval": 3}):
        found = sensor(OffsetLagSensor)
    assert (found.deferrable, found.reschedule, found.timeout, found.poke_interval) == (False, True, 5, 3)


# ── what is said ──────────────────────────────────────────────────────────────────────────────────────────────────────

TRIGGERS: dict[Any, Callable[[str], WaitingTrigger]] = {
    PartitionDiscoverySensor: lambda topic: PartitionDiscoveryTrigger(
        kafka_config_id="kafka_default",
        scope=ScopeParameters(topics=topic).to_dict(),
        min_partitions=1,
        poke_interval=0.2,
        until_ms=now_ms() + 3000,
    ),
    OffsetLagSensor: lambda topic: OffsetLagTrigger(
        topics=topic, group_id="g", poke_interval=0.2, until_ms=now_ms() + 3000
    ),
    WindowCompleteSensor: lambda topic: WindowCompleteTrigger(
        kafka_config_id="kafka_default",
        scope=ScopeParameters(topics=topic).to_dict(),
        isolation_level="read_uncommitted",
        end_ms=now_ms(),
        idle_timeout_ms=0,
        clock_skew_ms=0,
        poke_interval=0.2,
        until_ms=now_ms() + 3000,
    ),
}


@pytest.mark.parametrize("kind", SENSORS)
def test_the_triggerer_says_at_each_look_and_at_the_end_that_a_topic_does_not_exist(
    airflow: Path, kind: Any, said: Callable[[], str]
) -> None:
    from airflow.sdk.exceptions import AirflowSensorTimeout

    topic = f"typo-{uuid.uuid4().hex[:8]}"
    event = asyncio.run(anext(TRIGGERS[kind](topic).run())).payload

    text = said()
    assert text.count("Waiting: ") == text.count(f"Waiting: topic {topic} does not exist") >= 2, text
    with pytest.raises(AirflowSensorTimeout, match=f"waited for 600 seconds. Still missing: topic {topic} does not"):
        sensor(kind, topics=topic, timeout=600).execute_complete({}, event)


@pytest.mark.parametrize("kind", SENSORS)
def test_so_does_a_worker(airflow: Path, kind: Any, said: Callable[[], str]) -> None:
    from airflow.sdk.exceptions import AirflowSensorTimeout

    topic = f"typo-{uuid.uuid4().hex[:8]}"
    more = {"end": 1} if kind is WindowCompleteSensor else {}
    poked = sensor(kind, topics=topic, mode="poke", poke_interval=0.1, timeout=1.5, **more)
    with pytest.raises(AirflowSensorTimeout, match=f"(?s)timed out.*Still missing: topic {topic} does not exist"):
        poked.execute({})
    text = said()
    assert text.count("Waiting: ") == text.count(f"Waiting: topic {topic} does not exist") >= 2, text


def test_a_wait_ends_in_time_though_a_look_never_does(airflow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    over = threading.Event()
    monkeypatch.setattr(PartitionDiscoveryTrigger, "look", lambda _: over.wait(60))
    trigger = TRIGGERS[PartitionDiscoverySensor]("a")
    try:
        event = asyncio.run(anext(trigger.run())).payload
        assert event == {"timeout": "nothing was looked at in the triggerer"}
        assert now_ms() - (trigger.until_ms or 0) < 10_000
    finally:
        over.set()


def test_what_is_deferred_waits_as_long_as_the_sensor_says(airflow: Path) -> None:
    """Airflow's own limit comes later: it is for when no triggerer is there, and cannot say what is missing."""
    from airflow.sdk.exceptions import TaskDeferred

    before = now_ms()
    with pytest.raises(TaskDeferred) as deferred:
        sensor(topics=f"typo-{uuid.uuid4().hex[:8]}", timeout=600, silent_fail=True).execute({})
    trigger = deferred.value.trigger
    assert isinstance(trigger, PartitionDiscoveryTrigger)
    assert before + 600_000 <= (trigger.until_ms or 0) <= now_ms() + 600_000
    assert trigger.silent_fail
    assert timedelta(minutes=11) < (deferred.value.timeout or timedelta()) <= timedelta(minutes=12)


def test_where_no_triggerer_is_there_the_end_says_so(airflow: Path) -> None:
    from airflow.models.trigger import TriggerFailureReason
    from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException

    asked = {"error": TriggerFailureReason.TRIGGER_TIMEOUT}
    with pytest.raises(AirflowSensorTimeout, match="no triggerer has said what is missing"):
        sensor().resume_execution("__fail__", asked, {})
    with pytest.raises(AirflowSkipException):
        sensor(soft_fail=True).resume_execution("__fail__", asked, {})


# ── how it ends ───────────────────────────────────────────────────────────────────────────────────────────────────────

ERRORS: dict[str, KafkaOffsetsError | None] = {
    "a wrong request": InvalidRequest(("wrong",)),
    "a right that is missing": NotAuthorized("Cannot look", "denied", "Give it."),
    "a broker that is down": ClusterUnavailable("Cannot look", "down", "Start it.", retriable=True),
    "nothing there": None,
}


def ended(act: Callable[[], Any]) -> str:
    try:
        act()
    except Exception as error:
        return type(error).__name__
    return "found"


@pytest.mark.parametrize("flag", ["", "soft_fail", "never_fail", "silent_fail"])
@pytest.mark.parametrize("error", ERRORS)
def test_a_sensor_ends_alike_in_a_worker_and_after_a_deferral(
    airflow: Path, flag: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `BaseSensorOperator` has it while it pokes."""
    raised = ERRORS[error]
    real_look = PartitionDiscoveryTrigger.look

    def look(trigger: PartitionDiscoveryTrigger) -> Any:
        if raised is not None:
            raise raised
        return real_look(trigger)

    monkeypatch.setattr(PartitionDiscoveryTrigger, "look", look)
    flags = {flag: True} if flag else {}
    asked = {"topics": "typo", "timeout": 0, **flags}
    trigger = PartitionDiscoveryTrigger(
        kafka_config_id="kafka_default",
        scope=ScopeParameters(topics="typo").to_dict(),
        min_partitions=1,
        poke_interval=0.01,
        until_ms=now_ms() + 1500,
        silent_fail=flag == "silent_fail",
    )
    event = asyncio.run(anext(trigger.run())).payload

    in_worker = ended(lambda: sensor(mode="poke", **asked).execute({}))
    before_deferral = ended(lambda: sensor(deferrable=True, **asked).execute({}))
    after_deferral = ended(
        lambda: sensor(deferrable=True, **asked).resume_execution("execute_complete", {"event": event}, {})
    )
    assert before_deferral == after_deferral == in_worker
    assert in_worker == {
        ("a wrong request", ""): "AirflowFailException",
        ("a wrong request", "silent_fail"): "AirflowFailException",
        ("a right that is missing", ""): "NotAuthorized",
        ("a right that is missing", "soft_fail"): "NotAuthorized",
    }.get((error, flag), "AirflowSensorTimeout" if flag in ("", "silent_fail") else "AirflowSkipException")
