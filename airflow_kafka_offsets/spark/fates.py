# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Records → rows. Every record has one fate, decided once, by one column of one frame::

    kafka_reason   null: it is a row      '': ``where`` filters it      else: it is bad, for this reason

Rows are written first, while Spark observes how many records are bad and how many are filtered; of a small plan the bad
ones come along. Of a large one Kafka is read a second time, only if some are bad, where they are, and of most other
records no more than their place is looked at. The report adds up: rows + bad + filtered = offsets, each once. So no
expression makes several rows of a record.

An expression that raises is its author's error and fails the batch. Spark cannot tell for which record it would not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from airflow_kafka_offsets.spark import events
from airflow_kafka_offsets.spark.batch import BAD, FATE, FILTERED, ROW, Batch, Written
from airflow_kafka_offsets.spark.conditions import Conditions
from airflow_kafka_offsets.spark.count import observed
from airflow_kafka_offsets.spark.decode import RAW, SETTINGS, Decoder
from airflow_kafka_offsets.spark.errors import BadRecords, BatchError, InvalidJob
from airflow_kafka_offsets.spark.kept import is_kept, keep, kept
from airflow_kafka_offsets.spark.marks import BLOCK, MARK, near, note, noted
from airflow_kafka_offsets.spark.plan import Plan
from airflow_kafka_offsets.spark.receipts import HASH, PLACE
from airflow_kafka_offsets.spark.sinks import BAD_ROLE, plain_sink
from airflow_kafka_offsets.spark.sinks.columns import keyed, quoted, without_rows
from airflow_kafka_offsets.spark.sinks.contract import BATCH_COLUMN, Sink
from airflow_kafka_offsets.spark.sinks.table import TableSink
from airflow_kafka_offsets.spark.source import COLUMNS, HEADERS
from airflow_kafka_offsets.spark.store import jvm_of, settings_of

REASON = "kafka_reason"
SOURCE = ("topic", "partition", "offset")
KAFKA_COLUMNS = COLUMNS + HEADERS
EXAMPLES = 5
_HEADERS = re.compile(r"\bheaders\b|(?<!\.)\*", re.IGNORECASE)  # a * may name them, too
_DATA_ERROR = re.compile(r"\[([A-Z_.0-9]+)\][^\[]*?SQLSTATE: 22", re.DOTALL)  # SQL's class of data exceptions
_DATA_ERRORS_OF_SPARK_3 = re.compile(r"\[(CAST_\w+|DIVIDE_BY_ZERO|ARITHMETIC_OVERFLOW|INVALID_ARRAY_INDEX\w*)\]")


def see_headers(rows: Mapping[str, Any]) -> bool:
    """Whether an expression may look at the headers of a record. Else rows are made without them."""
    return any(map(_HEADERS.search, [*(rows["select"] or ()), rows["where"] or "", *rows["expect"].values()]))


