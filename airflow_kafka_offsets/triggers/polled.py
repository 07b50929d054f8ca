"""Deferred sensors whose looks are answered together with those of all others on their connection."""

from __future__ import annotations

from collections.abc import AsyncIterator

from airflow.triggers.base import TriggerEvent

from airflow_kafka_offsets.triggers.poller import next_moment, shared_poller
from airflow_kafka_offsets.triggers.waiting import WaitingTrigger


class PolledTrigger(WaitingTrigger):
    """While it runs, ``self._poller`` is the one of its connection and interval."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        with shared_poller(self.kafka_config_id, self.poke_interval) as self._poller:
            async for event in super().run():
                yield event

    async def pause(self) -> None:
        await next_moment(self.poke_interval)
