# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""How triggers look at Kafka: again and again, in a thread, until there is something or it is too late.

A look opens its own client and closes it, so that a connection whose secrets have changed is read again. The threads
are a pool of this package: a cluster that hangs holds up no trigger of another kind. ``sync_to_async`` gives a thread
its event loop: before Airflow 3.2.2, one that knows none and asks Airflow for a connection takes the answers of others
(apache/airflow#64620).
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import KafkaOffsetsError, UnavailableError
from airflow_kafka_offsets.request import RunContext

if TYPE_CHECKING:
    from airflow_kafka_offsets.broker.protocol import Cluster

T = TypeVar("T")

DEADLINE_S = 20.0  # of one question; a look that fails is followed by another
_THREADS = ThreadPoolExecutor(64, thread_name_prefix="kafka-offsets")


def open_cluster(kafka_config_id: str) -> Cluster:
    """The cluster of a connection. The hook is imported here: a DAG's file that is parsed asks no cluster."""
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook

    return KafkaOffsetsHook(kafka_config_id).open_cluster(deadline_s=DEADLINE_S)


def rendered() -> RunContext:
    """The run of parameters that Airflow has rendered: for what needs none of its times."""
    return RunContext(now_ms())


async def in_thread(look: Callable[[], T]) -> T:
    """Call ``look`` in a thread of this package's pool."""
    return await sync_to_async(look, thread_sensitive=False, executor=_THREADS)()


@dataclass(frozen=True, slots=True)
class Missing:
    """What is still missing, in words: ``topic orders does not exist``.

    :ivar is_outage: Kafka did not answer.
    """

    words: str
    is_outage: bool = False


@dataclass(eq=False, repr=False)
class StoredTrigger(BaseTrigger):
    """A trigger that Airflow stores as the path of its class and the fields that its constructor takes."""

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {f.name: getattr(self, f.name) for f in fields(self) if f.init}


@dataclass(eq=False, repr=False, kw_only=True)
class WaitingTrigger(StoredTrigger):
    """Fires once: ``{"found": …}``, ``{"timeout": <what is missing>}``, or ``{"error": …}`` where waiting cannot help.

    A cluster that does not answer is waited for: a broker's restart must not fail a sensor. If it still did not when
    the time is up, the event is ``{"outage": …}``.

    :param poke_interval: seconds between two looks.
    :param until_ms: when to give up, in epoch milliseconds; a triggerer that comes later looks once.
    """

    poke_interval: float
    until_ms: int

    async def run(self) -> AsyncIterator[TriggerEvent]:
        is_over = False
        while not is_over:
            # The worker has just looked. And a trigger that fires at once may have its task failed by the scheduler,
            # which learns late that the task was deferred (apache/airflow#72716).
            await asyncio.sleep(min(self.poke_interval, max(0, self.until_ms - now_ms()) / 1000))
            try:
                found = await in_thread(self.look_patiently)
            except KafkaOffsetsError as error:
                yield TriggerEvent({"error": str(error)})
                return
            is_over = not isinstance(found, Missing) or now_ms() >= self.until_ms
        if isinstance(found, Missing):
            yield TriggerEvent({"outage" if found.is_outage else "timeout": found.words})
        else:
            yield TriggerEvent({"found": found})

    def look_patiently(self) -> Any:
        """Look once; a cluster that may answer later is what is missing."""
        try:
            found = self.look()
        except UnavailableError as error:
            if not error.retriable:
                raise
            found = Missing(str(error), is_outage=True)
        if isinstance(found, Missing):
            self.log.info("Waiting: %s", found.words)
        return found

    @abstractmethod
    def look(self) -> Any:
        """What was waited for, as JSON, or :class:`Missing`."""
