"""Who may write: whose Airflow, whose pipeline, whose offsets, whose output. Each is asked here, and nowhere else."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_kafka_offsets.batch.situation import HasBegun, Situation
from airflow_kafka_offsets.broker.protocol import GroupDescription
from airflow_kafka_offsets.errors import (
    AnotherAirflow,
    AnotherPipeline,
    DataLoss,
    GroupActive,
    GroupMoved,
    InvalidRequest,
)
from airflow_kafka_offsets.kafka_values import Actor, TopicPartition
from airflow_kafka_offsets.log.entries import BatchLog
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata, Held, name_in_metadata, writer_of
from airflow_kafka_offsets.plan.plan import Asked, Plan
from airflow_kafka_offsets.plan.position import Position
from airflow_kafka_offsets.request.parse_request import PlanRequest

# ── Airflow and pipeline ──────────────────────────────────────────────────────────────────────────────────────────────


def refuse_another_airflow(pipeline: str, me: Actor, wrote: str | None, where: str) -> None:
    """:raises AnotherAirflow: another Airflow wrote there. A person without Airflow works for whoever did."""
    if me.instance is not None and wrote not in (None, me.instance):
        raise AnotherAirflow(pipeline, me.instance, str(wrote), where)


def refuse_another_airflows_log(me: Actor, batch: StoredBatch | None) -> None:
    """:raises AnotherAirflow: the last entry of the batch's log that names an Airflow names another one."""
    if batch is not None:
        where = f"its work store {batch.store.uri}"
        refuse_another_airflow(batch.log.plan.pipeline or "", me, batch.log.last_instance, where)


def refuse_another_airflows_group(
    request: PlanRequest, me: Actor, written: Mapping[TopicPartition, CommitMetadata]
) -> None:
    as_written = Actor(me.run, name_in_metadata(me.instance)) if me.instance is not None else me
    for metadata in written.values():
        where = f"the offsets in group {request.scope.group_id!r}"
        refuse_another_airflow(request.scope.pipeline_id or "", as_written, metadata.instance, where)


def refuse_another_pipeline(request: PlanRequest, signature: CommitMetadata, held: Held) -> None:
    """:raises AnotherPipeline: a pipeline without a log is about to follow the group of another one."""
    written = {
        tp: metadata for tp, commit in sorted(held.items()) if (metadata := CommitMetadata.of(commit)) is not None
    }
    others = {tp: metadata for tp, metadata in written.items() if metadata.pipeline != signature.pipeline}
    if others:
        lines = [f"{tp}: at {held[tp].offset}, by {writer_of(held[tp])}" for tp in others]
        other = next(iter(others.values())).pipeline
        raise AnotherPipeline(request.scope.pipeline_id or "", request.scope.group_id or "", lines, other)


def refuse_another_of_this_run(request: PlanRequest, me: Actor, batch: StoredBatch | None) -> None:
    """One DAG run's tasks that share a pipeline read the same into one place; else some would leave theirs to others.

    :param batch: the newest, or the window of the request.
    :raises InvalidRequest: another task of this DAG run, mapped or not, has it, and reads or writes something else.
    """
    by = batch.log.by.run if batch else None
    if batch is None or by is None or me.run is None or by == me.run or not by.is_same_dag_run(me.run):
        return
    log, reads = batch.log, str(request.scope.subscription)
    had, wanted = log.plan.asked.output, request.output
    found = []
    if reads != log.plan.asked.subscription and (log.plan.asked.window or not log.committed):
        found.append(f"reads {log.plan.asked.subscription}, and this task reads {reads}")
    if wanted != had and None not in (had, wanted) and by.task_id == me.run.task_id:
        found.append(f"writes {had!r}, and this task writes {wanted!r}")
    if found:
        what = f"window {log.plan.batch.key}" if log.plan.asked.window else str(log.plan.batch)
        raise InvalidRequest(
            (
                f"Another task of this DAG run, {by}, has {what} of the same pipeline "
                f"({request.scope.pipeline_id}): it {', and '.join(found)}. This task would do that batch, and leave "
                "out its own records. Give each of the two a pipeline_id and an output of its own.",
            )
        )


