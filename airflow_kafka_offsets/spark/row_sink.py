"""Records → rows in one output, bad records in another, and the proof that each record is in one of them or left out.

::

    rows ─► output ─► count ─► all there? ──yes──► done: Kafka was read once
                                  └──no──► read Kafka once more: what is no row ─► bad ones ─► set aside
                                                                              └──► left out ─► count all together

What must stay true: each offset is a row, set aside, or left out. A second look at Kafka says which of the last two the
missing ones are; one that it says to be a row is missing, and then the commit refuses the split.

Bad records may lie where an earlier attempt at the split has put them, under the same key: with another schema, or
another ``bad_records``. An attempt writes down where, before it writes. So the next one replaces them there, too, with
nothing if there is nothing: where it sets bad records aside itself, here; in other places, in ``report.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import BadRecords
from airflow_kafka_offsets.spark.job_batch import Batch
from airflow_kafka_offsets.spark.kafka_source import no_records_of_kafka
from airflow_kafka_offsets.spark.report import (
    LEFT_OUT,
    ROW,
    SET_ASIDE,
    Divided,
    count_offsets,
    has_every_offset,
    records_without,
    set_aside,
    union_of,
    with_fate,
)
from airflow_kafka_offsets.spark.row_frames import (
    MEANING,
    SOURCE_COLUMNS,
    RowFrames,
    check_definition,
    row_frames,
)
from airflow_kafka_offsets.spark.sinks.files_sink import FilesSink
from airflow_kafka_offsets.spark.sinks.sink_arguments import (
    UPSERT,
    is_of_each_topic,
    output_of,
    sink_of,
)
from airflow_kafka_offsets.spark.sinks.sink_contract import OWN_COLUMNS, Merged, Sink
from airflow_kafka_offsets.values.row_definition import LIMIT, RowDefinition, parse_limit, sink_words

_EXAMPLES = 5
_START_OF_VALUE = 100


@dataclass(frozen=True, slots=True)
class RowTable:
    """One output of rows.

    :ivar definition: ``None``: the topic is gone, and with it how its rows are made.
    :ivar topic: whose records it has; ``None``: those of all topics.
    """

    sink: Sink
    definition: RowDefinition | None
    topic: str | None


class RowSink:
    """Writes the rows that a definition makes of the records; it is a sink as ``for_each_batch`` takes one.

    :param words: of the sink for rows. With ``{topic}`` in them each topic has an output of its own.
    :param bad: where bad records go, and how many there may be, as a job's arguments have it; nothing: they are not set
        aside.
    :param topics: all that the batch may have rows of.
    :raises InvalidRequest: a sink's words are wrong; ValueError: the limit is none.
    """

    def __init__(
        self, words: Mapping[str, Any], definition: RowDefinition, bad: Mapping[str, Any], topics: Collection[str] = ()
    ) -> None:
        self.output, self.definition = output_of(words), definition
        self.bad, self.limit = sink_words(bad), parse_limit(bad.get(LIMIT))
        own = {**words, UPSERT: {"keys": definition.keys}} if definition.keys else words
        names = sorted(topics) if is_of_each_topic(words) else [None]
        self.tables = [RowTable(sink_of(own, topic), definition.of_topic(topic), topic) for topic in names]
        self.set_aside = sink_of(self.bad) if self.bad else None

    @property
    def sinks(self) -> list[Sink]:
        return [*(table.sink for table in self.tables), *([] if self.set_aside is None else [self.set_aside])]

    @property
    def set_aside_words(self) -> Mapping[str, Any] | None:
        """For the attempt's record."""
        return self.bad or None

    @property
    def source_options(self) -> dict[str, str]:
        return {"includeHeaders": "true"} if self.set_aside is not None else {}

    def check(self, spark: SparkSession) -> None:
        """:raises InvalidRequest: Spark does not take the definition, or a sink is not safe."""
        for setting, value in MEANING.items():  # a session of Spark Connect makes the frames when they are read
            spark.conf.set(setting, value)
        definitions = [table.definition for table in self.tables if table.definition is not None]
        for definition in {each.digest: each for each in definitions}.values():
            check_definition(spark, definition)
        for sink in self.sinks:
            getattr(sink, "check", lambda _: None)(spark)

    def written(self, spark: SparkSession, batch: Batch) -> DataFrame | None:
        """What the outputs hold of the split. Records that were left out are in none of them.

        ``None``: a table of entities does not have a row for each record.
        """
        if self.definition.keys:
            return None
        nothing = no_records_of_kafka(spark)
        found = []
        for table in self.tables_of(batch):
            names = None if table.definition is None else row_frames(nothing, table.definition).source_names
            found.append((table.sink.written(spark, batch), ROW, names))
        if self.set_aside is not None:
            found.append((self.set_aside.written(spark, batch), SET_ASIDE, None))
        return union_of([with_fate(frame, fate, names) for frame, fate, names in found if frame is not None])

    def tables_of(self, batch: Batch) -> list[RowTable]:
        """Those that may have rows of the split.

        A topic may have the output of one that only a plan before has: `orders`, where `Orders` is gone. Its rows, or
        none, replace the other's.
        """
        topics, planned = batch.topics, batch.plan.topics
        found = [table for table in self.tables if table.topic is None or table.topic in topics]
        found.sort(key=lambda table: table.topic in planned)
        return list({table.sink.output: table for table in found}.values())

    def __call__(self, records: DataFrame, batch: Batch) -> Divided:
        """
        :raises BadRecords: more are bad than the limit allows.
        """
        if batch.may_have_gaps or self.definition.keys:  # a second look might see fewer, and merged rows show nothing
            records.persist()
        return _Write(self, records, batch).done()


