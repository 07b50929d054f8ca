"""What a run asks of a work store on S3, counted at the server: the same at the ten thousandth run as at the tenth.

``python benchmarks/store_requests.py [--quick]`` (``make bench-store``) starts an S3 server with a proxy before it,
fills a pipeline with batches, another one with windows, and prints what a resolve, a driver and a commit ask for.
The cluster is one in memory, so that only the store's requests are counted. Airflow's side asks through s3fs, a driver
through Spark's s3a. ``--quick`` fills 300 batches and windows instead of 10,000.

It ends with an error if a cost grows with the history or is above its limit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from airflow_kafka_offsets.kafka_values import RunKey, TopicPartition
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.plan.plan import BatchName, new_key
from airflow_kafka_offsets.plan.window_claims import TimeClaim, batch_name_of
from airflow_kafka_offsets.spark.job_batch import planned_batch
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.stores.object_store import ObjectStore
from airflow_kafka_offsets.stores.store import Store
from benchmarks.store_time import StoreTime
from testbed.http_proxy import HttpProxy, Request
from testbed.jars import s3a_jars
from testbed.java import find_java
from testbed.s3_server import KEY, SECRET, S3Server
from testbed.spark import s3a_conf, spark_conf, spark_env
from tests.builders import job_arguments
from tests.cluster.memory import InMemoryCluster
from tests.contract.pipeline import Pipeline, Run
from tests.model.store import MemoryStore
from tests.stores.builders import as_it_is_now

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKET, TOPIC, OUTPUT = "work-stores", "orders", "s3://lake/orders"
PARTITIONS = 100
HOUR = 3_600_000
BEGIN_MS = 1_600_000_000_000 // HOUR * HOUR
NOW_MS = BEGIN_MS + 20_000 * HOUR
DELAY_S, STORE_S = 0.05, 0.7
KINDS = ("LIST", "GET", "HEAD", "PUT", "DELETE")


@dataclass
class Cost:
    """What was asked while something was done.

    :ivar seconds: how long the store was waited for, where that was measured.
    """

    requests: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    received: int = 0
    seconds: float = 0.0

    @property
    def total(self) -> int:
        return self.requests.total()

    def row(self, what: str, limit: int) -> str:
        kinds = "".join(f"{self.requests[kind]:>7}" for kind in KINDS)
        return f"{what:<40}{self.total:>6}{limit:>7}{kinds}{self.sent / 1024:>9.1f}{self.received / 1024:>9.1f}"


HEAD = f"{'':<40}{'all':>6}{'limit':>7}{''.join(f'{kind:>7}' for kind in KINDS)}{'KiB out':>9}{'KiB in':>9}"


class Bench:
    """The server, what stands before it, and what was found too dear."""

    def __init__(self, server: S3Server, proxy: HttpProxy, spark: SparkSession) -> None:
        self._server, self.proxy, self.spark = server, proxy, spark
        self.too_dear: list[str] = []

    def store(self, name: str, endpoint: str | None = None) -> ObjectStore:
        import s3fs

        system = s3fs.S3FileSystem(
            key=KEY,
            secret=SECRET,
            endpoint_url=endpoint or self.proxy.url,
            client_kwargs={"region_name": "us-east-1"},
            skip_instance_cache=True,
            max_concurrency=32,
        )
        return ObjectStore(system, location_of(f"s3://{BUCKET}/{name}"))

    def fill(self, name: str, objects: dict[str, bytes]) -> None:
        """Put objects into a store, past the proxy."""
        began, store = time.perf_counter(), self.store(name, self._server.endpoint)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda item: store.create(*item), objects.items()))
        print(f"  {len(objects)} objects written in {time.perf_counter() - began:.0f} s", flush=True)

    @contextmanager
    def cost(self, delay_s: float = 0.0) -> Iterator[Cost]:
        found, before = Cost(), len(self.proxy.seen)
        self.proxy.delay_s = delay_s
        yield found
        self.proxy.delay_s = 0.0
        for request in self.proxy.seen[before:]:
            found.requests[kind_of(request)] += 1
            found.sent += request.sent
            found.received += request.received

    def show(self, what: str, cost: Cost, limit: int) -> None:
        print(cost.row(what, limit), flush=True)
        if cost.total > limit:
            self.too_dear.append(f"{what}: {cost.total} requests, and {limit} are allowed")

    def same(self, what: str, costs: Iterable[Cost]) -> None:
        found = [dict(sorted(cost.requests.items())) for cost in costs]
        if any(one != found[0] for one in found):
            self.too_dear.append(f"{what}: the cost is not the same: {found}")


def kind_of(request: Request) -> str:
    return "LIST" if request.method == "GET" and "list-type=" in request.path else request.method


def spark_on(endpoint: str) -> SparkSession:
    from pyspark.sql import SparkSession

    java = find_java(print)
    os.environ.update(spark_env(java))
    settings = {**spark_conf(s3a_jars(java, print)), **s3a_conf(endpoint), "spark.log.level": "ERROR"}
    return SparkSession.builder.appName("store requests").config(map=settings).getOrCreate()


# ── the pipelines ─────────────────────────────────────────────────────────────────────────────────────────────────────


def new_pipeline(store: Store, name: str, *, windows: bool = False) -> Pipeline:
    cluster = InMemoryCluster()
    cluster.create_topic("__consumer_offsets")
    cluster.create_topic(TOPIC, PARTITIONS)
    modes = (
        {"startup_mode": "timestamp", "bounded_mode": "timestamp"} if windows else {"startup_mode": "earliest-offset"}
    )
    return Pipeline(cluster, store, TOPIC, name, {**modes, "output_name": f"{OUTPUT}/{name}"}, name, now_ms=NOW_MS)


def produce(pipeline: Pipeline, at_ms: int = NOW_MS) -> None:
    for partition in range(PARTITIONS):
        pipeline.cluster.produce(TopicPartition(TOPIC, partition), [at_ms])


def window(hour: int) -> TimeClaim:
    return TimeClaim(BEGIN_MS + hour * HOUR, BEGIN_MS + (hour + 1) * HOUR)


def batches_up_to(pipeline: Pipeline, first: StoredBatch, number: int) -> None:
    """Committed batches after ``first``, each as that one was, by the log's own means."""
    log, planned, committed = pipeline.log, first.log.planned, first.log.committed
    newest = log.newest()
    assert committed is not None
    assert newest is not None
    last = newest.log.plan.batch
    assert last is not None
    assert last.number is not None
    before = last.key
    for n in range(last.number + 1, number + 1):
        run = RunKey("dag", f"scheduled-{n}", "resolve")
        name = BatchName(new_key(n, NOW_MS, "k3f9"), n, before)
        plan = replace(planned.plan, batch=name, by=replace(planned.by, run=run))
        batch = log.begin(n, Planned(plan, committed.position))
        assert batch is not None
        log.bind(run, batch)
        batch.append(replace(committed, plan_id=plan.plan_id))
        before = name.key


