"""Threads for looks that block: a pool for each Kafka connection, so that a cluster that hangs holds up only its own.

``sync_to_async`` would take the event loop's pool, which has six threads on two processors and is everybody's; and it
waits for the thread when it is cancelled, so that a wait could not end while a broker hangs.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TypeVar

T = TypeVar("T")

_THREADS = 32  # of one cluster; a thread that is not needed is not started


@cache
def _pool_of(cluster: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix=f"kafka-offsets {cluster}")


async def in_thread(cluster: str, look: Callable[[], T]) -> T:
    """What ``look`` gives, called in a thread of that cluster; what it logs goes where the caller's lines go.

    :param cluster: the connection whose brokers, or the place whose store, ``look`` may have to wait for.
    """
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_pool_of(cluster), partial(context.run, look))
