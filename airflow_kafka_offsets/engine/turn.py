# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Resolve: which batch a run has, and what that batch reads (STATE.md, rules 1 to 4).

A turn reads everything once and creates at most one entry. A run that loses the race for a name starts another turn.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.engine.acts import carry_out, is_done
from airflow_kafka_offsets.engine.begin import begin
from airflow_kafka_offsets.engine.commit import commit, other_log
from airflow_kafka_offsets.engine.history import unfinished
from airflow_kafka_offsets.engine.identity import differences, refusal
from airflow_kafka_offsets.engine.look import Look, LookAgain
from airflow_kafka_offsets.engine.mirror import mirror
from airflow_kafka_offsets.engine.plans import first_plan, kept_expectation, later_plan, rewritten
from airflow_kafka_offsets.engine.sequence import plan_sequence, skips_in
from airflow_kafka_offsets.engine.state import Decided, Shard, Turn
from airflow_kafka_offsets.engine.surroundings import Airflow
from airflow_kafka_offsets.engine.windows import find_window, plan_window, replan_window, require_free, require_not_lost
from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from airflow_kafka_offsets.errors import OverlappingRun, ReadNotVerified, StoreUnavailable, counted
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.entries import Batch, Plan, next_step
from airflow_kafka_offsets.log.identity import Identity
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, job_digest
from airflow_kafka_offsets.log.reports import verify
from airflow_kafka_offsets.plan.body import PlanBody
from airflow_kafka_offsets.plan.window import Covered
from airflow_kafka_offsets.request import Request

_LOG = logging.getLogger(__name__)
MOST_TURNS = 50
"""Each lost race is another writer's progress; so many in a row mean that the store answers wrongly."""


def resolve(
    request: Request, run: RunKey, log: PipelineLog, kafka: Cluster, airflow: Airflow
) -> ResolvedBatch | NoBatch:
    """The batch of this run: its own, the unfinished one, or the next one.

    :raises RefusedError: continuing would lose records or read them twice; each says what to do.
    :raises StoreUnavailable: other writers appended first, each time.
    """
    collects = gc.isenabled()
    for _ in range(MOST_TURNS):
        gc.disable()  # a plan's values are in no cycle; to look for one is a quarter of the time of 10,000 partitions
        try:
            done = _look_and_act(request, run, log, Look(request, kafka), airflow)
        except LookAgain:
            done = None
        finally:
            if collects:
                gc.enable()
        if done is not None:
            _LOG.info(done.summary)
            return done
        _LOG.info("Pipeline %s has a new identity or entry; looking again.", log.pipeline_id)
    raise StoreUnavailable(
        f"Cannot plan a batch of pipeline {log.pipeline_id!r} in the checkpoint location {log.store.uri}",
        f"another writer appended first, {MOST_TURNS} times",
        "Check that the store lists what was created: get, list and exclusive creation have to agree.",
        retriable=True,
    )


def _look_and_act(
    request: Request, run: RunKey, log: PipelineLog, look: Look, airflow: Airflow
) -> ResolvedBatch | NoBatch | None:
    """One turn. ``None``: the identity is new, or another writer appended first; retry."""
    by_window = request.window is not None
    bound = None if by_window else log.batch_of(run)
    memory, _ = airflow.last_planned(), look.group  # both before the log
    identity = log.identity() or begin(request, run, look, log, airflow, memory)
    if identity is None:
        return None
    newest = log.newest()
    batch = newest if bound is None else log.existing(bound)
    if by_window and identity.kind == "window":
        batch = find_window(request, log, newest)
    if any(each is not None and each.plan.identity > identity.number for each in (newest, batch)):
        return None  # an act came in between, and a plan under it
    turn = Turn(run, look, airflow, Decided(identity), Shard(log, memory, newest))
    if request.act is not None and not is_done(turn, request.act):
        carry_out(turn, request.act)
        return None
    is_bound = batch is not None and (bound is not None or by_window)
    is_rewrite = not by_window and is_bound and batch is not None and batch.is_committed
    if (ended := _require_same(turn, [] if is_rewrite else [turn.shard])) is not None:
        log.create_identity(ended)
        return None
    return _step(turn, batch, is_bound=is_bound)


