"""What Airflow's long-lived processes use, sampled while they run, and whether that grows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

MEMORY_MIB, FILES, THREADS = 24.0, 8.0, 4.0
"""What may be more at the end than after the first quarter: noise of an allocator, a pool and a connection."""


@dataclass(frozen=True)
class Sample:
    memory_mib: float
    files: float
    threads: float


@dataclass
class Usage:
    """Samples of each process, by its part and process id.

    A part's own process, and those that it has forked and not replaced by another program: the scheduler's workers, the
    api-server's. A task's process comes and goes, and is left out for that.
    """

    samples: dict[tuple[str, int], list[Sample]] = field(default_factory=dict)

    def look(self, parts: Mapping[str, int]) -> None:
        """:param parts: the process id of each part."""
        for part, pid in parts.items():
            for process in _lasting(pid):
                with suppress(psutil.Error):
                    sample = Sample(process.memory_info().rss / 2**20, process.num_fds(), process.num_threads())
                    name = part if process.pid == pid else f"{_kind(process)} of {part}"
                    self.samples.setdefault((name, process.pid), []).append(sample)

    def table(self, least: int) -> list[tuple[str, int, Sample, Sample]]:
        """Part, process, the medians of the second and of the last quarter: of those with ``least`` samples."""
        rows = []
        for (part, pid), found in sorted(self.samples.items()):
            if len(found) >= least:
                quarter = len(found) // 4
                rows.append((part, pid, _median(found[quarter : 2 * quarter]), _median(found[-quarter:])))
        return rows

    def growing(self, least: int) -> list[str]:
        """A line for each process that uses more than it did."""
        return [
            f"{part} {pid}: {before} → {after}"
            for part, pid, before, after in self.table(least)
            if after.memory_mib > before.memory_mib + MEMORY_MIB
            or after.files > before.files + FILES
            or after.threads > before.threads + THREADS
        ]


def _lasting(pid: int) -> Iterator[psutil.Process]:
    with suppress(psutil.Error):
        own = psutil.Process(pid)
        yield own
        yield from own.children()


def _kind(process: psutil.Process) -> str:
    """The scheduler has another child, which serves logs; it measures no worker. The title is LocalExecutor's own."""
    return "worker" if "LocalExecutor" in " ".join(process.cmdline()) else "child"


def _median(samples: list[Sample]) -> Sample:
    return Sample(
        round(statistics.median(s.memory_mib for s in samples), 1),
        statistics.median(s.files for s in samples),
        statistics.median(s.threads for s in samples),
    )
