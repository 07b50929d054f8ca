"""The task group of a batch: sensor → resolve → Spark → ``before_commit`` → commit → merge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import TaskGroup, XComArg, chain

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets import Bound, GroupOffsets, Timestamp
from airflow_kafka_offsets.operators.commit import CommitOffsetsOperator
from airflow_kafka_offsets.operators.connect import SparkConnectBatchOperator
from airflow_kafka_offsets.operators.merge import ConnectMergeOperator, MergeOperator
from airflow_kafka_offsets.operators.resolve import ResolveStartupOffsetsOperator, depend_on_xcoms
from airflow_kafka_offsets.operators.submit import PACKAGED_JOB, SparkSubmitBatchOperator
from airflow_kafka_offsets.request import check_parameters
from airflow_kafka_offsets.rows.config import Delta, Iceberg, Merge
from airflow_kafka_offsets.rows.job import entity_table
from airflow_kafka_offsets.sensors.partition_discovery import PartitionDiscoverySensor
from airflow_kafka_offsets.sensors.window_complete import WindowCompleteSensor

if TYPE_CHECKING:
    from airflow.sdk.definitions._internal.mixins import DependencyMixin

    from airflow_kafka_offsets.rows.config import Rows

_COMMITTED = GroupOffsets()


def kafka_spark_batch(
    name: str,
    /,
    *,
    topics: Sequence[str] | str | Mapping[str, Sequence[int]],
    group_id: str | None = None,
    start: Bound = _COMMITTED,
    end: Bound = "latest",
    max_records: int | str | None = None,
    on_data_loss: Literal["fail", "advance", "reset"] = "fail",
    exclude: Collection[str] = (),
    shard: tuple[int, int] | None = None,
    filter_restored_partitions: bool = True,
    require_report: bool = True,
    pipeline_id: str | None = None,
    kafka_config_id: str = "kafka_default",
    checkpoint_location: str | None = None,
    rows: Rows | None = None,
    sink: Delta | Iceberg | None = None,
    application: str | None = None,
    spark: Mapping[str, Any] | None = None,
    spark_connect: str | None = None,
    submit: Callable[[str, XComArg], DependencyMixin] | None = None,
    before_commit: Sequence[DependencyMixin] = (),
    merge: Merge | None = None,
    outlets: Sequence[Any] = (),
    sensor: Mapping[str, Any] | Literal[False] | None = None,
    retries: int | None = None,
    default_args: Mapping[str, Any] | None = None,
    **of_task_group: Any,
) -> TaskGroup:
    """A task group that reads a batch from Kafka, writes it with one Spark job and commits it.

    Its tasks are ``wait``, ``resolve``, ``spark``, ``commit`` and, with ``merge``, ``merge``. With nothing to read,
    ``resolve`` is skipped and so are the others.

    The parameters from ``topics`` to ``checkpoint_location`` are those of ``ResolveStartupOffsetsOperator``.

    :param name: the task group's ``group_id``; ``group_id=`` is the consumer group.
    :param rows: how records become rows; default: the columns of Spark's Kafka source.
    :param sink: where the job of this package writes: ``Delta(…)`` or ``Iceberg(…)``.
    :param application: a PySpark job of your own, instead of ``sink``.
    :param spark: arguments of ``SparkSubmitBatchOperator`` (``conn_id``, ``conf``, ``packages``, …).
    :param spark_connect: a connection to a Spark Connect server, such as ``"spark_connect_default"``: the job of this
        package runs in the task itself, and no JVM is started.
    :param submit: makes the Spark task in another way (Kubernetes, Livy, EMR), from the path of the job and the XCom
        with its ``application_args``.
    :param before_commit: tasks between Spark and the commit that must succeed: a quality check.
    :param merge: an entity table that committed batches are merged into: ``Merge("lake.customers", keys=["id"])``.
    :param outlets: assets that the last task publishes.
    :param sensor: arguments of the sensor (``timeout``, ``idle_timeout``, …); ``False``: no sensor. By window it waits
        until the window is complete, else until the topics exist.
    :param retries: of each task; default: those of ``default_args`` or of the DAG's, else 2.
    :param of_task_group: arguments of ``TaskGroup`` (``tooltip``, ``prefix_group_id``, …).
    :raises InvalidRequest: when the DAG is parsed; all problems at once.
    """
    request: dict[str, Any] = {
        "topics": topics,
        "group_id": group_id,
        "start": start,
        "end": end,
        "max_records": max_records,
        "on_data_loss": on_data_loss,
        "exclude": exclude,
        "shard": shard,
        "filter_restored_partitions": filter_restored_partitions,
        "require_report": require_report,
        "pipeline_id": pipeline_id,
    }
    problems = _contradictions(rows, sink, application, spark, spark_connect, submit)
    if merge is not None:
        is_by_window = isinstance(start, Timestamp) and isinstance(end, Timestamp)
        problems += _contradictions_of_merge(merge, sink, submit, shard, is_by_window, require_report)
    try:
        check_parameters(request)
    except InvalidRequest as error:
        problems += error.problems
    if problems:
        raise InvalidRequest(tuple(f"kafka_spark_batch({name!r}): {problem}" for problem in problems))
    with TaskGroup(name, **of_task_group) as group:
        group.default_args |= _default_args(group, default_args, retries)
        where: dict[str, Any] = {"kafka_config_id": kafka_config_id, "checkpoint_location": checkpoint_location}
        resolve = ResolveStartupOffsetsOperator(task_id="resolve", **request, **where)
        resolve.group_name = group.group_id
        if sink is not None:
            resolve.job = (sink, rows, merge)
            depend_on_xcoms(resolve, sink, rows, merge)
        if sensor is not False:
            shared = {"task_id": "wait", "topics": topics, "kafka_config_id": kafka_config_id, **(sensor or {})}
            if isinstance(start, Timestamp) and isinstance(end, Timestamp):
                chain(WindowCompleteSensor(end=end, **shared), resolve)
            else:
                chain(PartitionDiscoverySensor(**shared), resolve)
        job = application or PACKAGED_JOB
        given: dict[str, Any] = {"plan": XComArg(resolve, key="plan")}
        read: DependencyMixin
        if submit is not None:
            read = submit(job, resolve.output)
        elif spark_connect is not None:
            read = SparkConnectBatchOperator(task_id="spark", conn_id=spark_connect, **given)
        else:
            read = SparkSubmitBatchOperator(task_id="spark", application=job, **given, **(spark or {}))
        of_last: dict[str, Any] = {"outlets": list(outlets)}
        commit = CommitOffsetsOperator(task_id="commit", **given, **(of_last if merge is None else {}))
        chain(resolve, read, *([list(before_commit)] if before_commit else []), commit)
        if merge is not None and spark_connect is not None:
            chain(commit, ConnectMergeOperator(task_id="merge", conn_id=spark_connect, **given, **of_last))
        elif merge is not None:
            chain(commit, MergeOperator(task_id="merge", **given, **of_last, **(spark or {})))
    return group


def _default_args(group: TaskGroup, given: Mapping[str, Any] | None, retries: int | None) -> dict[str, Any]:
    """Two retries where neither the DAG nor the group says how many: a retry of a batch is safe."""
    own = {**(given or {}), **({} if retries is None else {"retries": retries})}
    of_dag = group.dag.default_args if group.dag else {}
    return own if "retries" in {**of_dag, **own} else {**own, "retries": 2}


def _contradictions(rows: Any, sink: Any, application: Any, spark: Any, spark_connect: Any, submit: Any) -> list[str]:
    problems = []
    if (sink is None) == (application is None):
        problems.append("give exactly one of sink= (such as Delta('/lake/orders')) and application= (a job of yours).")
    if rows is not None and sink is None:
        problems.append("rows= goes with sink=: a job of yours decodes its records itself.")
    if sum(way is not None for way in (spark, spark_connect, submit)) > 1:
        problems.append("give at most one of spark=, spark_connect= and submit=.")
    if spark_connect is not None and application is not None:
        problems.append("spark_connect= runs the job of this package: give sink=, or submit an application.")
    return problems


def _contradictions_of_merge(
    merge: Any, sink: Any, submit: Any, shard: Any, is_by_window: bool, require_report: Any
) -> list[str]:
    if not isinstance(merge, Merge):
        return [f"merge is {merge!r}; give Merge('lake.customers', keys=['id'])."]
    problems = []
    if not isinstance(sink, Delta | Iceberg):
        problems.append("merge= reads the sink's table: give sink=Delta(…) or Iceberg(…).")
    else:
        try:
            entity_table(sink, merge)
        except InvalidRequest as error:
            problems += [f"merge: {problem}" for problem in error.problems]
    if is_by_window and not merge.order_by:
        problems.append("windows may be written in any order: give Merge(order_by=[…]), or batches in sequence.")
    if shard is not None:
        problems.append("merge= needs all partitions in one pipeline: leave out shard=.")
    if submit is not None:
        problems.append("merge= runs a Spark task of this package: leave out submit=.")
    if require_report is False:
        problems.append("merge= needs verified batches: leave out require_report=False.")
    return problems
