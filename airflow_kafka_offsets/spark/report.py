"""Counts in Spark what was written, and puts it on record. One row for each partition comes to the driver, no more.

Count, first and last offset are not enough: a join that doubles one record and drops another passes all three. So the
different offsets are counted too, as the bits of a long, 64 at a time, in the same aggregation: a range without gaps is
whole if rows = different offsets = size. Where there are gaps, what was written is compared with what was scanned, of
which a hash over all offsets says that they are the same.

The output is read back, three columns of it, and not the records: what a write counts of itself (``observe``, an
accumulator, the sink's metrics) is what was handed on, and the footers of files know no different offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.errors import DataLoss, InvalidRequest, LateAttempt, StoreUnavailable
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.verify_reads import PartitionRead, Proof, ReadReport
from airflow_kafka_offsets.plan.splits import FEW_RECORDS
from airflow_kafka_offsets.spark.driver_jvm import jvm_of, query_execution, with_settings
from airflow_kafka_offsets.spark.job_batch import Batch
from airflow_kafka_offsets.spark.kafka_source import no_records_of_kafka
from airflow_kafka_offsets.spark.sinks.jdbc_sink import JdbcSink
from airflow_kafka_offsets.spark.sinks.sink_arguments import sink_of
from airflow_kafka_offsets.spark.sinks.sink_contract import Merged, Sink
from airflow_kafka_offsets.values.sql_text import quoted

log = logging.getLogger(__name__)


WRITTEN = "what the job has written"
BAD_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "reason")
FATE = "kafka_fate"
ROW, SET_ASIDE, LEFT_OUT = "row", "set aside", "left out"
OF_FEW = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings for a query over no more than ``FEW_RECORDS``: to compile and to adapt it takes longer than to run it."""
KINDS = {"topic": "STRING", "partition": "INT", "offset": "BIGINT"}  # folders may read as others
_WORD = "shiftright(CAST(offset AS BIGINT), 6)"
_BIT = "shiftleft(1L, CAST(CAST(offset AS BIGINT) & 63 AS INT))"
OF_WORDS = (  # of rows of by_word: how many different offsets, the first and the last
    "sum(bit_count(bits)) AS offsets",
    "min(word * 64 + length(bin(bits)) - length(rtrim('0', bin(bits)))) AS first",
    "max(word * 64 + length(bin(bits)) - 1) AS last",
)


@dataclass(frozen=True, slots=True)
class _Counted:
    read: PartitionRead
    hash: int


Counts = dict[TopicPartition, _Counted]


@dataclass(frozen=True, slots=True)
class Divided:
    """What became of the records, where a sink divides them: each in one of its outputs, or left out.

    The frames have topic, partition and offset of each, and ``kafka_fate``.

    :ivar outputs: ``row`` and ``set aside``, read back from the outputs.
    :ivar left_out: ``left out``, from a scan, since no output has them; ``None``: nothing was.
    :ivar counts: of the outputs, if they were counted already.
    :ivar is_merged: whether the rows come from a scan, because the output merges them and has none for each record.
    """

    outputs: DataFrame
    left_out: DataFrame | None = None
    counts: Counts | None = None
    is_merged: bool = False

    @property
    def frame(self) -> DataFrame:
        """All of them."""
        return self.outputs if self.left_out is None else self.outputs.unionByName(self.left_out)


def report_batch(batch: Batch, *written: DataFrame | Divided | Merged | None) -> ReadReport:
    """Count what was written and put it on record. Call it once, when the sink has succeeded.

    :param batch: of :func:`planned_batch`.
    :param written: what reads the output back, with the columns ``topic``, ``partition`` and ``offset`` of the source;
        one frame for each sink. ``None``, or ``batch.scanned``: the sink cannot be read back, and what Spark scanned is
        counted; persist that frame before its first use, or Kafka is read a second time. A :class:`Divided` for
        records that were divided over several outputs. What an upsert returns: the scan is counted, and the report says
        that it was merged.
    :raises InvalidRequest: there was no :func:`read_batch`, a frame proves nothing, or one of several is not a whole
        copy; nothing was reported.
    :raises DataLoss: a topic was made anew meanwhile: the records may be the new one's. Nothing was reported.
    :raises LateAttempt: another job has begun to write the same split meanwhile; nothing was reported.

    Bad records that an earlier attempt has set aside in another place are taken back before.
    """
    source, attempt = batch.scanned, batch._begun
    try:
        take_back(batch)
    except Exception as error:
        attempt.note_failure(error, lambda: False, wrote=True)
        raise
    reports = [_report(batch, frame, source) for frame in written or (None,)]
    _refuse_parts(batch, reports)
    report = min(reports, key=lambda r: get_args(Proof).index(r.proof))  # that of the sink that shows least
    report = replace(report, looked=batch._same_topics())
    attempt.report(report)
    return report


