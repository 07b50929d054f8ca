"""Where to start and where to end, as values: Flink's five startup modes and four bounded modes.

Modes are closed unions: whoever handles them matches all cases and ends with ``assert_never``. A number that the
cluster has to give (the end of a log, a committed offset) is never written into a mode: intent and result stay apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal, get_args

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.request.times import iso

# ── as people write them ──────────────────────────────────────────────────────────────────────────────────────────────

SplitBy = Literal["size", "flink"]
RequireReport = bool | Literal["read-back"]
Time = int | str | datetime
Times = Time | Mapping[str, Time | Mapping[str, Time]]
Offsets = Mapping[str, Mapping[str, int | str] | str] | str


# ── as values: each bounds a batch at its start or at its end; the earliest offset is no end ──────────────────────────


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """One time for all topics, or one for each, or for some partitions.

    :ivar timestamp_ms: of whatever ``by_topic`` does not name. Where nothing is left to name: of a start the earliest,
        of an end the latest of those that are named.
    :ivar by_topic: of a topic, or of a partition by its name, ``orders[3]``, which wins.
    :ivar written: how the user says a time that is another one in each run: ``of the data interval``, ``now-2h``.
    """

    name: ClassVar[str] = "timestamp"
    timestamp_ms: int
    by_topic: Mapping[str, int] = field(default_factory=dict)
    written: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.name} {self.written or iso(self.timestamp_ms)}"

    def of(self, where: TopicPartition | str) -> int:
        """The time of a partition, or of a topic. One that nobody subscribes to any more has the one of all."""
        return time_of(where, self.by_topic, self.timestamp_ms)


def time_of(where: TopicPartition | str, by_topic: Mapping[str, int], of_all: int) -> int:
    """The partition's own time, else its topic's, else the one of all."""
    topic = where.topic if isinstance(where, TopicPartition) else where
    return by_topic.get(str(where), by_topic.get(topic, of_all))


@dataclass(frozen=True, slots=True)
class FromLogEnd:
    """So many offsets before the end of the log, or after its start: ``latest-1000``, ``earliest+10``."""

    which: Literal["latest", "earliest"]
    offsets: int

    def __str__(self) -> str:
        return f"{self.which}{'-' if self.which == 'latest' else '+'}{self.offsets}"


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """Of a start the next record to read of each partition; one that is missing starts as ``group-offsets`` (C2).

    Of an end the first offset that is not read, of every partition (K5).

    :ivar by_topic: of the partitions of a topic that ``offsets`` does not name.
    """

    name: ClassVar[str] = "specific-offsets"
    offsets: Mapping[TopicPartition, int | FromLogEnd]
    by_topic: Mapping[str, FromLogEnd] = field(default_factory=dict)

    def __str__(self) -> str:
        named = [*((str(tp), self.offsets[tp]) for tp in sorted(self.offsets)), *sorted(self.by_topic.items())]
        return f"{self.name} " + ", ".join(f"{where}={offset}" for where, offset in named)

    def of(self, tp: TopicPartition) -> int | FromLogEnd | None:
        """``None`` where neither the partition nor its topic is named."""
        return self.offsets.get(tp, self.by_topic.get(tp.topic))

    @property
    def numbers(self) -> Mapping[TopicPartition, int] | None:
        """The offsets, where each is a number; else ``None``."""
        found = {tp: offset for tp, offset in self.offsets.items() if isinstance(offset, int)}
        return found if len(found) == len(self.offsets) and not self.by_topic else None


StartupModeName = Literal["earliest-offset", "latest-offset", "timestamp", "group-offsets", "specific-offsets"]
BoundedModeName = Literal["latest-offset", "timestamp", "group-offsets", "specific-offsets"]
STARTUP_MODES: tuple[str, ...] = get_args(StartupModeName)
BOUNDED_MODES: tuple[str, ...] = get_args(BoundedModeName)
BoundedMode = Literal["latest-offset", "group-offsets"] | AtTimestamp | SpecificOffsets
StartupMode = Literal["earliest-offset"] | BoundedMode
"""A mode is its name where that says all. As text, a mode has the words of the log: equal words, equal requests."""


def mode_name(mode: StartupMode) -> str:
    return mode if isinstance(mode, str) else mode.name