def _require_same(turn: Turn, shards: Sequence[Shard]) -> Identity | None:
    """The next identity, if ``on_data_loss`` accepts that topics ended.

    :param shards: those to compare; none for a committed batch, which is written again as it was.
    :raises PipelineDiffers, DataLoss: something differs from the identity.
    """
    request, identity = turn.request, turn.identity
    found = differences(turn, shards)
    if not found:
        if shards:
            turn.look.require_topics(identity.ended.values())
        return None
    if {d.word for d in found} == {"topic"} and request.on_data_loss != "fail":
        why, topics = f'on_data_loss="{request.on_data_loss}"', found[0].value
        _LOG.warning("%s accepts a loss: %s", why, "; ".join(found[0].lines))
        ended = {**identity.ended, **{topic_id: topic for topic, topic_id in topics.items()}}
        act = {"reason": why, "acknowledge": {"topic": topics}}
        return identity.next(turn.run, request.now_ms, act=act, ended=ended)
    raise refusal(turn.log.name, differences(turn, turn.shards() if shards else []) or found, turn.way_on)


def _step(turn: Turn, batch: Batch | None, *, is_bound: bool) -> ResolvedBatch | NoBatch | None:
    """
    :param batch: the batch that the run is bound to, or that has its window, else the newest; ``None``: there is none.
    :param is_bound: whether it is the first or the second.
    """
    step = next_step(turn.run, batch, is_bound=is_bound, is_running=turn.airflow.is_running)
    match step:
        case "wait":
            assert batch is not None
            raise OverlappingRun(str(batch.plan.by), str(batch))
        case "leave":
            assert batch is not None
            return NoBatch(f"{batch} was committed by run {batch.commits[0].by}; nothing is written.")
        case "do again":
            assert batch is not None
            done = _write_again(turn, batch)
        case "do":
            assert batch is not None
            done = _continue(turn, batch)
        case "plan next":
            done = _plan_next_window(turn) if turn.request.window is not None else _plan_next(turn)
        case _ as never:
            assert_never(never)
    if isinstance(done, NoBatch):
        return done
    if done is None or (
        turn.request.window is None and turn.log.bind(turn.run, done.batch.number) != done.batch.number
    ):
        return None
    if done.batch.has_records:
        return done
    commit(done.given(), turn.log, turn.look.kafka, turn.airflow.ways_past())  # it needs no job
    return NoBatch(f"{done.summary} It is committed without a Spark job.")


def _append(turn: Turn, plan: Plan, batch: Batch | None, body: PlanBody) -> ResolvedBatch | None:
    """``None``: another writer appended first."""
    entries = (*(() if batch is None else batch.entries), plan)
    if not turn.log.append(plan.number, len(entries), plan):
        return None
    new = Batch(plan.number, entries) if batch is None else replace(batch, entries=entries)
    return ResolvedBatch(turn.log, new, body, turn.run, starts_job=new.has_records)


def _plan_next(turn: Turn) -> ResolvedBatch | NoBatch | None:
    """Rule 1."""
    head = turn.shard.head
    draft = plan_sequence(turn)
    if not draft.has_news:
        if head.committed is not None:
            mirror(turn.log, turn.look, head.committed, turn.airflow.ways_past())
        return NoBatch(f"Pipeline {turn.log.pipeline_id}: there is nothing new to read.")
    return _append(turn, first_plan(turn, head.next_number, draft.body, head.committed), None, draft.body)


def _plan_next_window(turn: Turn) -> ResolvedBatch | None:
    newest = turn.shard.newest
    stretches = () if newest is None else turn.log.first_body(newest).covered
    covered = Covered(stretches, turn.identity.ended)
    require_free(turn.request, turn.identity, covered)
    body = plan_window(turn, covered)
    number = 1 if newest is None else newest.number + 1
    open_batches = () if newest is None else tuple(batch.number for batch in unfinished(turn.log, newest))
    done = _append(turn, first_plan(turn, number, body, newest, open_batches), None, body)
    if done is not None and turn.request.window is not None:
        turn.log.name_window(turn.request.window, number)
    return done


