"""What the user asked for, as values: what to read, where to start, where to end, which policies.

Modes are closed unions: whoever handles them matches all cases and ends with ``assert_never``. A number that the
cluster has to give (the end of a log, a committed offset) is never written into a mode: intent and result stay apart.
``parse.py`` makes these values from what people write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, assert_never, get_args

from airflow_kafka_offsets.offsets.complete import DEFAULT_IDLE_TIMEOUT_MS
from airflow_kafka_offsets.offsets.model import IsolationLevel, TopicPartition
from airflow_kafka_offsets.offsets.times import iso

# ── what to read ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TopicList:
    """These topics, all of their partitions."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """Every topic whose *whole* name matches (G2), internal ones only if asked for (G4)."""

    pattern: str
    include_internal: bool = False

    def matches(self, topic: str) -> bool:
        return re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """These partitions and no others."""

    partitions: tuple[TopicPartition, ...]


Subscription = TopicList | TopicPattern | PartitionSet

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
BOUNDED_MODES = tuple(mode.name for mode in get_args(BoundedMode))

# ── policies ──────────────────────────────────────────────────────────────────────────────────────────────────────────

ResetStrategy = Literal["earliest", "latest", "none"]
OnDataLoss = Literal["fail", "reset", "advance"]
OnRecreated = Literal["fail", "earliest"]
OnGroupMoved = Literal["fail", "adopt-group", "keep-checkpoint"]
OnTopicVanished = Literal["fail", "ignore"]
OnSuperseded = Literal["fail", "skip"]
SplitBy = Literal["size", "flink"]


@dataclass(frozen=True, slots=True)
class RunKey:
    """The task instance that a plan is made for; a retry or a clear is the same run."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    def __str__(self) -> str:
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}/{self.run_id}/{self.task_id}{mapped}"


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A valid request.

    :ivar auto_offset_reset_defaulted: nobody chose the reset, it is Kafka's own ``latest`` (A1).
    :ivar by_hand: a manual run or the command line, neither a schedule nor a backfill.
    """

    subscription: Subscription
    startup: StartupMode
    bounded: BoundedMode
    group_id: str | None = None
    isolation_level: IsolationLevel = "read_uncommitted"
    auto_offset_reset: ResetStrategy = "latest"
    auto_offset_reset_defaulted: bool = False
    on_data_loss: OnDataLoss = "fail"
    on_recreated: OnRecreated = "fail"
    on_group_moved: OnGroupMoved = "fail"
    on_topic_vanished: OnTopicVanished = "fail"
    on_superseded: OnSuperseded = "fail"
    re_plan: bool = False
    restart: str | None = None
    filter_restored_partitions: bool = True
    max_records: int | None = None
    max_records_per_partition: int | None = None
    splits: int = 1
    split_by: SplitBy = "size"
    checkpoint_id: str | None = None
    require_complete_window: bool = False
    idle_timeout_ms: int = DEFAULT_IDLE_TIMEOUT_MS
    interval: tuple[int, int] | None = None
    run: RunKey | None = None
    by_hand: bool = True
    warnings: tuple[str, ...] = ()

    @property
    def window(self) -> bool:
        """Whether the request alone gives both bounds, so that no position is read or moved (DESIGN, Position)."""
        match self.startup, self.bounded:
            case FromTimestamp(), UntilTimestamp():
                return True
            case SpecificOffsets(), UntilSpecificOffsets():
                return self.by_hand  # on a schedule the same offsets would be read again and again
            case _:
                return False

    @property
    def window_bounds(self) -> tuple[int, int] | None:
        """``[start, end)`` in epoch milliseconds of a window by time; of all topics together."""
        match self.startup, self.bounded:
            case FromTimestamp(start_ms), UntilTimestamp(end_ms):
                return start_ms, end_ms
            case _:
                return None

    @property
    def window_bounds_by_topic(self) -> dict[str, tuple[int, int]] | None:
        """The same of each topic, where they differ by the request."""
        match self.startup, self.bounded:
            case FromTimestamp() as start, UntilTimestamp() as end if start.by_topic or end.by_topic:
                return {topic: (start.of(topic), end.of(topic)) for topic in sorted({*start.by_topic, *end.by_topic})}
            case _:
                return None

    @property
    def startup_words(self) -> str:
        """The startup request as a checkpoint records it; two requests with one wording are one."""
        match self.startup:
            case FromTimestamp(timestamp_ms, written=written):
                return f"{FromTimestamp.name} {written or iso(timestamp_ms)}"
            case SpecificOffsets(offsets):
                return f"{SpecificOffsets.name} " + ", ".join(f"{tp}={offsets[tp]}" for tp in sorted(offsets))
            case mode:
                return mode.name

    @property
    def subscription_words(self) -> str:
        """What is subscribed to, as a checkpoint records it."""
        match self.subscription:
            case TopicList(topics):
                return "topics " + ", ".join(topics)
            case TopicPattern(pattern):
                return f"pattern {pattern}"
            case PartitionSet(partitions):
                return "partitions " + ", ".join(map(str, partitions))
            case _ as never:
                assert_never(never)

    @property
    def reads_commits(self) -> bool:
        """Whether an offset of this plan can come from the group."""
        return isinstance(self.startup, GroupOffsets | SpecificOffsets) or isinstance(self.bounded, UntilGroupOffsets)
