"""The task group of a batch, with all trigger rules set; and what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict, Unpack, cast

from airflow.sdk import Asset, TaskGroup, XComArg, chain
from airflow.sdk.definitions._internal.mixins import DependencyMixin

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import IsolationLevel
from airflow_kafka_offsets.operators.batch_callbacks import Callbacks
from airflow_kafka_offsets.operators.commit import CommitOffsetsOperator, refuse_depends_on_past
from airflow_kafka_offsets.operators.resolve import ResolveStartupOffsetsOperator
from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from airflow_kafka_offsets.request.modes import (
    AtTimestamp,
    BoundedModeName,
    Offsets,
    RequireReport,
    SplitBy,
    StartupModeName,
    Times,
)
from airflow_kafka_offsets.request.policies import CommitMode, PolicyAnswers, ResetStrategy
from airflow_kafka_offsets.sensors.partition_discovery import PartitionDiscoverySensor
from airflow_kafka_offsets.sensors.waiting_sensor import WaitingSensor
from airflow_kafka_offsets.sensors.window_complete import WindowCompleteSensor
from airflow_kafka_offsets.spark.sinks.sink_arguments import BadRecordWords, SinkWords
from airflow_kafka_offsets.values.row_definition import FieldWords, Tombstones


def kafka_spark_batch(
    name: str,
    /,
    *,
    sink: SinkWords | None = None,
    application: str | None = None,
    submit: Callable[[XComArg], DependencyMixin] | None = None,
    spark: Mapping[str, Any] | None = None,
    sensor: DiscoveryParameters | Literal[False] | None = None,
    wait_for_window: bool | WindowParameters | None = None,
    before_commit: Sequence[DependencyMixin] = (),
    require_report: RequireReport = True,
    asset: Asset | None = None,
    on_loss: Callbacks = None,
    on_bad_records: Callbacks = None,
    partitioned_asset: bool = False,
    output: str | None = None,
    **parameters: Unpack[Parameters],
) -> TaskGroup:
    """A task group: wait for partitions → for the window → resolve → Spark, a job a split → ``before_commit`` → commit.

    If there is nothing to read, Spark is not started, and the group's offsets are written again so that they do not
    expire. If there is something to read, it is committed only with matching reports. If resolve is skipped, so is the
    commit.

    Give one of ``sink``, ``application`` and ``submit``; ``submit`` may have a ``sink``.

    :param name: the task group's ``group_id``, as ``TaskGroup`` takes it. Its tasks are ``wait_for_partitions``,
        ``wait_for_window``, ``resolve``, ``spark`` and ``commit``. (``group_id=`` is the consumer group.)
    :param sink: what is written, by the job that is in this package: ``{"format": "parquet", "path": "/lake/orders"}``.
        See :class:`~airflow_kafka_offsets.spark.sinks.sink_arguments.SinkWords`.
    :param application: a PySpark job of your own, which calls :func:`airflow_kafka_offsets.spark.for_each_batch`.
    :param submit: a callable that makes the mapped task from the resolve task's output, one list of
        ``application_args`` for each split; instead of ``SparkSubmitPlanOperator``: docs/submitting.md. With a
        ``sink``, what it starts is the job that is in this package.
    :param spark: further arguments of ``SparkSubmitPlanOperator`` (``conn_id``, ``conf``, ``packages``, …). Spark reads
        with the resolve task's Kafka connection; ``{"kafka": "kafka_spark"}`` names another one for it.
    :param sensor: further arguments of ``PartitionDiscoverySensor`` (``min_partitions``, ``timeout``, …). ``False``: no
        sensor. The topics are there, so a run is a task shorter; where one is missing, the resolve task fails.
    :param wait_for_window: whether records before the end are waited for (``WindowCompleteSensor``), or further
        arguments of that sensor (``timeout``, ``deferrable``, …). Default: where ``bounded_mode`` is ``timestamp``.
    :param output: what the job writes, a path or a table: no other pipeline is given it. A ``sink`` says that itself.
    :param before_commit: tasks that must succeed, or be skipped, between Spark and the commit: a quality check, a
        merge. They run side by side unless you order them yourself.
    :param require_report: see ``CommitOffsetsOperator``.
    :param asset: see ``CommitOffsetsOperator``.
    :param on_loss: whom to call where a batch has lost records: see ``CommitOffsetsOperator``.
    :param on_bad_records: whom to call where records were set aside as bad: see ``CommitOffsetsOperator``.
    :param partitioned_asset: see ``CommitOffsetsOperator``.
    :param parameters: those of ``ResolveStartupOffsetsOperator``, by their names (``topics``, ``group_id``,
        ``startup_mode``, ``max_records``, …): the sensors and the commit task get what they share. Those of every task
        (``retries``, ``pool``, ``queue``, …), and those of ``TaskGroup`` (``default_args``, ``prefix_group_id``,
        ``tooltip``, …). What is not given is left to the DAG's ``default_args``.
    :raises InvalidRequest: a value is wrong, whatever its templates give; every problem is named.
    :raises TypeError: there is no such parameter.
    :raises ValueError: a task between resolve and commit depends on its own past: a cleared run would wait for a run
        that waits for it.
    """
    _refuse_names(name, parameters, sensor, wait_for_window)
    if (application is None) == (sink is None and submit is None):
        raise InvalidRequest(
            (
                f"kafka_spark_batch({name!r}): give exactly one of sink= (such as "
                '{"format": "parquet", "path": "/lake/orders"}), application= (a PySpark job of your own) and submit=. '
                "A sink= with submit= is for a job there that is the one in this package.",
            )
        )
    resolve: dict[str, Any] = _those_of(BatchParameters, parameters)
    resolve |= {name: value for name, value in (("sink", sink), ("output_name", output)) if value is not None}
    with _group(name, parameters) as group:
        plan = ResolveStartupOffsetsOperator(task_id="resolve", **resolve)
        waits: list[Any] = []
        if sensor is not False:
            given = {"resolve_task_id": plan.task_id, **_shared(plan, PartitionDiscoverySensor), **(sensor or {})}
            waits.append(PartitionDiscoverySensor(task_id="wait_for_partitions", **given))
        if wait_for_window is None:
            wait_for_window = plan.bounded_mode == AtTimestamp.name
        if wait_for_window is not False:
            more = wait_for_window if isinstance(wait_for_window, Mapping) else {}
            given = {"task_id": "wait_for_window", "end": plan.bounded_timestamp, "resolve_task_id": plan.task_id}
            waits.append(WindowCompleteSensor(**{**given, **_shared(plan, WindowCompleteSensor), **more}))
        chain(*waits, plan)
        read = submit(plan.output) if submit is not None else _spark_task(plan, application, spark)
        commit = CommitOffsetsOperator(
            task_id="commit",
            plan=XComArg(plan, key="plan"),
            kafka_config_id=plan.kafka_config_id,
            require_report=require_report,
            asset=asset,
            on_loss=on_loss,
            on_bad_records=on_bad_records,
            partitioned_asset=partitioned_asset,
        )
    read >> commit
    for task in before_commit:
        read >> task >> commit
    refuse_depends_on_past(read, *before_commit)
    return group


def _spark_task(
    plan: ResolveStartupOffsetsOperator, application: str | None, spark: Mapping[str, Any] | None
) -> DependencyMixin:
    own = {} if application is None else {"application": application}
    partial = SparkSubmitPlanOperator.partial(task_id="spark", **own, **(spark or {}))
    return cast(DependencyMixin, partial.expand(application_args=plan.output))


def _group(name: str, parameters: Parameters) -> TaskGroup:
    """Makes the group. A task's own parameters win over the group's ``default_args``, and these over the DAG's."""
    about: dict[str, Any] = _those_of(GroupParameters, parameters)
    every_task: Any = {**(about.pop("default_args", None) or {}), **_those_of(TaskParameters, parameters)}
    return TaskGroup(name, default_args=every_task, **about)


