"""A window's name, what it claims, and when two windows overlap.

A window by time claims its stretch of time, a window by offsets its ranges: half-open, so that neighbours never touch.
A window's name says its bounds, so the same window is the same batch whoever plans it. Two windows that overlap find
each other in the places that both are listed in: the months that a time lies in, one place for all windows by offsets,
which people make by hand. The two kinds are not compared: a time says nothing about offsets without asking the cluster.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_kafka_offsets.kafka_values import ClusterDescription, is_another_log
from airflow_kafka_offsets.plan.plan import BatchName, Draft, Plan
from airflow_kafka_offsets.request.modes import (
    AtTimestamp,
    SpecificOffsets,
)
from airflow_kafka_offsets.request.parse_request import PlanRequest
from airflow_kafka_offsets.request.times import iso

# All months before are one place, and all after: a window "since 1970" has hundreds of places otherwise.
_FIRST, _LAST = (2020, 1), (2040, 1)
_MOMENT = r"(?:[0-9]{8}T[0-9]{6}(?:\.[0-9]{3})?Z|[0-9]{1,19}ms)"
_TIME_NAME = rf"{_MOMENT}--{_MOMENT}(?:-[0-9a-f]{{8}})?"
WINDOW_NAME = rf"(?:{_TIME_NAME}|offsets-[0-9a-f]{{32}})"


@dataclass(frozen=True, slots=True)
class TimeClaim:
    """``[start_ms, end_ms)`` of record time, of all that the pipeline reads.

    :ivar by_topic: topic, start, end: where each topic has a stretch of its own, all within ``[start_ms, end_ms)``.
    """

    start_ms: int
    end_ms: int
    by_topic: tuple[tuple[str, int, int], ...] = ()

    @property
    def name(self) -> str:
        """``<start>--<end>``, such as ``20261120T020000Z--20261120T030000Z``; with a digest where topics differ."""
        bounds = f"{_compact(self.start_ms)}--{_compact(self.end_ms)}"
        return f"{bounds}-{_digest(self.by_topic)[:8]}" if self.by_topic else bounds

    @property
    def places(self) -> list[str]:
        """The UTC months that the window lies in, ascending. Two windows that overlap have one in common."""
        month, last = _month(self.start_ms), _month(max(self.start_ms, self.end_ms - 1))
        found = []
        while month <= last:
            found.append(f"{month[0]:04}-{month[1]:02}")
            month = (month[0], month[1] + 1) if month[1] < 12 else (month[0] + 1, 1)
        return found

    def overlaps(self, other: Claim) -> bool:
        if not isinstance(other, TimeClaim) or not _overlap(self._all, other._all):
            return False
        mine, theirs = ({topic: bounds for topic, *bounds in claim.by_topic} for claim in (self, other))
        topics = mine.keys() & theirs.keys() if mine and theirs else {*mine, *theirs} or {""}
        return any(_overlap(mine.get(topic, self._all), theirs.get(topic, other._all)) for topic in topics)

    @property
    def _all(self) -> tuple[int, int]:
        return self.start_ms, self.end_ms

    def __str__(self) -> str:
        return f"window {iso(self.start_ms)} to {iso(self.end_ms)}"


@dataclass(frozen=True, slots=True)
class OffsetClaim:
    """Ranges of single partitions: topic, topic id (``None`` where the cluster has none), partition, start, end."""

    ranges: tuple[tuple[str, str | None, int, int, int], ...]

    @property
    def name(self) -> str:
        return f"offsets-{_digest(self.ranges)[:32]}"

    @property
    def places(self) -> list[str]:
        return ["offsets"]

    def overlaps(self, other: Claim) -> bool:
        """The same records of the same log: a topic that was made anew is another one."""
        if not isinstance(other, OffsetClaim):
            return False
        theirs = {(topic, partition): bounds for topic, _, partition, *bounds in other.ranges}
        ids = {topic: topic_id for topic, topic_id, *_ in other.ranges}
        return any(
            (topic, partition) in theirs
            and not is_another_log(topic_id, ids[topic])
            and _overlap((start, end), theirs[topic, partition])
            for topic, topic_id, partition, start, end in self.ranges
        )

    def __str__(self) -> str:
        if not self.ranges:
            return "window without a record"
        topic, _, partition, start, end = self.ranges[0]
        more = f" and {len(self.ranges) - 1} more partitions" if len(self.ranges) > 1 else ""
        return f"window of offsets {start} to {end} of {topic}[{partition}]{more}"


Claim = TimeClaim | OffsetClaim


def claim_of(plan: Draft) -> Claim:
    """What a window's plan claims: the bounds that were asked for, also if no record was found."""
    asked = plan.asked
    if asked.window_bounds is not None:
        by_topic = tuple((topic, *bounds) for topic, bounds in sorted((asked.window_bounds_by_topic or {}).items()))
        return TimeClaim(*asked.window_bounds, by_topic)
    return OffsetClaim(
        tuple(
            (
                p.topic_partition.topic,
                plan.found.topic_ids.get(p.topic_partition.topic),
                p.topic_partition.partition,
                p.start_offset,
                p.end_offset,
            )
            for p in plan.to_read()
        )
    )


