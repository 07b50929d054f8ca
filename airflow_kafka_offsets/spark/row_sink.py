"""Records → rows in one output, bad records in another, and the proof that each record is in one of them or left out.

::

    rows ─► output ─► count ─► all there? ──yes──► done: Kafka was read once
                                  └──no──► read Kafka once more: what is no row ─► bad ones ─► set aside
                                                                              └──► left out ─► count all together

What must stay true: each offset is a row, set aside, or left out. A second look at Kafka says which of the last two the
missing ones are; one that it says to be a row is missing, and then the commit refuses the split.

Bad records may lie where an earlier attempt at the split has put them, under the same key: with another schema, or
another ``bad_records``. An attempt writes down where, before it writes. So the next one replaces them there, too, with
nothing if there is nothing: where it sets bad records aside itself, here; in other places, in ``take_back.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    union_of,
    with_fate,
)
from airflow_kafka_offsets.spark.row_frames import (
    SOURCE_COLUMNS,
    RowFrames,
    check_definition,
    row_frames,
)
from airflow_kafka_offsets.spark.sinks.files_sink import FilesSink
from airflow_kafka_offsets.spark.sinks.sink_arguments import BAD_RECORDS, sink_of, words_of_arguments
from airflow_kafka_offsets.spark.sinks.sink_contract import Sink
from airflow_kafka_offsets.spark.take_back import set_aside
from airflow_kafka_offsets.values.bad_records import LIMIT, Limit, parse_limit, sink_words
from airflow_kafka_offsets.values.row_definition import RowDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EXAMPLES = 5
_START_OF_VALUE = 100


@dataclass(frozen=True, slots=True)
class BadRecordPlace:
    """Where bad records go, and how many there may be.

    :ivar words: of the sink; empty: they are not set aside.
    """

    words: Mapping[str, Any]
    limit: Limit

    @classmethod
    def of_arguments(cls, argv: Sequence[str]) -> BadRecordPlace:
        """:raises InvalidRequest: the limit is none."""
        words = words_of_arguments(argv, BAD_RECORDS)
        return cls(sink_words(words), parse_limit(words.get(LIMIT)))


class RowSink:
    """Writes the rows that a definition makes of the records; it is a sink as ``for_each_batch`` takes one."""

    def __init__(self, sink: Sink, definition: RowDefinition, bad: BadRecordPlace) -> None:
        self.sink, self.definition, self.bad = sink, definition, bad
        self.set_aside = sink_of(bad.words) if bad.words else None

    @property
    def output(self) -> str:
        return self.sink.output

    @property
    def sinks(self) -> list[Sink]:
        return [self.sink] if self.set_aside is None else [self.sink, self.set_aside]

    @property
    def set_aside_words(self) -> Mapping[str, Any] | None:
        """For the attempt's record."""
        return self.bad.words or None

    @property
    def source_options(self) -> dict[str, str]:
        return {"includeHeaders": "true"} if self.set_aside is not None else {}

    def check(self, spark: SparkSession) -> None:
        """:raises InvalidRequest: Spark does not take the definition, or a sink is not safe."""
        spark.conf.set("spark.sql.ansi.enabled", "true")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        check_definition(spark, self.definition)
        for sink in self.sinks:
            getattr(sink, "check", lambda _: None)(spark)

    def written(self, spark: SparkSession, batch: Batch) -> DataFrame | None:
        """What the outputs hold of the split. Records that were left out are in none of them."""
        names = row_frames(no_records_of_kafka(spark), self.definition).source_names
        found = [with_fate(self.sink.written(spark, batch), ROW, names)]
        if self.set_aside is not None:
            found.append(with_fate(self.set_aside.written(spark, batch), SET_ASIDE))
        return union_of([frame for frame in found if frame is not None])

    def __call__(self, records: DataFrame, batch: Batch) -> Divided:
        """
        :raises BadRecords: more are bad than the limit allows.
        """
        if batch.may_have_gaps:  # a compaction between two looks would leave fewer records for the second
            records.persist()
        return _Write(self, row_frames(records, self.definition), batch).done()


class _Write:
    """One split, once."""

    def __init__(self, to: RowSink, frames: RowFrames, batch: Batch) -> None:
        self.to, self.frames, self.batch = to, frames, batch
        self.has_looked_again = False

    def done(self) -> Divided:
        written, counts = self._rows()
        if not self.has_looked_again and counts is not None and not has_every_offset(self.batch, counts):
            self._look_again()
        parts = [with_fate(written, ROW, self.frames.source_names), self._set_aside()]
        if self.has_looked_again:
            parts.append(with_fate(self.frames.left_out, LEFT_OUT))
        found = [part for part in parts if part is not None]
        return Divided(union_of(found), counts if len(found) == 1 else None)

    def _rows(self) -> tuple[DataFrame | None, Any]:
        """Write the rows; what reads them back, and its counts if they were made."""
        sink, rows = self.to.sink, self.frames.rows
        if isinstance(sink, FilesSink):
            return sink(rows, self.batch, self._judge_staged), None
        written = sink(rows, self.batch)
        frame = with_fate(written, ROW, self.frames.source_names)
        return written, None if frame is None else count_offsets(frame)

    def _judge_staged(self, staged: DataFrame) -> None:
        if staged.count() != sum(p.range.size for p in self.batch.partitions):
            self._look_again()

    def _look_again(self) -> None:
        """Read Kafka for what is no row.

        :raises BadRecords: more records are bad than the limit allows.
        """
        self.has_looked_again = True
        self.frames.rest.persist()
        bad = self.frames.bad
        count, plan, limit = bad.count(), self.batch.plan, self.to.bad.limit
        allowed = limit.allowed(plan.record_count_upper_bound)
        if count > allowed:
            first = bad.orderBy(*SOURCE_COLUMNS).limit(_EXAMPLES).collect()
            is_left = isinstance(self.to.sink, FilesSink)
            rows = "its output stays as it is" if is_left else "its rows are in the output until it is done again"
            name, left = f"{plan.batch}, split {self.batch.split}", f"Nothing is committed, and {rows}."
            raise BadRecords(name, count, allowed, str(limit), tuple(map(_example, first)), left)

    def _set_aside(self) -> DataFrame | None:
        """Write the bad records, or nothing where an earlier attempt may have left some; what reads them back."""
        own = self.to.set_aside
        if own is None:
            return None
        bad = self.frames.bad
        if not self.has_looked_again:
            if own.output not in {sink_of(words).output for words in self.batch.earlier_set_aside}:
                return None
            bad = bad.limit(0)
        return with_fate(set_aside(own, bad, self.batch), SET_ASIDE)


def _example(row: Any) -> str:
    value = bytes(row["value"] or b"")
    start = value[:_START_OF_VALUE].decode(errors="replace")
    more = "…" if len(value) > _START_OF_VALUE else ""
    return f"{row['topic']}[{row['partition']}]: offset {row['offset']}: {row['reason']}: {start!r}{more}"
