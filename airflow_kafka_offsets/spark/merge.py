"""Entity tables: one row per key, merged from the log table behind the commit, by one MERGE per run.

A row has the batch, the commit of that batch (``kafka_commit``, the number of its entry), and the topic, partition and
offset of the record that it comes from. A record replaces the row of its key only if its batch is later, or is the same
one committed later; within a batch the highest offset counts. So a merge that is late, is repeated, or runs beside
another one changes nothing that it must not: the format's own transaction refuses two MERGEs that touch the same rows,
and the one that tries again finds the newer rows. Delta's ``txn`` would add a way to skip a merge in silence.

- A deleted key keeps its row, with ``kafka_deleted`` true and its values null. Without it, a batch that is reprocessed
  would bring back what a later batch has deleted.
- A key with records in two partitions is refused: neither offset nor clock says which is newer. A row whose
  ``partition`` is null is of none, and one without ``kafka_batch`` is older than every record.
- A reprocessed batch that lacks a key which it had cannot say what the key was before: such keys are named in the log.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark.commits import Committed
from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.sinks import plain_sink
from airflow_kafka_offsets.spark.sinks.columns import quoted
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN
from airflow_kafka_offsets.spark.sinks.table import IN_THE_WAY, OVERTAKEN, TableSink, try_again

log = logging.getLogger(__name__)

COMMIT_COLUMN, DELETED = "kafka_commit", "kafka_deleted"
SOURCE = ("topic", "partition", "offset")
EXAMPLES = 5
ISOLATION = "write.merge.isolation-level"
_PLACE = "concat({0}topic, '-', {0}`partition`, ':', {0}offset)"
_REFUSED = f"raise_error(concat('KEY_IN_TWO_PARTITIONS ', {_PLACE.format('t.')}, ' ', {_PLACE.format('s.')}, ' '))"
_IN_TWO = re.compile(r"KEY_IN_TWO_PARTITIONS (\S+) (\S+)")
_NEWER = (
    f"(t.{BATCH_COLUMN} IS NULL OR s.{BATCH_COLUMN} > t.{BATCH_COLUMN} "
    f"OR s.{BATCH_COLUMN} = t.{BATCH_COLUMN} AND s.{COMMIT_COLUMN} > t.{COMMIT_COLUMN})"
)
_ELSEWHERE = (
    f"t.{BATCH_COLUMN} != s.{BATCH_COLUMN} AND t.`partition` IS NOT NULL "
    "AND NOT (t.topic <=> s.topic AND t.`partition` <=> s.`partition`)"
)


@dataclass(frozen=True, slots=True)
class Merge:
    """What is merged, and into which table.

    :ivar log: the table that the sink writes.
    :ivar pipeline: the name that it carries.
    :ivar keys: the columns that identify a row.
    :ivar delete_when: a condition over the columns of the log table; ``None``: nothing is deleted.
    """

    log: TableSink
    table: TableSink
    pipeline: str
    keys: tuple[str, ...]
    delete_when: str | None

    @classmethod
    def of(cls, job: Mapping[str, Any], pipeline: str) -> Merge:
        """:raises InvalidJob: the job object names no entity table."""
        given, own = job.get("merge"), plain_sink(job["sink"], job["output"])
        if given is None:
            raise InvalidJob("Cannot merge", "The job object has no merge", "Give kafka_spark_batch merge=Merge(…)")
        return cls(own, plain_sink(given["sink"]), pipeline, tuple(given["keys"]), given["delete_when"])

    def check(self, spark: SparkSession) -> None:
        """:raises OtherOutput: the table is another pipeline's, or is no entity table."""
        self.table.check(spark, self._mark)

    def merged(self, spark: SparkSession) -> str | None:
        """The key of the newest batch that was merged."""
        table = self.table.read(spark)
        return None if table is None else table.agg(f.max(BATCH_COLUMN)).collect()[0][0]

    def written(self, spark: SparkSession, after: str | None) -> list[str]:
        """The keys of later batches in the log table."""
        rows = self.log.read(spark)
        if rows is None:
            return []
        keys = rows.where(f.col(BATCH_COLUMN) > (after or "")).select(BATCH_COLUMN).distinct().collect()
        return [row[0] for row in keys]

    def newest(self, spark: SparkSession, batches: Sequence[Committed]) -> DataFrame:
        """The last row of each key, read once.

        :raises InvalidJob: the log table lacks a column, a row has no key, or a key is in two partitions.
        """
        commits = spark.createDataFrame(
            [(batch.key, batch.entry) for batch in batches], f"{BATCH_COLUMN} STRING, {COMMIT_COLUMN} INT"
        )
        rows = self.log.read(spark)
        assert rows is not None
        self._check_columns(rows.columns)
        rows = rows.where(f.col(BATCH_COLUMN).isin([batch.key for batch in batches]))
        place = f.struct("topic", "partition")
        by_key = (
            rows.join(f.broadcast(commits), BATCH_COLUMN)
            .groupBy(*map(quoted, self.keys))
            .agg(
                f.max_by(f.struct("*"), f.struct(BATCH_COLUMN, "offset")).alias("kafka_row"),
                (f.min(place) != f.max(place)).alias("kafka_split"),
            )
            .select("kafka_row.*", "kafka_split")
            .withColumn(DELETED, f.coalesce(f.expr(self.delete_when or "false"), f.lit(False)))
        )
        first = [BATCH_COLUMN, COMMIT_COLUMN, DELETED]
        kept = {name.lower() for name in (*first, *SOURCE, *self.keys, "kafka_split")}
        others = [name for name in by_key.columns if name not in first]
        values = (f.when(~f.col(DELETED), f.col(quoted(c))).alias(c) if c.lower() not in kept else quoted(c)
                  for c in others)  # fmt: skip
        found = by_key.select(*first, *values).localCheckpoint()  # MERGE reads it more than once
        self._check_keys(found)
        return found.drop("kafka_split")

    def write(self, newest: DataFrame) -> None:
        """:raises InvalidJob: a key has its row from another partition, or the table allows lost updates."""
        why = f"Another driver has committed to {self.table.output} meanwhile: the merge is tried again."
        try:
            try_again(lambda: self._merge(newest), why, (*IN_THE_WAY, *OVERTAKEN))
        except Exception as error:
            if found := _IN_TWO.search(str(error)):
                cause = f"A key has its row from {found[1]} and a newer record at {found[2]}, of another partition"
                remedy = f"If all that is to come is newer: UPDATE {self.table.name} SET `partition` = NULL"
                raise InvalidJob(f"Cannot merge into {self.table.output}", cause, remedy) from error
            raise

    def name_lost(self, spark: SparkSession, batches: Sequence[Committed]) -> None:
        """Name the keys that only the old version of a reprocessed batch had: nothing says what they were before."""
        for batch in (batch for batch in batches if batch.commits > 1):
            which = f"{BATCH_COLUMN} = '{batch.key}' AND {COMMIT_COLUMN} < {batch.entry}"
            table = self.table.read(spark)
            assert table is not None
            lost = table.where(which).select(*map(quoted, self.keys))
            if count := lost.count():
                first = ", ".join(str(tuple(row)) for row in lost.limit(EXAMPLES).collect())
                log.warning(
                    "Batch %d was reprocessed, and keys that it had are not in it any more: %d. Their rows in %s are "
                    "those of its old version. The first of %s: %s. To remove them: DELETE FROM %s WHERE %s",
                    batch.number, count, self.table.output, ", ".join(self.keys), first, self.table.name, which
                )  # fmt: skip

    @property
    def _mark(self) -> str:
        """An entity table carries another name than outputs of the pipeline: it is none, by whichever alias."""
        return f"{self.pipeline}/merge"

    def _merge(self, newest: DataFrame) -> None:
        rows, properties = self.table.prepare(newest, self._mark)
        if (level := properties.get(ISOLATION, "serializable")) != "serializable":
            cause = f"{ISOLATION} is {level}: two merges at once could insert a key twice"
            remedy = f"ALTER TABLE {self.table.name} SET TBLPROPERTIES ('{ISOLATION}' = 'serializable')"
            raise InvalidJob(f"Cannot merge into {self.table.output}", cause, remedy)
        view = f"kafka_merge_{secrets.token_hex(4)}"
        rows.createOrReplaceTempView(view)
        values = {quoted(name): f"s.{quoted(name)}" for name in rows.columns}
        merged = {quoted(name): f"s.{quoted(name)}" for name in newest.columns}  # other columns are the table's own
        merged["`offset`"] = f"CASE WHEN {_ELSEWHERE} THEN CAST({_REFUSED} AS BIGINT) ELSE s.offset END"
        try:
            newest.sparkSession.sql(
                f"MERGE INTO {self.table.name} AS t USING {view} AS s "
                f"ON {' AND '.join(f't.{quoted(key)} = s.{quoted(key)}' for key in self.keys)} "
                f"WHEN MATCHED AND {_NEWER} THEN UPDATE SET "
                f"{', '.join(f'{name} = {value}' for name, value in merged.items())} "
                f"WHEN NOT MATCHED THEN INSERT ({', '.join(values)}) VALUES ({', '.join(values.values())})"
            )
        finally:
            newest.sparkSession.catalog.dropTempView(view)

    def _check_columns(self, columns: Sequence[str]) -> None:
        present = {name.lower() for name in columns}
        if missing := [key for key in self.keys if key.lower() not in present]:
            cause = f"{self.log.output} has no column {', '.join(missing)}, which merge has as key"
            raise InvalidJob("Cannot merge", cause, "Correct Merge(keys=…), or add it to Rows(select=…)")
        if taken := present & {COMMIT_COLUMN, DELETED}:
            cause = f"{self.log.output} has a column {', '.join(sorted(taken))}, which merge adds"
            raise InvalidJob("Cannot merge", cause, "Rename it in Rows(select=…)")

    def _check_keys(self, newest: DataFrame) -> None:
        no_key = " OR ".join(f"{quoted(key)} IS NULL" for key in self.keys)
        counts = [f"count_if({what})" for what in (no_key, "kafka_split")]
        first = [f"min(CASE WHEN {what} THEN {_PLACE.format('')} END)" for what in (no_key, "kafka_split")]
        without, split, first_without, first_split = newest.selectExpr(*counts, *first).collect()[0]
        what = f"Cannot merge into {self.table.output}"
        if without:
            cause = f"A row of {self.log.output} has no {' or '.join(self.keys)}; the last one is {first_without}"
            raise InvalidJob(what, cause, 'Leave such rows out, Rows(where="… IS NOT NULL"), and clear the run')
        if split:
            cause = (
                f"Keys with rows of two partitions in {self.log.output}: {split:,}; one has its last at {first_split}"
            )
            remedy = "Produce each key to one partition; delete the older of these rows there, and retry"
            raise InvalidJob(what, cause, remedy)