def still_whole(spark: SparkSession, batch: Batch, sink: Any) -> bool:
    """Whether the outputs have each offset of the split once, after a write that failed. Where that is not known: no.

    Bad records count where any attempt has set them aside: a reader of all outputs sees each of them.
    """
    try:
        frame = held(spark, batch, sink)
        counts = count_offsets(frame, batch) if frame is not None else {}
    except Exception as error:
        log.warning("%s failed, and its output cannot be read back: %s", batch._begun, error)
        return False
    whole = frame is not None and has_every_offset(batch, counts)
    log.warning("%s failed; its output has %s.", batch._begun, "each record once" if whole else "not each record once")
    return whole


def held(spark: SparkSession, batch: Batch, sink: Any) -> DataFrame | None:
    """Topic, partition and offset of what the outputs hold of the split, bad records too; ``None``: nobody knows."""
    frame = sink.written(spark, batch) if hasattr(sink, "written") else None
    if frame is None:
        return None
    set_aside_before = (place.written(spark, batch) for place in other_places(batch))
    return union_of([offsets_of(found) for found in (frame, *set_aside_before) if found is not None])


def require_what_is_held(spark: SparkSession, batch: Batch, sink: Any, records: DataFrame) -> None:
    """Return if Kafka still has what the outputs hold of a committed batch's ranges. Compaction may have taken some.

    :param records: are read once for this and for the write.
    :raises DataLoss: it has not. It is on record that nothing was written.
    """
    if not batch.may_be_compacted:
        return
    try:
        if (there := held(spark, batch, sink)) is None:
            return
        ranges = [(*p.topic_partition, p.start_offset, p.end_offset) for p in batch.partitions]
        planned = f.broadcast(spark.createDataFrame(ranges, "t STRING, p INT, first BIGINT, past BIGINT"))
        there = there.join(
            planned, f.expr("topic = t AND partition = p AND offset >= first AND offset < past"), "left_semi"
        )
        gone = records_without(there, records.persist()).groupBy("topic", "partition").count().collect()
        if gone:
            raise DataLoss(
                sorted(f"{row[0]}[{row[1]}]: compaction has taken {row[2]} records" for row in gone),
                f"{batch.plan.batch} is committed, and the output has them: to do it again would take them out. "
                "Nothing was written, and there is nothing to do. To write what Kafka has left all the same: delete "
                f"the output's rows where {batch.row_filter}. Then clear the Spark task.",
            )
    except BaseException:
        batch._begun.report_nothing_written()
        raise


def offsets_of(frame: DataFrame, names: Mapping[str, str] | None = None, *more: str) -> DataFrame:
    """Topic, partition and offset of each row, as Kafka has them.

    :param names: what the frame calls them; one that is not there has Kafka's own.
    :param more: columns besides, in SQL.
    """
    found = {name: alias for name, alias in (names or {}).items() if alias in frame.columns}
    columns = (f"CAST({quoted(found.get(name, name))} AS {kind}) AS {name}" for name, kind in KINDS.items())
    return frame.selectExpr(*columns, *more)


def with_fate(frame: DataFrame, fate: str, names: Mapping[str, str] | None = None) -> DataFrame:
    """What reads an output back, as a part of :class:`Divided`; ``names`` as of :func:`offsets_of`."""
    return offsets_of(frame, names, f"'{fate}' AS {FATE}")


def union_of(frames: Sequence[DataFrame]) -> DataFrame:
    first, *more = frames
    for frame in more:
        first = first.unionByName(frame)
    return first


def count_offsets(frame: DataFrame, batch: Batch) -> Counts:
    """What the frame has of each partition. One row for each comes to the driver.

    :raises InvalidRequest: it has no topic, partition and offset of each row.
    """
    return _collect(_count_by_partition(frame), batch)


def records_without(records: DataFrame, rows: DataFrame) -> DataFrame:
    """The records whose offset is in none of the rows. The driver holds 64 offsets of the rows as one long.

    :param rows: what :func:`with_fate` returns.
    """
    there = f.broadcast(by_word(rows).drop("rows"))
    joined = records.withColumn("word", f.expr(_WORD)).join(there, ["topic", "partition", "word"], "left")
    return joined.where(f"NOT coalesce(bits & {_BIT} != 0, false)").select(*records.columns)


def has_every_offset(batch: Batch, counts: Counts) -> bool:
    """Whether each offset of the split is there once."""
    return _is_every_offset(batch, {tp: counted.read for tp, counted in counts.items()})


