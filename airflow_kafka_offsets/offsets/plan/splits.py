"""Plan → splits: which Spark job reads which ranges when one run is read by several jobs.

The ranges of all splits are the plan's, each offset once. By ``flink`` a partition is in one split, whole. By ``size``
it is, too, unless it alone has more records than an even split: such a range is cut into contiguous pieces, at most one
for each split. The plan and a split's number say what is read, whoever asks: a retry or a clear reads the same pieces.
A plan on record has the name of its rule only. So what a rule does never changes; another one gets another name.

Splits are numbered 0 … n-1 and may be empty; the others keep their numbers, so that each always overwrites its own
output and no other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from airflow_kafka_offsets.offsets.model import OffsetRange, TopicPartition
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan, PlannedPartition

LEAST_CUT = 10_000  # records; to start one more Spark job takes longer than to read them
_SEARCHED = 200  # ranges; more of them than that level out by themselves
_STEPS = 20_000  # of the search: a tenth of a second
_GOOD = 1.02  # of the least that is possible at all: not searched further


def split_plan(plan: OffsetPlan) -> list[list[PlannedPartition]]:
    """``plan.splits`` lists of what each split reads, sorted by topic and partition; a partition is in a list once.

    A piece of a range that was cut is the partition with another range; what is ``lost`` or ``skipped`` is the plan's.
    """
    match plan.split_by:
        case "flink":
            splits: list[list[PlannedPartition]] = [[] for _ in range(plan.splits)]
            for partition in plan.to_read():
                splits[flink_owner(partition.topic_partition, plan.splits)].append(partition)
            return splits
        case "size":
            return _balanced(plan.to_read(), plan.splits)
        case _ as never:
            assert_never(never)


def splits_with_records(plan: OffsetPlan) -> set[int]:
    return {number for number, partitions in enumerate(split_plan(plan)) if partitions}


def splits_to_start(plan: OffsetPlan) -> list[int]:
    """The numbers of the splits that a Spark job is started for: those with something to read, or to overwrite."""
    return sorted({*splits_with_records(plan), *plan.overwrites})


def flink_owner(tp: TopicPartition, parallelism: int) -> int:
    """Flink's ``KafkaTopicPartitionAssigner.assign``: a topic's partitions go round robin from a start of its own.

    :raises ValueError: ``parallelism`` is not positive (H4).
    """
    if parallelism < 1:
        raise ValueError(f"parallelism {parallelism} is not positive")
    start_index = ((java_string_hash(tp.topic) * 31) & 0x7FFFFFFF) % parallelism
    return (start_index + tp.partition) % parallelism


def java_string_hash(text: str) -> int:
    """Java's ``String.hashCode``: over UTF-16 code units, in 32 bits that wrap, unsigned."""
    units = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (result * 31 + (high << 8 | low)) & 0xFFFFFFFF
    return result


def _balanced(partitions: list[PlannedPartition], count: int) -> list[list[PlannedPartition]]:
    """Even splits: the ranges that fit into a split are put together, those that do not fill what is left.

    A range is cut only if it has more records than an even share, and more than ``LEAST_CUT``. The largest split is at
    most 5 % above the best that is possible so, for skews as they occur (Zipf's law).
    """
    share = -(-_load(partitions) // count)
    most = max(share, LEAST_CUT)
    whole = [p for p in partitions if p.range.size <= most]
    splits = _packed(sorted(whole, key=lambda p: (-p.range.size, p.topic_partition)), count, share)
    _pour([p for p in partitions if p.range.size > most], splits, most)
    return [sorted(split, key=lambda p: p.topic_partition) for split in splits]


def _pour(large: list[PlannedPartition], splits: list[list[PlannedPartition]], most: int) -> None:
    """Cut ranges where a split is full (McNaughton's rule), beginning with the split that has least."""
    level = max(most, *map(_load, splits))
    room = sorted(((level - _load(split), number) for number, split in enumerate(splits)), key=lambda r: (-r[0], r[1]))
    for p in large:
        start = p.start_offset
        while start < p.end_offset:
            left, number = room.pop(0)
            end = min(start + left, p.end_offset)
            if start < end:
                splits[number].append(replace(p, range=OffsetRange(start, end)))
            if left > end - start:
                room.insert(0, (left - (end - start), number))
            start = end


def _packed(largest_first: Sequence[PlannedPartition], count: int, share: int) -> list[list[PlannedPartition]]:
    """Each to the split that has least; where that is not even enough, the best that a search of some steps finds."""
    loads = [0] * count
    found: list[int] = []
    for p in largest_first:
        lightest = min(range(count), key=lambda i: (loads[i], i))
        loads[lightest] += p.range.size
        found.append(lightest)
    if len(largest_first) <= _SEARCHED and max(loads) > share * _GOOD:
        found = _searched([p.range.size for p in largest_first], found, max(loads), count, share)
    splits: list[list[PlannedPartition]] = [[] for _ in range(count)]
    for p, number in zip(largest_first, found, strict=True):
        splits[number].append(p)
    return splits


def _searched(sizes: list[int], found: list[int], top: int, count: int, share: int) -> list[int]:
    """Branch and bound over which split gets each range; equal splits are tried once.

    :param found: the split of each, a first solution, whose largest has ``top``.
    """
    loads, chosen, steps = [0] * count, [0] * len(sizes), _STEPS

    def descend(depth: int, highest: int) -> None:
        nonlocal found, top, steps
        if depth == len(sizes):
            found, top = list(chosen), highest
            return
        tried = set()
        for number in sorted(range(count), key=loads.__getitem__):
            before = loads[number]
            load = before + sizes[depth]
            if load >= top or steps == 0 or top <= share * _GOOD:
                return
            if before in tried:
                continue
            tried.add(before)
            steps -= 1
            chosen[depth], loads[number] = number, load
            descend(depth + 1, max(highest, load))
            loads[number] = before

    descend(0, 0)
    return found


def _load(split: list[PlannedPartition]) -> int:
    return sum(p.range.size for p in split)
