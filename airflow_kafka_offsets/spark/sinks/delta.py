"""Delta tables.

A commit carries the attempt as the version of a transaction (``txnAppId``, ``txnVersion``). Delta skips a transaction
whose version is not above the recorded one, in silence: the driver looks once more behind the write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_kafka_offsets.spark.batch import Batch
from airflow_kafka_offsets.spark.errors import InvalidJob, OtherOutput
from airflow_kafka_offsets.spark.sinks.columns import nullable, quoted
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN
from airflow_kafka_offsets.spark.sinks.table import TableSink
from airflow_kafka_offsets.spark.store import hadoop_conf, jvm_of

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
        if self.path is None or (jvm := jvm_of(spark)) is None:
            return
        path = jvm.org.apache.hadoop.fs.Path
        own = path(self.path)
        system, what = own.getFileSystem(hadoop_conf(spark)), f"Cannot write {self.output}"
        remedy = "Write to a folder of its own, beside it"
        files = system.globStatus(path(own, "*")) or ()
        if system.exists(path(own, "_delta_log")):  # looked at last: another driver may be making the table
            files = system.globStatus(path(own, "*/_delta_log")) or ()
        if names := sorted(file.getPath().toString() for file in files):
            raise OtherOutput(what, f"Its folder has {', '.join(names[:3])}, which no batch has written", remedy)
        if system.getScheme() == "file":
            own = path(f"file://{os.path.realpath(own.toUri().getPath())}")  # a link leads elsewhere
        while (own := own.getParent()) is not None:
            if self._has_log(system, path(own, "_delta_log")):
                raise OtherOutput(what, f"It lies inside of {own.toString()}, which is a table itself", remedy)

    @staticmethod
    def _has_log(system: Any, place: Any) -> bool:
        """Not where this job has no right to look."""
        try:
            return bool(system.exists(place))
        except Exception:
            return False

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