def _report(batch: Batch, written: DataFrame | Divided | Merged | None, source: DataFrame) -> ReadReport:
    if isinstance(written, Merged):
        return replace(_report(batch, None, source), proof="merged")
    found = written if written is None or isinstance(written, Divided) else Divided(written)
    if found is None or found.outputs is source or found.outputs.sameSemantics(source):
        if batch.partitions and not _is_persisted(source):
            log.warning("Kafka is read a second time, to count: call records.persist() before the write.")
        return _report_of(batch, count_offsets(source, batch), "scan")
    is_read_back = not found.is_merged and not _is_made_from(found.outputs, batch)
    counting = _count_by_partition(found.frame)
    is_from_records = bool(batch.partitions) and not found.is_merged and not is_read_back
    if is_from_records and _scans(query_execution(counting).withCachedData(), batch):  # it would read Kafka again
        raise InvalidRequest(
            [
                "That frame is made from the records, not read back from the output: it shows nothing of what was "
                "written. Give report_batch a frame that reads the output; or batch.scanned, for a sink that cannot be "
                "read back."
            ]
        )
    counts = _collect(counting, batch) if found.counts is None else found.counts
    proof = _proof(batch, counts, source, is_read_back=is_read_back)
    return _report_of(batch, counts, "merged" if proof == "scan" and found.is_merged else proof)


def _report_of(batch: Batch, counts: Counts, proof: Proof) -> ReadReport:
    reads = {tp: counted.read for tp, counted in counts.items()}
    plan_id, columns = batch.plan.plan_id, batch.columns
    return ReadReport(plan_id, batch.split, batch.attempt, proof, reads, batch.output, rows=batch.rows, columns=columns)


def _refuse_parts(batch: Batch, reports: list[ReadReport]) -> None:
    """:raises InvalidRequest: several frames, of which one does not read back the whole batch."""
    parts = [
        f"frame {number} has {sum(read.row_count for read in report.partitions.values())} rows"
        for number, report in enumerate(reports, 1)
        if report.proof == "rows" and not _is_every_offset(batch, report.partitions)
    ]
    if parts and len(reports) > 1:
        raise InvalidRequest(
            [
                f"{len(reports)} frames were returned, and each must read back all of "
                f"{batch.size} offsets: {', '.join(parts)}. Where the records are "
                "divided over several outputs (good ones and dead letters), return one frame over all of them: "
                "good.unionByName(dead). Else an output lacks records: correct the job."
            ]
        )


def _is_every_offset(batch: Batch, reads: Mapping[TopicPartition, PartitionRead]) -> bool:
    return reads == {
        p.topic_partition: PartitionRead(p.range.size, p.range.size, p.start_offset, p.end_offset - 1)
        for p in batch.partitions
    }


def _count_by_partition(frame: DataFrame) -> DataFrame:
    """Rows, different offsets, first and last of each partition; nothing is run yet."""
    missing = [name for name in ("topic", "partition", "offset") if name not in {c.lower() for c in frame.columns}]
    if missing:
        raise InvalidRequest(
            [
                f"What was written has no column {', '.join(missing)}, so it cannot be counted by partition. Keep the "
                "source's columns topic, partition and offset in the output (or rename them back for report_batch); or "
                "persist the records before the write and report those: report_batch(batch, batch.scanned)."
            ]
        )
    fates = [name for name in (SET_ASIDE, LEFT_OUT) if FATE in frame.columns]
    sums = (
        "sum(rows) AS rows",
        *(f"sum(`{name}`) AS `{name}`" for name in fates),
        *OF_WORDS,
        "bit_xor(xxhash64(word, bits)) AS hash",
    )
    words = by_word(frame, *(f"count_if({FATE} = '{name}') AS `{name}`" for name in fates))
    return words.groupBy("topic", "partition").agg(*map(f.expr, sums))


def by_word(frame: DataFrame, *more: str, by: Sequence[str] = ("topic", "partition")) -> DataFrame:
    """Which of 64 offsets are there, as the bits of a long."""
    # Spark's own bitmap_construct_agg is counted by sorting all rows, twice; a long is counted in a hash map.
    counts = ("count(*) AS rows", f"bit_or({_BIT}) AS bits", *more)
    return frame.groupBy(*by, f.expr(f"{_WORD} AS word")).agg(*map(f.expr, counts))


