"""Waiting for a backlog in the triggerer: for a deferred ``OffsetLagSensor``, and for an ``AssetWatcher``.

Neither joins the group. The trigger of a watcher looks for ever, and remembers for which backlog it has fired: in the
asset's state store, where Airflow gives one. It writes that at the next look and not before: by then Airflow has stored
the event. So a triggerer that dies may fire twice, and misses no backlog.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_kafka_offsets.batch.measured_lag import lag_question, look_at_lag
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import InvalidRequest, KafkaOffsetsError
from airflow_kafka_offsets.hooks.lazy_kafka_hook import kafka_hook
from airflow_kafka_offsets.hooks.metrics import send_lag
from airflow_kafka_offsets.hooks.value_sizes import fits
from airflow_kafka_offsets.hooks.work_store import configured_log
from airflow_kafka_offsets.plan.consumer_lag import Announced, Lag, is_new_backlog, parse_limits
from airflow_kafka_offsets.request.parameters import ScopeParameters, names_of
from airflow_kafka_offsets.request.problems import Problems
from airflow_kafka_offsets.request.subscription import parse_scope, scope_for
from airflow_kafka_offsets.request.times import parse_span_ms, parse_wait_ms
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.triggers.deferred_wait import NotYet, StoredTrigger, WaitingTrigger
from airflow_kafka_offsets.triggers.shared_client import cluster_of, in_thread, shared_client


@dataclass(eq=False, kw_only=True)
class LagWatch(ScopeParameters):
    """Whose lag over which topics, and how much of it is enough.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider.
    :param topics: topic names; exactly one of ``topics``, ``topic_pattern`` and ``partitions``.
    :param topic_pattern: a regular expression for whole names.
    :param partitions: ``{"topic": [0, 2]}``.
    :param group_id: default: the connection's ``group.id``.
    :param pipeline_id: measure from this pipeline's position, instead of what the group holds.
    :param work_store: of that pipeline.
    :param isolation_level: default: the connection's.
    :param min_records: so many unread records are enough. None of the three: one record.
    :param max_age: so is one that is older: seconds, or an ISO 8601 duration (``PT10M``).
    :param min_retention_margin: so is one that retention may delete before this time has passed.
    """

    kafka_config_id: str = "kafka_default"
    work_store: str | None = None
    min_records: int | str | None = None
    max_age: float | str | timedelta | None = None
    min_retention_margin: float | str | timedelta | None = None

    @property
    def limits(self) -> tuple[Any, Any, Any]:
        """As :func:`parse_limits` takes them."""
        return self.min_records, self.max_age, self.min_retention_margin

    @property
    def waits_for(self) -> str:
        """What may hang during a look: the connection's brokers, and a pipeline's work store."""
        return self.kafka_config_id if self.pipeline_id is None else f"{self.kafka_config_id} {self.work_store}"

    def measured(self) -> Lag:
        """One look: eight batch questions or fewer, however many partitions. It is sent to Airflow's metrics, too.

        :raises InvalidRequest: the request is wrong, whatever the cluster holds.
        :raises ClusterUnavailable: the cluster could not be asked.
        """
        hook = kafka_hook(self.kafka_config_id)
        limits = parse_limits(*self.limits)
        scope = scope_for(hook.client_config, self)
        named = scope.pipeline_id
        question = lag_question(scope, limits, configured_log(self.work_store, named) if named else None)
        with cluster_of(hook) as cluster:
            lag = look_at_lag(question, cluster, cluster.discover(scope.subscription), now_ms())
        send_lag(lag, named)
        return lag


@dataclass(eq=False, repr=False, kw_only=True)
class OffsetLagTrigger(LagWatch, WaitingTrigger):
    """Fires the lag once it is enough; the parameters are those of :class:`LagWatch`."""

    def look(self) -> dict[str, Any] | NotYet:
        lag = self.measured()
        return event_of(lag) if lag.is_enough else NotYet(str(lag))


def event_of(lag: Lag) -> dict[str, Any]:
    """The lag as JSON; without the topics where they are too many for Airflow's database."""
    whole = lag.to_dict()
    return whole if fits(whole) else {**whole, "topics": None}