class _Write:
    """One split, once."""

    def __init__(self, to: RowSink, records: DataFrame, batch: Batch) -> None:
        self.to, self.batch = to, batch
        self.parts = [(table, self._records_of(table.topic, records)) for table in to.tables_of(batch)]
        self.frames = [_frames_of(table, own) for table, own in self.parts]
        self.no_rows = self.frames
        self.has_looked_again = self.has_written = False

    def _records_of(self, topic: str | None, records: DataFrame) -> DataFrame:
        if topic is None:
            return records
        if records.is_cached:
            return records.where(records.topic == topic)
        return self.batch.records_of(topic)

    def done(self) -> Divided:
        if not self.parts:
            return Divided(with_fate(no_records_of_kafka(self.batch.scanned.sparkSession), ROW))
        if self.to.definition.keys:
            self._look_again()
        rows = union_of([self._rows(table, frames) for (table, _), frames in zip(self.parts, self.frames, strict=True)])
        counts = None
        if not self.has_looked_again and not all(isinstance(table.sink, FilesSink) for table, _ in self.parts):
            counts = count_offsets(rows, self.batch)
            if not has_every_offset(self.batch, counts):
                self._look_again(rows)
        set_aside, left_out = self._set_aside(), None
        if self.has_looked_again:
            left_out = union_of([with_fate(frames.left_out, LEFT_OUT) for frames in self.no_rows])
        counts = None if set_aside or left_out is not None else counts
        return Divided(union_of([rows, *set_aside]), left_out, counts, is_merged=bool(self.to.definition.keys))

    def _rows(self, table: RowTable, frames: RowFrames) -> DataFrame:
        """Write the rows of one table; what reads them back."""
        sink: Callable[..., Any] = table.sink
        if table.definition is None:
            return self._emptied(table)
        if isinstance(sink, FilesSink):
            size = sum(p.range.size for p in self.batch.partitions if table.topic in (None, p.topic_partition.topic))
            sink = partial(sink, judge=partial(self._judge_staged, size, frames.source_names))
        written = sink(frames.rows, self.batch)
        self.has_written = True
        rows = written.records if isinstance(written, Merged) else written
        self.batch.note_columns(table.sink.output, rows)
        return with_fate(rows, ROW, frames.source_names)

    def _emptied(self, table: RowTable) -> DataFrame:
        """Take back what an attempt before has written of a topic that is gone."""
        spark = self.batch.scanned.sparkSession
        there = table.sink.written(spark, self.batch)
        if there is None or there.isEmpty():
            return with_fate(no_records_of_kafka(spark), ROW)
        return with_fate(cast("DataFrame", table.sink(there.drop(*OWN_COLUMNS).limit(0), self.batch)), ROW)

    def _judge_staged(self, size: int, names: Mapping[str, str], staged: DataFrame) -> None:
        if not self.has_looked_again and staged.count() != size:
            self._look_again(with_fate(staged, ROW, names))

    def _look_again(self, rows: DataFrame | None = None) -> None:
        """Read Kafka for what is no row: for the records whose offsets the output lacks.

        :param rows: what the output has; ``None``: that is not known, and each record is decoded again.
        :raises BadRecords: more records are bad than the limit allows.
        """
        self.has_looked_again = True
        if rows is not None:
            self.no_rows = [_frames_of(table, records_without(own, rows)) for table, own in self.parts]
        for frames in self.no_rows:
            frames.rest.persist()
        count, plan, limit = self._bad().count(), self.batch.plan, self.to.limit
        allowed = limit.allowed(plan.record_count_upper_bound)
        if count > allowed:
            first = self._bad().orderBy(*SOURCE_COLUMNS).limit(_EXAMPLES).collect()
            is_there = "its rows are in the output until it is done again"
            output = is_there if self.has_written else "its output stays as it is"
            name, left = f"{plan.batch}, split {self.batch.split}", f"Nothing is committed, and {output}."
            raise BadRecords(name, count, allowed, str(limit), tuple(map(_example, first)), left)

    def _bad(self) -> DataFrame:
        return union_of([frames.bad for frames in self.no_rows])

    def _set_aside(self) -> list[DataFrame]:
        """Write the bad records, or nothing where an earlier attempt may have left some; what reads them back."""
        own = self.to.set_aside
        if own is None:
            return []
        bad = self._bad()
        if not self.has_looked_again:
            if own.output not in {sink_of(words).output for words in self.batch.earlier_set_aside}:
                return []
            bad = bad.limit(0)
        written = set_aside(own, bad, self.batch)
        self.batch.note_columns(own.output, written)
        return [with_fate(written, SET_ASIDE)]


def _frames_of(table: RowTable, records: DataFrame) -> RowFrames:
    return row_frames(records, table.definition or RowDefinition())


def _example(row: Any) -> str:
    value = bytes(row["value"] or b"")
    start = value[:_START_OF_VALUE].decode(errors="replace")
    more = "…" if len(value) > _START_OF_VALUE else ""
    return f"{row['topic']}[{row['partition']}]: offset {row['offset']}: {row['reason']}: {start!r}{more}"
