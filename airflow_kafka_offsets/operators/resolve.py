# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The task that decides what a run reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import BaseOperator, XComArg

from airflow_kafka_offsets.errors import DryRun, InvalidRequest, listed
from airflow_kafka_offsets.hooks.run import (
    ACT_XCOM,
    PLAN_XCOM,
    PLANNED_XCOM,
    SUMMARY_XCOM,
    AirflowOf,
    failing_at_once,
    run_context,
    run_key,
)
from airflow_kafka_offsets.offsets import Bound, GroupOffsets, is_by_window
from airflow_kafka_offsets.operators.commit import CommitOffsetsOperator
from airflow_kafka_offsets.operators.lineage import TellsLineage
from airflow_kafka_offsets.operators.links import PageLink
from airflow_kafka_offsets.request import check_parameters, parse_request
from airflow_kafka_offsets.rows.job import output_name
from airflow_kafka_offsets.templated import is_settled, plain

if TYPE_CHECKING:
    from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch

_COMMITTED = GroupOffsets()
_OTHER_WINDOW = (
    "The run's conf names another window than the run's data interval, by which the sink is rendered: trigger a run of "
    "that interval, with its logical date."
)
_MAPPED = "a mapped task needs a pipeline_id, such as 'orders-{{ ti.map_index }}'."
_PARAMETERS = (
    "topics",
    "group_id",
    "start",
    "end",
    "max_records",
    "on_data_loss",
    "exclude",
    "shard",
    "filter_restored_partitions",
    "require_report",
    "pipeline_id",
)


