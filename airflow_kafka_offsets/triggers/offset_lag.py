"""Waiting for a backlog: once, for a deferred ``OffsetLagSensor``, and again and again, for an ``AssetWatcher``.

Neither joins the group, so neither is in a consumer's way, and a live group can be watched too. All of them that watch
one Kafka connection at one interval share a client and its questions: ``triggers/poller.py``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.hooks.kafka_hook import kafka_hook, open_cluster
from airflow_kafka_offsets.hooks.travelling import fits
from airflow_kafka_offsets.hooks.work_store import configured_work_store
from airflow_kafka_offsets.offsets.lag import Announced, Lag, is_new_backlog, parse_age_ms, parse_limits
from airflow_kafka_offsets.offsets.problems import Problems
from airflow_kafka_offsets.offsets.request.parameters import ScopeParameters, parameters_of
from airflow_kafka_offsets.offsets.request.subscription import parse_scope
from airflow_kafka_offsets.offsets.request.times import parse_seconds
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.lag import LagQuestion, lag_question, look_at_lag
from airflow_kafka_offsets.pipeline.request import scope_for
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog
from airflow_kafka_offsets.triggers.polled import PolledTrigger
from airflow_kafka_offsets.triggers.poller import Asked, next_moment, shared_poller
from airflow_kafka_offsets.triggers.waiting import NotYet
from airflow_kafka_offsets.triggers.watching import WatchingTrigger, refuse_to_watch


@dataclass(frozen=True, kw_only=True)
class LagWatch:
    """Whose lag over which topics, and how much of it is enough.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider.
    :param topics: topic names; exactly one of ``topics``, ``topic_pattern`` and ``partitions``.
    :param topic_pattern: a regular expression for whole names.
    :param partitions: ``{"topic": [0, 2]}``.
    :param group_id: default: the connection's ``group.id``.
    :param pipeline_id: measure from this pipeline's position, instead of what the group holds.
    :param work_store: of that pipeline.
    :param isolation_level: default: the connection's.
    :param min_records: so many unread records are enough. Neither this nor ``max_age``: one record.
    :param max_age: so is one that is older: seconds, or an ISO 8601 duration (``PT10M``).
    """

    kafka_config_id: str = "kafka_default"
    topics: Sequence[str] | str | None = None
    topic_pattern: str | None = None
    partitions: Mapping[str, Sequence[int]] | str | None = None
    group_id: str | None = None
    pipeline_id: str | None = None
    work_store: str | None = None
    isolation_level: str | None = None
    min_records: int | str | None = None
    max_age: float | str | timedelta | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON: what a trigger is stored as."""
        age = self.max_age
        return {**asdict(self), "max_age": age.total_seconds() if isinstance(age, timedelta) else age}

    def ask(self) -> Asked:
        """What has to be asked of the cluster, after a look at the connection and the pipeline's log.

        :raises InvalidRequest: the request is wrong, whatever the cluster holds.
        """
        config = self._client_config
        return Asked(config, self._question(config))

    def look(self) -> Lag:
        """One look at the cluster by a client of its own: six batch questions or fewer, however many partitions.

        :raises InvalidRequest: the request is wrong, whatever the cluster holds.
        :raises ClusterUnavailable: the cluster could not be asked.
        """
        config = self._client_config
        question = self._question(config)
        with open_cluster(config) as cluster:
            return look_at_lag(question, cluster, cluster.discover(question.scope.subscription), now_ms())

    @property
    def _client_config(self) -> Mapping[str, Any]:
        return kafka_hook(self.kafka_config_id).client_config

    def _question(self, client_config: Mapping[str, Any]) -> LagQuestion:
        limits = parse_limits(self.min_records, self.max_age)
        scope = scope_for(client_config, parameters_of(ScopeParameters, self))
        named = scope.pipeline_id
        pipeline = PipelineLog(configured_work_store(self.work_store), named) if named else None
        return lag_question(scope, limits, pipeline)


