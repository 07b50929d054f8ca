# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""An entity table is a query over the log table: of each key the last row, without deleted keys.

    the last row    by ``kafka_batch`` and ``offset``; or by ``order_by``, where a key is in several partitions
    deleted         the last row is a delete, or a truncate is behind it
    a placeholder   stands for the last value that is not one; behind a delete nothing is known

:meth:`Query.rows` is that query, for some keys. It does not matter in which order batches were written, corrected and
merged: it is a function of the rows that the log table has. Where it does not have a row any more, the row of the
entity table stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StringType, StructType

from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.sinks.columns import quoted
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN

SOURCE = ("topic", "partition", "offset")
GONE, SPLIT, TRUNCATE = "kafka_gone", "kafka_split", "kafka_truncate"
_IS_LOGGED, _IS_DELETE, _POSITION, _CUTS = "kafka_logged", "kafka_delete", "kafka_position", "kafka_cuts"
_IS_ALIVE, _IS_SPLIT, _LAST, _KNOWN = "kafka_alive", "kafka_is_split", "kafka_last", "kafka_known_"


@dataclass(frozen=True, slots=True)
class Query:
    """What a row of the log table means for the row of its key.

    :ivar keys: the columns that identify a row.
    :ivar order_by: expressions that say which row of a key is the last; ``()``: batch and offset.
    :ivar delete_when: a condition for a row that deletes its key.
    :ivar truncate_when: a condition for a row without a key, behind which no older row is left.
    :ivar placeholder: a text that stands for an unchanged value which the record does not have.
    """

    keys: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    delete_when: str | None = None
    truncate_when: str | None = None
    placeholder: str | None = None

    @classmethod
    def of(cls, merge: Mapping[str, Any]) -> Query:
        """From the member ``merge`` of a job object."""
        words = (merge[name] for name in ("delete_when", "truncate_when", "placeholder"))
        return cls(tuple(merge["keys"]), tuple(merge["order_by"]), *words)

    def touched(self, rows: DataFrame) -> DataFrame:
        """The keys of these rows; ``kafka_truncate``: a truncate, which touches all keys."""
        lacks = " OR ".join(f"{expression} IS NULL" for expression in self.order_by) or "false"
        place = f.struct(*SOURCE)
        return (
            rows.select("*", _is(self.truncate_when).alias(TRUNCATE))
            .groupBy(*map(quoted, self.keys), TRUNCATE)
            .agg(f.max(place).alias("at"), f.max(f.when(_is(lacks) & ~_is(self.delete_when), place)).alias("lost"))
        )

    def look(self, touched: DataFrame, log: str) -> bool:
        """Whether there is a truncate among the rows of these keys.

        :raises InvalidJob: a row has no key, or no place in the order.
        """
        no_key = _is(f"NOT {TRUNCATE} AND ({' OR '.join(f'{quoted(key)} IS NULL' for key in self.keys)})")
        found = touched.agg(f.max(TRUNCATE), f.max(f.when(no_key, f.col("at"))), f.max("lost")).collect()[0]
        words = (f"no {' or '.join(self.keys)}", f"no {' or '.join(self.order_by)}, and only a delete may lack it")
        for place, lacks in zip(found[1:], words, strict=True):
            if place is not None:
                cause = f"The row of {place[0]}-{place[1]}:{place[2]} in {log} has {lacks}"
                remedy = "Filter such rows, Rows(where=…), or make them bad, Rows(expect=…), and clear the run"
                raise InvalidJob("Cannot merge", cause, remedy)
        return bool(found[0])

    def rows(self, keys: DataFrame, log_rows: DataFrame, entity_rows: DataFrame | None) -> DataFrame:
        """What the entity table has of these keys, with all columns of ``log_rows``.

        :param keys: each once.
        :param log_rows: all that counts for these keys, and perhaps for others.
        :param entity_rows: rows of the entity table that stand for what ``log_rows`` lacks; columns may be missing.
        :returns: with ``kafka_gone``: it has no row of this key; and ``kafka_split``: the key is in several partitions.
        """
        every = _marked(log_rows, _is(self.delete_when), _is(self.truncate_when), f.lit(True))
        if entity_rows is not None:
            stand_in = _marked(entity_rows, f.lit(False), f.lit(False), f.lit(False))
            every = every.unionByName(stand_in, allowMissingColumns=True)
        order = (*self.order_by, BATCH_COLUMN, "`partition`", "offset") if self.order_by else (BATCH_COLUMN, "offset")
        every = _cut(every.withColumn(_POSITION, f.struct(*map(f.expr, order))))
        place, names = f.when(f.col("topic").isNotNull(), f.struct("topic", "partition")), [*self.keys]
        fills = self.placeholders(log_rows.schema)
        found = (
            every.join(keys, names, "left_semi")
            .groupBy(*map(quoted, names))
            .agg(
                f.max_by(f.struct(*map(quoted, log_rows.columns), _IS_DELETE), _alive(_POSITION, _IS_LOGGED)).alias(
                    _LAST
                ),
                ((f.min(place) != f.max(place)) | f.bool_or(_IS_SPLIT)).alias(SPLIT),
                *(_last_known(name, unknown).alias(_KNOWN + name) for name, unknown in fills.items()),
            )
        )
        values = {name: f.col(_LAST)[name] for name in log_rows.columns if name.lower() not in map(str.lower, names)}
        for name, unknown in fills.items():
            known = f.col(quoted(_KNOWN + name))
            is_known = (values[name] == unknown) & known.isNotNull()
            values[name] = f.when(is_known, known["value"]).otherwise(values[name])
        return keys.join(found, names, "left").select(
            *map(quoted, names),
            *(value.alias(name) for name, value in values.items()),
            f.coalesce(f.col(_LAST)[_IS_DELETE], f.lit(True)).alias(GONE),
            f.coalesce(SPLIT, f.lit(False)).alias(SPLIT),
        )

    def placeholders(self, schema: StructType) -> dict[str, Column]:
        """Of each column that may have the placeholder, what it looks like there."""
        text = self.placeholder or ""
        kinds = {StringType: f.lit(text), BinaryType: f.lit(bytearray(text, "utf-8"))} if text else {}
        never = {*map(str.lower, self.keys), *SOURCE, BATCH_COLUMN}
        found = (column for column in schema if type(column.dataType) in kinds and column.name.lower() not in never)
        return {column.name: kinds[type(column.dataType)] for column in found}