def name_of(plan: Plan) -> str:
    """``batch 7``, or ``window 2026-11-20T10:00Z to 2026-11-20T11:00Z``."""
    return str(claim_of(plan) if plan.asked.window else plan.batch)


def words_of_name(name: str) -> str:
    """A window's bounds by its name, or the name of one by offsets: ``2026-11-20T10:00Z to 2026-11-20T11:00Z``."""
    bounds = time_claim_of_name(name)
    return f"{iso(bounds.start_ms)} to {iso(bounds.end_ms)}" if bounds else name


def claim_of_request(request: PlanRequest, description: ClusterDescription) -> Claim | None:
    """What a window claims, from the request alone, so that it is found again when its records are gone.

    ``None`` for explicit offsets of which some come from the group.
    """
    match request.startup, request.bounded:
        case AtTimestamp(), AtTimestamp() if request.window_bounds:
            by_topic = tuple((topic, *bounds) for topic, bounds in (request.window_bounds_by_topic or {}).items())
            return TimeClaim(*request.window_bounds, by_topic)
        case SpecificOffsets() as start, SpecificOffsets() as end:
            starts, ends = start.numbers or {}, end.numbers or {}
            partitions = description.partitions()
            if not all(tp in starts and tp in ends for tp in partitions):
                return None
            return OffsetClaim(
                tuple(
                    (tp.topic, description.topics[tp.topic].topic_id, tp.partition, starts[tp], ends[tp])
                    for tp in partitions
                    if starts[tp] < ends[tp]
                )
            )
    return None


def time_claim_of_name(name: str) -> TimeClaim | None:
    """The stretch of time that a window's name says; ``None`` for another kind of name. Topics' own are not in it."""
    if not re.fullmatch(_TIME_NAME, name):
        return None
    with suppress(ValueError):  # the thirteenth month
        start_ms, end_ms = map(_moment_ms, re.findall(_MOMENT, name))
        return TimeClaim(start_ms, end_ms)
    return None


def batch_name_of(claim: Claim, pipeline: str) -> BatchName:
    """The window as a batch: outputs are keyed by its name and its pipeline."""
    return BatchName(f"{claim.name}-{pipeline_in_key(pipeline)}")


def window_of_key(key: str) -> tuple[TimeClaim, str, str] | None:
    """The stretch of time of a window by its key, its name, and what stands for its pipeline; ``None``: any other key.

    Topics' own stretches are not in it.
    """
    name, _, pipeline = key.rpartition("-")
    claim = time_claim_of_name(name)
    return (claim, name, pipeline) if claim and re.fullmatch("[0-9a-f]{8}", pipeline) else None


def pipeline_in_key(pipeline: str) -> str:
    return _digest(pipeline)[:8]


def _moment_ms(compact: str) -> int:
    """The moment that :func:`_compact` has written."""
    if compact.endswith("ms"):
        return int(compact[:-2])
    seconds, _, millis = compact.removesuffix("Z").partition(".")
    moment = datetime.strptime(seconds, "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1000 + int(millis or 0)


def _compact(moment_ms: int) -> str:
    """``20261122T020000Z``, a time that any file system takes."""
    words = iso(moment_ms)
    if words.count(":") == 1:
        words = words.replace("Z", ":00Z")
    return re.sub(r"[-: ]", "", words)  # past the year 9999 it is "253402300800000 ms"


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()


def _month(moment_ms: int) -> tuple[int, int]:
    try:
        moment = datetime.fromtimestamp(moment_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return _LAST
    return min(max((moment.year, moment.month), _FIRST), _LAST)


def _overlap(one: Sequence[int], other: Sequence[int]) -> bool:
    """Of two half-open stretches; one without length overlaps nothing."""
    return max(one[0], other[0]) < min(one[1], other[1])
