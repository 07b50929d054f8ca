"""What the sensors wait for in the triggerer: partitions, an empty group, a commit, a window that is complete."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import CONNECTION, InvalidRequest, listed, named
from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.hooks.metrics import send_window
from airflow_kafka_offsets.hooks.value_sizes import fits
from airflow_kafka_offsets.hooks.work_store import configured_log
from airflow_kafka_offsets.kafka_values import IsolationLevel, TopicPartition, by_topic, values_by_topic
from airflow_kafka_offsets.plan.completeness import Arrived, Completeness, judge, moves
from airflow_kafka_offsets.plan.missing_topics import missing_for
from airflow_kafka_offsets.request.commit_target import target_from_dict
from airflow_kafka_offsets.request.modes import time_of
from airflow_kafka_offsets.request.parameters import RequestParameters, ScopeParameters
from airflow_kafka_offsets.request.policies import parse_policies
from airflow_kafka_offsets.request.subscription import parse_scope, with_connection
from airflow_kafka_offsets.triggers.deferred_wait import NotYet, WaitingTrigger
from airflow_kafka_offsets.triggers.shared_client import cluster_of

if TYPE_CHECKING:
    from airflow_kafka_offsets.broker.cluster import KafkaCluster


@dataclass(eq=False, repr=False, kw_only=True)
class PartitionDiscoveryTrigger(WaitingTrigger):
    """Fires ``{"cluster_id": …, "topics": …}`` once nothing is missing: one metadata call a look.

    :param scope: the fields of :class:`ScopeParameters`.
    :param policies: ``{"unavailable": …}`` of the plan that is waited for; ``hold``: what a person holds.
    """

    scope: Mapping[str, Any]
    min_partitions: int
    policies: Any = None
    hold: Any = None

    def look(self) -> dict[str, Any] | NotYet:
        """``{"cluster_id": …, "topics": {"orders": [0, 1]}}``, or what is missing."""
        subscription = parse_scope(ScopeParameters(**self.scope)).subscription
        with cluster_of(kafka_hook(self.kafka_config_id)) as cluster:
            found = cluster.discover(subscription)
        may_hold = parse_policies(RequestParameters(policies=self.policies, hold=self.hold)).may_hold
        missing = missing_for(subscription, found.topics, self.min_partitions, may_hold)
        if missing:
            return NotYet("; ".join(missing))
        return {"cluster_id": found.cluster_id, "topics": by_topic(found.partitions())}


@dataclass(eq=False, repr=False, kw_only=True)
class GroupEmptyTrigger(WaitingTrigger):
    """Fires ``{"group_id": …, "state": "Empty"}`` once the group has no live member: one question a look.

    :param group_id: default: the connection's ``group.id``.
    """

    group_id: str | None

    def look(self) -> dict[str, Any] | NotYet:
        """The group's state, or who is still a member."""
        hook = kafka_hook(self.kafka_config_id)
        group_id = with_connection(hook.client_config, ScopeParameters(group_id=self.group_id)).group_id
        if group_id is None:
            raise InvalidRequest((f"Which group? Give {named('group_id')}, or set group.id in {named(CONNECTION)}.",))
        with cluster_of(hook) as cluster:
            group = cluster.describe_group(group_id)
        if group.is_empty:
            return {"group_id": group_id, "state": group.state}
        return NotYet(f"group {group_id} is {group.state}: {listed(group.members) or 'its members are not listed'}")


@dataclass(eq=False, repr=False, kw_only=True)
class BatchCommittedTrigger(WaitingTrigger):
    """Fires ``{"pipeline_id": …, "batch": …}`` once the pipeline has committed up to ``target``.

    It reads the pipeline's log, and asks Kafka only for a time.

    :param target: what :func:`~airflow_kafka_offsets.request.commit_target.target_to_dict` gives.
    :param topics: which topics a time is about; none: all of the pipeline's position.
    """

    pipeline_id: str
    target: Mapping[str, Any]
    topics: Sequence[str] = ()
    work_store: str | None = None

    @property
    def waits_for(self) -> str:
        return f"{self.kafka_config_id} {self.work_store}"

    def look(self) -> dict[str, Any] | NotYet:
        """The key of the newest batch that is committed, or what is missing."""
        from airflow_kafka_offsets.batch.measured_lag import look_at_commits

        hook = kafka_hook(self.kafka_config_id)
        pipeline = configured_log(self.work_store, self.pipeline_id)
        key, missing = look_at_commits(
            target_from_dict(self.target),
            pipeline,
            lambda: cluster_of(hook),
            self.topics,
            now_ms(),
        )
        return NotYet(listed(missing)) if missing else {"pipeline_id": self.pipeline_id, "batch": key}


# ── a complete window: one batch question a poke ──────────────────────────────────────────────────────────────────────


@dataclass(eq=False, repr=False, kw_only=True)
class WindowCompleteTrigger(WaitingTrigger):
    """Fires a report once the window is complete.

    The partitions are those of the first look that the cluster answers, which also asks who stamps the records; from
    then on a poke asks for the newest timestamps alone (``read_committed``: see ``batch/measured_lag.py``).
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
        from airflow_kafka_offsets.batch.measured_lag import look_for_arrivals

        with cluster_of(kafka_hook(self.kafka_config_id)) as cluster:
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
        send_window(judged, self.scope.get("pipeline_id"), now)
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
    newest = values_by_topic({tp: judged.newest.get(tp) for tp in partitions})
    whole = {**report, "newest_timestamps": newest, "idle": by_topic(judged.idle)}
    return whole if fits(whole) else report
