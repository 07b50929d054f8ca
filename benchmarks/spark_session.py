"""A Spark session and a broker in which both sides of a benchmark read and write, in turn."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.rows.config import Delta, Iceberg, Rows, SinkConfig
from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from airflow_kafka_offsets.spark.source import FETCHES
from airflow_kafka_offsets.store.open import open_store
from benchmarks.measured import Run, say
from benchmarks.outputs import TABLES
from benchmarks.pipeline import Pipeline
from testbed.broker import KafkaBroker
from testbed.jars import delta_jars, iceberg_jars, spark_jars
from testbed.java import find_java
from testbed.spark import spark_conf, spark_env

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("Delta", "Iceberg")
_JVM_OF_BROKER = ("-XX:TieredStopAtLevel=4", "-Xmx1g")  # the testbed's own is for tests of seconds


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

    def fill(self, topic: str, partitions: int, records: int, value: Callable[[int, int], bytes]) -> None:
        """Write a topic. ``value(partition, number)`` is a record's, numbered in its partition."""
        each, config = records // partitions, {"linger.ms": 50, "batch.size": 1_000_000, "acks": "1"}
        producer = Producer({**self.broker.client_config, **config, "queue.buffering.max.messages": 2_000_000})
        self.broker.create_topic(topic, partitions)
        for first in range(0, each, 10_000):
            for partition in range(partitions):
                numbers = range(first, min(first + 10_000, each))
                messages: list[dict[str, Any]] = [{"value": value(partition, number)} for number in numbers]
                while messages:
                    with suppress(BufferError):
                        producer.produce_batch(topic, messages, partition=partition)
                    messages = [message for message in messages if message.pop("_error", None) is not None]
                    producer.poll(0.5 if messages else 0)
        if producer.flush(300) or self.broker.offset_bounds(topic) != dict.fromkeys(range(partitions), (0, each)):
            raise RuntimeError(f"{topic} was not filled")
        say(f"{topic}: {records:,} records")

    def plan(self, topic: str, sink: SinkConfig, rows: Rows | None = None) -> tuple[Pipeline, ResolvedBatch]:
        """A pipeline's first batch, which is the whole topic; and the rest of the machine at rest."""
        store = open_store(f"file://{self.folder}/checkpoint")
        pipeline = Pipeline(self.broker.bootstrap_servers, {"topics": [topic]}, store)
        pipeline.give_job(sink, rows)
        work = pipeline.resolve()
        self.spark.sparkContext._jvm.java.lang.System.gc()
        os.sync()  # what the run before has written is not this one's to wait for
        return pipeline, work

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
            pipeline, work = self.plan(topic, self.new_table(kind), rows and rows())
            with run:
                write_batch(self.spark, pipeline.arguments(work))
            pipeline.commit(work)

        return do

    def by_hand(self, topic: str, kind: str, rows: Callable[[DataFrame], DataFrame]) -> Callable[[Run], None]:
        """The same ranges read by Spark's source with the same fetch settings, into such a table. It counts nothing."""

        def do(run: Run) -> None:
            self.clear()
            table = self.new_table(kind)
            _, work = self.plan(topic, table)
            offsets = work.offset_options()
            which = {
                "assign": offsets["assign"],
                "startingOffsets": offsets["starting_offsets"],
                "endingOffsets": offsets["ending_offsets"],
                "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            }
            with run:
                records = self.spark.read.format("kafka").options(**FETCHES, **which).load()
                if isinstance(table, Delta):
                    rows(records).write.format("delta").save(table.path_or_table)
                else:
                    rows(records).writeTo(table.table).using("iceberg").create()

        return do


@contextmanager
def started() -> Iterator[Bench]:
    java = find_java(say)
    os.environ.update(spark_env(java))
    from pyspark.sql import SparkSession

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))) / "run"
        broker = stack.enter_context(KafkaBroker(jvm=_JVM_OF_BROKER, java=java, say=say))
        settings = {
            **spark_conf([*spark_jars(java, say), *delta_jars(java, say), *iceberg_jars(java, say)]),
            **TABLES,
            "spark.sql.catalog.lake.warehouse": f"{folder}/iceberg",
            "spark.driver.memory": "2g",
            "spark.log.level": "OFF",  # a table that is not there yet is an error to Delta
            "spark.ui.showConsoleProgress": "false",
        }
        spark = SparkSession.builder.appName("bench").config(map=settings).getOrCreate()
        stack.callback(spark.stop)
        pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
        yield Bench(spark, broker, folder, int(pid))