class Fates:
    """What becomes of records.

    :param types: as :class:`Fates` of other records has them: Spark is not asked again.
    :param kept_of: the offsets of the plan, if bad records come along in the observation (:mod:`.kept`).
    :ivar types: the types of what is decoded, among others.
    :ivar all: the records, decoded, with ``kafka_reason``. They are observed here, also because Spark moves no filter
        below what it observes: it would decode once more for the filter.
    :ivar observation: how many there are, and how many of them are bad and filtered, of the first action.
    """

    def __init__(
        self, records: DataFrame, rows: Mapping[str, Any], types: StructType | None = None, kept_of: int = 0
    ) -> None:
        self.has_events = rows.get("events") is not None
        self.decoders = [Decoder(records, n, rows[n], is_in_payload=self.has_events) for n in ("value", "key")]
        self.visible = records.columns
        self.select = rows["select"]
        raw = [f.col(name).alias(RAW[name]) for name in RAW]
        others = [quoted(name) for name in records.columns if name not in RAW]
        bare = records.select(*others, *raw).select("*", *(decoder.decode() for decoder in self.decoders))
        self.types, names = types or bare.schema, [*records.columns, *(decoder.decoded for decoder in self.decoders)]
        seen = self._seen(bare)
        of_events = events.reasons(seen.schema) if self.has_events else ()
        reason = f.coalesce(*self._reasons(rows, self.types, of_events), f.lit(None).cast("string")).alias(REASON)
        fated = seen.select(*(quoted(RAW.get(name, name)) for name in names), reason)
        self.observation = Observation()
        is_bad = f"{REASON} != ''"
        counts = {"records": "count(1)", BAD: f"count_if({is_bad})", FILTERED: f"count_if({REASON} = '')"}
        counts |= {"hash": HASH, "bad_hash": f"bit_xor(CASE WHEN {is_bad} THEN {PLACE} END)"}
        counts |= {"marks": note(is_bad, MARK), "blocks": note(is_bad, BLOCK)}
        self._counts = [f.expr(count).alias(name) for name, count in counts.items()]
        if kept_of:
            self._counts.append(keep(is_bad, self._of_bad(), kept_of).alias("kept"))
        self.all = fated.observe(self.observation, *self._counts)

    def count(self) -> dict[str, Any]:
        """What the observation would have, by a read of its own."""
        return self.all.agg(*self._counts).collect()[0].asDict()

    def rows(self) -> DataFrame:
        """The rows: the selected columns, and the source's topic, partition and offset."""
        seen, own = self._selected()
        return seen.select(*own, *SOURCE)

    def require_rows(self) -> None:
        """
        :raises InvalidJob: two columns would have one name; or an expression makes several rows of a record, or none.
        """
        seen, own = self._selected()
        try:  # in a struct, Spark takes no expression that makes several rows
            names = seen.select(*own, *SOURCE, f.struct(f.lit(0), *own)).columns[:-1]
        except AnalysisException as error:
            if "UNSUPPORTED_GENERATOR" not in str(error):
                raise
            cause = f"An expression of {', '.join(self.select)} makes several rows of one record"
            remedy = "Keep the array: a view over the table can explode it"
            raise InvalidJob("Cannot select the rows", cause, remedy) from None
        names = [*map(str.lower, names), BATCH_COLUMN]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            cause = (
                f"They would have the column {', '.join(twice)} twice; {', '.join(SOURCE)} and {BATCH_COLUMN} are added"
            )
            raise InvalidJob("Cannot select the rows", cause, 'Name yours: Rows(select=["value.offset AS item", …])')

    def bad(self) -> DataFrame:
        """Bad records, as Kafka has them."""
        return self.all.where(f.col(REASON) != "").select(*self._of_bad())

    def _of_bad(self) -> list[Column]:
        names = {name: name for name in (*SOURCE, "timestamp", "headers") if name in self.visible}
        columns = (f.col(column).alias(name) for name, column in {**names, **RAW}.items())
        misfits = (decoder.misfit(self.types) for decoder in self.decoders)
        return [*columns, f.concat(REASON, *misfits).alias("reason")]

    def scan(self) -> DataFrame:
        """Topic, partition and offset of every record, and its fate."""
        reason = f.col(REASON)
        fate = f.when(reason.isNull(), ROW).when(reason == "", FILTERED).otherwise(BAD)
        return self.all.select(*SOURCE, fate.alias(FATE))

    def _selected(self) -> tuple[DataFrame, list[Column]]:
        """What expressions see of records that become rows, and the expressions."""
        seen = self._seen(self.all.where(f.col(REASON).isNull())).select(*map(quoted, self.visible))
        selected = self.select or (events.columns(seen.schema) if self.has_events else self._default())
        selected = [*selected, *(events.added() if self.has_events else ())]
        return seen, [f.expr(text) for text in selected if text.strip().lower() not in SOURCE]

    def _seen(self, fated: DataFrame) -> DataFrame:
        return fated.select("*", *(decoder.seen() for decoder in self.decoders))

    def _reasons(self, rows: Mapping[str, Any], of: StructType, of_events: Iterable[Column]) -> Iterator[Column]:
        for decoder in self.decoders:
            yield from decoder.reasons(of)
        yield from of_events
        if rows["where"] is not None:
            yield f.when(~f.coalesce(f.expr(rows["where"]), f.lit(False)), "")
        for name, condition in rows["expect"].items():
            yield f.when(~f.expr(condition), f.lit(f"the expectation {name!r} is not met"))

    def _default(self) -> Iterator[str]:
        value, key = (decoder.given["format"] for decoder in self.decoders)
        if key != "bytes":
            yield "key"
        yield "value.*" if value in ("json", "avro") else "value"


