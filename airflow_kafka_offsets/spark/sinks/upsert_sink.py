"""The newest record of each business key, in Delta, Iceberg or PostgreSQL.

A batch that is done again after later ones must not put its old values over theirs. So the row of a key holds topic,
partition and offset of the record that it comes from, and is updated only by a later batch of the log, or by the same
batch and an offset of the same partition that is not lower. With that, doing a batch again, in any order, by any number
of drivers at once, changes nothing; with a mended definition it mends the rows that still come from its records. The
batch comes before the offset: where a topic was re-created, offsets begin anew. A window comes after those that start
before it.

A key that is deleted has a row, too. Its column ``kafka_deleted`` is true, and its values are null. If the row were
gone, a late driver, or a batch that is done again, would find no row and bring the old values back: nothing would say
that a newer record has deleted them. For the same reason a delete of a key that has no row puts one in. Readers leave
such rows out with a view; docs/sinks.md says when they may be removed.

What it is not:

- It has no row for each record, so there is nothing to read back: the report is made from the persisted scan.
- It takes nothing back. What an attempt has put in stays, even if a later one plans fewer records.
- It compares offsets within one partition. A key that is found in two (the topic has got more partitions, or there are
  two topics) is refused: neither offset says which record is newer. A row whose offset is -1 is of none.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.plan.plan import number_of
from airflow_kafka_offsets.spark.sinks import postgresql
from airflow_kafka_offsets.spark.sinks.delta_sink import DeltaSink
from airflow_kafka_offsets.spark.sinks.evolution import evolved
from airflow_kafka_offsets.spark.sinks.iceberg_sink import IcebergSink
from airflow_kafka_offsets.spark.sinks.jdbc_sink import JdbcSink
from airflow_kafka_offsets.spark.sinks.postgresql import PARTITION, staged
from airflow_kafka_offsets.spark.sinks.sink_contract import (
    BATCH_COLUMN,
    DELETED,
    Merged,
    Sink,
    SinkBatch,
    names,
    with_key,
)
from airflow_kafka_offsets.values.sql_text import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE = ("topic", "partition", "offset")
_IS_PLACED = "coalesce(t.offset, 0) >= 0"
"""Of a row: somebody who sets its offset to -1 says that each record is newer, from whichever partition."""
_PLAIN_WINDOW = re.compile(r"[0-9]{8}T[0-9]{6}Z--[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")
_LENGTH_OF_START = len("20261122T020000")
TWO_PARTITIONS = (
    "a key has records in two partitions, whose offsets do not say which is newer. Where all that is still to be read "
    "is newer than what the table has: set its column offset to -1"
)
TWICE = (
    "it has a key in two rows. Was it written without upsert, or with other keys? Give the upsert a table of its own"
)
NO_KEY = "a record has no value in a key column, so nothing says which row is its own"


@dataclass(frozen=True, slots=True)
class UpsertSink:
    """See :func:`upsert`."""

    into: DeltaSink | IcebergSink | JdbcSink
    key_columns: tuple[str, ...]
    is_merged: ClassVar[bool] = True

    @property
    def output(self) -> str:
        return self.into.output

    def __call__(self, records: DataFrame, batch: SinkBatch) -> Merged:
        self.check(records.sparkSession)
        present = {name.lower() for name in records.columns}
        missing = [name for name in (*SOURCE, *self.key_columns) if name.lower() not in present]
        if missing:
            raise InvalidRequest(
                [f"An upsert needs the columns {', '.join(missing)} in the records: it compares offsets."]
            )
        rows = self._without_deleted_values(records)
        if isinstance(self.into, JdbcSink):
            _insert(self.into, self.key_columns, rows, batch)
        else:
            _merge(self.into, self.key_columns, rows, batch)
        return Merged(records)

    def _without_deleted_values(self, records: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        if DELETED not in records.columns:
            return records
        stay = {name.lower() for name in (*self.key_columns, *SOURCE, DELETED)}
        goes = [name for name in records.columns if name.lower() not in stay]
        is_deleted = f.coalesce(f.col(DELETED), f.lit(False))
        values = {name: f.when(~is_deleted, f.col(quoted(name))) for name in goes}
        return records.withColumns({**values, DELETED: is_deleted})

    def check(self, spark: SparkSession) -> None:
        if not isinstance(self.into, JdbcSink):
            self.into.check(spark)

    def keys(self, spark: SparkSession) -> list[str]:
        """Of the batches that some row still comes from."""
        return self.into.keys(spark)

    def rows(self, spark: SparkSession, bounds: tuple[str, str] | None = None) -> DataFrame | None:
        """Of each key its newest record; or those that come from the batches whose keys lie between two."""
        return self.into.rows(spark, bounds)

    def written(self, spark: SparkSession, batch: SinkBatch) -> None:
        """Nothing: a row that a later batch has updated is not this batch's any more, and was written all the same."""


