"""Columns that change: the rows are compared with the output that is there, before anything is written.

::

    the rows have a column more ─► new column     ┐ evolve="fail": refused; evolve="add": the output gets it
    the rows have a wider number ─► wider type    ┘
    the rows have a column less ─► null
    the rows have a narrower number ─► cast
    any other difference of types ─► refused

An output never loses a column, and never gets a narrower type: an older batch, or a driver that comes late, fits into
what newer ones have made of it. A table is changed by one statement for each column. Two drivers may change it at the
same time: then one of them finds that its statement fails, looks again, and finds the column there.

Names have no case, as in Spark.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_kafka_offsets.errors import InvalidRequest, refuse
from airflow_kafka_offsets.spark.sinks.sink_contract import (
    BATCH_COLUMN,
    DELETED,
    SinkBatch,
    check_batch,
    no_records,
    wait_for_others,
)
from airflow_kafka_offsets.values.sql_text import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

log = logging.getLogger(__name__)

Evolve = Literal["fail", "add"]
TRIES = 5
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


class TableSink(ABC):
    """A sink whose output is a table, which has all batches, and columns that may change."""

    evolve: Evolve

    @property
    @abstractmethod
    def output(self) -> str:
        """See :class:`~airflow_kafka_offsets.spark.sinks.sink_contract.Sink`, and of ``keys`` and ``written`` too."""

    @abstractmethod
    def current(self, spark: SparkSession) -> DataFrame | None:
        """The table as it is now; None where there is none."""

    @abstractmethod
    def columns(self, rows: DataFrame) -> StructType | None:
        """As they are now; None where there is no table. A column that has to be written is not nullable."""

    @abstractmethod
    def change(self, spark: SparkSession, change: Change) -> None:
        """Make one change; an error where it is made already."""

    def keys(self, spark: SparkSession) -> list[str]:
        """A scan of the one column ``kafka_batch``."""
        table = self.current(spark)
        if table is None or BATCH_COLUMN not in table.columns:
            return []
        return sorted(row[0] for row in table.select(BATCH_COLUMN).distinct().collect() if row[0] is not None)

    def written(self, spark: SparkSession, batch: SinkBatch) -> DataFrame:
        check_batch(batch)
        table = self.current(spark)
        return no_records(spark) if table is None else table.where(batch.row_filter)

    def rows(self, spark: SparkSession, bounds: tuple[str, str] | None = None) -> DataFrame | None:
        """All rows, or those of the batches whose keys lie between two; ``None`` where there is no table."""
        table = self.current(spark)
        return table if table is None or bounds is None else table.where(table[BATCH_COLUMN].between(*bounds))


@dataclass(frozen=True, slots=True)
class Change:
    """What an output has to get.

    :ivar path: the column, and the fields within it; ``element`` is what a list holds.
    :ivar old: its type until now; None: it is a new column.
    """

    path: tuple[str, ...]
    new: DataType
    old: DataType | None = None

    @property
    def sql(self) -> str:
        """What follows ``ALTER TABLE``, in Spark's SQL."""
        name = ".".join(map(quoted, self.path))
        if self.old is None:
            return f"ADD COLUMNS ({name} {sql_type(self.new)})"
        return f"ALTER COLUMN {name} TYPE {sql_type(self.new)}"

    def __str__(self) -> str:
        name = ".".join(self.path)
        if self.old is None:
            return f"new column {name} {sql_type(self.new)}"
        return f"column {name} is {sql_type(self.new)} now, and was {sql_type(self.old)}"


class Comparison:
    """The columns of an output and of rows.

    :ivar schema: what holds both: the output's columns in their order, and then the new ones.
    :ivar changes: what the output has to get for that.
    """

    def __init__(self, output: str, columns: StructType, rows: StructType) -> None:
        self.output = output
        self.changes: list[Change] = []
        self._problems: list[str] = []
        self.schema: StructType = self._both((), columns, rows)

    def require(self, evolve: Evolve, cannot: Callable[[Change], str | None] = lambda _: None) -> None:
        """
        :param cannot: why the output cannot get a change, as a sentence; None: it can.
        :raises InvalidRequest: the output cannot, or may not, get what the rows have.
        """
        problems = list(self._problems)
        for change in self.changes:
            why = cannot(change)
            if why is None and evolve == "add":
                continue
            name = ".".join(change.path)
            if change.old is None:
                found, remedy = f"has no column {name}, and the rows have it as {sql_type(change.new)}", "leave it out"
            else:
                found = _two_types(name, change.old, change.new)
                remedy = f"CAST it to {sql_type(change.old)}"
            remedy = f'Set evolve="add" in the sink, or {remedy} in select.' if why is None else f"{why} Else {remedy}."
            problems.append(f"{self.output} {found}. Nothing was written. {remedy}")
        refuse(problems)

    def fitted(self, rows: DataFrame, fill: bool) -> DataFrame:
        """The rows under the names and in the types of :attr:`schema`.

        :param fill: a column that they lack becomes null. Else it is left out, and the table's own writer fills it.
        """
        from pyspark.sql import functions as f

        return rows.select(*_fields(rows.schema, self.schema, lambda name: f.col(quoted(name)), fill))

    def _both(self, path: tuple[str, ...], have: DataType, want: DataType) -> Any:
        """The type that holds both."""
        from pyspark.sql.types import ArrayType, StructType

        if isinstance(have, StructType) and isinstance(want, StructType):
            return StructType(self._columns(path, have, want))
        if isinstance(have, ArrayType) and isinstance(want, ArrayType):
            return ArrayType(self._both((*path, "element"), have.elementType, want.elementType))
        if fits(want, have):
            return have
        if _widens(have, want):
            self.changes.append(Change(path, want, have))
        else:
            self._problems.append(
                f"{self.output} {_two_types('.'.join(path), have, want)}, and neither holds the other. Nothing was "
                f"written. CAST it to {sql_type(have)} in select, or write to another output."
            )
        return want

    def _columns(self, path: tuple[str, ...], have: StructType, want: StructType) -> list[Any]:
        from pyspark.sql.types import StructField

        new = {field.name.lower(): field for field in want.fields}
        if len(new) < len(want.fields):
            self._problems.append(f"The rows have a column more than once: {', '.join(want.names)}. Rename one.")
        fields = []
        for field in have.fields:
            found = new.pop(field.name.lower(), None)
            inside = (*path, field.name)
            if found is None and not field.nullable:
                self._problems.append(
                    f"{self.output} has the column {'.'.join(inside)} as NOT NULL, and the rows lack it. Nothing was "
                    "written. Put it in select, or let the column be null: ALTER COLUMN … DROP NOT NULL."
                )
            kind = field.dataType if found is None else self._both(inside, field.dataType, found.dataType)
            fields.append(StructField(field.name, kind))
        for field in new.values():
            self.changes.append(Change((*path, field.name), field.dataType))
            fields.append(StructField(field.name, field.dataType))
        return fields


