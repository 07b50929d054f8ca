"""Topics with values of the test's own, and the job of one batch with rows, as `kafka_spark_batch(sink=…)` runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.rows.config import Delta, Iceberg, Rows, SinkConfig
from airflow_kafka_offsets.rows.job import job_object
from airflow_kafka_offsets.rows.registry import RegisteredSchemas
from airflow_kafka_offsets.spark.batch import Batch
from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from testbed.broker import KafkaBroker
from tests.spark.plans import PlannedBatch


@pytest.fixture
def produced(broker: KafkaBroker, topic: Callable[..., str]) -> Callable[..., str]:
    """`produced(values)`: a topic whose partition 0 has them at the offsets 0, 1, …; each with a key and a header."""

    def make(values: Sequence[bytes | None]) -> str:
        name = topic()
        producer = Producer(broker.client_config)
        for number, value in enumerate(values):
            producer.produce(name, value=value, key=b"k%d" % number, partition=0, headers={"n": b"%d" % number})
        assert producer.flush(30) == 0
        return name

    return make


@dataclass
class Lake:
    """Two outputs of one kind, and the jobs that write them."""

    spark: SparkSession
    kind: str
    folder: Path

    def sink(self, name: str) -> SinkConfig:
        if self.kind == "iceberg":
            return Iceberg(f"lake.db.{self.folder.name}_{name}")
        return Delta(f"{self.folder}/{name}")

    def run(self, batch: PlannedBatch, rows: Rows, schemas: dict[str, RegisteredSchemas] | None = None) -> Batch | None:
        """One driver. It raises what the driver raises."""
        job = batch.job(job_object(self.sink("good"), rows, schemas))
        return write_batch(self.spark, batch.arguments(job))

    def read(self, name: str) -> DataFrame:
        if self.kind == "delta":
            return self.spark.table(f"delta.`{self.folder}/{name}`")
        self.spark.catalog.refreshTable(table := f"lake.db.{self.folder.name}_{name}")  # others write, too
        return self.spark.table(table)

    @property
    def entities(self) -> dict[int, float]:
        rows = self.read("entities").select("id", "amount").collect()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["amount"] for row in rows}

    def count(self, name: str) -> int:
        """How many rows a reader sees."""
        return self.read(name).count()

    def table(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.read(name).orderBy("offset").select(*columns).collect()]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, "delta", tmp_path)
