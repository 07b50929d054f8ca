"""The base of the ``AssetWatcher`` triggers: they look for ever, and remember what they have fired for.

What was told is kept in the asset's state store, where Airflow gives one, and written at the next look and not before:
by then Airflow has stored the event. So a triggerer that dies may tell something twice, and loses nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_kafka_offsets.errors import InvalidRequest, KafkaOffsetsError


class WatchingTrigger(BaseEventTrigger):
    """It never ends, whatever is wrong with the cluster or its rights: that is in the triggerer's log.

    :ivar poke_interval: seconds between two looks.
    """

    poke_interval: float
    asset_state_store: Any = None  # Airflow gives one from 3.3 on; before, a restart may tell again what was told

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow

    async def run(self) -> AsyncIterator[TriggerEvent]:
        told = kept = await self._recall()
        while True:
            if told != kept:
                await self._keep(told)
                kept = told
            try:
                payload, told = await self.look_past(told)
            except KafkaOffsetsError as error:
                self.log.warning("Looking again in %s s: %s", self.poke_interval, error)
            else:
                if payload is not None:
                    yield TriggerEvent(payload)
            await self.pause()

    async def pause(self) -> None:
        await asyncio.sleep(self.poke_interval)

    @abstractmethod
    async def look_past(self, told: Any) -> tuple[dict[str, Any] | None, Any]:
        """One look: the payload of an event, if there is something that was not told yet, and what has been told then.

        :param told: what this gave before, as JSON; ``None`` at the first look of all.
        """

    @abstractmethod
    def watched(self) -> dict[str, Any]:
        """What is watched, as JSON, without the pace: an asset may have several watchers."""

    @property
    def _state_key(self) -> str:
        watched = hashlib.sha256(json.dumps(self.watched(), sort_keys=True).encode()).hexdigest()[:16]
        return f"kafka_offsets.{type(self).__name__}:{watched}"

    async def _recall(self) -> Any:
        if self.asset_state_store is None:
            return None
        try:
            return await self.asset_state_store.aget(self._state_key)
        except Exception as error:  # of any kind: without a memory, things may be told again
            self.log.warning("What was told before cannot be read, so it may be told again: %s", error)
            return None

    async def _keep(self, told: Any) -> None:
        if self.asset_state_store is None or told is None:
            return
        try:
            await self.asset_state_store.aset(self._state_key, told)
        except Exception as error:  # as above; several assets with this one trigger are such a case
            self.log.warning("What was told cannot be kept, so a restart may tell it again: %s", error)


def refuse_to_watch(kind: str, problems: Sequence[str]) -> None:
    """Raise if there are any, so that a DAG with a wrong watcher is not imported.

    :raises TypeError: with every problem. It is the one kind of error that a triggerer survives, too.
    """
    if problems:
        raise TypeError(f"{kind}: {InvalidRequest(tuple(problems))}")
