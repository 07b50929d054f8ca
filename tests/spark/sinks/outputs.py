"""Outputs of each kind, written as a driver writes them and read as a reader of the whole output does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark.batch import Batch, Written
from airflow_kafka_offsets.spark.plan import Plan
from airflow_kafka_offsets.spark.retries import try_again
from airflow_kafka_offsets.spark.sinks import plain_sink
from airflow_kafka_offsets.spark.sinks.table import TableSink
from tests.spark.plans import LOG

A, B, C = (f"{number:010}-3f9a01c2d4e5" for number in (7, 8, 9))
Row = tuple[int, str, str]
COLUMNS = "offset BIGINT, day STRING, value STRING, topic STRING, partition INT"


@dataclass
class AttemptNumber:
    """A place among attempts, for a sink that is tried without a checkpoint location.

    :ivar on_look: what happens when the sink looks.
    """

    number: int
    on_look: Callable[[], None] = lambda: None
    job: str | None = None

    def look(self) -> None:
        self.on_look()

    def report(self, **members: Any) -> None: ...


@dataclass
class Output:
    """One output, and the sink that writes it."""

    spark: SparkSession
    sink: TableSink
    looks: list[str] = field(default_factory=list)

    def batch(
        self,
        key: str,
        attempt: int = 1,
        on_look: Callable[[], None] = lambda: None,
        pipeline: str = "orders",
        **plan: Any,
    ) -> Batch:
        members = {"plan_id": "p", "log": LOG, **plan}
        of = Plan(pipeline=pipeline, number=int(key[:10]), key=key, **members)
        place = AttemptNumber(attempt, on_look)
        none = self.frame([])
        return Batch(self.spark, of, none, None, self.sink.output, place, None, lambda _: none)

    def frame(self, rows: Sequence[Row]) -> DataFrame:
        return self.spark.createDataFrame([(*row, "orders", 0) for row in rows], COLUMNS)

    def write(
        self,
        key: str,
        rows: Sequence[Row] | DataFrame,
        attempt: int = 1,
        on_look: Callable[[], None] = lambda: None,
        pipeline: str = "orders",
        **plan: Any,
    ) -> Batch:
        """As a driver does: tried again after a conflict, and published."""
        batch = self.batch(key, attempt, on_look, pipeline, **plan)
        self.sink.check(self.spark, batch.plan)
        self.sink.look(self.spark, batch.plan)
        frame = rows if isinstance(rows, DataFrame) else self.frame(rows)

        def once(tries: int) -> None:
            written = self.sink.write(replace(batch, tries=tries), frame)
            if written.publish is not None:
                written.publish()

        try_again(once, self.sink.is_conflict, "again")
        return batch

    def stage(self, key: str, rows: Sequence[Row], attempt: int = 1) -> Written:
        """Written, and not published where the format stages."""
        return self.sink.write(self.batch(key, attempt), self.frame(rows))

    def offsets(self, key: str) -> list[int]:
        """As the driver reads a batch back."""
        return sorted(row["offset"] for row in self.sink.rows_of(self.batch(key)).collect())

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
    return {**place, "partition_by": [], "evolve": None, "keeps_rows": True, **members}


def rows(*offsets: int, day: str = "2026-11-22", value: str = "v") -> list[Row]:
    return [(offset, day, value) for offset in offsets]
