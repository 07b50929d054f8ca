"""The task that commits a run's batch, once its records have been read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator, TaskGroup, XComArg

from airflow_kafka_offsets.batch.no_airflow import Step
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest, RequestError, counted, refuse
from airflow_kafka_offsets.hooks.airflow_versions import (
    ASSET_EVENTS_HAVE_KEYS,
    AirflowFailException,
    AirflowSkipException,
    TriggerRule,
    XComNotFound,
)
from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.hooks.metrics import Gauge, outcome_counted, send_commit
from airflow_kafka_offsets.hooks.page_link import PipelinePageLink
from airflow_kafka_offsets.hooks.run_context import SUMMARY_XCOM, AirflowSurroundings, run_key, this_airflow
from airflow_kafka_offsets.hooks.tells_lineage import TellsLineage, servers_of
from airflow_kafka_offsets.hooks.value_sizes import fits, shortened
from airflow_kafka_offsets.hooks.work_store import configured_log
from airflow_kafka_offsets.kafka_values import Actor, RunKey, TopicPartition, values_by_topic
from airflow_kafka_offsets.operators.batch_callbacks import Callbacks, call_for_batch, callback_problems
from airflow_kafka_offsets.operators.reading_tasks import is_given, not_successful
from airflow_kafka_offsets.operators.resolve import ResolveStartupOffsetsOperator
from airflow_kafka_offsets.plan.lag_and_margin import LagAndMargin, together
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.plan_table import moves_table
from airflow_kafka_offsets.plan.topic_outputs import TOPIC, of_topic
from airflow_kafka_offsets.request.modes import RequireReport
from airflow_kafka_offsets.request.times import iso
from airflow_kafka_offsets.task_docs import COMMIT_DOC
from airflow_kafka_offsets.values.row_definition import parse_limit

if TYPE_CHECKING:
    from airflow_kafka_offsets.batch.carry_out import CommitOutcome
    from airflow_kafka_offsets.log.pipeline_log import PipelineLog
    from airflow_kafka_offsets.log.task_lineage import TaskLineage

RUNS_LEFT_XCOM = "runs_left"
"""The key under which the commit pushes how many more runs read what the batch's caps have left."""


