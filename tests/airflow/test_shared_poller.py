"""Many triggers of one cluster in one triggerer: one client, one round of questions, nobody in another's way."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.lag import LagQuestion
from airflow_kafka_offsets.triggers import poller
from airflow_kafka_offsets.triggers.offset_lag import KafkaLagEventTrigger, OffsetLagTrigger
from airflow_kafka_offsets.triggers.partition_discovery import PartitionDiscoveryTrigger
from airflow_kafka_offsets.triggers.waiting import WaitingTrigger
from testbed import kafka_proxy
from testbed.broker import KafkaBroker
from testbed.kafka_proxy import KafkaProxy, Moment

QUESTIONS = {
    "connections": kafka_proxy.API_VERSIONS,
    "metadata": kafka_proxy.METADATA,
    "offsets": kafka_proxy.LIST_OFFSETS,
    "coordinators": kafka_proxy.FIND_COORDINATOR,
    "commits": kafka_proxy.OFFSET_FETCH,
}


class Rounds:
    """The rounds of all pollers: how many triggers each has answered; and the clusters that were opened and closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.opened = self.closed = 0
        self._threads: list[ThreadPoolExecutor] = []
        real_leave = poller.Poller.close
        real_look, real_init, real_close = poller._Client.look, KafkaCluster.__init__, KafkaCluster.close

        def look(client: Any, asked: list[Any]) -> Any:
            self.sizes.append(len(asked))
            return real_look(client, asked)

        def init(cluster: KafkaCluster, *args: Any, **more: Any) -> None:
            self.opened += 1
            real_init(cluster, *args, **more)

        def close(cluster: KafkaCluster) -> None:
            self.closed += 1
            real_close(cluster)

        def leave(shared: poller.Poller) -> None:
            self._threads.append(shared._thread)
            real_leave(shared)

        monkeypatch.setattr(poller.Poller, "close", leave)
        monkeypatch.setattr(poller._Client, "look", look)
        monkeypatch.setattr(KafkaCluster, "__init__", init)
        monkeypatch.setattr(KafkaCluster, "close", close)

    def wait_until_closed(self) -> None:
        """Returns when all pollers that nobody needs any more have closed their clients."""
        for thread in self._threads:
            thread.shutdown(wait=True)


@pytest.fixture
def rounds(airflow: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rounds]:
    found = Rounds(monkeypatch)
    yield found
    found.wait_until_closed()


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """`connect(name, **settings)` makes a `kafka` connection of that name."""

    def make(name: str, **settings: Any) -> str:
        extra = json.dumps({key.replace("_", "."): value for key, value in settings.items()})
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "kafka", "extra": extra}))
        return name

    return make


def fire(*triggers: WaitingTrigger) -> list[dict[str, Any]]:
    """What each of them fires, all of them in one triggerer."""

    async def run() -> list[dict[str, Any]]:
        events = await asyncio.gather(*(anext(trigger.run()) for trigger in triggers))
        return [event.payload for event in events]

    return asyncio.run(run())


def counted(proxy: KafkaProxy, client_id: str) -> Callable[[], Counter[str]]:
    """How many questions of each kind the clients of that name have asked since."""
    passed_on = kafka_proxy.before(lambda: None)
    rules = {
        what: proxy.arm(what, Moment(client_id, api_key), passed_on, times=1_000_000)
        for what, api_key in QUESTIONS.items()
    }
    return lambda: Counter({what: rule.seen for what, rule in rules.items()})


def test_twenty_watches_of_a_cluster_ask_as_much_as_one(
    rounds: Rounds, connect: Callable[..., str], proxy: KafkaProxy, broker: KafkaBroker, topic: Any, group: str
) -> None:
    """Twenty DAGs with a topic each: sensors and watchers' triggers by turns, with limits of their own."""
    names = [topic(2) for _ in range(20)]
    for name in names:
        broker.produce(name, [(0, None, b"x", None)])

    def asked_by(count: int) -> Counter[str]:
        client = f"watch-{count}"
        there = connect(client.replace("-", "_"), bootstrap_servers=proxy.bootstrap_servers, client_id=client)
        questions = counted(proxy, client)
        watches = [
            {"kafka_config_id": there, "topics": name, "group_id": group, "min_records": 1, "max_age": f"PT{n + 1}H"}
            for n, name in enumerate(names[:count])
        ]
        kinds = (OffsetLagTrigger, KafkaLagEventTrigger)
        triggers = [kinds[n % 2](poke_interval=0.5, **watch) for n, watch in enumerate(watches)]
        found = fire(*triggers)  # type: ignore[arg-type]
        assert [event["topics"] for event in found] == [{name: 1} for name in names[:count]]
        return questions()

    one, twenty = asked_by(1), asked_by(20)
    assert rounds.opened == 2, "a client for each of the two pollers"
    assert rounds.sizes[0] == 1
    per_round = {what: count / (len(rounds.sizes) - 1) for what, count in twenty.items()}
    assert max(rounds.sizes) >= 10
    assert one["offsets"] == 3, "log starts, ends, ages"
    assert per_round["offsets"] == 3
    assert all(per_round[what] <= count for what, count in one.items()), (one, twenty, rounds.sizes)


