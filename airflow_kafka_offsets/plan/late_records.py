"""Late records: offsets between two adjacent windows that neither of them reads.

For one state of the log adjacent windows join. But the window before was planned earlier: where it found no record at
or past the boundary, it ended with the log; records before the boundary that came after that, and in front of the first
one past it, are in neither window. They are counted here, as offsets, so that compaction and transaction markers make
the count an upper bound. Records that came later still, behind the first one past the boundary, are in the next
window's range and are read there (by their offset, with their own time): they are no loss, and offsets alone cannot
count them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_kafka_offsets.kafka_values import TopicPartition, is_another_log
from airflow_kafka_offsets.plan.plan import Draft, Plan
from airflow_kafka_offsets.plan.plan_table import first_few

_SHOWN = 10


def late_between(previous: Plan, following: Draft) -> dict[TopicPartition, int]:
    """How many offsets of each partition lie between the two windows and are still there; those with none are absent.

    Nothing where the one does not end in time where the other starts, or where a topic was made anew.
    """
    before, after = previous.asked, following.asked
    if not before.window_bounds or not after.window_bounds or previous.found.cluster_id != following.found.cluster_id:
        return {}
    if before.window_bounds_by_topic or after.window_bounds_by_topic:
        return {}  # the bounds are those around all topics
    if before.window_bounds[1] != after.window_bounds[0]:
        return {}
    ends = {p.topic_partition: p.end_offset for p in previous.partitions}
    late: dict[TopicPartition, int] = {}
    for p in following.partitions:
        tp = p.topic_partition
        if tp not in ends or not _is_same_log(tp, previous, following):
            continue
        between = p.start_offset - max(ends[tp], p.log_start_offset or 0)
        if between > 0:
            late[tp] = between
    return late


def count_late(previous: Plan, following: Draft) -> Draft:
    """``following`` with what came too late for the window before it: a number for each partition, and a warning."""
    late = late_between(previous, following)
    if not late:
        return following
    partitions = tuple(replace(p, late=late.get(p.topic_partition, 0)) for p in following.partitions)
    warning = (
        f"{sum(late.values())} offsets came too late for the window before this one, of run {previous.by.run}: "
        f"{_first(late)}. They lie before this window and are read by neither. Plan that run anew (re_plan) if it has "
        "not committed; give late records more time (idle_timeout); or go by position: startup_mode='group-offsets' "
        "with bounded_mode='timestamp'."
    )
    return replace(following, partitions=partitions).with_warnings([warning])


def offsets_beside(plan: Draft, now: Draft) -> dict[TopicPartition, int]:
    """How many offsets of each partition the window's times give now and ``plan`` lacks; those with none are absent."""
    had = {p.topic_partition: p for p in plan.partitions if _is_same_log(p.topic_partition, plan, now)}
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
    return first_few([f"{tp} {count}" for tp, count in counts.items()], _SHOWN, "partitions")


def _is_same_log(tp: TopicPartition, plan: Draft, other: Draft) -> bool:
    return not is_another_log(plan.found.topic_ids.get(tp.topic), other.found.topic_ids.get(tp.topic))
