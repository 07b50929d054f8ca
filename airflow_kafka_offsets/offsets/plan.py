"""The plan: one half-open range per partition, why it is that one, and an id that digests it.

A plan is frozen once made. Its id says which records of which log it reads, for whom; two plans with one id read the
same records. Clocks, reasons and what the group held are not part of the id (DESIGN, The plan).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from airflow_kafka_offsets.offsets.model import IsolationLevel, OffsetRange, TimestampType, TopicPartition
from airflow_kafka_offsets.offsets.spec import RunKey, SplitBy

Continuity = Literal["contiguous", "gap", "overlap", "rewind", "re-created", "truncated", "new"]


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """One partition of a plan.

    :ivar base_offset: what the group held when the plan was made; ``None`` where it held nothing.
    :ivar lost: offsets that were deleted before they were read.
    :ivar skipped: offsets that are still there, but that a reset or ``latest`` jumped over.
    :ivar moved_back_by: the policy that the user named and that may move the group back here, if one was applied.
    :ivar newest_timestamp: the newest timestamp in the partition, in epoch milliseconds, where the plan's end is a
        time; ``None`` where there was no record.
    :ivar late: of a window: offsets before its start that came after the window before it was planned; an upper bound.
    :ivar continuity: how the range joins the checkpoint's offset; ``None`` where there was no checkpoint.
    """

    topic_partition: TopicPartition
    range: OffsetRange
    start_reason: str
    end_reason: str
    log_start_offset: int
    base_offset: int | None = None
    leader_epoch: int | None = None
    lost: int = 0
    skipped: int = 0
    moved_back_by: str | None = None
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
    """What a run reads: the ranges of all partitions, sorted, and the facts that they were made from.

    :ivar group_id: the group to commit to, or to mirror a window to; ``None`` where none was given.
    :ivar interval: the run's data interval in epoch milliseconds.
    :ivar window_complete: ``False`` where records before the end may still arrive (``offsets/complete.py``); ``None``
        where the end is not a time.
    :ivar low_watermark_ms: how far all partitions had come that were not idle, by their newest timestamps.
    :ivar window_bounds: a window by time: ``[start, end)`` in epoch milliseconds; else ``None``.
    :ivar window_bounds_by_topic: the same of each topic, where the request gives them different times; else ``None``.
    :ivar timestamp_types: of a plan that a time bounds: whose clock stamped each topic's records; absent where the
        broker does not tell.
    :ivar subscription: what was subscribed to, in words.
    :ivar parent: the checkpoint that it goes on from.
    :ivar replaces: the plan of the same run that this one took the place of.
    :ivar starts_all_splits: whether splits without records are started too, to overwrite what the replaced plan wrote.
    :ivar vanished: topics that the checkpoint holds and a pattern does not match any more.
    :ivar ignored: partitions named by the request that it does not subscribe to (C1).
    """

    cluster_id: str
    group_id: str | None
    checkpoint_id: str | None
    isolation_level: IsolationLevel
    startup_mode: str
    bounded_mode: str
    window: bool
    resolved_at_ms: int
    topic_ids: Mapping[str, str | None]
    partitions: tuple[PlannedPartition, ...]
    subscription: str = ""
    splits: int = 1
    split_by: SplitBy = "size"
    interval: tuple[int, int] | None = None
    run: RunKey | None = None
    parent: str | None = None
    replaces: str | None = None
    starts_all_splits: bool = False
    window_complete: bool | None = None
    low_watermark_ms: int | None = None
    window_bounds: tuple[int, int] | None = None
    window_bounds_by_topic: Mapping[str, tuple[int, int]] | None = None
    timestamp_types: Mapping[str, TimestampType] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    ignored: tuple[TopicPartition, ...] = ()
    vanished: tuple[str, ...] = ()
    plan_id: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        keys = [p.topic_partition for p in self.partitions]
        if keys != sorted(set(keys)):
            raise ValueError("a plan's partitions must be sorted and unique")
        object.__setattr__(self, "plan_id", _digest(self))

    @property
    def record_count_upper_bound(self) -> int:
        """How many records there can be; compaction and transaction markers make it fewer."""
        return sum(p.range.size for p in self.partitions)

    @property
    def empty(self) -> bool:
        return self.record_count_upper_bound == 0

    def to_read(self) -> list[PlannedPartition]:
        """The partitions with something in them; Spark is given no others."""
        return [p for p in self.partitions if p.range.size]

    def with_warnings(self, warnings: Iterable[str]) -> OffsetPlan:
        return replace(self, warnings=(*self.warnings, *warnings))


def _digest(plan: OffsetPlan) -> str:
    run = plan.run
    identity = [
        plan.cluster_id,
        plan.group_id,
        plan.checkpoint_id,
        [run.dag_id, run.run_id, run.task_id, run.map_index] if run else None,
        plan.isolation_level,
        [plan.splits, plan.split_by],
        [
            [
                p.topic_partition.topic,
                p.topic_partition.partition,
                plan.topic_ids.get(p.topic_partition.topic),
                p.start_offset,
                p.end_offset,
            ]
            for p in plan.partitions
        ],
    ]
    return hashlib.sha256(json.dumps(identity, separators=(",", ":")).encode()).hexdigest()[:32]
