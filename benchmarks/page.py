"""How long the page of a pipeline takes with its log on S3: 10,000 batches of 10,000 partitions, 50 ms a request.

``python -m benchmarks.page [--batches 10000] [--partitions 10000]``. The log lies in files, which an S3 server over
files hands out (``testbed/s3_files.py``), behind a network of 25 ms each way. The page opens its store as a request of
a browser does, so the work of s3fs and botocore is in the time. Commits are 1.3 GB. Each batch has a plan and reports
of full size, too, which are one file under many names.

The cluster is one in memory, asked in the background as a real one is, ten seconds after the look before: how long
a broker takes for 10,000 partitions is not in it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_kafka_offsets.batch.pipeline_status import NextRun
from airflow_kafka_offsets.hooks.work_store import store_of_airflow
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.page.dag_pipelines import PagePipeline, look_at_newest
from airflow_kafka_offsets.page.kafka_look import NOT_OFTENER_S, KafkaLooks
from airflow_kafka_offsets.page.partition_page import partitions_view
from airflow_kafka_offsets.page.pipeline_page import pipeline_view
from airflow_kafka_offsets.page.views import BatchesAsked, PartitionsAsked
from airflow_kafka_offsets.plan.position import position_after
from airflow_kafka_offsets.stores.objects import decode
from benchmarks.audit import PER_BATCH
from benchmarks.measured import title
from benchmarks.slow_s3 import DELAY_MS, STORE, slow_s3
from tests.builders import PIPELINE, planned, tp
from tests.cluster.memory import InMemoryCluster
from tests.model.store import MemoryStore
from tests.stores.builders import commit, key_of, plan_of, read

TOPIC = "orders"
PROMISED_S = 1.0
_ROUNDS = 9


def lay_log(root: Path, batches: int, partitions: int) -> None:
    """The log of one committed batch, as that of many: each has its number and its key, and the same offsets."""
    store = MemoryStore()
    log = PipelineLog(store, PIPELINE)
    rows = [planned(n, 0, PER_BATCH) for n in range(partitions)]
    begun = log.begin(1, Planned(plan_of(1, rows)))
    assert begun is not None
    read(begun)
    done = commit(begun, begun.log.plan.resolved_at_ms + 31_000)
    assert position_after(done.log.plan, None) == done.log.position
    objects = {name.rpartition("/")[2]: data for name, data in store.objects.items()}
    committed = decode(objects.pop("2.json"))
    rest = json.dumps({**committed, "summary": None}, separators=(",", ":"))
    for number in range(1, batches + 1):
        folder = root / log.folder_of(number)
        folder.mkdir(parents=True)
        for name, data in objects.items():
            same = root.parent / name
            if not same.exists():
                same.write_bytes(data)
            os.link(same, folder / name)
        summary = {**committed["summary"], "key": key_of(number), "number": number}
        summary["planned_ms"] += number * 3_600_000
        body = rest.replace('"summary":null', f'"summary":{json.dumps(summary)}')[:-1].encode()
        digest = hashlib.sha256(body).hexdigest().encode()
        (folder / "2.json").write_bytes(body + b',"sha256":"%s"}' % digest)


def cluster_of(partitions: int) -> InMemoryCluster:
    cluster = InMemoryCluster("cluster-1")
    cluster.create_topic("__consumer_offsets")
    cluster.create_topic(TOPIC, partitions)
    cluster.topics[TOPIC].topic_id = f"id-of-{TOPIC}"  # as the plan has it
    for number in range(partitions):
        cluster.produce(tp(number), [1_795_168_800_000] * (PER_BATCH + number % 3))
    return cluster


@dataclass
class LaterClock:
    later_s: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.later_s


def measure(batches: int, partitions: int, rounds: int) -> float:
    """:returns: the fastest of the page's times."""
    cluster = cluster_of(partitions)

    @contextmanager
    def open_cluster() -> Iterator[InMemoryCluster]:
        yield cluster

    def opened() -> PagePipeline:
        """As a request opens it: whose pipeline it is, its log says."""
        log = PipelineLog(store_of_airflow(STORE), PIPELINE)
        found = look_at_newest(log)
        return PagePipeline("billing", "resolve", log, open_cluster, lambda: NextRun(None, ""), found=found)

    oldest = BatchesAsked(order="oldest first")
    ways: dict[str, Callable[[KafkaLooks], object]] = {
        "the page": lambda looks: pipeline_view(opened(), BatchesAsked(), looks),
        "its 250th page of batches": lambda looks: pipeline_view(opened(), BatchesAsked(page=250), looks),
        "the oldest batches first": lambda looks: pipeline_view(opened(), oldest, looks),
        "from a day on": lambda looks: pipeline_view(opened(), BatchesAsked(find="2027-06-01"), looks),
        "48 batches that are not in a state": lambda looks: pipeline_view(
            opened(), BatchesAsked(state="damaged", find="5000"), looks
        ),
        "partitions, most left first": lambda looks: partitions_view(opened(), str(batches), PartitionsAsked(), looks),
    }
    fastest = list[float]()
    with slow_s3(lambda root: lay_log(root, batches, partitions)) as server:
        for name, way in ways.items():
            looks = KafkaLooks(clock=(clock := LaterClock()))

            def look(way: Callable[[KafkaLooks], object] = way, looks: KafkaLooks = looks) -> tuple[int, float, float]:
                """:returns: requests, seconds, and seconds of the processor."""
                before, began, cpu = server.asked, time.perf_counter(), time.process_time()
                way(looks)
                took, used = time.perf_counter() - began, time.process_time() - cpu
                return server.asked - before, took, used

            if not fastest:
                asked, took, used = look()
                print(
                    f"| {name}, the first look of the process | {asked} | {took:.2f} s | | {used:.2f} s |", flush=True
                )
            found = []
            for _ in range(rounds):
                clock.later_s += NOT_OFTENER_S
                found.append(look())
            requests, seconds, on_cpu = (sorted(values) for values in zip(*found, strict=True))
            fastest.append(seconds[0])
            times = f"{seconds[0]:.2f} s | {statistics.median(seconds):.2f} s | {statistics.median(on_cpu):.2f} s"
            print(f"| {name} | {requests[-1]} | {times} |", flush=True)
    return fastest[0]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    given = parser.parse_args()
    what = f"The page of a pipeline on S3: {given.batches:,} batches of {given.partitions:,} partitions"
    print(title(what, "s3fs", "aiobotocore", by="bench-page"))
    print(f"Each request to the S3 server takes {DELAY_MS} ms more. A time has what Kafka's answer is waited for:")
    print(
        f"the fastest of {given.rounds} looks in one process, and their median, which has what else the machine does.\n"
    )
    print("| what | requests | fastest | median | of it on the processor |\n|---|---|---|---|---|", flush=True)
    took = measure(given.batches, given.partitions, given.rounds)
    if took > PROMISED_S:
        print(f"The page takes {took:.2f} s, and {PROMISED_S} s are promised.", file=sys.stderr)
    return int(took > PROMISED_S)


if __name__ == "__main__":
    sys.exit(main())
