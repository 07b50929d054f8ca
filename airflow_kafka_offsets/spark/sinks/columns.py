# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The columns of rows beside those of a table: what it lacks, and what would be lost on the way into it.

``DataFrame.to`` casts DOUBLE to BIGINT and drops what the table lacks, in silence. So :func:`narrowing` is asked first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN

_WHOLE = ("byte", "short", "integer", "long")
_DIGITS = dict(zip(_WHOLE, (3, 5, 10, 19), strict=True))
_WIDER = {(a, b) for i, a in enumerate(_WHOLE) for b in _WHOLE[i + 1 :]}
_WIDER |= {
    ("float", "double"),
    ("byte", "double"),
    ("short", "double"),
    ("integer", "double"),
    ("date", "timestamp_ntz"),
}


def keyed(rows: DataFrame, key: str) -> DataFrame:
    """The rows with the batch's key as their first column: Delta keeps bounds of the first 32 columns only.

    :raises InvalidJob: the rows have a column of this name already.
    """
    made = rows.select(f.lit(key).alias(BATCH_COLUMN), "*")
    if taken := [name for name in made.columns[1:] if name.lower() == BATCH_COLUMN]:  # Spark's names have no case
        raise InvalidJob("Cannot write the rows", f"They have a column {taken[0]}, which sinks add", "Rename it")
    return made


def without_rows(spark: SparkSession, columns: str) -> DataFrame:
    """An empty frame, for which Spark Connect is asked nothing.

    :param columns: names and types, one at least, without commas between the fields of a type.
    """
    pairs = (column.split(maxsplit=1) for column in re.split(r", (?![^<]*>)", columns))
    return spark.range(0).select(*(f.lit(None).cast(kind).alias(name) for name, kind in pairs))


def quoted(name: str) -> str:
    """A name as Spark's SQL takes it."""
    return "`" + name.replace("`", "``") + "`"


def table_name(table: str) -> str:
    """``lake.orders`` → ```lake`.`orders```; parts that are quoted already stay so."""
    return ".".join(quoted(part.strip("`")) for part in re.findall(r"`[^`]+`|[^.`]+", table))


def sql_type(kind: DataType) -> str:
    """A type as Spark's SQL takes it, whatever the names of its fields are."""
    match kind:
        case StructType():
            return f"STRUCT<{', '.join(f'{quoted(field.name)}: {sql_type(field.dataType)}' for field in kind)}>"
        case ArrayType():
            return f"ARRAY<{sql_type(kind.elementType)}>"
        case MapType():
            return f"MAP<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
        case _:
            return kind.simpleString()


def lacking(rows: DataType, table: DataType, at: str = "") -> Iterator[str]:
    """Columns and inner fields that the table lacks, as ``ALTER TABLE … ADD COLUMNS`` takes them."""
    for name, field, own in _pairs(rows, table):
        if own is None:
            yield f"{at}{name} {sql_type(field)}"
        else:
            yield from lacking(field, own, f"{at}{name}.")


def narrowing(rows: DataType, table: DataType, at: str = "") -> Iterator[str]:
    """What the rows would lose in the table, in words."""
    if not isinstance(rows, StructType | ArrayType | MapType) or type(rows) is not type(table):
        if not _fits(rows, table):
            yield f"{at[:-1]} is {rows.simpleString()}, and {table.simpleString()} in the table"
        return
    for name, field, own in _pairs(rows, table):
        if own is None:
            yield f"{at}{name} is not in the table"
        else:
            yield from narrowing(field, own, f"{at}{name}.")


def _pairs(rows: DataType, table: DataType) -> Iterator[tuple[str, DataType, DataType | None]]:
    """The parts of a type, and the same parts of the table's type. Names have no case, as in Spark."""
    match rows, table:
        case StructType(), StructType():
            own = {field.name.lower(): field.dataType for field in table}
            for field in rows:
                yield quoted(field.name), field.dataType, own.get(field.name.lower())
        case ArrayType(), ArrayType():
            yield "element", rows.elementType, table.elementType
        case MapType(), MapType():
            yield "key", rows.keyType, table.keyType
            yield "value", rows.valueType, table.valueType


def _fits(rows: DataType, table: DataType) -> bool:
    """Whether each value of the one type is a value of the other."""
    if isinstance(table, DecimalType):
        whole = table.precision - table.scale
        if isinstance(rows, DecimalType):
            return rows.precision - rows.scale <= whole and rows.scale <= table.scale
        return whole >= _DIGITS.get(rows.typeName(), 99) or rows.typeName() == "void"
    return rows == table or rows.typeName() == "void" or (rows.typeName(), table.typeName()) in _WIDER


def nullable(table: StructType, only: set[str] | None = None) -> StructType:
    """The table's columns, all nullable.

    :param only: lower-case names; the others are left to the table, which knows their defaults.
    """
    kept = [field for field in table if only is None or field.name.lower() in only]
    return StructType([StructField(field.name, field.dataType) for field in kept])
