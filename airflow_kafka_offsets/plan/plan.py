"""What a batch reads: a draft while it is in no log, a plan once it has its place in one.

A draft says the range of each partition and why it is that one. A plan is a draft with the batch that it is for, who
made it, and which split reads what. Both are frozen. A plan's id digests which records of which log it reads, for which
batch, by which splits: two plans with one id read the same records into the same place. Clocks, reasons, and what the
group held are no part of the id.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Literal, Self

from airflow_kafka_offsets.kafka_values import (
    Actor,
    IsolationLevel,
    OffsetRange,
    TimestampType,
    TopicPartition,
    grouped,
)
from airflow_kafka_offsets.plan.backlog import Backlog
from airflow_kafka_offsets.request.modes import SplitBy

HELD = "held: "
"""What an ``end_reason`` begins with that says why a partition is held."""
Continuity = Literal["contiguous", "gap", "overlap", "re-created", "truncated", "new"]


@dataclass(frozen=True, slots=True)
class SkippedRange(OffsetRange):
    """Offsets that a person has left out of a batch, and the rest of the batch is read."""

    reason: str


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """One partition of a draft or plan; or the piece of it that one split reads.

    :ivar gap: offsets within the range that no split reads: they were deleted after the batch was planned, or a person
        has left them out.
    :ivar log_start_offset: ``None`` where nobody was asked, because the partition is held.
    :ivar position: the offset that the plan went on from, before it was held against the log; ``start_offset`` differs
        where records were gone.
    :ivar position_epoch: the leader epoch that came with it.
    :ivar committed_offset: what the group held when the plan was made; ``None`` where it held nothing or was not asked.
    :ivar leader_epoch: of the end.
    :ivar lost: offsets that were deleted before they were read.
    :ivar skipped: offsets that are still there, but were jumped over by a reset, by ``latest`` or by a person.
    :ivar continuity: how the range joins the position; ``None`` where there was no position.
    :ivar newest_timestamp: the newest timestamp in the partition, in epoch milliseconds, where the plan's end is a
        time; ``None`` where there was no record.
    :ivar late: of a window: offsets before its start that came after the window before it was planned; an upper bound.
    :ivar past_end: offsets that were there at or after the end, such as those behind a cap or a time.
    :ivar held_back: offsets that an open transaction keeps from a ``read_committed`` reader.
    :ivar margin_ms: how long after the plan was made retention takes its first record, at the earliest; ``None`` where
        that is not known, or never (``plan/lag_and_margin.py``).
    :ivar skips: what a person has left out by name, also where it lies outside of the range by now, so that the batch
        leaves it out however often it is planned anew.
    """

    topic_partition: TopicPartition
    range: OffsetRange
    start_reason: str
    end_reason: str
    log_start_offset: int | None
    position: int
    position_epoch: int | None = None
    committed_offset: int | None = None
    leader_epoch: int | None = None
    lost: int = 0
    skipped: int = 0
    continuity: Continuity | None = None
    newest_timestamp: int | None = None
    late: int = 0
    gap: int = 0
    past_end: int | None = None
    held_back: int | None = None
    margin_ms: int | None = None
    skips: tuple[SkippedRange, ...] = ()

    @property
    def start_offset(self) -> int:
        return self.range.start_offset

    @property
    def end_offset(self) -> int:
        return self.range.end_offset

    @property
    def held(self) -> bool:
        """Whether the batch leaves the partition where it is."""
        return self.end_reason.startswith(HELD)

    @property
    def size(self) -> int:
        """How many offsets are read: an upper bound of the records."""
        return self.range.size - self.gap

    def within(self, start_offset: int, end_offset: int) -> PlannedPartition:
        """The piece of it between two offsets."""
        return replace(self, range=OffsetRange(start_offset, end_offset), gap=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a run asked for, as its plan records it.

    :ivar group_id: the group that follows the pipeline's position; ``None`` where none was given.
    :ivar group_follows: whether the group follows (``commit_mode`` is ``on-success``, and this is no window).
    :ivar window: whether the request alone gives both bounds.
    :ivar window_bounds: a window by time: ``[start, end)`` in epoch milliseconds; else ``None``.
    :ivar window_bounds_by_topic: the same of each topic, where the request gives them different times; else ``None``.
    :ivar interval: the run's data interval in epoch milliseconds.
    :ivar subscription: topics, pattern or partitions, in words; ``startup``: the startup request, in words.
    :ivar output: what the Spark job writes; ``None`` where nobody says.
    :ivar task: DAG id and task id of the resolve task that asks; ``None`` where none does.
    """

    isolation_level: IsolationLevel
    startup_mode: str
    bounded_mode: str
    window: bool = False
    group_id: str | None = None
    group_follows: bool = False
    output: str | None = None
    subscription: str = ""
    startup: str = ""
    interval: tuple[int, int] | None = None
    window_bounds: tuple[int, int] | None = None
    window_bounds_by_topic: Mapping[str, tuple[int, int]] | None = None
    split_by: SplitBy = "size"
    task: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the cluster said when a plan was made.

    :ivar topic_ids: of the topics of its partitions; ``None`` where the cluster has no ids.
    :ivar timestamp_types: where a time bounds the plan: whose clock stamped each topic's records; absent where the
        broker does not tell.
    :ivar window_complete: ``False`` where records before the end may still arrive (``plan/completeness.py``); ``None``
        where the end is not a time.
    :ivar low_watermark_ms: how far all partitions had come that were not idle, by their newest timestamps.
    :ivar vanished: topics that the position holds and a pattern does not match any more.
    :ivar ignored: partitions named by the request that it does not subscribe to (C1).
    :ivar backlog: what the caps have left to later runs, by an estimate; ``None`` where they left nothing.
    """

    cluster_id: str
    topic_ids: Mapping[str, str | None]
    timestamp_types: Mapping[str, TimestampType] = field(default_factory=dict)
    window_complete: bool | None = None
    low_watermark_ms: int | None = None
    vanished: tuple[str, ...] = ()
    ignored: tuple[TopicPartition, ...] = ()
    backlog: Backlog | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The ranges that a batch would read, and what they were made from; it is in no log.

    :ivar pipeline: whose position it goes on from; ``None`` where the startup mode alone decided.
    :ivar partitions: sorted; each once.
    :ivar split_count: how many Spark jobs may read it.
    :ivar restarts: every restart word of the pipeline so far.
    :ivar restarted: whether this draft applied one.
    """

    pipeline: str | None
    asked: Asked
    found: Found
    partitions: tuple[PlannedPartition, ...]
    resolved_at_ms: int
    split_count: int = 1
    restarts: tuple[str, ...] = ()
    restarted: bool = False
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        keys = [p.topic_partition for p in self.partitions]
        if keys != sorted(set(keys)):
            raise ValueError("a plan's partitions must be sorted and unique")
        if self.split_count < 1:
            raise ValueError(f"a plan cannot have {self.split_count} splits")

    @property
    def record_count_upper_bound(self) -> int:
        """How many records there can be; compaction and transaction markers make it fewer."""
        return sum(p.size for p in self.partitions)

    @property
    def empty(self) -> bool:
        return self.record_count_upper_bound == 0

    @property
    def skipped(self) -> int:
        return sum(p.skipped for p in self.partitions)

    @property
    def lost(self) -> int:
        return sum(p.lost for p in self.partitions)

    @property
    def topics(self) -> set[str]:
        return {p.topic_partition.topic for p in self.partitions}

    def to_read(self) -> list[PlannedPartition]:
        """The partitions with something in them; Spark is given no others."""
        return [p for p in self.partitions if p.size]

    def with_warnings(self, warnings: Iterable[str]) -> Self:
        return replace(self, warnings=(*self.warnings, *warnings))


