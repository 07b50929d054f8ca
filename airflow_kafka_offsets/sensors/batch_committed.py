"""The task that waits until a pipeline, of another DAG or another Airflow, has committed far enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_offsets.hooks.run_context import run_context_of
from airflow_kafka_offsets.hooks.work_store import configured_log
from airflow_kafka_offsets.request.commit_target import CommitTarget, parse_commit_target, target_to_dict
from airflow_kafka_offsets.request.dag_checks import BEST_RUN_CONTEXT
from airflow_kafka_offsets.request.modes import Offsets
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.request.parse_request import RunContext
from airflow_kafka_offsets.request.subscription import parse_name, parse_scope
from airflow_kafka_offsets.sensors.waiting_sensor import Known, WaitingSensor
from airflow_kafka_offsets.task_docs import COMMITTED_DOC
from airflow_kafka_offsets.triggers.sensor_waits import BatchCommittedTrigger


class BatchCommittedSensor(WaitingSensor):
    """Wait until a pipeline has committed up to a batch, up to offsets, or up to a time.

    The pipeline may be of another DAG, or of another Airflow that has the same work store. For a batch or for offsets
    the sensor reads the pipeline's log alone. For a time it also asks Kafka: every partition's position has to be at or
    past the first record of that time or later; where there is none yet, at the end. Records of before that time may
    still arrive: put :class:`WindowCompleteSensor` before it to wait for those. What the pipeline has lost or
    skipped counts as committed.

    Returns ``{"pipeline_id": …, "batch": "0000000007-…"}``: the key of the newest batch that is committed, or of the
    window.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider, to the pipeline's cluster. Only a time needs
        it.
    :param pipeline_id: the pipeline; ``kafka-offsets pipelines`` lists their names.
    :param batch: a batch's number or key: it and all before it are committed. Or a window's name or key: that window
        is, whatever the others are.
    :param offsets: of each partition the first offset that need not be committed, as ``bounded_offsets``:
        ``{"orders": {"0": 42}}``.
    :param end: the first time that need not be committed, as ``bounded_timestamp``. Default, where neither ``batch``
        nor ``offsets`` is given: the end of the run's window.
    :param topics: the topics that ``end`` is about. Default: all that the pipeline's position has, also those that it
        does not read any more.
    :param partition_width: as of the resolve task.
    :param work_store: of the pipeline.
    :param deferrable: wait in the triggerer, without a worker slot. Default: yes, unless ``mode`` is given, or somebody
        has set ``[operators] default_deferrable`` to no.
    :param timeout: how long to wait: seconds or a ``timedelta``. Default: ten minutes, unless somebody has set
        ``[sensors] default_timeout``.
    :raises InvalidRequest: when the DAG is parsed: what is wrong whatever the templates give; every problem is named.
    """

    task_doc = COMMITTED_DOC
    template_fields: Sequence[str] = (
        "kafka_config_id",
        "pipeline_id",
        "batch",
        "offsets",
        "end",
        "topics",
        "partition_width",
        "work_store",
    )

    def __init__(
        self,
        *,
        kafka_config_id: str = "kafka_default",
        pipeline_id: str,
        batch: int | str | None = None,
        offsets: Offsets | None = None,
        end: int | str | datetime | None = None,
        topics: Sequence[str] | str | None = None,
        partition_width: str | timedelta | None = None,
        work_store: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kafka_config_id = kafka_config_id
        self.pipeline_id = pipeline_id
        self.batch = batch
        self.offsets = offsets
        self.end = end
        self.topics = topics
        self.partition_width = partition_width
        self.work_store = work_store
        known = Known(self)
        known.take("pipeline_id", lambda: parse_name(known.value("pipeline_id"), "is empty; name the pipeline"), None)
        known.take_all(lambda: _target(known.value, BEST_RUN_CONTEXT))
        known.take_all(lambda: _topics(known.value("topics")))
        known.check_work_store()
        known.refuse()

    def _trigger(self, context: Any) -> BatchCommittedTrigger:
        target = _target(lambda name: getattr(self, name), run_context_of(context))
        return BatchCommittedTrigger(
            kafka_config_id=self.kafka_config_id,
            pipeline_id=self.pipeline_id,
            target=target_to_dict(target),
            topics=list(_topics(self.topics)),
            work_store=self.work_store,
            poke_interval=self.poke_interval,
        )

    def _topics_asked(self) -> Sequence[str]:
        """For a batch or for offsets, Kafka is not asked."""
        if self.batch is not None or self.offsets is not None:
            return ()
        if self.topics is not None:
            return _topics(self.topics)
        from airflow_kafka_offsets.batch.measured_lag import position_of

        position = position_of(configured_log(self.work_store, self.pipeline_id))
        return sorted({tp.topic for tp in position.offsets}) if position else ()

    def _report(self, context: Any, found: Mapping[str, Any]) -> dict[str, Any]:
        self.log.info("Pipeline %s has committed so far; its newest batch is %s", found["pipeline_id"], found["batch"])
        return dict(found)


def _target(value_of: Any, run_context: RunContext) -> CommitTarget:
    batch, offsets, end, width = map(value_of, ("batch", "offsets", "end", "partition_width"))
    return parse_commit_target(batch, offsets, end, run_context, partition_width=width)


def _topics(topics: Sequence[str] | str | None) -> tuple[str, ...]:
    return () if topics is None else parse_scope(ScopeParameters(topics=topics)).subscription.named