def _is(condition: str | None) -> Column:
    return f.coalesce(f.expr(condition or "false"), f.lit(False))


def _marked(rows: DataFrame, is_delete: Column, is_truncate: Column, is_logged: Column) -> DataFrame:
    return rows.select("*", is_delete.alias(_IS_DELETE), is_truncate.alias(TRUNCATE), is_logged.alias(_IS_LOGGED))


def _cut(every: DataFrame) -> DataFrame:
    """Mark what is behind the last truncate of its topic. A row of no topic is older than each."""
    last = every.where(TRUNCATE).groupBy("topic").agg(f.max(f.struct(_POSITION, "partition")).alias("at"))
    cuts = last.agg(f.map_from_entries(f.collect_list(f.struct("topic", "at"))).alias(_CUTS))
    cut = f.col(_CUTS)[f.col("topic")]
    is_cut = f.when(f.col("topic").isNull(), f.size(_CUTS) > 0).otherwise(f.col(_POSITION) <= cut[_POSITION])
    is_split = f.coalesce(cut["partition"] != f.col("partition"), f.lit(False))
    marks = {_IS_ALIVE: ~f.coalesce(is_cut, f.lit(False)), _IS_SPLIT: is_split}
    return every.crossJoin(f.broadcast(cuts)).withColumns(marks)


def _alive(*order: str) -> Column:
    """The order of an aggregate, in which rows before a truncate do not count."""
    return f.when(f.col(_IS_ALIVE), f.struct(*order))


def _last_known(name: str, unknown: Column) -> Column:
    """The last value that is not the placeholder; the log table's before the entity table's."""
    column, is_delete = f.col(quoted(name)), f.col(_IS_DELETE)
    value = f.struct(f.when(is_delete, unknown).otherwise(column).alias("value"))
    return f.max_by(value, f.when(is_delete | ~column.eqNullSafe(unknown), _alive(_IS_LOGGED, _POSITION)))