def refuse_window_of_another_task(
    request: PlanRequest, me: Actor, plan: Plan, topics: Collection[str], would: str
) -> None:
    """Two DAGs that share a pipeline have one window: each does it as it was planned first.

    :param topics: those that one of the two would lose by it; ``would``: which loss that is.
    :raises InvalidRequest: there are some, and another task has planned the window.
    """
    asked_by = plan.asked.task
    if topics and asked_by is not None and me.run is not None and asked_by != (me.run.dag_id, me.run.task_id):
        raise InvalidRequest(
            (
                f"Task {'.'.join(asked_by)} has planned window {plan.batch.key} of the same pipeline "
                f"({request.scope.pipeline_id}), and this task would {would} {', '.join(sorted(topics))}. Give each of "
                "the two a pipeline_id of its own. Where the DAG was renamed: one run with the conf "
                '{"kafka_offsets": {"re_plan": true}} that reads the topics of both.',
            )
        )


# ── the group's offsets ───────────────────────────────────────────────────────────────────────────────────────────────


def signature_of(log: BatchLog, me: Actor) -> CommitMetadata:
    """Who writes a batch's commit metadata; a person without Airflow writes as the Airflow whose batch it is."""
    return CommitMetadata.by(log.plan.pipeline or "", me.instance or log.last_instance or "")


def refuse_foreign_offsets(
    log: BatchLog, me: Actor, held: Held, position: Position | None, *, done: bool = False
) -> None:
    """:param done: whether the batch is committed already.

    :raises GroupMoved: somebody else wrote to the group.
    """
    foreign = signature_of(log, me).foreign(held, position)
    if foreign:
        raise group_moved(log.plan.asked.group_id, foreign, position, committed=done)


def refuse_live_group(group_id: str, group: GroupDescription) -> None:
    """:raises GroupActive: the group has live members."""
    if not group.is_empty:
        raise GroupActive(group_id, group.state, group.members)


def group_moved(
    group_id: str | None, foreign: Held, position: Position | None, *, committed: bool = False
) -> GroupMoved:
    """The refusal that names each partition that somebody else wrote."""
    saved = position.offsets if position else {}
    lines = [
        f"{tp}: the position is {saved[tp].offset if tp in saved else 'unknown (a new partition)'}, and the group is "
        f"at {commit.offset}, by {writer_of(commit)}"
        for tp, commit in sorted(foreign.items())
    ]
    done = "The batch is committed in the log; only the group was left as it is. " if committed else ""
    back = sum(max(0, saved[tp].offset - commit.offset) for tp, commit in foreign.items() if tp in saved)
    forward = sum(max(0, commit.offset - saved[tp].offset) for tp, commit in foreign.items() if tp in saved)
    adopting = [
        *([f"reads up to {back} records again, which are in the output twice then"] if back else []),
        *([f"leaves out up to {forward} records"] if forward else []),
    ]
    keeping = " and ".join([*(["forwards"] if back else []), *(["backwards"] if forward else [])])
    keeping = f" {keeping}: nothing is lost or read twice" if foreign.keys() <= saved.keys() else ""
    return GroupMoved(
        lines,
        f"Somebody else wrote to group {group_id!r}. {done}Set the policy group_moved, for the next run in its conf "
        '({"kafka_offsets": {"policies": {"group_moved": "keep-checkpoint"}}}) or in the DAG: "keep-checkpoint" goes '
        "on from the "
        f'pipeline\'s own position and sets the group{keeping}; "adopt-group" goes on from the group'
        f"{', and ' * bool(adopting)}{' and '.join(adopting)}.",
    )


# ── the output ────────────────────────────────────────────────────────────────────────────────────────────────────────


