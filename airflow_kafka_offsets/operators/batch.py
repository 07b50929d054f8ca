# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A run that is one task: [the wait for its window] → resolve → Spark → commit → [merge].

The steps are those of the single operators. Each try asks the log again: a batch that an earlier try has written is
committed without a second job, and one that it has committed is only merged. A clear writes the batch again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import conf

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.run import failing_at_once
from airflow_kafka_offsets.offsets import is_by_window
from airflow_kafka_offsets.operators.commit import commit_batch, given_of, name_batch, require_partitions
from airflow_kafka_offsets.operators.connect import SparkConnectBatchOperator
from airflow_kafka_offsets.operators.merge import ConnectMergeOperator, MergeOperator
from airflow_kafka_offsets.operators.resolve import ResolveStartupOffsetsOperator, resolve_batch
from airflow_kafka_offsets.operators.spark_task import BatchTask, run_batch
from airflow_kafka_offsets.operators.submit import PACKAGED_JOB, SparkSubmitBatchOperator
from airflow_kafka_offsets.rows.config import Delta, Iceberg, Merge
from airflow_kafka_offsets.rows.job import entity_table
from airflow_kafka_offsets.sensors.partition_discovery import PartitionDiscoverySensor
from airflow_kafka_offsets.sensors.waiting import WaitingSensor, found_in, has_act
from airflow_kafka_offsets.sensors.window_complete import WindowCompleteSensor

if TYPE_CHECKING:
    from airflow_kafka_offsets.rows.config import Rows


class KafkaSparkBatchOperator(ResolveStartupOffsetsOperator):
    """Read a batch from Kafka, write it with one Spark job and commit it, in one task.

    With nothing to read the task is skipped. By window it first waits, deferred, until the window is complete. A retry
    continues where the previous try ended; a clear rewrites the batch.

    It also takes the parameters of ``ResolveStartupOffsetsOperator``. ``kafka_spark_batch`` with the same parameters
    is the same pipeline, so a DAG may change from one to the other.

    XComs and events of ``outlets`` are those of ``CommitOffsetsOperator``; so is ``batch_key``, as an XCom.

    :param sink: where the job of this package writes: ``Delta(…)`` or ``Iceberg(…)``.
    :param rows: how records become rows; default: the columns of Spark's Kafka source.
    :param application: a PySpark job of your own, instead of ``sink``.
    :param spark: arguments of ``SparkSubmitBatchOperator`` (``conn_id``, ``conf``, ``packages``, …).
    :param spark_connect: a connection to a Spark Connect server (``"spark_connect_default"``): no JVM is started. Where
        it is a template that renders to nothing, the job is submitted.
    :param merge: an entity table that committed batches are merged into: ``Merge("lake.customers", keys=["id"])``.
    :param partitions: as in ``CommitOffsetsOperator``.
    :param sensor: arguments of the sensor that waits by window (``idle_timeout``, ``poke_interval``, …), or in sequence
        for the topics, where it is given; ``False``: do not wait.
    :param wait_timeout: how long to wait for the window; default: ``idle_timeout`` and ten minutes.
    :param retries: default: those of ``default_args``, else of Airflow's configuration, else 2. A mapped operator needs
        them, or those of ``default_args``.
    """

    template_fields = (*ResolveStartupOffsetsOperator.template_fields, "spark", "spark_connect")
    operator_extra_links = BatchTask.operator_extra_links
    writes = True

    def __init__(
        self,
        *,
        sink: Delta | Iceberg | None = None,
        rows: Rows | None = None,
        application: str | None = None,
        spark: Mapping[str, Any] | None = None,
        spark_connect: str | None = None,
        merge: Merge | None = None,
        partitions: bool = False,
        sensor: Mapping[str, Any] | Literal[False] | None = None,
        wait_timeout: Any = None,
        retries: int | None = None,
        **kwargs: Any,
    ) -> None:
        problems = contradictions(rows, sink, application, spark, spark_connect)
        try:
            super().__init__(retries=default_retries() if retries is None else retries, **kwargs)
        except InvalidRequest as error:
            problems += error.problems
        problems += contradictions_of_merge(merge, sink, vars(self)) if merge is not None else []
        if problems:
            raise InvalidRequest(tuple(f"{type(self).__name__}({kwargs.get('task_id')!r}): {p}" for p in problems))
        self.application, self.spark, self.spark_connect = application, spark, spark_connect
        self.sensor, self.wait_timeout, self.partitions = sensor, wait_timeout, require_partitions(partitions)
        self._defaults = kwargs.get("default_args")
        self._step: Any = None
        if sink is not None:
            self.write_to(sink, rows, merge)

    def execute(self, context: Any) -> Any:
        wait = self._wait()
        if wait is not None and not has_act(context) and not wait.poke(context).is_done:
            self.defer(**wait.deferral("after_wait"))
        return self._do_batch(context)

    def after_wait(self, context: Any, event: Mapping[str, Any]) -> Any:
        """Called with the trigger's event."""
        found_in(event, getattr(self._wait(), "timeout", 0))
        return self._do_batch(context)

    def _tasks_of_batch(self) -> set[str]:
        return {self.task_id}

    def on_kill(self) -> None:
        if self._step is not None:
            self._step.on_kill()

    def _do_batch(self, context: Any) -> dict[str, Any]:
        with failing_at_once(context):
            resolve_batch(self, context)
        of_job = {"application": self.application or PACKAGED_JOB}
        self._run(SparkConnectBatchOperator, SparkSubmitBatchOperator, of_job, context)
        with failing_at_once(context):
            figures = commit_batch(self.plan, context)
        if self.job is not None and self.job[2] is not None:
            self._run(ConnectMergeOperator, MergeOperator, {}, context)
        name_batch(self, context, given_of(self.plan))
        return figures

    def _run(self, connected: Any, submitted: Any, of_job: Mapping[str, Any], context: Any) -> None:
        """Run the task that the group has for this step."""
        about: dict[str, Any] = {"task_id": self.task_id, "plan": self.plan, "default_args": self._defaults}
        if self.spark_connect:
            self._step = connected(conn_id=self.spark_connect, **about)
        else:
            self._step = submitted(**about, **of_job, **(self.spark or {}))
        run_batch(self._step, context)
        self._step = None

    def _wait(self) -> WaitingSensor | None:
        if self.sensor is None and not is_by_window(self.start, self.end):
            return None
        about = {"task_id": self.task_id, "kafka_config_id": self.kafka_config_id}
        about |= {} if self.wait_timeout is None else {"timeout": self.wait_timeout}
        return make_sensor(self.topics, self.start, self.end, self.sensor, about)


