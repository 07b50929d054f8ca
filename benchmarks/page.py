"""How long the page of a pipeline takes with 10,000 batches of 10,000 partitions, and 50 ms a request to the store.

``python -m benchmarks.page [--batches 10000] [--partitions 10000]``. The store is one in memory that lets each request
wait, many at once, as the audit's benchmark has it. A batch's objects are made when they are asked for: 10,000 plans of
10,000 partitions have 10 GB. The cluster is one in memory, asked in the background as a real one is; how long a broker
takes for 10,000 partitions is not in it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_kafka_offsets.batch.standing import NextRun
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.page.dag_pipelines import PagePipeline, look_at_newest
from airflow_kafka_offsets.page.kafka_look import KafkaLooks
from airflow_kafka_offsets.page.partition_page import partitions_view
from airflow_kafka_offsets.page.pipeline_page import pipeline_view
from airflow_kafka_offsets.page.views import BatchesAsked, PartitionsAsked
from airflow_kafka_offsets.plan.position import position_after
from airflow_kafka_offsets.stores.objects import decode
from benchmarks.audit import DELAY_S, PER_BATCH, SlowStore
from benchmarks.measured import title
from tests.builders import PIPELINE, planned, tp
from tests.cluster.memory import InMemoryCluster
from tests.model.store import MemoryStore
from tests.stores.builders import commit, key_of, plan_of, read

TOPIC = "orders"
_NAME = re.compile(r"batches/(\d{8})/(\d{10})/(.+)")


class ManyBatches:
    """The log of one committed batch, shown as that of many: each has its number and its key, and the same offsets."""

    is_remote = True
    uri = driver_uri = "s3://lake/offsets"

    def __init__(self, batches: int, partitions: int) -> None:
        self.batches, self._root = batches, f"pipelines/{PIPELINE.replace('/', '%2F')}"
        store = MemoryStore()
        rows = [planned(n, 0, PER_BATCH) for n in range(partitions)]
        begun = PipelineLog(store, PIPELINE).begin(1, Planned(plan_of(1, rows)))
        assert begun is not None
        read(begun)
        done = commit(begun, begun.log.plan.resolved_at_ms + 31_000)
        assert position_after(done.log.plan, None) == done.log.position
        self._objects = {name.rpartition("/")[2]: data for name, data in store.objects.items()}
        self._commit = decode(self._objects["2.json"])
        self._rest = json.dumps({**self._commit, "summary": None}, separators=(",", ":"))

    def create(self, name: str, data: bytes) -> bool:
        raise NotImplementedError("a page writes nothing")

    def delete(self, name: str) -> None:
        raise NotImplementedError("a page removes nothing")

    def get(self, name: str) -> bytes | None:
        found = _NAME.search(name)
        assert found is not None, name
        number, kind = int(found[2]), found[3]
        assert kind != "1.json" or number == self.batches, "a plan is read for a list"
        if kind != "2.json":
            return self._objects.get(kind)
        summary = {**self._commit["summary"], "key": key_of(number), "number": number}
        summary["planned_ms"] += number * 3_600_000
        body = self._rest.replace('"summary":null', f'"summary":{json.dumps(summary)}')[:-1].encode()
        return body + b',"sha256":"%s"}' % hashlib.sha256(body).hexdigest().encode()

    def list(self, folder: str) -> list[str]:
        below = folder.removeprefix(self._root).strip("/")
        if below == "batches":
            return [f"{hundred:08}/" for hundred in range(self.batches // 100 + 1)]
        if below.startswith("window-claims"):
            return []
        parts = below.split("/")
        if len(parts) == 2:
            first = max(1, int(parts[1]) * 100)
            return [f"{number:010}/" for number in range(first, min(int(parts[1]) * 100 + 99, self.batches) + 1)]
        return sorted(self._objects)


def cluster_of(partitions: int) -> InMemoryCluster:
    cluster = InMemoryCluster()
    cluster.create_topic("__consumer_offsets")
    cluster.create_topic(TOPIC, partitions)
    for number in range(partitions):
        cluster.produce(tp(number), [1_795_168_800_000] * (PER_BATCH + number % 3))
    return cluster


def measure(batches: int, partitions: int) -> None:
    many, cluster = ManyBatches(batches, partitions), cluster_of(partitions)
    store = SlowStore(many)

    @contextmanager
    def open_cluster() -> Iterator[InMemoryCluster]:
        yield cluster

    def opened() -> PagePipeline:
        """As a request opens it: whose pipeline it is, its log says."""
        log = PipelineLog(store, PIPELINE)
        found = look_at_newest(log)
        return PagePipeline("billing", "resolve", log, open_cluster, lambda: NextRun(None, ""), found=found)

    oldest = BatchesAsked(order="oldest first")
    ways: dict[str, Callable[[KafkaLooks], object]] = {
        "the page": lambda looks: pipeline_view(opened(), BatchesAsked(), looks),
        "its 250th page of batches": lambda looks: pipeline_view(opened(), BatchesAsked(page=250), looks),
        "the oldest batches first": lambda looks: pipeline_view(opened(), oldest, looks),
        "from a day on": lambda looks: pipeline_view(opened(), BatchesAsked(find="2027-06-01"), looks),
        "partitions, most left first": lambda looks: partitions_view(opened(), str(batches), PartitionsAsked(), looks),
    }
    for name, way in ways.items():
        looks = KafkaLooks()
        for which in ("first", "again"):
            store.asked = Counter()
            began, cpu = time.perf_counter(), time.process_time()
            way(looks)
            seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
            print(f"| {name}, {which} | {store.asked.total()} | {seconds:.2f} s | {cpu_s:.2f} s |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=10_000)
    given = parser.parse_args()
    what = f"The page of a pipeline: {given.batches:,} batches of {given.partitions:,} partitions"
    print(title(what, by="bench-page"))
    print(f"Each request to the store takes {DELAY_S * 1000:.0f} ms. The time has what Kafka's answer is waited for.\n")
    print("| what | requests | time | of it on the processor |\n|---|---|---|---|", flush=True)
    measure(given.batches, given.partitions)


if __name__ == "__main__":
    main()
