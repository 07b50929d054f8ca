"""The task that waits until no more records of a window are to be expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_offsets.hooks.surroundings import occasion_of
from airflow_kafka_offsets.offsets.request.parameters import parameters_of
from airflow_kafka_offsets.offsets.request.scope import ScopeParameters
from airflow_kafka_offsets.sensors.waiting import WaitingSensor
from airflow_kafka_offsets.task_docs import WINDOW_DOC
from airflow_kafka_offsets.triggers.window_complete import WindowCompleteTrigger, wait_until


class WindowCompleteSensor(WaitingSensor):
    """Wait until every partition has a record at or past the window's end, or nothing comes there any more.

    A partition is not waited for once it has been idle for ``idle_timeout``, nor one whose records the broker stamps
    (LogAppendTime) once the clock has passed the end; ``airflow_kafka_offsets/offsets/window/complete.py`` has the
    rule, which is that of ``require_complete_window`` and of the plan's ``window_complete`` too. One batch question a
    poke, however many partitions there are.

    XCom ``return_value``: ``{"end_ms", "low_watermark_ms", "newest_timestamps": {"orders": {"0": ms}}, "idle":
    {"orders": [1]}}``; the last two up to 500 partitions.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider.
    :param topics: topic names; exactly one of ``topics``, ``topic_pattern`` and ``partitions``.
    :param topic_pattern: regular expression, matched against the whole name.
    :param partitions: ``{"topic": [0, 2]}``.
    :param end: the window's end, exclusive, as the resolve task's ``bounded_timestamp``; default: the end of the run's
        window, as there.
    :param isolation_level: as of the resolve task: ``read_committed`` also waits for the end of open transactions.
    :param idle_timeout: how long after the end, and after its last new record as far as this task has watched, a
        partition is waited for: a ``timedelta``, seconds or an ISO 8601 duration. Default: five minutes, more than
        Kafka's producers try to deliver a record. A reschedule between pokes forgets what was watched.
    :param clock_skew: how far the brokers' clocks may be behind the workers', for LogAppendTime. Default: ten seconds.
    :param partition_width: as of the resolve task.
    :param deferrable: wait in the triggerer, without a worker slot. Default: ``[operators] default_deferrable``.
    :raises AirflowFailException: the request is wrong (no retry can help); every problem is named.
    """

    task_doc = WINDOW_DOC
    template_fields: Sequence[str] = (
        "kafka_config_id",
        "topics",
        "topic_pattern",
        "partitions",
        "end",
        "isolation_level",
        "idle_timeout",
        "clock_skew",
        "partition_width",
    )

    kafka_config_id: str
    end: int | str | datetime | None
    idle_timeout: timedelta | float | str | None
    clock_skew: timedelta | float | str | None
    partition_width: str | timedelta | None

    def __init__(
        self,
        *,
        kafka_config_id: str = "kafka_default",
        topics: Sequence[str] | str | None = None,
        topic_pattern: str | None = None,
        partitions: Mapping[str, Sequence[int]] | str | None = None,
        include_internal_topics: bool = False,
        end: int | str | datetime | None = None,
        isolation_level: str | None = None,
        idle_timeout: timedelta | float | str | None = None,
        clock_skew: timedelta | float | str | None = None,
        partition_width: str | timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        given = dict(locals())
        super().__init__(**kwargs)
        for name in (*self.template_fields, "include_internal_topics"):
            setattr(self, name, given[name])
        self._watching: WindowCompleteTrigger | None = None  # it remembers which partitions move

    def _trigger(self, context: Any) -> WindowCompleteTrigger:
        if self._watching is None:
            self._watching = wait_until(
                self.end,
                kafka_config_id=self.kafka_config_id,
                scope=parameters_of(ScopeParameters, self),
                occasion=occasion_of(context),
                clock_skew=self.clock_skew,
                poke_interval=self.poke_interval,
                idle_timeout=self.idle_timeout,
                partition_width=self.partition_width,
            )
        return self._watching

    def _report(self, context: Any, found: Mapping[str, Any]) -> dict[str, Any]:
        self.log.info("The window is complete; the low watermark is %s", found["low_watermark_ms"])
        return dict(found)
