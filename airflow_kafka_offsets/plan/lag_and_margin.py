"""How far an offset is from both ends of its partition's log: its lag, and its margin before retention takes it.

Both are in records and in time. Kafka deletes whole segments from the front of a log: each when the newest time in it
is too old (``retention.ms``), or while the log is too large (``retention.bytes``). So a record stays at least as long
as any record before it, and what is said here is the earliest moment.

- By ``retention.ms`` the margin is exact: a record's time, and the time that it may stay.
- By ``retention.bytes`` nobody can tell: the size of a segment is not asked. The pace of the log start, from one look
  to the next, is all there is. It is an estimate, and it stands in wherever a time is not known.

What must stay true: what is not known is absent (``None``), and never 0. Where nothing is unread, or retention deletes
nothing (``cleanup.policy=compact``, no limits), there is no margin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    OffsetRange,
    PartitionSnapshot,
    TopicPartition,
    TopicSettings,
    in_same_logs,
)
from airflow_kafka_offsets.plan.plan import Draft


class LogStart(NamedTuple):
    """Where a partition's log began at an earlier look."""

    offset: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class LagAndMargin:
    """Of one offset, or of several together.

    :ivar lag: offsets from there to the end of the log: an upper bound of the records.
    :ivar behind_ms: how old the first record there is.
    :ivar margin: offsets that retention deletes before it comes to this one; below 0: so many are gone that should
        have been read.
    :ivar margin_ms: how long it takes to come to this one, at the earliest.
    """

    lag: int | None = None
    behind_ms: int | None = None
    margin: int | None = None
    margin_ms: int | None = None


def lag_and_margin(
    at: int | None,
    log: PartitionSnapshot | None,
    now_ms: int,
    *,
    record_ms: int | None = None,
    settings: TopicSettings | None = None,
    before: LogStart | None = None,
) -> LagAndMargin:
    """How far ``at`` is from both ends.

    :param at: the next offset to read.
    :param record_ms: the time of the first record at or after it, or one that is not later.
    :param settings: of the topic; ``None`` where this client may not know them, or has not asked.
    """
    if at is None or log is None:
        return LagAndMargin()
    lag = log.end_offset - at
    if lag <= 0:
        return LagAndMargin(lag, None if lag else 0)
    behind_ms = None if record_ms is None else max(0, now_ms - record_ms)
    if settings is not None and settings.keeps_all:
        return LagAndMargin(lag, behind_ms)
    margin, moved = at - log.log_start_offset, _moved(log.log_start_offset, now_ms, before)
    if margin < 0:
        return LagAndMargin(lag, behind_ms, margin, 0)
    margin_ms = None if moved is None else margin * moved[1] // moved[0]
    if settings is not None and settings.retention_ms is not None and record_ms is not None:
        by_time_ms = max(0, record_ms + settings.retention_ms - now_ms)
        if settings.retention_bytes is None:
            margin_ms = by_time_ms
        elif margin_ms is not None:
            margin_ms = min(by_time_ms, margin_ms)
    return LagAndMargin(lag, behind_ms, margin, margin_ms)


def taken_within(
    margin_ms: int,
    logs: Mapping[TopicPartition, OffsetRange],
    now_ms: int,
    first_at: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]],
    settings: Mapping[str, TopicSettings],
    before: Mapping[TopicPartition, LogStart],
) -> dict[TopicPartition, int]:
    """Of each log the offset up to which retention may have deleted all when so much time has passed, as far as that is
    known.

    :param logs: from the log start to the end of what is there.
    :param first_at: asks for the first offset at or after a time; absent where there is none. Nobody is asked of topics
        without a limit by time.
    :param settings: of the topics; absent where this client may not know.
    """
    limits = {tp: settings[tp.topic].retention_ms for tp in logs if tp.topic in settings}
    stay_from = {tp: max(0, now_ms + margin_ms - kept_ms) for tp, kept_ms in limits.items() if kept_ms is not None}
    young = first_at(stay_from) if stay_from else {}

    def taken(tp: TopicPartition, log: OffsetRange) -> int:
        kept, found = settings.get(tp.topic), log.start_offset
        if tp in stay_from:
            found = young.get(tp, log.end_offset)
        moved = _moved(log.start_offset, now_ms, before.get(tp))
        if moved is not None and (kept is None or kept.retention_bytes is not None):
            found = max(found, log.start_offset + moved[0] * margin_ms // moved[1])
        return min(found, log.end_offset)

    return {tp: taken(tp, log) for tp, log in logs.items()}


def _moved(log_start: int, now_ms: int, before: LogStart | None) -> tuple[int, int] | None:
    """How many offsets the log start has moved, in how many milliseconds; ``None`` where it has not."""
    if before is None or log_start <= before.offset or now_ms <= before.at_ms:
        return None
    return log_start - before.offset, now_ms - before.at_ms


def log_starts_of(plan: Draft | None, now: ClusterDescription) -> dict[TopicPartition, LogStart]:
    """Where the logs began when a plan was made, of the topics that are the same logs now."""
    return in_same_logs(log_starts_in(plan), plan.found, now) if plan else {}


def log_starts_in(plan: Draft) -> dict[TopicPartition, LogStart]:
    """Where the logs began that the plan has looked at."""
    return {
        p.topic_partition: LogStart(p.log_start_offset, plan.resolved_at_ms)
        for p in plan.partitions
        if p.log_start_offset is not None
    }


def together(found: Iterable[LagAndMargin]) -> LagAndMargin:
    """The sum of the records, the oldest of the ages, the smallest of the margins: of those that are known."""
    rows = list(found)

    def known(name: str) -> list[int]:
        return [value for row in rows if (value := getattr(row, name)) is not None]

    lags = known("lag")
    return LagAndMargin(
        sum(lags) if lags else None,
        max(known("behind_ms"), default=None),
        min(known("margin"), default=None),
        min(known("margin_ms"), default=None),
    )
