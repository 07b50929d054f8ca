"""The Spark job that reads an output and compares it with the log: are all records there, once?

::

    spark-submit audit_output.py --work-store s3://lake/offsets --from 2026-11-20 --to 2026-11-21
        --pipeline-id orders-to-lake/orders_to_lake/orders.resolve --sink-format delta --sink-table lake.orders

``--sink-…`` are the words of the DAG's sink. It writes nothing. It prints one line of JSON, and ends with status 1
where rows are missing, there twice, or of no batch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.log.audit import BatchRecord
from airflow_kafka_offsets.log.output_audit import (
    ExpectedRows,
    FoundRows,
    OutputFinding,
    Place,
    compare,
    expected_of,
    missing_ranges,
)
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.whole_log import is_within, whole_records
from airflow_kafka_offsets.plan.plan_table import first_few
from airflow_kafka_offsets.request.problems import parsed
from airflow_kafka_offsets.request.times import parse_timestamp_ms
from airflow_kafka_offsets.spark.hadoop_store import open_driver_store
from airflow_kafka_offsets.spark.kafka_source import no_records_of_kafka
from airflow_kafka_offsets.spark.report import KINDS, OF_WORDS, by_word, union_of
from airflow_kafka_offsets.spark.row_frames import row_frames
from airflow_kafka_offsets.spark.sinks.sink_arguments import is_of_each_topic, sink_of, words_of_arguments
from airflow_kafka_offsets.spark.sinks.sink_contract import BATCH_COLUMN, SPLIT_COLUMN
from airflow_kafka_offsets.stores.objects import read_object
from airflow_kafka_offsets.stores.store import Store
from airflow_kafka_offsets.values.row_definition import RowDefinition, object_name

_REQUIRED, _TIMES = ("--work-store", "--pipeline-id"), ("--from", "--to")
PLACE = (BATCH_COLUMN, SPLIT_COLUMN, "topic", "partition")
_SHOWN = 20  # places, and ranges of one, that are named offset by offset


@dataclass(frozen=True, slots=True)
class OutputAudit:
    """What the output has, against the log.

    :ivar batches: how many committed batches were compared; :ivar rows: how many rows the output has of them.
    """

    batches: int
    rows: int
    findings: tuple[OutputFinding, ...]


def audit_output(
    spark: SparkSession,
    pipeline: PipelineLog,
    words: Mapping[str, Any],
    from_ms: int | None = None,
    to_ms: int | None = None,
) -> OutputAudit:
    """Compare the output with the batches that were committed from ``from_ms`` to before ``to_ms``.

    :param words: of the sink, as the DAG has them.
    :raises InvalidRequest: the output has not a row for each record.
    :raises StoreDamaged: a part of the log cannot be read.
    """
    records = list(whole_records(pipeline, from_ms, to_ms))
    known = {record.log.plan.batch.key: record.log.committed is not None for record in records}
    judged = [record for record in records if is_within(record.log.at_ms, from_ms, to_ms)]
    _refuse_merged(judged)
    expected = {place: rows for record in judged for place, rows in expected_of(record).items()}
    keys = sorted(record.log.plan.batch.key for record in judged)
    if (from_ms is not None or to_ms is not None) and not keys:
        return OutputAudit(0, 0, ())
    bounds = None if from_ms is None and to_ms is None else (keys[0], keys[-1])
    frame = _rows(spark, pipeline.store, words, judged, bounds)
    counts = {} if frame is None else count_places(frame)
    findings = compare(expected, counts, known)
    if frame is not None:
        findings = _named(frame, findings, expected)
    rows = sum(found.rows for found in counts.values())
    return OutputAudit(sum(record.log.committed is not None for record in judged), rows, tuple(findings))


def _refuse_merged(records: Iterable[BatchRecord]) -> None:
    """:raises InvalidRequest: a table of entities: a row that a later batch has updated is not missing."""
    for record in records:
        reports = [attempt.report for attempts in record.attempts.values() for attempt in attempts]
        if any(report is not None and report.proof == "merged" for report in reports):
            raise InvalidRequest(
                [
                    f"{record.log.plan.batch} was merged by key: its output has no row for each record, so nothing can "
                    "be compared. Use kafka-offsets audit, which reads the log alone."
                ]
            )


def _rows(
    spark: SparkSession,
    store: Store,
    words: Mapping[str, Any],
    records: Sequence[BatchRecord],
    bounds: tuple[str, str] | None,
) -> DataFrame | None:
    """Key, split, topic, partition and offset of each row; ``None`` where there is no output."""

    topics = sorted({topic for record in records for topic in record.log.plan.topics})
    frames = []
    for topic in topics if is_of_each_topic(words) else [None]:
        sink: Any = sink_of(words, topic)  # each of a format's sinks has it
        found = sink.rows(spark, bounds)
        if found is None:
            continue
        names = _source_names(spark, store, records, topic)
        columns = [f.col(names.get(name, name)).cast(kind).alias(name) for name, kind in KINDS.items()]
        frames.append(found.select(f.col(BATCH_COLUMN).cast("string"), f.col(SPLIT_COLUMN).cast("int"), *columns))
    return union_of(frames) if frames else None


def _source_names(
    spark: SparkSession, store: Store, records: Iterable[BatchRecord], topic: str | None
) -> Mapping[str, str]:
    """What topic, partition and offset are called in the output, by the newest row definition."""
    digests = [digest for record in records for digest in record.log.definitions]
    definition = read_object(store, object_name(digests[-1]), RowDefinition.from_dict) if digests else None
    own = definition.of_topic(topic) if definition else None
    return row_frames(no_records_of_kafka(spark), own).source_names if own else {}


def count_places(frame: DataFrame) -> dict[Place, FoundRows]:
    """One row for each place comes to the driver."""
    sums = ("sum(rows) AS rows", *OF_WORDS)
    counted = by_word(frame, by=PLACE).groupBy(*PLACE).agg(*map(f.expr, sums)).collect()
    return {Place(*row[: len(PLACE)]): FoundRows(*map(int, row[len(PLACE) :])) for row in counted}


def _named(
    frame: DataFrame, findings: Sequence[OutputFinding], expected: Mapping[Place, ExpectedRows]
) -> list[OutputFinding]:
    """The same, and of the first few which offsets they are."""
    named: list[OutputFinding] = []
    for finding in findings:
        rows = expected.get(finding.place)
        if rows is not None and finding.is_wrong and sum(one.is_wrong for one in named) < _SHOWN:
            finding = replace(finding, what=f"{finding.what}{_offsets(frame, finding, rows)}")
        named.append(finding)
    return named


def _offsets(frame: DataFrame, finding: OutputFinding, expected: ExpectedRows) -> str:
    own = frame
    for name, value in zip(PLACE, finding.place, strict=True):
        own = own.where(f.col(name).eqNullSafe(f.lit(value)))
    if finding.kind == "twice":
        twice = own.groupBy("offset").count().where("count > 1").orderBy("offset").limit(_SHOWN)
        return f": {', '.join(str(row[0]) for row in twice.collect())}"
    if finding.kind == "missing" and expected.is_whole:
        words = [(int(row["word"]), int(row["bits"]) & (2**64 - 1)) for row in by_word(own, by=PLACE).collect()]
        ranges = missing_ranges(words, expected.start, expected.end)
        return f"; not {first_few([f'[{start}, {end})' for start, end in ranges], _SHOWN)}"
    return ""


# ── the job ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def run(spark: SparkSession, argv: Sequence[str]) -> dict[str, Any]:
    """What the job prints.

    :raises InvalidRequest: arguments are missing or wrong.
    """
    given = {name: value for name, value in pairwise(argv) if name in (*_REQUIRED, *_TIMES)}
    missing = [name for name in _REQUIRED if name not in given]
    if missing:
        raise InvalidRequest([f"The job has no {', '.join(missing)}. Give both, and the words of the sink."])
    now = now_ms()
    from_ms, to_ms = (
        parsed(name, partial(parse_timestamp_ms, given[name], now_ms=now)) if name in given else None for name in _TIMES
    )
    pipeline = PipelineLog(open_driver_store(given["--work-store"], spark), given["--pipeline-id"])
    found = audit_output(spark, pipeline, words_of_arguments(argv), from_ms, to_ms)
    return {"version": 1, "pipeline_id": pipeline.pipeline_id, "from": from_ms, "to": to_ms, **_as_json(found)}


def _as_json(found: OutputAudit) -> dict[str, Any]:
    wrong = sum(one.is_wrong for one in found.findings)
    return {
        "batches": found.batches,
        "rows": found.rows,
        "wrong": wrong,
        "findings": [one.to_dict() for one in found.findings],
    }


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    found = run(spark, sys.argv[1:])
    spark.stop()
    print(json.dumps(found))
    sys.exit(1 if found["wrong"] else 0)


if __name__ == "__main__":
    main()