class CommitOffsetsOperator(TellsLineage, BaseOperator):
    """Commit the batch that this run did, if exactly that batch was read; then let the consumer group follow.

    It fails, and writes nothing, if the read reports do not match the plan, if the batch was planned anew, or if
    somebody else wrote to the group. A retry is safe. Its trigger rule is ``none_failed``: if there is nothing to read,
    Spark is skipped and the group's offsets are written again; if resolve was skipped, it skips itself.

    XCom ``runs_left``: about how many more runs read what the batch's caps (``max_records``,
    ``max_records_per_partition``) have left, 0 where they left nothing. docs/catch-up.md starts the next run by it.

    :param plan: the resolve task's XCom ``plan``: ``resolve.output["plan"]``.
    :param kafka_config_id: the connection that the plan was made with.
    :param require_report: whether a batch with records needs matching read reports; ``"read-back"``: and each must be
        of an output that was read back, not only of what Spark scanned; ``False`` for jobs that make none: the commit
        then trusts that the tasks on the way from resolve succeeded. One that was skipped has not.
    :param depends_on_past: refused, as ``wait_for_downstream`` is: a cleared run would wait for one that waits for it.
    :param asset: what downstream DAGs are scheduled on: an outlet of this task. Its event says what was read:
        ``{"group_id", "batch", "plan_id", "window", "topics": {"orders": {"0": [start, end]}}}``, and where the ranges
        have more than 48 KiB, instead of ``topics``, ``stored_as`` and ``work_store``. There is one only where
        records were read. Not the asset that schedules this very DAG: it would run for ever. A mapped commit task needs
        it as an outlet too: ``partial(…, asset=asset, outlets=[asset])``.
    :param on_loss: whom to call where the batch has lost records: a function of the context, a notifier, or a list of
        them, as ``on_failure_callback`` has it. ``context["kafka_offsets"]`` has the figures: docs/monitor.md. The run
        that did the batch calls once its commit is on record, and again where this task is cleared. If the call fails,
        the task says so and is a success.
    :param on_bad_records: whom to call where records of the batch were set aside as bad; as ``on_loss``.
    :param partitioned_asset: whether the event of a window by time has a partition key, its start
        (``2026-11-20T10:00:00``, UTC). Airflow then starts by it the DAGs alone that are scheduled on partitions
        (``PartitionedAssetTimetable``). From Airflow 3.3 on. In a run for a partition the key is the run's in any case.
    :param trigger_rule: ``none_failed``, as said above.
    :raises InvalidRequest: when the DAG is parsed: a value of the wrong kind.
    """

    template_fields: Sequence[str] = ("plan", "kafka_config_id")
    ui_color = "#e6f2e6"
    _done: CommitOutcome | None = None
    operator_extra_links = (PipelinePageLink(),)

    def __init__(
        self,
        *,
        plan: Mapping[str, Any] | Any,
        kafka_config_id: str = "kafka_default",
        require_report: RequireReport = True,
        asset: Asset | None = None,
        on_loss: Callbacks = None,
        on_bad_records: Callbacks = None,
        partitioned_asset: bool = False,
        trigger_rule: str = TriggerRule.NONE_FAILED,
        **kwargs: Any,
    ) -> None:
        wrong = callback_problems(on_loss=on_loss, on_bad_records=on_bad_records)
        _refuse_wrong_kinds(require_report, asset, partitioned_asset, wrong)
        if asset is not None:
            given = kwargs.pop("outlets", None) or []
            given = list(given) if isinstance(given, Sequence) else [given]
            kwargs["outlets"] = given if asset in given else [*given, asset]
        super().__init__(trigger_rule=trigger_rule, **{"doc_md": COMMIT_DOC, **kwargs})
        refuse_depends_on_past(self)
        self.plan = plan
        self.kafka_config_id = kafka_config_id
        self.require_report = require_report
        self.asset = asset
        self.on_loss = on_loss
        self.on_bad_records = on_bad_records
        self.partitioned_asset = partitioned_asset

    def render_template_fields(self, context: Any, jinja_env: Any = None) -> None:
        """A skipped resolve task has pushed no plan: that is an answer. Where the XCom was purged, the log has it."""
        if not isinstance(self.plan, XComArg):
            super().render_template_fields(context, jinja_env)
            return
        plan, self.plan = self._resolved(self.plan, context), None  # what a plan holds is no template
        super().render_template_fields(context, jinja_env)
        self.plan = plan

    def _resolved(self, reference: XComArg, context: Any) -> Any:
        try:
            return reference.resolve(context)
        except (XComNotFound, KeyError):
            skipped = _was_skipped(reference, context)
            return None if skipped else _plan_of_log(reference, context)

    def execute(self, context: Any) -> dict[str, Any]:
        from airflow_kafka_offsets.log.verify_reads import PROVED

        if self.plan is None:
            raise AirflowSkipException("There is no plan: the resolve task was skipped, so there is nothing to commit.")
        try:
            plan = _reference(self.plan)
            pipeline = configured_log(plan["work_store"], plan["pipeline"])
            me = Actor(_resolve_run(plan, context), this_airflow())
            began_ms = now_ms()
            with outcome_counted("commits", pipeline.pipeline_id):
                outcome, left = self._commit(plan, pipeline, me, context, began_ms)
        except RequestError as error:
            raise AirflowFailException(str(error)) from None
        self._done = outcome
        self._publish(context, outcome.plan)
        by_topic, rest = _by_topic(outcome), together((left or {}).values())
        send_commit(pipeline.pipeline_id, outcome, rest, began_ms)
        context["ti"].xcom_push(key=SUMMARY_XCOM, value=shortened(self._say(outcome, rest, by_topic)))
        done = outcome.plan
        backlog = done.found.backlog if done else None
        context["ti"].xcom_push(key=RUNS_LEFT_XCOM, value=backlog.more_runs if backlog else 0)
        lag = values_by_topic({tp: found.lag for tp, found in (left or {}).items() if found.lag})
        whom = {"on_loss": self.on_loss, "on_bad_records": self.on_bad_records}
        call_for_batch(outcome, me.run, context, plan, **whom)
        return {
            "batch": done.batch.key if done else None,
            "plan_id": done.plan_id if done else None,
            "group_id": done.asked.group_id if done else None,
            "proof": PROVED[outcome.proof] if outcome.proof else None,
            "set_aside": outcome.fates.set_aside,
            "left_out": outcome.fates.left_out,
            "topics": by_topic if fits(by_topic) else {},
            "partitions_written": len(outcome.written),
            "not_committed": outcome.group.left_alone,
            "lag": rest.lag,
            "margin_ms": rest.margin_ms,
            "lag_by_topic": lag if fits(lag) else {},
        }

    def _commit(
        self, plan: Mapping[str, Any], pipeline: PipelineLog, me: Actor, context: Any, at_ms: int
    ) -> tuple[CommitOutcome, dict[TopicPartition, LagAndMargin] | None]:
        """What was committed, and what is left in each partition, as far as that is known."""
        # The engine is imported where it runs: a DAG's file is parsed often.
        from airflow_kafka_offsets.batch.engine import commit_batch
        from airflow_kafka_offsets.batch.look_ups import World
        from airflow_kafka_offsets.batch.measured_lag import left_by
        from airflow_kafka_offsets.batch.orders import Commit, PlanReference

        self.log.info(
            "Pipeline %s, %s, work store %s",
            pipeline.pipeline_id,
            f"{plan['stored_as']}, plan {plan['plan_id']}" if plan["stored_as"] else "nothing to do",
            pipeline.store.uri,
        )
        limit = plan.get("bad_records_limit")
        order = Commit(
            PlanReference(plan["stored_as"], plan["plan_id"]),
            me,
            at_ms,
            self.require_report,
            None if limit is None else parse_limit(limit),
            () if self.require_report else self._not_done(me.run, context),
        )
        steps: dict[Step, Gauge] = {"decide": "verify_seconds", "carry out": "commit_seconds"}
        around = AirflowSurroundings(context, pipeline.pipeline_id, steps)
        with kafka_hook(self.kafka_config_id).open_cluster() as cluster:
            done = commit_batch(order, World(pipeline, cluster, around))
            plan_done = done.plan
            left = None if plan_done is None or plan_done.asked.window else left_by(plan_done, cluster, order.now_ms)
        return done, left

    def _not_done(self, resolve: RunKey | None, context: Any) -> tuple[str, ...]:
        """The tasks between resolve and this one that have not succeeded, where they leave open who has read the batch.

        Each that comes next after resolve has to, and then one way of tasks from there to here as a whole: what was
        skipped may be the task that reads. A task beside such a way (a quality check) may be skipped. Where the plans
        of a mapped resolve task come together, all have to. Where some tasks are given what resolve has pushed, one of
        them has to be on the way: else a branch has chosen another one.
        """
        dag = self.get_dag()
        if resolve is None or dag is None or not dag.has_task(resolve.task_id):
            return ()
        first = dag.get_task(resolve.task_id)
        between = first.get_flat_relative_ids(upstream=False) & self.get_flat_relative_ids(upstream=True)
        if not between:
            return (f"{self.task_id}: no task that could have read stands before it (read >> {self.task_id})",)
        before = {name: dag.get_task(name).upstream_task_ids & between for name in between}
        group = first.get_closest_mapped_task_group()
        open_ = {n: not_successful(dag.get_task(n), first, context, resolve.map_index) for n in sorted(between)}
        way: set[str] = set()
        while more := {n for n in between - way if not open_[n] and (not before[n] or before[n] & way)}:
            way |= more
        must = {name for name in between if not before[name]}
        if not way & self.upstream_task_ids or (resolve.map_index >= 0 and group is None):
            must = between
        elif (given := {name for name in between if is_given(dag.get_task(name), first.task_id)}) and not way & given:
            must |= given
        return tuple(line for name in sorted(must) for line in open_[name])

    def _task_lineage(self, *, is_over: bool) -> TaskLineage:
        from airflow_kafka_offsets.log.task_lineage import TaskLineage, of_plan

        done, servers = self._done, servers_of(self.kafka_config_id)
        if done is not None:
            plan, proof = done.plan, done.proof
            if plan is None:
                return TaskLineage()
            fates = done.fates if proof is not None or plan.empty else None
            return of_plan(plan, servers, fates=fates, writes=True, committed=True, proof=proof)
        if not self.plan or self.plan["stored_as"] is None:
            return TaskLineage()
        pipeline = configured_log(self.plan["work_store"], self.plan["pipeline"])
        batch = pipeline.read(self.plan["stored_as"])
        return of_plan(batch.log.plan, servers, writes=True) if batch is not None else TaskLineage()

    def _publish(self, context: Any, plan: Plan | None) -> None:
        """The asset's event: what was read; or none, where downstream DAGs have nothing new to look at."""
        if self.asset is None:
            return
        if plan is not None and plan.to_read():
            about = {
                "group_id": plan.asked.group_id,
                "batch": plan.batch.key,
                "plan_id": plan.plan_id,
                "window": plan.asked.window_bounds,
            }
            ranges = {p.topic_partition: [p.range.start_offset, p.range.end_offset] for p in plan.to_read()}
            whole = {**about, "topics": values_by_topic(ranges)}
            where = {name: self.plan[name] for name in ("stored_as", "work_store")}
            event = context["outlet_events"][self.asset]
            event.extra = whole if fits(whole) else {**about, **where}
            if self.partitioned_asset and context.get("partition_key") is None and plan.asked.window_bounds is not None:
                event.add_partitions(partition_key(plan.asked.window_bounds[0]))
        else:  # Airflow makes an event of each outlet that a task has when it succeeds
            self.outlets = [outlet for outlet in self.outlets if outlet != self.asset]
            self.log.info("Asset %s gets no event: nothing was read", self.asset.name)

    def _say(self, outcome: CommitOutcome, left: LagAndMargin, by_topic: Mapping[str, Mapping[str, Any]]) -> str:
        """Log what happened to the group, then in one sentence what was committed and what is left."""
        from airflow_kafka_offsets.batch.messages import committed_sentence

        plan = outcome.plan
        last = committed_sentence(plan, outcome.proof, left, by_this=outcome.by_this, fates=outcome.fates)
        if outcome.group.left_alone:
            level = logging.WARNING if outcome.group.is_behind else logging.INFO
            self.log.log(level, "The group was left alone: %s", outcome.group.left_alone)
        else:
            self.log.info(
                "The group follows in %s:\n%s",
                counted(len(outcome.written), "partition"),
                moves_table(outcome.written),
            )
        for topic, counts in by_topic.items():
            words = "%s → %s: %d rows, %d set aside as bad, %d left out"
            self.log.info(words, topic, *counts.values())
        self.log.log(logging.WARNING if plan is not None and plan.lost + plan.skipped else logging.INFO, last)
        return last