def _refuse_names(name: str, parameters: Parameters, sensor: Any, wait_for_window: Any) -> None:
    """:raises TypeError: a parameter that no task has, or one that has to be given once for all tasks."""
    window = {} if wait_for_window is None or isinstance(wait_for_window, bool) else wait_for_window
    for where, given, kind in (
        (f"kafka_spark_batch({name!r})", parameters, Parameters),
        ("sensor", sensor or {}, DiscoveryParameters),
        ("wait_for_window", window, WindowParameters),
    ):
        unknown = sorted(set(cast(Any, given)) - kind.__annotations__.keys())
        if not unknown:
            continue
        shared = [word for word in unknown if word in BatchParameters.__annotations__]
        hint = (
            f"{', '.join(shared)} is said once, to kafka_spark_batch itself."
            if shared
            else "What holds for the Spark task alone goes into spark=, for the first sensor into sensor=."
        )
        raise TypeError(f"{where} has no parameter {', '.join(unknown)}. {hint}")


def _those_of(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in kind.__annotations__}


def _shared(plan: ResolveStartupOffsetsOperator, sensor: type[WaitingSensor]) -> dict[str, Any]:
    """The parameters that the sensor has in common with the resolve task, as that one has them."""
    return {name: getattr(plan, name) for name in sensor.template_fields if name in plan.template_fields}