def test_a_watch_of_topics_and_one_of_a_lag_are_answered_together(
    rounds: Rounds, connect: Callable[..., str], proxy: KafkaProxy, broker: KafkaBroker, topic: Any, group: str
) -> None:
    name, other = topic(2), topic(1)
    broker.produce(name, [(0, None, b"x", None)])
    there = connect("watch_both", bootstrap_servers=proxy.bootstrap_servers, client_id="watch-both")
    questions = counted(proxy, "watch-both")
    asked: dict[str, Any] = {"kafka_config_id": there, "poke_interval": 0.5}
    lag = OffsetLagTrigger(topics=name, group_id=group, **asked)
    there_is = PartitionDiscoveryTrigger(scope={"topics": other}, min_partitions=1, **asked)
    too_few = PartitionDiscoveryTrigger(scope={"topics": other}, min_partitions=2, until_ms=now_ms() + 4_000, **asked)
    of_lag, of_topics, nothing = fire(lag, there_is, too_few)
    assert (of_lag["lag"], of_topics["topics"]) == (1, {other: [0]})
    assert "1 of 2 partitions" in nothing["timeout"]
    assert (rounds.opened, rounds.sizes[0]) == (1, 3)
    assert questions()["offsets"] == 2, "log starts and ends, for the lag alone"


def test_triggers_that_were_started_at_different_times_look_together(rounds: Rounds, topic: Any, group: str) -> None:
    name = topic(1)

    async def run() -> None:
        tasks = []
        for number in range(3):
            trigger = KafkaLagEventTrigger(topics=name, group_id=f"{group}-{number}", poke_interval=1)
            tasks.append(asyncio.create_task(anext(trigger.run())))  # type: ignore[arg-type]
            seen = len(rounds.sizes)
            while len(rounds.sizes) == seen:
                await asyncio.sleep(0.01)
        while rounds.sizes[-3:] != [3] * 3:  # without a common clock, this never comes
            await asyncio.sleep(0.01)
        assert (rounds.opened, rounds.closed) == (1, 0)
        for number, task in enumerate(tasks):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert bool(poller._OF_LOOP[asyncio.get_running_loop()]) == (number < 2)

    asyncio.run(asyncio.wait_for(run(), 60))
    rounds.wait_until_closed()
    assert (rounds.opened, rounds.closed) == (1, 1), "the last one that has left has closed the client"


def test_a_watch_that_is_wrong_is_wrong_alone(
    rounds: Rounds, connect: Callable[..., str], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(1)
    broker.produce(name, [(0, None, b"x", None)])
    there = connect("without_a_group", **{"bootstrap.servers": broker.client_config["bootstrap.servers"]})
    asked = {"kafka_config_id": there, "poke_interval": 0.2, "until_ms": None}
    groupless = OffsetLagTrigger(topics=name, **asked)
    lost = OffsetLagTrigger(topics=name, group_id=group, pipeline_id="p", work_store="s3://", **asked)
    good = [OffsetLagTrigger(topics=name, group_id=f"{group}-{n}", **asked) for n in range(3)]

    no_group, no_store, *found = fire(groupless, lost, *good)

    assert "Give group_id" in no_group["error"]
    assert "s3://" in no_store["error"]
    assert [event["lag"] for event in found] == [1, 1, 1]


def test_a_fault_in_a_round_ends_its_triggers_and_leaves_none_waiting(
    rounds: Rounds, topic: Any, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_at_lags(questions: list[LagQuestion], *_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(poller, "look_at_lags", look_at_lags)
    trigger = OffsetLagTrigger(topics=topic(1), group_id=group, poke_interval=0.2)
    with pytest.raises(ZeroDivisionError):
        fire(trigger)


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
    rounds: Rounds,
    connect: Callable[..., str],
    silent: str,
    broker: KafkaBroker,
    topic: Any,
    group: str,
    hanging: Callable[[str], WaitingTrigger],
) -> None:
    """Ten seconds is how long a first contact may take. There are more of them than the event loop has threads."""
    name = topic(1)
    broker.produce(name, [(0, None, b"x", None)])
    there = connect("silent", bootstrap_servers=silent)

    async def run() -> None:
        waiting = [asyncio.create_task(anext(hanging(there).run())) for _ in range(40)]  # type: ignore[arg-type]
        for _ in range(3):
            lag = OffsetLagTrigger(topics=name, group_id=group, poke_interval=0.1)
            found = PartitionDiscoveryTrigger(
                kafka_config_id="kafka_default", scope={"topics": name}, min_partitions=1, poke_interval=0.1
            )
            async with asyncio.timeout(8):
                assert (await anext(lag.run())).payload["lag"] == 1
                assert (await anext(found.run())).payload["topics"] == {name: [0]}
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        async with asyncio.timeout(3):  # and none of them waits for its thread
            await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(run())


def test_new_settings_of_a_connection_are_taken_at_the_next_round(
    rounds: Rounds, connect: Callable[..., str], broker: KafkaBroker, topic: Any, group: str
) -> None:
    servers = broker.client_config["bootstrap.servers"]
    there = connect("renewed", bootstrap_servers=servers, client_id="one")
    name = topic(1)

    async def run() -> None:
        trigger = OffsetLagTrigger(kafka_config_id=there, topics=name, group_id=group, poke_interval=0.2)
        task = asyncio.create_task(anext(trigger.run()))  # type: ignore[arg-type]
        while len(rounds.sizes) < 3:
            await asyncio.sleep(0.01)
        assert rounds.opened == 1
        connect("renewed", bootstrap_servers=servers, client_id="two")
        while rounds.opened < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), 30))
