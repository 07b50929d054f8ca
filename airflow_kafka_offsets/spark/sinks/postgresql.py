"""PostgreSQL from the driver: one connection, and a staging table that the executors fill.

Executors commit one by one, so they cannot write the output itself. They fill a table of this attempt's own; then the
driver moves its rows in one transaction. Two facts of Spark's writer matter. Each task commits its partition at once.
And a task may commit twice (its answer was lost, or a speculative copy was as fast): then the staging table has its
rows twice, which no error shows. PostgreSQL knows better: rows of one transaction have one ``xmin``. So each staged row
has the number of its partition, and of each partition the rows of one transaction are taken. So the connections must
not divide a transaction (``autosave``, which makes a savepoint for each statement, gives each an ``xmin`` of its own),
and where a partition has several transactions, all must have the same rows: else the write is refused.

The staging table is an ordinary one, not ``UNLOGGED``: such a table is empty after a crash of the server, and its rows
would be missing without an error.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.spark.driver_jvm import require_jvm
from airflow_kafka_offsets.spark.sinks.evolution import Change, sql_type
from airflow_kafka_offsets.spark.sinks.sink_contract import SinkBatch, overtaken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

log = logging.getLogger(__name__)

DRIVER = "org.postgresql.Driver"
PARTITION = "kafka_task"
LONGEST_NAME = 63
Properties = Callable[["SparkSession"], Mapping[str, str]]
REQUIRED = "attnotnull AND NOT atthasdef AND attidentity = ''"  # an INSERT has to name it: nothing fills it
NULLABLE = "NOT attnotnull AND NOT atthasdef"  # null in a row for which an INSERT does not name it
_TYPES = {  # as Spark's own writer has them
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "boolean": "boolean",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}


@dataclass(frozen=True, slots=True)
class Name:
    """A table's name: parts that are not quoted are lower case, as in PostgreSQL itself."""

    schema: str
    table: str

    @classmethod
    def parse(cls, name: str) -> Name:
        """:raises InvalidRequest: it is not a table, or schema and table."""
        parts = re.findall(r'"((?:[^"]|"")+)"|([^".]+)', name)
        found = [quoted.replace('""', '"') if quoted else plain.lower() for quoted, plain in parts]
        part = r'(?:"(?:[^"]|"")+"|[A-Za-z_][\w$]*)'
        if not re.fullmatch(rf"{part}(?:\.{part})?", name):
            raise InvalidRequest([f"{name!r} is no table's name: give table, or schema.table."])
        for long in (part for part in found if len(part.encode()) > LONGEST_NAME):
            cut = f"{len(long.encode())} bytes, and PostgreSQL cuts it off after {LONGEST_NAME}"
            raise InvalidRequest(
                [f"The name {long!r} has {cut}: another table could have the rest. Give a shorter one."]
            )
        return cls(*(["public", *found][-2:]))

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table)}"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Database:
    """How to reach it. The properties (user, password) are asked for when they are needed, and stored nowhere.

    :ivar url: as it was given.
    """

    url: str
    properties: Properties = field(repr=False)

    @property
    def one_transaction_url(self) -> str:
        """With ``autosave`` off. The driver takes a URL's word before a property's, and the last one of the URL."""
        return f"{self.url}{'&' if '?' in self.url else '?'}autosave=never"

    def reader(self, spark: SparkSession, table: str, options: Mapping[str, str]) -> DataFrame:
        all_options = {"fetchsize": "10000", **options, **self._options(spark), "dbtable": table}
        return spark.read.format("jdbc").options(**all_options).load()

    def write(self, records: DataFrame, table: str, options: Mapping[str, str]) -> None:
        """Into a table that this makes."""
        all_options = {**options, **self._options(records.sparkSession), "dbtable": table}
        records.write.format("jdbc").mode("error").options(**all_options).save()

    def _options(self, spark: SparkSession) -> dict[str, str]:
        return {**self.properties(spark), "url": self.one_transaction_url, "driver": DRIVER}

    @contextmanager
    def connection(self, spark: SparkSession) -> Iterator[Connection]:
        """Closed at the end, which takes back what was not committed."""
        jvm = require_jvm(spark, "A database is written")
        properties = jvm.java.util.Properties()
        for name, value in self.properties(spark).items():
            properties.setProperty(name, value)
        # DriverManager takes no driver from --jars. Spark registers one in the class loader that it does know.
        jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(DRIVER)
        connection = jvm.java.sql.DriverManager.getConnection(self.one_transaction_url, properties)
        try:
            yield Connection(connection)
        finally:
            with suppress(Exception):
                connection.close()


