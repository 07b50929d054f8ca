"""The task that commits a run's batch, once its records have been read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Asset, BaseOperator, TriggerRule, XComArg
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, XComNotFound

from airflow_kafka_offsets.errors import RequestError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook, configured_work_store
from airflow_kafka_offsets.hooks.surroundings import run_key, this_airflow
from airflow_kafka_offsets.offsets.batch.log import Actor
from airflow_kafka_offsets.offsets.model import RunKey
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan
from airflow_kafka_offsets.operators.resolve import INLINE_LIMIT, ResolveStartupOffsetsOperator
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.commit import CommitOutcome, Handed, commit_batch
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog


class CommitOffsetsOperator(BaseOperator):
    """Commit the batch that this run did, if exactly that batch was read; then let the consumer group follow.

    It refuses, and has then written nothing, when the read reports do not match the plan, when the batch was planned
    anew, or when somebody else wrote to the group. A retry is safe. It runs under ``none_failed``: with nothing to read
    Spark is skipped and the group is still renewed; without a plan (a skipped resolve) it skips itself.

    :param plan: the resolve task's XCom ``plan``: ``resolve.output["plan"]``.
    :param kafka_config_id: the connection that the plan was made with.
    :param require_report: whether a batch with records needs matching read reports; ``False`` for jobs that make none:
        the commit then trusts that the Spark task succeeded.
    :param asset: what downstream DAGs are scheduled on: an outlet of this task. Its event says what was read:
        ``{"group_id", "batch", "plan_id", "window", "topics": {"orders": {"0": [start, end]}}}``, and above 500
        partitions, in the place of ``topics``, ``stored_as`` and ``work_store``. There is one only where records were
        read. Not the asset that schedules this very DAG: it would run for ever.
    """

    template_fields: Sequence[str] = ("plan", "kafka_config_id")
    ui_color = "#e6f2e6"

    def __init__(
        self,
        *,
        plan: Mapping[str, Any] | Any,
        kafka_config_id: str = "kafka_default",
        require_report: bool = True,
        asset: Asset | None = None,
        trigger_rule: str = TriggerRule.NONE_FAILED,
        **kwargs: Any,
    ) -> None:
        if asset is not None:
            given = kwargs.pop("outlets", None) or []
            kwargs["outlets"] = [*(given if isinstance(given, Sequence) else [given]), asset]
        super().__init__(trigger_rule=trigger_rule, **kwargs)
        self.plan = plan
        self.kafka_config_id = kafka_config_id
        self.require_report = require_report
        self.asset = asset

    def render_template_fields(self, context: Any, jinja_env: Any = None) -> None:
        """A skipped resolve task has pushed no plan: that is an answer. Where the XCom was purged, the log has it."""
        reference = self.plan
        try:
            super().render_template_fields(context, jinja_env)
        except (XComNotFound, KeyError):
            if not isinstance(reference, XComArg):
                raise
            self.plan = None if _was_skipped(reference, context) else _plan_of_log(reference, context)

    def execute(self, context: Any) -> dict[str, Any]:
        if not self.plan:
            raise AirflowSkipException("There is no plan: the resolve task was skipped, so there is nothing to commit.")
        pipeline = PipelineLog(configured_work_store(self.plan["work_store"]), self.plan["pipeline"])
        handed = Handed(self.plan["stored_as"], self.plan["plan_id"])
        me = Actor(_resolve_run(self.plan, context), this_airflow())
        try:
            with KafkaOffsetsHook(self.kafka_config_id).open_cluster() as cluster:
                outcome = commit_batch(
                    handed, pipeline, cluster, me, now_ms=now_ms(), require_report=self.require_report
                )
        except RequestError as error:
            raise AirflowFailException(str(error)) from None
        self._say(outcome)
        self._publish(context, outcome.plan)
        plan = outcome.plan
        return {
            "batch": plan.batch.key if plan and plan.batch else None,
            "plan_id": plan.plan_id if plan else None,
            "group_id": plan.group_id if plan else None,
            "partitions_written": len(outcome.written),
            "not_committed": outcome.group.left_alone,
        }

    def _publish(self, context: Any, plan: OffsetPlan | None) -> None:
        """The asset's event: what was read; or none, where downstream DAGs have nothing new to look at."""
        if self.asset is None:
            return
        if plan is not None and plan.to_read():
            key = plan.batch.key if plan.batch else None
            about = {"group_id": plan.group_id, "batch": key, "plan_id": plan.plan_id, "window": plan.window_bounds}
            where = {name: self.plan[name] for name in ("stored_as", "work_store")}
            ranges = {"topics": _ranges(plan)} if len(plan.to_read()) <= INLINE_LIMIT else where
            context["outlet_events"][self.asset].extra = {**about, **ranges}
        else:  # Airflow makes an event of each outlet that a task has when it succeeds
            self.outlets = [outlet for outlet in self.outlets if outlet != self.asset]
            self.log.info("Asset %s gets no event: nothing was read", self.asset.name)

    def _say(self, outcome: CommitOutcome) -> None:
        plan = outcome.plan
        if plan is not None:
            done = "committed" if outcome.by_this else "was committed before; its reads are verified again"
            self.log.info("%s %s: up to %d records", plan.batch, done, plan.record_count_upper_bound)
        if outcome.group.left_alone:
            self.log.info("The group was left alone: %s", outcome.group.left_alone)
        else:
            self.log.info("The group follows in %d partitions", len(outcome.written))


