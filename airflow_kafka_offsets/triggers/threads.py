"""Threads for looks that block: a pool for each Kafka connection, so that a cluster that hangs holds up only its own.

``sync_to_async`` by itself takes the event loop's pool, which has six threads on two processors and is everybody's; and
it waits for the thread when it is cancelled, so that a wait could not end while a broker hangs. So it is given a pool,
and shielded. It is there because it gives a thread its event loop: before Airflow 3.2.2, a thread that knows none and
asks Airflow for a connection takes the answers of others, and the triggerer ends (apache/airflow#64620).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from asgiref.sync import sync_to_async

T = TypeVar("T")

_THREADS = 32  # of one cluster; a thread that is not needed is not started


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
