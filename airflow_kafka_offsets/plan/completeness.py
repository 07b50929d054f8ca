"""Is a window complete: may records still arrive whose time lies before its end? And which came too late.

Kafka does not say; what is known of a partition is its newest timestamp. The rule, for each partition:

1. It has a record at or past the end, and everything before that is decided: complete. (Out of order records may follow
   all the same: that is the topic's, and no rule can know.)
2. It holds records of a transaction that is open, and is read with ``read_committed``: waited for, whatever the clock
   says. What is committed later would lie behind the range that was read.
3. The broker stamps its records (LogAppendTime), and the clock has passed the end by ``clock_skew_ms``: complete. No
   record can get an earlier time any more.
4. It is idle: the clock has passed the end by ``idle_timeout_ms``, and so it has since its newest timestamp was last
   seen to move, if somebody has watched it. Flink's idleness (``WatermarkStrategy.withIdleness``) is silence by the
   clock; one look cannot hear silence, but a window's end is a fact, and a partition that has nothing at or past it
   after that long is either silent or late by more than was allowed for. Who looks again and again (a sensor) tells the
   two apart: a partition that catches up moves, and is not idle. An empty partition is one that never moved.

So an idle partition holds the others back for ``idle_timeout_ms`` after the window's end and no longer, and windows of
long ago are complete at the first look. What must stay true: what a sensor, which remembers, has found complete is so
for the plan that is made after it, which does not remember; unless a transaction was opened since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_kafka_offsets.kafka_values import (
    OffsetRange,
    PartitionSnapshot,
    TopicPartition,
    TopicSettings,
    in_same_logs,
)
from airflow_kafka_offsets.plan.plan import Draft, Plan, PlannedPartition
from airflow_kafka_offsets.plan.plan_table import first_few
from airflow_kafka_offsets.request.modes import AtTimestamp, time_of
from airflow_kafka_offsets.request.times import DEFAULT_CLOCK_SKEW_MS, DEFAULT_IDLE_TIMEOUT_MS, iso

_SHOWN, _SHOWN_LATE = 3, 10


@dataclass(frozen=True, slots=True)
class Arrived:
    """What one look at the cluster shows of a partition.

    :ivar newest_ms: the newest timestamp, also of a record that was deleted since; ``None`` where there never was one,
        or where it is not decided yet.
    :ivar past_end: whether a record at or past the window's end is there and everything before it is decided.
    :ivar undecided: whether records of an open transaction are there that a ``read_committed`` reader is not given yet.
    """

    newest_ms: int | None = None
    past_end: bool = False
    undecided: bool = False


def arrived_by(
    newest: Mapping[TopicPartition, int],
    ends_ms: Mapping[TopicPartition, int],
    snapshots: Mapping[TopicPartition, PartitionSnapshot],
    end_times: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Arrived]:
    """What has arrived, by the answers that a plan has asked for anyway.

    A record past the end counts only up to the end that the plan knows: what was written between the two look-ups is
    not in its range.

    :param newest: the newest timestamps, asked before the ends of the logs.
    :param end_times: the first offset at or after the window's end; absent where there is none.
    """
    return {
        tp: Arrived(
            newest.get(tp),
            newest.get(tp, -1) >= ends_ms[tp] or (tp in end_times and end_times[tp] <= snapshot.end_offset),
            snapshot.end_offset < snapshot.high_watermark,
        )
        for tp, snapshot in snapshots.items()
    }


@dataclass(frozen=True, slots=True)
class Completeness:
    """Whether a window is complete, and why.

    :ivar waiting: the partitions that are waited for, sorted, each with the reason.
    :ivar idle: those that are not waited for because nothing comes.
    :ivar low_watermark_ms: how far all partitions have come that are not idle: the lowest of their newest timestamps,
        where a partition that the broker stamps has come as far as the end once the clock has. ``None`` where one of
        them has no record yet, or all are idle. Of a complete window it is never below the end.
    """

    end_ms: int
    newest: Mapping[TopicPartition, int]
    waiting: Mapping[TopicPartition, str] = field(default_factory=dict)
    idle: tuple[TopicPartition, ...] = ()
    low_watermark_ms: int | None = None

    @property
    def complete(self) -> bool:
        return not self.waiting

    def __str__(self) -> str:
        if self.complete:
            idle = f", {len(self.idle)} idle" if self.idle else ""
            return f"complete up to {iso(self.end_ms)}{idle}"
        shown = first_few([f"{tp}: {reason}" for tp, reason in self.waiting.items()], _SHOWN, between="; ")
        return f"{len(self.waiting)} partitions may still get records before {iso(self.end_ms)}: {shown}"


def judge(
    end_ms: int,
    arrived: Mapping[TopicPartition, Arrived],
    *,
    now_ms: int,
    idle_timeout_ms: int = DEFAULT_IDLE_TIMEOUT_MS,
    append_time_topics: Collection[str] = (),
    clock_skew_ms: int = DEFAULT_CLOCK_SKEW_MS,
    moved_ms: Mapping[TopicPartition, int] | None = None,
    by_topic: Mapping[str, int] | None = None,
) -> Completeness:
    """The verdict on the window that ends, exclusively, at ``end_ms``.

    :param now_ms: this machine's clock.
    :param append_time_topics: the topics whose records the broker stamps.
    :param clock_skew_ms: how far the brokers' clocks may be behind this machine's.
    :param by_topic: the ends of topics and partitions that have one of their own, as of :class:`AtTimestamp`.
    :param moved_ms: when each partition's newest timestamp was last seen to move, as far as anybody watched.
    """
    waiting: dict[TopicPartition, str] = {}
    idle: list[TopicPartition] = []
    come_to: list[int | None] = []
    for tp in sorted(arrived):
        found, stamped = arrived[tp], tp.topic in append_time_topics
        end = time_of(tp, by_topic or {}, end_ms)
        if found.past_end:
            come_to.append(end if found.newest_ms is None else max(end, found.newest_ms))
        elif found.undecided:
            waiting[tp] = "records of an open transaction are not decided yet"
            come_to.append(found.newest_ms)
        elif stamped and now_ms >= end + clock_skew_ms:
            come_to.append(end)
        elif now_ms >= max(end, (moved_ms or {}).get(tp, end)) + idle_timeout_ms:
            idle.append(tp)
        else:
            newest = (
                "it has no record" if found.newest_ms is None else f"its newest record is of {iso(found.newest_ms)}"
            )
            waiting[tp] = f"{newest}, and the clock has not passed the end" if stamped else newest
            come_to.append(found.newest_ms)
    known = [moment for moment in come_to if moment is not None]
    return Completeness(
        end_ms,
        {tp: found.newest_ms for tp, found in sorted(arrived.items()) if found.newest_ms is not None},
        waiting,
        tuple(idle),
        min(known) if known and len(known) == len(come_to) else None,
    )


def moves(
    before: Mapping[TopicPartition, Arrived],
    now: Mapping[TopicPartition, Arrived],
    moved_ms: Mapping[TopicPartition, int],
    now_ms: int,
) -> dict[TopicPartition, int]:
    """When each partition was last seen to move, after another look. The first look has seen nothing move."""
    fresh = {tp: now_ms for tp, found in now.items() if tp in before and found.newest_ms != before[tp].newest_ms}
    return {**moved_ms, **fresh}


# ── a window and those beside it ──────────────────────────────────────────────────────────────────────────────────────
# For one state of the log adjacent windows join. But each is planned at a time of its own:
#
# - The window before found no record at or past the boundary, and ended with the log. Records before the boundary that
#   came after that, in front of the first one past it, are in neither window: they are *late*, and counted as offsets.
#   (Records that came later still lie behind that one, in the next window's range, and are read there.)
# - It ended at a record past the boundary, which is gone since. The first one past it is another then: the next window
#   begins all the same where the one before ended, and ends where any one after begins: adjacent or not, and also if it
#   reads nothing. Then a record behind it says so; else it was planned at the end of its log.
# - It ended before the log begins now: what lay between is *lost*. A time says nothing of what is gone.


def joined(window: Draft, before: Plan | None, after: Plan | None = None, *, first: bool = False) -> Draft:
    """``window`` as it joins the ones before and after it, which are planned, with what is late; of one that does not
    end in time where the other starts, of another cluster or a topic that was made anew, nothing counts.

    :param first: whether nothing was planned of it: then what is gone was never read, and is counted as lost. Only
        where it starts with the log: behind an earlier record, what is gone came too late for the other.
    """
    ended = _ends_of(before, window) if before else {}
    left = {p.topic_partition for p in before.partitions if p.past_end} if before else set()
    begins = {p.topic_partition: p.start_offset for p in after.partitions if p.size or p.past_end} if after else {}
    begins = {tp: begins[tp] for tp in begins.keys() & _ends_of(window, after, apart=True)} if after else {}

    def fit(p: PlannedPartition) -> PlannedPartition:
        tp, log_start, why, until = p.topic_partition, p.log_start_offset or 0, p.start_reason, p.end_reason
        start = min(p.start_offset, max(ended[tp], log_start)) if tp in ended and tp in left else p.start_offset
        if start < p.start_offset:
            why = f"{why} → where the window before ended"
        end = min(p.end_offset, max(begins.get(tp, p.end_offset), log_start))
        if end < p.end_offset:
            until = f"{until} → where the next window begins"
        start = min(start, end)
        gone = max(0, start - ended.get(tp, start)) if first and start == p.log_start_offset else 0
        return replace(
            p,
            range=OffsetRange(start, end),
            start_reason=f"{why} → log start, {gone} lost" if gone else why,
            end_reason=until,
            position=start,
            lost=p.lost + gone,
            late=max(0, start - max(ended.get(tp, start), log_start)),
            past_end=p.past_end if end == p.end_offset else (p.past_end or 0) + p.end_offset - end,
        )

    found = replace(window, partitions=tuple(map(fit, window.partitions)))
    late = {p.topic_partition: p.late for p in found.partitions if p.late}
    if not before or not late:
        return found
    return found.with_warnings(
        [
            f"{sum(late.values())} offsets came too late for the window before this one, of run {before.by.run}: "
            f"{_first(late)}. They lie before this window and are read by neither. Plan that run anew (re_plan) if it "
            "has not committed; give late records more time (idle_timeout); or go by position: "
            "startup_mode='group-offsets' with bounded_mode='timestamp'."
        ]
    )


def _ends_of(previous: Draft, following: Draft, *, apart: bool = False) -> dict[TopicPartition, int]:
    """Where the window before ended, of the partitions whose log is the same; nothing where the two do not join.

    :param apart: whether others may lie between the two.
    """
    before, after = previous.asked, following.asked
    if not before.window_bounds or not after.window_bounds:
        return {}
    if before.window_bounds_by_topic or after.window_bounds_by_topic:
        return {}  # the bounds are those around all topics
    if not apart and before.window_bounds[1] != after.window_bounds[0]:
        return {}
    ends = {p.topic_partition: p.end_offset for p in previous.partitions}
    return in_same_logs(ends, previous.found, following.found)


def may_be_lost(
    previous: Plan | None,
    following: Draft,
    since: AtTimestamp,
    settings: Mapping[str, TopicSettings],
    now_ms: int,
) -> list[TopicPartition]:
    """The partitions that start with their logs, where retention may have passed the time, and nobody knows.

    :param previous: the window before, if there is one: where it ended, it is known what is lost.
    :param since: what was asked for.
    """
    known = _ends_of(previous, following) if previous else {}
    return [
        p.topic_partition
        for p in following.partitions
        if p.topic_partition not in known
        and p.start_offset == p.log_start_offset
        and p.start_offset > 0
        and _may_have_come_to(since.of(p.topic_partition), settings.get(p.topic_partition.topic), now_ms)
    ]


def _may_have_come_to(moment_ms: int, settings: TopicSettings | None, now_ms: int) -> bool:
    if settings is None or settings.retention_bytes is not None:
        return True
    return settings.retention_ms is not None and moment_ms + settings.retention_ms <= now_ms


def may_lack(partitions: Sequence[TopicPartition]) -> str:
    """The warning of a start by time that retention may have passed."""
    return (
        "Kafka may have deleted records of the times that are asked for, and nobody can say how many: "
        f"{first_few([*map(str, partitions)], _SHOWN_LATE, 'partitions')} starts with its log, and retention may have "
        "come so far."
    )


def not_planned(ended_ms: int, start_ms: int) -> str:
    """The warning of a window that does not begin where the last one before it ended."""
    return (
        f"No run has planned a window for {iso(ended_ms)} to {iso(start_ms)} yet: the last window before this one ends "
        "there, and what lies between is in no output. Where no run will come (a pause without catchup, a schedule "
        "whose intervals do not join), make one for that time: airflow backfill create, or a run with these times."
    )


def offsets_beside(plan: Draft, now: Draft) -> dict[TopicPartition, int]:
    """How many offsets of each partition the window's times give now and ``plan`` lacks; those with none are absent."""
    had = in_same_logs({p.topic_partition: p for p in plan.partitions}, plan.found, now.found)
    missed: dict[TopicPartition, int] = {}
    for p in now.partitions:
        old = had.get(p.topic_partition)
        both = min(p.end_offset, old.end_offset) - max(p.start_offset, old.start_offset) if old else 0
        if p.range.size > max(0, both):
            missed[p.topic_partition] = p.range.size - max(0, both)
    return missed


def missed_by_window(missed: Mapping[TopicPartition, int]) -> str:
    """The warning of a window that is done as it was planned."""
    return (
        f"The same times would give {sum(missed.values())} more offsets now, which this run does not read: "
        f"{_first(missed)}. A topic was added, or records came late. To read them, trigger a run of this window with "
        'the conf {"kafka_offsets": {"re_plan": true}}.'
    )


def _first(counts: Mapping[TopicPartition, int]) -> str:
    return first_few([f"{tp} {count}" for tp, count in counts.items()], _SHOWN_LATE, "partitions")