def evolved(rows: DataFrame, table: TableSink, batch: SinkBatch, fill: bool = False) -> DataFrame:
    """The rows as the table takes them. Before, it gets the columns and types that it lacks, if it may.

    :param fill: see :meth:`Comparison.fitted`.
    :raises InvalidRequest: it may not, or it cannot; nothing was written.
    """
    error: Exception | None = None
    for tries in range(TRIES + 1):
        columns = table.columns(rows)
        if columns is None:
            return rows
        if DELETED in columns.names and DELETED not in rows.columns:
            raise InvalidRequest(
                [
                    f"{table.output} has one row for each key: it has the column {DELETED}, and these rows have not. "
                    "Nothing was written. Write it with upsert, or name another output."
                ]
            )
        found = Comparison(table.output, columns, rows.schema)
        found.require(table.evolve)
        if not found.changes:
            return found.fitted(rows, fill)
        if tries == TRIES:
            break
        batch.look(table.output)
        try:
            for change in found.changes:
                table.change(rows.sparkSession, change)
                say(table.output, change)
        except InvalidRequest:
            raise
        except Exception as raised:  # made by another driver meanwhile, or there is no right to
            error = raised
            wait_for_others(tries)
    changes = "; ".join(map(str, found.changes))
    why = str(error).strip().splitlines()[0] if error else "Others change it all the time."
    raise InvalidRequest(
        [f"{table.output} did not get what the rows need: {changes}. {why} Nothing was written. Change it yourself."]
    ) from error


def say(output: str, change: Change) -> None:
    """Tell the driver's log what an output has got."""
    name = re.sub(r"^(?:delta|iceberg|jdbc:.*):(?!//)", "", output)
    log.info("%s %s: %s", "Folder" if "/" in name else "Table", name, change)


def check_evolve(evolve: str) -> None:
    """:raises InvalidRequest: it is none of the two words."""
    if evolve not in get_args(Evolve):
        raise InvalidRequest(
            [f"evolve is {evolve!r}; it is 'fail' (the output's columns stay) or 'add' (it gets new columns)."]
        )


def fits(narrow: DataType, wide: DataType) -> bool:
    """Whether each value of the one type is a value of the other."""
    from pyspark.sql.types import DecimalType

    names = narrow.simpleString(), wide.simpleString()
    if isinstance(wide, DecimalType):
        whole = wide.precision - wide.scale
        if isinstance(narrow, DecimalType):
            return narrow.precision - narrow.scale <= whole and narrow.scale <= wide.scale
        return whole >= _DIGITS.get(names[0], 39)
    return names[0] == names[1] or names == ("float", "double") or _DIGITS.get(names[0], 39) < _DIGITS.get(names[1], 0)


def _widens(old: DataType, new: DataType) -> bool:
    """Whether a column may become that: a number of the same kind. No format makes INT of a DECIMAL everywhere."""
    return fits(old, new) and getattr(old, "scale", None) == getattr(new, "scale", None)


def _cast(column: Column, have: DataType, want: DataType) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, StructType

    if have.simpleString() == want.simpleString():
        return column
    if isinstance(have, StructType) and isinstance(want, StructType):
        return f.when(column.isNotNull(), f.struct(*_fields(have, want, column.getField, fill=True)))
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        return f.transform(column, lambda item: _cast(item, have.elementType, want.elementType))
    return column.cast(want)


def _fields(have: StructType, want: StructType, get: Callable[[str], Column], fill: bool) -> Iterator[Column]:
    from pyspark.sql import functions as f

    own = {field.name.lower(): field for field in have.fields}
    for field in want.fields:
        found = own.get(field.name.lower())
        if found is not None:
            yield _cast(get(found.name), found.dataType, field.dataType).alias(field.name)
        elif fill:
            yield f.lit(None).cast(field.dataType).alias(field.name)


def _two_types(name: str, have: DataType, want: DataType) -> str:
    return f"has the column {name} as {sql_type(have)}, and the rows have it as {sql_type(want)}"


def sql_type(kind: DataType) -> str:
    """As Spark's SQL takes it, whatever the names of its fields are."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{quoted(field.name)}: {sql_type(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{sql_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    return kind.simpleString().upper()
