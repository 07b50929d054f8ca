"""The plan: one half-open range per partition, why it is that one, and an id that digests it.

A plan is frozen once made. Its id says which records of which log it reads, for which batch; two plans with one id read
the same records into the same place. Clocks, reasons, and what the group held are no part of the id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from airflow_kafka_offsets.offsets.model import IsolationLevel, OffsetRange, RunKey, TimestampType, TopicPartition
from airflow_kafka_offsets.offsets.plan.backlog import Backlog
from airflow_kafka_offsets.offsets.request.parse import SplitBy

Continuity = Literal["contiguous", "gap", "overlap", "re-created", "truncated", "new"]


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
class PlannedPartition:
    """One partition of a plan.

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
    """

    topic_partition: TopicPartition
    range: OffsetRange
    start_reason: str
    end_reason: str
    log_start_offset: int
    position: int
    position_epoch: int | None = None
    committed_offset: int | None = None
    leader_epoch: int | None = None
    lost: int = 0
    skipped: int = 0
    continuity: Continuity | None = None
    newest_timestamp: int | None = None
    late: int = 0

    @property
    def start_offset(self) -> int:
        return self.range.start_offset

    @property
    def end_offset(self) -> int:
        return self.range.end_offset


@dataclass(frozen=True, slots=True)
class OffsetPlan:
    """What a batch reads: the ranges of all partitions, sorted, and the facts that they were made from.

    :ivar batch: ``None`` for a plan that is in no log (the command line's ``plan``).
    :ivar instance: the Airflow that made it.
    :ivar run: the task instance that made it; ``None`` for one made by hand.
    :ivar group_id: the group that follows the pipeline's position; ``None`` where none was given.
    :ivar mirrors: whether the group follows (``commit_mode`` is ``on-success``, and this is no window).
    :ivar interval: the run's data interval in epoch milliseconds.
    :ivar window_bounds: a window by time: ``[start, end)`` in epoch milliseconds; else ``None``.
    :ivar window_bounds_by_topic: the same of each topic, where the request gives them different times; else ``None``.
    :ivar window_complete: ``False`` where records before the end may still arrive (``window/complete.py``); ``None``
        where the end is not a time.
    :ivar low_watermark_ms: how far all partitions had come that were not idle, by their newest timestamps.
    :ivar timestamp_types: of a plan that a time bounds: whose clock stamped each topic's records; absent where the
        broker does not tell.
    :ivar splits: how many Spark jobs there are, never fewer than any plan of the batch before had.
    :ivar overwrites: the splits that are started although they have no records: an earlier plan of the batch had some
        there, and what its jobs wrote has to go.
    :ivar restarts: every restart word of the pipeline so far.
    :ivar restarted: whether this plan applied one.
    :ivar reason: why it took the place of an earlier plan of the batch, or is empty; ``None`` for a first plan.
    :ivar withdrawn: an empty window that gave way to another one: the next resolve plans it anew.
    :ivar backlog: what its caps have left to later runs, by an estimate; ``None`` where they left nothing.
    :ivar vanished: topics that the position holds and a pattern does not match any more.
    :ivar ignored: partitions named by the request that it does not subscribe to (C1).
    """

    cluster_id: str
    group_id: str | None
    pipeline: str | None
    isolation_level: IsolationLevel
    startup_mode: str
    bounded_mode: str
    window: bool
    resolved_at_ms: int
    topic_ids: Mapping[str, str | None]
    partitions: tuple[PlannedPartition, ...]
    batch: BatchName | None = None
    instance: str | None = None
    run: RunKey | None = None
    mirrors: bool = False
    output: str | None = None
    subscription: str = ""
    startup_words: str = ""
    splits: int = 1
    split_by: SplitBy = "size"
    overwrites: tuple[int, ...] = ()
    restarts: tuple[str, ...] = ()
    restarted: bool = False
    reason: str | None = None
    withdrawn: bool = False
    interval: tuple[int, int] | None = None
    window_complete: bool | None = None
    low_watermark_ms: int | None = None
    window_bounds: tuple[int, int] | None = None
    window_bounds_by_topic: Mapping[str, tuple[int, int]] | None = None
    timestamp_types: Mapping[str, TimestampType] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    ignored: tuple[TopicPartition, ...] = ()
    vanished: tuple[str, ...] = ()
    backlog: Backlog | None = None
    _plan_id: str | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        keys = [p.topic_partition for p in self.partitions]
        if keys != sorted(set(keys)):
            raise ValueError("a plan's partitions must be sorted and unique")

    @property
    def plan_id(self) -> str:
        """The digest of which records it reads, for which batch."""
        if self._plan_id is None:
            object.__setattr__(self, "_plan_id", _digest(self))
        assert self._plan_id is not None
        return self._plan_id

    @property
    def record_count_upper_bound(self) -> int:
        """How many records there can be; compaction and transaction markers make it fewer."""
        return sum(p.range.size for p in self.partitions)

    @property
    def empty(self) -> bool:
        return self.record_count_upper_bound == 0

    @property
    def skipped(self) -> int:
        return sum(p.skipped for p in self.partitions)

    @property
    def lost(self) -> int:
        return sum(p.lost for p in self.partitions)

    def to_read(self) -> list[PlannedPartition]:
        """The partitions with something in them; Spark is given no others."""
        return [p for p in self.partitions if p.range.size]

    def with_warnings(self, warnings: Iterable[str]) -> OffsetPlan:
        return replace(self, warnings=(*self.warnings, *warnings))


def _digest(plan: OffsetPlan) -> str:
    identity = [
        plan.cluster_id,
        plan.pipeline,
        plan.batch.key if plan.batch else None,
        plan.isolation_level,
        [plan.splits, plan.split_by, plan.overwrites],
        [
            [
                p.topic_partition.topic,
                p.topic_partition.partition,
                plan.topic_ids.get(p.topic_partition.topic),
                p.range.start_offset,
                p.range.end_offset,
            ]
            for p in plan.partitions
        ],
    ]
    return hashlib.sha256(json.dumps(identity, separators=(",", ":")).encode()).hexdigest()[:32]
