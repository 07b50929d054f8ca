"""A log of batches with its table, and the entity table that is merged from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from airflow_kafka_offsets.spark.jobs.merge_batches import merge_batches
from airflow_kafka_offsets.spark.sinks import plain_sink
from airflow_kafka_offsets.spark.sinks.table import TableSink
from tests.spark.plans import PlannedBatch
from tests.spark.sinks.outputs import Output

Record = tuple[int, str | None, str | None]
"""Offset, id and value; no value: a delete."""
COLUMNS = "offset BIGINT, id STRING, value STRING, topic STRING, partition INT"


@dataclass
class KeyedBatch(PlannedBatch):
    """A batch of one of several logs, whose keys end differently."""

    ending: str = "k3f9"

    @property
    def key(self) -> str:
        return f"{self.number:010}-20261122T022057-{self.ending}"


@dataclass
class Log:
    """Batches of pipeline `orders`, written and committed without Kafka."""

    spark: SparkSession
    folder: Path
    kind: str
    keys: Sequence[str] = ("id",)
    delete_when: str | None = "value IS NULL"
    batches: dict[int, PlannedBatch] = field(default_factory=dict)
    job_uri: str = ""
    ending: str = "k3f9"

    @property
    def job(self) -> dict[str, Any]:
        merge = {"sink": self._sink("customers"), "keys": [*self.keys], "delete_when": self.delete_when}
        return {"output": f"{self.kind}:log", "sink": self._sink("log"), "rows": None, "merge": merge}

    @property
    def table(self) -> TableSink:
        return plain_sink(self.job["merge"]["sink"])

    def write(self, number: int, records: Sequence[Record] | DataFrame, partition: int = 0) -> PlannedBatch:
        """Spark writes a batch, once more if it was committed, and nobody has committed it yet."""
        if number not in self.batches:
            batch = KeyedBatch(self.folder / "checkpoint", "nowhere:1", "orders", number, ending=self.ending)
            self.batches[number] = batch.plan({("orders", 0): (0, 100)})
            self.job_uri = batch.job(self.job)
        batch = self.batches[number]
        if batch.entries > 1:
            batch.append("claim", after=1, acknowledged=0)
        if isinstance(records, list):
            rows = [(*record, "orders", partition) for record in records]
            records = self.spark.createDataFrame(rows, COLUMNS)
        output = Output(self.spark, plain_sink(self._sink("log"), f"{self.kind}:log"))
        if not isinstance(records, DataFrame) or not (records.isEmpty() and output.sink.read(self.spark) is None):
            output.write(batch.key, records, attempt=batch.entries)
        return batch

    def commit(self, number: int, records: Sequence[Record] | DataFrame, partition: int = 0) -> None:
        """A whole run up to its commit."""
        self.write(number, records, partition).append("commit", output=f"{self.kind}:log")

    def merge(self, number: int) -> list[int]:
        """The merge task of the run that has this batch; the numbers of the batches that it has merged."""
        batch = self.batches[number]
        return [int(key[:10]) for key in merge_batches(self.spark, batch.arguments(self.job_uri, entry=1))]

    @property
    def rows(self) -> list[Row]:
        table = self.table.read(self.spark)
        assert table is not None
        return table.collect()

    @property
    def entities(self) -> dict[str, tuple[str | None, int]]:
        """By id, the value and the offset; no value: deleted."""
        rows = self.rows
        assert len({row["id"] for row in rows}) == len(rows)
        assert all(row["kafka_deleted"] == (row["value"] is None) for row in rows)
        return {row["id"]: (row["value"], row["offset"]) for row in rows}

    def _sink(self, name: str) -> dict[str, Any]:
        place: dict[str, Any] = {"format": self.kind, "path": f"{self.folder}/{name}", "table": None}
        if self.kind == "iceberg":
            place |= {"path": None, "table": f"lake.db.{self.folder.name.replace('-', '_')}_{name}"}
        return {**place, "partition_by": [], "evolve": "add"}