def _by_topic(outcome: CommitOutcome) -> dict[str, dict[str, Any]]:
    """Where each topic has an output of its own: what it has of the batch."""
    output = outcome.plan.asked.output if outcome.plan else None
    if output is None or TOPIC not in output:
        return {}
    names = ("rows", "set_aside", "left_out")
    return {
        topic: {"output": of_topic(output, topic), **dict(zip(names, counts, strict=True))}
        for topic, counts in outcome.fates.topics.items()
    }


def partition_key(start_ms: int) -> str:
    """Of the window that begins then, as ``CronPartitionTimetable`` and Airflow's mappers write it by default."""
    try:
        start = datetime.fromtimestamp(start_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):  # past the year 9999; the batch is committed by now
        return iso(start_ms)
    millis = f".{start_ms % 1000:03d}" if start_ms % 1000 else ""
    return f"{start:%Y-%m-%dT%H:%M:%S}{millis}"


def _refuse_wrong_kinds(require_report: Any, asset: Any, partitioned_asset: Any, wrong: list[str]) -> None:
    """:raises InvalidRequest: with every problem, and those that are known already."""
    if str(require_report) not in ("True", "False", "read-back"):  # 1 is none of them
        wrong.append(f"require_report is {require_report!r}; give True, False or 'read-back'.")
    if not isinstance(asset, Asset | None):
        wrong.append(f"asset is {asset!r}; give an airflow.sdk.Asset.")
    if partitioned_asset is not False and (partitioned_asset is not True or asset is None):
        wrong.append(f"partitioned_asset is {partitioned_asset!r}; give True together with an asset, or leave it out.")
    elif partitioned_asset and not ASSET_EVENTS_HAVE_KEYS:
        wrong.append("partitioned_asset needs Airflow 3.3: before, a task cannot give its event a key. Leave it out.")
    refuse(wrong)