@dataclass(eq=False, repr=False, kw_only=True)
class KafkaLagEventTrigger(LagWatch, StoredTrigger, BaseEventTrigger):
    """For an ``AssetWatcher``: fires when a group's lag is enough, once for each backlog.

    The payload is the lag by topic: ``{"group_id": …, "lag": 120, "topics": {"orders": 120}, …}``; ``topics`` is
    ``None`` where it has more than 48 KiB. After it has fired, it fires again when a run has committed, and enough is
    unread still or again. A backlog that only grows does not fire again: the run that was started reads what is there
    when it plans. If no run moves the position for ``remind_after``, it fires once more, because the run may have
    failed. It never ends, whatever is wrong with the cluster or its rights: that is in the triggerer's log.

    The other parameters are those of :class:`LagWatch`: ``topics``, ``group_id``, ``min_records``, ``max_age``, … No
    templates: nothing renders them for a watcher.

    :param poke_interval: seconds between two looks.
    :param remind_after: seconds or an ISO 8601 duration (``PT1H``); ``None`` never reminds.
    :raises TypeError: with every problem. It is the one kind of error that a triggerer survives, too.
    """

    poke_interval: float | timedelta = 60.0
    remind_after: float | str | timedelta | None = "PT1H"
    # Airflow gives one from 3.3 on; before, a restart may fire again
    asset_state_store: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        problems, interval = Problems(), self.poke_interval
        self._poke_interval_s = problems.take("poke_interval", lambda: parse_wait_ms(interval), 0) / 1000
        self._remind_after_ms = problems.take("remind_after", lambda: parse_span_ms(self.remind_after), None)
        problems.take_all(lambda: parse_limits(*self.limits))
        problems.take_all(lambda: parse_scope(self))
        if self.work_store is not None:
            problems.take_all(lambda: location_of(str(self.work_store)))
        if problems:
            raise TypeError(f"KafkaLagEventTrigger: {InvalidRequest(tuple(problems))}")

    async def run(self) -> AsyncIterator[TriggerEvent]:
        fired_for = stored = await self._recall()
        with shared_client(self.kafka_config_id):
            while True:
                if fired_for != stored:
                    await self._store(fired_for)
                    stored = fired_for
                try:
                    payload, fired_for = await in_thread(self.waits_for, partial(self.look, fired_for))
                except KafkaOffsetsError as error:
                    self.log.warning("Looking again in %s s: %s", self._poke_interval_s, error)
                else:
                    if payload is not None:
                        yield TriggerEvent(payload)
                await asyncio.sleep(self._poke_interval_s)

    def look(self, fired_for: Any) -> tuple[dict[str, Any] | None, Any]:
        """One look: the payload of an event, where there is a new backlog, and what it has fired for then.

        :param fired_for: what this gave before, as JSON; ``None`` at the first look of all.
        """
        lag = self.measured()
        if lag.missing:
            self.log.warning("Waiting: %s", lag)
        if not is_new_backlog(lag, Announced.from_dict(fired_for), self._remind_after_ms):
            return None, fired_for
        return event_of(lag), asdict(Announced(lag.position, lag.looked_at_ms))

    @property
    def _state_key(self) -> str:
        """An asset may have several watchers."""
        given = self.serialize()[1]
        about = {name: given[name] for name in names_of(LagWatch)}
        watched = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
        return f"kafka_offsets.{type(self).__name__}:{watched}"

    async def _recall(self) -> Any:
        if self.asset_state_store is None:
            return None
        try:
            return await self.asset_state_store.aget(self._state_key)
        except Exception as error:  # of any kind: without a memory, it may fire again
            self.log.warning("It is not known for which backlog this has fired, so it may fire again: %s", error)
            return None

    async def _store(self, fired_for: Any) -> None:
        if self.asset_state_store is None:
            return
        try:
            await self.asset_state_store.aset(self._state_key, fired_for)
        except Exception as error:  # as above; several assets with this one trigger are such a case
            self.log.warning("A restart may fire for the same backlog again, since it cannot be stored: %s", error)