def _resolve_run(plan: Mapping[str, Any], context: Any) -> RunKey:
    """The resolve task's instance: it is the one that took the batch."""
    me = run_key(context)
    taken = plan.get("taken_by") or {}
    return RunKey(me.dag_id, me.run_id, taken.get("task_id", me.task_id), taken.get("map_index", me.map_index))


def _plan_of_log(reference: XComArg, context: Any) -> dict[str, Any]:
    """What the resolve task would have pushed, by the log's word which batch that run took.

    :raises XComNotFound: the resolve task has not taken a batch.
    """
    resolve = next((operator for operator, _ in reference.iter_references()), None)
    if not isinstance(resolve, ResolveStartupOffsetsOperator):
        raise XComNotFound(context["ti"].dag_id, getattr(resolve, "task_id", "?"), "plan")
    resolve.render_template_fields(context)
    run = RunKey(context["ti"].dag_id, context["ti"].run_id, resolve.task_id, -1)
    pipeline = resolve.pipeline_log(context, KafkaOffsetsHook(resolve.kafka_config_id))
    taken = pipeline.batch_of_run(run)
    if taken is None:
        raise XComNotFound(context["ti"].dag_id, resolve.task_id, "plan")
    batch = pipeline.read(taken.folder) if taken.folder else None
    return {
        "pipeline": pipeline.checkpoint_id,
        "work_store": pipeline.store.uri,
        "stored_as": taken.folder,
        "plan_id": batch.log.plan.plan_id if batch else None,
        "taken_by": {"task_id": run.task_id, "map_index": run.map_index},
    }


def _ranges(plan: OffsetPlan) -> dict[str, dict[str, list[int]]]:
    """``{"orders": {"0": [start, end]}}``, of the partitions with records."""
    ranges: dict[str, dict[str, list[int]]] = {}
    for p in plan.to_read():
        of_topic = ranges.setdefault(p.topic_partition.topic, {})
        of_topic[str(p.topic_partition.partition)] = [p.range.start_offset, p.range.end_offset]
    return ranges


def _was_skipped(reference: XComArg, context: Any) -> bool:
    ti = context["ti"]
    task_ids = [operator.task_id for operator, _ in reference.iter_references()]
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=task_ids, run_ids=[ti.run_id])
    return "skipped" in states.get(ti.run_id, {}).values()