# ── the parameters, as types: an editor completes the names and knows the values ──────────────────────────────────────
# None of them has a default here: what is not given is left to each task, and so to the DAG's ``default_args``.


class BatchParameters(TypedDict, total=False):
    """The parameters of ``ResolveStartupOffsetsOperator``, which documents them; ``output_name`` is ``output`` here."""

    kafka_config_id: str
    topics: Sequence[str] | str | None
    group_id: str | None
    startup_mode: StartupModeName | str
    bounded_mode: BoundedModeName | str
    max_records: int | str | None
    splits: int | str
    policies: PolicyAnswers | Sequence[str] | str | None
    topic_pattern: str | None
    partitions: Mapping[str, Sequence[int]] | str | None
    isolation_level: IsolationLevel | str | None
    pipeline_id: str | None
    startup_timestamp: Times | None
    specific_offsets: Offsets | None
    auto_offset_reset: ResetStrategy | str | None
    bounded_timestamp: Times | None
    bounded_offsets: Offsets | None
    partition_width: str | timedelta | None
    require_complete_window: bool | str
    idle_timeout: timedelta | float | str | None
    from_plan: Mapping[str, Any] | str | None
    max_records_per_partition: int | str | None
    split_by: SplitBy | str
    commit_mode: CommitMode | str
    hold: Sequence[str] | str | None
    min_retention_margin: timedelta | float | str | None
    filter_restored_partitions: bool | str
    restart: str | None
    overlap_timeout: timedelta | float | str
    work_store: str | None
    value: FieldWords | None
    key: FieldWords | None
    tombstones: Tombstones | str
    select: Sequence[str] | None
    where: str | None
    expect: Mapping[str, str] | None
    bad_records: BadRecordWords | None
    application_args: Sequence[str]


class TaskParameters(TypedDict, total=False):
    """What Airflow's ``BaseOperator`` takes, for each task of the group."""

    retries: int | None
    retry_delay: timedelta | float
    retry_exponential_backoff: float
    max_retry_delay: timedelta | float | None
    retry_policy: Any
    execution_timeout: timedelta | None
    pool: str | None
    pool_slots: int
    queue: str
    priority_weight: int
    weight_rule: str
    executor: str | None
    executor_config: dict[str, Any] | None
    owner: str
    email: str | Sequence[str] | None
    email_on_failure: bool
    email_on_retry: bool
    on_execute_callback: Any
    on_failure_callback: Any
    on_success_callback: Any
    on_retry_callback: Any
    on_skipped_callback: Any
    run_as_user: str | None
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None


class GroupParameters(TypedDict, total=False):
    """What Airflow's ``TaskGroup`` takes besides its ``group_id``, which is ``kafka_spark_batch``'s first argument."""

    prefix_group_id: bool
    parent_group: Any
    default_args: dict[str, Any] | None
    group_display_name: str
    tooltip: str
    doc_md: str | None
    ui_color: str
    ui_fgcolor: str
    add_suffix_on_collision: bool


class Parameters(BatchParameters, TaskParameters, GroupParameters, total=False):
    """All parameters that go to the tasks."""


class SensorParameters(TaskParameters, total=False):
    """What a sensor of the group takes besides what it shares with the resolve task."""

    poke_interval: timedelta | float
    timeout: timedelta | float
    soft_fail: bool
    never_fail: bool
    silent_fail: bool
    mode: Literal["poke", "reschedule"]
    exponential_backoff: bool
    max_wait: timedelta | float | None
    deferrable: bool
    depends_on_past: bool
    wait_for_downstream: bool


class DiscoveryParameters(SensorParameters, total=False):
    """Of ``PartitionDiscoverySensor``."""

    min_partitions: int


class WindowParameters(SensorParameters, total=False):
    """Of ``WindowCompleteSensor``."""

    clock_skew: timedelta | float | str
