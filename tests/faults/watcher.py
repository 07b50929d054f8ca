"""Whoever watches a row: was a committed offset ever above what had been verified by then?

A thread asks the group as fast as it answers, on a connection of its own, and keeps each change with its time. When the
row is over, each is held against the read reports that were in the work store by then, or in a copy of it that the row
has put away. All are read here as what they are, JSON on a disk and bytes on a socket, without the package under test.
"""

import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.raw_offsets import Offsets, RawOffsets

PAUSE_S = 0.03


@dataclass(frozen=True)
class Sample:
    """The group as it was when the question was sent, or later."""

    at: float
    offsets: Offsets


@dataclass
class Watcher:
    """Watches `group` on `topic` between `start()` and `stop()`."""

    address: str
    group: str
    topic: str
    partitions: int
    store: Path
    former_stores: list[Path] = field(default_factory=list)
    changes: list[Sample] = field(default_factory=list)
    looks: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._watch, name="offset-watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def unverified(self, by_hand: set[tuple[int, int]]) -> list[str]:
        """What this provider committed beyond the verified ends of that time; empty is as it should be.

        :param by_hand: (partition, offset) of what the row has written itself, which a batch that adopts it signs.
        """
        plans = [plan for store in (self.store, *self.former_stores) for plan in _plans(store)]
        bad = []
        for sample in self.changes:
            for partition, (offset, metadata) in sample.offsets.items():
                if not _is_ours(metadata) or (partition, offset) in by_hand:
                    continue
                ends = [
                    plan.ends[partition]
                    for plan in plans
                    if partition in plan.ends and (at := plan.verified_at()) is not None and at <= sample.at
                ]
                if offset > max(ends, default=0):
                    bad.append(f"partition {partition}: {offset} was committed, and verified were {ends}")
        return bad

    def by_others(self) -> set[tuple[int, int]]:
        """(partition, offset) of all commits that are not this provider's."""
        return {
            (partition, offset)
            for sample in self.changes
            for partition, (offset, metadata) in sample.offsets.items()
            if not _is_ours(metadata)
        }

    def _watch(self) -> None:
        with RawOffsets(self.address) as broker:
            last: Offsets | None = None
            while not self._over.wait(PAUSE_S):
                try:
                    now = broker.read(self.group, self.topic, range(self.partitions))
                except OSError:  # the row may have stopped the broker
                    continue
                self.looks += 1
                if now != last:
                    self.changes.append(Sample(time.time(), now))
                    last = now


@dataclass
class _Plan:
    """The ends of a plan, how much there was to read of each partition, and the reports that it got."""

    ends: dict[int, int]
    sizes: dict[int, int]
    reports: list[tuple[float, int, dict[int, int], str]]

    def verified_at(self) -> float | None:
        """When the reports covered all of it; `None` for never. A plan without records needs none."""
        covered: dict[int, float] = {}
        read: dict[int, dict[int, int]] = {}  # of each partition, what each split has read of it
        for at, split, counts, proof in sorted(self.reports, key=lambda report: report[0]):
            for partition, count in counts.items():
                read.setdefault(partition, {})[split] = count
                if sum(read[partition].values()) == self.sizes.get(partition) or proof != "rows":
                    covered.setdefault(partition, at)
        to_read = [partition for partition, size in self.sizes.items() if size]
        if any(partition not in covered for partition in to_read):
            return None
        return max((covered[partition] for partition in to_read), default=0.0)


def _plans(store: Path) -> list[_Plan]:
    found = []
    for file in store.glob("pipelines/*/batches/*/*/*[0-9].json"):
        entry = _read(file)
        if entry is None or entry["entry"] != "plan":
            continue
        value = entry["plan"]
        ends: dict[int, int] = {}
        sizes: dict[int, int] = {}
        for columns in value["topics"].values():
            names = ("partition", "start_offset", "end_offset", "gap")
            for number, start, end, gap in zip(*(columns[name] for name in names), strict=True):
                ends[number], sizes[number] = end, end - start - gap
        reports = []
        for report in file.parent.glob("*.report.json"):
            said = _read(report)
            if said is None or not said["wrote"]:
                continue
            kept = value["verified"].get(str(said["split"]), {"plan_id": value["plan_id"], "attempt": said["attempt"]})
            if (said["plan_id"], said["attempt"]) == (kept["plan_id"], kept["attempt"]):
                counts = {
                    number: rows if rows == offsets else -1  # -1: some are there twice
                    for columns in said["topics"].values()
                    for number, rows, offsets in zip(
                        columns["partition"], columns["row_count"], columns["offset_count"], strict=True
                    )
                }
                reports.append((report.stat().st_mtime, said["split"], counts, said["proof"]))
        found.append(_Plan(ends, sizes, reports))
    return found


def _read(file: Path) -> dict[str, Any] | None:
    try:
        value: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError):  # the row has damaged it
        return None
    return value


def _is_ours(metadata: str) -> bool:
    try:
        return bool(json.loads(metadata)["by"] == "airflow-kafka-offsets")
    except (ValueError, TypeError, KeyError):
        return False
