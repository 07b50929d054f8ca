"""Records → rows, and what became of each record: a row, set aside with a reason, or left out.

The three frames are made of one column, ``kafka_reason``: null for a row, empty for a record that is left out, and else
why the record is bad. So no record is in two of them, whenever each is read.

A record on which an expression raises is bad. Spark has no public ``try`` for any expression; ``try_to_binary`` gives
null where its argument raises, so the argument is the expression's outcome in a word. Spark would take an expression
that occurs twice out of that and compute it first; so this sets ``spark.sql.subexpressionElimination.enabled`` to false
for the session (:data:`SETTINGS`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, StructType

from airflow_kafka_offsets.errors import InvalidRequest, refuse
from airflow_kafka_offsets.spark.decoding import BAD, RAW, decoded
from airflow_kafka_offsets.spark.driver_jvm import query_execution, with_settings
from airflow_kafka_offsets.spark.job_batch import Batch
from airflow_kafka_offsets.spark.kafka_source import no_records_of_kafka
from airflow_kafka_offsets.spark.report import BAD_COLUMNS, ROW, SET_ASIDE, Divided, union_of, with_fate
from airflow_kafka_offsets.spark.report import LEFT_OUT as NO_ROW
from airflow_kafka_offsets.spark.sinks.sink_contract import DELETED, OWN_COLUMNS, Merged
from airflow_kafka_offsets.values.row_definition import RowDefinition
from airflow_kafka_offsets.values.sql_text import MOMENTS, quoted

SOURCE_COLUMNS = ("topic", "partition", "offset")
SETTINGS = {
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",  # before Spark 4 a date that is none could end the job
    "spark.sql.legacy.json.allowEmptyString.enabled": "false",  # an empty text is no number
}
MEANING = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"}
"""What an expression means, as the session has it while the frames are made: the rest of a job keeps its own."""
REASON = "kafka_reason"
LEFT_OUT = ""
_CANNOT_RAISE = re.compile(r"[\w.`*]+(?:\s+(?:AS\s+)?[\w`]+)?", re.IGNORECASE)
_MOMENT = re.compile(rf"\b(?:cast|to_date|to_timestamp)\((?:{MOMENTS})\b", re.IGNORECASE)  # as an analyzed plan has it
_RAISES = "raises an error on this record"


@dataclass(frozen=True, slots=True)
class RowFrames:
    """What becomes of the records. Each frame is lazy, and no record is in two of them.

    :ivar rows: the columns that are selected, with topic, partition and offset, under :attr:`source_names`.
    :ivar rest: the records that are no rows: topic, partition, offset and ``kafka_reason``, which is empty where
        ``where`` or ``tombstones`` left one out; of the others also timestamp, key, value, and headers if they were
        read.
    :ivar source_names: of topic, partition and offset, what they are called in the rows.
    """

    rows: DataFrame
    rest: DataFrame
    source_names: dict[str, str]

    @property
    def bad(self) -> DataFrame:
        """``topic``, ``partition``, ``offset``, ``timestamp``, ``key``, ``value``, ``reason``, and ``headers`` if they
        were read (``for_each_batch(…, includeHeaders=True)``).
        """
        bad = self.rest.where(self.rest[REASON] != LEFT_OUT).withColumnRenamed(REASON, "reason")
        return bad.select(*(name for name in BAD_COLUMNS if name in bad.columns))

    @property
    def left_out(self) -> DataFrame:
        """Topic, partition and offset of what ``where`` or ``tombstones`` leaves out."""
        return self.rest.where(self.rest[REASON] == LEFT_OUT).select(*SOURCE_COLUMNS)

    def divided(self, rows: DataFrame | Merged, bad: DataFrame | None = None) -> Divided:
        """What ``write`` returns, so that the report counts all records.

        :param rows: what reads back the output of the rows, or what an upsert returns; :param bad: what reads back that
            of the bad records. Without it they count as missing, and the commit refuses the split if there are any.
        """
        is_merged = isinstance(rows, Merged)
        outputs = [with_fate(rows.records if isinstance(rows, Merged) else rows, ROW, self.source_names)]
        outputs += [] if bad is None else [with_fate(bad, SET_ASIDE)]
        return Divided(union_of(outputs), with_fate(self.left_out, NO_ROW), is_merged=is_merged)


def decode(records: DataFrame, batch: Batch) -> RowFrames:
    """The records as the resolve task's ``value``, ``key``, ``select``, ``where`` and ``expect`` say.

    For a job of one's own, with sinks of its own::

        def write(records, batch):
            found = decode(records, batch)
            return found.divided(good(found.rows, batch), bad(found.bad, batch))

    Spark reads Kafka once for each of the frames that is used, unless the records are persisted before. The session
    gets what :data:`SETTINGS` has; its time zone and ANSI mode stay, and the expressions go by UTC and ANSI mode all
    the same (not in Spark Connect). The limit of bad records is checked by the commit.

    :param records: what ``write`` is handed.
    :param batch: that ``write`` is handed with them.
    :raises InvalidRequest: the resolve task says nothing of rows, or Spark does not take what it says.
    :raises StoreUnavailable: the row definition is not in the work store.
    """
    return row_frames(records, batch.row_definition)


def row_frames(records: DataFrame, definition: RowDefinition) -> RowFrames:
    """:raises InvalidRequest: Spark does not take the schemas or the expressions, or two columns have one name."""
    with with_settings(records.sparkSession, MEANING):
        return _frames_of(records, decoded(records, definition.value, definition.key), definition)


def _frames_of(records: DataFrame, fields: DataFrame, definition: RowDefinition) -> RowFrames:
    for setting, value in SETTINGS.items():
        records.sparkSession.conf.set(setting, value)
    seen = fields.select(*(quoted(name) for name in records.columns), *BAD.values(), *RAW.values())
    visible = [quoted(name) for name in records.columns]
    selected, source_names = _selected(seen.select(*visible), definition)
    entity = _Entity(seen.select(*visible), definition, selected)
    reasons = [f.col(name) for name in BAD.values()] + list(_reasons(seen, definition, selected, entity))
    judged = seen.withColumn(REASON, f.coalesce(*reasons))
    rows = judged.where(f.col(REASON).isNull()).select(*visible)
    rows = rows.select(
        *(f.expr(expression) for expression in selected),
        *(f.col(name).alias(alias) for name, alias in source_names.items() if name not in selected),
        *entity.is_deleted,
    )
    _require_one_name_each(rows)
    is_bad = f.col(REASON) != LEFT_OUT
    more = {"timestamp": "timestamp", "key": RAW["key"], "value": RAW["value"], "headers": "headers"}
    rest = judged.where(f.col(REASON).isNotNull()).select(
        *SOURCE_COLUMNS,
        *(f.when(is_bad, f.col(column)).alias(name) for name, column in more.items() if column in judged.columns),
        REASON,
    )
    return RowFrames(rows, rest, source_names)


def check_definition(spark: SparkSession, definition: RowDefinition) -> None:
    """Refuse a definition before anything is written.

    :raises InvalidRequest: what Spark does not take of it; every expression that is wrong is named.
    """
    records = no_records_of_kafka(spark)
    fields = decoded(records, definition.value, definition.key)
    plain = spark.createDataFrame([], fields.select(*records.columns).schema)
    problems: list[str] = []
    named = [(f"select {text!r}", text, False) for text in definition.select]
    named += [("where", definition.where, True)] if definition.where else []
    named += [(f"expect {name!r}", text, True) for name, text in definition.expect.items()]
    named += [("delete_when", definition.delete_when, True)] if definition.delete_when else []
    for what, text, is_condition in named:
        problems += [f"{what} {problem}" for problem in _problems_of(plain, text, is_condition)]
    refuse(problems)
    frames = _frames_of(records, fields, definition)
    columns = frames.rows.columns
    if definition.keys and (clash := ", ".join(name for name, alias in frames.source_names.items() if name != alias)):
        raise InvalidRequest([f"An upsert compares offsets, and select names a column {clash} too. Rename yours."])
    if own := ", ".join(name for name in columns if name.lower() in OWN_COLUMNS):
        raise InvalidRequest([f"The rows have the column {own}, which is the sink's own. Rename it in select."])


def _problems_of(plain: DataFrame, text: str, is_condition: bool) -> Iterator[str]:
    try:
        found = plain.selectExpr(text)
    except PySparkException as error:
        yield f"is refused by Spark: {str(error).strip().splitlines()[0]}"
        return
    plans = query_execution(found)
    if plans is not None:
        plan = plans.analyzed()
        if plan.nodeName() != "Project" or plan.children().apply(0).nodeName() in ("Generate", "Window"):
            yield "sees more than one record, or makes several rows of one; give an expression of one record."
        elif not plan.deterministic() or _MOMENT.search(plan.toString()):
            yield "is another value each time; a record must become the same row whenever it is read."
    if is_condition and not isinstance(found.schema.fields[0].dataType, BooleanType):
        yield f"is of the type {found.schema.fields[0].dataType.simpleString()}; give a condition."


def _selected(seen: DataFrame, definition: RowDefinition) -> tuple[list[str], dict[str, str]]:
    """The expressions of the columns, and how topic, partition and offset are called beside them."""
    selected = list(definition.select)
    if not selected and definition.value is None and definition.key is None:
        selected = ["key", "value", "timestamp", "timestampType"]  # the record as it is
    elif not selected:
        selected = ["key"] if definition.key is not None else []
        selected += ["value.*" if isinstance(seen.schema["value"].dataType, StructType) else "value"]
    taken = {name.lower() for text in selected for name in seen.selectExpr(text).columns if text not in SOURCE_COLUMNS}
    return selected, {name: f"kafka_{name}" if name in taken else name for name in SOURCE_COLUMNS}


def _reasons(seen: DataFrame, definition: RowDefinition, selected: list[str], entity: _Entity) -> Iterator[Column]:
    """One column each that has a reason or null; the first that has one counts."""
    if definition.tombstones == "leave-out" or not entity.has_tombstones:
        yield f.when(f.col(RAW["value"]).isNull(), LEFT_OUT)
    if definition.where is not None:
        yield _by_outcome(
            _truth(f.expr(definition.where)), {"false": LEFT_OUT, "null": LEFT_OUT, "raised": f"where {_RAISES}"}
        )
    for name, condition in definition.expect.items():
        yield _by_outcome(
            _truth(f.expr(condition)),
            {"false": f"the expectation {name!r} is not met", "raised": f"expect {name!r} {_RAISES}"},
        )
    for text in selected:
        if not _CANNOT_RAISE.fullmatch(text.strip()):
            # Spark works the null-ness of much out without the value; the length of its text it has to compute.
            outcome = f.coalesce(f.length(f.expr(text).cast("string")), f.lit(0)).cast("string")
            yield _by_outcome(outcome, {"raised": f"{text} {_RAISES}"})
    if definition.delete_when is not None:
        yield _by_outcome(_truth(f.expr(definition.delete_when)), {"raised": f"delete_when {_RAISES}"})
    for name, column in entity.keys.items():
        yield f.when(column.isNull(), f.lit(f"{name} is null, and it is a key of the table"))


class _Entity:
    """What a table needs that has one row for each key; of another table: nothing.

    :ivar keys: the columns of the key, by name.
    :ivar is_deleted: the column ``kafka_deleted``.
    :ivar has_tombstones: whether a record without a value may be a row. In a table of entities it deletes one, where no
        column of the key comes from the value.
    """

    def __init__(self, seen: DataFrame, definition: RowDefinition, selected: list[str]) -> None:
        self.keys: dict[str, Column] = {}
        self.has_tombstones, self.is_deleted = True, []
        if definition.keys:
            columns = {text: seen.selectExpr(text).columns for text in (*selected, *SOURCE_COLUMNS)}
            self.keys = {name: _column_of(columns, name) for name in definition.keys}
            self.has_tombstones = all(_is_made_without_value(seen, column) for column in self.keys.values())
            asked = f.lit(False) if definition.delete_when is None else f.expr(definition.delete_when)
            is_deleted = f.col("value").isNull() | f.coalesce(asked, f.lit(False))
            self.is_deleted.append(is_deleted.alias(DELETED))


def _column_of(columns: Mapping[str, Iterable[str]], name: str) -> Column:
    """
    :param columns: the names of those that each expression makes.
    :raises InvalidRequest: none makes one of that name.
    """
    for text, names in columns.items():
        if name.lower() in (found.lower() for found in names):
            return f.col(f"{text[:-1]}{quoted(name)}") if text.endswith("*") else f.expr(text)
    raise InvalidRequest([f"The upsert has the key {name!r}, and no column of select has that name. Name one."])


def _is_made_without_value(seen: DataFrame, column: Column) -> bool:
    try:
        seen.drop("value").select(column)
    except AnalysisException:
        return False
    return True


def _truth(condition: Column) -> Column:
    return f.when(condition.isNull(), "null").otherwise(condition.cast("string"))


def _by_outcome(outcome: Column, reasons: dict[str, str]) -> Column:
    """The reason that belongs to the outcome, which is ``raised`` where it cannot be computed."""
    tried = f.call_function("try_to_binary", outcome, f.lit("utf-8")).cast("string")
    pairs: list[Any] = [f.lit(word) for pair in reasons.items() for word in pair]
    return f.try_element_at(f.create_map(*pairs), f.coalesce(tried, f.lit("raised")))


def _require_one_name_each(rows: DataFrame) -> None:
    names = [name.lower() for name in rows.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidRequest(
            [
                f"The rows would have the column {', '.join(twice)} more than once. Say in select which columns there "
                'are, and rename one: ["value.*", "key AS order_key"].'
            ]
        )