def _continue(turn: Turn, batch: Batch) -> ResolvedBatch | None:
    """The unfinished batch with its plan, or planned again (rule 2)."""
    identity, plan, body = turn.identity, batch.plan, turn.log.body(batch)
    if plan.window is not None:
        require_not_lost(turn.request, identity)
    is_moved = plan.cluster_id != identity.cluster_id or identity.reset_at > plan.identity
    gone = "" if is_moved else turn.look.gone(plan, body)
    differs = is_moved or (
        (plan.output, plan.adopted, plan.bases) != (identity.output, identity.adopted, identity.bases)
        or plan.expects != kept_expectation(turn, plan)
        or skips_in(identity, body.ranges, body.resume_from) != body.skips
    )
    if not differs and gone == "expired" and plan.require_report and verify(batch, body, turn.log.report).is_verified:
        return ResolvedBatch(turn.log, batch, body, turn.run, starts_job=False)
    if differs or gone:
        why = "the identity has changed" if differs else f"its records are gone ({gone})"
        body = plan_sequence(turn).body if plan.window is None else replan_window(turn, batch)
        _LOG.info("%s is planned again: %s.", batch, why)
        return _append(turn, later_plan(turn, batch, body), batch, body)
    if plan.by != turn.run:
        _LOG.info("%s is taken over from run %s.", batch, plan.by)
        return _append(turn, replace(plan, by=turn.run, at_ms=turn.request.now_ms), batch, body)
    is_retry = turn.run.retries(plan.by)
    return ResolvedBatch(turn.log, batch, body, turn.run, starts_job=batch.has_records, is_retry=is_retry)


def _write_again(turn: Turn, batch: Batch) -> ResolvedBatch | NoBatch | None:
    """A cleared run rewrites the batch that it committed (rule 3)."""
    plan, identity = batch.plan, turn.identity
    if batch.is_cleaned:
        return NoBatch(f"{batch} is committed and was cleaned; nothing is written.")
    body = turn.log.body(batch)
    if batch.is_closed and turn.run.retries(batch.commits[-1].by):
        return ResolvedBatch(turn.log, batch, body, turn.run, starts_job=False)
    is_moved = plan.cluster_id != identity.cluster_id
    gone = "" if is_moved else turn.look.gone(plan, body)
    if gone == "other log" and not batch.is_closed and not plan.from_outputs:
        raise other_log(batch)
    is_elsewhere = is_moved or plan.output != identity.output
    if gone or is_elsewhere:
        return _heal_or_leave(turn, batch, body, is_elsewhere=is_elsewhere)
    _LOG.info("%s is committed, and is rewritten.", batch)
    return _append(turn, rewritten(turn, plan), batch, body)


def _heal_or_leave(turn: Turn, batch: Batch, body: PlanBody, *, is_elsewhere: bool) -> ResolvedBatch | NoBatch | None:
    """A committed batch whose records are gone. Its bad records are in its own outputs: another definition heals them.

    So does any definition after an attempt that did not end.

    :param is_elsewhere: cluster or output have changed since: it is left as it is.
    """
    plan, verdict, bad = batch.plan, verify(batch, body, turn.log.report), batch.commits[-1].bad
    why = f"It is in {plan.output}, and cluster or output have changed" if is_elsewhere else "Its records are gone"
    note, can_heal = f" {why}: nothing is written.", not is_elsewhere and (bad or not verdict.is_verified)
    job = turn.airflow.job(plan.topics) if plan.require_report and can_heal else None
    if job is not None and job["rows"] is not None and job["sink"]["keeps_rows"]:
        if not verdict.is_verified or verdict.report is None or verdict.report.job != job_digest(job):
            done = _append(turn, rewritten(turn, plan, from_outputs=True), batch, body)
            return done and replace(
                done, note=" Its records are gone: its bad records are read again, from their table."
            )
        note += (
            f" Its {counted(bad, 'bad record')} cannot be healed by the definition of rows that committed them. If the "
            'DAG is versioned, clear the run with "Run with latest bundle version".'
        )
    if plan.require_report and not verdict.is_verified:
        raise ReadNotVerified(
            [f"{batch}: {problem}" for problem in verdict.problems],
            f"It is committed, and cannot be read again. {why}. Check its rows (kafka_batch = '{plan.key}'), then mark "
            "this run as success or failed.",
        )
    if plan.output is None or is_elsewhere:
        return NoBatch(f"{batch} is committed.{note}")
    return ResolvedBatch(turn.log, batch, body, turn.run, starts_job=True, is_left=True, note=note)
