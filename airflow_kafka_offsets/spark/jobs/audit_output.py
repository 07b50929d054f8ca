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
    OutputToRead,
    Place,
    compare,
    expected_of,
    missing_ranges,
    output_to_read,
)
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
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

    :ivar batches: how many committed batches were compared; :ivar rows: how many rows the output has of them, with
        those that were set aside.
    :ivar merged: of how many of the batches the rows were merged by key: nobody can tell which are missing.
    """

    batches: int
    rows: int
    merged: int
    findings: tuple[OutputFinding, ...]


def audit_output(spark: SparkSession, store: Store, to_read: OutputToRead) -> OutputAudit:
    """Compare the output with its batches."""
    judged = to_read.judged
    expected = {place: rows for record in judged for place, rows in expected_of(record).items()}
    frame = _rows(spark, store, to_read)
    counts = {} if frame is None else count_places(frame)
    findings = compare(expected, counts, to_read.known)
    if frame is not None:
        findings = _named(frame, findings, expected)
    rows = sum(found.rows for found in counts.values())
    committed = [record for record in judged if record.log.committed is not None]
    return OutputAudit(len(committed), rows, sum(record.is_merged for record in committed), tuple(findings))


def _rows(spark: SparkSession, store: Store, to_read: OutputToRead) -> DataFrame | None:
    """Key, split, topic, partition and offset of each row and bad record; ``None`` where there is no output."""
    topics = sorted({topic for record in to_read.judged for topic in record.log.plan.topics})
    sinks: list[tuple[Any, Mapping[str, str]]] = [  # each of a format's sinks has rows
        (sink_of(to_read.words, topic), _source_names(spark, store, to_read.judged, topic))
        for topic in (topics if is_of_each_topic(to_read.words) else [None])
    ]
    sinks += [(sink_of(place), {}) for place in to_read.places]
    frames = []
    for sink, names in sinks:
        found = sink.rows(spark, to_read.bounds)
        if found is not None:
            columns = [f.col(names.get(name, name)).cast(kind).alias(name) for name, kind in KINDS.items()]
            frames.append(found.select(f.col(BATCH_COLUMN).cast("string"), f.col(SPLIT_COLUMN).cast("int"), *columns))
    return union_of(frames) if frames else None


def _source_names(
    spark: SparkSession, store: Store, records: Iterable[BatchRecord], topic: str | None
) -> Mapping[str, str]:
    """What topic, partition and offset are called in the output, by the newest row definition."""
    digests = [digest for record in records for digest in record.log.history.definitions]
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
    to_read = output_to_read(pipeline, words_of_arguments(argv), from_ms, to_ms)
    found = audit_output(spark, pipeline.store, to_read)
    return {
        "version": 1,
        "pipeline_id": pipeline.pipeline_id,
        "from": from_ms,
        "to": to_ms,
        "batches": found.batches,
        "rows": found.rows,
        "merged": found.merged,
        "wrong": sum(one.is_wrong for one in found.findings),
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
