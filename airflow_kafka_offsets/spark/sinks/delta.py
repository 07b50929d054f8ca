"""Delta tables.

A commit carries the attempt as the version of a transaction (``txnAppId``, ``txnVersion``). Delta skips a transaction
whose version is not above the recorded one, in silence: the driver looks once more behind the write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_kafka_offsets.spark.batch import Batch
from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.sinks import mark
from airflow_kafka_offsets.spark.sinks.columns import nullable, quoted
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN
from airflow_kafka_offsets.spark.sinks.folders import Folders
from airflow_kafka_offsets.spark.sinks.table import TableSink
from airflow_kafka_offsets.spark.store import jvm_of

_FENCED_FOR = "interval 30 days"


@dataclass(frozen=True, slots=True)
class DeltaTable(TableSink):
    format: ClassVar[Literal["delta"]] = "delta"
    sign: ClassVar[str] = "delta.minReaderVersion"

    def refuse_session(self, spark: SparkSession) -> None:
        """Of two drivers that commit to S3 at the same time, one would overwrite the other's commit."""
        scheme = (self.path or "").rpartition("://")[0]
        if scheme not in ("s3", "s3a", "s3n") or "DATABRICKS_RUNTIME_VERSION" in os.environ:
            return
        setting = f"spark.delta.logStore.{scheme}.impl"
        if spark.conf.get(setting, None) is None:
            cause = "Delta's default log store for S3 does not keep two drivers from overwriting each other's commit"
            remedy = f"Set {setting}=io.delta.storage.S3DynamoDBLogStore for every writer, or write to Iceberg"
            raise InvalidJob(f"Cannot write {self.output}", cause, remedy)

    def refuse_place(self, spark: SparkSession) -> None:
        """Of a table by its folder. Over Spark Connect nothing can look there."""
        if self.path is not None and jvm_of(spark) is not None:
            folders = Folders(spark, self.path)
            others = folders.find(f"{self.path}/*")
            if folders.exists(f"{self.path}/_delta_log"):  # looked at last: another driver may be making the table
                others = folders.find(f"{self.path}/*/{{{mark.FILE},_delta_log}}")
            mark.refuse_surroundings(folders, self.path, self.output, others)

    def refuse_properties(self, properties: Mapping[str, str]) -> None:
        pass

    def properties_of_a_new_table(self) -> dict[str, str]:
        return {"delta.setTransactionRetentionDuration": _FENCED_FOR}

    def partitions_of_a_new_table(self) -> Iterable[str]:
        return map(quoted, self.partition_by)

    def fence(self, batch: Batch, properties: Mapping[str, str]) -> dict[str, str]:
        said = json.dumps({BATCH_COLUMN: batch.key, "attempt": batch.attempt})
        return {"txnAppId": f"kafka-offsets/{batch.key}", "txnVersion": str(batch.attempt), "userMetadata": said}

    def fitting(self, rows: DataFrame, table: StructType) -> StructType:
        return nullable(table, {name.lower() for name in rows.columns})  # Delta fills the others with their defaults
