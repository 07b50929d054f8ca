"""The tasks of a batch, wired so that nobody has to know about trigger rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, TaskGroup, XComArg
from airflow.sdk.definitions._internal.mixins import DependencyMixin

from airflow_kafka_offsets.offsets.request.bounds import Offsets, Times
from airflow_kafka_offsets.offsets.request.modes import UntilTimestamp
from airflow_kafka_offsets.offsets.request.parameters import names_of
from airflow_kafka_offsets.offsets.request.scope import ScopeParameters
from airflow_kafka_offsets.operators.commit import CommitOffsetsOperator
from airflow_kafka_offsets.operators.resolve import PARAMETERS, ResolveStartupOffsetsOperator
from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from airflow_kafka_offsets.sensors.partition_discovery import PartitionDiscoverySensor
from airflow_kafka_offsets.sensors.window_complete import WindowCompleteSensor

_OF_THE_SENSOR = (*(name for name in names_of(ScopeParameters) if name != "isolation_level"), "work_store")
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
    application: str | None = None,
    spark: Mapping[str, Any] | None = None,
    submit: Callable[[XComArg], DependencyMixin] | None = None,
    sensor: Mapping[str, Any] | None = None,
    wait_for_window: bool | Mapping[str, Any] | None = None,
    before_commit: Sequence[DependencyMixin] = (),
    require_report: bool = True,
    asset: Asset | None = None,
    kafka_config_id: str = "kafka_default",
    topics: Sequence[str] | str | None = None,
    topic_pattern: str | None = None,
    partitions: Mapping[str, Sequence[int]] | str | None = None,
    include_internal_topics: bool = False,
    group_id: str | None = None,
    checkpoint_id: str | None = None,
    isolation_level: str | None = None,
    startup_mode: str = "group-offsets",
    startup_timestamp: Times | None = None,
    specific_offsets: Offsets | None = None,
    auto_offset_reset: str | None = None,
    bounded_mode: str = "latest-offset",
    bounded_timestamp: Times | None = None,
    bounded_offsets: Offsets | None = None,
    partition_width: str | timedelta | None = None,
    require_complete_window: bool = False,
    idle_timeout: timedelta | float | str | None = None,
    max_records: int | None = None,
    max_records_per_partition: int | None = None,
    splits: int = 1,
    split_by: str = "size",
    output: str | None = None,
    commit_mode: str = "on-success",
    fencing: str = "compare",
    filter_restored_partitions: bool = True,
    on_data_loss: str = "fail",
    on_recreated: str = "fail",
    on_cluster_changed: str = "fail",
    on_group_moved: str = "fail",
    on_topic_vanished: str = "fail",
    on_another_airflow: str = "fail",
    restart: str | None = None,
    overlap_timeout: timedelta | float | str = timedelta(hours=12),
    work_store: str | None = None,
    application_args: Sequence[str] = (),
) -> TaskGroup:
    """A task group: wait for partitions → for the window → resolve → Spark, a job a split → ``before_commit`` → commit.

    With nothing to read, Spark is not started and the group is still renewed. With something to read, no matching
    report means no commit. A skipped resolve skips the commit. What is not named here is a parameter of
    ``ResolveStartupOffsetsOperator``.

    :param name: the group's id and its tasks' prefix: ``wait_for_partitions``, ``wait_for_window``, ``resolve``,
        ``spark``, ``commit``.
    :param application: the PySpark job, which calls :func:`airflow_kafka_offsets.spark.for_each_batch`.
    :param spark: further arguments of ``SparkSubmitOperator`` (``conn_id``, ``jars``, ``conf``, …).
    :param submit: in the place of ``application`` and ``spark``: a callable that makes the mapped task from the resolve
        task's output, one list of ``application_args`` for each split.
    :param sensor: further arguments of ``PartitionDiscoverySensor`` (``min_partitions``, ``timeout``, …).
    :param wait_for_window: whether records before the end are waited for (``WindowCompleteSensor``), or further
        arguments of that sensor (``timeout``, ``deferrable``, …). Default: where ``bounded_mode`` is ``timestamp``.
    :param output: what the job writes, a path or a table; the batch's ``output_name``: no other pipeline is given it.
    :param before_commit: tasks that must succeed, or be skipped, between Spark and the commit: a quality check, a
        merge. They run side by side unless you order them yourself.
    :param require_report: see ``CommitOffsetsOperator``; ``asset``: likewise.
    :raises ValueError: neither or both of ``application`` and ``submit`` are given; or a task between resolve and commit
        depends on its own past: a cleared run would wait for a run that waits for it.
    """
    given = {**locals(), "output_name": output}
    if (application is None) == (submit is None):
        raise ValueError(f"kafka_spark_batch({name!r}): give either application= (with spark=) or submit=.")
    with TaskGroup(name) as group:
        wait = PartitionDiscoverySensor(
            task_id="wait_for_partitions",
            kafka_config_id=kafka_config_id,
            resolve_task_id=f"{group.group_id}.resolve",
            **{parameter: given[parameter] for parameter in _OF_THE_SENSOR},
            **(sensor or {}),
        )
        others = ("kafka_config_id", "overlap_timeout", "work_store", "application_args")
        plan = ResolveStartupOffsetsOperator(
            task_id="resolve", **{parameter: given[parameter] for parameter in (*PARAMETERS, *others)}
        )
        if submit is not None:
            read = submit(plan.output)
        else:
            read = SparkSubmitPlanOperator.partial(task_id="spark", application=application, **(spark or {})).expand(
                application_args=plan.output
            )
        commit = CommitOffsetsOperator(
            task_id="commit",
            plan=XComArg(plan, key="plan"),
            kafka_config_id=kafka_config_id,
            require_report=require_report,
            asset=asset,
        )
        if wait_for_window is None:
            wait_for_window = bounded_mode == UntilTimestamp.name
        if wait_for_window is not False:
            window = WindowCompleteSensor(
                **{
                    "task_id": "wait_for_window",
                    "kafka_config_id": kafka_config_id,
                    "end": bounded_timestamp,
                    **{parameter: given[parameter] for parameter in _OF_THE_WINDOW},
                    **(wait_for_window if isinstance(wait_for_window, Mapping) else {}),
                }
            )
            wait >> window >> plan
    wait >> plan
    read >> commit
    for task in before_commit:
        read >> task >> commit
    _refuse_depends_on_past(read, commit, *before_commit)
    return group


def _refuse_depends_on_past(*tasks: Any) -> None:
    """Run N + 1 holds a batch and waits for run N's Spark task; run N, cleared, waits for that batch."""
    for task in tasks:
        past = getattr(task, "depends_on_past", None) or getattr(task, "partial_kwargs", {}).get("depends_on_past")
        if past:
            raise ValueError(
                f"Task {task.task_id} depends on its own past: a cleared run would wait for a run that waits for it. Set "
                "depends_on_past on the resolve task's sensor, or not at all: batches are done in their order anyway."
            )
