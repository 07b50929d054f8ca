"""The task that decides what a run reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from inspect import signature
from typing import Any

from airflow.sdk import NEVER_EXPIRE, BaseOperator  # type: ignore[attr-defined]  # missing in its stub
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_kafka_offsets.errors import PlanSuperseded, RequestError, listed
from airflow_kafka_offsets.frozen_plans import plan_run
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook, configured_work_store, default_checkpoint_id
from airflow_kafka_offsets.hooks.run_context import (
    lives_in_airflow,
    restart_word,
    run_conf,
    run_key,
    times_of_run,
)
from airflow_kafka_offsets.offsets.assign import started_splits
from airflow_kafka_offsets.offsets.bounds import Times
from airflow_kafka_offsets.offsets.job import job_arguments
from airflow_kafka_offsets.offsets.manifest import plan_from_dict, plan_to_dict, spark_options
from airflow_kafka_offsets.offsets.parse import parse_request
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.spec import GroupOffsets, RunKey, UntilLatest
from airflow_kafka_offsets.planner import request_for
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.runs import StoredPlan, find_plan, store_plan

_FROM_THE_RUN = {"now_ms", "checkpoint_id", "interval", "partition", "run", "run_type"}
REQUEST_PARAMETERS = tuple(name for name in signature(parse_request).parameters if name not in _FROM_THE_RUN)
STATE_KEY = "plan:v1"
INLINE_LIMIT = 500  # partitions; above, the XCom holds the reference and its digest only


class ResolveStartupOffsetsOperator(BaseOperator):
    """Compute each partition's start and end offset, freeze them as the run's plan, and push them for Spark.

    A retry or a clear replays the plan that the run has, whatever Kafka did meanwhile.

    XCom ``return_value``: one list of ``application_args`` for each split that has records, for
    ``SparkSubmitOperator.partial(...).expand(application_args=resolve.output)``; empty when there is nothing to read.
    ``plan``: the plan as JSON (only its reference above 500 partitions), for ``CommitOffsetsOperator``.
    ``starting_offsets``, ``ending_offsets``, ``assign``: option strings of Spark's Kafka source, over all partitions
    with records, for jobs that do not use ``read_plan``.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider.
    :param topics: list of topic names; exactly one of ``topics``, ``topic_pattern`` and ``partitions``.
    :param topic_pattern: regular expression, matched against the whole name; internal topics only with
        ``include_internal_topics``.
    :param partitions: ``{"topic": [0, 2]}``.
    :param group_id: the consumer group; default: the connection's ``group.id``.
    :param startup_mode: ``earliest-offset``, ``latest-offset``, ``timestamp``, ``group-offsets`` (default) or
        ``specific-offsets``. Applied only while this pipeline has no position: later runs go on where the last
        successful one ended.
    :param startup_timestamp: epoch milliseconds, ISO 8601, datetime, or back from when the plan is made: ``now``,
        ``now-2h``, ``-PT2H``. Of several topics, also one for each: ``{"orders": "2026-11-20", "payments": "now-2h"}``.
        Default: the start of the run's data interval, or of its partition.
    :param specific_offsets: ``{"topic": {"0": 42}}``: the next record to read.
    :param auto_offset_reset: ``earliest``, ``latest``, ``none``; default: the connection's, else Kafka's ``latest``.
    :param bounded_mode: ``latest-offset`` (default), ``timestamp``, ``group-offsets`` or ``specific-offsets``.
    :param bounded_timestamp: as ``startup_timestamp``, and the first time not to read; default: the end of the run's
        data interval, or of its partition.
    :param partition_width: how long the partitions of a partitioned DAG are (``CronPartitionTimetable``): an ISO 8601
        duration such as ``PT1H``, or a ``timedelta``; days are days in the timetable's zone.
    :param bounded_offsets: ``{"topic": {"0": 42}}``, every partition: the first record not to read.
    :param isolation_level: ``read_uncommitted`` or ``read_committed``; default: the connection's, else
        ``read_uncommitted``. Spark is told the same.
    :param on_data_loss: ``fail``, ``reset`` (as ``auto_offset_reset`` says) or ``advance`` (to the log start).
    :param on_recreated: a topic with another id than the checkpoint's: ``fail`` or ``earliest``.
    :param on_group_moved: the group is not where the checkpoint saw it: ``fail``, ``adopt-group`` (from there), or
        ``keep-checkpoint``, which may set the group back.
    :param on_topic_vanished: a pattern finds a topic no more that the checkpoint holds: ``fail`` or ``ignore``.
    :param on_superseded: another run has read the records of this run's plan: ``fail``, or ``skip`` this run, where no
        split of it has begun.
    :param re_plan: plan a run anew that has a plan and has not committed it. In a run's conf,
        ``{"kafka_offsets": {"re_plan": true}}``, for that run.
    :param restart: a word, such as today's date, that applies the startup mode once more; the checkpoint records it, so
        that later runs do not. In a run's conf, ``{"kafka_offsets": {"restart": true}}``, for that run.
    :param filter_restored_partitions: whether topics that are no longer subscribed to are left out, as Flink does by
        default; their offsets are kept in either case.
    :param max_records: cap of the run in offsets, shared fairly; the rest is the next run's.
    :param max_records_per_partition: cap of each partition.
    :param splits: how many Spark jobs read the plan.
    :param split_by: ``size`` (balanced) or ``flink`` (Flink's assigner).
    :param require_complete_window: fail where records of the window may still arrive. ``WindowCompleteSensor`` waits
        for it, by the same rule.
    :param idle_timeout: how long after the end a partition without newer records is waited for: a ``timedelta``,
        seconds or an ISO 8601 duration; default: five minutes.
    :param work_store: URI of the work store; default: ``[kafka_offsets] work_store``.
    :param checkpoint_id: what makes two pipelines on one group two; default: group, dag_id, task_id, and the index of
        a mapped task, so one whose list may be reordered needs a checkpoint_id that goes with its topics. A window that
        another run of the same pipeline has is refused: clear that run, or give this task a checkpoint_id of its own.
    :param application_args: the Spark job's own arguments, put before the plan's in each list.
    :raises AirflowFailException: the request is wrong (no retry can help); every problem is named.
    """

    template_fields: Sequence[str] = (
        "kafka_config_id",
        "topics",
        "topic_pattern",
        "partitions",
        "group_id",
        "startup_mode",
        "startup_timestamp",
        "specific_offsets",
        "bounded_mode",
        "bounded_timestamp",
        "bounded_offsets",
        "partition_width",
        "restart",
        "max_records",
        "max_records_per_partition",
        "splits",
        "work_store",
        "checkpoint_id",
        "application_args",
    )
    ui_color = "#e6f2e6"

    def __init__(
        self,
        *,
        kafka_config_id: str = "kafka_default",
        topics: Sequence[str] | str | None = None,
        topic_pattern: str | None = None,
        partitions: Mapping[str, Sequence[int]] | str | None = None,
        include_internal_topics: bool = False,
        group_id: str | None = None,
        startup_mode: str = GroupOffsets.name,
        startup_timestamp: Times | None = None,
        specific_offsets: Mapping[str, Mapping[str, int]] | str | None = None,
        auto_offset_reset: str | None = None,
        bounded_mode: str = UntilLatest.name,
        bounded_timestamp: Times | None = None,
        partition_width: str | timedelta | None = None,
        bounded_offsets: Mapping[str, Mapping[str, int]] | str | None = None,
        isolation_level: str | None = None,
        on_data_loss: str = "fail",
        on_recreated: str = "fail",
        on_group_moved: str = "fail",
        on_topic_vanished: str = "fail",
        on_superseded: str = "fail",
        re_plan: bool = False,
        restart: str | None = None,
        filter_restored_partitions: bool = True,
        max_records: int | None = None,
        max_records_per_partition: int | None = None,
        splits: int = 1,
        split_by: str = "size",
        require_complete_window: bool = False,
        idle_timeout: timedelta | float | str | None = None,
        work_store: str | None = None,
        checkpoint_id: str | None = None,
        application_args: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kafka_config_id = kafka_config_id
        self.topics = topics
        self.topic_pattern = topic_pattern
        self.partitions = partitions
        self.include_internal_topics = include_internal_topics
        self.group_id = group_id
        self.startup_mode = startup_mode
        self.startup_timestamp = startup_timestamp
        self.specific_offsets = specific_offsets
        self.auto_offset_reset = auto_offset_reset
        self.bounded_mode = bounded_mode
        self.bounded_timestamp = bounded_timestamp
        self.bounded_offsets = bounded_offsets
        self.partition_width = partition_width
        self.isolation_level = isolation_level
        self.on_data_loss = on_data_loss
        self.on_recreated = on_recreated
        self.on_group_moved = on_group_moved
        self.on_topic_vanished = on_topic_vanished
        self.on_superseded = on_superseded
        self.re_plan = re_plan
        self.restart = restart
        self.filter_restored_partitions = filter_restored_partitions
        self.max_records = max_records
        self.max_records_per_partition = max_records_per_partition
        self.splits = splits
        self.split_by = split_by
        self.require_complete_window = require_complete_window
        self.idle_timeout = idle_timeout
        self.work_store = work_store
        self.checkpoint_id = checkpoint_id
        self.application_args = application_args

    def execute(self, context: Any) -> list[list[str]]:
        hook = KafkaOffsetsHook(self.kafka_config_id)
        store = configured_work_store(self.work_store)
        run = run_key(context)
        try:
            has_plan = recover_plan(context, store, run) is not None
            request = request_for(hook.client_config, self._parameters(context, run, hook, has_plan))
            with hook.open_cluster() as cluster:
                stored = plan_run(request, run, store, cluster, is_alive=lives_in_airflow(context))
        except RequestError as error:
            raise AirflowFailException(str(error)) from None
        except PlanSuperseded as superseded:
            if self.on_superseded == "skip" and not superseded.outputs:
                raise AirflowSkipException(str(superseded)) from None
            raise
        remember_plan_in_airflow(context, stored.plan)
        self._say(stored.plan)
        self._push(context, stored, store.uri)
        bootstrap_servers = str(hook.client_config["bootstrap.servers"])
        return [
            [
                *map(str, self.application_args),
                *job_arguments(stored.name, stored.plan.plan_id, split, store.uri, bootstrap_servers),
            ]
            for split in started_splits(stored.plan)
        ]

    def _parameters(self, context: Any, run: RunKey, hook: KafkaOffsetsHook, has_plan: bool) -> dict[str, Any]:
        group_id = self.group_id or hook.client_config.get("group.id")
        run_type = context["dag_run"].run_type
        re_plan = run_conf(context).get("re_plan", self.re_plan) in (True, "true", "True")
        return {
            **{name: getattr(self, name) for name in REQUEST_PARAMETERS},
            "restart": restart_word(context) or self.restart,
            "re_plan": re_plan,
            "checkpoint_id": self.checkpoint_id
            or default_checkpoint_id(group_id, run.dag_id, run.task_id, run.map_index),
            **times_of_run(context),
            "run": run,
            # A backfill may reprocess a scheduled run, which keeps its plan; only a new one has to be a window.
            "run_type": "replayed" if has_plan and not re_plan else str(getattr(run_type, "value", run_type)),
        }

    def _say(self, plan: OffsetPlan) -> None:
        for warning in plan.warnings:
            self.log.warning(warning)
        if plan.ignored:
            self.log.warning(
                "Offsets are given for partitions that are not subscribed to: %s", list(map(str, plan.ignored))
            )
        new = [str(p.topic_partition) for p in plan.partitions if p.continuity == "new"]
        if new:
            self.log.info("New since the last plan, read from their log start: %s", listed(new))
        self.log.info(
            "Plan %s: up to %d records of %d partitions (%d of them empty), lost %d, skipped %d",
            plan.plan_id,
            plan.record_count_upper_bound,
            len(plan.partitions),
            len(plan.partitions) - len(plan.to_read()),
            sum(p.lost for p in plan.partitions),
            sum(p.skipped for p in plan.partitions),
        )

    def _push(self, context: Any, stored: StoredPlan, store_uri: str) -> None:
        plan = stored.plan
        as_dict = plan_to_dict(plan)
        if len(plan.partitions) > INLINE_LIMIT:
            del as_dict["topics"]
        ti = context["ti"]
        ti.xcom_push(key="plan", value={**as_dict, "stored_as": stored.name, "work_store": store_uri})
        options = spark_options(plan.to_read())
        ti.xcom_push(key="assign", value=options["assign"])
        ti.xcom_push(key="starting_offsets", value=options["startingOffsets"])
        ti.xcom_push(key="ending_offsets", value=options["endingOffsets"])


def remember_plan_in_airflow(context: Any, plan: OffsetPlan) -> None:
    """A second copy of the run's plan, in Airflow's task state store; a large plan has the work store's copy only."""
    states = context.get("task_state_store")
    if states is not None and len(plan.partitions) <= INLINE_LIMIT:
        states.set(STATE_KEY, plan_to_dict(plan), retention=NEVER_EXPIRE)


def recover_plan(context: Any, store: WorkStore, run: RunKey) -> StoredPlan | None:
    """The run's plan from the work store, or put back there from Airflow's copy: a lost work store loses no plan."""
    kept = find_plan(store, run)
    states = context.get("task_state_store")
    copy = states.get(STATE_KEY) if kept is None and states is not None else None
    return store_plan(store, run, plan_from_dict(copy)) if copy else kept