@dataclass(frozen=True, slots=True)
class BatchName:
    """Which batch a plan is for. Outputs are keyed by ``key``, never by the run.

    :ivar number: its number in the pipeline's log; ``None`` for a window.
    :ivar after: the key of the batch that it goes on from; ``None`` where there is none.
    """

    key: str
    number: int | None = None
    after: str | None = None

    def __str__(self) -> str:
        return f"window {self.key}" if self.number is None else f"batch {self.number}"


@dataclass(frozen=True, slots=True)
class VerifiedSplit:
    """A split that an earlier plan of the batch has written, and that is verified: it is not written again.

    :ivar plan_id: of the plan that it was read by; ``attempt``: whose report counts.
    """

    plan_id: str
    attempt: int


Splits = tuple[tuple[PlannedPartition, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Draft):
    """A draft that has its place in a log.

    :ivar by: who made it; a person has no run.
    :ivar splits: what each split reads, sorted by topic and partition. There are never fewer than any plan of the batch
        before had, and each keeps its number, so that it overwrites its own output and no other's.
    :ivar overwrites: the splits that are started although they have no records: an earlier plan of the batch had some
        there, and what its jobs wrote has to go.
    :ivar verified: the splits that are not started, because what they read is written and verified.
    :ivar reason: why it took the place of an earlier plan of the batch, or is empty; ``None`` for a first plan.
    :ivar withdrawn: an empty window that gave way to another one: the next resolve plans it anew.
    """

    batch: BatchName
    by: Actor
    splits: Splits
    overwrites: tuple[int, ...] = ()
    verified: Mapping[int, VerifiedSplit] = field(default_factory=dict)
    reason: str | None = None
    withdrawn: bool = False
    plan_id: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        Draft.__post_init__(self)
        if self.split_count != len(self.splits):
            raise ValueError(f"a plan of {self.split_count} splits lists {len(self.splits)}")
        strange = [number for number in (*self.overwrites, *self.verified) if not 0 <= number < self.split_count]
        if strange:
            raise ValueError(f"{strange} are not among its {self.split_count} splits")
        read = sum(p.range.size for split in self.splits for p in split)  # a piece has no gap: Spark reads all of it
        if read != self.record_count_upper_bound:
            raise ValueError(f"its splits read {read} offsets, and its partitions have {self.record_count_upper_bound}")
        object.__setattr__(self, "plan_id", _digest(self))

    def splits_with_rows(self) -> set[int]:
        """The splits that may hold rows in the output: of this plan, or of one before."""
        return {number for number, partitions in enumerate(self.splits) if partitions} | set(self.overwrites)

    def splits_to_start(self) -> list[int]:
        """The numbers of the splits that a Spark job is started for: those with something to read, or to overwrite."""
        return sorted(self.splits_with_rows() - self.verified.keys())


def placed(draft: Draft, batch: BatchName, by: Actor, splits: Splits, **more: Any) -> Plan:
    """``draft`` with its place in a log; ``more`` has the fields that are other ones."""
    given = {one.name: getattr(draft, one.name) for one in fields(Draft)}
    return Plan(**{**given, "split_count": len(splits), **more}, batch=batch, by=by, splits=splits)


def _digest(plan: Plan) -> str:
    columns = grouped(
        (p.topic_partition.topic, (number, p.topic_partition.partition, p.range.start_offset, p.range.end_offset))
        for number, split in enumerate(plan.splits)
        for p in split
    )
    identity: Sequence[Any] = [
        plan.found.cluster_id,
        plan.pipeline,
        plan.batch.key,
        plan.asked.isolation_level,
        [plan.split_count, plan.overwrites, sorted((n, k.plan_id, k.attempt) for n, k in plan.verified.items())],
        [[topic, plan.found.topic_ids.get(topic), columns[topic]] for topic in sorted(columns)],
        [[p.topic_partition.topic, p.topic_partition.partition, p.end_offset] for p in plan.partitions if not p.size],
    ]
    return hashlib.sha256(json.dumps(identity, separators=(",", ":")).encode()).hexdigest()[:32]


# ── the key of a batch: 0000000007-20261122T022057-k3f9 ───────────────────────────────────────────────────────────────
# Outputs are keyed by it. Whoever does the batch again replaces what was there, and no two batches ever share a key,
# whatever was lost or restored: the number tells them apart in one log, the rest in two.


_KEY = re.compile(r"([0-9]{10})-[0-9]{8}T[0-9]{6}-[a-z0-9]{4}")
HIGHEST = 10**10 - 1


def new_key(number: int, at_ms: int, characters: str) -> str:
    """:param characters: four random ones, of a to z and 0 to 9."""
    key = f"{number:010}-{datetime.fromtimestamp(at_ms // 1000, UTC):%Y%m%dT%H%M%S}-{characters}"
    if number < 1 or not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is not the key of a batch")
    return key


def number_named(named: str) -> int:
    """The number of the batch that a person names by its number or its key; 0 for anything else."""
    is_number = named.isascii() and named.isdigit() and len(named) <= len(str(HIGHEST))
    return int(named) if is_number else number_of(named)


def number_of(key: str | None) -> int:
    """The number in a batch's key; 0 for anything else, such as a window, or no batch at all."""
    match = _KEY.fullmatch(key or "")
    return int(match[1]) if match else 0
