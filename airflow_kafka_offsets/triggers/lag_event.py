"""The trigger of an ``AssetWatcher``: it looks for a backlog for ever, and remembers for which one it has fired.

What it has fired for is stored in the asset's state store, where Airflow gives one, and written at the next look and
not before: by then Airflow has stored the event. So a triggerer that dies may fire twice, and misses no backlog.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_kafka_offsets.errors import InvalidRequest, KafkaOffsetsError
from airflow_kafka_offsets.plan.consumer_lag import Announced, is_new_backlog, parse_limits
from airflow_kafka_offsets.request.problems import Problems
from airflow_kafka_offsets.request.subscription import parse_scope
from airflow_kafka_offsets.request.times import parse_span_ms, parse_wait_ms
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.triggers.shared_client import in_thread, shared_client
from airflow_kafka_offsets.triggers.wait_for_lag import LagWatch, event_of


class KafkaLagEventTrigger(BaseEventTrigger):
    """For an ``AssetWatcher``: fires when a group's lag is enough, once for each backlog.

    The payload is the lag by topic: ``{"group_id": …, "lag": 120, "topics": {"orders": 120}, …}``; ``topics`` is
    ``None`` where it has more than 48 KiB. After it has fired, it fires again when a run has committed, and enough is
    unread still or again. A backlog that only grows does not fire again: the run that was started reads what is there
    when it plans. If no run moves the position for ``remind_after``, it fires once more, because the run may have
    failed. It never ends, whatever is wrong with the cluster or its rights: that is in the triggerer's log.

    :param poke_interval: seconds between two looks.
    :param remind_after: seconds or an ISO 8601 duration (``PT1H``); ``None`` never reminds.
    :param watch: the parameters of :class:`LagWatch`: ``topics``, ``group_id``, ``min_records``, ``max_age``, … No
        templates: nothing renders them for a watcher.
    :raises TypeError: with every problem. It is the one kind of error that a triggerer survives, too.
    """

    asset_state_store: Any = None  # Airflow gives one from 3.3 on; before, a restart may fire again

    def __init__(
        self,
        *,
        poke_interval: float | timedelta = 60.0,
        remind_after: float | str | timedelta | None = "PT1H",
        **watch: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow
        self.watch = LagWatch(**watch)
        self.remind_after = remind_after.total_seconds() if isinstance(remind_after, timedelta) else remind_after
        problems = Problems()
        self.poke_interval = problems.take("poke_interval", lambda: parse_wait_ms(poke_interval), 0) / 1000
        self._remind_after_ms = problems.take("remind_after", lambda: parse_span_ms(self.remind_after), None)
        problems.take_all(lambda: parse_limits(*self.watch.limits))
        problems.take_all(lambda: parse_scope(self.watch))
        if self.watch.work_store is not None:
            problems.take_all(lambda: location_of(str(self.watch.work_store)))
        if problems:
            raise TypeError(f"KafkaLagEventTrigger: {InvalidRequest(tuple(problems))}")

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "airflow_kafka_offsets.triggers.lag_event.KafkaLagEventTrigger",
            {**self.watch.to_dict(), "poke_interval": self.poke_interval, "remind_after": self.remind_after},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        fired_for = stored = await self._recall()
        with shared_client(self.watch.kafka_config_id):
            while True:
                if fired_for != stored:
                    await self._store(fired_for)
                    stored = fired_for
                try:
                    payload, fired_for = await in_thread(self.watch.waits_for, partial(self.look, fired_for))
                except KafkaOffsetsError as error:
                    self.log.warning("Looking again in %s s: %s", self.poke_interval, error)
                else:
                    if payload is not None:
                        yield TriggerEvent(payload)
                await asyncio.sleep(self.poke_interval)

    def look(self, fired_for: Any) -> tuple[dict[str, Any] | None, Any]:
        """One look: the payload of an event, where there is a new backlog, and what it has fired for then.

        :param fired_for: what this gave before, as JSON; ``None`` at the first look of all.
        """
        lag = self.watch.look()
        if lag.missing:
            self.log.warning("Waiting: %s", lag)
        if not is_new_backlog(lag, Announced.from_dict(fired_for), self._remind_after_ms):
            return None, fired_for
        return event_of(lag), asdict(Announced(lag.position, lag.looked_at_ms))

    @property
    def _state_key(self) -> str:
        """An asset may have several watchers."""
        watched = hashlib.sha256(json.dumps(self.watch.to_dict(), sort_keys=True).encode()).hexdigest()[:16]
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