class RowSink(Sink):
    """Writes the rows that a definition makes of records to one table, and bad records to another.

    :param rows: the member ``rows`` of the job object.
    :param bad: ``None``: the first bad record fails the batch.
    """

    def __init__(self, sink: TableSink, rows: Mapping[str, Any], bad: TableSink | None) -> None:
        self.sink, self.rows, self.bad, self.output = sink, rows, bad, sink.output
        self.conditions = Conditions(rows["ensure"])
        self.types: StructType | None = None

    def check(self, spark: SparkSession, plan: Plan) -> None:
        """
        :raises InvalidJob: Spark does not take a schema or an expression.
        """
        known = settings_of(spark) if jvm_of(spark) is None else {}  # each setting is a request there
        for name, value in SETTINGS.items():
            if known.get(name) != value:
                spark.conf.set(name, value)
        with _refusing():
            fates = Fates(without_rows(spark, KAFKA_COLUMNS), self.rows)
            self.types = fates.types
            fates.require_rows()
            self.conditions.analyse(fates.rows())
        for table in filter(None, (self.sink, self.bad)):
            table.check(spark, plan)

    def look(self, spark: SparkSession, plan: Plan) -> None:
        self.sink.look(spark, plan)

    def present(self, spark: SparkSession, keys: Sequence[str]) -> set[str]:
        return self.sink.present(spark, keys)

    def is_conflict(self, error: Exception) -> bool:
        return any(table.is_conflict(error) for table in (self.sink, self.bad) if table is not None)

    def write(self, batch: Batch, rows: DataFrame) -> Written:
        """
        :raises BadRecords: more records are bad than the job accepts. Its rows are not committed.
        :raises ConditionNotMet: the rows together are not as ensured.
        """
        self._prepare_bad(batch)
        is_rewrite = batch.attempt > 1
        with explaining(batch):
            if batch.is_committed:  # its rows stay if the new ones are refused
                again = Fates(rows, self.rows, self.types)
                self.refuse_too_many(batch, again.bad(), again.count())
            if is_rewrite and self.conditions.given:  # so they do if the new ones are not as ensured
                measured = self.conditions.measure(Fates(rows, self.rows, self.types).rows())
                self.conditions.check(batch, measured, f"{self.output} is unchanged")
            kept_of = batch.plan.offsets if is_kept(batch.plan) else 0
            fates = Fates(rows, self.rows, self.types, kept_of)
            ensured, observation = self.conditions.observe(fates.rows())
            written = self.sink.write(batch, ensured)
        if not is_rewrite:
            found = observed(observation) or self.conditions.measure(written.outputs)
            visible = f"The rows are in {self.output}, and not committed"
            where = visible if written.publish is None else "No reader sees the rows"
            self.conditions.check(batch, found, where)
        seen = observed(fates.observation)  # Spark Connect may lose it (SPARK-54279): then rows are counted
        counts = seen or fates.count()
        bad = self._write_bad(batch, counts)
        outputs, bad_outputs = with_fate(written.outputs, ROW), None if bad is None else with_fate(bad.outputs, BAD)

        def publish() -> str | None:
            if bad is not None:
                published(bad)
            snapshot = published(written)
            self._empty_former_tables(batch)
            return snapshot

        is_staged = written.publish is not None or (bad is not None and bad.publish is not None)
        if not is_staged:
            self._empty_former_tables(batch)
        return replace(
            written,
            outputs=outputs if bad_outputs is None else outputs.unionByName(bad_outputs),
            bad=bad_outputs,
            scan=fates.scan(),
            filtered=counts[FILTERED],
            seen=seen,
            publish=publish if is_staged else None,
        )

    def _prepare_bad(self, batch: Batch) -> None:
        """Mark the table of bad records before any row is written."""
        if self.bad is not None and not self.bad.checked:
            none = without_rows(batch.spark, KAFKA_COLUMNS)
            self.bad.prepare(keyed(Fates(none, self.rows).bad(), batch.key), batch.plan)

    def _empty_former_tables(self, batch: Batch) -> None:
        """Remove the bad records that earlier attempts have put elsewhere, last: what is refused leaves them."""
        for table in self.tables_of_bad(batch):
            if table is not self.bad and not (old := table.rows_of(batch)).isEmpty():
                published(table.write(batch, old.drop(BATCH_COLUMN).limit(0)))

    def tables_of_bad(self, batch: Batch) -> list[TableSink]:
        """Where bad records of the batch may be: the table for them, and those of earlier attempts."""
        found = {} if self.bad is None else {self.bad.name: self.bad}
        for job in batch.former_jobs:
            if (given := (job.get("rows") or {}).get("bad")) is not None:
                table = plain_sink(given["sink"], role=BAD_ROLE)
                found.setdefault(table.name, table)
        return [*found.values()]

    def _write_bad(self, batch: Batch, seen: Mapping[str, Any]) -> Written | None:
        """``None``: there are none, and were none."""
        is_first = batch.attempt == batch.tries == 1
        if not seen[BAD] and (self.bad is None or is_first or self.bad.rows_of(batch).isEmpty()):
            return None
        bad = kept(batch.spark, seen["kept"], seen[BAD]) if "kept" in seen else None
        if bad is None:
            records = batch.read(near(batch.plan, seen["blocks"]))
            bad = Fates(noted(records, seen["marks"]), self.rows, self.types).bad()
        self.refuse_too_many(batch, bad, seen)
        return None if self.bad is None else self.bad.write(batch, bad if seen[BAD] else bad.limit(0))

    def refuse_too_many(self, batch: Batch, bad: DataFrame, seen: Mapping[str, Any]) -> None:
        limit, count = self.rows["bad"]["limit"] if self.bad is not None else 0, seen[BAD]
        records = min(seen["records"], batch.plan.offsets)
        if limit is None or count <= _allowed(limit, records):
            return
        count = bad.count()  # what was observed has a stage twice that Spark has run again
        if count <= _allowed(limit, records):
            return
        first = bad.select(*SOURCE, "reason").orderBy(*SOURCE).limit(EXAMPLES).collect()
        places = [f"{row.topic}-{row.partition}:{row.offset}" for row in first]
        named = "; ".join(f"{place}: {row.reason}" for place, row in zip(places, first, strict=True))
        raise BadRecords(
            f"Bad records in {batch}: {count:,} of {records:,}, and the limit is {limit}",
            f"The first ones are {named}",
            "Correct Rows(…) or the producer and clear the task; or accept bad records, Rows(bad=BadRecords(…)); "
            f"or skip the record: {batch.plan.conf(skip=places[:1])}",
        )