class OffsetLagTrigger(PolledTrigger):
    """Fires the lag once it is enough; the parameters are those of :class:`LagWatch`."""

    def __init__(
        self, *, poke_interval: float, until_ms: int | None = None, silent_fail: bool = False, **watch: Any
    ) -> None:
        self.watch = LagWatch(**watch)
        super().__init__(self.watch.kafka_config_id, poke_interval, until_ms, silent_fail)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return ("airflow_kafka_offsets.triggers.offset_lag.OffsetLagTrigger", {**self.watch.to_dict(), **self.pace})

    def look(self) -> dict[str, Any] | NotYet:
        return _judged(self.watch.look())

    async def look_again(self) -> dict[str, Any] | NotYet:
        return _judged(await self._poller.lag(self.watch.ask))


def _judged(lag: Lag) -> dict[str, Any] | NotYet:
    return _told(lag) if lag.is_enough else NotYet(str(lag))


def _told(lag: Lag) -> dict[str, Any]:
    """The lag as JSON; without the topics where they are too many for Airflow's database."""
    whole = lag.to_dict()
    return whole if fits(whole) else {**whole, "topics": None}


class KafkaLagEventTrigger(WatchingTrigger):
    """For an ``AssetWatcher``: fires when a group's lag is enough, once for each backlog.

    The payload is the lag by topic: ``{"group_id": …, "lag": 120, "topics": {"orders": 120}, …}``; ``topics`` is
    ``None`` where it has more than 48 KiB. After it has fired, it fires again when a run has committed, and enough is
    unread still or again. A backlog that only grows does not fire again: the run that was started reads what is there
    when it plans. If no run moves the position for ``remind_after``, it fires once more, because the run may have
    failed.

    :param poke_interval: seconds between two looks.
    :param remind_after: seconds or an ISO 8601 duration (``PT1H``); ``None`` never reminds.
    :param watch: the parameters of :class:`LagWatch`: ``topics``, ``group_id``, ``min_records``, ``max_age``, … No
        templates: nothing renders them for a watcher.
    """

    def __init__(
        self,
        *,
        poke_interval: float | timedelta = 60.0,
        remind_after: float | str | timedelta | None = "PT1H",
        **watch: Any,
    ) -> None:
        super().__init__()
        self.watch = LagWatch(**watch)
        self.remind_after = remind_after.total_seconds() if isinstance(remind_after, timedelta) else remind_after
        problems = Problems()
        self.poke_interval = problems.take("poke_interval", lambda: parse_seconds(poke_interval), 0.0)
        self._remind_after_ms = problems.take(
            "remind_after", lambda: None if self.remind_after is None else parse_age_ms(self.remind_after), None
        )
        problems.take_all(lambda: parse_limits(self.watch.min_records, self.watch.max_age))
        problems.take_all(lambda: parse_scope(parameters_of(ScopeParameters, self.watch)))
        if self.watch.work_store is not None:
            problems.take_all(lambda: location_of(str(self.watch.work_store)))
        refuse_to_watch("KafkaLagEventTrigger", problems)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "airflow_kafka_offsets.triggers.offset_lag.KafkaLagEventTrigger",
            {**self.watch.to_dict(), "poke_interval": self.poke_interval, "remind_after": self.remind_after},
        )

    def watched(self) -> dict[str, Any]:
        return self.watch.to_dict()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        with shared_poller(self.watch.kafka_config_id, self.poke_interval) as self._poller:
            async for event in super().run():
                yield event

    async def look_past(self, told: Any) -> tuple[dict[str, Any] | None, Any]:
        lag = await self._poller.lag(self.watch.ask)
        if lag.missing:
            self.log.warning("Waiting: %s", lag)
        if not is_new_backlog(lag, Announced.from_dict(told), self._remind_after_ms):
            return None, told
        return _told(lag), Announced(lag.position, lag.looked_at_ms).to_dict()

    async def pause(self) -> None:
        await next_moment(self.poke_interval)
