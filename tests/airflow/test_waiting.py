"""What sensors wait for, and what a lag trigger fires for, asked of a real broker in the loop of a triggerer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSensorTimeout
from confluent_kafka import Producer

from airflow_kafka_offsets import KafkaLagTrigger, PartitionDiscoverySensor, Timestamp, WindowCompleteSensor
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.triggers import waiting
from airflow_kafka_offsets.triggers.partition_discovery import PartitionDiscoveryTrigger
from airflow_kafka_offsets.triggers.waiting import Missing
from airflow_kafka_offsets.triggers.window_complete import WindowCompleteTrigger
from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.dag_runs import load_dag, run_dag
from testbed.ports import free_ports
from testbed.topics import wait_for
from tests.airflow.conftest import WIRING, Orders
from tests.conftest import unique_name

pytestmark = pytest.mark.long

LATER = 2**62


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def commit(broker: KafkaBroker, group: str, topic: str, offset: int) -> None:
    with KafkaCluster(broker.client_config) as cluster:
        cluster.commit_offsets(group, {TopicPartition(topic, 0): CommittedOffset(offset)})


# ── sensors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def topics_awaited(topics: Any, min_partitions: int = 1) -> Any:
    about = {"kafka_config_id": "kafka_default", "poke_interval": 0.1, "until_ms": LATER}
    return PartitionDiscoveryTrigger(topics=topics, min_partitions=min_partitions, **about).look()


def test_what_is_missing_of_topics_is_named_and_what_is_there_is_counted(airflow: Path, topic: Any) -> None:
    one, two = topic(1), topic(2)
    absent = unique_name("absent")
    assert topics_awaited([one, two]) == {one: 1, two: 2}
    assert topics_awaited([one, two], 2) == Missing(f"{one} has 1 of 2 partitions")
    assert topics_awaited({two: [1]}, 5) == {two: 1}
    assert absent in topics_awaited([one, absent]).words
    assert f"{two}-7" in topics_awaited({two: [7]}).words
    assert topics_awaited(f"^{one}$") == {one: 1}


def test_a_sensor_waits_in_the_triggerer_until_the_topic_is_there(
    airflow: Path, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, looks = unique_name("awaited"), []
    look = PartitionDiscoveryTrigger.look

    def counted(self: PartitionDiscoveryTrigger) -> Any:
        looks.append(threading.current_thread().name)
        return look(self)

    monkeypatch.setattr(PartitionDiscoveryTrigger, "look", counted)

    def create_once_it_is_waited_for() -> None:
        wait_for("the triggerer looks", lambda: len(looks) > 1)
        broker.create_topic(name, 2)

    creator = threading.Thread(target=create_once_it_is_waited_for)
    creator.start()
    result = run_dag(load_dag(WIRING, "partitions_awaited"), conf={"topic": name})
    creator.join()

    assert result.state == "success"
    assert all(thread.startswith("kafka-offsets") for thread in looks[1:])  # the first one is the worker's


async def event_of(trigger: Any) -> Any:
    return (await anext(trigger.run())).payload


def test_a_wait_that_takes_too_long_says_what_is_missing(airflow: Path) -> None:
    name = unique_name("absent")
    sensor = PartitionDiscoverySensor(task_id="wait", topics=name, timeout=1, poke_interval=0.1)
    event = asyncio.run(event_of(sensor.make_trigger({}, now_ms() + 500)))

    with pytest.raises(AirflowSensorTimeout, match=f"Still missing: .*{name}"):
        sensor.execute_complete({}, event)
    assert sensor.execute_complete({}, {"found": {name: 1}}) == {name: 1}
    with pytest.raises(AirflowFailException, match="no such connection"):
        sensor.execute_complete({}, {"error": "no such connection"})


def test_a_triggerer_that_comes_too_late_looks_once(airflow: Path, topic: Any) -> None:
    there, absent = topic(1), unique_name("absent")
    for name, expected in ((there, {"found": {there: 1}}), (absent, {"timeout": topics_awaited(absent).words})):
        sensor = PartitionDiscoverySensor(task_id="wait", topics=name)
        assert asyncio.run(event_of(sensor.make_trigger({}, now_ms() - 1))) == expected


def test_brokers_that_do_not_answer_are_waited_for_and_a_wrong_request_is_not(
    airflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "DEADLINE_S", 1.0)
    servers = {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}
    monkeypatch.setenv("AIRFLOW_CONN_NOBODY", airflow_home.connections(servers)["AIRFLOW_CONN_KAFKA_DEFAULT"])
    given = {"topics": "a", "poke_interval": 0.1, "deferrable": False}
    sensor = PartitionDiscoverySensor(task_id="wait", kafka_config_id="nobody", **given)
    assert not sensor.poke({}).is_done
    event = asyncio.run(event_of(sensor.make_trigger({}, now_ms() + 300)))
    with pytest.raises(AirflowException, match="without an answer: AKO-501") as raised:
        sensor.execute_complete({}, event)
    assert not isinstance(raised.value, AirflowSensorTimeout | AirflowFailException)  # which Airflow never retries
    with pytest.raises(AirflowFailException, match="does not exist"):
        PartitionDiscoverySensor(task_id="none", kafka_config_id="none", **given).execute({})


@pytest.mark.parametrize("is_outage", [True, False])
@pytest.mark.parametrize("dag_id", ["awaited_deferred", "awaited_here"])
def test_a_sensor_is_retried_after_an_outage_and_not_after_a_time_out(
    airflow: Path, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, dag_id: str, is_outage: bool
) -> None:
    servers = broker.client_config
    if is_outage:
        servers = {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}
        monkeypatch.setattr(waiting, "DEADLINE_S", 0.5)  # nobody will answer, so a look need not wait
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", airflow_home.connections(servers)["AIRFLOW_CONN_KAFKA_DEFAULT"])
    (task,) = run_dag(load_dag(WIRING, dag_id), conf={"topic": unique_name("absent")}).tasks
    assert (task.state, task.tries) == ("failed", 1 + is_outage)


@pytest.mark.parametrize("act", ["acknowledge", "reset", "skip"])
def test_a_run_with_an_act_is_not_held_up(airflow: Path, act: str) -> None:
    conf = {"topic": unique_name("absent"), "kafka_offsets": {act: {}}}
    assert run_dag(load_dag(WIRING, "partitions_awaited"), conf=conf).state == "success"


def test_a_window_in_the_conf_is_the_one_that_is_waited_for(airflow: Path) -> None:
    sensor = WindowCompleteSensor(task_id="wait", topics="a")
    run = SimpleNamespace(conf={"kafka_offsets": {"window": ["2026-03-01T02:00:00Z", "2026-03-01T05:00:00Z"]}})
    assert sensor.make_trigger({"dag_run": run}, LATER).end_ms == 1_772_341_200_000


def test_a_window_is_complete_once_each_partition_is_past_its_end_or_idle(
    airflow: Path, broker: KafkaBroker, topic: Any
) -> None:
    name, end_ms = topic(2), now_ms() - 60_000
    about = {"kafka_config_id": "kafka_default", "poke_interval": 0.1, "until_ms": LATER, "topics": name}

    def trigger(idle_ms: int) -> WindowCompleteTrigger:
        return WindowCompleteTrigger(end_ms=end_ms, idle_timeout_ms=idle_ms, **about)

    broker.produce(name, [(0, None, b"x", end_ms), (1, None, b"x", end_ms - 1)])
    assert trigger(30_000).look() == {"end_ms": end_ms, "idle": [f"{name}-1"]}
    watching = trigger(90_000)
    assert f"{name}-1 has no record at or past" in watching.look().words
    watching.idle_timeout_ms = 59_000
    broker.produce(name, [(1, None, b"x", end_ms - 2)])
    assert watching.look() == {"end_ms": end_ms, "idle": [f"{name}-1"]}  # its newest timestamp is as it was
    broker.produce(name, [(1, None, b"x", end_ms - 0)])
    assert watching.look() == {"end_ms": end_ms, "idle": []}


def test_a_partition_that_still_gets_records_is_not_idle(airflow: Path, broker: KafkaBroker, topic: Any) -> None:
    name, end_ms = topic(1), now_ms() - 60_000
    idle_timeout = timedelta(seconds=30)
    sensor = WindowCompleteSensor(task_id="wait", topics=name, end=Timestamp(end_ms), idle_timeout=idle_timeout)
    broker.produce(name, [(0, None, b"x", end_ms - 9)])
    watching = sensor.make_trigger({}, LATER)
    watching._newest = {TopicPartition(name, 0): end_ms - 10}  # of the look before
    assert isinstance(watching.look(), Missing)


# ── the trigger of an asset's watcher ─────────────────────────────────────────────────────────────────────────────────


class States:
    """What Airflow gives a watcher's trigger from 3.3 on."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def aget(self, key: str) -> Any:
        return self.kept.get(key)

    async def aset(self, key: str, value: Any) -> None:
        self.kept[key] = value


