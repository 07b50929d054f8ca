# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""``lag``: how far a pipeline or a group is behind, by partition. ``list``: all pipelines, with their last batch."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta

import click

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.cli.call import CHECKPOINT, CLUSTER, Call, command, option
from airflow_kafka_offsets.cli.printing import Answer, Row, Table
from airflow_kafka_offsets.engine.history import Pipeline, batch_row, pipelines
from airflow_kafka_offsets.engine.lag import Lag, lag_of_group, lag_of_pipeline
from airflow_kafka_offsets.errors import InvalidRequest, counted
from airflow_kafka_offsets.progress_log import Progress
from airflow_kafka_offsets.request import RunContext, parse_some
from airflow_kafka_offsets.times import iso


def lag(call: Call) -> Answer:
    """How far a pipeline or a consumer group is behind.

    Unread records are counted in offsets, an upper bound. Those behind an open transaction are counted apart: they wait
    for its end. The age of the first unread record is shown if the client has the right Read on the topic.
    """
    of_group = {name: call[name] for name in ("topics", "group_id") if call[name] is not None}
    if len(of_group) != (0 if call["pipeline"] else 2):
        raise InvalidRequest(("Give PIPELINE, or both --group-id and --topics.",))
    with call.cluster() as kafka:
        if of_group:
            asked = parse_some(of_group, RunContext(call.now_ms))
            found: Lag | None = lag_of_group(kafka, asked["group_id"], asked["topics"])
        else:
            found = lag_of_pipeline(call.log, call.newest(), kafka)
    whose = call["pipeline"] or f"group {call['group_id']}"
    if found is None:
        raise InvalidRequest((f"Pipeline {whose!r} has no lag: it reads by window, or has read another cluster.",))
    rows: list[Row] = []
    for tp, one in sorted(found.items()):
        age = None if one.oldest_ms is None else max(0, call.now_ms - one.oldest_ms) // 1000
        oldest = None if one.oldest_ms is None else iso(one.oldest_ms)
        rows.append({"partition": str(tp), **one._asdict(), "oldest_unread": oldest, "age_s": age})
    unread, held = (sum(row[name] for row in rows) for name in ("unread", "in_transaction"))
    ages = [row["age_s"] for row in rows if row["age_s"] is not None]
    oldest_s = max(ages, default=None)
    text = f"{whose}: {counted(unread, 'unread record')} in {counted(len(rows), 'partition')}"
    text += "." if oldest_s is None else f", the oldest is {timedelta(seconds=oldest_s)} old."
    text += f" {counted(held, 'record')} behind an open transaction." if held else ""
    columns = "partition position log_start end unread in_transaction oldest_unread age_s note"
    return Answer(
        text,
        {"of": whose, "unread": unread, "in_transaction": held, "age_s": oldest_s},
        [Table("partitions", rows, columns)],
    )


def list_pipelines(call: Call) -> Answer:
    """The pipelines of a checkpoint location.

    Shows each pipeline's last batch and state, and how many batches are not committed; with a cluster also its unread
    records, an upper bound. A pipeline by window has no such number.
    """
    found, rows = pipelines(call.store), list[Row]()
    with nullcontext() if call.settings is None else call.cluster() as kafka:
        progress = Progress("look at positions of pipelines", len(found))
        for pipeline in found:
            rows.append(_row(pipeline, kafka))
            progress.add()
    damaged = [str(pipeline.damage) for pipeline in found if pipeline.damage]
    text = f"{counted(len(rows), 'pipeline')} in {call.store.uri}."
    table = Table("pipelines", rows, "pipeline batch state at window unfinished unread output")
    return Answer(text, {"checkpoint_location": call.store.uri}, [table], damaged, exit_status=3 if damaged else 0)


def _row(pipeline: Pipeline, kafka: Cluster | None) -> Row:
    log, newest, unfinished, damage = pipeline
    if newest is None:
        return {"pipeline": log.pipeline_id, "state": "damaged" if damage else "no batch"}
    found = None if kafka is None else lag_of_pipeline(log, newest, kafka, with_times=False)
    unread = None if found is None else sum(one.unread for one in found.values())
    return {"pipeline": log.pipeline_id, **batch_row(newest), "unfinished": unfinished, "unread": unread}


lag_command = command(
    lag,
    "lag orders --bootstrap-servers broker:9092",
    click.Argument(["pipeline"], required=False),
    option("--group-id", "A consumer group instead of a pipeline.", metavar="GROUP"),
    option("--topics", "With --group-id: orders,payments or ^orders-.* or JSON.", metavar="TOPICS"),
    *CLUSTER,
    CHECKPOINT,
)
list_command = command(list_pipelines, "list --bootstrap-servers broker:9092", *CLUSTER, CHECKPOINT)