def upsert(into: Sink, keys: Sequence[str]) -> UpsertSink:
    """Keep the newest record of each key: ``upsert(delta(table="lake.customers"), keys=["customer_id"])``.

    The records need the columns ``topic``, ``partition`` and ``offset``. Where they have the column ``kafka_deleted``,
    which is true or false, a record of which it is true deletes its key. A table of PostgreSQL that is there already
    needs a unique index on the keys.

    :param into: a sink of Delta with ``mode="overwrite"``, of Iceberg, or of PostgreSQL.
    :param keys: the columns that identify a row.
    :raises InvalidRequest: no keys, or another sink.
    """
    columns = names("keys", keys)
    if not columns:
        raise InvalidRequest(["keys is empty: name the columns that identify a row."])
    if not isinstance(into, DeltaSink | IcebergSink | JdbcSink):
        raise InvalidRequest([f"upsert writes into delta(…), iceberg(…) or jdbc(…), not {type(into).__name__}."])
    if isinstance(into, DeltaSink) and into.mode != "overwrite":
        raise InvalidRequest(["An upsert into Delta is no append: leave out mode='append'."])
    return UpsertSink(into, columns)


def _merge(into: DeltaSink | IcebergSink, keys: Sequence[str], records: DataFrame, batch: SinkBatch) -> None:
    """One MERGE: an error in any row undoes it all."""
    from pyspark.sql import functions as f

    spark = records.sparkSession
    keyed = with_key(records, batch)
    whole = f.struct(*(f.col(quoted(name)) for name in keyed.columns))
    newest = keyed.groupBy(*(quoted(name) for name in keys)).agg(
        f.max_by(whole, "offset").alias("kafka_newest"),
        f.count_distinct("topic", "partition").alias("kafka_partitions"),
    )
    no_key = f.lit(False)
    for name in keys:
        no_key = no_key | f.col(quoted(name)).isNull()
    # In a column that is written, so that no optimizer leaves it out.
    key_or_error = (
        f.when(no_key, f.raise_error(f.lit(NO_KEY)))
        .when(f.col("kafka_partitions") > 1, f.raise_error(f.lit(TWO_PARTITIONS)))
        .otherwise(f.col(f"kafka_newest.{BATCH_COLUMN}"))
    )
    source = newest.select(
        key_or_error.alias(BATCH_COLUMN),
        *(f.col(f"kafka_newest.{quoted(name)}") for name in keyed.columns if name != BATCH_COLUMN),
    ).localCheckpoint()  # MERGE reads it more than once, and Spark takes no source there that is not deterministic
    view = f"kafka_upsert_{secrets.token_hex(6)}"
    same_key = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in keys)
    elsewhere = f"{_IS_PLACED} AND NOT (t.topic <=> s.topic AND t.`partition` <=> s.`partition`)"
    in_two_rows = f"GROUP BY {', '.join(f's.{quoted(name)}' for name in keys)} HAVING count(*) > 1 LIMIT 1"

    def write() -> None:
        into.require_safe_merge(spark)
        into.make(source)
        evolved(source, into, batch, fill=True).createOrReplaceTempView(view)
        # MERGE would update them all. PostgreSQL has a unique index.
        if not spark.sql(f"SELECT 1 FROM {into.sql_name} AS t JOIN {view} AS s ON {same_key} {in_two_rows}").isEmpty():
            raise InvalidRequest([f"Batch {batch.key} was not written to {into.output}: {TWICE}."])
        batch.look(into.output)
        spark.sql(
            f"MERGE INTO {into.sql_name} AS t USING {view} AS s ON {same_key} "
            f"WHEN MATCHED AND {elsewhere} THEN UPDATE SET offset = CAST(raise_error('{TWO_PARTITIONS}') AS BIGINT) "
            f"WHEN MATCHED AND {_is_newer(batch, 's.offset >= t.offset')} THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *"
        )

    try:
        into.again(spark, write, batch)
    finally:
        spark.catalog.dropTempView(view)