def published(written: Written) -> str | None:
    """The snapshot or version that has the rows, once readers see them."""
    return written.snapshot if written.publish is None else written.publish()


def _allowed(limit: int | str, records: int) -> int:
    if isinstance(limit, str):
        return int(records * Decimal(limit.removesuffix("%")) / 100)
    return limit


def with_fate(rows: DataFrame, fate: str) -> DataFrame:
    return rows.select(*SOURCE, f.lit(fate).alias(FATE))


@contextmanager
def _refusing() -> Iterator[None]:
    """:raises InvalidJob: in the words of Spark, or of its Avro package."""
    try:
        yield
    except BatchError:
        raise
    except Exception as error:
        what = "Spark rejects the job's rows"
        if "JavaPackage" in str(error):
            raise InvalidJob(
                what, "It lacks its package for Avro", "spark.jars.packages=org.apache.spark:spark-avro_…"
            ) from None
        reason = " ".join(str(error).split("JVM stacktrace")[0].split())[:300]
        raise InvalidJob(what, reason, "Correct the schemas and expressions of Rows(…)") from error


@contextmanager
def explaining(batch: Batch) -> Iterator[None]:
    """:raises InvalidJob: an expression has raised on a record."""
    try:
        yield
    except BatchError:
        raise
    except Exception as error:
        found = _DATA_ERROR.search(str(error)) or _DATA_ERRORS_OF_SPARK_3.search(str(error))
        if found is None:
            raise
        cause = f"An expression of Rows(…) has raised {found[1]} on a record, as Spark's error below shows"
        remedy = "Use try_cast, try_divide or try_element_at there, or filter such records with where"
        raise InvalidJob(f"Cannot write {batch}", cause, remedy) from error
