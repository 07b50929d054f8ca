"""``show``: the batches of a pipeline; one of them with entries, attempts and partitions; the batch of an offset."""

from __future__ import annotations

from collections.abc import Iterator

import click

from airflow_kafka_offsets.cli.call import CHECKPOINT, PIPELINE, Call, command, option
from airflow_kafka_offsets.cli.printing import Answer, Row, Table
from airflow_kafka_offsets.engine.history import (
    attempt_rows,
    batch_row,
    decision_row,
    entry_rows,
    range_rows,
)
from airflow_kafka_offsets.engine.lag import position_of
from airflow_kafka_offsets.errors import InvalidRequest, counted, shown
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Batch, number_of
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.names import partition_offset
from airflow_kafka_offsets.plan.body import PlanBody

_COUNTED = "rows bad filtered"
_COLUMNS = f"batch state at window offsets {_COUNTED} given_up output owner"


def show(call: Call) -> Answer:
    """The batches of a pipeline, the newest first.

    States: planned, begun by a Spark job, reported, committed, reprocessing (a cleared run writes it again).
    """
    log, newest = call.log, call.newest()
    if call["batch"] is not None:
        return _one(log, _numbered(log, call["batch"]))
    if call["offset"] is not None:
        return _having(log, newest, call["offset"])
    numbers = range(newest.number, max(0, newest.number - call["last"]), -1)
    table = Table("batches", list(log.read_each(numbers, batch_row)), _COLUMNS)
    return Answer(
        f"Pipeline {log.pipeline_id}, batch {newest.number} is the newest.", {"pipeline": log.pipeline_id}, [table]
    )


# ── one batch ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _numbered(log: PipelineLog, text: str) -> Batch:
    """:param text: its number or its key."""
    number = int(text) if text.isdecimal() else number_of(text)
    batch = log.batch(number) if number else None
    if batch is None or not (text.isdecimal() or batch.plan.key == text):
        raise InvalidRequest((f"--batch {shown(text)}: pipeline {log.pipeline_id!r} has no such batch.",))
    return batch


def _one(log: PipelineLog, batch: Batch) -> Answer:
    row, body = batch_row(batch), PlanBody() if batch.is_cleaned else log.body(batch)
    cleaned = "\nIt was cleaned: only its headers are left." if batch.is_cleaned else ""
    text = f"{batch} is {row['state']}, key {row['key']}.\nAsked: {batch.plan.asked}{cleaned}"
    tables = [
        Table("entries", entry_rows(batch), "entry kind at by details"),
        Table("attempts", attempt_rows(log, batch), "attempt state output"),
        Table(
            "ranges", range_rows(log, batch, body), "partition before start end offsets skipped rows bad filtered gaps"
        ),
        Table("decisions", list(map(decision_row, body.decisions)), "partition start end kind by"),
    ]
    return Answer(text, {"pipeline": log.pipeline_id, **row, "asked": batch.plan.asked}, tables)


# ── the batch of an offset ────────────────────────────────────────────────────────────────────────────────────────────


def _having(log: PipelineLog, newest: Batch, text: str) -> Answer:
    try:
        tp, offset = partition_offset(text)
    except ValueError as error:
        raise InvalidRequest((f"--offset {error}.",)) from None

    def look(batch: Batch) -> list[Row] | None:
        if tp.topic not in batch.plan.topics:
            return []
        return None if batch.is_cleaned else list(_fates(batch, log.body(batch), tp, offset))

    looked = list(log.read_each(range(newest.number, 0, -1), look))
    rows = [row for of_batch in looked for row in of_batch or ()]
    at = None if newest.plan.kind == "window" else position_of(log, newest).get(tp)
    having = " and ".join(f"batch {row['batch']}" for row in rows)
    text = f"{tp}:{offset} is in {having or 'no batch'} of pipeline {log.pipeline_id}."
    text += "" if at is None else f" The position is {at.offset}."
    notes = (
        [f"The offsets of {counted(looked.count(None), 'batch')} were removed by clean, and are not known."]
        if None in looked
        else []
    )
    facts = {"pipeline": log.pipeline_id, "position": at and at.offset}
    return Answer(text, facts, [Table("batches", rows, "batch state at window fate")], notes)


def _fates(batch: Batch, body: PlanBody, tp: TopicPartition, offset: int) -> Iterator[Row]:
    """What the batch does with the record: it reads it, or a decision gives it up."""
    planned = body.ranges.get(tp)
    is_skipped = any(skip.start_offset <= offset < skip.end_offset for skip in body.skips.get(tp, ()))
    if planned is not None and planned.start <= offset < planned.end and not is_skipped:
        yield {**batch_row(batch), "fate": "read"}
    for d in body.decisions:
        if d.partition == tp and d.kind != "again" and d.start <= offset and (d.end is None or offset < d.end):
            yield {**batch_row(batch), "fate": f"{d.kind} by {d.by}"}


show_command = command(
    show,
    "show orders --offset orders-1:337",
    PIPELINE,
    option("--batch", "One batch, by number or key: its entries, attempts, partitions and decisions.", metavar="N"),
    option("--offset", "Which batch has this record: orders-1:337.", metavar="PARTITION:OFFSET"),
    option("--last", "How many batches.", type=click.IntRange(1), default=20, metavar="N", show_default=True),
    CHECKPOINT,
)
