"""One Kafka client for all triggers of a Kafka connection: a hundred DAGs that wait for one cluster open one client.

Each trigger looks in a thread, and one look at a time uses the client. What must stay true:

- a trigger finds out what is its own (the connection's settings, its pipeline's position) before it takes the client:
  a work store that hangs delays no trigger that does not use that store;
- each connection has its own client: brokers that hang delay no trigger of another cluster;
- after an error of the cluster the next look has a new client, and so it has when the connection's settings have
  changed, and after ten minutes: certificates and tokens are read again;
- the last trigger that leaves closes the client.

The threads are a pool for each connection, so that a cluster that hangs holds up only its own. ``sync_to_async`` by
itself takes the event loop's pool, which has six threads on two processors and is everybody's; and where it is
cancelled it waits for what the thread asks Airflow for. So it is given a pool, and shielded. It is there because it
gives a thread its event loop: before Airflow 3.2.2, a thread that knows none and asks Airflow for a connection takes
the answers of others, and the triggerer ends (apache/airflow#64620).

Airflow's shared streams (``BaseEventTrigger.shared_stream_key``) are for event triggers only, are opened with the
parameters of one of the triggers, and fail for all of them at once; so they are not what this is made of.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import sync_to_async

from airflow_kafka_offsets.errors import ClusterUnavailable, UnavailableError

if TYPE_CHECKING:
    from airflow_kafka_offsets.broker.cluster import KafkaCluster
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook

T = TypeVar("T")

DEADLINE_S = 20.0  # of one question; a look that fails is followed by another
CLIENT_AGE_S = 600.0
_THREADS = 32  # of one cluster; a thread that is not needed is not started


class SharedClient:
    """The client of one connection, opened by the first look.

    :ivar triggers: how many use it now.
    """

    def __init__(self) -> None:
        self.triggers = 0
        self._lock = Lock()
        self._cluster: KafkaCluster | None = None
        self._settings: Mapping[str, Any] = {}
        self._opened_s = 0.0

    @contextmanager
    def cluster(self, hook: KafkaOffsetsHook) -> Iterator[KafkaCluster]:
        """The cluster, for one look; the others wait. When the last trigger has left, no queued look begins."""
        settings = {name: value for name, value in hook.client_config.items() if not callable(value)}
        with self._lock:
            if not self.triggers:
                remedy = "See the task's log, which says why it waits no more."
                raise ClusterUnavailable("Cannot look at Kafka", "the trigger has ended", remedy, retriable=True)
            try:
                yield self._current(hook, settings)
            except UnavailableError:
                self._drop()
                raise
            finally:
                if not self.triggers:  # the look was slower than the end of its trigger
                    self._drop()

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _current(self, hook: KafkaOffsetsHook, settings: Mapping[str, Any]) -> KafkaCluster:
        if settings != self._settings or time.monotonic() - self._opened_s > CLIENT_AGE_S:
            self._drop()
        if self._cluster is None:
            self._cluster = hook.open_cluster(deadline_s=DEADLINE_S)
            self._settings, self._opened_s = settings, time.monotonic()
        return self._cluster

    def _drop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


_CLIENTS: dict[str, SharedClient] = {}


@contextmanager
def shared_client(kafka_config_id: str) -> Iterator[None]:
    """In the block, :func:`cluster_of` gives the client that all triggers of that connection share."""
    client = _CLIENTS.setdefault(kafka_config_id, SharedClient())
    client.triggers += 1
    try:
        yield
    finally:
        client.triggers -= 1
        if not client.triggers:
            del _CLIENTS[kafka_config_id]
            pool_of(kafka_config_id).submit(client.close)  # it may have to wait for a look


@contextmanager
def cluster_of(hook: KafkaOffsetsHook) -> Iterator[KafkaCluster]:
    """The cluster of that connection, for one look: by the shared client, and in a worker by a client of its own."""
    shared = _CLIENTS.get(hook.kafka_config_id)
    with shared.cluster(hook) if shared else hook.open_cluster() as cluster:
        yield cluster


@cache
def pool_of(cluster: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix=f"kafka-offsets {cluster}")


async def in_thread(cluster: str, look: Callable[[], T]) -> T:
    """What ``look`` gives, called in a thread of that cluster; what it logs goes where the caller's lines go.

    :param cluster: the connection whose brokers, or the place whose store, ``look`` may have to wait for.
    """
    looking = asyncio.ensure_future(sync_to_async(look, thread_sensitive=False, executor=pool_of(cluster))())
    looking.add_done_callback(_heard)
    return await asyncio.shield(looking)


def _heard(looked: asyncio.Future[T]) -> None:
    """Nobody hears of an error after the wait was cancelled, and asyncio would complain of that."""
    if not looked.cancelled():
        looked.exception()
