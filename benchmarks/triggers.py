"""How much of a core one triggerer's waiting triggers take: ``python -m benchmarks.triggers [--triggers 1000]``.

Lag and discovery triggers over 20 Kafka connections, all of which lead to one broker, poke once a minute as they do by
default. They run in one event loop, as in a triggerer, and none of them ever fires. Counted is the processor time of
their process over whole minutes, after the first one; Airflow's own triggerer is not in it.
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
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

from benchmarks.measured import say, title
from testbed.broker import KafkaBroker

LIMIT = 0.05
CLUSTERS, TOPICS, PARTITIONS, POKE_S = 20, 20, 4, 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--triggers", type=int, default=1_000)
    parser.add_argument("--minutes", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-triggers-") as home, KafkaBroker() as broker:
        for number in range(TOPICS):
            broker.create_topic(f"orders{number}", PARTITIONS)
        os.environ["AIRFLOW_HOME"] = home
        for number in range(CLUSTERS):
            connection = {"conn_type": "kafka", "extra": json.dumps(broker.client_config)}
            os.environ[f"AIRFLOW_CONN_KAFKA_{number}"] = json.dumps(connection)
        with open(f"{home}/log", "w") as log, redirect_stdout(log):  # what Airflow logs is counted, as a triggerer does
            rows = [
                (what, *asyncio.run(_share(make(options.triggers), options.minutes)))
                for what, make in (("lag", _lag), ("discovery", _discovery), ("half of each", _half_of_each))
            ]
    print(title("Triggers that wait", "apache-airflow", "confluent-kafka"))
    print(
        f"| {options.triggers:,} triggers, {CLUSTERS} connections | of a core | threads | MiB |\n|---|---:|---:|---:|"
    )
    for what, share, threads, mib in rows:
        print(f"| {what} | {share:.1%} | {threads} | {mib:.0f} |")
    share = rows[-1][1]
    print(f"\nUnder {LIMIT:.0%} of a core: {share:.1%}, {'holds' if share < LIMIT else 'DOES NOT HOLD'}.")
    return 0


async def _share(triggers: Sequence[Any], minutes: int) -> tuple[float, int, float]:
    """Processor time by time, threads at the end, and the process's memory."""
    say(f"{len(triggers)} triggers start")

    async def run(trigger: Any) -> None:
        async for event in trigger.run():
            raise AssertionError(f"{trigger.serialize()} has fired {event}")

    tasks = [asyncio.create_task(run(trigger)) for trigger in triggers]
    await asyncio.sleep(POKE_S)
    say(f"measuring for {minutes} min")
    began, used = time.monotonic(), time.process_time()
    await asyncio.sleep(POKE_S * minutes)
    share = (time.process_time() - used) / (time.monotonic() - began)
    threads = len(os.listdir("/proc/self/task"))
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return share, threads, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _lag(count: int) -> list[Any]:
    from airflow_kafka_offsets.triggers.offset_lag import KafkaLagEventTrigger

    return [
        KafkaLagEventTrigger(
            kafka_config_id=f"kafka_{number % CLUSTERS}",
            topics=[f"orders{number % TOPICS}"],
            group_id=f"group{number}",
            min_records=10**9,
            poke_interval=POKE_S,
        )
        for number in range(count)
    ]


def _discovery(count: int) -> list[Any]:
    from airflow_kafka_offsets.triggers.partition_discovery import PartitionDiscoveryTrigger

    return [
        PartitionDiscoveryTrigger(
            kafka_config_id=f"kafka_{number % CLUSTERS}",
            scope={"topics": [f"none{number}"]},
            min_partitions=1,
            poke_interval=POKE_S,
        )
        for number in range(count)
    ]


def _half_of_each(count: int) -> list[Any]:
    return [*_lag(count // 2), *_discovery(count - count // 2)]


if __name__ == "__main__":
    sys.exit(main())
