"""Times of several ways to do the same, taken in turns in one run, and the page that shows them.

What else the machine does falls on all ways alike. So what counts is a ratio: the median of the rounds' ratios.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Self

import psutil

RESULTS = Path(__file__).with_name("results")


@dataclass
class Run:
    """One run of one way. What is in its ``with`` block is timed.

    :ivar pid: the process whose processor time is measured, too.
    :ivar processor: seconds of processor time of that process.
    :ivar parts: seconds of parts that the way tells apart itself.
    :ivar warms_up: it is the one that does not count.
    """

    pid: int | None = None
    warms_up: bool = False
    seconds: float = 0.0
    processor: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.processor -= _processor_s(self.pid)
        self.seconds -= time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter()
        self.processor += _processor_s(self.pid)


@dataclass
class Way:
    """One way to do a piece of work.

    :ivar do: does it once; what it times is the run that it is given.
    :ivar rounds: at most, for a way that takes long.
    """

    name: str
    do: Callable[[Run], None]
    rounds: int | None = None
    runs: list[Run] = field(default_factory=list)

    @property
    def seconds(self) -> list[float]:
        return [run.seconds for run in self.runs]

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    def times(self, other: Way) -> float:
        """How many times as long as the other way it takes."""
        return ratio(self.seconds, other.seconds)

    def processor_times(self, other: Way) -> float:
        return ratio([run.processor for run in self.runs], [run.processor for run in other.runs])

    def part_times(self, other: Way, name: str) -> float:
        """How many times as much of a part it takes."""
        return ratio([run.parts[name] for run in self.runs], [run.parts[name] for run in other.runs])

    def part_s(self, name: str) -> float:
        return statistics.median(run.parts[name] for run in self.runs)

    @property
    def spread(self) -> str:
        """The quartiles; of fewer than four runs, least and most."""
        if len(self.runs) < 4:
            return f"{min(self.seconds):.2f} to {max(self.seconds):.2f}"
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return f"{low:.2f} to {high:.2f}"


def whole(work: Callable[[], object]) -> Callable[[Run], None]:
    """A way's ``do`` of which all is timed."""

    def do(run: Run) -> None:
        with run:
            work()

    return do


def take_turns(
    ways: Sequence[Way], rounds: int, *, pid: int | None = None, before: Callable[[], object] | None = None
) -> None:
    """Each way once to warm up, and then in turns; each round begins with another one.

    :param pid: the process whose processor time is measured, too.
    :param before: what is done before each round.
    """
    for number in range(rounds + 1):
        say(f"round {number} of {rounds}" if number else "to warm up")
        if before is not None:
            before()
        first = number % len(ways)
        for way in [*ways[first:], *ways[:first]]:
            if number and way.rounds is not None and number > way.rounds:
                continue
            run = Run(pid, warms_up=not number)
            way.do(run)
            say(f"  {way.name}: {run.seconds:.3f} s")
            if number:
                way.runs.append(run)


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def within(measured: float, most: float) -> str:
    """What is promised, and whether it holds."""
    return f"{most:g}: {'holds' if measured <= most else 'DOES NOT HOLD'}"


def options(about: str | None, rounds: int | None = None) -> ArgumentParser:
    """The options that all benchmarks have.

    :param rounds: by default; ``None``: nothing is timed.
    """
    parser = ArgumentParser(description=about, formatter_class=RawDescriptionHelpFormatter)
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--write", action="store_true", help="also write benchmarks/results/<name>.md")
    return parser


def show(
    name: str,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    sentence: str,
    *packages: str,
    write: bool = False,
) -> None:
    """Print the page of a benchmark: one table, and one sentence that says what it shows.

    :param name: of its module.
    :param packages: whose versions matter.
    """
    table = [columns, [":---", *["---:"] * (len(columns) - 1)], *rows]
    lines = [f"| {' | '.join(map(str, row))} |" for row in table]
    about = f"Made by `python -m benchmarks.{name}` {_machine(packages)}."
    page = "\n".join([f"# {title}", "", about, "", *lines, "", sentence, ""])
    print(page)
    if write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.md").write_text(page)


def _machine(packages: Sequence[str]) -> str:
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
    memory = psutil.virtual_memory().total >> 30
    versions = "".join(f", {name} {version(name)}" for name in packages)
    return (
        f"at {commit} on {datetime.now(UTC):%Y-%m-%d}: {platform.machine()}, {psutil.cpu_count()} cores, {memory} GiB, "
        f"load at the end {psutil.getloadavg()[0]:.1f}, Python {platform.python_version()}{versions}"
    )


def ratio(own: Sequence[float], others: Sequence[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(one / other for one, other in zip(own, others, strict=False))


def _processor_s(pid: int | None) -> float:
    """What a process has used so far, in its own code and in the kernel's."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
