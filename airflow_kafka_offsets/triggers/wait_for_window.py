"""The wait of ``WindowCompleteSensor`` in the triggerer: one batch question a poke."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.batch.complete_request import with_connection
from airflow_kafka_offsets.batch.partition_states import look_for_arrivals
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.hooks.value_sizes import fits
from airflow_kafka_offsets.kafka_values import IsolationLevel, TopicPartition, by_topic
from airflow_kafka_offsets.plan.completeness import Arrived, Completeness, judge, moves
from airflow_kafka_offsets.plan.missing_topics import missing_for
from airflow_kafka_offsets.request.modes import time_of
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.request.parse_request import RunContext, parse_window_end
from airflow_kafka_offsets.request.subscription import parse_scope
from airflow_kafka_offsets.triggers.deferred_wait import NotYet, WaitingTrigger
from airflow_kafka_offsets.triggers.shared_client import cluster_of

if TYPE_CHECKING:
    from airflow_kafka_offsets.broker.cluster import KafkaCluster

log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False, kw_only=True)
class WindowCompleteTrigger(WaitingTrigger):
    """Fires a report once the window is complete.

    The partitions are those of the first look that the cluster answers, which also asks who stamps the records; from
    then on a poke asks for the newest timestamps alone (``read_committed``: see ``batch/partition_states.py``).
    When each partition moved is remembered here, and only here: a triggerer that restarts counts from the window's end
    again.

    :param scope: the fields of :class:`ScopeParameters`.
    """

    scope: Mapping[str, Any]
    isolation_level: IsolationLevel
    end_ms: int
    idle_timeout_ms: int
    clock_skew_ms: int
    ends_by_topic: Mapping[str, int] = field(default_factory=dict)
    _found: Collection[TopicPartition] = field(init=False, default=())
    _append_time_topics: Collection[str] = field(init=False, default=())
    _arrived: Mapping[TopicPartition, Arrived] = field(init=False, default_factory=dict)
    _moved_ms: Mapping[TopicPartition, int] = field(init=False, default_factory=dict)

    def look(self) -> dict[str, Any] | NotYet:
        """The report on a window that is complete, or what is missing."""
        with cluster_of(self.kafka_config_id, kafka_hook(self.kafka_config_id).client_config) as cluster:
            missing = [] if self._found else self._discover(cluster)
            if missing:
                return NotYet("; ".join(missing))
            ends_ms = {tp: time_of(tp, self.ends_by_topic, self.end_ms) for tp in self._found}
            arrived = look_for_arrivals(cluster, ends_ms, self.isolation_level)
        now = now_ms()
        self._moved_ms = moves(self._arrived, arrived, self._moved_ms, now)
        self._arrived = arrived
        judged = judge(
            self.end_ms,
            arrived,
            now_ms=now,
            idle_timeout_ms=self.idle_timeout_ms,
            append_time_topics=self._append_time_topics,
            clock_skew_ms=self.clock_skew_ms,
            moved_ms=self._moved_ms,
            by_topic=self.ends_by_topic,
        )
        if not judged.complete:
            return NotYet(str(judged))
        self.log.info("The window is %s", judged)
        return _report(judged, self._found)

    def _discover(self, cluster: KafkaCluster) -> list[str]:
        """Which partitions there are, and who stamps their records; or what is missing."""
        subscription = parse_scope(ScopeParameters(**self.scope)).subscription
        topics = cluster.discover(subscription).topics
        missing = missing_for(subscription, topics, 1)
        if missing:
            return missing
        settings = cluster.topic_settings(topics)
        self._append_time_topics = {name for name, of in settings.items() if of.timestamp_type == "LogAppendTime"}
        self._found = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.leaders]
        return []


def _report(judged: Completeness, partitions: Collection[TopicPartition]) -> dict[str, Any]:
    report: dict[str, Any] = {"end_ms": judged.end_ms, "low_watermark_ms": judged.low_watermark_ms}
    newest = {
        topic: {str(n): judged.newest.get(TopicPartition(topic, n)) for n in of_topic}
        for topic, of_topic in by_topic(partitions).items()
    }
    whole = {**report, "newest_timestamps": newest, "idle": by_topic(judged.idle)}
    return whole if fits(whole) else report


def wait_until(
    end: int | str | datetime | None,
    *,
    kafka_config_id: str,
    scope: ScopeParameters,
    run_context: RunContext,
    partition_width: str | timedelta | None = None,
    idle_timeout: timedelta | float | str | None = None,
    clock_skew: timedelta | float | str | None = None,
    **pace: Any,
) -> WindowCompleteTrigger:
    """The trigger that waits for ``end``, read by the same parser as the resolve task's request.

    :param run_context: of the run, whose window it is where ``end`` is not given.
    :param pace: as of the trigger.
    :raises InvalidRequest: with every problem.
    """
    asked = with_connection(kafka_hook(kafka_config_id).client_config, scope)
    window = parse_window_end(
        asked,
        end,
        run_context,
        partition_width=partition_width,
        idle_timeout=idle_timeout,
        clock_skew=clock_skew,
    )
    for warning in window.warnings:
        log.warning(warning)
    return WindowCompleteTrigger(
        kafka_config_id=kafka_config_id,
        scope=asked.to_dict(),
        isolation_level=window.scope.isolation_level,
        end_ms=window.until.timestamp_ms,
        idle_timeout_ms=window.idle_timeout_ms,
        clock_skew_ms=window.clock_skew_ms,
        ends_by_topic=window.until.by_topic,
        **pace,
    )