class Connection:
    """Statements with text and whole numbers as parameters."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, sql: str, *parameters: str | int) -> int:
        """The number of rows that were changed; 0 for a statement that changes none."""
        with self._prepared(sql, parameters) as statement:
            return 0 if statement.execute() else max(0, int(statement.getUpdateCount()))

    def value(self, sql: str, *parameters: str | int) -> str | None:
        """The first column of the first row, as text; None for NULL or no row."""
        with self._prepared(sql, parameters) as statement:
            result = statement.executeQuery()
            found: str | None = result.getString(1) if result.next() else None
            return found

    def values(self, sql: str, *parameters: str | int) -> list[str]:
        """The first column of all rows. One answer, not a call a row: a table may have ten thousand keys."""
        joined = self.value(f"SELECT string_agg(v::text, chr(10)) FROM ({sql}) AS rows(v)", *parameters)
        return joined.split("\n") if joined else []

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._connection.setAutoCommit(False)
        try:
            yield
        except BaseException:
            with suppress(Exception):
                self._connection.rollback()
            raise
        self._connection.commit()
        self._connection.setAutoCommit(True)

    @contextmanager
    def _prepared(self, sql: str, parameters: tuple[str | int, ...]) -> Iterator[Any]:
        statement = self._connection.prepareStatement(sql)
        try:
            for position, parameter in enumerate(parameters, start=1):
                set_parameter = statement.setString if isinstance(parameter, str) else statement.setInt
                set_parameter(position, parameter)
            yield statement
        finally:
            with suppress(Exception):
                statement.close()


@dataclass(frozen=True, slots=True)
class Staging:
    """The table that one attempt fills; it lies beside the target."""

    target: Name
    name: Name
    columns: tuple[str, ...]

    @property
    def rows(self) -> str:
        """A query of the staged rows without those of a task that committed twice."""
        columns = ", ".join(quoted(column) for column in self.columns)
        return (
            f"SELECT {columns} FROM {self.name.sql} WHERE ({PARTITION}, xmin::text) IN "
            f"(SELECT {PARTITION}, min(xmin::text) FROM {self.name.sql} GROUP BY {PARTITION})"
        )

    def require_whole(self, connection: Connection) -> None:
        """:raises InvalidRequest: a task's transactions have different rows, so that those of one are not all."""
        several = (
            f"SELECT {PARTITION} FROM {self.name.sql} GROUP BY {PARTITION} HAVING min(xmin::text) < max(xmin::text)"
        )
        different = (
            f"SELECT 1 FROM (SELECT {PARTITION}, count(*) AS n, sum(hashtextextended(s::text, 0)) AS h "
            f"FROM {self.name.sql} AS s WHERE {PARTITION} IN ({several}) GROUP BY {PARTITION}, xmin::text) AS t "
            f"GROUP BY {PARTITION} HAVING count(DISTINCT (n, h)) > 1 LIMIT 1"
        )
        if connection.value(different) is not None:
            raise InvalidRequest(
                [
                    f"A Spark task has put its rows into {self.name} in several transactions, of which one would be "
                    "taken. Nothing was written. If a retry says the same, see what divides transactions: the "
                    "connection's properties, or a trigger."
                ]
            )


@contextmanager
def staged(
    database: Database, target: Name, keyed: DataFrame, batch: SinkBatch, options: Mapping[str, str]
) -> Iterator[tuple[Connection, Staging]]:
    """The records in a staging table, and a connection to move them. What earlier attempts left is dropped first.

    :param keyed: the records with the key's columns, and without one named :data:`PARTITION`.
    """
    from pyspark.sql import functions as f

    spark = keyed.sparkSession
    digest = hashlib.sha256(f"{target} {batch.key} {batch.split}".encode()).hexdigest()[:12]
    prefix = f"kafka_staging_{digest}_"
    name = Name(target.schema, f"{prefix}{batch.attempt}_{secrets.token_hex(3)}")
    with database.connection(spark) as connection:
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = ? AND starts_with(tablename, ?)"
        for left in connection.values(tables, target.schema, prefix):
            if int(left.removeprefix(prefix).partition("_")[0]) < batch.attempt:
                _drop_quietly(connection, Name(target.schema, left))
    try:
        database.write(keyed.withColumn(PARTITION, f.spark_partition_id()), name.sql, options)
        with database.connection(spark) as connection:
            yield connection, Staging(target, name, tuple(keyed.columns))
    except Exception as error:
        if f'{name}" does not exist' in str(error):
            by = "a newer attempt, which has dropped what this one had staged,"
            raise overtaken(batch, str(target), by) from error
        raise
    finally:
        with suppress(Exception), database.connection(spark) as connection:
            _drop_quietly(connection, name)


