# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A table of a pipeline's batches. What the formats do differently is in :mod:`.delta` and :mod:`.iceberg`.

The first attempt at a batch appends, so that windows do not stand in each other's way; a later one replaces the rows of
the key in one commit. Each commit carries its receipt, and a driver that was overtaken is fenced off by the format.

The table carries a mark, before its first batch: the name of the pipeline, and the id of its log. No other pipeline,
and no copy of this one, writes it, whatever alias it has.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from airflow_kafka_offsets.spark.batch import Batch, Written
from airflow_kafka_offsets.spark.errors import InvalidJob, LogBehind, OtherOutput, OutputLost
from airflow_kafka_offsets.spark.plan import Plan
from airflow_kafka_offsets.spark.receipts import receipt_of
from airflow_kafka_offsets.spark.retries import names_of, try_again
from airflow_kafka_offsets.spark.sinks.columns import keyed, lacking, narrowing, quoted, sql_type, without_rows
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN, Sink

log = logging.getLogger(__name__)

PIPELINE, LOG = "kafka_offsets.pipeline", "kafka_offsets.log"
REDACTED = "*********(redacted)"
"""What Spark shows of a property that looks like a secret to it: ``orders_hourly`` has ``url`` in it."""
MOST_NAMED = 20
Found = tuple[StructType, dict[str, str]]
"""The columns of a table, and its properties."""
_ABSENT = {
    *("PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "TABLE_OR_VIEW_NOT_FOUND"),
    "DELTA_INVALID_PARTITION_PATH",  # it would lie in another table's folder
}
_RETRIED_ERRORS = {
    *("TABLE_OR_VIEW_ALREADY_EXISTS", "FIELD_ALREADY_EXISTS", "FIELDS_ALREADY_EXISTS"),
    "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA",  # a column that the table has got meanwhile
}


@dataclass(frozen=True, slots=True)
class TableSink(Sink):
    """A table that has all batches of a pipeline.

    :cvar format: the name of its format in Spark's SQL.
    :cvar sign: a property that every table of the format shows.
    :cvar conflicts: what errors are called that another writer has caused.
    :ivar name: as Spark's SQL takes it: ``delta.`/lake/orders```, ```lake`.`orders```.
    :ivar path: of a Delta table that is named by its folder.
    :ivar partition_by: columns, for Iceberg transforms too, of a table that is created.
    :ivar evolve: ``add``: the table gets columns and inner fields that it lacks.
    :ivar keeps_rows: rows of committed batches stay in the table, so that it can be looked for them.
    :ivar role: what the table is for beside rows, as a part of its mark: ``/bad``, ``/merge``.
    :ivar checked: what the last check has seen, for the first write behind it; empty: no table, or it was used.
    """

    format: ClassVar[Literal["delta", "iceberg"]]
    sign: ClassVar[str]
    conflicts: ClassVar[set[str]]

    name: str
    output: str
    path: str | None = None
    partition_by: tuple[str, ...] = ()
    evolve: Literal["add"] | None = None
    keeps_rows: bool = True
    role: str = ""
    checked: list[Found] = field(default_factory=list, compare=False, repr=False)

    @abstractmethod
    def refuse_session(self, spark: SparkSession) -> None:
        """:raises InvalidJob: in this session a commit could be lost, or become visible too early."""

    def refuse_place(self, spark: SparkSession) -> None:
        """:raises OtherOutput: another output is where the table is about to be created or marked."""

    @abstractmethod
    def properties_to_set(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties that batches need and the table lacks.

        :raises InvalidJob: the table has another value of one.
        """

    @abstractmethod
    def partitions_of_a_new_table(self) -> Iterable[str]: ...

    @abstractmethod
    def fitting(self, rows: DataFrame, table: StructType) -> StructType:
        """The columns that a write to this table gives."""

    @abstractmethod
    def put(self, batch: Batch, rows: DataFrame, receipt: Mapping[str, Any], properties: Mapping[str, str]) -> Written:
        """Write rows that have the table's columns. Look right before."""

    def refresh(self, spark: SparkSession) -> None:
        """Forget what the catalog remembers of the table."""

    def check(self, spark: SparkSession, plan: Plan) -> None:
        self.refuse_session(spark)
        self.checked[:] = filter(None, [self._find(spark, plan)])
        if not self.checked:
            self.refuse_place(spark)

    def look(self, spark: SparkSession, plan: Plan) -> None:
        if not self.keeps_rows or (plan.expects is None and not plan.newest):
            return
        keys, own, base = f.col(BATCH_COLUMN), plan.key, f"{plan.bases[-1] + 1:010}"  # behind what was adopted
        shard = own[10 : own.rindex("-") + 1]  # the keys of other shards are ordered among themselves
        # A key with the same number and other random digits is another log's, too.
        behind = (
            (keys >= max(own[:10], base))
            & (keys != own)
            & (f.length(keys) == len(own))
            & (f.substring(keys, 11, len(shard)) == shard)
        )
        table, what = self.read(spark), f"Cannot write batch {own} to {self.output}"
        later = None if table is None or not plan.newest else table.where(behind).select(keys)
        if later is not None and not later.isEmpty():
            listed = ", ".join(f"'{row[0]}'" for row in later.distinct().sort(keys).limit(MOST_NAMED).collect())
            raise LogBehind(
                what,
                f"It has rows of later batches, and this one is the newest of its log: {listed}",
                "The checkpoint location is an older copy, or another environment's. Use the one that wrote them; or, "
                f"to read them again: DELETE FROM {self.name} WHERE {BATCH_COLUMN} IN ({listed})",
            )
        if plan.expects is not None and (table is None or table.where(keys == plan.expects).isEmpty()):
            raise OutputLost(what, f"It lacks the rows of batch {plan.expects}, which is committed", "Restore it")

    def present(self, spark: SparkSession, keys: Sequence[str]) -> set[str]:
        """Which of these batches have rows."""
        table = self.read(spark)
        if table is None or not self.keeps_rows:
            return set() if self.keeps_rows else {*keys}
        found = table.where(f.col(BATCH_COLUMN).isin([*keys])).select(BATCH_COLUMN).distinct()
        return {row[0] for row in found.collect()}

    def write(self, batch: Batch, rows: DataFrame) -> Written:
        fitting, properties = self.prepare(keyed(rows, batch.key), batch.plan)
        return self.put(batch, fitting, receipt_of(batch), properties)

    def is_conflict(self, error: Exception) -> bool:
        return not names_of(error).isdisjoint(_RETRIED_ERRORS | self.conflicts)

    def rows_of(self, batch: Batch, table: DataFrame | None = None) -> DataFrame:
        """The rows of the batch, as they are now."""
        table = self.read(batch.spark) if table is None else table
        if table is None:
            return without_rows(batch.spark, f"topic STRING, partition INT, offset BIGINT, {BATCH_COLUMN} STRING")
        return table.where(f.col(BATCH_COLUMN) == batch.key)

    def read(self, spark: SparkSession) -> DataFrame | None:
        """All rows as they are now; ``None``: there is no such table."""
        try:
            self.refresh(spark)
            table = spark.table(self.name)
            table.schema  # noqa: B018, Spark Connect looks for a table when it is asked for this
        except AnalysisException as error:
            if names_of(error).isdisjoint(_ABSENT):
                raise
            return None
        return table

    def prepare(self, rows: DataFrame, plan: Plan) -> tuple[DataFrame, dict[str, str]]:
        """Create the table, or check and extend it, and mark it.

        :returns: the rows with the table's columns and types, and the table's properties.
        """
        spark = rows.sparkSession
        found = self.checked.pop() if self.checked else self._find(spark, plan)
        schema, properties = self._ensure_mark(spark, found or self._create_table(spark, rows.schema, plan), plan)
        return self._add_columns_and_cast(rows, schema), properties

    def _mark(self, plan: Plan) -> dict[str, str]:
        return {PIPELINE: f"{plan.name}{self.role}", LOG: plan.log}

    def _find(self, spark: SparkSession, plan: Plan) -> Found | None:
        """The table's columns and properties, if it may be written; ``None``: there is no such table."""
        if (table := self.read(spark)) is None:
            return None
        found = table.schema, self._properties(spark, plan)
        self._check_table(spark, *found, plan)
        return found

    def _properties(self, spark: SparkSession, plan: Plan) -> dict[str, str]:
        found = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()}
        return found | (self._mark(plan) if found.get(PIPELINE) == REDACTED and found.get(LOG) == plan.log else {})

    def _create_table(self, spark: SparkSession, schema: StructType, plan: Plan) -> Found:
        self.refuse_place(spark)
        columns = ", ".join(f"{quoted(field.name)} {sql_type(field.dataType)}" for field in schema)
        by = ", ".join(self.partitions_of_a_new_table())
        partitions = f"PARTITIONED BY ({by})" if by else ""
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING {self.format} {partitions} "
            f"TBLPROPERTIES ({_pairs(self._mark(plan) | self.properties_to_set({}))})"
        )
        try:
            why = f"Another driver is creating {self.output}."
            return try_again(lambda _: self._existing(spark, plan), lambda error: isinstance(error, LookupError), why)
        except LookupError:
            cause = "Other files lie in its folder"
            raise OtherOutput(f"Cannot create {self.output}", cause, "Write to a folder of its own") from None

    def _existing(self, spark: SparkSession, plan: Plan) -> Found:
        """:raises LookupError: there is no such table, or not yet."""
        if (found := self._find(spark, plan)) is None:
            raise LookupError(self.output)
        return found

    def _ensure_mark(self, spark: SparkSession, found: Found, plan: Plan) -> Found:
        """The table with the mark, and all that batches need."""
        properties = found[1]
        needed = self._mark(plan) | self.properties_to_set(properties)
        if needed.items() <= properties.items():
            return found
        if PIPELINE not in properties:
            self.refuse_place(spark)
        spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({_pairs(needed)})")
        return self._existing(spark, plan)  # another pipeline may have been faster

    def _check_table(self, spark: SparkSession, schema: StructType, properties: Mapping[str, str], plan: Plan) -> None:
        """:raises OtherOutput: the table carries another mark. :raises InvalidJob: it is not of this format."""
        what, own = f"Cannot write {self.output}", self._mark(plan)
        if self.sign not in properties:
            raise InvalidJob(what, f"The table is not of the format {self.format}", "Correct the sink, or its catalog")
        found = {name: properties.get(name, value) for name, value in own.items()}
        if found != own and found[LOG] not in plan.adopted:
            self._refuse_mark(spark, what, found, plan)
        if BATCH_COLUMN not in schema.names:
            cause = f"The table has no column {BATCH_COLUMN}, by which batches are replaced"
            raise InvalidJob(what, cause, f"ALTER TABLE {self.name} ADD COLUMNS ({BATCH_COLUMN} STRING)")
        self.properties_to_set(properties)

    def _refuse_mark(self, spark: SparkSession, what: str, found: Mapping[str, str], plan: Plan) -> None:
        own = self._mark(plan)
        cause = f"It is the table of pipeline {found[PIPELINE]!r}, and this is pipeline {own[PIPELINE]!r}"
        if found[PIPELINE] == own[PIPELINE]:
            cause = f"It is the table of the log {found[LOG]}, and this is {own[LOG]}: another checkpoint location"
        table, deletion = spark.table(self.name), ""
        highest = table.agg(f.max(BATCH_COLUMN)).collect()[0][0] or "0"
        adopted: dict[str, Any] = {"log": {found[LOG]: highest}}
        if plan.window_utc is not None:
            adopted["windows_from"] = plan.window_utc[0].isoformat()
        if not self.role and (again := _read_again(table, plan)):
            cause += "; it has rows at offsets that are to be read"
            deletion = f"DELETE FROM {self.name} WHERE {BATCH_COLUMN} <= '{highest}' AND ({again}); then "
            if plan.window_utc is not None:
                deletion += "clear the runs of later windows, whose rows are deleted, too, and "
            if plan.pipeline != plan.name:
                deletion += "do what each other shard's task prints, and "
        remedy = "Write to a table of its own; or, if nothing else writes to it any more, adopt it"
        raise OtherOutput(what, cause, f"{remedy}: {deletion}{plan.conf(acknowledge=adopted)}")

    def _add_columns_and_cast(self, rows: DataFrame, table: StructType) -> DataFrame:
        """The rows with the table's columns and types. Before, it gets what it lacks, if it may.

        :raises InvalidJob: rows would lose something in the table.
        """
        spark = rows.sparkSession
        if self.evolve and (new := list(lacking(rows.schema, table))):
            try:
                spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({', '.join(new)})")
            except Exception:
                self.refresh(spark)
                if list(lacking(rows.schema, spark.table(self.name).schema)):  # else another driver has added them
                    raise
            log.info("%s gets %s.", self.output, ", ".join(new))
            table = spark.table(self.name).schema
        if lost := list(narrowing(rows.schema, table)):
            remedy = 'CAST in Rows(select=…), or let the sink add columns: evolve="add"'
            raise InvalidJob(f"Cannot write the rows to {self.output}", "; ".join(lost), remedy)
        return rows.to(self.fitting(rows, table))


def _read_again(table: DataFrame, plan: Plan) -> str:
    """In SQL, which rows are of records that this batch or a later one reads; empty: none."""
    newest = table.groupBy("topic", "partition").agg(f.max("offset").alias("newest")).collect()
    last = {(row["topic"], row["partition"]): row["newest"] for row in newest}
    return " OR ".join(
        f"topic = '{topic}' AND partition = {partition} AND offset >= {offset}"
        for topic, partition, offset in plan.resumes
        if last.get((topic, partition), -1) >= offset
    )


def _pairs(properties: Mapping[str, str]) -> str:
    def text(value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    return ", ".join(f"{text(name)} = {text(value)}" for name, value in properties.items())
