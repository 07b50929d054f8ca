# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Commit: verify what was written, create the commit entry, and mirror the position to the group (STATE.md, rule 5)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.engine.look import Answers
from airflow_kafka_offsets.engine.mirror import mirror
from airflow_kafka_offsets.engine.state import Decided
from airflow_kafka_offsets.engine.work import PlanReference
from airflow_kafka_offsets.errors import CheckpointLost, ClusterChanged, DataLoss, PlanReplaced, ReadNotVerified
from airflow_kafka_offsets.log.entries import Batch, Commit
from airflow_kafka_offsets.log.identity import Identity
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.reports import Report, Verdict, verify
from airflow_kafka_offsets.plan.body import Offset, PlanBody

_CLEAR = "Clear this run from its resolve task on, with Downstream: the batch is planned and written again."


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did.

    :ivar figures: records by what became of them: read, bad, filtered, lost, skipped, again, hidden.
    """

    summary: str
    key: str
    output: str | None
    figures: dict[str, int]


def commit(given: PlanReference, log: PipelineLog, kafka: Cluster, ways_past: str = "") -> Committed:
    """Commit the plan that this run gave to Spark.

    :param ways_past: as in :func:`~airflow_kafka_offsets.engine.ways.ways_on`.
    :raises ReadNotVerified: the report does not show that the batch is in the output. Nothing was committed, or the
        batch is committed and a later attempt may still write: the message says which.
    :raises PlanReplaced: the batch has a newer plan, or the identity has changed.
    :raises DataLoss: a topic was re-created, or its log truncated, since the batch was planned.
    :raises ClusterChanged: the connection leads to another cluster than the plan's.
    :raises CheckpointLost: the log does not have the batch.
    :raises GroupMoved, CheckpointBehind, GroupActive: the commit stands, and the group cannot be written.
    """
    batch, body, identity = _current(given, log), PlanBody(), None
    while not batch.is_cleaned:
        body = log.body(batch)
        verdict = _verified(given, log, batch, body)
        if batch.is_closed:
            if not batch.plan.require_report:  # its Spark task may have been cleared alone
                _require_same_logs(batch, body, kafka)
            break
        is_rewrite = batch.is_committed
        if not batch.plan.from_outputs:
            _require_same_logs(batch, body, kafka)
        if not is_rewrite:
            _require_identity(log, batch)
            _require_join(log, batch, body)
        if log.append(batch.number, len(batch.entries) + 1, _entry(given, log, batch, body, verdict.report)):
            batch = _current(given, log)
            _verified(given, log, batch, body)  # an attempt or an act may have come meanwhile
            identity = None if is_rewrite else _require_identity(log, batch)
            break
        batch = _current(given, log)
    if batch.plan.window is None:
        mirror(log, Answers(kafka, batch.plan.isolation_level), batch, ways_past, identity)
    return _done(batch)


def needs_job(given: PlanReference, log: PipelineLog, kafka: Cluster) -> bool:
    """Whether a Spark job has to be submitted: not for a batch that verifies, in a retry or if its records are gone.

    Otherwise it is rewritten if its records are there, so that corrected code counts.
    """
    if not given.starts_job or given.is_left:
        return given.starts_job
    batch = _current(given, log)
    if not batch.plan.require_report or batch.is_cleaned:
        return True
    body = log.body(batch)
    verdict = verify(batch, body, log.report)
    if given.is_retry and verdict.report is not None and verdict.report.job == given.job:
        return not verdict.is_verified
    is_expired = Answers(kafka, batch.plan.isolation_level).gone(batch.plan, body) == "expired"
    return not (is_expired and verdict.is_verified)


def _entry(given: PlanReference, log: PipelineLog, batch: Batch, body: PlanBody, report: Report | None) -> Commit:
    plan = batch.plan
    position = None if plan.window is not None else body.position_after(plan.topic_ids)
    return Commit(
        by=given.run,
        at_ms=now_ms(),
        plan_id=plan.plan_id,
        output=report.output if report else plan.output,
        attempt=batch.highest_attempt if report else 0,
        rows=report.total("rows") if report else 0,
        bad=report.total("bad") if report else 0,
        filtered=report.total("filtered") if report else 0,
        snapshot=report.snapshot if report else None,
        proof=report.proof if report else None if plan.require_report else "trusted",
        ranges=None if position is None else log.write_body(batch.number, len(batch.entries) + 1, position),
    )


def _current(given: PlanReference, log: PipelineLog) -> Batch:
    batch = log.batch(given.batch)
    if batch is None or given.key not in {plan.key for plan in batch.plans}:
        raise CheckpointLost(
            f"Pipeline {given.pipeline!r} has lost a batch.",
            [f"Batch {given.key} is not in the checkpoint location {given.checkpoint_location}, where it was planned."],
            "The log was lost or replaced since. Restore the checkpoint location.",
        )
    if batch.plan.plan_id != given.plan_id:
        raise PlanReplaced(
            f"{batch} has another plan than the one that this run gave to Spark (entry {given.entry}).",
            f"Entry {batch.plan_entry} replaced it, by run {batch.plan.by}.",
            _CLEAR,
        )
    return batch


def _verified(given: PlanReference, log: PipelineLog, batch: Batch, body: PlanBody) -> Verdict:
    if not batch.plan.require_report:
        return Verdict()  # trusted to have read if its task succeeded
    verdict = verify(batch, body, log.report)
    report, problems = verdict.report, list(verdict.problems)
    if report is not None and given.starts_job and not given.is_left:
        if given.job is not None and report.job != given.job:
            problems.append(f"attempt {verdict.attempt} wrote by another definition of rows and sink: {report.job}")
        if batch.plan.output is not None and report.output != batch.plan.output:
            problems.append(
                f"attempt {verdict.attempt} wrote {report.output}, and the plan's output is {batch.plan.output}"
            )
    if problems:
        what = "is committed, but a later Spark job may still write" if batch.is_closed else "is not committed"
        raise ReadNotVerified([f"{batch} {what}: {problem}" for problem in problems], _CLEAR)
    return verdict


def _require_identity(log: PipelineLog, batch: Batch) -> Identity | None:
    """The current identity.

    :raises PlanReplaced: it has another cluster or output than the plan.
    """
    plan = batch.plan
    identity = log.identity()
    if identity is not None and (identity.cluster_id, identity.output) != (plan.cluster_id, plan.output):
        raise PlanReplaced(
            f"{batch} was planned for cluster {plan.cluster_id}, output {plan.output}.",
            f"Identity {identity.number} of the pipeline has cluster {identity.cluster_id}, output {identity.output}.",
            _CLEAR,
        )
    return identity


def _require_same_logs(batch: Batch, body: PlanBody, kafka: Cluster) -> None:
    answers, plan = Answers(kafka, batch.plan.isolation_level), batch.plan
    gone = answers.gone(plan, body)
    if gone == "other cluster":
        now = answers.describe(()).cluster_id
        raise ClusterChanged(
            f"{batch} was not committed.",
            [f"It was planned on cluster {plan.cluster_id}, and the connection leads to cluster {now}."],
            "Correct the connection, and clear this task.",
        )
    if gone == "other log":
        raise other_log(batch)


def other_log(batch: Batch) -> DataLoss:
    """Spark reads by name: what it has read of the batch may be other records. A person restores committed rows."""
    remedy = f"What Spark has read may be other records; nothing was committed. {_CLEAR}"
    if batch.is_committed:
        last = batch.commits[-1]
        version = f"version {last.snapshot} of {last.output}" if last.snapshot else "a copy of the output"
        remedy = (
            f"A run has begun to write the committed batch again. Its rows (kafka_batch = '{batch.plan.key}') may be "
            f"other records: restore them from {version}, and mark this run as a success."
        )
    return DataLoss([f"{batch}: a topic was re-created, or its log truncated, since it was planned"], remedy)


def _require_join(log: PipelineLog, batch: Batch, body: PlanBody) -> None:
    """:raises PlanReplaced: in sequence, the plan does not start where the previous batch ended."""
    plan = batch.plan
    if plan.window is not None:
        return
    then = log.identity(plan.identity)
    assert then is not None
    decided = Decided(then)
    position, under = decided.position(log, None) if plan.before is None else {}, 1
    if plan.before is not None:
        position, under = log.position(batch.number - 1, plan.before.ranges), plan.before.identity
    expected = decided.resumed_from(log, position, under, lambda _: None).position

    def place(at: Offset | None) -> tuple[int, str | None] | None:
        return None if at is None else (at.offset, at.topic_id)

    apart = [tp for tp, at in expected.items() if place(body.resume_from.get(tp)) != place(at)]
    if apart:
        tp = min(apart)
        raise PlanReplaced(
            f"{batch} does not start where the batch before it ended, and was not committed.",
            f"{tp} resumes at {place(body.resume_from.get(tp))}, and the position is {place(expected[tp])}.",
            _CLEAR,
        )


def _done(batch: Batch) -> Committed:
    entry = batch.commits[-1]
    figures = {"read": entry.rows, "bad": entry.bad, "filtered": entry.filtered, **batch.plan.given_up}
    words = ", ".join(f"{count:,} {name}" for name, count in figures.items() if count or name == "read")
    proof = f" ({entry.proof})" if entry.proof else ""
    return Committed(f"{batch} is committed: {words}{proof}.", batch.plan.key, entry.output, figures)