def _collect(counting: DataFrame, batch: Batch) -> Counts:
    spark = counting.sparkSession
    with with_settings(spark, OF_FEW if batch.size <= FEW_RECORDS and jvm_of(spark) is not None else {}):
        rows = counting.collect()
    if any(value is None for row in rows for value in row):
        raise InvalidRequest(
            ["Some of what was written has no topic, partition or offset: it did not come from this batch."]
        )
    # Spark may take a folder's topic=2026 for a number.
    return {
        TopicPartition(str(row["topic"]), int(row["partition"])): _Counted(
            PartitionRead(
                *(int(row[name]) for name in ("rows", "offsets", "first", "last")),
                *(int(row[name]) for name in (SET_ASIDE, LEFT_OUT) if name in row),
            ),
            int(row["hash"]),
        )
        for row in rows
    }


def _proof(batch: Batch, counts: Counts, source: DataFrame, *, is_read_back: bool) -> Proof:
    """``rows`` where the output has each offset once; ``compared`` where it has just what was scanned."""
    if has_every_offset(batch, counts):
        return "rows" if is_read_back else "scan"
    rows = sum(counted.read.row_count for counted in counts.values())
    if batch.partitions:
        if not _is_persisted(source):
            log.warning(
                "%d rows were written for %d offsets: Kafka is read a second time, to compare. Where the topic is "
                "compacted or transactional, records.persist() before the write saves that.",
                rows,
                batch.size,
            )
        if count_offsets(source, batch) == counts:
            return "compared" if is_read_back else "scan"
    log.warning(
        "%s: %d rows were written for %d offsets, and Spark scans other records than these, so the commit will refuse "
        "this read.",
        batch._begun,
        rows,
        batch.size,
    )
    return "rows"


def _is_persisted(frame: DataFrame) -> bool:
    level = frame.storageLevel
    return bool(level.useMemory or level.useDisk or level.useOffHeap)


def _is_made_from(frame: DataFrame, batch: Batch) -> bool:
    """Whether the frame's rows come from the batch's records, and not from an output; not known of Spark Connect."""
    plans = query_execution(frame)
    return plans is not None and _scans(plans.analyzed(), batch)


def _scans(plan: Any, batch: Batch) -> bool:
    """Whether one of the plan's leaves is the scan of a frame that :func:`read_batch` made for this batch.

    Spark compares them, by their relation: the copy that a self-join makes of a scan is the same one.
    """
    leaves = plan.collectLeaves()
    scans = [query_execution(frame).analyzed() for frame in batch._frames]
    return any(leaves.apply(number).sameResult(scan) for number in range(leaves.size()) for scan in scans)


# ── bad records that an earlier attempt has set aside elsewhere ───────────────────────────────────────────────────────
# The DAG was changed since: it names another place, or none, or has no typed rows any more. This attempt makes a row of
# such a record, or sets it aside elsewhere. So whatever the job writes, typed rows or plain ones, it replaces what is
# in the old places with nothing. In a table that also fences a late driver off.


def other_places(batch: Batch) -> list[Sink]:
    """Where earlier attempts may have set bad records aside, and this one writes neither its rows nor bad records."""
    own = {batch.output, batch.set_aside and sink_of(batch.set_aside).output, *batch._outputs}
    places = {sink.output: sink for sink in map(sink_of, batch.earlier_set_aside)}
    return [sink for output, sink in places.items() if output not in own]


def take_back(batch: Batch) -> None:
    """Replace what lies in the other places with nothing, after the job has written.

    :raises LateAttempt: another attempt at the split has begun since.
    :raises StoreUnavailable: a place still has some.
    """
    for sink in other_places(batch):
        nothing = no_records_of_kafka(batch.scanned.sparkSession, headers=True)
        nothing = nothing.withColumn("reason", f.lit("")).select(*BAD_COLUMNS)
        batch._outputs.add(WRITTEN)
        try:
            left = set_aside(sink, nothing, batch)
        except LateAttempt:
            raise
        except Exception as error:
            error.add_note(
                f"An earlier attempt at {batch.plan.batch}, split {batch.split}, may have set bad records aside in "
                f"{sink.output}, and this one has to take them back. If it cannot write there: name the same "
                "bad_records in the DAG again until this batch is committed."
            )
            raise
        if not left.isEmpty():
            raise StoreUnavailable(
                f"Cannot take back bad records of {batch.plan.batch}, split {batch.split}",
                f"{sink.output} still has some",
                "Clear the Spark task.",
            )


def set_aside(sink: Sink, bad: DataFrame, batch: Batch) -> DataFrame:
    """Write bad records; what reads them back."""
    if isinstance(sink, JdbcSink):  # PostgreSQL has no such arrays
        bad = bad.withColumn("headers", f.to_json("headers"))
    return cast("DataFrame", sink(bad, batch))  # no words of bad records make an upsert
