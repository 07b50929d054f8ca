"""How many records wait for a pipeline, whether that is enough to start it, and whether it was started for them.

Kafka finds offsets by timestamps and not timestamps by offsets, so the age of the oldest unread record is never asked.
It need not be: the first offset at or after ``now - max_age`` says which records are younger, and an unread record
below it is older. Where timestamps are out of order, a record behind one with a later timestamp counts as young for as
long as that one is (Kafka refuses those from more than an hour ahead): a limit of records beside it is always exact.

What is unread is an upper bound: compaction and transaction markers leave gaps. What must stay true:

- a partition that has no position counts from its log start: nobody has read it, and a first run has to come;
- a position that lies beyond the end of the log is another log's: all of this one is unread, and the run that starts
  says what is wrong. A run that is refused is seen; one that never starts is not;
- a partition without a leader is unknown, which is neither zero nor a reason to wait: the others decide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow_kafka_offsets.errors import refuse
from airflow_kafka_offsets.kafka_values import OffsetRange, PartitionSnapshot, TopicPartition
from airflow_kafka_offsets.request.offset_maps import at_least_one
from airflow_kafka_offsets.request.problems import Problems
from airflow_kafka_offsets.request.times import parse_span_ms


@dataclass(frozen=True, slots=True)
class LagLimits:
    """When a lag is enough: at least so many unread records, one that is older than this, or one that retention may
    delete before so much time has passed.
    """

    min_records: int | None
    max_age_ms: int | None
    min_margin_ms: int | None = None


def parse_limits(
    min_records: int | str | None,
    max_age: float | str | timedelta | None,
    min_retention_margin: float | str | timedelta | None = None,
) -> LagLimits:
    """The limits that were asked for; none means one record.

    :param min_records: how many unread records are enough, at least 1.
    :param max_age: how old an unread record may be: seconds, a timedelta, or an ISO 8601 duration (``PT10M``).
    :param min_retention_margin: how near retention may come to an unread record; written as ``max_age``.
    :raises InvalidRequest: with every problem found.
    """
    problems = Problems()
    records = problems.take("min_records", lambda: at_least_one(min_records), None)
    age_ms = problems.take("max_age", lambda: parse_span_ms(max_age), None)
    margin_ms = problems.take("min_retention_margin", lambda: parse_span_ms(min_retention_margin), None)
    refuse(problems)
    if records is None and age_ms is None and margin_ms is None:
        records = 1
    return LagLimits(records, age_ms, margin_ms)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition's lag: how many records are unread, and whether one of them is older than allowed.

    :ivar records: an upper bound; ``None`` where the partition has no leader to ask.
    :ivar near: whether retention is nearer to one of them than allowed.
    """

    topic_partition: TopicPartition
    records: int | None
    old: bool = False
    near: bool = False


def partition_lag(
    tp: TopicPartition,
    log: PartitionSnapshot | None,
    position: int | None,
    first_young: int | None,
    ages: bool,
    taken: int | None = None,
) -> PartitionLag:
    """The lag of one partition.

    :param position: the next offset that the pipeline reads; ``None`` where it has none.
    :param first_young: the first offset whose record is not older than allowed; ``None`` where there is none.
    :param ages: whether the age was looked up at all.
    :param taken: up to where retention may have deleted all before enough time has passed; ``None``: nobody looked.
    """
    if log is None:
        return PartitionLag(tp, None)
    unread = _unread(log, position)
    young = log.end_offset if first_young is None else min(first_young, log.end_offset)
    near = taken is not None and unread.start_offset < min(taken, log.end_offset)
    return PartitionLag(tp, unread.size, ages and unread.start_offset < young, near)


def _unread(log: PartitionSnapshot, position: int | None) -> OffsetRange:
    if position is None or position > log.high_watermark:
        return OffsetRange(log.log_start_offset, log.end_offset)
    # Below the log start: what is gone waits for nobody. Above a last stable offset: a commit of read_uncommitted.
    return OffsetRange(min(max(position, log.log_start_offset), log.end_offset), log.end_offset)


@dataclass(frozen=True, slots=True)
class Lag:
    """A pipeline's lag over its subscription at one moment.

    :ivar position: a text that differs between any two positions of the pipeline.
    :ivar missing: what of the subscription does not exist, or has no leader: a phrase each.
    """

    group_id: str
    cluster_id: str
    limits: LagLimits
    looked_at_ms: int
    partitions: tuple[PartitionLag, ...]
    position: str
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join((*self.missing, f"group {self.group_id} has up to {self.records} unread records"))

    @property
    def records(self) -> int:
        return sum(p.records or 0 for p in self.partitions)

    @property
    def unknown(self) -> int:
        """Partitions without a leader."""
        return sum(p.records is None for p in self.partitions)

    @property
    def old(self) -> int:
        """Partitions with an unread record older than allowed."""
        return sum(p.old for p in self.partitions)

    @property
    def near(self) -> int:
        """Partitions with an unread record that retention is nearer to than allowed."""
        return sum(p.near for p in self.partitions)

    @property
    def is_enough(self) -> bool:
        enough = self.limits.min_records is not None and self.records >= self.limits.min_records
        return enough or self.old + self.near > 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON, of a size that does not grow with the partitions.

        ``oldest_unread_before_ms`` bounds the age: a record from before that moment is unread. ``None``: none is known.
        """
        topics: dict[str, int] = {}
        for p in self.partitions:
            topics[p.topic_partition.topic] = topics.get(p.topic_partition.topic, 0) + (p.records or 0)
        before = self.looked_at_ms - self.limits.max_age_ms if self.old and self.limits.max_age_ms else None
        return {
            "group_id": self.group_id,
            "cluster_id": self.cluster_id,
            "lag": self.records,
            "topics": topics,
            "oldest_unread_before_ms": before,
            "partitions_with_old_records": self.old,
            "partitions_near_retention": self.near,
            "partitions_without_leader": self.unknown,
            "looked_at_ms": self.looked_at_ms,
        }


def position_mark(offsets: Mapping[TopicPartition, int]) -> str:
    """A position in few characters. A partition without an offset is not in it: a new one moves no position."""
    rows = "\n".join(f"{tp} {offset}" for tp, offset in sorted(offsets.items()))
    return hashlib.sha256(rows.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Announced:
    """The backlog that a trigger fired for last: from which position, and when."""

    position: str
    at_ms: int

    @classmethod
    def from_dict(cls, found: Any) -> Announced | None:
        """``None`` where it is none as JSON: then the trigger fires once more."""
        match found:
            case {"position": str(position), "at_ms": int(at_ms)}:
                return cls(position, at_ms)
        return None


def is_new_backlog(lag: Lag, announced: Announced | None, remind_after_ms: int | None) -> bool:
    """Whether to fire for this backlog: it is enough, and no run that was started before reads it anyway.

    A run reads all that is there when it plans, and moves the position when it commits, perhaps much later. Until then
    the position stays where it was: whatever is unread is that run's, or the next one's, which the commit
    brings about. So a backlog that grows is no reason to fire: a further run could only wait for the first. That a run
    failed cannot be seen from here; that is what the reminder is for.
    """
    if not lag.is_enough:
        return False
    if announced is None or announced.position != lag.position:
        return True
    return remind_after_ms is not None and lag.looked_at_ms - announced.at_ms >= remind_after_ms