def _is_newer(batch: SinkBatch, offset_is_not_lower: str) -> str:
    """SQL: whether a record of the batch is newer than the row ``t``, or is the one that the row was made of.

    Of two windows the one that starts later is the newer, where both say their starts to the second, for all topics:
    of one log its offsets are higher, too. Of other windows, of those of one second, of a window and a batch of the
    log, and where the row has no batch, the offsets say it.
    """
    number, column = number_of(batch.key), f"t.{BATCH_COLUMN}"
    if number:
        own, of_row, knows = f"{number:010}", f"left({column}, 10)", f"substring({column}, 11, 1) = '-'"
    elif _PLAIN_WINDOW.fullmatch(batch.key):
        size, own = len(batch.key), batch.key[:_LENGTH_OF_START]
        of_row, knows = f"left({column}, {_LENGTH_OF_START})", f"length({column}) = {size}"
    else:
        return offset_is_not_lower
    knows = f"coalesce({knows}, false)"
    is_later, is_same = f"{knows} AND {of_row} < '{own}'", f"NOT {knows} OR {of_row} = '{own}'"
    return f"({is_later} OR ({is_same}) AND {offset_is_not_lower})"


def _insert(into: JdbcSink, keys: Sequence[str], records: DataFrame, batch: SinkBatch) -> None:
    """One transaction: a staging table, checks, and one INSERT … ON CONFLICT."""
    keyed = evolved(with_key(records, batch, PARTITION), into, batch)
    with staged(into.database, into.table, keyed, batch, dict(into.options)) as (connection, staging):
        columns = ", ".join(postgresql.quoted(column) for column in staging.columns)
        cased = {name.lower(): name for name in staging.columns}  # PostgreSQL's names have a case
        keys = [cased[name.lower()] for name in keys]
        key = ", ".join(postgresql.quoted(name) for name in keys)
        target, rows = into.table.sql, f"({staging.rows})"
        no_key = " OR ".join(f"{postgresql.quoted(name)} IS NULL" for name in keys)
        same_key = " AND ".join(f"t.{postgresql.quoted(name)} = s.{postgresql.quoted(name)}" for name in keys)
        is_newer = _is_newer(batch, 'excluded."offset" >= t."offset"')
        in_two = f"SELECT 1 FROM {rows} AS s GROUP BY {key} HAVING count(DISTINCT (topic, partition)) > 1"
        elsewhere = (
            f"SELECT 1 FROM {rows} AS s JOIN {target} AS t ON {same_key} "
            f"WHERE {_IS_PLACED} AND (t.topic, t.partition) IS DISTINCT FROM (s.topic, s.partition)"
        )
        with connection.transaction():
            postgresql.take_place(connection, into.table, batch, into.output, into.wait_s)
            staging.require_whole(connection)
            postgresql.make_table(connection, staging, f"CREATE UNIQUE INDEX ON {target} ({key})")
            _refuse(connection, f"SELECT 1 FROM {rows} AS s WHERE {no_key}", NO_KEY, into, batch)
            _refuse(connection, in_two, TWO_PARTITIONS, into, batch)
            # Also a column that the rows lack: it would keep what an older record had in it.
            update = ", ".join(
                f"{column} = excluded.{column}"
                for column in map(
                    postgresql.quoted,
                    {*staging.columns, *postgresql.columns_where(connection, into.table, postgresql.NULLABLE)},
                )
            )
            connection.run(
                f"INSERT INTO {target} AS t ({columns}) SELECT DISTINCT ON ({key}) {columns} FROM {rows} AS s "
                f'ORDER BY {key}, "offset" DESC '
                f"ON CONFLICT ({key}) DO UPDATE SET {update} "
                f"WHERE (NOT {_IS_PLACED} OR t.topic = excluded.topic AND t.partition = excluded.partition) "
                f"AND {is_newer}"
            )
            # Not before: the INSERT waits for another split that puts the same key in, and then leaves its row alone.
            _refuse(connection, elsewhere, TWO_PARTITIONS, into, batch)


def _refuse(connection: postgresql.Connection, found: str, problem: str, into: JdbcSink, batch: SinkBatch) -> None:
    """:raises InvalidRequest: the query finds a row; the transaction is taken back."""
    if connection.value(f"{found} LIMIT 1") is not None:
        raise InvalidRequest([f"Batch {batch.key} was not written to {into.output}: {problem}."])
