"""The tasks of a batch, wired so that nobody has to know about trigger rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.sdk import Asset, TaskGroup, XComArg
from airflow.sdk.definitions._internal.mixins import DependencyMixin

from airflow_kafka_offsets.offsets.request.modes import UntilTimestamp
from airflow_kafka_offsets.operators.commit import CommitOffsetsOperator, refuse_depends_on_past
from airflow_kafka_offsets.operators.resolve import PARAMETERS, ResolveStartupOffsetsOperator
from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from airflow_kafka_offsets.sensors.partition_discovery import PartitionDiscoverySensor
from airflow_kafka_offsets.sensors.window_complete import WindowCompleteSensor

_SUBSCRIPTION = ("kafka_config_id", "topics", "topic_pattern", "partitions", "include_internal_topics")
_OF_THE_RESOLVE = frozenset(PARAMETERS) - {"output_name"}  # here it is called output
_OF_THE_SENSOR = (*_SUBSCRIPTION, "group_id", "checkpoint_id", "work_store")
_OF_THE_WINDOW = (*_SUBSCRIPTION, "isolation_level", "idle_timeout", "partition_width")


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
    output: str | None = None,
    **resolve: Any,
) -> TaskGroup:
    """A task group: wait for partitions → for the window → resolve → Spark, a job a split → ``before_commit`` → commit.

    With nothing to read, Spark is not started and the group is still renewed. With something to read, no matching
    report means no commit. A skipped resolve skips the commit.

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
    :param resolve: every parameter of ``ResolveStartupOffsetsOperator``, by its name: ``topics``, ``group_id``,
        ``startup_mode``, ``max_records``, …; ``output_name`` is ``output`` here. The sensors and the commit task get
        those that they have too. A DAG's ``default_args`` reach all of them.
    :raises ValueError: neither or both of ``application`` and ``submit`` are given; or a task between resolve and
        commit depends on its own past: a cleared run would wait for a run that waits for it.
    :raises TypeError: there is no such parameter.
    """
    if (application is None) == (submit is None):
        raise ValueError(f"kafka_spark_batch({name!r}): give either application= (with spark=) or submit=.")
    unknown = sorted(resolve.keys() - _OF_THE_RESOLVE)
    if unknown:
        raise TypeError(
            f"kafka_spark_batch({name!r}) has no parameter {', '.join(unknown)}. What holds for all of its tasks, such "
            "as retries, goes into the DAG's default_args; what holds for one of them into spark= or sensor=."
        )
    if output is not None:
        resolve["output_name"] = output
    with TaskGroup(name) as group:
        plan = ResolveStartupOffsetsOperator(task_id="resolve", **resolve)
        wait = PartitionDiscoverySensor(
            task_id="wait_for_partitions",
            resolve_task_id=plan.task_id,
            **{**_of(plan, _OF_THE_SENSOR), **(sensor or {})},
        )
        wait >> plan
        if wait_for_window is None:
            wait_for_window = plan.bounded_mode == UntilTimestamp.name
        if wait_for_window is not False:
            more = wait_for_window if isinstance(wait_for_window, Mapping) else {}
            given = {"task_id": "wait_for_window", "end": plan.bounded_timestamp, **_of(plan, _OF_THE_WINDOW)}
            wait >> WindowCompleteSensor(**{**given, **more}) >> plan
        if submit is not None:
            read = submit(plan.output)
        else:
            read = SparkSubmitPlanOperator.partial(task_id="spark", application=application, **(spark or {})).expand(
                application_args=plan.output
            )
        commit = CommitOffsetsOperator(
            task_id="commit",
            plan=XComArg(plan, key="plan"),
            kafka_config_id=plan.kafka_config_id,
            require_report=require_report,
            asset=asset,
        )
    read >> commit
    for task in before_commit:
        read >> task >> commit
    refuse_depends_on_past(read, *before_commit)
    return group


def _of(plan: ResolveStartupOffsetsOperator, names: Sequence[str]) -> dict[str, Any]:
    """The parameters that another task shares with the resolve task, as that one has them."""
    return {name: getattr(plan, name) for name in names}
