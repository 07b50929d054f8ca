"""A Spark session and a broker in which both sides of a benchmark read and write, in turn.

Both append to a table that has a first batch of few records, as a job does that runs each hour.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
from confluent_kafka import Producer

from airflow_kafka_offsets.hooks.spark_installation import SHORT_CACHE
from airflow_kafka_offsets.rows.config import Delta, Iceberg, Rows, SinkConfig
from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from airflow_kafka_offsets.spark.source import FETCHES
from airflow_kafka_offsets.store.open import open_store
from benchmarks.measured import Run, say
from benchmarks.outputs import TABLES
from benchmarks.pipeline import Pipeline
from testbed.broker import KafkaBroker
from testbed.jars import avro_jars, delta_jars, iceberg_jars, spark_jars
from testbed.java import find_java
from testbed.spark import spark_conf, spark_env

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("Delta", "Iceberg")
TASKS = "tasks"
"""The part of a run that is the processor time of Spark's tasks."""
FIRST, SHARE_TO_WARM_UP = 10_000, 5
_JVM_OF_BROKER = ("-XX:TieredStopAtLevel=4", "-Xmx1g")  # the testbed's own is for tests of seconds


class Topic(NamedTuple):
    """
    :ivar records: of each partition; ``value_bytes``: of one in the middle.
    """

    partitions: int
    records: int
    value_bytes: int


