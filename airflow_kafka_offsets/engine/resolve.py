"""Resolve: which batch a run does, and what that batch reads (STATE.md, rules 1 to 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.engine import windows
from airflow_kafka_offsets.engine.changes import acknowledge_by_conf, refuse_changes, refuse_other_kind
from airflow_kafka_offsets.engine.commit import commit
from airflow_kafka_offsets.engine.draft import draft_next, header, replan
from airflow_kafka_offsets.engine.group import foreign
from airflow_kafka_offsets.engine.look import Look, records_gone
from airflow_kafka_offsets.engine.mirror import mirror
from airflow_kafka_offsets.engine.surroundings import Airflow
from airflow_kafka_offsets.engine.work import Nothing, Work, summary_of
from airflow_kafka_offsets.errors import OverlappingRun, ReadNotVerified
from airflow_kafka_offsets.kafka_values import Actor, RunKey, TopicList
from airflow_kafka_offsets.log.entries import Batch, Claim, Plan, next_step
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.reports import verify
from airflow_kafka_offsets.request import Request


def resolve(want: Request, me: RunKey, log: PipelineLog, kafka: Cluster, airflow: Airflow) -> Work | Nothing:
    """The batch that this run does: its own, the unfinished one, or the next one.

    :raises RefusedError: to go on would lose records or read them twice; each says what to do.
    """
    batch: Batch | None
    while True:
        look = Look(want, kafka)
        bound = log.batch_of(me) if want.window is None else None
        if bound is None:
            _ = look.group  # before the log
        newest = log.newest()
        refuse_other_kind(want, log, newest)
        if acknowledge_by_conf(want, me, look, log, bound, newest):
            continue
        committed = None
        if want.window is not None:
            found = windows.turn(want, me, look, log, newest, airflow)
            if found is None:
                continue  # another writer was faster
            if isinstance(found, Work):
                return _settled(found, log, kafka)
            batch, is_mine = found, True
        else:
            committed = newest_committed(log, newest)
            if bound is None:
                refuse_changes(want, look, log, newest, committed, airflow)
            batch, is_mine = newest if bound is None else log.existing(bound), bound is not None
        if batch is not None and is_mine and batch.is_committed and batch.is_cleaned:
            return Nothing(f"{batch} is committed and was cleaned; it is left as it is.")
        match next_step(Actor(me), batch, is_mine=is_mine, is_running=airflow.is_running):
            case "wait":
                assert batch is not None
                raise OverlappingRun(str(batch.owner), str(batch))
            case "leave":
                assert batch is not None
                return Nothing(f"{batch} was committed by {batch.commits[0].by}; it is left as it is.")
            case "do again":
                assert batch is not None
                work = _reprocess(me, look, log, batch)
            case "do":
                assert batch is not None
                work = _do(want, me, log, batch, kafka)
            case "plan next":
                work = _plan_next(me, look, log, newest, committed)
            case _ as never:
                assert_never(never)
        if isinstance(work, Nothing):
            return work
        if work is not None and (want.window or log.bind(me, work.batch.number) == work.batch.number):
            return _settled(work, log, kafka)


def _settled(work: Work, log: PipelineLog, kafka: Cluster) -> Work | Nothing:
    """A batch that needs no job is committed right away."""
    if work.starts_job or work.body.offsets:
        return work
    commit(work.given(), log, kafka)
    return Nothing(f"{work.summary} It is committed without a Spark job.")


def _plan_next(
    me: RunKey, look: Look, log: PipelineLog, newest: Batch | None, committed: Batch | None
) -> Work | Nothing | None:
    """Rule 1. ``None``: another writer was faster."""
    position = log.position_after(committed) if committed else None
    body = draft_next(look, position, foreign(look.group, log.pipeline_id))
    if body is None:
        if committed is not None:
            mirror(log, look.kafka, committed)
        return Nothing("There is nothing new to read.")
    number = 1 if newest is None else newest.number + 1
    plan = header(look, log, number, 1, body, Actor(me), last=newest, kind="sequence")
    if not log.append(number, 1, plan):
        return None
    batch = Batch(number, (plan,))
    return Work(log, batch, body, me, bool(body.offsets), 0, summary_of(batch, body))


def newest_committed(log: PipelineLog, newest: Batch | None) -> Batch | None:
    """Numbers have no gaps and one batch at most is unfinished, so it is the newest or the one before."""
    if newest is None or newest.is_committed:
        return newest
    return log.batch(newest.number - 1) if newest.number > 1 else None


def _reprocess(me: RunKey, look: Look, log: PipelineLog, batch: Batch) -> Work | Nothing | None:
    """A cleared run does the batch that it committed again (rule 3). ``None``: another writer was faster."""
    body = log.body(batch)
    if records_gone(look.kafka, batch.plan, body):
        verdict = verify(batch, body, log.report)
        if batch.plan.require_report and not verdict.is_verified:
            raise ReadNotVerified(
                [f"{batch}: {problem}" for problem in verdict.problems],
                "It is committed, and its records are gone from Kafka, so it cannot be read again. Look at its rows "
                f"(kafka_batch = '{batch.plan.key}'), then mark this run as it should be.",
            )
        return Nothing(f"{batch} is committed, and its records are gone from Kafka; it is left as it is.")
    highest = batch.highest_attempt
    claim = Claim(by=Actor(me), at_ms=look.want.now_ms, after=highest)
    if not log.append(batch.number, len(batch.entries) + 1, claim):
        return None
    batch = replace(batch, entries=(*batch.entries, claim))
    return Work(log, batch, body, me, _starts_job(batch), highest, summary_of(batch, body))


def _do(want: Request, me: RunKey, log: PipelineLog, batch: Batch, kafka: Cluster) -> Work | None:
    """The unfinished batch as it is, or planned again (rule 2). ``None``: another writer was faster."""
    body = log.body(batch)
    gone = records_gone(kafka, batch.plan, body)
    if gone == "expired" and batch.plan.require_report and verify(batch, body, log.report).is_verified:
        return Work(log, batch, body, me, False, batch.after, summary_of(batch, body))
    entry: Plan | Claim | None = None
    k = len(batch.entries) + 1
    if gone:
        look = again_look(want, batch, kafka)
        body = replan(look, body, is_window=batch.plan.kind == "window")
        body = replace(body, seen=log.seen(batch))
        entry = header(look, log, batch.number, k, body, Actor(me), last=batch, kind=batch.plan.kind)
    elif batch.owner != Actor(me):
        entry = Claim(by=Actor(me), at_ms=want.now_ms)
    if entry is not None:
        if not log.append(batch.number, k, entry):
            return None
        batch = replace(batch, entries=(*batch.entries, entry))
    return Work(log, batch, body, me, _starts_job(batch), batch.after, summary_of(batch, body))


def again_look(want: Request, batch: Batch, kafka: Cluster) -> Look:
    """What a plan of the same batch looks at: a request that has changed since is for the next batch."""
    topics = TopicList(tuple(sorted(batch.plan.topics)), all_exist=False)
    return Look(replace(want, subscription=topics, isolation_level=batch.plan.isolation_level), kafka)


def _starts_job(batch: Batch) -> bool:
    """Only a batch without records that no driver has begun needs no job: a job would write nothing over nothing."""
    if batch.plan.offsets or batch.attempts:
        return True
    has_read = any(entry.offsets for entry in batch.entries if isinstance(entry, Plan))
    return has_read and not batch.plan.require_report
