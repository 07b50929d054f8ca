# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The task group of a batch: sensor → resolve → Spark → ``before_commit`` → commit → merge."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseOperator, TaskGroup, XComArg, chain

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.operators.batch import (
    contradictions,
    contradictions_of_merge,
    default_retries,
    make_sensor,
)
from airflow_kafka_offsets.operators.commit import CommitOffsetsOperator
from airflow_kafka_offsets.operators.connect import SparkConnectBatchOperator
from airflow_kafka_offsets.operators.merge import ConnectMergeOperator, MergeOperator
from airflow_kafka_offsets.operators.resolve import ResolveStartupOffsetsOperator
from airflow_kafka_offsets.operators.submit import PACKAGED_JOB, SparkSubmitBatchOperator

if TYPE_CHECKING:
    from airflow.sdk.definitions._internal.mixins import DependencyMixin

    from airflow_kafka_offsets.rows.config import Delta, Iceberg, Merge, Rows

_OF_GROUP = {*inspect.signature(TaskGroup).parameters}
_OF_RESOLVE = {*inspect.signature(ResolveStartupOffsetsOperator.__init__).parameters} - {"self", "kwargs"}
_OF_TASKS = {*inspect.signature(BaseOperator.__init__).parameters} - {"self", "kwargs", "task_id", "dag", "task_group"}


def kafka_spark_batch(
    name: str,
    /,
    *,
    rows: Rows | None = None,
    sink: Delta | Iceberg | None = None,
    application: str | None = None,
    spark: Mapping[str, Any] | None = None,
    spark_connect: str | None = None,
    submit: Callable[[str, XComArg], DependencyMixin] | None = None,
    before_commit: Sequence[DependencyMixin] = (),
    merge: Merge | None = None,
    outlets: Sequence[Any] = (),
    partitions: bool = False,
    sensor: Mapping[str, Any] | Literal[False] | None = None,
    default_args: Mapping[str, Any] | None = None,
    **more: Any,
) -> TaskGroup:
    """A task group that reads a batch from Kafka, writes it with one Spark job and commits it.

    Its tasks are ``wait``, ``resolve``, ``spark``, ``commit`` and, with ``merge``, ``merge``. With nothing to read,
    ``resolve`` is skipped and so are the others.

    ``rows``, ``sink``, ``application``, ``spark``, ``spark_connect`` and ``merge`` are those of
    ``KafkaSparkBatchOperator``.

    :param name: the task group's ``group_id``; ``group_id=`` is the consumer group.
    :param submit: creates the Spark task in another way (Kubernetes, Livy, EMR), from the path of the job and the XCom
        with its ``application_args``.
    :param before_commit: tasks between Spark and the commit that must succeed, such as a quality check. If one is
        skipped, the commit fails.
    :param outlets: assets that the last task publishes. :param partitions: as in ``CommitOffsetsOperator``.
    :param sensor: arguments of the sensor (``timeout``, ``idle_timeout``, …); ``False``: no sensor. By window it waits
        until the window is complete, else until the topics exist.
    :param default_args: of the tasks, after those of the DAG and of parent groups.
    :param more: parameters of ``ResolveStartupOffsetsOperator``, such as ``topics``; of each task (``pool``, ``queue``,
        ``executor_config``, ``execution_timeout``, ``retries``, by default 2, …); of ``TaskGroup`` (``tooltip``, …).
    :raises InvalidRequest: when the DAG is parsed; all problems at once.
    """
    request, of_group, of_tasks = (
        {name: more.pop(name) for name in [*more] if name in names} for names in (_OF_RESOLVE, _OF_GROUP, _OF_TASKS)
    )
    if more:
        raise TypeError(f"kafka_spark_batch({name!r}) takes no {', '.join(sorted(more))}")
    problems = contradictions(rows, sink, application, spark, spark_connect, submit)
    with TaskGroup(name, **of_group) as group:
        group.default_args |= {**(default_args or {}), **of_tasks}
        if "retries" not in {**(group.dag.default_args if group.dag else {}), **group.default_args}:
            group.default_args["retries"] = default_retries()
        try:
            resolve = ResolveStartupOffsetsOperator(task_id="resolve", **request)
            request = vars(resolve)
        except InvalidRequest as error:
            problems += error.problems
        problems += contradictions_of_merge(merge, sink, request, submit) if merge is not None else []
        if problems:
            raise InvalidRequest(tuple(f"kafka_spark_batch({name!r}): {problem}" for problem in problems))
        resolve.group_name = group.group_id
        if sink is not None:
            resolve.write_to(sink, rows, merge)
        about = {"task_id": "wait", "kafka_config_id": resolve.kafka_config_id}
        if (wait := make_sensor(resolve.topics, resolve.start, resolve.end, sensor, about)) is not None:
            chain(wait, resolve)
        job = application or PACKAGED_JOB
        plan = XComArg(resolve, key="plan")
        read: DependencyMixin
        if submit is not None:
            read = submit(job, resolve.output)
        elif spark_connect is not None:
            read = SparkConnectBatchOperator(task_id="spark", conn_id=spark_connect, plan=plan)
        else:
            read = SparkSubmitBatchOperator(task_id="spark", application=job, plan=plan, **(spark or {}))
        of_last: dict[str, Any] = {"plan": plan, "outlets": list(outlets), "partitions": partitions}
        of_commit: dict[str, Any] = of_last if merge is None else {"plan": plan}
        if before_commit:  # so that it sees which were skipped
            of_commit = {**of_commit, "trigger_rule": "none_failed"}
        commit = CommitOffsetsOperator(task_id="commit", **of_commit)
        chain(resolve, read, *([list(before_commit)] if before_commit else []), commit)
        if merge is not None and spark_connect is not None:
            chain(commit, ConnectMergeOperator(task_id="merge", conn_id=spark_connect, **of_last))
        elif merge is not None:
            chain(commit, MergeOperator(task_id="merge", **of_last, **(spark or {})))
    return group
