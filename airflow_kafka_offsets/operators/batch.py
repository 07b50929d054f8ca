"""The tasks of a batch, wired so that nobody has to know about trigger rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Asset, TaskGroup, XComArg
from airflow.sdk.definitions._internal.mixins import DependencyMixin

from airflow_kafka_offsets.offsets.spec import UntilTimestamp
from airflow_kafka_offsets.operators.commit import CommitOffsetsOperator
from airflow_kafka_offsets.operators.resolve import ResolveStartupOffsetsOperator
from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from airflow_kafka_offsets.sensors.partition_discovery import PartitionDiscoverySensor
from airflow_kafka_offsets.sensors.window_complete import WindowCompleteSensor

_OF_BOTH = (
    "topics",
    "topic_pattern",
    "partitions",
    "include_internal_topics",
    "group_id",
    "checkpoint_id",
    "work_store",
)
_OF_THE_WINDOW = (
    "topics",
    "topic_pattern",
    "partitions",
    "include_internal_topics",
    "isolation_level",
    "idle_timeout",
    "partition_width",
)


def kafka_spark_batch(
    name: str,
    *,
    application: str,
    spark: Mapping[str, Any] | None = None,
    sensor: Mapping[str, Any] | None = None,
    wait_for_window: bool | Mapping[str, Any] | None = None,
    before_commit: Sequence[DependencyMixin] = (),
    kafka_config_id: str = "kafka_default",
    commit_mode: str | None = None,
    fencing: str = "transaction",
    require_report: bool = True,
    asset: Asset | None = None,
    **resolve: Any,
) -> TaskGroup:
    """A task group: wait for partitions → for the window → resolve → Spark, a job a split → ``before_commit`` → commit.

    With nothing to read, Spark is not started and the position is still fixed. With something to read, no matching
    report means no commit. A skipped resolve skips the commit.

    :param name: the group's id and its tasks' prefix: ``wait_for_partitions``, ``wait_for_window``, ``resolve``,
        ``spark``, ``commit``.
    :param application: the PySpark job, which reads with :func:`airflow_kafka_offsets.spark.read_plan`.
    :param spark: further arguments of ``SparkSubmitOperator`` (``conn_id``, ``jars``, ``conf``, …).
    :param sensor: further arguments of ``PartitionDiscoverySensor`` (``min_partitions``, ``timeout``, …).
    :param wait_for_window: whether records before the end are waited for (``WindowCompleteSensor``), or further
        arguments of that sensor (``timeout``, ``deferrable``, …). Default: where ``bounded_mode`` is ``timestamp``.
    :param before_commit: tasks that must succeed, or be skipped, between Spark and the commit: a quality check, a
        merge. They run side by side unless you order them yourself.
    :param asset: an outlet of the commit, whose event says what was read; see ``CommitOffsetsOperator``.
    :param resolve: further arguments of ``ResolveStartupOffsetsOperator``: ``topics``, ``startup_mode``, ``splits``, …
    """
    subscription = {name: resolve[name] for name in _OF_BOTH if name in resolve}
    with TaskGroup(name) as group:
        wait = PartitionDiscoverySensor(
            task_id="wait_for_partitions",
            kafka_config_id=kafka_config_id,
            resolve_task_id=f"{group.group_id}.resolve",
            **subscription,
            **(sensor or {}),
        )
        plan = ResolveStartupOffsetsOperator(task_id="resolve", kafka_config_id=kafka_config_id, **resolve)
        read = SparkSubmitPlanOperator.partial(task_id="spark", application=application, **(spark or {})).expand(
            application_args=plan.output
        )
        commit = CommitOffsetsOperator(
            task_id="commit",
            plan=XComArg(plan, key="plan"),
            kafka_config_id=kafka_config_id,
            commit_mode=commit_mode,
            fencing=fencing,
            require_report=require_report,
            asset=asset,
        )
        if wait_for_window is None:
            wait_for_window = resolve.get("bounded_mode") == UntilTimestamp.name
        if wait_for_window is not False:
            window = WindowCompleteSensor(
                **{
                    "task_id": "wait_for_window",
                    "kafka_config_id": kafka_config_id,
                    "end": resolve.get("bounded_timestamp"),
                    **{name: resolve[name] for name in _OF_THE_WINDOW if name in resolve},
                    **(wait_for_window if isinstance(wait_for_window, Mapping) else {}),
                }
            )
            wait >> window >> plan
    wait >> plan
    read >> commit
    for task in before_commit:
        read >> task >> commit
    return group