def refuse_depends_on_past(*tasks: Any) -> None:
    """Run N + 1 holds a batch and waits for a task of run N; that run, cleared, waits for that batch.

    :raises ValueError: one of the tasks, or of a task group's, depends on its own past.
    """
    waiting = [
        operator.task_id
        for task in tasks
        for operator in _operators_of(task)
        if operator.depends_on_past or operator.wait_for_downstream
    ]
    if waiting:
        raise ValueError(
            f"{' and '.join(waiting)} cannot have depends_on_past or wait_for_downstream (perhaps of default_args): a "
            "cleared run would wait for a run that waits for it. Batches are done one after the other anyway. Set it "
            "on tasks before resolve, if at all."
        )


def _operators_of(task: Any) -> Iterable[Any]:
    if isinstance(task, TaskGroup):
        return task.iter_tasks()
    if isinstance(task, XComArg):  # what a @task function returns
        return [operator for operator, _ in task.iter_references()]
    return [task]


def _reference(plan: Any) -> Mapping[str, Any]:
    """:raises InvalidRequest: it is not what the resolve task pushes."""
    if not isinstance(plan, Mapping) or not {"stored_as", "plan_id", "work_store", "pipeline"} <= plan.keys():
        raise InvalidRequest(
            (
                f"plan is a {type(plan).__name__}, and not what the resolve task pushes under the key 'plan': give "
                'plan=resolve.output["plan"]. Of a mapped resolve task that is a sequence: let a task return it as a '
                "list, and use CommitOffsetsOperator.partial(…).expand(plan=…).",
            )
        )
    return plan


