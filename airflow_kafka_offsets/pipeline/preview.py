"""What a run would read now, and why. Nothing is written anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.collector import only_new_garbage
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan
from airflow_kafka_offsets.offsets.request.parameters import RequestParameters, names_of
from airflow_kafka_offsets.offsets.request.parse import Occasion, PlanRequest
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.draft import Start, draft
from airflow_kafka_offsets.pipeline.group import Cluster, look_at_group
from airflow_kafka_offsets.pipeline.plan import Asker, foresee
from airflow_kafka_offsets.pipeline.request import request_for
from airflow_kafka_offsets.pipeline.surroundings import NoAirflow
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog


def plan_offsets(client_config: Mapping[str, Any], *, work_store: str | None = None, **parameters: Any) -> OffsetPlan:
    """The plan that these parameters make on that cluster, now.

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
    request = request_for(client_config, RequestParameters(**given), Occasion(now_ms()))
    named = request.scope.pipeline_id
    pipeline = PipelineLog(open_store(work_store), named) if work_store and named else None
    with KafkaCluster(client_config) as cluster:
        return preview(request, cluster, pipeline)


@only_new_garbage()
def preview(request: PlanRequest, cluster: Cluster, pipeline: PipelineLog | None) -> OffsetPlan:
    """What the next run would do: the unfinished batch, if there is one, else the next.

    :param pipeline: ``None``: the startup mode decides, and no position counts.
    """
    if pipeline is not None and not request.window:
        # Whoever looks from a terminal is another than the Airflow whose pipeline it is.
        looking = replace(request, policies=replace(request.policies, on_another_airflow="take-over"))
        return foresee(Asker(looking, None, pipeline, cluster, NoAirflow()))
    description = cluster.describe(request.scope.subscription)
    held, warnings = look_at_group(request, cluster, description.partitions())
    return draft(request, cluster, description, held, Start()).with_warnings(warnings)
