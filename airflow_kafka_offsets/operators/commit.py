"""The task that commits a run's batch, once its records have been written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator

from airflow_kafka_offsets.hooks.run import SUMMARY_XCOM, failing_at_once
from airflow_kafka_offsets.operators.lineage import TellsLineage

if TYPE_CHECKING:
    from airflow_kafka_offsets.engine.work import PlanReference
    from airflow_kafka_offsets.log.pipeline_log import PipelineLog

OF_SPARK_TASK = {"arguments", "formats"}
"""What the XCom ``plan`` has for the Spark task, beside what the commit needs."""


class CommitOffsetsOperator(TellsLineage, BaseOperator):
    """Verify that exactly this run's batch was written, commit it, and commit the position to the consumer group.

    It fails, and commits nothing, if the report does not match the plan, if the batch was planned again, or if somebody
    else wrote to the group. A retry is safe. Whether a report is required stands in the plan.

    XComs: ``return_value``, the figures ``{"read", "bad", "filtered", "lost", "skipped", "lag"}``; ``summary``, in
    words. Each asset of ``outlets`` gets an event whose extra has the ``batch_key``; a run without a batch publishes
    none.

    :param plan: the resolve task's XCom: ``resolve.output["plan"]``.
    """

    template_fields: Sequence[str] = ("plan",)
    ui_color = "#e6f2e6"

    def __init__(self, *, plan: Mapping[str, Any] | Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def execute(self, context: Any) -> dict[str, Any]:
        from airflow_kafka_offsets.engine.commit import commit
        from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
        from airflow_kafka_offsets.hooks.metrics import measured_commit

        with failing_at_once():
            given = given_of(self.plan)
            log, hook = log_of(given), KafkaOffsetsHook(given.kafka_config_id)
            with hook.open_cluster() as cluster, measured_commit(log, given.batch, cluster) as lag:
                done = commit(given, log, cluster)
        context["ti"].xcom_push(key=SUMMARY_XCOM, value=done.summary)
        self.log.info(done.summary)
        name_batch(self, context, done.key)
        return {**done.figures, **lag}


def name_batch(task: BaseOperator, context: Any, key: str) -> None:
    """Put the batch's key into the events of the task's assets."""
    for outlet in task.outlets:
        if isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra = {"batch_key": key}


def given_of(plan: Any) -> PlanReference:
    """The plan that the resolve task gave to Spark, from its XCom.

    :raises InvalidRequest: it is something else, such as the ``None`` of a task that was marked as success by hand.
    """
    from airflow_kafka_offsets.engine.work import PlanReference

    is_pushed = isinstance(plan, Mapping)
    return PlanReference.from_dict({k: v for k, v in plan.items() if k not in OF_SPARK_TASK} if is_pushed else plan)


def log_of(given: PlanReference) -> PipelineLog:
    """The log that has the plan."""
    from airflow_kafka_offsets.hooks.checkpoint import configured_store
    from airflow_kafka_offsets.log.pipeline_log import PipelineLog

    return PipelineLog(configured_store(given.checkpoint_location), given.pipeline)
