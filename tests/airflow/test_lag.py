"""The lag, asked of a real broker: the look, the sensor, and the trigger that an `AssetWatcher` runs."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets import OffsetLagSensor
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.triggers.lag_event import KafkaLagEventTrigger, LagWatch, OffsetLagTrigger
from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.dag_runs import RunResult
from testbed.java import Java
from testbed.topics import Topics

MINUTE_MS = 60_000
POLL_S = 0.1


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def produce(broker: Topics, topic: str, count: int, *, partition: int = 0, age_ms: int = 0) -> None:
    broker.produce(topic, [(partition, None, b"x", now_ms() - age_ms)] * count)


def commit(broker: Topics, group: str, topic: str, offset: int, partition: int = 0) -> None:
    with KafkaCluster(broker.client_config) as cluster:
        cluster.commit_offsets(group, {TopicPartition(topic, partition): CommittedOffset(offset)})


# The look


def test_the_lag_counts_from_the_commit_and_without_one_from_the_log_start(
    airflow: Path, broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(3)
    produce(broker, name, 5, partition=0)
    produce(broker, name, 4, partition=1)
    broker.delete_records({(name, 1): 1})
    commit(broker, group, name, 3, partition=0)

    lag = LagWatch(topics=name, group_id=group).measured()

    assert {str(p.topic_partition): p.records for p in lag.partitions} == {
        f"{name}[0]": 2,
        f"{name}[1]": 3,
        f"{name}[2]": 0,
    }
    assert lag.to_dict()["topics"] == {name: 5}


def test_only_an_unread_record_is_too_old(airflow: Path, broker: KafkaBroker, topic: Any, group: str) -> None:
    name = topic(2)
    watch = LagWatch(topics=[name], group_id=group, max_age="PT10M")
    produce(broker, name, 2, age_ms=30 * MINUTE_MS)
    produce(broker, name, 1, age_ms=5 * MINUTE_MS)
    assert watch.measured().is_enough

    commit(broker, group, name, 1)
    assert watch.measured().to_dict()["partitions_with_old_records"] == 1
    commit(broker, group, name, 2)
    assert not watch.measured().is_enough
    assert LagWatch(topics=[name], group_id=group, max_age=timedelta(minutes=4)).measured().is_enough


def test_a_pipeline_that_leaves_the_group_alone_is_measured_by_its_checkpoint(
    run: Callable[..., RunResult], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(1)
    produce(broker, name, 5)
    conf = {"topic": name, "group": group}
    asked = {"topics": name, "group_id": group}
    of_pipeline = LagWatch(**asked, pipeline_id=f"{group}/checkpoint_only/resolve")
    assert of_pipeline.measured().records == 5

    assert run("checkpoint_only", conf).state == "success"
    produce(broker, name, 2)

    assert of_pipeline.measured().records == 2
    assert LagWatch(**asked).measured().records == 7


# The sensor


def test_the_sensor_waits_until_enough_records_are_unread(
    run: Callable[..., RunResult],
    xcom: Callable[..., Any],
    broker: KafkaBroker,
    topic: Any,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topic(1)
    produce(broker, name, 2)
    looked = threading.Event()
    real_look = LagWatch.measured

    def look(self: LagWatch) -> Any:
        found = real_look(self)
        looked.set()
        return found

    monkeypatch.setattr(LagWatch, "measured", look)
    producer = threading.Thread(target=lambda: looked.wait(60) and produce(broker, name, 1))
    producer.start()
    try:
        result = run("lag_awaited", {"topic": name, "group": group, "min_records": 3})
    finally:
        producer.join()

    assert result.states("deferred") == ["success"]
    assert result.states("poked") == ["success"]
    for task in ("deferred", "poked"):
        found = xcom("lag_awaited", result, task)
        assert (found["lag"], found["topics"], found["oldest_unread_before_ms"]) == (3, {name: 3}, None)


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_wrong_request_fails_at_once_with_every_problem(airflow: Path, deferrable: bool) -> None:
    """As far as a template has hidden it until then."""
    from airflow.sdk.exceptions import AirflowFailException

    sensor = OffsetLagSensor(task_id="wait", topics=["a"], deferrable=deferrable)
    sensor.min_records, sensor.max_age = 0, "soon"  # type: ignore[attr-defined]  # as rendered
    with pytest.raises(AirflowFailException, match=r"(?s)min_records is 0.*max_age is 'soon'"):
        sensor.execute({})


def test_a_group_has_to_be_named(airflow: Path, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = json.dumps(broker.client_config)
    monkeypatch.setenv("AIRFLOW_CONN_NO_GROUP", json.dumps({"conn_type": "kafka", "extra": extra}))
    with pytest.raises(InvalidRequest, match="Give group_id"):
        LagWatch(kafka_config_id="no_group", topics="a").measured()


# The watcher's trigger


class Watcher:
    """A trigger that runs in a loop of this process, as in the triggerer; `store` is the asset's state store."""

    def __init__(self, trigger: KafkaLagEventTrigger, store: MemoryStateStore | None = None) -> None:
        self.trigger = trigger
        self.trigger.asset_state_store = store
        self.looks = 0
        real_look = trigger.look

        def look(fired_for: Any) -> Any:
            try:
                return real_look(fired_for)
            finally:
                self.looks += 1

        trigger.look = look  # type: ignore[method-assign]
        self.events: list[dict[str, Any]] = []
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None

    async def _run(self) -> None:
        events: AsyncIterator[Any] = self.trigger.run()
        async for event in events:
            json.dumps(event.payload)
            self.events.append(event.payload)

    def until(self, is_fact: Callable[[], bool], deadline_s: float = 60.0) -> None:
        """Go on until it is so."""

        async def go() -> None:
            if self._task is None:
                self._task = asyncio.create_task(self._run())
            end = time.monotonic() + deadline_s
            while not is_fact():
                assert not self._task.done(), self._task
                assert time.monotonic() < end, f"not so after {deadline_s} s; events: {self.events}"
                await asyncio.sleep(0.02)

        self._loop.run_until_complete(go())

    def look_on(self, times: int = 3) -> None:
        """So many more looks, and what comes of them."""
        seen = self.looks
        self.until(lambda: self.looks > seen + times)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._loop.run_until_complete(asyncio.gather(self._task, return_exceptions=True))
            self._task = None
        self._loop.close()