def windows_up_to(pipeline: Pipeline, first: StoredBatch, number: int) -> None:
    log, plan, committed = pipeline.log, first.log.plan, first.log.committed
    assert committed is not None
    for hour in range(1, number):
        claim = window(hour)
        bounds = claim.start_ms, claim.end_ms
        asked = replace(plan.asked, window_bounds=bounds)
        made = replace(plan, batch=batch_name_of(claim, pipeline.pipeline_id), asked=asked)
        batch = log.begin_window(claim.name, 1, Planned(made))
        assert batch is not None
        log.claim(claim.name, claim.places, 1)
        batch.append(replace(committed, plan_id=made.plan_id))


# ── what is measured ──────────────────────────────────────────────────────────────────────────────────────────────────


def drive(bench: Bench, run: Run, split: int) -> Cost:
    """As a job does it, without reading Kafka: find the plan, begin, look, write, report."""
    job = run.job(split)
    arguments = job_arguments(job.plan_object, job.plan.plan_id, split, run.pipeline.store.driver_uri)
    with bench.cost() as cost:
        batch = planned_batch(arguments, bench.spark)
        replace(job, pipeline=replace(run.pipeline, store=batch.store)).begin().write().report()
    return cost


def measure(bench: Bench, pipeline: Pipeline, name: str, splits: int = 1, **how: Any) -> tuple[Cost, list[Cost], Cost]:
    with bench.cost() as resolve:
        run = pipeline.resolve(name, splits=splits, **how)
    drivers = [drive(bench, run, split) for split in run.splits]
    with bench.cost() as commit:
        run.commit()
    return resolve, drivers, commit


