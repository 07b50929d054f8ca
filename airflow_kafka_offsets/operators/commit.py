"""The task that commits a run's plan, once its records have been read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Asset, BaseOperator, TriggerRule, XComArg
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, XComNotFound

from airflow_kafka_offsets.committing import CommitOutcome, commit_run
from airflow_kafka_offsets.errors import RequestError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook, configured_work_store
from airflow_kafka_offsets.hooks.run_context import lives_in_airflow
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.operators.resolve import INLINE_LIMIT
from airflow_kafka_offsets.stores.runs import read_stored_plan


class CommitOffsetsOperator(BaseOperator):
    """Commit the end offsets of a plan to its consumer group, if exactly that plan was read.

    It refuses, and has then written nothing, when the read reports do not match the plan, when the group is live, or
    when the group is not where the plan found it; while another run of the pipeline that came first is not over, too. A
    retry is safe. It runs under ``none_failed``: with nothing to read
    Spark is skipped and the position is still fixed; without a plan (a skipped resolve) it skips itself.

    :param plan: the resolve task's XCom ``plan``: ``resolve.output["plan"]``.
    :param kafka_config_id: the connection that the plan was made with.
    :param commit_mode: ``on-success`` (default), ``checkpoint-only`` (Flink's DISABLED: the group is left alone) or
        ``never`` (default of window plans: their reads are verified only). ``on-success`` mirrors a window: its end is
        written where the group stands at its start and the pipeline has no checkpoint; elsewhere the group is left, the
        log says why, and the task succeeds.
    :param fencing: ``transaction`` (default) fences off every older committer of the group. It needs the right Write on
        the transactional id ``airflow-kafka-offsets.<group_id>``; where that cannot be had, ``compare``. One kind a
        group.
    :param require_report: whether a plan with records needs matching read reports; ``False`` for jobs that make none.
    :param asset: what downstream DAGs are scheduled on: an outlet of this task. Its event says what was read:
        ``{"group_id", "plan_id", "window", "topics": {"orders": {"0": [start, end]}}}``, and above 500 partitions, in
        the place of ``topics``, ``stored_as`` and ``work_store``. There is one only where records were read, and
        their plan was committed or is a window. Not the asset that schedules this very DAG: it would run for ever.
    """

    template_fields: Sequence[str] = ("plan", "kafka_config_id")
    ui_color = "#e6f2e6"

    def __init__(
        self,
        *,
        plan: Mapping[str, Any] | Any,
        kafka_config_id: str = "kafka_default",
        commit_mode: str | None = None,
        fencing: str = "transaction",
        require_report: bool = True,
        asset: Asset | None = None,
        outlets: Sequence[Any] | Any | None = None,
        trigger_rule: str = TriggerRule.NONE_FAILED,
        **kwargs: Any,
    ) -> None:
        others = [] if outlets is None else [*outlets] if isinstance(outlets, Sequence) else [outlets]
        super().__init__(trigger_rule=trigger_rule, outlets=others if asset is None else [*others, asset], **kwargs)
        self.plan = plan
        self.kafka_config_id = kafka_config_id
        self.commit_mode = commit_mode
        self.fencing = fencing
        self.require_report = require_report
        self.asset = asset

    def render_template_fields(self, context: Any, jinja_env: Any = None) -> None:
        """A skipped resolve task has pushed no plan: that is an answer. A plan that is lost otherwise is an error."""
        reference = self.plan
        try:
            super().render_template_fields(context, jinja_env)
        except XComNotFound:
            if not isinstance(reference, XComArg) or not _was_skipped(reference, context):
                raise
            self.plan = None

    def execute(self, context: Any) -> dict[str, Any]:
        if not self.plan:
            raise AirflowSkipException("There is no plan: the resolve task was skipped, so there is nothing to commit.")
        store = configured_work_store(self.plan["work_store"])
        plan = read_stored_plan(store, self.plan["stored_as"], self.plan["plan_id"])
        try:
            with KafkaOffsetsHook(self.kafka_config_id).open_cluster() as cluster:
                outcome = commit_run(
                    plan,
                    store,
                    cluster,
                    commit_mode=self.commit_mode,
                    require_report=self.require_report,
                    fencing=self.fencing,
                    is_alive=lives_in_airflow(context),
                )
        except RequestError as error:
            raise AirflowFailException(str(error)) from None
        self._say(plan, outcome)
        self._publish(context, plan)
        return {
            "plan_id": plan.plan_id,
            "group_id": plan.group_id,
            "partitions_written": len(outcome.written),
            "partitions_kept": len(outcome.kept),
            "not_committed": outcome.not_committed,
        }

    def _publish(self, context: Any, plan: OffsetPlan) -> None:
        """The asset's event: what was read; or none, where downstream DAGs have nothing new to look at."""
        if self.asset is None:
            return
        if plan.to_read() and (plan.window or self.commit_mode != "never"):
            about = {"group_id": plan.group_id, "plan_id": plan.plan_id, "window": plan.window_bounds}
            where = {key: self.plan[key] for key in ("stored_as", "work_store")}
            ranges = {"topics": _ranges(plan)} if len(plan.to_read()) <= INLINE_LIMIT else where
            context["outlet_events"][self.asset].extra = {**about, **ranges}
        else:  # Airflow makes an event of each outlet that a task has when it succeeds
            self.outlets = [outlet for outlet in self.outlets if outlet != self.asset]
            self.log.info("Asset %s gets no event: nothing was read, or commit_mode is never", self.asset.name)

    def _say(self, plan: OffsetPlan, outcome: CommitOutcome) -> None:
        if outcome.not_committed:
            self.log.info("The reads of plan %s are verified; not committed: %s", plan.plan_id, outcome.not_committed)
            return
        self.log.info(
            "Committed plan %s to group %s: %d partitions written, %d left where a later run moved them",
            plan.plan_id,
            plan.group_id,
            len(outcome.written),
            len(outcome.kept),
        )


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