def output_of_batch(request: PlanRequest, asks: Asked, batch: StoredBatch, s: Situation) -> tuple[str | None, str]:
    """The output that an unfinished batch has from now on, and a warning where rows stay behind.

    Until a driver has begun, the DAG may name another one. From then on the output stays: its rows are there. Of a job
    that does not tell they may be there in any case.

    :param asks: what the run asks for.
    :raises InvalidRequest: the DAG names another path than the one that was begun, or another DAG names it.
    """
    plan = batch.log.plan
    had, wanted = plan.asked.output, asks.output
    if wanted in (None, had):
        return had, ""
    accepts = request.policies.answers["output_changed"] == "accept"
    if request.jobs_tell and not s.need(HasBegun(batch)):
        if had is not None and not accepts:
            refuse_copy(request, plan, asks, "the batch that is not committed writes")
        return wanted, ""
    moves = accepts and request.output_origin == "fixed"
    if request.output_origin == "templated sink" or (had is None and not moves):
        return had, ""
    if request.output_origin == "templated output":
        raise output_of_another_run(plan, wanted)
    if not moves:
        until = "" if batch.log.committed else " until this batch is committed"
        raise InvalidRequest(
            (
                f"The DAG's output is {wanted!r} now, and {plan.batch}, {plan.batch.key}, is written to {had!r}: put "
                f"it back{until}. Where {had!r} cannot be written any more, one run with the conf "
                '{"kafka_offsets": {"policies": {"output_changed": "accept"}}} plans the batch anew into the new '
                "output.",
            )
        )
    where = "where its jobs have written before" if had is None else f"in {had!r}"
    return (
        wanted,
        f"Rows of {plan.batch.key} stay behind {where}. Unless that is {wanted!r} by another name, remove those with "
        f"kafka_batch = '{plan.batch.key}' there.",
    )


def refuse_to_do_elsewhere(request: PlanRequest, plan: Plan) -> None:
    """:raises InvalidRequest: a committed batch would be done once more into another output: its rows are there."""
    had, wanted = plan.asked.output, request.output
    if had is None or wanted in (None, had) or request.output_origin == "templated sink":
        return
    if request.output_origin == "templated output":
        raise output_of_another_run(plan, wanted)
    raise InvalidRequest(
        (
            f"The DAG's output is {wanted!r} now, and {plan.batch}, {plan.batch.key}, is committed in {had!r}: its "
            "records would be in both. Do it again with the path that it had (a clear may take the DAG's older "
            "version), or leave it.",
        )
    )


def output_of_another_run(plan: Plan, wanted: str | None) -> InvalidRequest:
    """The refusal to write a batch elsewhere than the run did that planned it, where a template gives the path."""
    return InvalidRequest(
        (
            f"{plan.batch} is written to {plan.asked.output!r}, and this run's path is {wanted!r}. The path comes from "
            f"a template, so only the run that planned the batch gives it again: clear {plan.by}.",
        )
    )


def output_after(request: PlanRequest, asks: Asked, before: Plan | None, what: str = "the batch before wrote") -> str:
    """A warning where a new batch is written to another output than the one before; empty where it is not.

    :raises InvalidRequest: another DAG or task asks for it: a copy that shares the pipeline.
    """
    had = before.asked.output if before else None
    if before is None or had is None or asks.output in (None, had) or request.output_origin != "fixed":
        return ""
    if request.policies.answers["output_changed"] != "accept":
        refuse_copy(request, before, asks, what)
    return f"The output is {asks.output!r} from this batch on; the batch before it wrote {had!r}."


def refuse_copy(request: PlanRequest, before: Plan, asks: Asked, what: str) -> None:
    """:raises InvalidRequest: another resolve task than the one before names another output; or one of the same name,
    which may be a copy's, where nothing tells this Airflow from another one.
    """
    if before.asked.task is None or asks.task is None:
        return
    if before.asked.task == asks.task and not request.nameless:
        return
    named_so = "Set [kafka_offsets] instance, so that a copy of this Airflow is told from it. " * request.nameless
    raise InvalidRequest(
        (
            f"Task {'.'.join(asks.task)} names the output {asks.output!r}, and {what} {before.asked.output!r} for task "
            f"{'.'.join(before.asked.task)}: one pipeline ({before.pipeline}) would have its records in two outputs. "
            f"{named_so}Give the copy a pipeline_id of its own, or the same output. Where the DAG was renamed or its "
            'output moved: one run with the conf {"kafka_offsets": {"policies": {"output_changed": "accept"}}}.',
        )
    )


def refuse_records_left_behind(lines: list[str], moved_from: str) -> None:
    """:raises DataLoss: rows would stay in an output that the batch leaves, and Kafka has their records no more."""
    if lines:
        raise DataLoss(
            lines,
            f"The batch cannot leave {moved_from!r}: what is written there cannot be read again. Put the path back "
            "until this batch is committed.",
        )
