"""The wait of ``WindowCompleteSensor`` in the triggerer: one batch question a poke."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_offsets.arrivals import look_for_arrivals
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.complete import (
    DEFAULT_CLOCK_SKEW_MS,
    Arrived,
    Completeness,
    judge,
    moves,
    parse_wait_ms,
)
from airflow_kafka_offsets.offsets.discovery import missing_for
from airflow_kafka_offsets.offsets.model import IsolationLevel, TopicPartition, by_topic
from airflow_kafka_offsets.offsets.parse import parse_subscription, subscription_of
from airflow_kafka_offsets.offsets.spec import EarliestOffset, UntilTimestamp
from airflow_kafka_offsets.planner import now_ms, request_for
from airflow_kafka_offsets.triggers.waiting import WaitingTrigger

log = logging.getLogger(__name__)

_EACH_UP_TO = 500  # partitions; above, the report has no columns, as the plan in XCom has none


class WindowCompleteTrigger(WaitingTrigger):
    """Fires a report once the window is complete.

    The partitions are those of the first look that the cluster answers, which also asks who stamps the records; from
    then on a poke asks for the newest timestamps and nothing else (``read_committed``: see ``arrivals.py``). When each
    partition moved is remembered here, and only here: a triggerer that restarts counts from the window's end again.
    """

    def __init__(
        self,
        *,
        kafka_config_id: str,
        topics: Sequence[str] | str | None,
        topic_pattern: str | None,
        partitions: Mapping[str, Sequence[int]] | str | None,
        include_internal_topics: bool,
        isolation_level: IsolationLevel,
        end_ms: int,
        idle_timeout_ms: int,
        clock_skew_ms: int,
        poke_interval: float,
        ends_by_topic: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(poke_interval)
        self.kafka_config_id = kafka_config_id
        self.topics = topics
        self.topic_pattern = topic_pattern
        self.partitions = partitions
        self.include_internal_topics = include_internal_topics
        self.isolation_level = isolation_level
        self.end_ms = end_ms
        self.idle_timeout_ms = idle_timeout_ms
        self.clock_skew_ms = clock_skew_ms
        self.ends_by_topic = ends_by_topic or {}
        self._found: Collection[TopicPartition] = ()
        self._append_time_topics: Collection[str] = ()
        self._arrived: Mapping[TopicPartition, Arrived] = {}
        self._moved_ms: Mapping[TopicPartition, int] = {}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "airflow_kafka_offsets.triggers.window_complete.WindowCompleteTrigger",
            {
                "kafka_config_id": self.kafka_config_id,
                **subscription_of(self),
                "isolation_level": self.isolation_level,
                "end_ms": self.end_ms,
                "idle_timeout_ms": self.idle_timeout_ms,
                "clock_skew_ms": self.clock_skew_ms,
                "poke_interval": self.poke_interval,
                "ends_by_topic": self.ends_by_topic,
            },
        )

    def look(self) -> dict[str, Any] | None:
        """The report on a window that is complete, or ``None`` while it is not."""
        with KafkaOffsetsHook(self.kafka_config_id).open_cluster() as cluster:
            if not self._found and not self._discover(cluster):
                return None
            ends_ms = {tp: self.ends_by_topic.get(tp.topic, self.end_ms) for tp in self._found}
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
            self.log.info("Waiting: %s", judged)
            return None
        self.log.info("The window is %s", judged)
        return _report(judged, self._found)

    def _discover(self, cluster: KafkaCluster) -> bool:
        subscription = parse_subscription(**subscription_of(self))
        topics = cluster.discover(subscription).topics
        missing = missing_for(subscription, topics, 1)
        if missing:
            self.log.info("Waiting: %s", "; ".join(missing))
            return False
        types = cluster.timestamp_types(topics)
        self._append_time_topics = {name for name, stamped_by in types.items() if stamped_by == "LogAppendTime"}
        self._found = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.leaders]
        return True


def _report(judged: Completeness, partitions: Collection[TopicPartition]) -> dict[str, Any]:
    report: dict[str, Any] = {"end_ms": judged.end_ms, "low_watermark_ms": judged.low_watermark_ms}
    if len(partitions) <= _EACH_UP_TO:
        numbers = by_topic(partitions)
        report["newest_timestamps"] = {
            topic: {str(n): judged.newest.get(TopicPartition(topic, n)) for n in of_topic}
            for topic, of_topic in numbers.items()
        }
        report["idle"] = by_topic(judged.idle)
    return report


def wait_until(
    end: int | str | datetime | None,
    *,
    kafka_config_id: str,
    subscription: Mapping[str, Any],
    clock_skew: timedelta | float | str | None,
    poke_interval: float,
    **asked: Any,
) -> WindowCompleteTrigger:
    """The trigger that waits for ``end``, read by the same parser as the resolve task's request.

    :param subscription: ``topics``, ``topic_pattern``, ``partitions`` and ``include_internal_topics``.
    :param asked: more of that task's parameters; what they are not given for is the connection's.
    :raises InvalidRequest: with every problem.
    """
    problems: list[str] = []
    try:
        clock_skew_ms = DEFAULT_CLOCK_SKEW_MS if clock_skew is None else parse_wait_ms(clock_skew)
    except ValueError as error:
        problems.append(f"clock_skew {error}.")
    try:
        request = request_for(
            KafkaOffsetsHook(kafka_config_id).client_config,
            {
                **subscription,
                "startup_mode": EarliestOffset.name,  # any that asks for nothing else
                "bounded_mode": UntilTimestamp.name,
                "bounded_timestamp": end,
                **asked,
            },
        )
    except InvalidRequest as error:
        problems += [problem.replace("bounded_timestamp", "end") for problem in error.problems]
    if problems:
        raise InvalidRequest(tuple(problems))
    assert isinstance(request.bounded, UntilTimestamp)
    for warning in request.warnings:
        log.warning(warning)
    return WindowCompleteTrigger(
        kafka_config_id=kafka_config_id,
        **subscription,
        isolation_level=request.isolation_level,
        end_ms=request.bounded.timestamp_ms,
        idle_timeout_ms=request.idle_timeout_ms,
        clock_skew_ms=clock_skew_ms,
        poke_interval=poke_interval,
        ends_by_topic=request.bounded.by_topic,
    )
