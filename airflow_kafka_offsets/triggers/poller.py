"""One poller for all triggers of one Kafka connection and interval: one client, and one round of questions a poll.

A hundred DAGs that watch a cluster would otherwise be a hundred clients, each with its own connections. What must stay
true:

- triggers of one poller look at the same moments, whenever each was started: :func:`next_moment`;
- what a trigger has to find out by itself (its connection, its pipeline's position) it finds out in a thread of its
  own, so that a work store that hangs delays nobody but its own trigger;
- a poller has its own thread, so that brokers that hang delay nobody on another cluster;
- an error of one trigger is that trigger's answer alone; after an error of the cluster the next round has a new client;
- the last trigger that leaves closes the client.

Airflow's shared streams (``BaseEventTrigger.shared_stream_key``) are for event triggers only, are opened with the words
of one of the triggers, and fail for all of them at once; so they are not what this is made of.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import UnavailableError
from airflow_kafka_offsets.hooks.kafka_hook import open_cluster
from airflow_kafka_offsets.offsets.lag import Lag
from airflow_kafka_offsets.offsets.model import ClusterDescription
from airflow_kafka_offsets.offsets.request.subscription import Subscription
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.lag import LagQuestion, look_at_lags
from airflow_kafka_offsets.triggers.threads import in_thread

if TYPE_CHECKING:
    from airflow_kafka_offsets.broker.cluster import KafkaCluster

TOGETHER_S = 0.05  # between the first trigger that wakes up and the round, for the others that wake up now
PATIENCE_S = 2.0  # how long a round waits for triggers that are still looking at their logs
DEADLINE_S = 20.0  # of one question; a poll that fails is followed by another
CLIENT_AGE_S = 600.0  # a new client reads certificates and tokens anew


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the settings of its cluster, with secrets.

    :ivar question: how far is a pipeline behind, or what is there of a subscription.
    """

    client_config: Mapping[str, Any]
    question: LagQuestion | Subscription

    @property
    def subscription(self) -> Subscription:
        return self.question.scope.subscription if isinstance(self.question, LagQuestion) else self.question


Answer = Lag | ClusterDescription


class Poller:
    """Takes the questions of its triggers, and answers those that come together by one round.

    It belongs to one event loop.
    """

    def __init__(self, name: str) -> None:
        self.members = 0
        self._name = name
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"kafka-lag {name}")
        self._client = _Client()
        self._coming = 0
        self._all_here = asyncio.Event()
        self._waiting: list[tuple[Asked, asyncio.Future[Answer]]] = []
        self._rounds: asyncio.Task[None] | None = None

    async def lag(self, prepare: Callable[[], Asked]) -> Lag:
        """The answer to the :class:`LagQuestion` of ``prepare``, which is called in a thread.

        :raises KafkaOffsetsError: what ``prepare`` raises, or why there is no answer.
        """
        answer = await self._ask(prepare)
        assert isinstance(answer, Lag)
        return answer

    async def discover(self, prepare: Callable[[], Asked]) -> ClusterDescription:
        """As :meth:`lag`, for a subscription: what there is of it."""
        answer = await self._ask(prepare)
        assert isinstance(answer, ClusterDescription)
        return answer

    def close(self) -> None:
        """After the round that is under way, if there is one; nobody waits for it."""
        self._thread.submit(self._client.close)
        self._thread.shutdown(wait=False)

    async def _ask(self, prepare: Callable[[], Asked]) -> Answer:
        self._coming += 1
        self._all_here.clear()
        try:
            asked = await in_thread(self._name, prepare)
        finally:
            self._coming -= 1
            if not self._coming:
                self._all_here.set()
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answer))
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._answer_all())
        return await answer

    async def _answer_all(self) -> None:
        while self._waiting:
            await self._let_the_others_come()
            batch = [(asked, answer) for asked, answer in self._waiting if not answer.done()]  # the others have left
            self._waiting = []
            if not batch:
                continue
            asked = [question for question, _ in batch]
            answers = await asyncio.get_running_loop().run_in_executor(self._thread, self._client.look, asked)
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    async def _let_the_others_come(self) -> None:
        await asyncio.sleep(TOGETHER_S)
        if self._coming:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await self._all_here.wait()


@dataclass
class _Client:
    """The cluster's client, kept from round to round. Only the poller's thread uses it."""

    _cluster: KafkaCluster | None = None
    _settings: Mapping[str, Any] = field(default_factory=dict)
    _made_s: float = 0.0

    def look(self, asked: list[Asked]) -> list[Answer | Exception]:
        """One round: an answer for each, or an error for each."""
        answers: list[Answer | Exception]
        try:
            cluster = self._current(asked[-1].client_config)
            found = cluster.discover_each([one.subscription for one in asked])
            answers = [*found]
            of_lag = {
                at: (one.question, there)
                for at, (one, there) in enumerate(zip(asked, found, strict=True))
                if isinstance(one.question, LagQuestion) and isinstance(there, ClusterDescription)
            }
            if of_lag:
                questions, descriptions = zip(*of_lag.values(), strict=True)
                for at, lag in zip(of_lag, look_at_lags(questions, cluster, descriptions, now_ms()), strict=True):
                    answers[at] = lag
        except Exception as error:  # of any kind: nobody is to wait for an answer that never comes
            answers = [error] * len(asked)
        if any(isinstance(answer, UnavailableError) for answer in answers):
            self.close()
        return answers

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _current(self, client_config: Mapping[str, Any]) -> KafkaCluster:
        settings = {name: value for name, value in client_config.items() if not callable(value)}
        if settings != self._settings or time.monotonic() - self._made_s > CLIENT_AGE_S:
            self.close()
        if self._cluster is None:
            self._cluster = open_cluster(client_config, deadline_s=DEADLINE_S)
            self._settings, self._made_s = settings, time.monotonic()
        return self._cluster


_OF_LOOP: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, float], Poller]] = (
    weakref.WeakKeyDictionary()
)


@contextmanager
def shared_poller(kafka_config_id: str, interval_s: float) -> Iterator[Poller]:
    """The poller of that connection and interval, for as long as the caller is one of its triggers."""
    pollers = _OF_LOOP.setdefault(asyncio.get_running_loop(), {})
    key = kafka_config_id, interval_s
    if key not in pollers:
        pollers[key] = Poller(kafka_config_id)
    poller = pollers[key]
    poller.members += 1
    try:
        yield poller
    finally:
        poller.members -= 1
        if not poller.members:
            del pollers[key]
            poller.close()


async def next_moment(interval_s: float) -> None:
    """Wait until the next look: whole intervals of the machine's clock, so that all triggers meet there."""
    if interval_s <= 0:
        await asyncio.sleep(0)
        return
    left_s = interval_s - asyncio.get_running_loop().time() % interval_s
    await asyncio.sleep(left_s if left_s > interval_s / 10 else left_s + interval_s)
