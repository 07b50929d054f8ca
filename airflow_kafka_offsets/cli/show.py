# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""``show``: the batches of a pipeline; one of them with entries, attempts and partitions; the batch of an offset."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from airflow_kafka_offsets.cli.call import CHECKPOINT, CLUSTER, PIPELINE, Call, command, option
from airflow_kafka_offsets.cli.printing import Answer, Row, Table
from airflow_kafka_offsets.engine.history import (
    attempt_rows,
    batch_row,
    decision_row,
    entry_rows,
    identity_rows,
    range_rows,
)
from airflow_kafka_offsets.engine.lag import position_of
from airflow_kafka_offsets.engine.look import Answers
from airflow_kafka_offsets.errors import InvalidRequest, counted, shown
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Batch, digits_of
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.names import partition_offset
from airflow_kafka_offsets.plan.body import PlanBody
from airflow_kafka_offsets.times import parse_timestamp_ms

_COUNTED = "rows bad filtered"
_COLUMNS = f"batch state at window offsets {_COUNTED} given_up output owner"


def show(call: Call) -> Answer:
    """The batches of a pipeline, and who decided what, when and why.

    The newest batch comes first. States: planned, begun by a Spark job, reported, committed, being rewritten by a
    cleared run. --bad lists batches with bad records and their runs; with a cluster, also whether Kafka still has all
    of their records.
    """
    log, newest = call.log, call.newest()
    if call["batch"] is not None:
        return _one(log, _numbered(log, newest, call["batch"]))
    if call["offset"] is not None:
        return _having(log, newest, call["offset"])
    if call["bad"]:
        return _bad(call, log, newest)
    numbers = range(newest.number, max(0, newest.number - call["last"]), -1)
    identities = [{**row, "act": _act(row["act"])} for row in identity_rows(log)]
    tables = [
        Table("batches", list(log.read_each(numbers, batch_row)), _COLUMNS),
        Table("identities", identities, "identity at by user reason act"),
    ]
    text = f"Pipeline {log.pipeline_id}, batch {newest.number} is the newest."
    return Answer(text, {"pipeline": log.pipeline_id}, tables)


def _act(act: Mapping[str, Any] | None) -> str | None:
    """What an act changed, without its reason."""
    if act is None:
        return None
    return json.dumps({name: value for name, value in act.items() if name in ("acknowledge", "reset", "skip")})


def _bad(call: Call, log: PipelineLog, newest: Batch) -> Answer:
    try:
        since_ms = 0 if call["since"] is None else parse_timestamp_ms(call["since"])
    except ValueError as error:
        raise InvalidRequest((f"--since {error}.",)) from None

    def read(batch: Batch) -> Batch | None:
        commit = batch.commits[-1] if batch.commits else None
        return batch if commit is not None and commit.bad and commit.at_ms >= since_ms else None

    found = [batch for batch in log.read_each(range(newest.number, 0, -1), read) if batch is not None]
    rows = [batch_row(batch) for batch in found]
    if call.settings is not None:
        with call.cluster() as kafka:
            answers = Answers(kafka, newest.plan.isolation_level)
            for batch, row in zip(found, rows, strict=True):
                is_gone = batch.is_cleaned or answers.gone(batch.plan, log.body(batch))
                row["in_kafka"] = "gone" if is_gone else "all there"
    text = f"{counted(len(rows), 'batch')} of pipeline {log.pipeline_id} with bad records."
    return Answer(
        text, {"pipeline": log.pipeline_id}, [Table("batches", rows, "batch at window rows bad owner in_kafka")]
    )


# ── one batch ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _numbered(log: PipelineLog, newest: Batch, text: str) -> Batch:
    """:param text: its number or its key."""
    numbers = [int(text)] if text.isdecimal() else [digits_of(text) - base for base in newest.plan.bases]
    for number in numbers:
        batch = log.batch(number) if 1 <= number <= newest.number else None
        if batch is not None and (text.isdecimal() or batch.plan.key == text):
            return batch
    raise InvalidRequest((f"--batch {shown(text)}: pipeline {log.pipeline_id!r} has no such batch.",))


def _one(log: PipelineLog, batch: Batch) -> Answer:
    row, body = batch_row(batch), PlanBody() if batch.is_cleaned else log.body(batch)
    cleaned = "\nIt was cleaned: only its headers are left." if batch.is_cleaned else ""
    text = f"{batch} is {row['state']}, key {row['key']}.\nAsked: {batch.plan.asked}{cleaned}"
    tables = [
        Table("entries", entry_rows(batch), "entry kind at by details"),
        Table("attempts", attempt_rows(batch), "attempt state"),
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
    option("--bad", "The batches with bad records.", is_flag=True),
    option("--since", "With --bad: committed since then.", metavar="TIME"),
    *CLUSTER,
    CHECKPOINT,
)
