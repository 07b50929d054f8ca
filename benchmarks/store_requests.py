"""What a run asks of a checkpoint location and of an output on S3: as much at batch 10,000 as at batch 10.

``python -m benchmarks.store_requests`` (``make bench-store``) starts an S3 server with a proxy before it. It lets the
engine make the history of a pipeline in memory, lays that on the server, and counts what the tasks of the next run ask
for, each task as a process of its own asks: Airflow's side by obstore, the driver by Spark's s3a. The cluster is one in
memory. Drivers and merges with an output are in :mod:`benchmarks.outputs`. ``--quick`` makes a history of 300 batches.
The server needs Go.

It ends with an error if a task asks for more than it may, or for more than at batch 10.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_kafka_offsets.engine.commit import needs_job
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, put_job
from airflow_kafka_offsets.request import Request
from airflow_kafka_offsets.rows.config import Delta
from airflow_kafka_offsets.rows.job import job_object
from airflow_kafka_offsets.spark import Batch, Sink, for_each_batch
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.open import open_store
from airflow_kafka_offsets.store.protocol import Store
from benchmarks import outputs
from benchmarks.measured import options, say, show
from benchmarks.outputs import Outputs
from testbed.http_proxy import HttpProxy
from testbed.jars import delta_jars, iceberg_jars, s3a_jars, spark_jars
from testbed.java import find_java
from testbed.s3_files import S3Files
from testbed.s3_server import KEY, SECRET
from testbed.spark import SHORT_JOBS, SMALL_QUERIES, s3a_conf, spark_conf, spark_env
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, TOPIC, Pipeline, tp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKET, PARTITIONS = "checkpoints", 10
BEGIN_MS = 1_600_000_000_000 // HOUR * HOUR
LIMITS = {"resolve": 14, "Spark task, before it submits": 3, "driver": 10, "commit": 14}
"""The driver's: a list of the batch's folder, the header, the body, the job object (and its size), begun, a list
behind it, a list by the sink before it writes, a list before the report, the report."""
VERBS = ("LIST", "GET", "HEAD", "PUT", "DELETE")
JOB = job_object(Delta("/lake/orders"))


class FilledStore(MemoryStore):
    """In memory, and quick to list however many objects there are."""

    def __init__(self) -> None:
        super().__init__()
        self.folders: dict[str, set[str]] = {}

    def create(self, name: str, data: bytes) -> bool:
        folder = ""
        for part in name.split("/")[:-1]:
            self.folders.setdefault(folder, set()).add(f"{part}/")
            folder = f"{folder}/{part}".lstrip("/")
        self.folders.setdefault(folder, set()).add(name.rpartition("/")[2])
        return super().create(name, data)

    def list(self, folder: str) -> list[str]:
        return sorted(self.folders.get(folder, ()))


class InSequence:
    """A pipeline whose batches follow each other."""

    kind = "in sequence"

    def __init__(self) -> None:
        cluster = InMemoryCluster(now_ms=BEGIN_MS)
        cluster.create_topic(TOPIC, PARTITIONS)
        self.pipeline = Pipeline(cluster, store=FilledStore(), output=JOB["output"])
        put_job(self.pipeline.log, JOB)

    def make_batch(self, number: int) -> None:
        """A whole run of the history."""
        self.pipeline.whole_run(want=self.request(number))

    def request(self, number: int) -> Request:
        """What the run of batch ``number`` asks for, with a record in each partition."""
        self.produce()
        return self.pipeline.request()

    def produce(self) -> None:
        for partition in range(PARTITIONS):
            self.pipeline.cluster.produce(tp(partition), [self.pipeline.cluster.now_ms])


class ByWindow(InSequence):
    """A pipeline with a batch for each hour. Those of the history are empty: the cluster in memory looks through all
    its records for a time."""

    kind = "by window"

    def make_batch(self, number: int) -> None:
        self.pipeline.whole_run(want=self._hour(number))

    def request(self, number: int) -> Request:
        self.pipeline.cluster.now_ms = BEGIN_MS + number * HOUR - 1
        self.produce()
        return self._hour(number)

    def _hour(self, number: int) -> Request:
        self.pipeline.cluster.now_ms = BEGIN_MS + number * HOUR
        return self.pipeline.window(BEGIN_MS + (number - 1) * HOUR, BEGIN_MS + number * HOUR)


@dataclass
class Server:
    """The S3 server, and the proxy that counts.

    :ivar bucket: the server's folder of it.
    """

    bucket: Path
    proxy: HttpProxy
    spark: SparkSession
    asked: dict[str, Counter[str]] = field(default_factory=dict)

    def open(self, folder: str) -> Store:
        """As a process of its own opens it."""
        keys = {"access_key_id": KEY, "secret_access_key": SECRET, "region": "us-east-1"}
        return open_store(f"s3://{BUCKET}/{folder}", lambda _: {"endpoint": self.proxy.url, **keys})

    def fill(self, folder: str, objects: dict[str, bytes]) -> None:
        """Lay the history there as files, with the entity tags that the server gives to objects."""
        for name, data in objects.items():
            file = self.bucket / folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            os.setxattr(file, "user.etag", b'"%s"' % hashlib.md5(data).hexdigest().encode())

    @contextmanager
    def counting(self, task: str) -> Iterator[None]:
        before = len(self.proxy.seen)
        yield
        self.asked[task] = Counter(verb_of(r.method, r.path) for r in self.proxy.seen[before:])

    def run(self, pipeline: Pipeline, want: Request, folder: str) -> dict[str, Counter[str]]:
        """The tasks of one run. What each asked for, by verb."""

        def opened() -> Pipeline:
            return replace(pipeline, store=self.open(folder))

        self.asked = {}
        with self.counting("resolve"):
            work = opened().work(want=want)
            digest = put_job(work.log, JOB)
        given = work.given(job=digest)
        with self.counting("Spark task, before it submits"):
            needs_job(given, PipelineLog(self.open(folder), given.pipeline), pipeline.cluster)
        with self.counting("driver"):
            for_each_batch(self.spark, NoSink(), work.arguments("nowhere:9092", digest))
        with self.counting("commit"):
            opened().commit(work, job=digest)
        return self.asked


@dataclass(frozen=True)
class NoSink(Sink):
    """A sink that looks when it should, and reads back what it never wrote."""

    output: str = JOB["output"]

    def write(self, batch: Batch, rows: DataFrame) -> DataFrame:
        batch.look()
        return outputs.planned_rows(batch)


def verb_of(method: str, path: str) -> str:
    return "LIST" if method == "GET" and "list-type=" in path else method


def spark_on(endpoint: str) -> SparkSession:
    from pyspark.sql import SparkSession

    java = find_java(say)
    os.environ.update(spark_env(java) | SHORT_JOBS)  # nothing is timed
    jars = [jar for of in (spark_jars, s3a_jars, delta_jars, iceberg_jars) for jar in of(java, say)]
    settings = {**spark_conf(jars), **SMALL_QUERIES, **s3a_conf(endpoint), **outputs.SETTINGS}
    settings |= {"spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false"}
    return SparkSession.builder.appName("store requests").config(map=settings).getOrCreate()


def measure(server: Server, history: InSequence, number: int) -> dict[str, Counter[str]]:
    """What the run of batch ``number`` asks for."""
    began = time.perf_counter()
    for earlier in range(1, number):
        history.make_batch(earlier)
    folder = f"{history.kind.replace(' ', '-')}-{number}"
    assert isinstance(history.pipeline.store, FilledStore)
    server.fill(folder, history.pipeline.store.objects)
    say(f"{history.kind}: {number - 1:,} batches are there after {time.perf_counter() - began:.0f} s")
    return server.run(history.pipeline, history.request(number), folder)


def problems(task: str, few: Counter[str], many: Counter[str]) -> Iterator[str]:
    if few != many:
        yield f"{task}: the cost is not the same after many batches: {dict(few)}, {dict(many)}"
    if many.total() > LIMITS[task]:
        yield f"{task}: {many.total()} requests, and {LIMITS[task]} are allowed: {dict(many)}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__)
    parser.add_argument("--quick", action="store_true", help="a history of 300 batches")
    asked = parser.parse_args(arguments)
    numbers = (10, 300 if asked.quick else 10_000)
    rows: list[tuple[object, ...]] = []
    dear: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-store-") as folder,
        S3Files(Path(folder) / "buckets", say, metadata=True) as s3,
        HttpProxy(s3.endpoint) as proxy,
    ):
        for bucket in (BUCKET, outputs.BUCKET):
            s3.create_bucket(bucket)
        server = Server(s3.folder / BUCKET, proxy, spark_on(proxy.url))
        for kind in (InSequence, ByWindow):
            few, many = (measure(server, kind(), number) for number in numbers)
            for task, limit in LIMITS.items():
                verbs = ", ".join(f"{many[task][verb]} {verb}" for verb in VERBS if many[task][verb])
                rows.append((kind.kind, f"{task}: requests", few[task].total(), many[task].total(), limit, verbs))
                dear += [f"{kind.kind}, {problem}" for problem in problems(task, few[task], many[task])]
        lake = Outputs(server.spark, proxy.seen, Path(folder) / "checkpoints")
        for kind_of_output in outputs.KINDS:
            asked_first, asked_last = (lake.measure(kind_of_output, number) for number in numbers)
            for task, counts in asked_last.items():
                for what, count in counts.items():
                    most = asked_first[task][what]
                    rows.append((f"into {kind_of_output}", f"{task}: {what}", most, count, most, ""))
                    if count > most:
                        dear.append(f"into {kind_of_output}, {task}: {count} {what}, and {most} at batch {numbers[0]}")
    columns = ("pipeline", "task", f"batch {numbers[0]}", f"batch {numbers[1]:,}", "at most", "of which")
    sentence = "Nothing that a run asks of its checkpoint location and its output grows with the batches before it."
    show("store_requests", "What a run asks of S3", columns, rows, sentence, "obstore", "pyspark",
         write=asked.write)  # fmt: skip
    print(*dear, sep="\n", file=sys.stderr)
    return 1 if dear else 0


if __name__ == "__main__":
    sys.exit(main())
