"""Delta and Iceberg tables: a batch is replaced in one commit, and a late driver's commit is fenced off.

``writeTo(table).overwrite(kafka_batch = key)`` is the same for both. The fences are not:

- Delta skips a transaction whose version (the attempt) is not above the recorded one, in silence. The driver looks once
  more behind the write.
- Iceberg validates from the snapshot that was there before the driver's last look. It lets a late driver in where the
  newer attempt wrote nothing and found nothing: the same look keeps that from being reported.

Nothing is ever appended: Iceberg does not validate appends.
"""

from __future__ import annotations

import json
import logging
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from airflow_kafka_offsets.spark.batch import Batch
from airflow_kafka_offsets.spark.errors import BatchError, InvalidJob, LateAttempt
from airflow_kafka_offsets.spark.sinks import mark
from airflow_kafka_offsets.spark.sinks.columns import keyed, lacking, narrowing, nullable, quoted, sql_type
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN
from airflow_kafka_offsets.spark.sinks.folders import Folders
from airflow_kafka_offsets.spark.store import jvm_of

log = logging.getLogger(__name__)

TRIES = 10
HEAD = "current-snapshot-id"
_SIGN = {"delta": "delta.minReaderVersion", "iceberg": HEAD}  # a property that every table of the format shows
BOUNDS = f"write.metadata.metrics.column.{BATCH_COLUMN}"
DEFAULT_BOUNDS = "write.metadata.metrics.default"
_ABSENT = (
    *("PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "TABLE_OR_VIEW_NOT_FOUND"),
    "DELTA_INVALID_PARTITION_PATH",  # it would lie in another table's folder
)
IN_THE_WAY = (
    *("DELTA_CONCURRENT_APPEND", "DELTA_CONCURRENT_WRITE", "DELTA_CONCURRENT_DELETE_READ"),
    *("DELTA_CONCURRENT_DELETE_DELETE", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"),
    *("TABLE_OR_VIEW_ALREADY_EXISTS", "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"),
    *("DELTA_DUPLICATE_COLUMNS_FOUND", "FIELD_ALREADY_EXISTS"),
    *("CommitFailedException", "AlreadyExistsException", "Cannot add column, name already exists"),
    "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA",  # a column that the table has got meanwhile
)
OVERTAKEN = (
    *("DELTA_CONCURRENT_TRANSACTION", "Found conflicting files", "Found conflicting deleted files"),
    "Found new conflicting delete files",
)
_MIXED_FILE = "Cannot delete file where some, but not all, rows match filter"
_FENCED_FOR = "interval 30 days"


class NotMade(InvalidJob):
    """A table is not there after it was created: other files are in its place, or another driver is making it."""


@dataclass(frozen=True, slots=True)
class TableSink:
    """A table that has all batches of a pipeline.

    :ivar name: as Spark's SQL takes it: ``delta.`/lake/orders```, ```lake`.`orders```.
    :ivar path: of a Delta table that is named by its folder.
    :ivar partition_by: columns, for Iceberg transforms too, of a table that is created.
    :ivar evolve: ``add``: the table gets columns and inner fields that it lacks.
    """

    format: Literal["delta", "iceberg"]
    name: str
    output: str
    path: str | None = None
    partition_by: tuple[str, ...] = ()
    evolve: Literal["add"] | None = None

    def check(self, spark: SparkSession, pipeline: str) -> None:
        self._refuse_blind_commits(spark)
        schema = self._schema(spark)
        if schema is None:
            self._refuse_surroundings(spark)
        else:
            self._check_table(schema, self._properties(spark), pipeline)

    def write(self, batch: Batch, rows: DataFrame) -> None:
        of_batch = keyed(rows, batch.key)

        def replace() -> None:
            try:
                self._replace(batch, of_batch)
            except Exception as error:
                self._explain(batch, error)
                raise

        try_again(replace, f"Another driver has committed to {self.output} meanwhile: {batch} is written again.")

    def read_back(self, batch: Batch) -> DataFrame:
        table = self.read(batch.spark)
        if table is None:
            return batch.spark.createDataFrame([], f"topic STRING, partition INT, offset BIGINT, {BATCH_COLUMN} STRING")
        return table.where(f.col(BATCH_COLUMN) == batch.key)

    def read(self, spark: SparkSession) -> DataFrame | None:
        """All rows as they are now; ``None``: there is no such table."""
        return None if self._schema(spark) is None else spark.table(self.name)

    def prepare(self, rows: DataFrame, pipeline: str) -> tuple[DataFrame, dict[str, str]]:
        """Create the table, or check and extend it, and mark it.

        :returns: the rows with the table's columns and types, and the table's properties.
        """
        spark = rows.sparkSession
        schema = self._schema(spark) or self._created(spark, rows.schema, pipeline)
        properties = self._marked(spark, schema, pipeline)
        return self._fitted(rows), properties

    def _replace(self, batch: Batch, rows: DataFrame) -> None:
        rows, properties = self.prepare(rows, batch.name)
        batch.look()  # after the snapshot to validate from: a driver that comes later conflicts with it
        writer = rows.writeTo(self.name).options(**self._fence(batch, properties.get(HEAD, "none")))
        writer.overwrite(f.col(BATCH_COLUMN) == batch.key)

    def _fence(self, batch: Batch, head: str) -> dict[str, str]:
        if self.format == "delta":
            said = json.dumps({BATCH_COLUMN: batch.key, "attempt": batch.attempt})
            return {
                "txnAppId": f"kafka-offsets/{batch.key}",
                "txnVersion": str(batch.attempt),
                "userMetadata": said,
            }
        options = {
            "snapshot-property.kafka-offsets.batch": batch.key,
            "snapshot-property.kafka-offsets.attempt": str(batch.attempt),
        }
        if head != "none":  # the level without a snapshot would refuse every second write of a key
            options |= {"isolation-level": "serializable", "validate-from-snapshot-id": head}
        return options

    def _schema(self, spark: SparkSession) -> StructType | None:
        """``None``: there is no such table."""
        try:
            if self.format == "iceberg":
                spark.catalog.refreshTable(self.name)  # the catalog may remember a table of half a minute ago
            return spark.table(self.name).schema
        except AnalysisException as error:
            if any(words in str(error) for words in _ABSENT):
                return None
            raise

    def _properties(self, spark: SparkSession) -> dict[str, str]:
        return {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()}

    def _created(self, spark: SparkSession, schema: StructType, pipeline: str) -> StructType:
        self._refuse_surroundings(spark)
        properties = {mark.PROPERTY: pipeline}
        properties |= (
            {"delta.setTransactionRetentionDuration": _FENCED_FOR} if self.format == "delta" else {BOUNDS: "full"}
        )
        columns = ", ".join(f"{quoted(field.name)} {sql_type(field.dataType)}" for field in schema)
        by = self.partition_by if self.format == "iceberg" else map(quoted, self.partition_by)
        partitions = f"PARTITIONED BY ({', '.join(by)})" if self.partition_by else ""
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING {self.format} {partitions} "
            f"TBLPROPERTIES ({_pairs(properties)})"
        )
        found = self._schema(spark)
        if found is None:
            raise NotMade(f"Cannot create {self.output}", "Other files lie in its folder", "Use a folder of its own")
        return found

    def _marked(self, spark: SparkSession, schema: StructType, pipeline: str) -> dict[str, str]:
        """The table's properties, with the mark."""
        properties = self._properties(spark)
        if mark.PROPERTY not in properties:
            self._check_table(schema, properties, pipeline)
            self._refuse_surroundings(spark)
            spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({_pairs({mark.PROPERTY: pipeline})})")
            properties = self._properties(spark)
        self._check_table(schema, properties, pipeline)  # another pipeline may have been faster
        return properties

    def _check_table(self, schema: StructType, properties: Mapping[str, str], pipeline: str) -> None:
        """:raises OtherOutput: the table carries another name. :raises InvalidJob: it is of another format."""
        removal = f"ALTER TABLE {self.name} UNSET TBLPROPERTIES ('{mark.PROPERTY}')"
        mark.refuse_other(self.output, properties.get(mark.PROPERTY, pipeline), pipeline, removal)
        what = f"Cannot write {self.output}"
        if _SIGN[self.format] not in properties:
            raise InvalidJob(what, f"The table is not of the format {self.format}", "Correct the sink, or its catalog")
        if BATCH_COLUMN not in schema.names:
            cause = f"The table has no column {BATCH_COLUMN}, by which batches are replaced"
            raise InvalidJob(what, cause, f"ALTER TABLE {self.name} ADD COLUMNS ({BATCH_COLUMN} STRING)")
        bounds = properties.get(BOUNDS, properties.get(DEFAULT_BOUNDS, "truncate(16)"))
        if self.format == "iceberg" and bounds.lower() != "full":
            cause = f"Its files keep the bounds of {BATCH_COLUMN} as {bounds}: a batch could be written once only"
            raise InvalidJob(what, cause, f"ALTER TABLE {self.name} SET TBLPROPERTIES ('{BOUNDS}' = 'full')")

    def _refuse_surroundings(self, spark: SparkSession) -> None:
        """Of a Delta table by its folder that is about to be marked. Over Spark Connect nothing can look there."""
        if self.path is not None and jvm_of(spark) is not None:
            folders = Folders(spark, self.path)
            others = folders.find(f"{self.path}/*")
            if folders.exists(f"{self.path}/_delta_log"):  # looked at last: another driver may be making the table
                others = folders.find(f"{self.path}/*/{{{mark.FILE},_delta_log}}")
            mark.refuse_surroundings(folders, self.path, self.output, others)

    def _refuse_blind_commits(self, spark: SparkSession) -> None:
        """:raises InvalidJob: of two drivers that commit at the same time, one would overwrite the other's commit."""
        scheme = (self.path or "").rpartition("://")[0]
        if scheme not in ("s3", "s3a", "s3n") or "DATABRICKS_RUNTIME_VERSION" in os.environ:
            return
        setting = f"spark.delta.logStore.{scheme}.impl"
        if spark.conf.get(setting, None) is None:
            cause = "Delta's default log store for S3 does not keep two drivers from overwriting each other's commit"
            remedy = f"Set {setting}=io.delta.storage.S3DynamoDBLogStore for every writer, or write to Iceberg"
            raise InvalidJob(f"Cannot write {self.output}", cause, remedy)

    def _fitted(self, rows: DataFrame) -> DataFrame:
        """The rows with the table's columns and types. Before, it gets what it lacks, if it may.

        :raises InvalidJob: rows would lose something in the table.
        """
        spark = rows.sparkSession
        table = spark.table(self.name).schema
        if self.evolve and (new := list(lacking(rows.schema, table))):
            spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({', '.join(new)})")
            log.info("%s gets %s.", self.output, ", ".join(new))
            table = spark.table(self.name).schema
        if lost := list(narrowing(rows.schema, table)):
            remedy = 'CAST in Rows(select=…), or let the sink add columns: evolve="add"'
            raise InvalidJob(f"Cannot write the rows to {self.output}", "; ".join(lost), remedy)
        own = {name.lower() for name in rows.columns}  # Delta fills the others itself, with their defaults
        return rows.to(nullable(table, own if self.format == "delta" else None))

    def _explain(self, batch: Batch, error: Exception) -> None:
        text = str(error)
        if any(words in text for words in OVERTAKEN):
            cause = f"A newer attempt has committed to {self.output} meanwhile"
            raise LateAttempt(f"Cannot write {batch}", cause, "Nothing to do: the newest attempt counts") from error
        if _MIXED_FILE in text:
            cause = f"A file of {self.output} has rows of this batch and of others: the table was compacted"
            remedy = f"DELETE FROM {self.name} WHERE {BATCH_COLUMN} = '{batch.key}'; then retry"
            raise InvalidJob(f"Cannot replace the rows of {batch}", cause, remedy) from error


def try_again(write: Callable[[], None], why: str, conflicts: Sequence[str] = IN_THE_WAY) -> None:
    """Write, and again if another writer has committed to the table meanwhile.

    :param why: is logged before each further try.
    :param conflicts: words of the errors that such a commit causes.
    """
    for tries in range(1, TRIES + 1):
        try:
            return write()
        except Exception as error:
            is_conflict = not isinstance(error, BatchError) and any(words in str(error) for words in conflicts)
            if tries == TRIES or not (is_conflict or isinstance(error, NotMade)):
                raise
            log.info(why)
            time.sleep(random.uniform(0, min(5.0, 0.1 * 2**tries)))
    return None


def _pairs(properties: Mapping[str, str]) -> str:
    def text(value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    return ", ".join(f"{text(name)} = {text(value)}" for name, value in properties.items())
