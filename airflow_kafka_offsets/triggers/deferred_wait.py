"""How a deferred sensor waits in the triggerer: one look after another, until there is something, or it is too late.

The trigger knows its own deadline, and not only Airflow's scheduler: so what ends a wait can say what was missing.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import KafkaOffsetsError, RequestError, UnavailableError
from airflow_kafka_offsets.hooks.value_sizes import fits, shortened
from airflow_kafka_offsets.triggers.shared_client import in_thread, shared_client


@dataclass(frozen=True, slots=True)
class NotYet:
    """What is still missing, in words: ``topic orders does not exist``."""

    missing: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", shortened(self.missing))  # of 10,000 partitions without a leader


LOOK_AGAIN = "look_again"
"""An event that has it, with the wait's end, lets the sensor look itself: what was found is too large for Airflow's
database, or it is an error, which the worker then has itself."""


@dataclass(eq=False, repr=False)
class StoredTrigger(BaseTrigger):
    """Airflow stores it as the path of its class, and the fields that it is made of."""

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind = type(self)
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        as_json = {name: of.total_seconds() if isinstance(of, timedelta) else of for name, of in given.items()}
        return f"{kind.__module__}.{kind.__qualname__}", as_json


@dataclass(eq=False, repr=False)
class WaitingTrigger(StoredTrigger):
    """Fires what :meth:`look` finds, or ``{"timeout": …}``.

    Where waiting cannot help, or what was found is too large for Airflow's database (10,000 topics), it fires
    ``{"look_again": …}``: the sensor then looks itself.

    Each look says what is missing. A cluster that does not answer for a while is waited for: a broker's restart must
    not fail a sensor.

    :param kafka_config_id: a ``kafka`` connection of the Kafka provider.
    :param poke_interval: seconds between two looks.
    :param until_ms: when to give up, in epoch milliseconds; ``None``: never.
    :param silent_fail: whether to go on looking after an error that is not the request's, as a sensor's parameter says.
    """

    kafka_config_id: str
    poke_interval: float
    until_ms: int | None = None
    silent_fail: bool = False
    _missing: str = field(init=False, default="nothing was looked at in the triggerer")

    async def run(self) -> AsyncIterator[TriggerEvent]:
        left_s = None if self.until_ms is None else max(0.0, (self.until_ms - now_ms()) / 1000)
        try:
            with shared_client(self.kafka_config_id):
                async with asyncio.timeout(left_s) as limit:
                    event = await self._until_found()
        except TimeoutError:
            if not limit.expired():
                raise
            event = {"timeout": self._missing}
        yield TriggerEvent(event if fits(event) else {LOOK_AGAIN: self.until_ms})

    async def _until_found(self) -> dict[str, Any]:
        """The worker has just looked. And a trigger that fires at once may have its task failed by the scheduler, which
        learns late that the task was deferred: apache/airflow#72716.
        """
        while True:
            await asyncio.sleep(self.poke_interval)
            try:
                found = await in_thread(self.waits_for, self.look)
            except KafkaOffsetsError as error:
                if not goes_on(error, self.silent_fail):
                    self.log.warning("The sensor looks itself: %s", error)
                    return {LOOK_AGAIN: self.until_ms}
                self._missing = shortened(str(error))
                self.log.warning("Waiting: %s", error)
                continue
            if not isinstance(found, NotYet):
                return found
            self._missing = found.missing
            self.log.info("Waiting: %s", found.missing)

    @property
    def waits_for(self) -> str:
        """What may hang while it looks; triggers that wait for the same share threads."""
        return self.kafka_config_id

    @abstractmethod
    def look(self) -> dict[str, Any] | NotYet:
        """One poke: what was waited for, or what is missing.

        :raises InvalidRequest: the request is wrong, whatever the cluster holds.
        :raises ClusterUnavailable: the cluster could not be asked.
        """


def goes_on(error: KafkaOffsetsError, silent_fail: bool) -> bool:
    """Whether looking again may help: time may heal it, or the author wants it so."""
    if isinstance(error, RequestError):
        return False
    return silent_fail or (isinstance(error, UnavailableError) and error.retriable)
