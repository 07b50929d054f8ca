"""Plan → splits: which Spark job reads which partitions when one run is read by several jobs.

Every partition is in exactly one split, whole. Splits are numbered 0 … n-1 and may be empty; the others keep their
numbers, so that each always overwrites its own output and no other's.
"""

from __future__ import annotations

from typing import assert_never

from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan, PlannedPartition


def split_plan(plan: OffsetPlan) -> list[list[PlannedPartition]]:
    """``plan.splits`` lists of the partitions that have something to read, each sorted by topic and partition."""
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
    """Largest first, each to the split that has least: at most 4/3 of the best possible (Graham 1969)."""
    splits: list[list[PlannedPartition]] = [[] for _ in range(count)]
    loads = [0] * count
    for partition in sorted(partitions, key=lambda p: (-p.range.size, p.topic_partition)):
        lightest = min(range(count), key=lambda i: (loads[i], i))
        splits[lightest].append(partition)
        loads[lightest] += partition.range.size
    return [sorted(split, key=lambda p: p.topic_partition) for split in splits]
