"""What a window plan claims for its run, and when two claims are about the same records (DESIGN, Position).

A window by time claims its stretch of time, a window by offsets its ranges: half-open, so that neighbours never touch.
Which of two runs has the claim is decided in ``stores/windows.py``; a claim only names the places where the two are
bound to meet: a day for a time, one place for all windows by offsets, which people make by hand. The two kinds are
not compared: a time says nothing about offsets without asking the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.spec import FromTimestamp, SpecificOffsets
from airflow_kafka_offsets.offsets.times import iso

_DAY_MS = 86_400_000
# All days before are one place, and all after: a window "since 1970" has thousands of places, not tens of thousands.
_FIRST_DAY, _LAST_DAY = (date(year, 1, 1).toordinal() - date(1970, 1, 1).toordinal() for year in (2020, 2040))


@dataclass(frozen=True, slots=True)
class TimeClaim:
    """``[start_ms, end_ms)`` of record time, of all that the pipeline reads.

    :ivar by_topic: topic, start, end: where each topic has a stretch of its own, all within ``[start_ms, end_ms)``.
    """

    start_ms: int
    end_ms: int
    by_topic: tuple[tuple[str, int, int], ...] = ()

    @property
    def places(self) -> list[str]:
        """The UTC days that the window touches, ascending. Two windows that overlap have one in common."""
        first, last = _day(self.start_ms), _day(self.end_ms - 1)
        return [
            datetime.fromtimestamp(day * _DAY_MS // 1000, UTC).strftime("%Y-%m-%d") for day in range(first, last + 1)
        ]

    def overlaps(self, other: Claim) -> bool:
        if not isinstance(other, TimeClaim) or not _overlap(self._all, other._all):
            return False
        if self.by_topic and other.by_topic:
            theirs = {topic: bounds for topic, *bounds in other.by_topic}
            return any(topic in theirs and _overlap(bounds, theirs[topic]) for topic, *bounds in self.by_topic)
        if self.by_topic or other.by_topic:
            named, all_topics = (self, other) if self.by_topic else (other, self)
            return any(_overlap(bounds, all_topics._all) for _, *bounds in named.by_topic)
        return True

    @property
    def _all(self) -> tuple[int, int]:
        return self.start_ms, self.end_ms

    def to_dict(self) -> dict[str, Any]:
        by_topic = {"by_topic": [list(found) for found in self.by_topic]} if self.by_topic else {}
        return {"start_ms": self.start_ms, "end_ms": self.end_ms, **by_topic}

    def __str__(self) -> str:
        return f"window {iso(self.start_ms)} to {iso(self.end_ms)}"


@dataclass(frozen=True, slots=True)
class OffsetClaim:
    """Ranges of single partitions: topic, topic id (``None`` where the cluster has none), partition, start, end."""

    ranges: tuple[tuple[str, str | None, int, int, int], ...]

    @property
    def places(self) -> list[str]:
        return ["offsets"]

    def overlaps(self, other: Claim) -> bool:
        """The same records of the same log: a topic that was made anew is another one."""
        return isinstance(other, OffsetClaim) and any(
            (topic, partition) == (other_topic, other_partition)
            and (topic_id is None or other_id is None or topic_id == other_id)
            and start < other_end
            and other_start < end
            for topic, topic_id, partition, start, end in self.ranges
            for other_topic, other_id, other_partition, other_start, other_end in other.ranges
        )

    def to_dict(self) -> dict[str, Any]:
        return {"ranges": [list(found) for found in self.ranges]}

    def __str__(self) -> str:
        topic, _, partition, start, end = self.ranges[0]
        more = f" and {len(self.ranges) - 1} more partitions" if len(self.ranges) > 1 else ""
        return f"offsets {start} to {end} of {topic}[{partition}]{more}"


Claim = TimeClaim | OffsetClaim


def claim_of(plan: OffsetPlan) -> Claim | None:
    """What ``plan`` claims; ``None`` where it claims nothing: no window, no pipeline, or nothing in it."""
    if not plan.window or plan.checkpoint_id is None:
        return None
    if plan.startup_mode == FromTimestamp.name and plan.window_bounds is not None:
        start_ms, end_ms = plan.window_bounds
        by_topic = tuple((topic, *bounds) for topic, bounds in sorted((plan.window_bounds_by_topic or {}).items()))
        return TimeClaim(start_ms, end_ms, by_topic) if start_ms < end_ms else None
    if plan.startup_mode == SpecificOffsets.name and not plan.empty:
        return OffsetClaim(
            tuple(
                (
                    p.topic_partition.topic,
                    plan.topic_ids.get(p.topic_partition.topic),
                    p.topic_partition.partition,
                    p.start_offset,
                    p.end_offset,
                )
                for p in plan.to_read()
            )
        )
    return None


def claim_from_dict(data: Mapping[str, Any]) -> Claim:
    """The claim that :meth:`to_dict` has written.

    :raises KeyError: it is none.
    """
    if "ranges" in data:
        return OffsetClaim(tuple((topic, topic_id, *map(int, rest)) for topic, topic_id, *rest in data["ranges"]))
    by_topic = tuple((topic, int(start), int(end)) for topic, start, end in data.get("by_topic", ()))
    return TimeClaim(int(data["start_ms"]), int(data["end_ms"]), by_topic)


def _overlap(one: Sequence[int], other: Sequence[int]) -> bool:
    """Of two half-open stretches; one without length overlaps nothing."""
    return max(one[0], other[0]) < min(one[1], other[1])


def _day(moment_ms: int) -> int:
    return min(max(moment_ms // _DAY_MS, _FIRST_DAY - 1), _LAST_DAY)