class ResolveStartupOffsetsOperator(TellsLineage, BaseOperator):
    """Compute each partition's start and end offset, record them as a batch, and push them for Spark.

    If the pipeline's newest batch is not committed, this run reads that batch, with the same offsets. Otherwise it
    plans the next one, which starts where that one ended. A retry or a clear reads the same offsets. With nothing to
    read the task is skipped.

    XComs: ``return_value``, the ``application_args`` of one job, a list of strings; ``plan``, for
    ``CommitOffsetsOperator`` and ``SparkSubmitBatchOperator``; ``starting_offsets``, ``ending_offsets`` and ``assign``,
    options of Spark's Kafka source as JSON strings, and ``batch_key``, for jobs that know nothing of this package;
    ``summary``, what the run does, in words. If offsets inside the batch are skipped, the three options are not pushed:
    a plain job would read them.

    :param topics: ``["orders"]``, ``"orders,payments"``, ``{"orders": [0, 2]}``, or ``"^orders-.*"``, a pattern that is
        matched against the whole name.
    :param group_id: the consumer group that the position is committed to; ``None``: no group is read or written.
    :param start: where the first batch starts; later ones start at the position. ``"earliest"``, ``"latest"``,
        ``GroupOffsets(…)``, ``Timestamp(…)`` or ``SpecificOffsets(…)``.
    :param end: where a batch ends, exclusive; the same type. With times at both ends each window is a batch.
    :param max_records: limit of a batch in offsets; partitions share it, and the rest is left for the next run.
    :param on_data_loss: what to do if unread records were deleted: ``"fail"``, ``"advance"`` to the first
        record that is left, or ``"reset"``, as Kafka's consumer does, by ``otherwise`` of the start.
    :param exclude: partitions that keep their position and are not read: ``["orders-3"]``.
    :param shard: ``(i, n)``: the partitions that Flink's assigner gives to subtask ``i`` of ``n``, as a pipeline of
        their own.
    :param filter_restored_partitions: ignore topics that are no longer subscribed to, as Flink does.
    :param require_report: ``False`` for jobs that write no report: they are trusted to have read if their task
        succeeded.
    :param pipeline_id: the name of the log of batches; default: ``<dag_id>.<task_id>``. Mapped tasks need one, such as
        ``"{{ task.topics }}"``; shards share one.
    :param kafka_config_id: a ``kafka`` connection.
    :param checkpoint_location: default: ``[kafka_offsets] checkpoint_location``.
    :raises InvalidRequest: when the DAG is parsed: all problems that do not depend on templates.
    """

    template_fields: Sequence[str] = (*_PARAMETERS, "kafka_config_id", "checkpoint_location", "job")
    ui_color = "#e6f2e6"
    operator_extra_links: Collection[Any] = (PageLink(),)
    writes = False
    _has_templated_output = False
    job: Any = None
    """What the packaged jobs write: a sink, rows and merge, the last two or ``None``."""
    group_name: str | None = None
    """The id of the group whose tasks do the batch; ``kafka_spark_batch`` sets it."""

    def __init__(
        self,
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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topics = topics
        self.group_id = group_id
        self.start = start
        self.end = end
        self.max_records = max_records
        self.on_data_loss = on_data_loss
        self.exclude = exclude
        self.shard = shard
        self.filter_restored_partitions = filter_restored_partitions
        self.require_report = require_report
        self.pipeline_id = pipeline_id
        self.kafka_config_id = kafka_config_id
        self.checkpoint_location = checkpoint_location
        check_parameters(self._parameters())
        if pipeline_id is None and self.get_closest_mapped_task_group() is not None:
            raise InvalidRequest((_MAPPED,))
        XComArg.apply_upstream_relationship(self, [plain(start), plain(end)])

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """:raises InvalidRequest: mapped tasks would share a pipeline, unless they are given one."""
        if kwargs.get("pipeline_id") is None:
            raise InvalidRequest((f"{cls.__name__}.partial({kwargs.get('task_id')!r}): {_MAPPED}",))
        return super().partial(**kwargs)

    def write_to(self, sink: Any, rows: Any, merge: Any) -> None:
        """Say what the packaged jobs write. Airflow does not look for XComs inside of config objects."""
        self.job, self._has_templated_output = (sink, rows, merge), not is_settled(sink)
        XComArg.apply_upstream_relationship(self, [plain(value) for value in self.job])

    def render_template_fields(self, context: Any, jinja_env: Any = None) -> None:
        """Config objects are checked as they are rendered."""
        with failing_at_once(context):
            super().render_template_fields(context, jinja_env)

    @property
    def pipeline(self) -> str:
        """The name of the pipeline; a shard's is the same."""
        return self.pipeline_id or f"{self.dag_id}.{self.group_name or self.task_id}"

    def execute(self, context: Any) -> list[str]:
        with failing_at_once(context):
            work = resolve_batch(self, context)
        for name, value in work.offset_options().items():
            context["ti"].xcom_push(key=name, value=value)
        arguments: list[str] = self.plan["arguments"]
        return arguments

    def resolve(self, context: Any) -> tuple[ResolvedBatch | NoBatch, str]:
        """What the engine decides, and the brokers' addresses.

        :raises DryRun: the run's conf has ``dry_run``.
        """
        from airflow_kafka_offsets.engine.dry_run import resolve_and_compare
        from airflow_kafka_offsets.engine.turn import resolve
        from airflow_kafka_offsets.engine.work import NoBatch
        from airflow_kafka_offsets.hooks.checkpoint import configured_store
        from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
        from airflow_kafka_offsets.hooks.metrics import measured, send_nothing
        from airflow_kafka_offsets.log.pipeline_log import PipelineLog

        hook, run = KafkaOffsetsHook(self.kafka_config_id), run_key(context, self.group_name or self.task_id)
        parameters = {**self._parameters(), "pipeline_id": self.pipeline}
        of_run = run_context(context, pipelines_of(self))
        request = parse_request(parameters, of_run, hook.client_config, self._output())
        if self._has_templated_output and "window" in (of_run.conf or {}) and request.window != of_run.interval:
            raise InvalidRequest((_OTHER_WINDOW,))
        for warning in request.warnings:
            self.log.warning(warning)
        log = PipelineLog(configured_store(self.checkpoint_location), request.pipeline_id)
        with hook.open_cluster() as cluster, measured("resolve", request.pipeline_id) as began_ms:
            tasks = self._tasks_of_batch()
            turn = request, run, log, cluster, AirflowOf(context, request.pipeline_id, run, tasks, self.job_object)
            if request.act is None and not request.dry_run:
                work = resolve(*turn)
            else:
                work, lines = resolve_and_compare(*turn, dry=request.dry_run)
                if request.dry_run:
                    raise DryRun(
                        work.summary, listed(lines), "Nothing was written. Without dry_run, the run does that."
                    )
                self.log.info("The act changed:\n%s", listed(lines))
                context["ti"].xcom_push(key=ACT_XCOM, value=lines)
            if isinstance(work, NoBatch):  # no commit task follows
                send_nothing(log, cluster, began_ms)
        return work, hook.client_config["bootstrap.servers"]

    def _output(self) -> str | None:
        """Where the packaged job writes; by window a templated output is another one for each window."""
        if self.job is None or (self._has_templated_output and is_by_window(self.start, self.end)):
            return None
        return output_name(self.job[0])

    def _tasks_of_batch(self) -> set[str]:
        """This task and those behind it, up to the commit."""
        behind = self.get_flat_relatives(upstream=False)
        after = [
            task.get_flat_relative_ids(upstream=False) for task in behind if isinstance(task, CommitOffsetsOperator)
        ]
        return {self.task_id, *(task.task_id for task in behind)}.difference(*after)

    def job_object(self, topics: Collection[str]) -> dict[str, Any] | None:
        from airflow_kafka_offsets.hooks.schema_registry import registry_of
        from airflow_kafka_offsets.rows.job import job_object
        from airflow_kafka_offsets.rows.registry import schemas_of

        if self.job is None:
            return None
        sink, rows, merge = self.job
        return job_object(sink, rows, schemas_of(rows, sorted(topics), registry_of) if rows is not None else {}, merge)

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _PARAMETERS}


