"""When a deferred run is woken up: once there is something to do for it, and not to find that a third was faster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.triggers.base import BaseTrigger

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import OverlappingRun
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.triggers import wait_for_batch as batch_free
from airflow_kafka_offsets.triggers.sensor_waits import PartitionDiscoveryTrigger
from airflow_kafka_offsets.triggers.wait_for_batch import BatchFreeTrigger
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline
from tests.contract.troubles import produce

Wait = Callable[[str], BatchFreeTrigger]


@pytest.fixture
def wait(in_memory: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Wait:
    """`wait(run)`: the trigger of a run that has to wait, in the triggerer of `in_memory.airflow`."""
    in_memory.airflow.running = {"one", "two", "three"}
    monkeypatch.setattr(batch_free, "_is_running", in_memory.airflow.is_running)
    monkeypatch.setattr(batch_free, "configured_work_store", lambda _: in_memory.store)

    def defer(run: str) -> BatchFreeTrigger:
        with pytest.raises(OverlappingRun) as held:
            in_memory.resolve(run)
        error = held.value
        trigger = BatchFreeTrigger(error.dag_id, error.run_id, "store", error.next_entry, now_ms() + 3_600_000)
        ti: Any = SimpleNamespace(dag_id="dag", run_id=run, task_id="resolve", map_index=-1)
        trigger._task_instance = ti
        return trigger

    return defer


def test_a_run_is_woken_up_when_the_batch_is_committed(in_memory: Pipeline, wait: Wait) -> None:
    one = in_memory.resolve("one")
    trigger = wait("two")
    assert trigger._is_held()
    one.done()
    assert not trigger._is_held()


def test_a_run_sleeps_on_while_a_third_one_has_the_next_batch(
    in_memory: Pipeline, memory: AnyCluster, wait: Wait
) -> None:
    one = in_memory.resolve("one")
    two, three = wait("two"), wait("three")
    one.done()
    produce(memory, in_memory)
    next_one = in_memory.resolve("two")  # it was woken up first
    assert [two._is_held(), three._is_held()] == [False, True]
    next_one.done()
    assert not three._is_held()


def test_a_run_is_woken_up_when_the_third_one_is_over(in_memory: Pipeline, memory: AnyCluster, wait: Wait) -> None:
    one = in_memory.resolve("one")
    three = wait("three")
    one.done()
    produce(memory, in_memory)
    in_memory.resolve("two")
    in_memory.airflow.running = {"three"}
    assert not three._is_held()


def test_a_run_with_a_batch_of_its_own_waits_for_that_one_alone(
    in_memory: Pipeline, memory: AnyCluster, wait: Wait
) -> None:
    """Whoever has the newest batch: a cleared run does its own once more."""
    one = in_memory.resolve("one")
    three = wait("three")
    in_memory.log.bind(RunKey("dag", "three", "resolve"), one.batch)
    one.done()
    produce(memory, in_memory)
    in_memory.resolve("two")
    assert not three._is_held()


def looks_at_once(trigger: BaseTrigger, look: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the trigger calls that method of its own as soon as it is started."""
    looked: list[None] = []
    monkeypatch.setattr(type(trigger), look, lambda _: bool(looked.append(None)))

    async def first_event() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(trigger.run()), 0.5)  # type: ignore[arg-type]

    asyncio.run(first_event())
    return bool(looked)


def test_nobody_is_woken_up_as_soon_as_he_waits(
    in_memory: Pipeline, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler hears late that a task was deferred, and fails one that runs again by then."""
    one = in_memory.resolve("one")
    trigger = wait("two")
    one.done()
    assert trigger.poke_interval == 10.0
    assert not looks_at_once(trigger, "_is_held", monkeypatch)


def test_neither_is_a_sensor(monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = PartitionDiscoveryTrigger(kafka_config_id="k", scope={"topics": "a"}, min_partitions=1, poke_interval=60)
    assert not looks_at_once(trigger, "look", monkeypatch)


def test_an_airflow_that_does_not_answer_is_waited_for(
    in_memory: Pipeline, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the triggerer would use up a try of the task."""
    one = in_memory.resolve("one")
    trigger = wait("two")
    one.done()

    def down(_: RunKey) -> bool:
        raise RuntimeError("API_SERVER_ERROR")

    monkeypatch.setattr(batch_free, "_is_running", down)
    assert trigger._is_held()
