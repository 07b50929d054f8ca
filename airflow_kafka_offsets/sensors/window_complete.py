"""The task that waits until no more records of a window are to be expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.hooks.run_context import run_context_of
from airflow_kafka_offsets.request.dag_checks import BEST_RUN_CONTEXT
from airflow_kafka_offsets.request.parameters import ScopeParameters, parameters_of
from airflow_kafka_offsets.request.parse_request import RunContext, WindowEnd, parse_window_end
from airflow_kafka_offsets.request.subscription import with_connection
from airflow_kafka_offsets.request.times import DEFAULT_IDLE_TIMEOUT_MS, parse_wait_ms, parse_width
from airflow_kafka_offsets.sensors.waiting_sensor import TIMEOUT_S, Known, WaitingSensor, watched_pipeline_id
from airflow_kafka_offsets.task_docs import WINDOW_DOC
from airflow_kafka_offsets.triggers.sensor_waits import WindowCompleteTrigger


class WindowCompleteSensor(WaitingSensor, ScopeParameters):
    """Wait until every partition has a record at or past the window's end, or nothing comes there any more.

    It stops waiting for a partition that has been idle for ``idle_timeout``. If the broker stamps the records
    (LogAppendTime), it waits only until the clock has passed the end. ``require_complete_window`` and the plan's
    ``window_complete`` use the same rule: docs/windows.md. Each look asks once for all partitions.

    XCom ``return_value``: ``{"end_ms", "low_watermark_ms", "newest_timestamps": {"orders": {"0": ms}}, "idle":
    {"orders": [1]}}``; the last two while they have less than 48 KiB.

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
    :param resolve_task_id: the resolve task whose window it is; ``kafka_spark_batch`` names its own. The metrics of a
        look have its pipeline as a tag; without one there are none.
    :param group_id: of that task; default: the connection's ``group.id``.
    :param pipeline_id: of that task, if it has one of its own.
    :param deferrable: wait in the triggerer, without a worker slot. Default: yes, unless ``mode`` is given, or somebody
        has set ``[operators] default_deferrable`` to no.
    :param timeout: how long to wait: seconds or a ``timedelta``. Default: ten minutes more than
        ``idle_timeout``, which a partition without new records is waited for in any case; or what somebody has set as
        ``[sensors] default_timeout``.
    :raises InvalidRequest: when the DAG is parsed: what is wrong whatever the templates give; every problem is named.
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
        "group_id",
        "pipeline_id",
    )

    def __init__(
        self,
        *,
        kafka_config_id: str = "kafka_default",
        topics: Sequence[str] | str | None = None,
        topic_pattern: str | None = None,
        partitions: Mapping[str, Sequence[int]] | str | None = None,
        end: int | str | datetime | None = None,
        isolation_level: str | None = None,
        idle_timeout: timedelta | float | str | None = None,
        clock_skew: timedelta | float | str | None = None,
        partition_width: str | timedelta | None = None,
        resolve_task_id: str | None = None,
        group_id: str | None = None,
        pipeline_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kafka_config_id = kafka_config_id
        ScopeParameters.__init__(
            self,
            topics=topics,
            topic_pattern=topic_pattern,
            partitions=partitions,
            group_id=group_id,
            isolation_level=isolation_level,
            pipeline_id=pipeline_id,
        )
        self.end = end
        self.idle_timeout = idle_timeout
        self.clock_skew = clock_skew
        self.partition_width = partition_width
        self.resolve_task_id = resolve_task_id
        known = Known(self)
        known.take_all(lambda: _parse(known.scope, known.value, BEST_RUN_CONTEXT))
        if known.value("partition_width") is not None:
            known.take("partition_width", lambda: parse_width(known.value("partition_width")), None)
        known.refuse()
        self._make_timeout(known.value("idle_timeout"))
        self._watching: WindowCompleteTrigger | None = None  # it remembers which partitions move

    def execute(self, context: Any) -> Any:
        with suppress(ValueError):  # of a template: the look says what is wrong with it, and with all else
            self._make_timeout(self.idle_timeout)
        return super().execute(context)

    def _make_timeout(self, idle_timeout: timedelta | float | str | None) -> None:
        """Ten minutes are too few where the window's rule itself waits for longer."""
        if not self._has_own_timeout:
            idle_ms = DEFAULT_IDLE_TIMEOUT_MS if idle_timeout is None else parse_wait_ms(idle_timeout)
            self.timeout = TIMEOUT_S + idle_ms / 1000

    def _trigger(self, context: Any) -> WindowCompleteTrigger:
        if self._watching is None:
            scope = replace(parameters_of(ScopeParameters, self), pipeline_id=watched_pipeline_id(self, context))
            asked = with_connection(kafka_hook(self.kafka_config_id).client_config, scope)
            window = _parse(asked, lambda name: getattr(self, name), run_context_of(context))
            for warning in window.warnings:
                self.log.warning(warning)
            self._watching = WindowCompleteTrigger(
                kafka_config_id=self.kafka_config_id,
                scope=asked.to_dict(),
                isolation_level=window.scope.isolation_level,
                end_ms=window.until.timestamp_ms,
                idle_timeout_ms=window.idle_timeout_ms,
                clock_skew_ms=window.clock_skew_ms,
                ends_by_topic=window.until.by_topic,
                poke_interval=self.poke_interval,
            )
        return self._watching

    def _report(self, context: Any, found: Mapping[str, Any]) -> dict[str, Any]:
        self.log.info("The window is complete; the low watermark is %s", found["low_watermark_ms"])
        return dict(found)


def _parse(scope: ScopeParameters, value_of: Any, run_context: RunContext) -> WindowEnd:
    """The end, read as the resolve task's request.

    :raises InvalidRequest: with every problem.
    """
    return parse_window_end(
        scope,
        value_of("end"),
        run_context,
        partition_width=value_of("partition_width"),
        idle_timeout=value_of("idle_timeout"),
        clock_skew=value_of("clock_skew"),
    )