@dataclass(frozen=True)
class Bench:
    """
    :ivar folder: of the run that is measured, with its tables and its checkpoint location.
    :ivar pid: of Spark's JVM.
    """

    spark: SparkSession
    broker: KafkaBroker
    folder: Path
    pid: int
    numbers: Iterator[int] = field(default_factory=itertools.count)
    topics: dict[str, Topic] = field(default_factory=dict)

    def fill(self, topic: str, partitions: int, records: int, value: Callable[[int], bytes]) -> None:
        """Write a topic. ``value(number)`` is a record's; each partition has the same."""
        each, config = records // partitions, {"linger.ms": 50, "batch.size": 1_000_000, "acks": "1"}
        producer = Producer({**self.broker.client_config, **config, "queue.buffering.max.messages": 2_000_000})
        self.broker.create_topic(topic, partitions)
        for first in range(0, each, 10_000):
            values = [value(number) for number in range(first, min(first + 10_000, each))]
            for partition in range(partitions):
                messages: list[dict[str, Any]] = [{"value": value} for value in values]
                while messages:
                    with suppress(BufferError):
                        producer.produce_batch(topic, messages, partition=partition)
                    messages = [message for message in messages if message.pop("_error", None) is not None]
                    producer.poll(0.5 if messages else 0)
        if producer.flush(300) or self.broker.offset_bounds(topic) != dict.fromkeys(range(partitions), (0, each)):
            raise RuntimeError(f"{topic} was not filled")
        self.topics[topic] = Topic(partitions, each, len(value(each // 2)))
        say(f"{topic}: {records:,} records")

    def rest(self) -> None:
        """Let the machine rest: what the run before has left is not the next one's to clear away."""
        self.spark.sparkContext._jvm.java.lang.System.gc()
        os.sync()

    def new_table(self, kind: str, name: str = "rows") -> SinkConfig:
        """A table that is not there yet, under a name that nothing in the session remembers."""
        number = next(self.numbers)
        return Delta(f"{self.folder}/{name}_{number}") if kind == "Delta" else Iceberg(f"lake.bench.{name}_{number}")

    def clear(self) -> None:
        """Remove what the run before has left."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "checkpoint").mkdir(parents=True)

    def ours(self, topic: str, kind: str, rows: Callable[[], Rows] | None = None) -> Callable[[Run], None]:
        """The job of this package. What it has written is committed afterwards, so it was verified."""

        def do(run: Run) -> None:
            self.clear()
            store = open_store(f"file://{self.folder}/checkpoint")
            pipeline = Pipeline(self.broker.bootstrap_servers, {"topics": [topic]}, store)
            pipeline.give_job(self.new_table(kind), rows and rows())
            for most, is_measured in ((self.first(topic), False), (self.last(topic, run), True)):
                work = pipeline.resolve(max_records=most * self.topics[topic].partitions)
                self.rest()
                with self.measured(run) if is_measured else nullcontext():
                    write_batch(self.spark, pipeline.arguments(work))
                pipeline.commit(work)

        return do

    def by_hand(
        self, topic: str, kind: str, rows: Callable[[DataFrame], DataFrame], fetches: Mapping[str, str] = FETCHES
    ) -> Callable[[Run], None]:
        """The same ranges read by Spark's source, into such a table. It counts nothing."""

        def do(run: Run) -> None:
            self.clear()
            table, first = self.new_table(kind), self.first(topic)
            name = f"delta.`{table.path_or_table}`" if isinstance(table, Delta) else table.table
            rows(self.read(topic, 0, first, fetches)).writeTo(name).using(kind.lower()).create()
            self.rest()
            with self.measured(run):
                rows(self.read(topic, first, first + self.last(topic, run), fetches)).writeTo(name).append()

        return do

    def read(self, topic: str, start: int, end: int, fetches: Mapping[str, str]) -> DataFrame:
        """These offsets of each partition."""
        partitions = range(self.topics[topic].partitions)
        which = {
            "assign": json.dumps({topic: [*partitions]}),
            "startingOffsets": json.dumps({topic: dict.fromkeys(partitions, start)}),
            "endingOffsets": json.dumps({topic: dict.fromkeys(partitions, end)}),
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
        }
        return self.spark.read.format("kafka").options(**fetches, **which).load()

    def first(self, topic: str) -> int:
        """How many records of each partition the first batch has, which makes the table."""
        return FIRST // self.topics[topic].partitions

    def last(self, topic: str, run: Run) -> int:
        """How many the batch has that is measured: all others, or a part of them to warm up."""
        return (self.topics[topic].records - self.first(topic)) // (SHARE_TO_WARM_UP if run.warms_up else 1)

    def per_core(self, topic: str, seconds: float) -> tuple[str, str]:
        """How many records and megabytes of values that is, in a second a core."""
        topic_, cores = self.topics[topic], psutil.cpu_count() or 1
        records = (topic_.records - self.first(topic)) * topic_.partitions / seconds / cores
        return f"{records:,.0f}", f"{records * topic_.value_bytes / 1e6:.1f}"

    @contextmanager
    def measured(self, run: Run) -> Iterator[None]:
        """Time the block, and the processor time of the tasks that it starts."""
        before = self._tasks_s()
        with run:
            yield
        run.parts[TASKS] = self._tasks_s() - before

    def _tasks_s(self) -> float:
        context = self.spark.sparkContext
        context._jsc.sc().listenerBus().waitUntilEmpty()
        stages = (
            context._jsc.sc()
            .statusStore()
            .stageList(None, False, False, context._gateway.new_array(context._jvm.double, 0), None)
        )
        return sum(stages.apply(n).executorCpuTime() for n in range(stages.size())) / 1e9


@contextmanager
def started() -> Iterator[Bench]:
    java = find_java(say)
    os.environ.update(spark_env(java))
    from pyspark.sql import SparkSession

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))) / "run"
        broker = stack.enter_context(KafkaBroker(jvm=_JVM_OF_BROKER, java=java, say=say))
        settings = {
            **spark_conf(
                [*spark_jars(java, say), *avro_jars(java, say), *delta_jars(java, say), *iceberg_jars(java, say)]
            ),
            **TABLES,
            **SHORT_CACHE,
            "spark.sql.catalog.lake.warehouse": f"{folder}/iceberg",
            "spark.driver.memory": "2g",
            "spark.log.level": "OFF",  # a table that is not there yet is an error to Delta
            "spark.ui.showConsoleProgress": "false",
            "spark.ui.retainedStages": "100000",  # their processor time is added up
        }
        spark = SparkSession.builder.appName("bench").config(map=settings).getOrCreate()
        stack.callback(_end, spark)
        pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
        yield Bench(spark, broker, folder, int(pid))


def _end(spark: SparkSession) -> None:
    """End Spark with its JVM: PySpark would keep it, and what it holds, for the next session."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # what a JVM of PySpark's waits for
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None
