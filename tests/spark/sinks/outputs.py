"""Outputs of each kind, written as a driver writes them and read as a reader of the whole output does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession

from airflow_kafka_offsets.spark.batch import Batch
from airflow_kafka_offsets.spark.sinks import plain_sink
from airflow_kafka_offsets.spark.sinks.table import TableSink

A, B, C = (f"{number:010}-20261122022f" for number in (7, 8, 9))
Row = tuple[int, str, str]
COLUMNS = "offset BIGINT, day STRING, value STRING, topic STRING, partition INT"


@dataclass
class AttemptNumber:
    """A place among attempts, for a sink that is tried without a checkpoint location.

    :ivar on_look: what happens when the sink looks.
    """

    number: int
    on_look: Callable[[], None] = lambda: None

    def look(self) -> None:
        self.on_look()

    def report(self, counts: Any) -> None: ...


@dataclass
class Output:
    """One output, and the sink that writes it."""

    spark: SparkSession
    sink: TableSink
    looks: list[str] = field(default_factory=list)

    def batch(
        self, key: str, attempt: int = 1, on_look: Callable[[], None] = lambda: None, pipeline: str = "orders"
    ) -> Batch:
        place = AttemptNumber(attempt, on_look)
        empty = self.frame([])
        number = int(key[:10])
        return Batch(
            self.spark, pipeline, number, key, None, (), (), empty, None, self.sink.output, place, Observation()
        )

    def frame(self, rows: Sequence[Row]) -> DataFrame:
        return self.spark.createDataFrame([(*row, "orders", 0) for row in rows], COLUMNS)

    def write(
        self,
        key: str,
        rows: Sequence[Row] | DataFrame,
        attempt: int = 1,
        on_look: Callable[[], None] = lambda: None,
        pipeline: str = "orders",
    ) -> Batch:
        batch = self.batch(key, attempt, on_look, pipeline)
        self.sink.check(self.spark, batch.name)
        self.sink.write(batch, rows if isinstance(rows, DataFrame) else self.frame(rows))
        return batch

    def offsets(self, key: str) -> list[int]:
        """As the driver reads a batch back."""
        return sorted(row["offset"] for row in self.sink.read_back(self.batch(key)).collect())

    def view(self) -> dict[str, list[Row]]:
        """By key, the rows that a reader of the whole output sees."""
        seen: dict[str, list[Row]] = {}
        for row in self.read().select("kafka_batch", "offset", "day", "value").collect():
            seen.setdefault(row["kafka_batch"], []).append((row["offset"], str(row["day"]), row["value"]))
        return {key: sorted(rows) for key, rows in seen.items()}

    def read(self) -> DataFrame:
        if self.sink.format == "iceberg":
            self.spark.catalog.refreshTable(self.sink.name)
        return self.spark.table(self.sink.name)


def sink_at(kind: str, folder: Path, **members: Any) -> TableSink:
    """A sink of a kind, at a place of the test's own."""
    return plain_sink(members_at(kind, folder, **members))


def members_at(kind: str, folder: Path, **members: Any) -> dict[str, Any]:
    """The same sink as the job object has it."""
    place: dict[str, Any] = {"format": kind, "path": f"{folder}/{kind}", "table": None}
    if kind == "iceberg":
        place = {"format": kind, "path": None, "table": f"lake.db.{folder.name.replace('-', '_')}"}
    return {**place, "partition_by": [], "evolve": None, **members}


def rows(*offsets: int, day: str = "2026-11-22", value: str = "v") -> list[Row]:
    return [(offset, day, value) for offset in offsets]
