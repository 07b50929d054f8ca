"""Many triggers of one Kafka connection in one triggerer: they share a client, and none is in another's way."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import ClusterUnavailable, InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.triggers import lag_event, shared_client
from airflow_kafka_offsets.triggers.deferred_wait import WaitingTrigger
from airflow_kafka_offsets.triggers.lag_event import KafkaLagEventTrigger, OffsetLagTrigger
from airflow_kafka_offsets.triggers.sensor_waits import PartitionDiscoveryTrigger
from airflow_kafka_offsets.triggers.shared_client import pool_of
from testbed.broker import KafkaBroker
from tests.cluster.real import RealHands


class Clients:
    """The looks of all triggers, and the clients that they opened and closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = self.closed = self.looks = 0
        self._changed = threading.Condition()
        real_init, real_close, real_discover = KafkaCluster.__init__, KafkaCluster.close, KafkaCluster.discover

        def init(cluster: KafkaCluster, *args: Any, **more: Any) -> None:
            self._count("opened")
            real_init(cluster, *args, **more)

        def close(cluster: KafkaCluster) -> None:
            real_close(cluster)
            self._count("closed")

        def discover(cluster: KafkaCluster, *args: Any) -> Any:
            self._count("looks")
            return real_discover(cluster, *args)

        monkeypatch.setattr(KafkaCluster, "__init__", init)
        monkeypatch.setattr(KafkaCluster, "close", close)
        monkeypatch.setattr(KafkaCluster, "discover", discover)

    def _count(self, what: str) -> None:
        with self._changed:
            setattr(self, what, getattr(self, what) + 1)
            self._changed.notify_all()

    def wait_until_closed(self) -> None:
        """Returns when every client that was opened is closed."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.closed == self.opened, timeout=60), (self.opened, self.closed)


@pytest.fixture
def clients(airflow: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    found = Clients(monkeypatch)
    yield found
    found.wait_until_closed()
    assert shared_client._CLIENTS == {}


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """`connect(name, **settings)` makes a `kafka` connection of that name."""

    def make(name: str, **settings: Any) -> str:
        extra = json.dumps({key.replace("_", "."): value for key, value in settings.items()})
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "kafka", "extra": extra}))
        return name

    return make


@pytest.fixture
def one_record(broker: KafkaBroker, topic: Callable[..., str]) -> str:
    """A topic with a record."""
    name = topic(1)
    broker.produce(name, [(0, None, b"x", None)])
    return name


async def until(is_fact: Callable[[], bool]) -> None:
    while not is_fact():
        await asyncio.sleep(0.01)


def fire(*triggers: Any) -> list[dict[str, Any]]:
    """What each of them fires, all of them in one triggerer."""

    async def run() -> list[dict[str, Any]]:
        events = await asyncio.gather(*(anext(trigger.run()) for trigger in triggers))
        return [event.payload for event in events]

    return asyncio.run(run())


def test_triggers_of_a_connection_share_one_client_and_each_has_its_own_answer(
    clients: Clients, broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    names = [topic(2) for _ in range(20)]
    for number, name in enumerate(names):
        broker.produce(name, [(0, None, b"x", None)] * (number + 1))
    pace: dict[str, Any] = {"poke_interval": 0.2}
    lags = [
        (OffsetLagTrigger, KafkaLagEventTrigger)[number % 2](
            topics=name, group_id=group, min_records=1, max_age="PT1H", **pace
        )
        for number, name in enumerate(names)
    ]
    there = PartitionDiscoveryTrigger(
        kafka_config_id="kafka_default", scope={"topics": names[0]}, min_partitions=2, **pace
    )
    too_few = PartitionDiscoveryTrigger(
        kafka_config_id="kafka_default", scope={"topics": names[0]}, min_partitions=3, **pace
    )

    async def run() -> list[Any]:
        """What they fire; the last one has its third partition only once all others have fired."""
        last = asyncio.ensure_future(anext(too_few.run()))
        events = await asyncio.gather(*(anext(trigger.run()) for trigger in (*lags, there)))
        await until(lambda: too_few._missing.endswith("2 of 3 partitions"))
        assert not last.done()
        RealHands(broker).add_partitions(names[0], 1)
        return [event.payload for event in (*events, await last)]

    *of_lag, found, grown = asyncio.run(run())
    assert [event["topics"] for event in of_lag] == [{name: number + 1} for number, name in enumerate(names)]
    assert found["topics"] == {names[0]: [0, 1]}
    assert grown["topics"] == {names[0]: [0, 1, 2]}
    assert clients.opened == 1


def test_the_last_trigger_that_leaves_closes_the_client(clients: Clients, one_record: str, group: str) -> None:
    async def run() -> None:
        tasks = []
        for number in range(3):
            trigger = KafkaLagEventTrigger(topics=one_record, group_id=f"{group}-{number}", poke_interval=0.2)
            events: Any = trigger.run()
            assert (await anext(events)).payload["lag"] == 1
            tasks.append(asyncio.create_task(anext(events)))
        seen = clients.looks
        await until(lambda: clients.looks > seen + 6)
        for number, task in enumerate(tasks):
            assert (clients.opened, clients.closed) == (1, 0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert bool(shared_client._CLIENTS) == (number < 2)

    asyncio.run(asyncio.wait_for(run(), 60))
    clients.wait_until_closed()
    assert clients.opened == 1


def test_a_watch_that_is_wrong_is_wrong_alone(
    clients: Clients, connect: Callable[..., str], broker: KafkaBroker, one_record: str, group: str
) -> None:
    there = connect("without_a_group", **{"bootstrap.servers": broker.client_config["bootstrap.servers"]})
    asked = {"kafka_config_id": there, "poke_interval": 0.2, "until_ms": None}
    groupless = OffsetLagTrigger(topics=one_record, **asked)
    lost = OffsetLagTrigger(topics=one_record, group_id=group, pipeline_id="p", work_store="s3://", **asked)
    good = [OffsetLagTrigger(topics=one_record, group_id=f"{group}-{n}", **asked) for n in range(3)]

    no_group, no_store, *found = fire(groupless, lost, *good)

    assert (no_group, no_store) == ({"look_again": None}, {"look_again": None})
    for wrong, problem in ((groupless, "Give group_id"), (lost, "s3://")):
        with pytest.raises(InvalidRequest, match=problem):
            wrong.look()
    assert [event["lag"] for event in found] == [1, 1, 1]


def test_a_fault_ends_its_own_trigger_and_leaves_none_waiting(
    clients: Clients, one_record: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = lag_event.look_at_lag

    def look_at_lag(question: Any, *more: Any) -> Any:
        if question.scope.group_id == f"{group}-faulty":
            raise ZeroDivisionError
        return real(question, *more)

    monkeypatch.setattr(lag_event, "look_at_lag", look_at_lag)
    faulty = OffsetLagTrigger(topics=one_record, group_id=f"{group}-faulty", poke_interval=0.2)
    good = OffsetLagTrigger(topics=one_record, group_id=group, poke_interval=0.2)

    async def run() -> list[Any]:
        return await asyncio.gather(anext(faulty.run()), anext(good.run()), return_exceptions=True)  # type: ignore[arg-type]

    fault, event = asyncio.run(run())
    assert isinstance(fault, ZeroDivisionError)
    assert event.payload["lag"] == 1


def test_after_an_error_of_the_cluster_there_is_a_new_client(
    clients: Clients, one_record: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = lag_event.look_at_lag, 2

    def look_at_lag(*asked: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise ClusterUnavailable("Cannot look", "nobody answers", "Wait.", retriable=True)
        return real(*asked)

    monkeypatch.setattr(lag_event, "look_at_lag", look_at_lag)
    (event,) = fire(OffsetLagTrigger(topics=one_record, group_id=group, poke_interval=0.2))
    assert event["lag"] == 1
    assert clients.opened == 3


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of somebody who takes connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


HANGING: list[Callable[[str], WaitingTrigger]] = [
    lambda there: OffsetLagTrigger(kafka_config_id=there, topics="a", group_id="g", poke_interval=0.1),
    lambda there: PartitionDiscoveryTrigger(
        kafka_config_id=there, scope={"topics": "a"}, min_partitions=1, poke_interval=0.1
    ),
]


@pytest.mark.parametrize("hanging", HANGING, ids=["lag", "discovery"])
def test_a_cluster_that_hangs_holds_up_no_trigger_of_another(
    clients: Clients,
    connect: Callable[..., str],
    silent: str,
    one_record: str,
    group: str,
    hanging: Callable[[str], WaitingTrigger],
) -> None:
    """Ten seconds is how long a first contact may take. There are more of them than the event loop has threads."""
    there = connect("silent", bootstrap_servers=silent)

    async def run() -> None:
        waiting = [asyncio.create_task(anext(hanging(there).run())) for _ in range(40)]  # type: ignore[arg-type]
        for _ in range(3):
            lag = OffsetLagTrigger(topics=one_record, group_id=group, poke_interval=0.1)
            found = PartitionDiscoveryTrigger(
                kafka_config_id="kafka_default", scope={"topics": one_record}, min_partitions=1, poke_interval=0.1
            )
            async with asyncio.timeout(8):
                assert (await anext(lag.run())).payload["lag"] == 1
                assert (await anext(found.run())).payload["topics"] == {one_record: [0]}
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        async with asyncio.timeout(3):  # and none of them waits for its thread
            await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(run())


def test_a_work_store_that_hangs_holds_up_no_trigger_that_does_not_use_it(
    clients: Clients, one_record: str, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are more of them than a connection has threads."""
    answers = threading.Event()

    def hangs(uri: str | None, pipeline_id: str) -> Any:
        answers.wait(60)
        raise StoreUnavailable("Cannot read", "it hung", "Try again.", retriable=True)  # so that none opens a client

    monkeypatch.setattr(lag_event, "configured_log", hangs)

    stuck = [
        OffsetLagTrigger(
            topics=one_record, group_id=group, pipeline_id=f"p{n}", work_store=str(tmp_path), poke_interval=0.1
        )
        for n in range(40)
    ]

    async def run() -> None:
        waiting = [asyncio.create_task(anext(trigger.run())) for trigger in stuck]  # type: ignore[arg-type]
        async with asyncio.timeout(8):
            other = OffsetLagTrigger(topics=one_record, group_id=group, poke_interval=0.1)
            assert (await anext(other.run())).payload["lag"] == 1
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    try:
        asyncio.run(run())
    finally:
        answers.set()
        pool_of(stuck[0].waits_for).shutdown()  # waits for the looks that are queued, too: none opens a client later


