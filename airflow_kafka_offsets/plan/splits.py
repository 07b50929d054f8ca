"""How much one run reads, and ranges → splits: which Spark job reads what when several jobs read one run.

The ranges of all splits are the plan's, each offset once. By ``flink`` a partition is in one split, whole. By ``size``
it is, too, unless it alone has more records than an even split: such a range is cut into contiguous pieces, at most one
for each split. So is a range of which a person leaves out a part. A plan lists what each of its splits reads, so
this is asked once for each plan.

Splits are numbered 0 … n-1 and may be empty; the others keep their numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from heapq import heapreplace
from typing import assert_never

from airflow_kafka_offsets.kafka_values import OffsetRange, TopicPartition
from airflow_kafka_offsets.plan.plan import PlannedPartition, Splits
from airflow_kafka_offsets.request.modes import SplitBy

LEAST_CUT = 10_000  # records; to start one more Spark job takes longer than to read them
FEW_RECORDS = 100_000  # to compile the code for so many, as Java and Spark do, takes longer than to run it


def split_ranges(partitions: Iterable[PlannedPartition], count: int, split_by: SplitBy) -> Splits:
    """``count`` splits; a piece of a range that was cut is the partition with another range."""
    to_read = [p for p in partitions if p.size]
    match split_by:
        case "flink":
            splits: list[list[PlannedPartition]] = [[] for _ in range(count)]
            for partition in to_read:
                splits[flink_owner(partition.topic_partition, count)].append(partition)
        case "size":
            splits = _balanced(to_read, count)
        case _ as never:
            assert_never(never)
    return tuple(tuple(sorted(split, key=lambda p: p.topic_partition)) for split in splits)


def one_range_each(splits: Iterable[Iterable[PlannedPartition]], kept: Collection[int] = ()) -> Splits:
    """The same pieces, no two of one partition in one split: Spark's options have one range for each.

    The first piece stays where it is. A further one goes to the split that has least, of those that may take it, and
    where there is none to a new one.

    :param kept: the splits that take nothing more.
    """
    placed: list[dict[TopicPartition, PlannedPartition]] = []
    further = []
    for split in splits:
        placed.append({})
        for piece in split:
            if placed[-1].setdefault(piece.topic_partition, piece) is not piece:
                further.append(piece)
    for piece in further:
        able = [one for n, one in enumerate(placed) if n not in kept and piece.topic_partition not in one]
        if not able:
            placed.append({})
            able = placed[-1:]
        min(able, key=lambda one: _load(one.values()))[piece.topic_partition] = piece
    return tuple(tuple(one[tp] for tp in sorted(one)) for one in placed)


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


def _balanced(partitions: Sequence[PlannedPartition], count: int) -> list[list[PlannedPartition]]:
    """Even splits: the largest range that fits goes to the split that has least; those that do not fit fill the rest.

    A range is cut only if it has more records than an even share, and more than ``LEAST_CUT``. The largest split has at
    most a third more than the best that is possible so (Graham's bound for the longest first).
    """
    most = max(-(-_load(partitions) // count), LEAST_CUT)
    splits: list[list[PlannedPartition]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    whole = [p for p in partitions if p.size <= most]
    for p in sorted(whole, key=lambda p: (-p.size, p.topic_partition)):
        load, number = loads[0]
        splits[number].append(p)
        heapreplace(loads, (load + p.size, number))
    _pour([p for p in partitions if p.size > most], splits, most)
    return splits


def _pour(large: Sequence[PlannedPartition], splits: list[list[PlannedPartition]], most: int) -> None:
    """Cut ranges where a split is full (McNaughton's rule), beginning with the split that has least."""
    level = max(most, *map(_load, splits))
    room = sorted(((level - _load(split), number) for number, split in enumerate(splits)), key=lambda r: (-r[0], r[1]))
    for p in large:
        start = p.start_offset
        while start < p.end_offset:
            left, number = room.pop(0)
            end = min(start + left, p.end_offset)
            if start < end:
                splits[number].append(p.within(start, end))
            if left > end - start:
                room.insert(0, (left - (end - start), number))
            start = end


def _load(split: Iterable[PlannedPartition]) -> int:
    return sum(p.size for p in split)


# ── caps: how much of a plan one run reads; the rest is the next run's ────────────────────────────────────────────────
# The cap of a run is shared fairly: small partitions are read whole, and what they leave over goes to the larger ones
# in equal parts. A cap below the number of partitions goes round: who gets nothing in one run is first in a later
# one, however busy the others are. Hudi's history shows what else happens: a limit below the number of partitions
# that reads nothing (HUDI-918), negative ranges under skew (HUDI-7506).


def cap(
    planned: Sequence[PlannedPartition], max_records: int | None, max_records_per_partition: int | None
) -> list[PlannedPartition]:
    """The same partitions with lower ends; starts never change. Offsets are counted, an upper bound of records."""
    sizes = [p.size for p in planned]
    if max_records_per_partition is not None:
        sizes = [min(size, max_records_per_partition) for size in sizes]
    if max_records is not None:
        # The starts move on by just what each run reads, so their sum says who gets one more next.
        sizes = fair_shares(sizes, max_records, sum(p.start_offset for p in planned))
    return [_shortened(p, size) for p, size in zip(planned, sizes, strict=True)]


def carried_over(whole: Sequence[PlannedPartition], capped: Sequence[PlannedPartition]) -> dict[TopicPartition, int]:
    """How many offsets the caps leave of each partition; those that are read whole are absent."""
    pairs = zip(whole, capped, strict=True)
    return {p.topic_partition: p.end_offset - q.end_offset for p, q in pairs if p.end_offset > q.end_offset}


def fair_shares(wanted: Sequence[int], total: int, first: int = 0) -> list[int]:
    """Shares of ``total``, none above what is wanted, as equal as that allows.

    :param first: where those begin, round the list, who get one of what cannot be divided.
    """
    shares = [0] * len(wanted)
    left = total
    hungry = [index for index, want in enumerate(wanted) if want]
    while hungry and left >= len(hungry):
        equal = left // len(hungry)
        for index in hungry:
            more = min(equal, wanted[index] - shares[index])
            shares[index] += more
            left -= more
        hungry = [index for index in hungry if shares[index] < wanted[index]]
    for index in sorted(hungry, key=lambda index: (index - first) % len(wanted))[:left]:
        shares[index] += 1
    return shares


def _shortened(partition: PlannedPartition, size: int) -> PlannedPartition:
    carried = partition.size - size
    if not carried:
        return partition
    return replace(
        partition,
        range=OffsetRange(partition.start_offset, partition.start_offset + size),
        end_reason=f"{partition.end_reason}, capped: {carried} carried over",
        past_end=(partition.past_end or 0) + carried,
    )
