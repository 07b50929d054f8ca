"""How long the audit of a long log takes, with 50 ms for each request to the work store.

``python -m benchmarks.audit [--batches 10000] [--partitions 10 100]``. The store is one in memory that lets each
request wait, many at once. So what the client of a real store computes for each request is not in it.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.whole_log import audit_log
from airflow_kafka_offsets.plan.position import Position, position_after
from airflow_kafka_offsets.stores.store import Store
from tests.builders import PIPELINE, planned
from tests.model.store import MemoryStore
from tests.stores.builders import commit, plan_of, read

DELAY_S = 0.05
PER_BATCH = 10  # offsets of each partition; some have more


class SlowStore:
    """A store behind a slow network, and how often each verb was asked."""

    is_remote = True

    def __init__(self, store: Store) -> None:
        self.uri, self.driver_uri = store.uri, store.driver_uri
        self._store = store
        self.asked: Counter[str] = Counter()

    def create(self, name: str, data: bytes) -> bool:
        raise NotImplementedError("an audit writes nothing")

    def delete(self, name: str) -> None:
        raise NotImplementedError("an audit removes nothing")

    def get(self, name: str) -> bytes | None:
        self._wait("get")
        return self._store.get(name)

    def list(self, folder: str) -> list[str]:
        self._wait("list")
        return self._store.list(folder)

    def _wait(self, verb: str) -> None:
        self.asked[verb] += 1
        time.sleep(DELAY_S)


def log_of(batches: int, partitions: int) -> MemoryStore:
    """A log without a fault: each batch reads the same from each partition, by one split that has reported."""
    store = MemoryStore()
    log = PipelineLog(store, PIPELINE)
    position: Position | None = None
    for number in range(1, batches + 1):
        ends = [(n * 1_000_003, PER_BATCH + n % 7) for n in range(partitions)]
        rows = [planned(n, at + (number - 1) * size, at + number * size) for n, (at, size) in enumerate(ends)]
        plan = plan_of(number, rows, resolved_at_ms=1_600_000_000_000 + number * 3_600_000)
        begun = log.begin(number, Planned(plan, position))
        assert begun is not None
        read(begun)
        done = commit(begun, plan.resolved_at_ms)
        position = position_after(done.log.plan, position)
    return store


def measure(batches: int, partitions: int) -> str:
    store = SlowStore(log_of(batches, partitions))
    began, cpu = time.perf_counter(), time.process_time()
    audited, damaged = audit_log(PipelineLog(store, PIPELINE))
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    assert (len(audited), damaged) == (batches, [])
    assert all(one.is_contiguous for one in audited)
    return f"| {batches:,} | {partitions} | {store.asked.total():,} | {seconds:.1f} s | {cpu_s:.1f} s |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, nargs="+", default=[10, 100])
    given = parser.parse_args()
    print("| batches | partitions of each | requests | time | of it on the processor |\n|---|---|---|---|---|")
    for partitions in given.partitions:
        print(measure(given.batches, partitions), flush=True)


if __name__ == "__main__":
    main()
