"""Delta: the rows of a key and split are replaced in one commit of the table, and a late driver's commit is fenced off.

``overwrite`` is ``replaceWhere`` on the key's columns. Each write is a transaction of the application
``kafka-offsets/<key>/<split>``: Delta skips a version that is not above the recorded one, and lets a commit fail while
another of the same application has come in between. The batch's own number would be wrong here: a batch done again has
the same number, and Delta would skip it without a word. So the version is the attempt's number and, behind it, a number
of this call: a job may write a batch twice. Each commit also carries it as ``userMetadata``, and the table's history is
asked whether it is there.

The table is partitioned by ``kafka_split``, after the columns that are asked for. Delta finds conflicts by partition:
without it, of two splits that write at the same time the slower one fails (12 of 18 writes did), and all its work is
to be done again. Writers that do get in each other's way, such as two windows, try again.

``append`` cannot take anything back. A batch whose rows are there already, or were, is refused.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.plan.plan_table import first_few
from airflow_kafka_offsets.spark.driver_jvm import Folders, jvm_of, with_settings
from airflow_kafka_offsets.spark.sinks.evolution import Change, Evolve, TableSink, check_evolve, evolved
from airflow_kafka_offsets.spark.sinks.sink_contract import (
    BATCH_COLUMN,
    HIDDEN,
    SPLIT_COLUMN,
    SinkBatch,
    names,
    options_of,
    overtaken,
    path_output,
    quoted_table,
    table_output,
    table_parts,
    with_key,
    write_among_others,
)
from airflow_kafka_offsets.spark.sinks.tables_on_s3 import require_one_delta_writer
from airflow_kafka_offsets.values.sql_text import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

WriteMode = Literal["overwrite", "append"]
OWN_OPTIONS = (
    *("path", "replaceWhere", "txnAppId", "txnVersion", "userMetadata", "partitionOverwriteMode"),
    *("mergeSchema", "overwriteSchema"),
)
NEWEST_COMMITS = 20
CALLS_OF_AN_ATTEMPT = 1_000_000
_calls = itertools.count(1)
_LOG = "_delta_log"
TYPE_WIDENING = "delta.enableTypeWidening"
STATS_COLUMNS, STATS_COUNT = "delta.dataSkippingStatsColumns", "delta.dataSkippingNumIndexedCols"
_PASS_OVER = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
_TRANSACTION = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
_ABSENT = ("PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE")
_NOT_DELTAS = "Cannot write into v1 table"
_OVERTAKEN = "DELTA_CONCURRENT_TRANSACTION"
_IN_THE_WAY = (
    "DELTA_CONCURRENT_APPEND",
    "DELTA_CONCURRENT_DELETE_READ",
    "DELTA_CONCURRENT_DELETE_DELETE",
    "DELTA_CONCURRENT_WRITE",
    "DELTA_METADATA_CHANGED",  # two that make the table at the same time
    "DELTA_PROTOCOL_CHANGED",
    "TABLE_OR_VIEW_ALREADY_EXISTS",
)


@dataclass(frozen=True, slots=True)
class DeltaSink(TableSink):
    """See :func:`delta`."""

    path: str | None
    table: str | None
    partition_by: tuple[str, ...]
    mode: WriteMode
    options: tuple[tuple[str, str], ...]
    evolve: Evolve = "fail"

    @property
    def output(self) -> str:
        return path_output(self.path) if self.path else table_output("delta", self.table or "")

    @property
    def sql_name(self) -> str:
        """The table, as Spark's SQL takes it."""
        return f"delta.`{self.path}`" if self.path else quoted_table(self.table or "")

    def __call__(self, records: DataFrame, batch: SinkBatch) -> DataFrame:
        from pyspark.sql import functions as f

        spark = records.sparkSession
        self.check(spark)
        if self.mode == "append" and not self.written(spark, batch).isEmpty():
            raise InvalidRequest([_CANNOT_REPEAT.format(batch.key, batch.split, self.output)])
        transaction = self._transaction(batch)
        attempted = commit_label(batch, transaction)
        options = {**dict(self.options), **transaction, "userMetadata": attempted}
        keyed = with_key(records, batch)

        def write() -> None:
            rows, is_there = evolved(keyed, self, batch), self.current(spark) is not None
            batch.look(self.output)
            if self.table and is_there and self.mode == "overwrite":
                # Not saveAsTable: under a catalog that is not Delta's it puts a new table in the place of this one.
                rows.writeTo(self.sql_name).options(**options).overwrite(f.expr(batch.row_filter))
                return
            writer = rows.write.format("delta").mode(self.mode).options(**options)
            writer = writer if self.mode == "append" else writer.option("replaceWhere", batch.row_filter)
            writer = writer if is_there else writer.partitionBy(*self.partitions)
            if self.path:
                writer.save(self.path)
            else:
                writer.saveAsTable(self.sql_name)

        self._keep_bounds(spark)
        self.again(spark, write, batch)
        if not self.has_commit(spark, attempted):
            if self.mode == "append":
                raise InvalidRequest([_CANNOT_REPEAT.format(batch.key, batch.split, self.output)])
            raise overtaken(batch, self.output, "a newer attempt, which the table has on record,")
        return self.written(spark, batch)

    def again(self, spark: SparkSession, write: Callable[[], Any], batch: SinkBatch) -> None:
        """Write, and again while others commit in between.

        Delta reads the files that may hold old rows. A session may pass over a file that it cannot read at this moment:
        then its old rows would stay beside the new ones.

        :raises LateAttempt: the other one was a newer attempt at the same split.
        :raises InvalidRequest: the table is in a catalog that would not leave its other rows.
        """
        passes_over = [name for name in _PASS_OVER if str(spark.conf.get(name, "false")).lower() == "true"]
        try:
            with with_settings(spark, dict.fromkeys(passes_over, "false")):
                write_among_others(write, _IN_THE_WAY)
        except Exception as error:
            if _NOT_DELTAS in str(error):
                raise InvalidRequest([_OTHER_CATALOG.format(self.output)]) from error
            if _OVERTAKEN not in str(error):
                raise
            raise overtaken(batch, self.output, "a newer attempt, which has committed meanwhile,") from error

    def make(self, rows: DataFrame) -> None:
        """The table, with the columns of these rows, if there is none."""
        if self.current(rows.sparkSession) is not None:
            return
        empty = rows.sparkSession.createDataFrame([], rows.schema).write.format("delta").mode("append")
        empty = empty.options(**dict(self.options)).partitionBy(*self.partition_by)
        if self.path:
            empty.save(self.path)
        else:
            empty.saveAsTable(self.sql_name)

    def require_safe_merge(self, spark: SparkSession) -> None:
        """:raises InvalidRequest: Delta would pass over a MERGE, as one that the table has on record."""
        if named := [name for name in _TRANSACTION if spark.conf.get(name, None)]:
            raise InvalidRequest(
                [
                    f"The session has {' and '.join(named)}: Delta passes over a MERGE whose version is not above the "
                    f"one that {self.output} has, and tells nobody. Nothing was written. Leave these settings out: an "
                    "upsert may be done twice."
                ]
            )

    def check(self, spark: SparkSession) -> None:
        require_one_delta_writer(spark, self.output, self.path, self.sql_name)
        self._refuse_other_rows(spark)

    def _refuse_other_rows(self, spark: SparkSession) -> None:
        """Delta would make its table between them: readers of the table see none, and other readers see both.

        Who makes a table makes its log first. Spark Connect has no JVM that could be asked.

        :raises InvalidRequest: files lie in the folder, and there is no table.
        """
        if self.path is None or jvm_of(spark) is None:
            return
        folders, its_log = Folders(spark, self.path), f"{self.path}/{_LOG}"
        if folders.exists(its_log):
            return
        found = [path.rpartition("/")[2] for path in folders.found(f"{self.path}/*")]
        others = [name for name in found if not name.startswith(HIDDEN)]
        if others and _LOG not in found:
            raise InvalidRequest(
                [
                    f"{self.output} has {first_few(others, 3)}, and is no Delta table: readers of a table that was "
                    "made there would see none of the rows that it has. Nothing was written. Put the format back, or "
                    "write to a folder of its own."
                ]
            )

    def _keep_bounds(self, spark: SparkSession) -> None:
        """Let Delta keep the bounds of ``kafka_batch`` in a table that is there: without, each write reads all of it.

        It keeps those of the first 32 columns, or of the ones that a property names. The others keep theirs.
        """
        table = self.current(spark)
        if table is None or BATCH_COLUMN not in table.columns:
            return
        detail = spark.sql(f"DESCRIBE DETAIL {self.sql_name}").collect()[0]
        bounded = detail.properties.get(STATS_COLUMNS, "")
        if not bounded:
            count = int(detail.properties.get(STATS_COUNT, 32))
            leaves = [leaf for leaf in _leaves(table.schema) if leaf[0] not in map(quoted, detail.partitionColumns)]
            bounded = ",".join(name for name, has_bounds in leaves[: count if count >= 0 else None] if has_bounds)
        if BATCH_COLUMN in [*(name.strip(" `") for name in bounded.split(",")), *detail.partitionColumns]:
            return
        bounded = ",".join(filter(None, [bounded, quoted(BATCH_COLUMN)])).replace("\\", "\\\\").replace("'", "\\'")
        change = f"ALTER TABLE {self.sql_name} SET TBLPROPERTIES ('{STATS_COLUMNS}' = '{bounded}')"
        try:
            spark.sql(change)
        except Exception as error:  # no right to; or another split has changed it meanwhile
            log.warning("Each write reads the whole of %s. To mend it: %s (%s)", self.output, change, error)

    def columns(self, rows: DataFrame) -> StructType | None:
        """All nullable: Delta fills a column that the rows lack, and itself refuses to if it is NOT NULL."""
        from pyspark.sql.types import StructField, StructType

        table = self.current(rows.sparkSession)
        if table is None:
            return None
        return StructType([StructField(field.name, field.dataType) for field in table.schema.fields])

    def change(self, spark: SparkSession, change: Change) -> None:
        detail = spark.sql(f"DESCRIBE DETAIL {self.sql_name}").collect()[0]
        if change.old is not None and detail.properties.get(TYPE_WIDENING) != "true":
            spark.sql(f"ALTER TABLE {self.sql_name} SET TBLPROPERTIES ('{TYPE_WIDENING}' = 'true')")
            log.info("%s has Delta's table feature typeWidening now: readers older than Delta 3.2 fail", self.output)
        spark.sql(f"ALTER TABLE {self.sql_name} {change.sql}")

    def current(self, spark: SparkSession) -> DataFrame | None:
        from pyspark.errors import AnalysisException

        try:
            return spark.read.format("delta").load(self.path) if self.path else spark.table(self.sql_name)
        except AnalysisException as error:
            if any(word in str(error) for word in _ABSENT):
                return None
            raise

    @property
    def partitions(self) -> tuple[str, ...]:
        """Of a table that is made anew."""
        return self.partition_by if SPLIT_COLUMN in self.partition_by else (*self.partition_by, SPLIT_COLUMN)

    def _transaction(self, batch: SinkBatch) -> dict[str, str]:
        if self.mode == "append":
            number = re.match(r"\d{10}(?=-)", batch.key)  # a window has none
            return {
                "txnAppId": f"kafka-offsets/append/{batch.key}/{batch.split}",
                "txnVersion": str(int(number[0]) if number else 1),
            }
        return {
            "txnAppId": f"kafka-offsets/{batch.key}/{batch.split}",
            "txnVersion": str(batch.attempt * CALLS_OF_AN_ATTEMPT + next(_calls)),
        }

    def has_commit(self, spark: SparkSession, label: str) -> bool:
        """Whether the table's history has a commit of that label. It is a recent one, if there is one."""
        for limit in (f" LIMIT {NEWEST_COMMITS}", ""):
            history: DataFrame = spark.sql(f"DESCRIBE HISTORY {self.sql_name}{limit}")
            if not history.where(history["userMetadata"] == label).isEmpty():
                return True
        return False


