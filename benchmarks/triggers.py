"""What waiting triggers take of a core and of a broker: ``python -m benchmarks.triggers [--triggers 100]``.

Lag and discovery triggers over 20 Kafka connections, all of which lead to one broker, poke once a minute as they do by
default. They run in one event loop, as in a triggerer, and none of them ever fires. Counted is the processor time of
their process over whole minutes, after the first one; Airflow's own triggerer is not in it. Then as many triggers look
through a proxy, which counts the requests and the new connections of one look of all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from typing import Any

from benchmarks.measured import say, title
from testbed.broker import KafkaBroker
from testbed.kafka_proxy import KafkaProxy
from testbed.ports import free_ports

LIMIT = 0.05
CLUSTERS, TOPICS, PARTITIONS, POKE_S, COUNTED_POKE_S = 20, 20, 4, 60.0, 20.0


class CountingProxy(KafkaProxy):
    """Passes everything on.

    :ivar requests: how many there were, also those that open a connection.
    :ivar connections: how many were opened.
    """

    requests = connections = 0

    def _serve(self, client: Any) -> None:
        with self._lock:
            self.connections += 1
        super()._serve(client)

    def _match(self, exchange: Any) -> None:
        with self._lock:
            self.requests += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--triggers", type=int, nargs="+", default=[100, 1_000])
    parser.add_argument("--minutes", type=int, default=1)
    options = parser.parse_args()
    port = free_ports(1)[0]
    with (
        tempfile.TemporaryDirectory(prefix="bench-triggers-") as home,
        KafkaBroker(proxy_port=port) as broker,
        CountingProxy(port, lambda: broker.proxied_address) as proxy,
    ):
        for number in range(TOPICS):
            broker.create_topic(f"orders{number}", PARTITIONS)
        os.environ["AIRFLOW_HOME"] = home
        with open(f"{home}/log", "w") as log, redirect_stdout(log):  # what Airflow logs is counted, as a triggerer does
            rows = []
            for count in options.triggers:
                for what, make in (("lag", _lag), ("discovery", _discovery), ("half of each", _half_of_each)):
                    _connect(broker.client_config["bootstrap.servers"])
                    share = asyncio.run(_share(make(count, POKE_S), options.minutes))
                    _connect(proxy.bootstrap_servers)
                    rows.append((count, what, *share, *asyncio.run(_counted(make(count, COUNTED_POKE_S), proxy))))
    print(title("Triggers that wait", "apache-airflow", "confluent-kafka"))
    print(f"Over {CLUSTERS} Kafka connections; each trigger looks once a minute.\n")
    print("| triggers | of a core | threads | MiB | requests a look | new connections a look | connections open |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for count, what, share, threads, mib, requests, connections, is_open in rows:
        print(
            f"| {count:,} {what} | {share:.1%} | {threads} | {mib:.0f} "
            f"| {requests / count:.1f} | {connections / count:.1f} | {is_open} |"
        )
    share = rows[2][2]
    how = "holds" if share < LIMIT else "DOES NOT HOLD"
    print(f"\n{options.triggers[0]} triggers, half of each, take under {LIMIT:.0%} of a core: {share:.1%}, {how}.")
    return 0


def _connect(bootstrap_servers: str) -> None:
    extra = {"bootstrap.servers": bootstrap_servers}
    for number in range(CLUSTERS):
        connection = {"conn_type": "kafka", "extra": json.dumps(extra)}
        os.environ[f"AIRFLOW_CONN_KAFKA_{number}"] = json.dumps(connection)


@asynccontextmanager
async def _running(triggers: Sequence[Any]) -> AsyncIterator[None]:
    say(f"{len(triggers)} triggers start")

    async def run(trigger: Any) -> None:
        async for event in trigger.run():
            raise AssertionError(f"{trigger.serialize()} has fired {event}")

    tasks = [asyncio.create_task(run(trigger)) for trigger in triggers]
    yield
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _share(triggers: Sequence[Any], minutes: int) -> tuple[float, int, float]:
    """Processor time by time, threads at the end, and the process's memory."""
    async with _running(triggers):
        await asyncio.sleep(POKE_S)
        say(f"measuring for {minutes} min")
        began, used = time.monotonic(), time.process_time()
        await asyncio.sleep(POKE_S * minutes)
        share = (time.process_time() - used) / (time.monotonic() - began)
        threads = len(os.listdir("/proc/self/task"))
    return share, threads, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _counted(triggers: Sequence[Any], proxy: CountingProxy) -> tuple[int, int, int]:
    """One look of all triggers: requests, new connections, and how many are open."""
    async with _running(triggers):
        await asyncio.sleep(COUNTED_POKE_S * 1.25)
        requests, connections = proxy.requests, proxy.connections
        await asyncio.sleep(COUNTED_POKE_S)
        return proxy.requests - requests, proxy.connections - connections, len(proxy._sockets) // 2


def _lag(count: int, poke_s: float) -> list[Any]:
    from airflow_kafka_offsets.triggers.lag_event import KafkaLagEventTrigger

    return [
        KafkaLagEventTrigger(
            kafka_config_id=f"kafka_{number % CLUSTERS}",
            topics=[f"orders{number % TOPICS}"],
            group_id=f"group{number}",
            min_records=10**9,
            poke_interval=poke_s,
        )
        for number in range(count)
    ]


def _discovery(count: int, poke_s: float) -> list[Any]:
    from airflow_kafka_offsets.triggers.sensor_waits import PartitionDiscoveryTrigger

    return [
        PartitionDiscoveryTrigger(
            kafka_config_id=f"kafka_{number % CLUSTERS}",
            scope={"topics": [f"none{number}"]},
            min_partitions=1,
            poke_interval=poke_s,
        )
        for number in range(count)
    ]


def _half_of_each(count: int, poke_s: float) -> list[Any]:
    return [*_lag(count // 2, poke_s), *_discovery(count - count // 2, poke_s)]


if __name__ == "__main__":
    sys.exit(main())