def test_new_settings_of_a_connection_are_taken_at_the_next_look(
    clients: Clients, connect: Callable[..., str], broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    servers = broker.client_config["bootstrap.servers"]
    there = connect("renewed", bootstrap_servers=servers, client_id="one")
    trigger = OffsetLagTrigger(kafka_config_id=there, topics=topic(1), group_id=group, poke_interval=0.2)

    async def run() -> None:
        task = asyncio.create_task(anext(trigger.run()))  # type: ignore[arg-type]
        await until(lambda: clients.looks >= 3)
        assert clients.opened == 1
        connect("renewed", bootstrap_servers=servers, client_id="two")
        await until(lambda: clients.opened == 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_client_that_is_old_is_replaced_so_that_certificates_and_tokens_are_read_again(
    clients: Clients, topic: Callable[..., str], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = OffsetLagTrigger(topics=topic(1), group_id=group, poke_interval=0.2)

    async def run() -> None:
        task = asyncio.create_task(anext(trigger.run()))  # type: ignore[arg-type]
        await until(lambda: clients.looks >= 3)
        assert clients.opened == 1
        monkeypatch.setattr(shared_client, "CLIENT_AGE_S", 0.0)
        await until(lambda: clients.opened >= 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_stored_trigger_has_no_secret(connect: Callable[..., str], airflow: Path) -> None:
    there = connect("with_a_password", bootstrap_servers="broker:9092", sasl_password="swordfish")
    for trigger in (
        OffsetLagTrigger(kafka_config_id=there, topics="a", group_id="g", poke_interval=1.0),
        KafkaLagEventTrigger(kafka_config_id=there, topics="a", group_id="g"),
        PartitionDiscoveryTrigger(kafka_config_id=there, scope={"topics": "a"}, min_partitions=1, poke_interval=1.0),
    ):
        assert "swordfish" not in json.dumps(trigger.serialize())
