"""An ``AssetWatcher``'s trigger that fires once for each window of time, when it is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from airflow_kafka_offsets.offsets.lag import parse_age_ms
from airflow_kafka_offsets.offsets.problems import Problems
from airflow_kafka_offsets.offsets.request.parse import Occasion
from airflow_kafka_offsets.offsets.request.scope import ScopeParameters, parse_scope
from airflow_kafka_offsets.offsets.request.times import parse_seconds, parse_wait_ms
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.triggers.threads import in_thread
from airflow_kafka_offsets.triggers.waiting import NotYet
from airflow_kafka_offsets.triggers.watching import WatchingTrigger, refuse_to_watch
from airflow_kafka_offsets.triggers.window_complete import WindowCompleteTrigger, wait_until


class KafkaWindowEventTrigger(WatchingTrigger):
    """Fires once for each window whose end has passed on all partitions, one after the other.

    The rule is that of ``WindowCompleteSensor``. Windows are as wide as ``width`` and begin with 1970 in UTC, so that
    ``PT1H`` gives whole hours and ``P1D`` days of UTC. The first window is the one that is open when the watcher is
    first started. For windows that end while no triggerer runs it fires afterwards, as long as the asset keeps its
    state. Payload: ``{"window_start_ms": …, "window_end_ms": …, "low_watermark_ms": …}``.

    Airflow starts one run for several events that come close together, so a run takes all of its windows, which join::

        startup_timestamp="{{ triggering_asset_events.values() | sum(start=[]) |
            map(attribute='extra.payload.window_start_ms') | min }}"

    and ``bounded_timestamp`` likewise, from ``window_end_ms`` by ``max``.

    :param width: seconds or an ISO 8601 duration.
    :param kafka_config_id: a ``kafka`` connection of the Kafka provider.
    :param topics: topic names; exactly one of ``topics``, ``topic_pattern`` and ``partitions``.
    :param topic_pattern: a regular expression for whole names.
    :param partitions: ``{"topic": [0, 2]}``.
    :param include_internal_topics: whether a pattern also matches Kafka's own topics (``__consumer_offsets``).
    :param isolation_level: default: the connection's. ``read_committed`` also waits for open transactions.
    :param idle_timeout: how long after a window's end a partition is waited for at most; default: five minutes.
    :param clock_skew: how far the brokers' clocks may be behind, for LogAppendTime; default: ten seconds.
    :param poke_interval: seconds between two looks.
    """

    def __init__(
        self,
        *,
        width: float | str | timedelta,
        kafka_config_id: str = "kafka_default",
        topics: Sequence[str] | str | None = None,
        topic_pattern: str | None = None,
        partitions: Mapping[str, Sequence[int]] | str | None = None,
        include_internal_topics: bool = False,
        isolation_level: str | None = None,
        idle_timeout: float | str | timedelta | None = None,
        clock_skew: float | str | timedelta | None = None,
        poke_interval: float | timedelta = 60.0,
    ) -> None:
        super().__init__()
        self.width = _plain(width)
        self.kafka_config_id = kafka_config_id
        self.topics = topics
        self.topic_pattern = topic_pattern
        self.partitions = partitions
        self.include_internal_topics = include_internal_topics
        self.isolation_level = isolation_level
        self._scope = ScopeParameters(
            topics, topic_pattern, partitions, include_internal_topics, isolation_level=isolation_level
        )
        self.idle_timeout = _plain(idle_timeout)
        self.clock_skew = _plain(clock_skew)
        problems = Problems()
        self._width_ms = problems.take("width", lambda: parse_age_ms(width), 1)
        self.poke_interval = problems.take("poke_interval", lambda: parse_seconds(poke_interval), 0.0)
        for name, wait in (("idle_timeout", idle_timeout), ("clock_skew", clock_skew)):
            problems.take(name, lambda wait=wait: parse_wait_ms(0 if wait is None else wait), 0)  # type: ignore[misc]
        problems.take_all(lambda: parse_scope(self._scope))
        refuse_to_watch("KafkaWindowEventTrigger", problems)
        self._waiting: WindowCompleteTrigger | None = None  # it remembers which partitions move

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "airflow_kafka_offsets.triggers.window_event.KafkaWindowEventTrigger",
            {**self.watched(), "poke_interval": self.poke_interval},
        )

    def watched(self) -> dict[str, Any]:
        names = ("topics", "topic_pattern", "partitions", "include_internal_topics", "isolation_level")
        others = ("width", "kafka_config_id", "idle_timeout", "clock_skew")
        return {name: getattr(self, name) for name in (*names, *others)}

    async def look_past(self, told: Any) -> tuple[dict[str, Any] | None, Any]:
        """:param told: the end of the last window that was told, or of the last one before the watcher was started."""
        return await in_thread(self.kafka_config_id, partial(self._look_past, told))

    def _look_past(self, told: Any) -> tuple[dict[str, Any] | None, Any]:
        if not isinstance(told, int):
            return None, now_ms() // self._width_ms * self._width_ms
        end_ms = told + self._width_ms
        if now_ms() < end_ms:
            return None, told
        if self._waiting is None or self._waiting.end_ms != end_ms:
            self._waiting = wait_until(
                end_ms,
                kafka_config_id=self.kafka_config_id,
                scope=self._scope,
                occasion=Occasion(now_ms()),
                clock_skew=self.clock_skew,
                poke_interval=self.poke_interval,
                idle_timeout=self.idle_timeout,
            )
        report = self._waiting.look()
        if isinstance(report, NotYet):
            self.log.info("Waiting: %s", report.missing)
            return None, told
        window = {"window_start_ms": told, "window_end_ms": end_ms, "low_watermark_ms": report["low_watermark_ms"]}
        return window, end_ms


def _plain(value: Any) -> Any:
    """As JSON: a trigger is stored as such."""
    return value.total_seconds() if isinstance(value, timedelta) else value