class MemoryStateStore:
    """Airflow's asset state store without Airflow: JSON by key."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return json.loads(self.values[key]) if key in self.values else default

    async def aset(self, key: str, value: Any) -> None:
        self.values[key] = json.dumps(value)


@pytest.fixture
def watch(airflow: Path) -> Iterator[Callable[..., Watcher]]:
    running: list[Watcher] = []

    def start(store: MemoryStateStore | None = None, **parameters: Any) -> Watcher:
        running.append(Watcher(KafkaLagEventTrigger(poke_interval=POLL_S, **parameters), store))
        return running[-1]

    yield start
    for watcher in running:
        watcher.stop()


def test_one_backlog_fires_once_and_the_next_one_again(
    watch: Callable[..., Watcher], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(2)
    watcher = watch(topics=name, group_id=group, min_records=4)
    produce(broker, name, 3)
    watcher.look_on()
    assert watcher.events == []

    produce(broker, name, 1, partition=1)
    watcher.until(lambda: len(watcher.events) == 1)
    assert (watcher.events[0]["lag"], watcher.events[0]["topics"]) == (4, {name: 4})
    produce(broker, name, 20)  # while the run that it started is on its way
    watcher.look_on()
    assert len(watcher.events) == 1

    commit(broker, group, name, 22, partition=0)  # the run read most of it: two unread records are left
    watcher.look_on()
    assert len(watcher.events) == 1
    produce(broker, name, 2)
    watcher.until(lambda: len(watcher.events) == 2)
    watcher.look_on()
    assert [event["lag"] for event in watcher.events] == [4, 4]


def test_a_run_that_read_a_part_of_the_backlog_is_followed_by_another(
    watch: Callable[..., Watcher], broker: KafkaBroker, topic: Any, group: str
) -> None:
    """As with `max_records`: what was carried over is not new, but it is still enough."""
    name = topic(1)
    produce(broker, name, 10)
    watcher = watch(topics=name, group_id=group, min_records=4)
    watcher.until(lambda: len(watcher.events) == 1)
    commit(broker, group, name, 5)
    watcher.until(lambda: len(watcher.events) == 2)
    commit(broker, group, name, 10)
    watcher.look_on()
    assert [event["lag"] for event in watcher.events] == [10, 5]


def test_a_backlog_that_no_run_reads_is_told_again_after_a_while(
    watch: Callable[..., Watcher], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(1)
    produce(broker, name, 1)
    watcher = watch(topics=name, group_id=group, remind_after=0.5)
    watcher.until(lambda: len(watcher.events) == 3)
    times = [event["looked_at_ms"] for event in watcher.events]
    assert all(later - earlier >= 500 for earlier, later in pairwise(times))


def test_an_old_record_fires_though_it_is_one(
    watch: Callable[..., Watcher], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(2)
    produce(broker, name, 1)
    watcher = watch(topics=name, group_id=group, min_records=1_000, max_age="PT10M")
    watcher.look_on()
    assert watcher.events == []
    produce(broker, name, 1, partition=1, age_ms=11 * MINUTE_MS)
    watcher.until(lambda: len(watcher.events) == 1)
    assert watcher.events[0]["looked_at_ms"] - watcher.events[0]["oldest_unread_before_ms"] == 10 * MINUTE_MS


def test_a_triggerer_that_is_restarted_tells_nothing_twice(
    watch: Callable[..., Watcher], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name, store = topic(1), MemoryStateStore()
    produce(broker, name, 1)
    first = watch(store, topics=name, group_id=group)
    first.until(lambda: bool(store.values))
    assert len(first.events) == 1
    first.stop()

    second = watch(store, topics=name, group_id=group)
    second.look_on()
    assert second.events == []
    commit(broker, group, name, 1)
    produce(broker, name, 1)
    second.until(lambda: len(second.events) == 1)


def test_a_triggerer_that_dies_before_the_event_is_stored_tells_it_again(
    watch: Callable[..., Watcher], broker: KafkaBroker, topic: Any, group: str
) -> None:
    """What was told is kept at the next look and not before: an event may be told twice, and is never lost."""
    name, store = topic(1), MemoryStateStore()
    produce(broker, name, 1)
    trigger = KafkaLagEventTrigger(topics=name, group_id=group, poke_interval=3600)
    first = Watcher(trigger, store)
    first.until(lambda: len(first.events) == 1)
    first.stop()
    assert store.values == {}
    second = watch(store, topics=name, group_id=group)
    second.until(lambda: len(second.events) == 1)


def test_it_never_joins_the_group(watch: Callable[..., Watcher], broker: KafkaBroker, topic: Any, group: str) -> None:
    name = topic(1)
    produce(broker, name, 1)
    watcher = watch(topics=name, group_id=group)
    watcher.until(lambda: len(watcher.events) == 1)
    watcher.look_on()
    admin = broker.admin()
    described = admin.describe_consumer_groups([group])[group].result(30)
    assert (list(described.members), described.state.name) == ([], "DEAD")


@pytest.mark.slow
def test_it_lives_through_a_restart_of_the_broker(
    watch: Callable[..., Watcher],
    java: Java,
    say: Say,
    tmp_path: Path,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with KafkaBroker(tmp_path / "fragile", java=java, say=say) as fragile:
        extra = json.dumps({**fragile.client_config, "group.id": group})
        monkeypatch.setenv("AIRFLOW_CONN_FRAGILE", json.dumps({"conn_type": "kafka", "extra": extra}))
        fragile.create_topic("orders")
        watcher = watch(kafka_config_id="fragile", topics="orders", min_records=2)
        produce(fragile, "orders", 1)
        watcher.look_on()
        fragile.kill()
        watcher.look_on(1)  # one that fails, for nobody is there
        fragile.start()
        watcher.look_on()
        assert watcher.events == []
        produce(fragile, "orders", 1)
        watcher.until(lambda: len(watcher.events) == 1)
        assert watcher.events[0]["lag"] == 2


LAG = {"group_id": "g", "min_records": 5, "max_age": timedelta(minutes=10)}


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (KafkaLagEventTrigger, {**LAG, "remind_after": timedelta(hours=2)}),
        (OffsetLagTrigger, LAG),
    ],
)
def test_the_triggers_survive_their_serialization(kind: type, more: dict[str, Any]) -> None:
    from airflow.sdk._shared.module_loading import import_string

    trigger = kind(topics=["a"], poke_interval=1.5, **more)
    path, arguments = json.loads(json.dumps(trigger.serialize()))
    again = import_string(path)(**arguments)
    assert json.loads(json.dumps(again.serialize())) == [path, arguments]


def test_a_watchers_hash_is_the_same_before_and_after_it_was_stored(airflow: Path) -> None:
    """Or Airflow would make a new trigger whenever the DAG is parsed."""
    from airflow.models.trigger import Trigger
    from airflow.triggers.base import BaseEventTrigger

    path, arguments = KafkaLagEventTrigger(topics=["a", "b"], group_id="g", max_age=600).serialize()
    stored = Trigger._decrypt_kwargs(Trigger.encrypt_kwargs(arguments))
    assert BaseEventTrigger.hash(path, arguments) == BaseEventTrigger.hash(path, stored)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"topics": "a", "min_records": 0}, "min_records is 0"),
        ({"topics": "a", "remind_after": "soon"}, "'soon'"),
        ({"topics": "a", "topic_pattern": "a.*"}, "exactly one of topics"),
        ({}, "exactly one of topics"),
        ({"topics": "a", "min_record": 5}, "min_record"),
        ({"topics": "a", "poke_interval": "often"}, "poke_interval is 'often'"),
        ({"topics": "a b"}, "Kafka's topic names have"),
        ({"topics": "a", "isolation_level": "serializable"}, "isolation_level is 'serializable'"),
        ({"topics": "a", "work_store": "ftp://lake"}, "work_store ftp://lake"),
        ({"topics": "a", "max_age": "abc", "min_records": -1}, r"(?s)2 problems.*min_records.*max_age is 'abc'"),
    ],
)
def test_a_watcher_that_could_never_fire_is_refused_when_the_dag_is_parsed(
    parameters: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TypeError, match=problem):
        KafkaLagEventTrigger(**parameters)


def test_the_interval_of_a_watcher_may_be_a_timedelta() -> None:
    trigger = KafkaLagEventTrigger(topics="a", poke_interval=timedelta(minutes=2))
    assert trigger.serialize()[1]["poke_interval"] == 120.0