def delta(
    path: str | None = None,
    table: str | None = None,
    partition_by: Sequence[str] = (),
    mode: WriteMode = "overwrite",
    options: Mapping[str, object] | None = None,
    evolve: Evolve = "fail",
) -> DeltaSink:
    """Write to a Delta table, which is made if need be.

    :param path: its folder; or
    :param table: its name in the catalog.
    :param partition_by: for a new table: these columns, and ``kafka_split`` after them. Where windows are written at
        the same time, add ``kafka_batch``.
    :param mode: ``overwrite`` replaces the rows of the key and split. ``append`` writes a batch once and refuses to do
        it again; the rows of an attempt that did commit stay, whatever happens.
    :param options: of Delta's writer, such as ``maxRecordsPerFile``.
    :param evolve: ``fail`` refuses rows with a new column or a wider type. ``add`` gives the table both. No column is
        ever dropped or narrowed.
    :raises InvalidRequest: not one of ``path`` and ``table``, another mode, or an option that is not yours to set.
    """
    if (path is None) == (table is None):
        raise InvalidRequest(["A Delta table has a path or a name in the catalog. Give one of the two."])
    if mode not in ("overwrite", "append"):
        raise InvalidRequest([f"mode is {mode!r}; it is 'overwrite' (this split's rows only) or 'append'."])
    if table is not None:
        table_parts(table)
    check_evolve(evolve)
    if path is not None:
        path_output(path)
        path = path.rstrip("/")
    return DeltaSink(path, table, names("partition_by", partition_by), mode, options_of(options, OWN_OPTIONS), evolve)


