"""A table: a batch is replaced in one commit, and a late driver's commit is fenced off.

What the formats do differently is in :mod:`~airflow_kafka_offsets.spark.sinks.delta` and
:mod:`~airflow_kafka_offsets.spark.sinks.iceberg`. Nothing is ever appended: Iceberg does not validate appends.
"""

from __future__ import annotations

import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from airflow_kafka_offsets.spark.batch import Batch
from airflow_kafka_offsets.spark.errors import BatchError, InvalidJob, LateAttempt, OtherOutput
from airflow_kafka_offsets.spark.sinks.columns import keyed, lacking, narrowing, quoted, sql_type
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN

log = logging.getLogger(__name__)

TRIES = 10
MARK = "kafka_offsets.pipeline"
"""The property by which a table carries its pipeline's name. No other pipeline writes it, whatever its alias."""
REDACTED = "*********(redacted)"
"""What Spark shows of a property that looks like a secret to it: ``orders_hourly`` has ``url`` in it."""
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


class NotMade(InvalidJob):
    """A table is not there after it was created: other files are in its place, or another driver is making it."""


@dataclass(frozen=True, slots=True)
class TableSink(ABC):
    """A table that has all batches of a pipeline.

    :cvar format: the name of its format in Spark's SQL.
    :cvar sign: a property that every table of the format shows.
    :ivar name: as Spark's SQL takes it: ``delta.`/lake/orders```, ```lake`.`orders```.
    :ivar path: of a Delta table that is named by its folder.
    :ivar partition_by: columns, for Iceberg transforms too, of a table that is created.
    :ivar evolve: ``add``: the table gets columns and inner fields that it lacks.
    """

    format: ClassVar[Literal["delta", "iceberg"]]
    sign: ClassVar[str]

    name: str
    output: str
    path: str | None = None
    partition_by: tuple[str, ...] = ()
    evolve: Literal["add"] | None = None

    @abstractmethod
    def refuse_session(self, spark: SparkSession) -> None:
        """:raises InvalidJob: in this session a commit could be lost."""

    @abstractmethod
    def refuse_place(self, spark: SparkSession) -> None:
        """:raises OtherOutput: another output is where the table is about to be created or marked."""

    @abstractmethod
    def refuse_properties(self, properties: Mapping[str, str]) -> None:
        """:raises InvalidJob: a batch of this table could not be replaced."""

    @abstractmethod
    def properties_of_a_new_table(self) -> dict[str, str]: ...

    @abstractmethod
    def partitions_of_a_new_table(self) -> Iterable[str]: ...

    @abstractmethod
    def fence(self, batch: Batch, properties: Mapping[str, str]) -> dict[str, str]:
        """Options of a write that stop the commit of a driver that was overtaken."""

    @abstractmethod
    def fitting(self, rows: DataFrame, table: StructType) -> StructType:
        """The columns that a write to this table gives."""

    def refresh(self, spark: SparkSession) -> None:  # noqa: B027, one format has nothing to refresh
        """Forget what the catalog remembers of the table."""

    def explain(self, batch: Batch, error: Exception) -> None:  # noqa: B027
        """:raises InvalidJob: the error is one that a person can mend."""

    def check(self, spark: SparkSession, pipeline: str) -> None:
        self.refuse_session(spark)
        schema = self._schema(spark)
        if schema is None:
            self.refuse_place(spark)
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
        writer = rows.writeTo(self.name).options(**self.fence(batch, properties))
        writer.overwrite(f.col(BATCH_COLUMN) == batch.key)

    def _schema(self, spark: SparkSession) -> StructType | None:
        """``None``: there is no such table."""
        try:
            self.refresh(spark)
            return spark.table(self.name).schema
        except AnalysisException as error:
            if any(words in str(error) for words in _ABSENT):
                return None
            raise

    def _properties(self, spark: SparkSession) -> dict[str, str]:
        return {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()}

    def _created(self, spark: SparkSession, schema: StructType, pipeline: str) -> StructType:
        self.refuse_place(spark)
        properties = {MARK: pipeline, **self.properties_of_a_new_table()}
        columns = ", ".join(f"{quoted(field.name)} {sql_type(field.dataType)}" for field in schema)
        by = ", ".join(self.partitions_of_a_new_table())
        partitions = f"PARTITIONED BY ({by})" if by else ""
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
        if MARK not in properties:
            self._check_table(schema, properties, pipeline)
            self.refuse_place(spark)
            spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({_pairs({MARK: pipeline})})")
            properties = self._properties(spark)
        self._check_table(schema, properties, pipeline)  # another pipeline may have been faster
        return properties

    def _check_table(self, schema: StructType, properties: Mapping[str, str], pipeline: str) -> None:
        """:raises OtherOutput: the table carries another name. :raises InvalidJob: it is of another format."""
        what = f"Cannot write {self.output}"
        if (name := properties.get(MARK, pipeline)) not in (pipeline, REDACTED):
            removal = f"ALTER TABLE {self.name} UNSET TBLPROPERTIES ('{MARK}')"
            raise OtherOutput(
                what,
                f"It carries the name of pipeline {name!r}, and this is pipeline {pipeline!r}",
                f"Write to an output of its own; or, if {name!r} writes there no more, remove the mark: {removal}",
            )
        if self.sign not in properties:
            raise InvalidJob(what, f"The table is not of the format {self.format}", "Correct the sink, or its catalog")
        if BATCH_COLUMN not in schema.names:
            cause = f"The table has no column {BATCH_COLUMN}, by which batches are replaced"
            raise InvalidJob(what, cause, f"ALTER TABLE {self.name} ADD COLUMNS ({BATCH_COLUMN} STRING)")
        self.refuse_properties(properties)

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
        return rows.to(self.fitting(rows, table))

    def _explain(self, batch: Batch, error: Exception) -> None:
        text = str(error)
        if any(words in text for words in OVERTAKEN):
            cause = f"A newer attempt has committed to {self.output} meanwhile"
            raise LateAttempt(f"Cannot write {batch}", cause, "Nothing to do: the newest attempt counts") from error
        self.explain(batch, error)


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
