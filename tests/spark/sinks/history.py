"""Batches of a pipeline, one behind the other, into one table, as whole drivers write and runs commit them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from airflow_kafka_offsets.spark.sinks import plain_sink
from tests.spark.plans import PlannedBatch, Plans
from tests.spark.sinks.outputs import Output, members_at

SIZE = 3
NAME = "table:orders"


@dataclass
class History:
    """
    :ivar topic: batch n reads the offsets from (n - 1) * SIZE on.
    """

    spark: SparkSession
    plans: Plans
    kind: str
    folder: Path
    topic: str
    batches: dict[int, PlannedBatch] = field(default_factory=dict)
    rows: dict[str, Any] | None = None

    @property
    def output(self) -> Output:
        return Output(self.spark, plain_sink(members_at(self.kind, self.folder), NAME))

    def plan(self, number: int, **header: Any) -> PlannedBatch:
        """In sequence: it expects the batch before, and is the newest."""
        before = self.batches.get(number - 1)
        given = {"expects": before.key if before else None, "newest": True, "output": NAME, **header}
        ranges = {(self.topic, 0): ((number - 1) * SIZE, number * SIZE)}
        if number in self.batches:
            self.batches[number].plan(ranges, **given)
        else:
            self.batches[number] = self.plans.batch(ranges, number=number, **given)
        return self.batches[number]

    def drive(self, number: int, **members: Any) -> None:
        """The Spark job of the current plan."""
        batch = self.batches[number]
        write_batch(self.spark, batch.arguments(batch.job(self.job(**members))), self.plans.store(self.spark))

    def job(self, **members: Any) -> dict[str, Any]:
        """The job object; `members` of its sink."""
        return {"output": NAME, "sink": {**members_at(self.kind, self.folder), **members}, "rows": self.rows}

    def run(self, number: int, **header: Any) -> PlannedBatch:
        """A whole run, up to its commit."""
        batch = self.plan(number, **header)
        self.drive(number)
        assert batch.problems() == []
        return batch.commit(SIZE, output=NAME)

    @property
    def seen(self) -> dict[int, list[int]]:
        """By batch, the offsets that a reader sees."""
        rows = self.output.read().select("kafka_batch", "offset").collect()
        found: dict[int, list[int]] = {}
        for key, offset in sorted((row[0], row[1]) for row in rows):
            found.setdefault(int(key[:10]), []).append(offset)
        return found

    def offsets(self, *numbers: int) -> dict[int, list[int]]:
        """What `seen` is if these batches are in the table."""
        return {number: [*range((number - 1) * SIZE, number * SIZE)] for number in numbers}

    def roll_back(self, number: int) -> None:
        """To the table as this batch left it."""
        name, version = self.output.sink.name, self.batches[number].report()["snapshot"]
        if self.kind == "delta":
            self.spark.sql(f"RESTORE {name} TO VERSION AS OF {version}").collect()
        else:
            table = name.replace("`", "").removeprefix("lake.")
            self.spark.sql(f"CALL lake.system.rollback_to_snapshot('{table}', {version})").collect()
