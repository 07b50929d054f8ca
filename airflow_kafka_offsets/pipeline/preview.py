"""What a run would read now, and why. Nothing is written anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan
from airflow_kafka_offsets.offsets.request.parameters import RequestParameters, names_of
from airflow_kafka_offsets.offsets.request.parse import Occasion, PlanRequest
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.draft import Start, draft
from airflow_kafka_offsets.pipeline.group import look_at_group
from airflow_kafka_offsets.pipeline.request import request_for
from airflow_kafka_offsets.pipeline.status import position_of
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog


def plan_offsets(client_config: Mapping[str, Any], *, work_store: str | None = None, **parameters: Any) -> OffsetPlan:
    """The plan that these parameters make on that cluster, now.

    :param client_config: librdkafka settings, as in the Kafka connection's extra.
    :param work_store: with ``checkpoint_id``: go on from that pipeline's position; else the startup mode decides.
    :param parameters: those of ``ResolveStartupOffsetsOperator`` except the connection's.
    :raises InvalidRequest: before the cluster is asked, with every problem.
    :raises RefusedError: the plan would lose records.
    :raises ClusterUnavailable: the cluster could not be asked.
    """
    unknown = sorted(parameters.keys() - set(names_of(RequestParameters)))
    if unknown:
        raise InvalidRequest((f"Unknown parameters: {', '.join(unknown)}.",))
    given = {name: value for name, value in parameters.items() if value is not None}
    request = request_for(client_config, RequestParameters(**given), Occasion(now_ms()))
    named = request.scope.checkpoint_id
    pipeline = PipelineLog(open_store(work_store), named) if work_store and named else None
    with KafkaCluster(client_config) as cluster:
        return preview(request, cluster, pipeline)


def preview(request: PlanRequest, cluster: OffsetReader, pipeline: PipelineLog | None) -> OffsetPlan:
    """What the next run would do: the unfinished batch, if there is one, else the next."""
    description = cluster.describe(request.scope.subscription)
    held, warnings = look_at_group(request, cluster, description.partitions())
    newest = pipeline.newest() if pipeline and not request.window else None
    if newest is not None and newest.log.committed is None:
        plan = newest.log.plan
        return plan.with_warnings([f"{plan.batch} is not committed: the next run does it again, as it is."])
    position = position_of(pipeline) if pipeline and newest else None
    start = Start(position, kept=position, applied=newest.log.plan.restarts if newest else ())
    return draft(request, cluster, description, held, start).with_warnings(warnings)