def show(bench: Bench, title: str, found: tuple[Cost, list[Cost], Cost]) -> None:
    resolve, drivers, commit = found
    splits = len(drivers)
    bench.show(f"{title}: resolve", resolve, 12)
    bench.show(f"{title}: a driver", max(drivers, key=lambda cost: cost.total), 7)  # s3a: a HEAD
    bench.show(f"{title}: commit", commit, 14 + 2 * splits)


def on_s3(bench: Bench, memory: MemoryStore, pipeline: Pipeline) -> Pipeline:
    """The pipeline on S3, with the history that it has in memory."""
    name = pipeline.pipeline_id
    bench.fill(name, memory.objects)
    store = bench.store(name)
    store.list("")  # the first request asks whether the bucket is there
    return replace(pipeline, store=store)


def log_of_batches(bench: Bench, numbers: list[int]) -> None:
    found = {}
    for number in numbers:
        memory = MemoryStore()
        pipeline = new_pipeline(memory, f"runs-{number}")
        produce(pipeline)
        first = as_it_is_now(pipeline.run("first").batch)
        batches_up_to(pipeline, first, number - 1)
        produce(pipeline)
        pipeline = on_s3(bench, memory, pipeline)
        found[number] = measure(bench, pipeline, f"run {number}")
        show(bench, f"run {number}", found[number])
        if number == numbers[0]:  # the testbed's server looks through all that it holds to list a folder; S3 does not
            measure_delay(bench, pipeline)
    for place, what in enumerate(("resolve", "driver", "commit")):
        flat = [costs[place] for costs in found.values()]
        bench.same(what, [cost[0] if isinstance(cost, list) else cost for cost in flat])


def measure_delay(bench: Bench, pipeline: Pipeline) -> None:
    delayed = min((delayed_resolve(bench, pipeline, name) for name in "abc"), key=lambda cost: cost.seconds)
    line = f"resolve, with {DELAY_S * 1000:.0f} ms a request: {delayed.seconds:.2f} s of store time"
    print(f"{line} ({delayed.total} requests)", flush=True)
    if delayed.seconds > STORE_S:
        bench.too_dear.append(f"{line}, and {STORE_S} s are allowed")


def delayed_resolve(bench: Bench, pipeline: Pipeline, name: str) -> Cost:
    """A resolve behind a slow network; its seconds are those in which it waits for the store, not those it computes."""
    produce(pipeline)
    timed = StoreTime(pipeline.store)
    with bench.cost(DELAY_S) as cost:
        run = replace(pipeline, store=timed).resolve(f"delayed {name}")
    cost.seconds = timed.seconds
    replace(run, pipeline=pipeline).done()
    return cost


def window_among(bench: Bench, number: int) -> None:
    memory = MemoryStore()
    pipeline = new_pipeline(memory, "windows", windows=True)
    for hour in (0, number):
        produce(pipeline, BEGIN_MS + hour * HOUR + 1)

    def bounds(hour: int) -> dict[str, Any]:
        return {"startup_timestamp": window(hour).start_ms, "bounded_timestamp": window(hour).end_ms}

    first = as_it_is_now(pipeline.run("first", **bounds(0)).batch)
    windows_up_to(pipeline, first, number)
    pipeline = on_s3(bench, memory, pipeline)
    show(bench, f"a window among {number}", measure(bench, pipeline, "window", **bounds(number)))


def splits_of(bench: Bench, count: int) -> None:
    memory = MemoryStore()
    pipeline = new_pipeline(memory, f"splits-{count}")
    produce(pipeline)
    pipeline.run("first")
    produce(pipeline)
    show(bench, f"{count} splits", measure(bench, on_s3(bench, memory, pipeline), "split", splits=count))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    history = 300 if parser.parse_args().quick else 10_000
    with S3Server(say=print) as server, HttpProxy(server.endpoint) as proxy:
        server.create_bucket(BUCKET)
        bench = Bench(server, proxy, spark_on(proxy.url))
        print(HEAD)
        log_of_batches(bench, [10, history // 10, history])
        window_among(bench, history)
        splits_of(bench, PARTITIONS)
    for line in bench.too_dear:
        print(line, file=sys.stderr)
    return 1 if bench.too_dear else 0


if __name__ == "__main__":
    sys.exit(main())
