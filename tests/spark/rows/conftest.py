"""Topics with values of the test's own, and the job of one split with a row definition."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from airflow_kafka_offsets.log import read_reports as reads
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.log.verify_reads import ReadReport
from airflow_kafka_offsets.spark import Batch, for_each_batch, planned_batch
from airflow_kafka_offsets.spark.row_sink import RowSink
from airflow_kafka_offsets.stores.objects import create_object
from airflow_kafka_offsets.values.row_definition import FieldFormat, RowDefinition
from testbed.broker import KafkaBroker
from tests.spark.conftest import Plans, require_read
from tests.spark.sinks.after import After

Values = Sequence[bytes | None]
SCHEMA = "id BIGINT, amount DECIMAL(10,2), kind STRING"


def json_rows(schema: str = SCHEMA, **more: Any) -> RowDefinition:
    return RowDefinition(value=FieldFormat("json", schema), **more)


def order(number: int, amount: object = 1, **more: object) -> bytes:
    return json.dumps({"id": number, "amount": amount, "kind": "order", **more}).encode()


@pytest.fixture
def produced(broker: KafkaBroker, topic: Callable[..., str]) -> Callable[[Values], str]:
    """`produced(values)`: a topic whose partition 0 has them at the offsets 0, 1, …"""

    def make(values: Values, name: str | None = None, **of_topic: Any) -> str:
        if name is None:
            name = topic(**of_topic)
        else:
            broker.create_topic(name, 1)
        producer = Producer(broker.client_config)
        for number, value in enumerate(values):
            producer.produce(name, value=value, key=b"%d" % number, partition=0, headers={"n": b"%d" % number})
        assert producer.flush(30) == 0
        return name

    return make


@dataclass
class Rows:
    """Jobs over batches, and what their outputs hold."""

    spark: SparkSession
    plans: Plans
    folder: Path

    @property
    def good(self) -> dict[str, Any]:
        return {"format": "parquet", "path": f"{self.folder}/good"}

    @property
    def bad(self) -> dict[str, Any]:
        return {"format": "parquet", "path": f"{self.folder}/bad"}

    def do(
        self,
        batch: StoredBatch,
        definition: RowDefinition,
        bad: dict[str, Any] | None = None,
        limit: object = "100%",
        sink: dict[str, Any] | None = None,
        split: int = 0,
        between: Callable[[], object] | None = None,
        before_table: tuple[int, Callable[[], object]] | None = None,
    ) -> Batch:
        """The job of one split.

        :param between: what happens when the rows are written, and bad records come next.
        :param before_table: which of the tables, and what happens before its rows are written.
        """
        create_object(self.plans.store, definition.object_name, definition.to_dict())
        arguments = [*self.plans.arguments(batch, split), "--rows", definition.digest]
        place = {**bad, "limit": limit} if bad else {}
        to = RowSink(sink or self.good, definition, place, planned_batch(arguments).topics_of_all_splits)
        if between is not None:
            assert to.set_aside is not None
            to.set_aside = After(to.set_aside, between)
        if before_table is not None:
            number, happens = before_table
            to.tables[number] = replace(to.tables[number], sink=After(to.tables[number].sink, happens))
        return for_each_batch(self.spark, to, arguments)

    def require_each_once(self, batch: StoredBatch, count: int, *bad: dict[str, Any]) -> None:
        """The batch is verified, and who reads the outputs whole sees each of its offsets once."""
        require_read(batch)
        seen = [offset for words in (self.good, *bad) for offset in self.offsets(words)]
        assert sorted(seen) == list(range(count))

    def offsets(self, words: dict[str, Any]) -> list[int]:
        """What somebody sees who reads the whole folder."""
        if not list(Path(words["path"]).rglob("*.parquet")):
            return []
        return sorted(row["offset"] for row in self.spark.read.parquet(words["path"]).collect())

    def table(self, words: dict[str, Any], *columns: str) -> list[tuple[Any, ...]]:
        frame = self.spark.read.parquet(words["path"])
        return [tuple(row) for row in frame.orderBy("offset").select(*columns).collect()]

    def report(self, batch: StoredBatch, split: int = 0) -> ReadReport:
        """The last one."""
        number, random = reads.attempt_numbers(batch.store.list(batch.folder), split)[-1]
        report = reads.report_of(batch.store, batch.folder, split, number, random)
        assert report is not None
        return report


@pytest.fixture
def rows(spark: SparkSession, plans: Plans, tmp_path: Path) -> Rows:
    return Rows(spark, plans, tmp_path)
