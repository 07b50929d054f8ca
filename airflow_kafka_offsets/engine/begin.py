# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The first identity of a pipeline: what it is, and where every partition starts, also unread ones."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.acts import Acknowledged
from airflow_kafka_offsets.engine.look import Look
from airflow_kafka_offsets.engine.marks import Mark, marks_of, rows_behind
from airflow_kafka_offsets.engine.sequence import refuse_losses
from airflow_kafka_offsets.engine.surroundings import Airflow
from airflow_kafka_offsets.engine.ways import ways_on
from airflow_kafka_offsets.errors import ActRefused, CheckpointLost, clean_text
from airflow_kafka_offsets.kafka_values import Planned, RunKey, TopicPartition
from airflow_kafka_offsets.log.entries import highest
from airflow_kafka_offsets.log.identity import Identity, IdentityBody
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import Offset
from airflow_kafka_offsets.plan.ranges import for_each, startup_offset, validate_start
from airflow_kafka_offsets.request import Request
from airflow_kafka_offsets.times import iso


def begin(
    request: Request, run: RunKey, look: Look, log: PipelineLog, airflow: Airflow, memory: Planned | None
) -> Identity | None:
    """Create the first identity. ``None``: another run did so first.

    :param memory: what Airflow remembers.
    :raises CheckpointLost: Airflow or the group knows earlier batches, and no act accepts their loss.
    :raises RefusedError: the first batch would be refused; nothing was written.
    """
    act = request.act
    named = act.acknowledge if act is not None and act.after == 0 and act.acknowledge is not None else Acknowledged()
    marks, by_window = marks_of(look.group), request.window is not None
    known = {mark.batch for mark in marks.values()} | ({memory.key} if memory else set())
    if not known <= {*named.batch} or (by_window and named.batch and named.windows_from is None):
        _refuse_lost(request, run, look, log, airflow, known | {*named.batch})
    if act is not None and not named.batch:
        raise ActRefused(
            [f"pipeline {log.name!r} has no identity yet, so an act has nothing to change"],
            "Trigger a run without a conf first.",
        )
    look.require_topics()
    first: dict[TopicPartition, Offset] = {}
    if not by_window:
        partitions = look.description.partitions
        facts, resumed = look.startup_facts(partitions), _resumed(look, marks)

        def start(tp: TopicPartition) -> Offset:
            return resumed[tp] if tp in resumed else startup_offset(request, facts, tp)

        first = for_each(partitions, start)
        refuse_losses(look, {tp: validate_start(request, facts, tp, first[tp]) for tp in look.asked})
    behind = highest(named.batch)
    unmarked = {tp: committed.offset for tp, committed in look.group.items() if tp not in marks}
    identity = Identity(
        number=1,
        pipeline=log.name,
        log=secrets.token_hex(8),
        by=run,
        at_ms=request.now_ms,
        kind="window" if by_window else "sequence",
        cluster_id=look.description.cluster_id,
        ranges=log.write_identity_body(1, IdentityBody(first, unmarked)),
        user=airflow.triggering_user(),
        act=None if act is None else dict(request.said),
        shards=request.shard[1] if request.shard else 1,
        output=request.output,
        subscription=str(request.subscription) if by_window else None,
        batches=named.batch,
        bases=(0, behind) if behind else (0,),
        windows_from=named.windows_from,
    )
    if not log.create_identity(identity):
        return None
    log.probe(identity)
    return identity


def _resumed(look: Look, marks: Mapping[TopicPartition, Mark]) -> dict[TopicPartition, Offset]:
    """Where partitions with a mark resume: at the group's offset; of a topic that was re-created, at its log start."""
    ids, group, cluster = look.topic_ids(marks), look.group, look.description.cluster_id
    marked = {tp: Offset(group[tp].offset, group[tp].leader_epoch, ids.get(tp.topic)) for tp in marks}
    ended = [
        tp
        for tp, mark in marks.items()
        if mark.topic is not None and mark.cluster == cluster and ids.get(tp.topic) not in (None, mark.topic)
    ]
    return marked | look.log_starts(ended)


def _refuse_lost(request: Request, run: RunKey, look: Look, log: PipelineLog, airflow: Airflow, keys: set[str]) -> None:
    marks, shards = marks_of(look.group), request.shard[1] if request.shard else 1
    acknowledge: dict[str, Any] = {"batch": sorted(keys)}
    rows = "Delete the rows of the pipeline from the output"
    if request.window is not None:
        acknowledge["windows_from"] = iso(request.window[0])
        rows = f"Delete the output's rows of windows from {iso(request.window[0])} on; earlier windows are refused then"
    elif marks:
        rows = (
            f"Delete the output's rows with {rows_behind(marks, shards)}, which are read again (often there are none)"
        )
    lines = [f"Batch {clean_text(mark.batch)} of pipeline {clean_text(mark.pipeline)!r} is marked in group "
             f"{request.group_id!r} ({tp})." for tp, mark in sorted(marks.items())]  # fmt: skip
    others = sorted(keys - {mark.batch for mark in marks.values()})
    raise CheckpointLost(
        f"Pipeline {log.pipeline_id!r} has no log in the checkpoint location {log.store.uri}, but had one before.",
        [*lines, *(f"Batch {clean_text(key)} is known to Airflow." for key in others)],
        "The checkpoint location was lost or changed, or the pipeline or its DAG was renamed. Restore the location or "
        f"the name. To begin a new log after these batches: {rows}; then "
        f"{ways_on(log.name, 0, run, airflow.ways_past(), request.window)(acknowledge=acknowledge)}",
    )