Lag = Callable[..., KafkaLagTrigger]


@pytest.fixture
def lag(airflow: Path, topic: Any, group: str) -> Lag:
    name = topic(1)
    return lambda **more: KafkaLagTrigger(topics=name, group_id=group, poke_interval=0.05, **more)


def test_lag_counts_from_the_commit_and_without_one_from_the_log_start(
    lag: Lag, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(KafkaCluster, "first_times")  # no record is read where no age is asked for
    trigger = lag()
    assert trigger.look(None) == (None, None)
    broker.produce_many(trigger.topics, 5)
    assert trigger.look(None)[0]["lag"] == 5
    broker.delete_records({(trigger.topics, 0): 1})
    assert trigger.look(None)[0]["lag"] == 4
    commit(broker, trigger.group_id, trigger.topics, 3)
    assert trigger.look(None)[0]["lag"] == 2
    assert lag(min_records=3).look(None) == (None, None)
    commit(broker, trigger.group_id, trigger.topics, 99)  # of a topic that was created again
    assert trigger.look(None)[0]["lag"] == 4


def test_only_an_unread_record_is_too_old(lag: Lag, broker: KafkaBroker) -> None:
    trigger = lag(min_records=100, max_age=timedelta(minutes=10))
    for minutes in (30, 5):
        broker.produce(trigger.topics, [(0, None, b"x", now_ms() - minutes * 60_000)])
    assert trigger.look(None)[0]["partitions_with_old_records"] == 1
    commit(broker, trigger.group_id, trigger.topics, 1)
    assert trigger.look(None) == (None, None)


def test_it_fires_once_per_position_also_after_a_restart_of_the_triggerer(
    lag: Lag, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Any] = []
    look = KafkaLagTrigger.look
    monkeypatch.setattr(KafkaLagTrigger, "look", lambda self, *a: looks.append(1) or look(self, *a))

    async def looked_twice_more() -> None:
        count = len(looks)
        while len(looks) < count + 3:
            await asyncio.sleep(0.01)

    async def scenario(states: States) -> None:
        def start() -> tuple[AsyncIterator[Any], asyncio.Task[Any]]:
            trigger = lag(min_records=2)
            trigger.asset_state_store = states
            events = trigger.run()
            return events, asyncio.ensure_future(anext(events))

        events, fired = start()
        await looked_twice_more()
        assert not fired.done()
        broker.produce_many(lag().topics, 2)
        assert (await fired).payload["lag"] == 2
        again = asyncio.ensure_future(anext(events))
        broker.produce_many(lag().topics, 2)
        await looked_twice_more()
        assert not again.done()  # the backlog only grows: it is the run's that has been started
        again.cancel()
        _, restarted = start()
        await looked_twice_more()
        assert not restarted.done()
        commit(broker, lag().group_id, lag().topics, 2)
        assert (await restarted).payload["lag"] == 2

    asyncio.run(asyncio.wait_for(scenario(States()), 60))


def test_a_pipeline_is_measured_by_its_position_and_without_a_batch_gets_its_first_run(orders: Orders) -> None:
    trigger = KafkaLagTrigger(pipeline_id=orders.topic, again_after=timedelta(hours=1))
    first, fired_for = trigger.look(None)
    assert (first["pipeline_id"], first["lag"]) == (orders.topic, None)
    assert trigger.look(fired_for) == (None, fired_for)
    orders.produce(5)
    orders.run(reject=True)
    event, fired_for = trigger.look(fired_for)
    assert event["lag"] == 5
    orders.run()
    orders.produce(2)
    event, _ = trigger.look(fired_for)
    assert event["lag"] == 2


def test_a_run_that_has_failed_is_followed_by_another_one(lag: Lag, broker: KafkaBroker) -> None:
    trigger = lag(again_after=60)
    broker.produce_many(trigger.topics, 5)
    event, fired_for = trigger.look(None)
    assert event["lag"] == 5
    assert trigger.look(fired_for) == (None, fired_for)
    long_ago = {**fired_for, "at_ms": fired_for["at_ms"] - 60_000}
    assert trigger.look(long_ago)[0]["lag"] == 5


def test_what_no_run_would_read_starts_none(
    orders: Orders, lag: Lag, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = {**broker.client_config, "isolation.level": "read_committed"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", airflow_home.connections(committed)["AIRFLOW_CONN_KAFKA_DEFAULT"])
    orders.produce(2)
    orders.run()
    of_pipeline, of_group = KafkaLagTrigger(pipeline_id=orders.topic), lag()
    producer = Producer({**broker.client_config, "transactional.id": orders.topic})
    producer.init_transactions()
    producer.begin_transaction()
    for topic in (orders.topic, of_group.topics):
        producer.produce(topic, b"9")
    producer.flush()
    assert [trigger.look(None)[0] for trigger in (of_pipeline, of_group)] == [None, None]
    producer.commit_transaction()
    assert [trigger.look(None)[0]["lag"] for trigger in (of_pipeline, of_group)] == [2, 2]  # with the marker


def test_triggers_survive_the_way_through_airflows_database(lag: Lag) -> None:
    from airflow.sdk.module_loading import import_string

    try:
        from airflow.sdk.serde import deserialize, serialize
    except ImportError:  # Airflow 3.1
        from airflow.serialization.serde import deserialize, serialize

    for trigger in (lag(max_age=timedelta(minutes=1)), PartitionDiscoveryTrigger(
        kafka_config_id="k", topics={"a": [1]}, min_partitions=1, poke_interval=1.0, until_ms=5
    )):  # fmt: skip
        path, fields = trigger.serialize()
        again = import_string(path)(**deserialize(serialize(fields)))
        assert again.serialize() == (path, fields)
