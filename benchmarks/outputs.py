"""What a driver asks of an output that has many batches: files, requests, and calls to its JVM.

The output is on an S3 server. Its history is made in a few commits, in files of many batches each. The driver is the
packaged one, with rows of its planned offsets in place of Kafka's records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from airflow_kafka_offsets.rows.config import Delta, Iceberg, Merge, SinkConfig
from airflow_kafka_offsets.rows.job import job_object
from airflow_kafka_offsets.spark import Batch, Sink, for_each_batch
from airflow_kafka_offsets.spark.batch import Written
from airflow_kafka_offsets.spark.count import observe, observed
from airflow_kafka_offsets.spark.merge import merge_batches
from airflow_kafka_offsets.spark.plan import Plan
from airflow_kafka_offsets.spark.sinks import plain_sink
from airflow_kafka_offsets.spark.sinks.table import TableSink
from testbed.http_proxy import Request
from tests.spark.plans import PlannedBatch, Plans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKET, FILES, PARTITIONS = "lake", 50, 10
TABLES = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}
SETTINGS = {
    **TABLES,
    "spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore",
    "spark.sql.catalog.lake.warehouse": f"s3a://{BUCKET}/iceberg",
}
KINDS: Mapping[str, tuple[Callable[[str], SinkConfig], str]] = {
    "Delta": (Delta, f"s3a://{BUCKET}/delta/to_{{}}"),
    "Iceberg": (Iceberg, "lake.db.to_{}"),
}


@dataclass(frozen=True)
class Planned(Sink):
    """A sink that is given a row for each planned offset, whatever Kafka has."""

    sink: TableSink

    @property
    def output(self) -> str:  # type: ignore[override]
        return self.sink.output

    def check(self, spark: SparkSession, plan: Plan) -> None:
        self.sink.check(spark, plan)

    def look(self, spark: SparkSession, plan: Plan) -> None:
        self.sink.look(spark, plan)

    def write(self, batch: Batch, rows: DataFrame) -> Written:
        made, observation = observe(planned_rows(batch))
        return replace(self.sink.write(batch, made), seen=observed(observation))


def planned_rows(batch: Batch) -> DataFrame:
    offsets = [(r.topic, r.partition, offset) for r in batch.ranges for offset in range(r.start, r.end)]
    rows = batch.spark.createDataFrame(offsets, "topic STRING, partition INT, offset BIGINT")
    return rows.selectExpr("*", "CAST(partition AS STRING) AS id").coalesce(1)


@dataclass(frozen=True)
class Outputs:
    """
    :ivar seen: the requests that the server has had.
    :ivar checkpoints: a folder.
    """

    spark: SparkSession
    seen: list[Request]
    checkpoints: Path

    def measure(self, kind: str, number: int) -> dict[str, dict[str, int]]:
        """What the driver of batch ``number`` asks for and, behind its commit, a merge; by task and what is counted."""
        output, place = KINDS[kind][0], KINDS[kind][1].format(number)
        job = job_object(output(place), merge=Merge(f"{place}_entities", ["id"]))
        sink = plain_sink(job["sink"], job["output"])
        plans = Plans(self.checkpoints / f"{kind}-{number}", "nowhere:9092")

        def run(batch: PlannedBatch) -> dict[str, dict[str, int]]:
            arguments = batch.arguments(batch.job(job))
            asked = {"driver": self._counted(lambda: for_each_batch(self.spark, Planned(sink), arguments))}
            assert batch.problems() == []
            batch.append("commit", output=job["output"], snapshot=None)
            asked["merge"] = self._counted(lambda: merge_batches(self.spark, arguments))
            return asked

        run(_planned(plans, 1))
        self._add_rows(sink, _planned(plans, number - 1))
        return run(_planned(plans, number))

    def _counted(self, work: Callable[[], object]) -> dict[str, int]:
        first, calls = len(self.seen), Counter[bool]()
        with counting_calls(self.spark, calls):
            work()
        asked = self.seen[first:]
        read = {unquote(r.path) for r in asked if r.method == "GET" and r.path.endswith(".parquet")}
        return {"data files": sum("_delta_log" not in path for path in read), "requests": len(asked),
                "calls to the JVM": calls[True]}  # fmt: skip

    def _add_rows(self, sink: TableSink, last: PlannedBatch) -> None:
        """Batches 2 to ``last``, in one commit and in files of many batches each, as after a compaction."""
        key = f"concat(lpad(CAST(id AS STRING), 10, '0'), '{last.key[10:]}') AS kafka_batch"
        rows = self.spark.range(2, last.number + 1).selectExpr(
            key, "'orders' AS topic", "0 AS partition", "id AS offset", "'0' AS id"
        )
        rows.repartitionByRange(FILES, "kafka_batch").writeTo(sink.name).append()


def _planned(plans: Plans, number: int) -> PlannedBatch:
    return plans.batch({("orders", n): (number - 1, number) for n in range(PARTITIONS)}, number=number)


@contextmanager
def counting_calls(spark: SparkSession, calls: Counter[bool]) -> Iterator[None]:
    """Count what Python asks of the JVM, without what it gives back to it when it collects garbage."""
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    send = client.send_command

    def counted(command: str, *more: Any, **named: Any) -> Any:
        calls[not command.startswith("m\n")] += 1
        return send(command, *more, **named)

    client.send_command = counted
    try:
        yield
    finally:
        del client.send_command
