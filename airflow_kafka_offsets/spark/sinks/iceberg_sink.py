"""Iceberg: the rows of a key and split are replaced in one snapshot, and a late driver's snapshot is refused.

``overwrite(filter)`` drops the files whose rows all have this key and split, and adds the new ones. Iceberg sees that
from each file's lower and upper bound, so the bounds of ``kafka_batch`` must be whole: by default they are cut to 16
characters, with which a batch could be written and never again. A table that is made here keeps them whole; one that
was there before is asked.

The snapshot before the driver's last look is given to Iceberg to validate from. If another attempt has put rows of this
key and split there since, or has taken some away, the commit fails. One case is left: the newer attempt had no rows to
write and found none to remove. Then a late driver's rows are put there. It looks once more, and takes them back.

After a compaction a file holds rows of several batches. Doing one of these again is refused by Iceberg; nothing is
changed then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import InvalidRequest, LateAttempt
from airflow_kafka_offsets.spark.sinks.evolution import Change, Evolve, TableSink, check_evolve, evolved, sql_type
from airflow_kafka_offsets.spark.sinks.sink_contract import (
    BATCH_COLUMN,
    SPLIT_COLUMN,
    SinkBatch,
    names,
    options_of,
    overtaken,
    quoted_table,
    table_output,
    table_parts,
    with_key,
    write_among_others,
)
from airflow_kafka_offsets.spark.sinks.tables_on_s3 import require_one_iceberg_writer
from airflow_kafka_offsets.values.sql_text import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

METRICS = "write.metadata.metrics"
MERGE_ISOLATION = "write.merge.isolation-level"
WAP_ID, WAP_BRANCH = "spark.wap.id", "spark.wap.branch"
OWN_OPTIONS = ("isolation-level", "validate-from-snapshot-id", "overwrite-mode", "mergeSchema", "merge-schema")
_OVERTAKEN = ("Found conflicting files", "Found conflicting deleted files", "Found new conflicting delete files")
_CHANGED_WHILE_MERGING = "Runtime file filtering is not possible: the table has been concurrently modified"
_LACKS_A_COLUMN = "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA"
_MIXED_FILES = "Cannot delete file where some, but not all, rows match filter"


@dataclass(frozen=True, slots=True)
class IcebergSink(TableSink):
    """See :func:`iceberg`."""

    table: str
    partition_by: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    evolve: Evolve = "fail"

    @property
    def output(self) -> str:
        return table_output("iceberg", self.table)

    @property
    def sql_name(self) -> str:
        return quoted_table(self.table)

    def __call__(self, records: DataFrame, batch: SinkBatch) -> DataFrame:
        spark = records.sparkSession
        self.check(spark)
        keyed = with_key(records, batch)
        self.make(keyed)
        self._check_bounds(spark)
        # Another driver may add a column after the table was looked at.
        write_among_others(partial(self._overwrite, keyed, batch), [_LACKS_A_COLUMN])
        try:
            batch.look(f"{self.output}, which this attempt has written")
        except Exception:  # it is late, or cannot know that it is not: it has not written then
            self._take_back(keyed, batch)
            raise
        return self.written(spark, batch)

    def _take_back(self, keyed: DataFrame, batch: SinkBatch) -> None:
        """Leave nothing of this attempt's snapshot, unless a newer attempt has replaced that already."""
        snapshots = keyed.sparkSession.table(f"{self.sql_name}.snapshots")
        for name, value in _facts(batch).items():
            snapshots = snapshots.where(snapshots["summary"][name] == value)
        own = snapshots.first()
        if own is not None:
            with suppress(LateAttempt):
                self._overwrite(keyed.limit(0), batch, own.snapshot_id)

    def _overwrite(self, keyed: DataFrame, batch: SinkBatch, since: int | None = None) -> None:
        """:param since: the snapshot to validate from; ``None``: the one before a look."""
        from pyspark.sql import functions as f

        spark = keyed.sparkSession
        writer = evolved(keyed, self, batch, fill=True).writeTo(self.sql_name).options(**dict(self.options))
        writer = writer.options(**{f"snapshot-property.{name}": value for name, value in _facts(batch).items()})
        writer = writer.option("isolation-level", "serializable")
        snapshot = since or self._snapshot(spark)  # before the look: who comes after the look comes after this, too
        if snapshot is not None:
            writer = writer.option("validate-from-snapshot-id", str(snapshot))
        if since is None:
            batch.look(self.output)
        try:
            writer.overwrite(f.expr(batch.row_filter))
        except Exception as error:
            if (explained := self._explained(str(error), batch)) is not None:
                raise explained from error
            raise

    def again(self, spark: SparkSession, write: Callable[[], None], batch: SinkBatch) -> None:
        """Write, and again while others commit in between."""
        write_among_others(write, (*_OVERTAKEN, _CHANGED_WHILE_MERGING))

    def check(self, spark: SparkSession) -> None:
        if spark.conf.get(WAP_ID, None):
            raise InvalidRequest(
                [
                    f"The session has {WAP_ID}: Iceberg may stage what is written to {self.output}, and no reader sees "
                    "it, nor this sink. Nothing was written. Write to a branch instead (spark.wap.branch), and publish "
                    "it between Spark and the commit."
                ]
            )
        require_one_iceberg_writer(spark, self.output, table_parts(self.table))

    def columns(self, rows: DataFrame) -> StructType | None:
        table = self.current(rows.sparkSession)
        return None if table is None else table.schema

    def change(self, spark: SparkSession, change: Change) -> None:
        spark.sql(f"ALTER TABLE {self.sql_name} {change.sql}")

    def keys(self, spark: SparkSession) -> list[str]:
        """By the bounds of each file, which the table's metadata has; a scan of one column after a compaction."""
        table = self.current(spark)
        if table is None or BATCH_COLUMN not in table.columns:
            return []
        bounds = f"readable_metrics.{BATCH_COLUMN}"
        columns = (f"{bounds}.lower_bound AS low", f"{bounds}.upper_bound AS high", "content")
        files = spark.table(f"{self.sql_name}.files").selectExpr(*columns).distinct().collect()
        if any(file.content != 0 or file.low is None or file.low != file.high for file in files):
            return TableSink.keys(self, spark)
        return sorted({file.low for file in files if file.low is not None})

    def _exists(self, spark: SparkSession) -> bool:
        return bool(spark.catalog.tableExists(self.sql_name))

    def current(self, spark: SparkSession) -> DataFrame | None:
        if not self._exists(spark):
            return None
        spark.catalog.refreshTable(self.sql_name)  # it may remember one of half a minute ago
        return spark.table(self.sql_name)

    def _snapshot(self, spark: SparkSession) -> int | None:
        spark.catalog.refreshTable(self.sql_name)
        refs = spark.table(f"{self.sql_name}.refs")
        newest = {row[0]: int(row[1]) for row in refs.select("name", "snapshot_id").collect()}
        return newest.get(spark.conf.get(WAP_BRANCH, "main"), newest.get("main"))  # a new branch begins at main

    def make(self, rows: DataFrame) -> None:
        """The table, with the columns of these rows, if there is none."""
        if self._exists(rows.sparkSession):
            return
        columns = ", ".join(f"{quoted(field.name)} {sql_type(field.dataType)}" for field in rows.schema.fields)
        partitions = f"PARTITIONED BY ({', '.join(self.partition_by)})" if self.partition_by else ""
        full = ", ".join(f"'{METRICS}.column.{column}' = 'full'" for column in (BATCH_COLUMN, SPLIT_COLUMN))
        # Another split may be faster: then the table is there.
        rows.sparkSession.sql(
            f"CREATE TABLE IF NOT EXISTS {self.sql_name} ({columns}) USING iceberg {partitions} TBLPROPERTIES ({full})"
        )

    def require_safe_merge(self, spark: SparkSession) -> None:
        """:raises InvalidRequest: two that merge at the same time could both put a key in."""
        if not self._exists(spark):
            return
        level = self._properties(spark).get(MERGE_ISOLATION, "serializable")
        if level != "serializable":
            raise InvalidRequest(
                [
                    f"{self.output} has {MERGE_ISOLATION} = {level!r}: two drivers could put one key in twice. "
                    f"First: ALTER TABLE {self.table} UNSET TBLPROPERTIES ('{MERGE_ISOLATION}')."
                ]
            )

    def _properties(self, spark: SparkSession) -> dict[str, str]:
        return {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {self.sql_name}").collect()}

    def _check_bounds(self, spark: SparkSession) -> None:
        properties = self._properties(spark)
        default = properties.get(f"{METRICS}.default", "truncate(16)")
        setting = f"{METRICS}.column.{BATCH_COLUMN}"
        if properties.get(setting, default).lower() != "full":
            raise InvalidRequest(
                [
                    f"{self.output} keeps the first characters of {BATCH_COLUMN} only as a file's bounds. Its batches "
                    f"could be written once and never again. First: ALTER TABLE {self.table} SET TBLPROPERTIES "
                    f"('{setting}' = 'full', '{METRICS}.column.{SPLIT_COLUMN}' = 'full')."
                ]
            )

    def _explained(self, text: str, batch: SinkBatch) -> Exception | None:
        if any(words in text for words in _OVERTAKEN):
            return overtaken(batch, self.output, "a newer attempt, which has committed meanwhile,")
        if _MIXED_FILES in text:
            return InvalidRequest(
                [
                    f"Rows of batch {batch.key} are in one file with others of {self.output}: the table was "
                    f"compacted, or its bounds were cut when they were written. Nothing was changed. To do it again: "
                    f"DELETE FROM {self.table} WHERE {batch.row_filter}. Compact only batches that are done with."
                ]
            )
        return None


def _facts(batch: SinkBatch) -> dict[str, str]:
    """What a snapshot's summary says of it."""
    facts = {"batch": batch.key, "split": batch.split, "attempt": batch.attempt}
    return {f"kafka-offsets.{name}": str(value) for name, value in facts.items()}


def iceberg(
    table: str,
    partition_by: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    evolve: Evolve = "fail",
) -> IcebergSink:
    """Write to an Iceberg table, which is made if need be.

    :param table: catalog, namespace and name.
    :param partition_by: for a new table: columns, or transforms such as ``days(timestamp)``.
    :param options: of Iceberg's writer, such as ``target-file-size-bytes``.
    :param evolve: ``fail`` refuses rows with a new column or a wider type. ``add`` gives the table both. No column is
        ever dropped or narrowed.
    :raises InvalidRequest: no table is named, or an option is not yours to set.
    """
    if not table:
        raise InvalidRequest(["No table is named. Give catalog, namespace and name, such as lake.db.orders."])
    table_parts(table)
    check_evolve(evolve)
    return IcebergSink(table, names("partition_by", partition_by), options_of(options, OWN_OPTIONS), evolve)