def take_place(connection: Connection, target: Name, batch: SinkBatch, output: str, wait_s: int) -> None:
    """Inside of a transaction: be the only one that writes this key and split, and look whether one may.

    The look is made under the lock. Another attempt that begins after it cannot write before this transaction is over,
    so what it writes stays; one that began before it is seen by it.

    :raises Exception: the database's own, if another attempt has held the lock for longer than ``wait_s``.
    """
    connection.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")  # see what is there when the lock is given
    connection.run(f"SET LOCAL lock_timeout = '{wait_s}s'")
    lock = f"kafka-offsets {target} {batch.key} {batch.split}"
    connection.value("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))::text", lock)
    batch.look(output)


def make_table(connection: Connection, staging: Staging, index: str) -> None:
    """The target, with the columns of the staged rows, if there is none. Another split may be about to make it."""
    if table_exists(connection, staging.target):
        return
    connection.value("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))::text", f"kafka-offsets {staging.target}")
    if not table_exists(connection, staging.target):
        connection.run(f"CREATE TABLE {staging.target.sql} AS {staging.rows} LIMIT 0")
        connection.run(index)


def table_exists(connection: Connection, target: Name) -> bool:
    # Not to_regclass(): inside of a transaction it goes on to say what it found before the lock was waited for.
    found = "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = ? AND relname = ?"
    return connection.value(found, target.schema, target.table) is not None


def columns_where(connection: Connection, target: Name, condition: str) -> list[str]:
    """
    :param condition: over ``pg_attribute``.
    """
    columns = f"SELECT attname FROM pg_attribute WHERE attrelid = {_regclass(target)} AND attnum > 0"
    return connection.values(f"{columns} AND NOT attisdropped AND {condition}")


def change_column(connection: Connection, target: Name, change: Change, wait_s: int) -> None:
    """Inside of a transaction: add a column or widen it, if it is still as it was when the rows were compared.

    The look is made under the table's lock. PostgreSQL would also narrow a column that another driver has widened.
    """
    connection.run(f"SET LOCAL lock_timeout = '{wait_s}s'")
    connection.run(f"LOCK TABLE {target.sql} IN ACCESS EXCLUSIVE MODE")
    name, dimensions = change.path[0], "[]" * (len(change.path) - 1)
    found = connection.value(
        f"SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = {_regclass(target)} "
        "AND attname = ? AND NOT attisdropped",
        name,
    )
    if found is None and change.old is None:
        connection.run(f"ALTER TABLE {target.sql} ADD COLUMN {quoted(name)} {_type_of(change.new)}")
    elif change.old is not None and found == _type_of(change.old) + dimensions:
        kind = _type_of(change.new) + dimensions
        connection.run(f"ALTER TABLE {target.sql} ALTER COLUMN {quoted(name)} TYPE {kind}")
    else:
        raise OSError(f"{target} has changed meanwhile: {name} is {found}")


def _regclass(target: Name) -> str:
    return "'" + target.sql.replace("'", "''") + "'::regclass"


def _type_of(kind: DataType) -> str:
    """:raises InvalidRequest: PostgreSQL has no such type."""
    from pyspark.sql.types import ArrayType, DecimalType

    if isinstance(kind, ArrayType):
        return f"{_type_of(kind.elementType)}[]"
    if isinstance(kind, DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    if (found := _TYPES.get(kind.simpleString())) is None:
        raise InvalidRequest([f"PostgreSQL has no type for {sql_type(kind)}. Write it as text: to_json(…) in select."])
    return found


def _drop_quietly(connection: Connection, name: Name) -> None:
    """What is left is in nobody's way: the next attempt at the split finds it."""
    try:
        connection.run("SET lock_timeout = '30s'")  # a driver or a task may still use it
        connection.run(f"DROP TABLE IF EXISTS {name.sql}")
    except Exception:
        log.warning("The staging table %s could not be dropped; the split's next attempt will.", name, exc_info=True)
