"""What an order would do: the same way, over a log and a cluster that stay as they are. Nothing is written anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from airflow_kafka_offsets.batch.decide import decide_run
from airflow_kafka_offsets.batch.engine import decided
from airflow_kafka_offsets.batch.look_ups import World
from airflow_kafka_offsets.batch.make_draft import Start, draft
from airflow_kafka_offsets.batch.orders import Create, Do, Nothing, Replace, RunsBatch
from airflow_kafka_offsets.batch.situation import Situation
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, TopicPartition
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.plan import Draft
from airflow_kafka_offsets.request.parameters import RequestParameters, names_of
from airflow_kafka_offsets.request.parse_request import PlanRequest, RunContext, request_for
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.store import Store

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
        world = World(cast(PipelineLog, None), cluster)  # a draft alone asks nothing of a log
        return decided(lambda s: draft(request, NOBODY, s, Start()), world, Situation("", ""))[0]
    decision, _ = decided(partial(decide_run, RunsBatch(request, NOBODY)), World(pipeline, cluster))
    match decision:
        case Create(draft=found) | Nothing(draft=Draft() as found) | Replace(plan=found):
            return found
        case Do(batch):
            plan = batch.log.plan
            return plan.with_warnings([f"{plan.batch} is not committed: the next run does it again, as it is."])
    raise TypeError(f"{decision} is no decision for a new run")


# ── a rehearsal: the engine itself, over a log and a cluster that stay as they are ────────────────────────────────────


def rehearsed(world: World) -> World:
    """The same world, for a dry run: whoever writes there reads it back, and nobody else does."""
    return World(rehearsed_log(world.pipeline), cast(Cluster, _KeptOffsets(world.cluster)), world.around)


def rehearsed_log(pipeline: PipelineLog) -> PipelineLog:
    return PipelineLog(_KeptObjects(pipeline.store), pipeline.pipeline_id)


class _KeptObjects:
    """A work store over another one: what is created is kept here."""

    def __init__(self, store: Store) -> None:
        self.uri, self.driver_uri, self.is_remote = store.uri, store.driver_uri, store.is_remote
        self._store = store
        self._new: dict[str, bytes] = {}

    def create(self, name: str, data: bytes) -> bool:
        there = self._store.get(name)
        return (self._new.setdefault(name, data) if there is None else there) == data

    def get(self, name: str) -> bytes | None:
        return self._new.get(name) or self._store.get(name)

    def list(self, folder: str) -> list[str]:
        below = [name.removeprefix(f"{folder}/").partition("/") for name in self._new if name.startswith(f"{folder}/")]
        return sorted({*self._store.list(folder), *(f"{name}{slash}" for name, slash, _ in below)})

    def delete(self, name: str) -> None:
        raise NotImplementedError("no order removes an object")


class _KeptOffsets:
    """A cluster that is asked, and not written to."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Not even the refusal of a group with live members: a person may look while they are there."""
