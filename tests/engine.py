"""The one door between the suites and the engine: what they use of it, by the names that they know.

A suite imports from here and nowhere else, so that the engine's rooms can move without its tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from airflow_kafka_offsets.batch import engine
from airflow_kafka_offsets.batch.carry_out import Assignment as Assignment
from airflow_kafka_offsets.batch.carry_out import CommitOutcome as CommitOutcome
from airflow_kafka_offsets.batch.engine import ResetOutcome as ResetOutcome
from airflow_kafka_offsets.batch.follow_group import Followed, follow
from airflow_kafka_offsets.batch.look_ups import World
from airflow_kafka_offsets.batch.measured_lag import left_by as left_by
from airflow_kafka_offsets.batch.measured_lag import position_of as position_of
from airflow_kafka_offsets.batch.messages import committed_sentence as sentence_of_commit
from airflow_kafka_offsets.batch.messages import first_sentence as first_sentence
from airflow_kafka_offsets.batch.messages import last_sentence as last_sentence
from airflow_kafka_offsets.batch.no_airflow import NO_AIRFLOW as NO_AIRFLOW
from airflow_kafka_offsets.batch.no_airflow import NoAirflow as NoAirflow
from airflow_kafka_offsets.batch.orders import Commit, LeaveOut, Redo, RequireReport, RunsBatch
from airflow_kafka_offsets.batch.orders import OfGroup as OfGroup
from airflow_kafka_offsets.batch.orders import PlanReference as PlanReference
from airflow_kafka_offsets.batch.orders import Reset as ResetOrder
from airflow_kafka_offsets.batch.preview import plan_offsets as plan_offsets
from airflow_kafka_offsets.batch.preview import preview_plan, rehearsed, rehearsed_log
from airflow_kafka_offsets.broker.protocol import Cluster as Cluster
from airflow_kafka_offsets.kafka_values import Actor, RunKey
from airflow_kafka_offsets.log.clean_up import KEPT_COMMITS as KEPT_COMMITS
from airflow_kafka_offsets.log.clean_up import Removal as Removal
from airflow_kafka_offsets.log.clean_up import find_old as find_old
from airflow_kafka_offsets.log.clean_up import remove as remove
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.plan.lag_and_margin import LagAndMargin
from airflow_kafka_offsets.plan.plan import Draft, Plan
from airflow_kafka_offsets.request.parse_request import PlanRequest
from airflow_kafka_offsets.request.policies import Skip


@dataclass(frozen=True)
class Asker:
    """A request, the run that it is for, and what it works on."""

    request: PlanRequest
    run: RunKey | None
    pipeline: PipelineLog
    cluster: Any
    around: Any

    @property
    def me(self) -> Actor:
        return Actor(self.run, self.around.instance)

    @property
    def world(self) -> World:
        return World(self.pipeline, self.cluster, self.around)


def plan_batch(asker: Asker) -> Assignment:
    """The next batch of the log, or the window that the request names."""
    return engine.assign_batch(RunsBatch(asker.request, asker.me), asker.world)


def commit_batch(
    handed: PlanReference,
    pipeline: PipelineLog,
    cluster: Any,
    me: Actor,
    *,
    now_ms: int,
    require_report: RequireReport = True,
    not_done: tuple[str, ...] = (),
    dry_run: bool = False,
) -> CommitOutcome:
    order = Commit(handed, me, now_ms, require_report, not_done=not_done)
    world = World(pipeline, cluster)
    return engine.commit_batch(order, rehearsed(world) if dry_run else world)


def committed_sentence(outcome: CommitOutcome, left: LagAndMargin | None) -> str:
    return sentence_of_commit(outcome.plan, outcome.proof, left, by_this=outcome.by_this)


def mirror(pipeline: PipelineLog, cluster: Any, me: Actor) -> Followed:
    return follow(World(pipeline, cluster), me)


@dataclass(frozen=True)
class Reset:
    """A person's reset, before it is known who that is and when."""

    target: Any
    reason: str
    topics: tuple[str, ...] = ()
    partitions: tuple[Any, ...] = ()
    allow_duplicates: bool = False


def reset_position(
    pipeline: PipelineLog, cluster: Any, me: Actor, asked: Reset, *, now_ms: int, dry_run: bool
) -> ResetOutcome:
    order = ResetOrder(asked.target, asked.reason, me, now_ms, asked.topics, asked.partitions, asked.allow_duplicates)
    world = World(pipeline, cluster)
    if dry_run:  # as the command does it
        return engine.set_position(replace(order, allow_duplicates=True), rehearsed(world))
    return engine.set_position(order, world)


def skip_batch(pipeline: PipelineLog, skip: Skip, *, now_ms: int, dry_run: bool = False) -> tuple[Plan, Plan]:
    return _leave_out(pipeline, LeaveOut(skip, now_ms), dry_run)


def skip_window(pipeline: PipelineLog, skip: Skip, *, now_ms: int, dry_run: bool = False) -> tuple[Plan, Plan]:
    return _leave_out(pipeline, LeaveOut(skip, now_ms, window=True), dry_run)


def _leave_out(pipeline: PipelineLog, order: LeaveOut, dry_run: bool) -> tuple[Plan, Plan]:
    return engine.leave_out(order, rehearsed_log(pipeline) if dry_run else pipeline)


def redo(batch: StoredBatch, cluster: Any, me: Actor, *, now_ms: int) -> StoredBatch:
    """A person does a committed batch again."""
    pipeline = PipelineLog(batch.store, batch.log.plan.pipeline or "")
    return engine.redo_batch(Redo(batch, me, now_ms), World(pipeline, cluster))


def preview(request: PlanRequest, cluster: Any, pipeline: PipelineLog | None) -> Draft:
    return preview_plan(request, cluster, pipeline)