def _leaves(schema: StructType, parent: str = "") -> Iterator[tuple[str, bool]]:
    """The columns as Delta counts them, those within a struct too, and whether there are bounds of such a type."""
    from pyspark.sql import types as t

    ordered = (t.NumericType, t.DateType, t.TimestampType, t.TimestampNTZType, t.StringType)
    for field in schema.fields:
        name = parent + quoted(field.name)
        if isinstance(field.dataType, t.StructType):
            yield from _leaves(field.dataType, f"{name}.")
        else:
            yield name, isinstance(field.dataType, ordered)


def commit_label(batch: SinkBatch, transaction: Mapping[str, str]) -> str:
    """What a commit says about itself in the table's history."""
    said = {BATCH_COLUMN: batch.key, SPLIT_COLUMN: batch.split, "attempt": batch.attempt}
    return json.dumps(said | {"version": transaction["txnVersion"]})


_OTHER_CATALOG = (
    "{} is in a catalog of Spark's session that is not Delta's. Nothing was written. For this job, set "
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog, or name the table by its path."
)
_CANNOT_REPEAT = (
    "Batch {} has been appended already, split {}, to {}: once more would leave its rows twice, or not at all. "
    "Delete its rows and write it with mode='overwrite', the mode in which a batch can be done again."
)
