"""Times of several ways, taken in turns in one run, so that what else the machine does hits all of them alike."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Way:
    """One way to do a piece of work.

    :ivar work: what is done; ways of the same work are compared.
    :ivar rounds: how often at most it is done. A way that takes long is done less often than a quick one.
    """

    work: str
    name: str
    run: Callable[[], Any]
    rounds: int = 7
    seconds: list[float] = field(default_factory=list)

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread_s(self) -> tuple[float, float]:
        return spread(self.seconds)


def spread(values: Sequence[float]) -> tuple[float, float]:
    """The quartiles; of fewer than four values, least and most."""
    if len(values) < 4:
        return min(values), max(values)
    low, _, high = statistics.quantiles(values, n=4)
    return low, high


def take_turns(ways: Sequence[Way], say: Callable[[str], None]) -> None:
    """Each way once to warm up, if it is done more than once, and then in turns."""
    for way in ways:
        if way.rounds > 1:
            way.run()
    for number in range(max(way.rounds for way in ways)):
        say(f"round {number + 1}")
        for way in ways:
            if number < way.rounds:
                began = time.perf_counter()
                way.run()
                way.seconds.append(time.perf_counter() - began)


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
