"""How a deferred sensor waits in the triggerer: one look after another, each in a thread of its own."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_kafka_offsets.errors import KafkaOffsetsError, UnavailableError


class WaitingTrigger(BaseTrigger):
    """Fires what :meth:`look` finds, once it finds something, or ``{"error": …}`` where waiting cannot help.

    A cluster that does not answer for a while is waited for: a broker's restart must not fail a sensor. The thread is
    not the one that ``sync_to_async`` shares between all triggers: one broker that hangs must not hold up the rest.
    """

    def __init__(self, poke_interval: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow
        self.poke_interval = poke_interval

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            try:
                found = await sync_to_async(self.look, thread_sensitive=False)()
            except UnavailableError as error:
                if not error.retriable:
                    yield TriggerEvent({"error": str(error)})
                    return
                self.log.warning("Waiting: %s", error)
            except KafkaOffsetsError as error:
                yield TriggerEvent({"error": str(error)})
                return
            else:
                if found is not None:
                    yield TriggerEvent(found)
                    return
            await asyncio.sleep(self.poke_interval)

    @abstractmethod
    def look(self) -> dict[str, Any] | None:
        """One poke: what was waited for, or ``None`` while it is not there.

        :raises InvalidRequest: the request is wrong, whatever the cluster holds.
        :raises ClusterUnavailable: the cluster could not be asked.
        """
