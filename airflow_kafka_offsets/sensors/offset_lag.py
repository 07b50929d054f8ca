"""The task that waits until a group has fallen behind far enough to be worth a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow_kafka_offsets.errors import counted
from airflow_kafka_offsets.plan.consumer_lag import parse_limits
from airflow_kafka_offsets.request.parameters import parameters_of
from airflow_kafka_offsets.sensors.waiting_sensor import Known, WaitingSensor, watched_pipeline_id
from airflow_kafka_offsets.task_docs import LAG_DOC
from airflow_kafka_offsets.triggers.lag_event import LagWatch, OffsetLagTrigger


class OffsetLagSensor(WaitingSensor, LagWatch):
    """Wait until a group has at least ``min_records`` unread records, or one that is older than ``max_age``.

    With ``min_retention_margin`` also until retention may delete one before that time has passed.

    Each look takes a few batch calls, whatever the number of partitions. The sensor never joins the group. Lag is an
    upper bound of the records: compaction and transactions leave gaps. A partition without a committed offset counts
    from its log start; one without a leader does not count. If timestamps are out of order, an age is approximate.

    Returns the lag: ``{"group_id": …, "lag": 120, "topics": {"orders": 120}, "oldest_unread_before_ms": …, …}``; the
    last is a bound of the oldest unread record's age, ``None`` where none is older than ``max_age``. ``topics`` is
    ``None`` where they are so many that they have more than 48 KiB.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider.
    :param topics: topic names; exactly one of ``topics``, ``topic_pattern`` and ``partitions``.
    :param topic_pattern: a regular expression for whole names.
    :param partitions: ``{"topic": [0, 2]}``.
    :param group_id: default: the connection's ``group.id``.
    :param min_records: so many unread records are enough. None of the three: one record.
    :param max_age: so is one that is older: seconds, a timedelta, or an ISO 8601 duration (``PT10M``).
    :param min_retention_margin: so is one that retention may delete before this time has passed; written as
        ``max_age``. It needs the right DescribeConfigs on the topics. By ``retention.bytes`` it is known only with
        ``pipeline_id`` or ``resolve_task_id``, from the log's start at the last plan.
    :param resolve_task_id: measure from the position of this resolve task, instead of what the group holds; for
        pipelines that do not commit to the group (``commit_mode="checkpoint-only"``).
    :param pipeline_id: of that task, if it has one of its own.
    :param work_store: of that task.
    :param isolation_level: ``read_uncommitted`` or ``read_committed``; default: the connection's.
    :param deferrable: wait in the triggerer, without a worker slot. Default: yes, unless ``mode`` is given, or somebody
        has set ``[operators] default_deferrable`` to no.
    :param timeout: how long to wait: seconds or a ``timedelta``. Default: ten minutes, unless somebody has set
        ``[sensors] default_timeout``.
    :raises InvalidRequest: when the DAG is parsed: what is wrong whatever the templates give; every problem is named.
    """

    task_doc = LAG_DOC
    template_fields: Sequence[str] = (
        "kafka_config_id",
        "topics",
        "topic_pattern",
        "partitions",
        "group_id",
        "isolation_level",
        "min_records",
        "max_age",
        "min_retention_margin",
        "pipeline_id",
        "work_store",
    )

    def __init__(
        self,
        *,
        kafka_config_id: str = "kafka_default",
        topics: Sequence[str] | str | None = None,
        topic_pattern: str | None = None,
        partitions: Mapping[str, Sequence[int]] | str | None = None,
        group_id: str | None = None,
        min_records: int | str | None = None,
        max_age: float | str | timedelta | None = None,
        min_retention_margin: float | str | timedelta | None = None,
        resolve_task_id: str | None = None,
        pipeline_id: str | None = None,
        work_store: str | None = None,
        isolation_level: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        LagWatch.__init__(
            self,
            kafka_config_id=kafka_config_id,
            topics=topics,
            topic_pattern=topic_pattern,
            partitions=partitions,
            group_id=group_id,
            min_records=min_records,
            max_age=max_age,
            min_retention_margin=min_retention_margin,
            pipeline_id=pipeline_id,
            work_store=work_store,
            isolation_level=isolation_level,
        )
        self.resolve_task_id = resolve_task_id
        known = Known(self)
        known.check_what_all_have()
        limits = ("min_records", "max_age", "min_retention_margin")
        known.take_all(lambda: parse_limits(*map(known.value, limits)))
        known.refuse()

    def _trigger(self, context: Any) -> OffsetLagTrigger:
        trigger = parameters_of(OffsetLagTrigger, self)
        trigger.pipeline_id = watched_pipeline_id(self, context)
        return trigger

    def _report(self, context: Any, found: Mapping[str, Any]) -> dict[str, Any]:
        near = found["partitions_near_retention"]
        words = f"; in {counted(near, 'partition')} retention is near to one of them" if near else ""
        self.log.info("Group %s has up to %d unread records%s", found["group_id"], found["lag"], words)
        return dict(found)
