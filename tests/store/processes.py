"""What other processes do to a store, for tests of what they and this one see. Each is started anew (``spawn``)."""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import Barrier
from typing import Any

from tests.store.kinds import Place

CONTEXT = multiprocessing.get_context("spawn")
LARGE = 3_000_000
TIMEOUT_S = 120


def start(target: Any, *arguments: Any) -> Any:
    process = CONTEXT.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def create_each(place: Place, barrier: Barrier, answers: Any, who: int, rounds: int) -> None:
    """Create the name of each round at the same moment as the others; answer with the rounds that were won."""
    store = place.open()
    won = []
    for number in range(rounds):
        barrier.wait(TIMEOUT_S)
        if store.create(f"races/{number % 7}/{number}.json", b"%d" % who):
            won.append(number)
    answers.put((who, won))


def create_large(place: Place, barrier: Barrier, count: int) -> None:
    """Create each object as soon as the other process begins to look for it."""
    store = place.open()
    for number in range(count):
        barrier.wait(TIMEOUT_S)
        store.create(f"folder/{number}.json", bytes([number]) * LARGE)