def _resolve_run(plan: Mapping[str, Any], context: Any) -> RunKey:
    """The resolve task's instance: it is the one that took the batch."""
    me = run_key(context)
    taken = plan.get("taken_by") or {}
    return RunKey(me.dag_id, me.run_id, taken.get("task_id", me.task_id), taken.get("map_index", me.map_index))


def _plan_of_log(reference: XComArg, context: Any) -> dict[str, Any]:
    """What the resolve task pushed, made from the log's record of the batch that the run took.

    Which plan Spark was given is not known then. The reports show it; or else the commit looks who has the batch.

    :raises AirflowFailException: the resolve task has not taken a batch, or it is not known where it would be.
    """
    resolve = next((operator for operator, _ in reference.iter_references()), None)
    if not isinstance(resolve, ResolveStartupOffsetsOperator):
        raise _no_plan(
            f"There is no XCom 'plan' of task {getattr(resolve, 'task_id', '?')}, and only for a "
            "ResolveStartupOffsetsOperator that is not mapped the work store can be asked instead. Clear that task."
        )
    resolve = copy(resolve)
    for name in ("kafka_config_id", "group_id", "pipeline_id", "work_store", "bad_records"):
        setattr(resolve, name, resolve.render_template(getattr(resolve, name), context))
    run = RunKey(context["ti"].dag_id, context["ti"].run_id, resolve.task_id)
    try:
        pipeline = resolve.pipeline_log(context, kafka_hook(resolve.kafka_config_id))
    except RequestError as error:
        raise AirflowFailException(str(error)) from None
    taken = pipeline.batch_of_run(run)
    if taken is None:
        raise _no_plan(
            f"There is no XCom 'plan' of task {resolve.task_id}, and pipeline {pipeline.pipeline_id!r} in work store "
            f"{pipeline.store.uri} has no batch of this run: there is nothing to commit. Clear task {resolve.task_id}."
        )
    batch = pipeline.read(taken.folder) if taken.folder else None
    return {
        "pipeline": pipeline.pipeline_id,
        "work_store": pipeline.store.uri,
        "stored_as": taken.folder,
        "plan_id": batch.log.plan.plan_id if batch else None,
        "taken_by": {"task_id": run.task_id, "map_index": run.map_index},
        **resolve.about_bad_records(),
    }


def _no_plan(problem: str) -> AirflowFailException:
    return AirflowFailException(str(InvalidRequest((problem,))))


def _was_skipped(reference: XComArg, context: Any) -> bool:
    ti = context["ti"]
    task_ids = [operator.task_id for operator, _ in reference.iter_references()]
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=task_ids, run_ids=[ti.run_id])
    return "skipped" in states.get(ti.run_id, {}).values()
