"""A database: the rows of a key and split are replaced in one transaction of the driver.

The executors fill a staging table of the attempt's own, which readers do not ask for. Then the driver takes a lock of
this key and split, looks whether it is still the one to write, deletes the old rows and inserts the staged ones, and
commits. The look is made under the lock, so no late driver gets in between: one that looked before a newer attempt
began is over, or waited for, before that one writes. A newer attempt also drops what older ones have staged, so that
their transactions fail.

The staging table is dropped at the end. That of a driver that was killed is found by its name and dropped by the next
attempt at the split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import refuse
from airflow_kafka_offsets.spark.client_properties import settings_of
from airflow_kafka_offsets.spark.sinks import postgresql
from airflow_kafka_offsets.spark.sinks.evolution import TRIES, Change, Evolve, TableSink, check_evolve, evolved
from airflow_kafka_offsets.spark.sinks.postgresql import PARTITION, Database, Name, Properties, staged
from airflow_kafka_offsets.spark.sinks.sink_contract import (
    BATCH_COLUMN,
    OWN_COLUMNS,
    SPLIT_COLUMN,
    SinkBatch,
    options_of,
    with_key,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

CONF_PREFIX = "spark.kafka_offsets.jdbc."
OWN_OPTIONS = ("url", "dbtable", "query", "driver", "user", "password", "truncate", "isolationLevel")


@dataclass(frozen=True, slots=True)
class JdbcSink(TableSink):
    """See :func:`jdbc`."""

    database: Database
    table: Name
    wait_s: int
    options: tuple[tuple[str, str], ...]
    evolve: Evolve = "fail"

    @property
    def output(self) -> str:
        return f"{_plain_url(self.database.url)}:{self.table}"

    def __call__(self, records: DataFrame, batch: SinkBatch) -> DataFrame:
        keyed = evolved(with_key(records, batch, PARTITION), self, batch)
        with staged(self.database, self.table, keyed, batch, dict(self.options)) as (connection, staging):
            columns = ", ".join(postgresql.quoted(column) for column in staging.columns)
            index = f"CREATE INDEX ON {self.table.sql} ({', '.join(OWN_COLUMNS)})"
            with connection.transaction():
                postgresql.take_place(connection, self.table, batch, self.output, self.wait_s)
                staging.require_whole(connection)
                postgresql.make_table(connection, staging, index)
                own = f"{BATCH_COLUMN} = ? AND {SPLIT_COLUMN} = ?"
                connection.run(f"DELETE FROM {self.table.sql} WHERE {own}", batch.key, batch.split)
                connection.run(f"INSERT INTO {self.table.sql} ({columns}) {staging.rows}")
        return self.written(records.sparkSession, batch)

    def columns(self, rows: DataFrame) -> StructType | None:
        """As Spark reads them. A column with a default is nullable: PostgreSQL fills it."""
        from pyspark.sql.types import StructField, StructType

        spark = rows.sparkSession
        with self.database.connection(spark) as connection:
            if not postgresql.table_exists(connection, self.table):
                return None
            required = postgresql.columns_where(connection, self.table, postgresql.REQUIRED)
        # Spark writes two types of its own as two types of PostgreSQL, and reads both as the first if it is not asked.
        options = {**dict(self.options), "preferTimestampNTZ": str("timestamp_ntz" in dict(rows.dtypes).values())}
        found = self.database.reader(spark, self.table.sql, options).schema
        return StructType([StructField(field.name, field.dataType, field.name not in required) for field in found])

    def change(self, spark: SparkSession, change: Change) -> None:
        with self.database.connection(spark) as connection, connection.transaction():
            postgresql.change_column(connection, self.table, change, max(1, self.wait_s // TRIES))

    def keys(self, spark: SparkSession) -> list[str]:
        """``SELECT DISTINCT``, in the database."""
        with self.database.connection(spark) as connection:
            if not postgresql.table_exists(connection, self.table):
                return []
            distinct = f"SELECT DISTINCT {BATCH_COLUMN} FROM {self.table.sql} WHERE {BATCH_COLUMN} IS NOT NULL"
            return sorted(connection.values(distinct))

    def current(self, spark: SparkSession) -> DataFrame | None:
        with self.database.connection(spark) as connection:
            if not postgresql.table_exists(connection, self.table):
                return None
        return self.database.reader(spark, self.table.sql, dict(self.options))


def jdbc(
    url: str,
    table: str,
    properties: Callable[[SparkSession], Mapping[str, str]] | str = CONF_PREFIX,
    dialect: str = "postgresql",
    options: Mapping[str, object] | None = None,
    wait_s: int = 600,
    evolve: Evolve = "fail",
) -> JdbcSink:
    """Write to a table of PostgreSQL, which is made if need be, with an index on the key's columns.

    A table that is there already needs the columns ``kafka_batch text`` and ``kafka_split int``, and such an index. The
    role may create tables in its schema.

    :param url: ``jdbc:postgresql://host:5432/database``, without user and password.
    :param table: its name, also ``schema.table``.
    :param properties: where user, password and other properties of the driver come from, when they are needed: a prefix
        of Spark settings, so that ``spark.kafka_offsets.jdbc.password`` is the password (Spark hides its value); or a
        function of the session.
    :param dialect: the database; only ``postgresql`` is known.
    :param options: of Spark's JDBC source, such as ``batchsize``.
    :param wait_s: how long to wait for another attempt's transaction on the same key and split.
    :param evolve: ``fail`` refuses rows with a new column or a wider type. ``add`` gives the table both. No column is
        ever dropped or narrowed.
    :raises InvalidRequest: another dialect, or a user or a password in the URL.
    """
    problems = []
    if dialect != "postgresql":
        problems.append(f"dialect is {dialect!r}; the only one that is known, and tested, is 'postgresql'.")
    if not url.startswith("jdbc:postgresql:"):
        problems.append("The URL does not begin with jdbc:postgresql:, such as jdbc:postgresql://host:5432/database.")
    if re.search(r"[?&](user|\w*password)=", url, re.IGNORECASE) or "@" in url.partition("?")[0]:
        problems.append(
            "The URL has a user or a password in it, and URLs are logged. Set them as Spark settings: "
            f"{CONF_PREFIX}user and {CONF_PREFIX}password."
        )
    refuse(problems)
    check_evolve(evolve)
    asked = _settings(properties) if isinstance(properties, str) else properties
    return JdbcSink(Database(url, asked), Name.parse(table), wait_s, options_of(options, OWN_OPTIONS), evolve)


def _settings(prefix: str) -> Properties:
    def properties(spark: SparkSession) -> dict[str, str]:
        settings = settings_of(spark)
        return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}

    return properties


def _plain_url(url: str) -> str:
    """One database, one name: without parameters, and with the port that is meant."""
    found = re.fullmatch(r"jdbc:postgresql:(?://([^/?]*)/)?([^?]*)(?:\?.*)?", url)
    assert found is not None
    hosts = [host for host in (found[1] or "localhost").lower().split(",") if host]
    with_ports = [host if re.search(r":\d+$", host) else f"{host}:5432" for host in hosts]
    return f"jdbc:postgresql://{','.join(with_ports)}/{found[2]}"
