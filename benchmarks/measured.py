"""Times of several ways, taken in turns in one run, so that what else the machine does hits all of them alike."""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import psutil


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


def machine(*packages: str) -> dict[str, str]:
    """On what a result was measured, and with which versions of these packages."""
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {psutil.cpu_count()} cores, {psutil.virtual_memory().total >> 30} GiB",
        "load at the end": f"{psutil.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "commit": commit,
    }


def title(what: str, *packages: str, by: str = "bench-tasks") -> str:
    """The first lines of a result's page.

    :param by: the make target.
    """
    about = ", ".join(f"{name}: {value}" for name, value in machine(*packages).items())
    return f"# {what}\n\nMade by `make {by}`. {about}.\n"
