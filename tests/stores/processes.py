"""What other processes do to a store, for tests of what they and this one see. Each is started anew (``spawn``)."""

from __future__ import annotations

import multiprocessing
import pickle
import resource
import signal
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.stores.open import open_store

CONTEXT = multiprocessing.get_context("spawn")
LARGE = 3_000_000
TIMEOUT_S = 60


def start(target: Callable[..., None], *arguments: Any) -> Any:
    process = CONTEXT.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def create_each(uri: str, barrier: Barrier, answers: Any, who: int, rounds: int) -> None:
    """Create the name of each round, at the same moment as everybody else; answers with the rounds that were won."""
    store = open_store(uri)
    won = []
    for number in range(rounds):
        barrier.wait(TIMEOUT_S)
        if store.create(f"races/{number % 7}/{number}.json", b"%d" % who):
            won.append(number)
    answers.put((who, won))


def create_large(uri: str, barrier: Barrier, count: int) -> None:
    """Create each as soon as the other process begins to look for it."""
    store = open_store(uri)
    for number in range(count):
        barrier.wait(TIMEOUT_S)
        store.create(f"folder/{number}.json", bytes([number]) * LARGE)


def come_and_go(uri: str, barrier: Barrier, answers: Any, who: int, rounds: int) -> None:
    """Create and delete names in one folder, which is empty again and again."""
    store = open_store(uri)
    barrier.wait(TIMEOUT_S)
    try:
        for number in range(rounds):
            name = f"a/b/{who}-{number}.json"
            assert store.create(name, b"x")
            assert store.get(name) == b"x"
            store.delete(name)
    except Exception as error:
        answers.put(repr(error))
    else:
        answers.put(None)


def write_with_no_room(uri: str, answers: Any) -> None:
    """The kernel refuses the 51st byte, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))
    try:
        open_store(uri).create("folder/1.json", b"x" * 200)
    except StoreUnavailable as error:
        answers.put(pickle.dumps(error))
    else:
        answers.put(None)


def die_at_the_51st_byte(uri: str) -> None:
    """Killed by the kernel in the middle of a write."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))
    open_store(uri).create("folder/1.json", b"x" * 200)
