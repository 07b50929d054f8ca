"""``max_records`` and ``max_records_per_partition``: how much of a plan one run reads; the rest is the next run's.

The cap of a run is shared fairly: small partitions are read whole, and what they leave over goes to the larger ones in
equal parts. A cap below the number of partitions goes round: who gets nothing in one run is first in a later one,
however busy the others are. Hudi's history shows what else happens: a limit below the number of partitions that reads
nothing (HUDI-918), negative ranges under skew (HUDI-7506).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_kafka_offsets.kafka_values import OffsetRange, TopicPartition
from airflow_kafka_offsets.plan.plan import PlannedPartition


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
