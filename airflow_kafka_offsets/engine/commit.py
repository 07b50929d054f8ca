"""Commit: verify what was written, create the commit entry, and let the group follow (STATE.md, rule 5)."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.engine.group import foreign, held_by, marks_of, refuse_moved, refuse_older_log
from airflow_kafka_offsets.engine.look import records_gone
from airflow_kafka_offsets.engine.mirror import mirror
from airflow_kafka_offsets.engine.work import Given
from airflow_kafka_offsets.errors import CheckpointLost, DataLoss, OutputChanged, PlanReplaced, ReadNotVerified
from airflow_kafka_offsets.kafka_values import Actor
from airflow_kafka_offsets.log.entries import Batch, Commit, number_of
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.reports import Verdict, verify
from airflow_kafka_offsets.plan.body import PlanBody

_CLEAR = "Clear this run from its Spark task on, with Downstream: the batch is written again."


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did.

    :ivar figures: records by what became of them: read, bad, filtered, lost, skipped, again.
    """

    summary: str
    key: str
    output: str | None
    figures: dict[str, int]


def commit(given: Given, log: PipelineLog, kafka: Cluster) -> Committed:
    """Commit the plan that this run gave to Spark.

    :raises ReadNotVerified: the report does not show that the batch is in the output. Nothing was committed, or the
        batch is committed and a later attempt may still write: the message says which.
    :raises PlanReplaced: the batch has another plan by now.
    :raises CheckpointBehindGroup: the log is an older copy.
    :raises GroupMoved, DataLoss, OutputChanged: the group, the log of a topic, or the output is another one.
    :raises GroupActive: the commit stands, and the group cannot follow yet.
    """
    while True:
        batch = _current(given, log)
        if batch.is_cleaned:
            return _done(batch, batch.commits[-1])
        body = log.body(batch)
        verdict = _verified(given, log, batch, body)
        output = verdict.report.output if verdict.report else batch.output
        _refuse_other_output(log, batch, output)
        if batch.is_closed:
            break
        _refuse_other_log(batch, body, kafka)
        _refuse_moved_group(log, batch, kafka)
        k = len(batch.entries) + 1
        report = verdict.report
        position = None if batch.plan.kind == "window" else body.position_after(batch.plan.topic_ids)
        entry = Commit(
            by=Actor(given.run),
            at_ms=now_ms(),
            plan_id=batch.plan.plan_id,
            output=output,
            attempt=verdict.attempt,
            rows=report.total("rows") if report else 0,
            bad=report.total("bad") if report else 0,
            filtered=report.total("filtered") if report else 0,
            ranges=None if position is None else log.write_body(batch.number, k, position),
        )
        if log.append(batch.number, k, entry):
            break
    batch = _current(given, log)
    if not batch.is_cleaned:
        _verified(given, log, batch, body)  # an attempt that began meanwhile may still write
    if batch.plan.kind != "window":
        mirror(log, kafka, batch)
    return _done(batch, batch.commits[-1])


def needs_job(given: Given, log: PipelineLog, kafka: Cluster) -> bool:
    """Whether a Spark job has to be submitted: not for a batch that verifies and whose records are gone.

    One whose records are there is written again, so that corrected code counts.
    """
    if not given.starts_job:
        return False
    batch = _current(given, log)
    if not batch.plan.require_report or batch.is_cleaned:
        return True
    body = log.body(batch)
    verdict = verify(batch, body, log.report, max(given.after, batch.after))
    return not (verdict.is_verified and records_gone(kafka, batch.plan, body) == "expired")


def _current(given: Given, log: PipelineLog) -> Batch:
    batch = log.batch(given.batch)
    if batch is None or batch.plan.key != given.key:
        raise CheckpointLost(
            f"Batch {given.key} of pipeline {given.pipeline!r} is not in the checkpoint location "
            f"{given.checkpoint_location}.",
            "It was planned there, and the log was lost or replaced since.",
            "Restore the checkpoint location.",
        )
    if batch.plan.plan_id != given.plan_id:
        raise PlanReplaced(
            f"{batch} has another plan than the one that this run gave to Spark (entry {given.entry}).",
            f"Entry {batch.plan_entry} replaced it, by {batch.plan.by}.",
            "Clear this run from its resolve task on, with Downstream.",
        )
    return batch


def _verified(given: Given, log: PipelineLog, batch: Batch, body: PlanBody) -> Verdict:
    if not batch.plan.require_report:
        return Verdict()  # trusted to have read if its task succeeded
    verdict = verify(batch, body, log.report, max(given.after, batch.after))
    problems = list(verdict.problems)
    report = verdict.report
    if given.starts_job and given.job is not None and report is not None and report.job != given.job:
        problems.append(f"attempt {verdict.attempt} was a job of another definition of rows and sink: {report.job}")
    if problems:
        what = "is committed, but a later Spark job may still write" if batch.is_closed else "is not committed"
        raise ReadNotVerified([f"{batch} {what}: {problem}" for problem in problems], _CLEAR)
    return verdict


def _refuse_other_output(log: PipelineLog, batch: Batch, output: str | None) -> None:
    if batch.plan.output is None or output == batch.plan.output:
        return
    acknowledged = (log.output_of(batch, a) for a in batch.attempts if a.number <= batch.acknowledged)
    if output not in acknowledged:
        raise OutputChanged(
            f"{batch} was written to {output}, and nothing was committed.",
            f"The pipeline's output is {batch.plan.output}.",
            "Correct the output. If it has moved, acknowledge that, then clear this run from its resolve task on: "
            f"kafka-offsets reset {quote(batch.plan.pipeline)} --start current --execute",
        )


def _refuse_other_log(batch: Batch, body: PlanBody, kafka: Cluster) -> None:
    if records_gone(kafka, batch.plan, body) == "other log":
        raise DataLoss(
            [f"{batch}: a topic was re-created, or its log was cut, since the batch was planned"],
            "What Spark has read may be other records; nothing was committed. Clear this run from its resolve task on, "
            "with Downstream.",
        )


def _refuse_moved_group(log: PipelineLog, batch: Batch, kafka: Cluster) -> None:
    """:raises CheckpointBehindGroup: the group knows a commit of this batch: its reports may be of older rows."""
    group_id, pipeline, number = batch.plan.group_id, log.pipeline_id, batch.number
    if group_id is None or batch.is_committed:  # to reprocess a batch moves no position
        return
    _, held = held_by(kafka, group_id, log.body(batch).ranges)
    knows = [m for m in marks_of(held).values() if m.pipeline == pipeline and number_of(m.batch) >= number]
    if knows and len(log.existing(number).entries) == len(batch.entries):  # no other commit was faster
        committed = log.existing(number - 1) if number > 1 else None
        refuse_older_log(pipeline, group_id, held, committed, log.seen(batch))
    if number > 1 and foreign(held, pipeline):
        refuse_moved(pipeline, group_id, held, log.position_after(log.existing(number - 1)), log.seen(batch))


def _done(batch: Batch, entry: Commit) -> Committed:
    figures = {"read": entry.rows, "bad": entry.bad, "filtered": entry.filtered, **batch.plan.given_up}
    words = ", ".join(f"{count:,} {name}" for name, count in figures.items() if count or name == "read")
    return Committed(f"{batch} is committed: {words}.", batch.plan.key, entry.output, figures)
