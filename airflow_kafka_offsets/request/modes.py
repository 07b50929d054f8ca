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

# ── as people write them ──────────────────────────────────────────────────────────────────────────────────────────────

Time = int | str | datetime
Times = Time | Mapping[str, Time]
Offsets = Mapping[str, Mapping[str, int]] | str


# ── where to start ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class EarliestOffset:
    name: ClassVar[str] = "earliest-offset"


@dataclass(frozen=True, slots=True)
class LatestOffset:
    name: ClassVar[str] = "latest-offset"


@dataclass(frozen=True, slots=True)
class FromTimestamp:
    """From a time on: one for all topics, or one for each.

    :ivar timestamp_ms: of every topic that ``by_topic`` does not name; where it names any, the earliest of them.
    :ivar written: how the user says a time that is another one in each run: ``of the data interval``, ``now-2h``.
    """

    name: ClassVar[str] = "timestamp"
    timestamp_ms: int
    by_topic: Mapping[str, int] = field(default_factory=dict)
    written: str | None = field(default=None, compare=False)

    def of(self, topic: str | None) -> int:
        return _of_topic(self, topic)


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    name: ClassVar[str] = "group-offsets"


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """``offsets``: the next record to read of each partition; one that is missing starts as ``GroupOffsets`` (C2)."""

    name: ClassVar[str] = "specific-offsets"
    offsets: Mapping[TopicPartition, int]


StartupMode = EarliestOffset | LatestOffset | FromTimestamp | GroupOffsets | SpecificOffsets
StartupModeName = Literal["earliest-offset", "latest-offset", "timestamp", "group-offsets", "specific-offsets"]
STARTUP_MODES = tuple(mode.name for mode in get_args(StartupMode))

# ── where to end ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class UntilLatest:
    name: ClassVar[str] = "latest-offset"


@dataclass(frozen=True, slots=True)
class UntilTimestamp:
    """Until a time: one for all topics, or one for each.

    :ivar timestamp_ms: of every topic that ``by_topic`` does not name; where it names any, the latest of them.
    """

    name: ClassVar[str] = "timestamp"
    timestamp_ms: int
    by_topic: Mapping[str, int] = field(default_factory=dict)

    def of(self, topic: str | None) -> int:
        return _of_topic(self, topic)


def _of_topic(bound: FromTimestamp | UntilTimestamp, topic: str | None) -> int:
    """The topic's own time. A topic that nobody subscribes to any more, and a checkpoint holds, may have none."""
    return bound.timestamp_ms if topic is None else bound.by_topic.get(topic, bound.timestamp_ms)


@dataclass(frozen=True, slots=True)
class UntilGroupOffsets:
    name: ClassVar[str] = "group-offsets"


@dataclass(frozen=True, slots=True)
class UntilSpecificOffsets:
    """``offsets``: of every partition, the first offset that is not read (K5)."""

    name: ClassVar[str] = "specific-offsets"
    offsets: Mapping[TopicPartition, int]


BoundedMode = UntilLatest | UntilTimestamp | UntilGroupOffsets | UntilSpecificOffsets
BoundedModeName = Literal["latest-offset", "timestamp", "group-offsets", "specific-offsets"]
BOUNDED_MODES = tuple(mode.name for mode in get_args(BoundedMode))
