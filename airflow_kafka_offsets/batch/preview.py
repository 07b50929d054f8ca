"""What an order would do: the same way, stopped before anything is carried out. Nothing is written anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_kafka_offsets.batch.carry_out import CommitOutcome, position_planned
from airflow_kafka_offsets.batch.complete_request import request_for
from airflow_kafka_offsets.batch.engine import ResetOutcome, ask_until_decided, decided, topics_and_group
from airflow_kafka_offsets.batch.follow_group import Followed, would_follow
from airflow_kafka_offsets.batch.look_ups import NoAirflow, World, log_alone
from airflow_kafka_offsets.batch.make_draft import Start, draft
from airflow_kafka_offsets.batch.orders import (
    Append,
    Commit,
    Create,
    Do,
    Follow,
    LeaveOut,
    NextBatch,
    Nothing,
    Replace,
    Reset,
    SetPosition,
)
from airflow_kafka_offsets.batch.situation import Ask, Lacking, Situation
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.kafka_values import Actor
from airflow_kafka_offsets.log.entries import Committed
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.plan.plan import Draft, Plan
from airflow_kafka_offsets.plan.position import position_after
from airflow_kafka_offsets.request.parameters import RequestParameters, names_of
from airflow_kafka_offsets.request.parse_request import PlanRequest, RunContext
from airflow_kafka_offsets.stores.open import open_store

NOBODY = Actor(None, None)  # whoever looks from a terminal: not the Airflow whose pipeline it is


def plan_offsets(client_config: Mapping[str, Any], *, work_store: str | None = None, **parameters: Any) -> Draft:
    """What these parameters would read on that cluster, now.

    :param client_config: librdkafka settings, as in the Kafka connection's extra.
    :param work_store: with ``pipeline_id``: go on from that pipeline's position; else the startup mode decides.
    :param parameters: those of ``ResolveStartupOffsetsOperator`` except the connection's.
    :raises InvalidRequest: before the cluster is asked, with every problem.
    :raises RefusedError: the plan would lose records.
    :raises ClusterUnavailable: the cluster could not be asked.
    """
    unknown = sorted(parameters.keys() - set(names_of(RequestParameters)))
    if unknown:
        raise InvalidRequest((f"Unknown parameters: {', '.join(unknown)}.",))
    given = {name: value for name, value in parameters.items() if value is not None}
    request = request_for(client_config, RequestParameters(**given), RunContext(now_ms()))
    named = request.scope.pipeline_id
    pipeline = PipelineLog(open_store(work_store), named) if work_store and named else None
    with KafkaCluster(client_config) as cluster:
        return preview_plan(request, cluster, pipeline)


def preview_plan(request: PlanRequest, cluster: Cluster, pipeline: PipelineLog | None) -> Draft:
    """What the next run would do: the unfinished batch, if there is one, else the next.

    :param pipeline: ``None``: the startup mode decides, and no position counts.
    :raises RefusedError: as the run would be refused.
    """
    if pipeline is None or request.window:
        return _draft_alone(request, World(_NoLog(), cluster, NoAirflow()))
    decision, _ = decided(NextBatch(request, NOBODY), World(pipeline, cluster, NoAirflow()))
    match decision:
        case Create(draft=found) | Nothing(draft=Draft() as found) | Replace(plan=found):
            return found
        case Do(batch):
            plan = batch.log.plan
            return plan.with_warnings([f"{plan.batch} is not committed: the next run does it again, as it is."])
    raise TypeError(f"{decision} is no decision for a new run")


def _draft_alone(request: PlanRequest, world: World) -> Draft:

    def drafted(s: Situation) -> Draft | Ask:
        try:
            return draft(request, NOBODY, s, Start())
        except Lacking as lacking:
            return Ask(lacking.question)

    return ask_until_decided(drafted, topics_and_group(request, Situation("", ""), world), world)[0]


class _NoLog(PipelineLog):
    """A draft alone asks nothing of a log."""

    def __init__(self) -> None: ...


def preview_commit(order: Commit, world: World) -> CommitOutcome:
    """
    :raises KafkaOffsetsError: as the commit would be refused.
    """
    decision, _ = decided(order, world)
    match decision:
        case Append(batch, entry, proof):
            done = replace(batch, log=batch.log.with_entry(entry))
            return CommitOutcome(done, False, would_follow(world.cluster, order.me, done), proof, decision.fates)
        case Follow(None):
            return CommitOutcome(None, False, would_follow(world.cluster, order.me, world.pipeline.newest_commit()))
        case Follow(StoredBatch() as batch, proof):
            newest = batch if batch.log.plan.asked.window else world.pipeline.newest_commit(batch)
            return CommitOutcome(batch, False, would_follow(world.cluster, order.me, newest), proof, decision.fates)
    raise TypeError(f"{decision} is no decision for a commit")


def preview_leave_out(order: LeaveOut, pipeline: PipelineLog) -> tuple[Plan, Plan]:
    """Before and after.

    :raises KafkaOffsetsError: as the order would be refused.
    """
    decision, _ = decided(order, log_alone(pipeline))
    match decision:
        case Replace(batch, plan):
            return batch.log.plan, plan
    raise TypeError(f"{decision} is no decision for a batch that is left out")


def preview_reset(order: Reset, world: World) -> ResetOutcome:
    """
    :raises KafkaOffsetsError: as the reset would be refused; that records are read again is only said.
    """
    decision, _ = decided(order, world)
    if not isinstance(decision, SetPosition):
        raise StoreUnavailable(
            "Cannot tell what the reset would do",
            "the log went on while it was looked at",
            "Try again.",
            retriable=True,
        )
    newest, batch = world.pipeline.newest_commit(), None
    if decision.draft is not None:
        planned = position_planned(decision, decision.draft, order)
        batch = world.pipeline.as_if_begun(decision.number, planned)
        entry = Committed(order.me, order.now_ms, planned.plan.plan_id, position_after(planned.plan, decision.position))
        newest = replace(batch, log=batch.log.with_entry(entry))
    group: Followed = would_follow(world.cluster, order.me, newest)
    return ResetOutcome(batch, decision.target, decision.moves, decision.stays, group)