def make_sensor(topics: Any, start: Any, end: Any, sensor: Any, about: Mapping[str, Any]) -> WaitingSensor | None:
    """Return the sensor that waits for a window, or in sequence for the topics.

    :param sensor: further arguments; ``False``: no sensor.
    """
    if sensor is False:
        return None
    given = {"topics": topics, **about, **(sensor or {})}
    return WindowCompleteSensor(end=end, **given) if is_by_window(start, end) else PartitionDiscoverySensor(**given)


def default_retries() -> int:
    """Two, unless Airflow is configured with a number: a retry of a batch is safe."""
    return int(conf.getint("core", "default_task_retries", fallback=0) or 2)


def contradictions(rows: Any, sink: Any, application: Any, *ways: Any) -> list[str]:
    """:param ways: ``spark``, ``spark_connect`` and, of the group, ``submit``."""
    problems = []
    if (sink is None) == (application is None):
        problems.append("give exactly one of sink= (such as Delta('/lake/orders')) and application= (a job of yours).")
    if rows is not None and sink is None:
        problems.append("rows= goes with sink=: a job of yours decodes its records itself.")
    if sum(way is not None for way in ways) > 1:
        problems.append("give at most one of spark=, spark_connect= and submit=.")
    if ways[1] is not None and application is not None:
        problems.append("spark_connect= runs the job of this package: give sink=, or submit an application.")
    return problems


def contradictions_of_merge(merge: Any, sink: Any, request: Mapping[str, Any], submit: Any = None) -> list[str]:
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
    if is_by_window(request.get("start"), request.get("end")) and not merge.order_by:
        problems.append("windows may be written in any order: give Merge(order_by=[…]), or batches in sequence.")
    if request.get("shard") is not None:
        problems.append("merge= needs all partitions in one pipeline: leave out shard=.")
    if submit is not None:
        problems.append("merge= runs a Spark task of this package: leave out submit=.")
    if request.get("require_report") is False:
        problems.append("merge= needs verified batches: leave out require_report=False.")
    return problems
