# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Delta tables. Rows are visible as soon as they are written: Delta stages nothing.

A commit carries the attempt as the version of a transaction (``txnAppId``, ``txnVersion``). Delta skips a transaction
whose version is not above the recorded one, in silence: then the table's history lacks the receipt of the write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from airflow_kafka_offsets.spark.batch import Batch, Written
from airflow_kafka_offsets.spark.errors import InvalidJob, LateAttempt, OtherOutput
from airflow_kafka_offsets.spark.history import delta_history
from airflow_kafka_offsets.spark.sinks.columns import nullable, quoted
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN
from airflow_kafka_offsets.spark.sinks.table import TableSink
from airflow_kafka_offsets.spark.store import hadoop_conf, jvm_of

_FENCE = "delta.setTransactionRetentionDuration"
_MOST_COMMITS = 1000  # of the history are searched for a receipt


@dataclass(frozen=True, slots=True)
class DeltaTable(TableSink):
    format: ClassVar[Literal["delta"]] = "delta"
    sign: ClassVar[str] = "delta.minReaderVersion"
    conflicts: ClassVar[set[str]] = {
        *("DELTA_CONCURRENT_APPEND", "DELTA_CONCURRENT_WRITE", "DELTA_CONCURRENT_DELETE_READ"),
        *("DELTA_CONCURRENT_DELETE_DELETE", "DELTA_CONCURRENT_TRANSACTION", "DELTA_METADATA_CHANGED"),
        *("DELTA_PROTOCOL_CHANGED", "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "DELTA_DUPLICATE_COLUMNS_FOUND"),
    }

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

    def properties_to_set(self, properties: Mapping[str, str]) -> dict[str, str]:
        """By default Delta keeps transactions for ever: the first batch says for how long drivers are fenced off."""
        return {} if _FENCE in properties else {_FENCE: "interval 30 days"}

    def partitions_of_a_new_table(self) -> Iterable[str]:
        return map(quoted, self.partition_by)

    def fitting(self, rows: DataFrame, table: StructType) -> StructType:
        return nullable(table, {name.lower() for name in rows.columns})  # Delta fills the others with their defaults

    def put(self, batch: Batch, rows: DataFrame, receipt: Mapping[str, Any], properties: Mapping[str, str]) -> Written:
        fence = {"txnAppId": f"kafka-offsets/{batch.key}", "txnVersion": str(batch.attempt)}
        writer = rows.writeTo(self.name).options(**fence, userMetadata=json.dumps(receipt))
        batch.look()
        if batch.attempt == 1:
            writer.append()
        else:
            writer.overwrite(f.col(BATCH_COLUMN) == batch.key)
        version, added = self._receipt(batch, receipt)
        return Written(self.rows_of(batch, batch.spark.table(self.name)), batch.records, added=added, snapshot=version)

    def _receipt(self, batch: Batch, receipt: Mapping[str, Any]) -> tuple[str, int]:
        """The version of the commit that has this receipt, and how many rows it has added."""
        for commit in islice(delta_history(batch.spark, self.name), _MOST_COMMITS):
            if commit["userMetadata"] == json.dumps(receipt):
                counts = commit["operationMetrics"] or {}  # none at all of an empty commit
                added = int(counts.get("numOutputRows", 0)) - int(counts.get("numCopiedRows", 0))
                return str(commit["version"]), added
        cause = f"{self.output} has skipped the write: it has one of this attempt or of a later one"
        raise LateAttempt(f"Cannot write {batch}", cause, "Retry the task: the next attempt has a higher number")
