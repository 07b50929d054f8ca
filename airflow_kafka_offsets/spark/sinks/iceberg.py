"""Iceberg tables.

A commit is validated from the snapshot that was there before the driver's last look. That lets a late driver in where
the newer attempt wrote nothing and found nothing: a look behind the write keeps that from being reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_kafka_offsets.spark.batch import Batch
from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.sinks.columns import nullable
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN
from airflow_kafka_offsets.spark.sinks.table import TableSink

HEAD = "current-snapshot-id"
_BOUNDS = f"write.metadata.metrics.column.{BATCH_COLUMN}"
_DEFAULT_BOUNDS = "write.metadata.metrics.default"
_MIXED_FILE = "Cannot delete file where some, but not all, rows match filter"


@dataclass(frozen=True, slots=True)
class IcebergTable(TableSink):
    format: ClassVar[Literal["iceberg"]] = "iceberg"
    sign: ClassVar[str] = HEAD

    def refuse_session(self, spark: SparkSession) -> None:
        pass

    def refuse_place(self, spark: SparkSession) -> None:
        pass

    def refuse_properties(self, properties: Mapping[str, str]) -> None:
        bounds = properties.get(_BOUNDS, properties.get(_DEFAULT_BOUNDS, "truncate(16)"))
        if bounds.lower() != "full":
            cause = f"Its files keep the bounds of {BATCH_COLUMN} as {bounds}: a batch could be written once only"
            remedy = f"ALTER TABLE {self.name} SET TBLPROPERTIES ('{_BOUNDS}' = 'full')"
            raise InvalidJob(f"Cannot write {self.output}", cause, remedy)

    def properties_of_a_new_table(self) -> dict[str, str]:
        return {_BOUNDS: "full"}

    def partitions_of_a_new_table(self) -> Iterable[str]:
        return self.partition_by

    def fence(self, batch: Batch, properties: Mapping[str, str]) -> dict[str, str]:
        options = {
            "snapshot-property.kafka-offsets.batch": batch.key,
            "snapshot-property.kafka-offsets.attempt": str(batch.attempt),
        }
        head = properties.get(HEAD, "none")
        if head != "none":  # the level without a snapshot would refuse every second write of a key
            options |= {"isolation-level": "serializable", "validate-from-snapshot-id": head}
        return options

    def fitting(self, rows: DataFrame, table: StructType) -> StructType:
        return nullable(table)

    def refresh(self, spark: SparkSession) -> None:
        spark.catalog.refreshTable(self.name)  # the catalog may remember a table of half a minute ago

    def explain(self, batch: Batch, error: Exception) -> None:
        if _MIXED_FILE in str(error):
            cause = f"A file of {self.output} has rows of this batch and of others: the table was compacted"
            remedy = f"DELETE FROM {self.name} WHERE {BATCH_COLUMN} = '{batch.key}'; then retry"
            raise InvalidJob(f"Cannot replace the rows of {batch}", cause, remedy) from error
