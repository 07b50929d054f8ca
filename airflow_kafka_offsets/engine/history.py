# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What the log says of pipelines and their batches, in rows: the command line and the page show these.

Lists read headers alone; one batch in detail reads its per-partition objects, too.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.log.entries import Batch, Commit, Plan
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, name_in
from airflow_kafka_offsets.log.reports import Counts
from airflow_kafka_offsets.plan.body import Decision, PlanBody
from airflow_kafka_offsets.progress_log import Progress
from airflow_kafka_offsets.store.protocol import Store, together
from airflow_kafka_offsets.times import iso

State = Literal["planned", "begun", "reported", "committed", "being rewritten"]


def state_of(batch: Batch) -> State:
    """``begun`` and ``reported`` by the last attempt."""
    if batch.is_committed:
        return "committed" if batch.is_closed else "being rewritten"
    attempts = [attempt for attempt in batch.attempts if attempt.number == batch.highest_attempt]
    if not attempts:
        return "planned"
    return "reported" if all(attempt.is_reported for attempt in attempts) else "begun"


def batch_row(batch: Batch) -> dict[str, Any]:
    """A batch in one row, ready for JSON. ``rows``, ``bad`` and ``filtered`` are ``None`` until it is committed."""
    plan, commit = batch.plan, batch.commits[-1] if batch.commits else None
    return {
        "batch": batch.number,
        "key": plan.key,
        "kind": plan.kind,
        "state": state_of(batch),
        "at": iso(batch.entries[-1].at_ms),
        "window": [iso(bound) for bound in plan.window] if plan.window else None,
        "offsets": plan.offsets,
        "partitions": plan.partitions,
        "rows": commit.rows if commit else None,
        "bad": commit.bad if commit else None,
        "filtered": commit.filtered if commit else None,
        "given_up": dict(plan.given_up),
        "output": batch.output,
        "snapshot": commit.snapshot if commit else None,
        "proof": commit.proof if commit else None,
        "identity": plan.identity,
        "owner": str(plan.by),
        "attempts": batch.highest_attempt,
        "is_cleaned": batch.is_cleaned,
    }


# ── one batch in rows, ready for JSON ─────────────────────────────────────────────────────────────────────────────────


def entry_rows(batch: Batch) -> list[dict[str, Any]]:
    return [_entry(k, entry) for k, entry in enumerate(batch.entries, 1)]


def _entry(k: int, entry: Plan | Commit) -> dict[str, Any]:
    details: dict[str, Any]
    match entry:
        case Plan():
            source = {"from_outputs": True} if entry.from_outputs else {}
            details = {"offsets": entry.offsets, **entry.given_up, "identity": entry.identity, **source}
        case Commit():
            details = {"rows": entry.rows, "bad": entry.bad, "filtered": entry.filtered, "proof": entry.proof}
    kind = type(entry).__name__.lower()
    return {"entry": k, "kind": kind, "at": iso(entry.at_ms), "by": str(entry.by), "details": details}


def attempt_rows(batch: Batch) -> list[dict[str, Any]]:
    return [{"attempt": a.number, "state": "reported" if a.is_reported else "begun"} for a in batch.attempts]


def identity_rows(log: PipelineLog) -> list[dict[str, Any]]:
    """Who decided what, when and why; the first one is the start of the pipeline."""
    newest = log.identity()
    numbers = range(1, newest.number + 1) if newest is not None else ()
    identities = together(log.store, *(partial(log.identity, number) for number in numbers))
    return [
        {
            "identity": identity.number,
            "at": iso(identity.at_ms),
            "by": str(identity.by),
            "user": identity.user,
            "reason": None if identity.act is None else identity.act.get("reason"),
            "act": identity.act,
            "cluster": identity.cluster_id,
            "output": identity.output,
        }
        for identity in identities
    ]


def range_rows(log: PipelineLog, batch: Batch, body: PlanBody) -> list[dict[str, Any]]:
    """A row per partition, with what the last report of this plan counted."""
    reports = [log.report(batch, attempt) for attempt in batch.attempts[-1:] if attempt.is_reported and body.ranges]
    counts = next((report.counts for report in reports if report.plan_id == batch.plan.plan_id), None)
    return [
        {
            "partition": str(tp),
            "before": body.resume_from[tp].offset,
            "start": planned.start,
            "end": planned.end,
            "offsets": body.planned(tp),
            "skipped": sum(skip.size for skip in body.skips.get(tp, ())) or None,
            **({} if counts is None else counts.get(tp, Counts())._asdict()),
        }
        for tp, planned in sorted(body.ranges.items())
    ]


def decision_row(decision: Decision) -> dict[str, Any]:
    return {**decision._asdict(), "partition": str(decision.partition)}


# ── what is open ──────────────────────────────────────────────────────────────────────────────────────────────────────


def unfinished(log: PipelineLog, newest: Batch) -> list[Batch]:
    """The batches that are not committed, the oldest first: by window there may be many.

    Only batches that were unfinished when the newest one was planned are read.
    """
    older = log.read_each(newest.first_plan.unfinished, lambda batch: batch)
    return [batch for batch in (*older, newest) if not batch.is_committed]


# ── many ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Pipeline(NamedTuple):
    """A pipeline of a checkpoint location, or one of its shards, by the name that its DAG gives it.

    :ivar newest: its newest batch; ``None``: there is none, or ``damage`` says why it cannot be read.
    :ivar unfinished: how many of its batches are not committed.
    """

    log: PipelineLog
    newest: Batch | None = None
    unfinished: int = 0
    damage: StoreDamaged | None = None


def pipelines(store: Store) -> list[Pipeline]:
    """All pipelines, sorted by name, also if one cannot be read."""
    folders = [name.rstrip("/") for name in store.list("") if name.endswith("/")]
    progress = Progress("look at pipelines", len(folders))

    def look(folder: str) -> list[Pipeline]:
        found = _shards(store, folder)
        progress.add()
        return found

    found = together(store, *(partial(look, folder) for folder in folders))
    return sorted((shard for shards in found for shard in shards), key=lambda pipeline: pipeline.log.pipeline_id)


def _shards(store: Store, folder: str) -> list[Pipeline]:
    log = PipelineLog(store, unquote(folder))
    try:
        name = log.name if log.root == folder else name_in(store, folder)  # a long name is cut in it
        log = PipelineLog(store, name or folder)
        identity = log.identity()
        if identity is None:
            return []  # no pipeline's folder
        return [_pipeline(shard) for shard in log.of_shards(identity.shards)]
    except StoreDamaged as damage:
        return [Pipeline(log, damage=damage)]


def _pipeline(log: PipelineLog) -> Pipeline:
    try:
        newest = log.newest()
        return Pipeline(log, newest, 0 if newest is None else len(unfinished(log, newest)))
    except StoreDamaged as damage:
        return Pipeline(log, damage=damage)
