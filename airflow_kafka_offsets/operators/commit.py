# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The task that commits a run's batch, once its records have been written."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import Asset, BaseOperator, XComArg

from airflow_kafka_offsets.errors import InvalidRequest, ReadNotVerified
from airflow_kafka_offsets.hooks.run import SUMMARY_XCOM, failing_at_once, ways_past
from airflow_kafka_offsets.operators.lineage import TellsLineage
from airflow_kafka_offsets.operators.links import PageLink

if TYPE_CHECKING:
    from airflow_kafka_offsets.engine.work import PlanReference
    from airflow_kafka_offsets.log.pipeline_log import PipelineLog

_LOG = logging.getLogger(__name__)
_RULES = ("all_success", "none_failed", "none_failed_min_one_success")


class CommitOffsetsOperator(TellsLineage, BaseOperator):
    """Verify that exactly this run's batch was written, commit it, and commit the position to the consumer group.

    It fails, and commits nothing, if the report does not match the plan, or if the batch was planned again. It fails
    after the commit if the group was moved. A retry is safe.

    With trigger rule ``none_failed`` it is skipped if the resolve task was skipped, and fails if another task upstream
    was. Trigger rules that could commit an unwritten batch are refused.

    XComs: ``return_value``, the figures ``{"read", "bad", "filtered", "lost", "skipped", "lag"}``; ``summary``, in
    words. Each asset of ``outlets`` gets an event whose extra has the ``batch_key``; a run without a batch publishes
    none.

    :param plan: the resolve task's XCom: ``resolve.output["plan"]``.
    :param partitions: also make the batch a partition of its assets: the window's start in UTC
        (``2026-11-20T14:00:00``), or the ``batch_key``. Its events start only DAGs that are scheduled on partitions.
        Needs Airflow 3.3.
    :raises InvalidRequest: when the DAG is parsed.
    """

    template_fields: Sequence[str] = ("plan",)
    ui_color = "#e6f2e6"
    operator_extra_links = (PageLink(),)

    def __init__(self, *, plan: Mapping[str, Any] | Any, partitions: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan, self.partitions = plan, require_partitions(partitions)
        if self.trigger_rule not in _RULES:
            problem = f"trigger_rule of task {self.task_id!r} is {self.trigger_rule.value!r}, which may commit what "
            raise InvalidRequest((f"{problem}Spark did not write; give all_success.",))

    def execute(self, context: Any) -> dict[str, Any]:
        with failing_at_once(context):
            figures = commit_batch(self.plan, context)
        name_batch(self, context, given_of(self.plan))
        return figures

    def render_template_fields(self, context: Any, jinja_env: Any = None) -> None:
        """Where resolve was skipped there is no plan to render."""
        if self.trigger_rule != "all_success":
            with failing_at_once(context):
                self._require_upstream(context["ti"])
        super().render_template_fields(context, jinja_env)

    def _require_upstream(self, ti: Any) -> None:
        """:raises ReadNotVerified: a task before the commit was skipped, and the batch is not known to be good."""
        group = self.get_closest_mapped_task_group()  # a task outside of it counts with all its indexes
        skipped = sorted(
            task.task_id
            for task in self.upstream_list
            if ti.get_ti_count(
                dag_id=ti.dag_id,
                run_ids=[ti.run_id],
                task_ids=[task.task_id],
                states=["skipped"],
                map_index=ti.map_index if task.get_closest_mapped_task_group() == group else None,  # a proxy, or not
            )
        )
        if isinstance(self.plan, XComArg) and any(task.task_id in skipped for task, _ in self.plan.iter_references()):
            raise AirflowSkipException("There was nothing to read.")
        if skipped:
            raise ReadNotVerified(
                [f"Nothing is committed: {', '.join(skipped)} was skipped"],
                "A check has to succeed or to fail. Correct it, then clear it with Downstream.",
            )


def commit_batch(plan: Any, context: Any) -> dict[str, Any]:
    """Commit the batch of a plan. Returns its figures."""
    from airflow_kafka_offsets.engine.commit import commit
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
    from airflow_kafka_offsets.hooks.metrics import measured_commit

    given = given_of(plan)
    log, hook = log_of(given), KafkaOffsetsHook(given.kafka_config_id)
    with hook.open_cluster() as cluster, measured_commit(log, given.batch, cluster) as lag:
        done = commit(given, log, cluster, ways_past(context["task"]))
    context["ti"].xcom_push(key=SUMMARY_XCOM, value=done.summary)
    _LOG.info(done.summary)
    return {**done.figures, **lag}


def name_batch(task: Any, context: Any, given: PlanReference) -> None:
    """Put the batch's key into the events of the task's assets, and make it a partition of them if the task says so."""
    for outlet in task.outlets:
        if isinstance(outlet, Asset):
            event = context["outlet_events"][outlet]
            event.extra = {"batch_key": given.key}
            if task.partitions:
                event.add_partitions(given.partition)


def require_partitions(partitions: bool) -> bool:
    """:raises InvalidRequest: this Airflow lets no task name partitions."""
    from airflow.sdk.execution_time.context import OutletEventAccessor

    if partitions and not hasattr(OutletEventAccessor, "add_partitions"):
        raise InvalidRequest(("partitions=True needs Airflow 3.3.",))
    return partitions


def given_of(plan: Any) -> PlanReference:
    """The plan that the resolve task passed to Spark, from its XCom.

    :raises InvalidRequest: it is something else, such as the ``None`` of a task that was marked as success by hand.
    """
    from airflow_kafka_offsets.engine.work import PlanReference

    return PlanReference.from_dict(plan)


def log_of(given: PlanReference) -> PipelineLog:
    """The log that has the plan."""
    from airflow_kafka_offsets.hooks.checkpoint import configured_store
    from airflow_kafka_offsets.log.pipeline_log import PipelineLog

    return PipelineLog(configured_store(given.checkpoint_location), given.pipeline)