def pipelines_of(task: Any) -> set[str] | None:
    """The pipelines of a task's DAG; ``None``: a name is a template or mapped, and not known here."""
    names = [getattr(other, "pipeline", None) for other in task.dag.tasks if is_resolving(other)]
    known = {str(name) for name in names if name and is_settled(name)}
    return known if len(known) == len({*names}) else None


def is_resolving(task: Any) -> bool:
    """Whether a task, mapped or not, plans batches."""
    kind = getattr(task, "operator_class", type(task))
    return isinstance(kind, type) and issubclass(kind, ResolveStartupOffsetsOperator)


def resolve_batch(task: ResolveStartupOffsetsOperator, context: Any) -> ResolvedBatch:
    """Decide which batch the task's run does, and give its plan to ``task.plan`` and to the XComs.

    :raises AirflowSkipException: there is nothing to read.
    """
    # Imported where it runs: a DAG's file is parsed often, and needs neither the engine nor a Kafka client.
    from airflow_kafka_offsets.engine.work import NoBatch
    from airflow_kafka_offsets.log.pipeline_log import put_job

    push = context["ti"].xcom_push
    work, servers = task.resolve(context)
    push(key=SUMMARY_XCOM, value=work.summary)
    if isinstance(work, NoBatch):
        raise AirflowSkipException(work.summary)
    task.log.info("%s Its key: %s", work.summary, work.key)
    job = task.job_object(work.batch.plan.topics)
    digest = None if job is None else put_job(work.log, job)
    given = work.given(job=digest, kafka_config_id=task.kafka_config_id).to_dict()
    task.plan = {**given, "arguments": work.arguments(servers, digest), "formats": formats_of(job)}
    push(key=PLAN_XCOM, value=task.plan)
    push(key="batch_key", value=work.key)
    if not work.batch.is_committed:  # what a clear writes again is not the newest batch
        push(key=PLANNED_XCOM, value={name: given[name] for name in ("pipeline", "key", "plan_id")})
    return work


def formats_of(job: Mapping[str, Any] | None) -> list[str]:
    """What Spark needs packages for: the formats of sinks, and ``avro``; none of a job of the user's own."""
    if job is None:
        return []
    rows = job["rows"] or {}
    sinks = [job["sink"], *([rows["bad"]["sink"]] if rows.get("bad") else [])]
    decoded = [rows[name]["format"] for name in ("value", "key") if rows.get(name)]
    return sorted({*decoded, *(sink["format"] for sink in sinks)})
