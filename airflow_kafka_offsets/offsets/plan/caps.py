"""``max_records`` and ``max_records_per_partition``: how much of a plan one run reads; the rest is the next run's.

The cap of a run is shared fairly: small partitions are read whole, and what they leave over goes to the larger ones in
equal parts. Hudi's history shows what else happens: a limit below the number of partitions that reads nothing
(HUDI-918), negative ranges under skew (HUDI-7506).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_kafka_offsets.offsets.model import OffsetRange
from airflow_kafka_offsets.offsets.plan.plan import PlannedPartition


def cap(
    planned: Sequence[PlannedPartition], max_records: int | None, max_records_per_partition: int | None
) -> list[PlannedPartition]:
    """The same partitions with lower ends; starts never change. Offsets are counted, an upper bound of records."""
    sizes = [p.range.size for p in planned]
    if max_records_per_partition is not None:
        sizes = [min(size, max_records_per_partition) for size in sizes]
    if max_records is not None:
        sizes = fair_shares(sizes, max_records)
    return [_shortened(p, size) for p, size in zip(planned, sizes, strict=True)]


def fair_shares(wanted: Sequence[int], total: int) -> list[int]:
    """Shares of ``total``, none above what is wanted, as equal as that allows; the larger ones get the remainder.

    So that with a total below the number of partitions a small busy partition does not starve a large one.
    """
    shares = [0] * len(wanted)
    left = total
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    for position, index in enumerate(order):
        waiting = len(order) - position
        shares[index] = min(wanted[index], left // waiting)
        left -= shares[index]
    return shares


def _shortened(partition: PlannedPartition, size: int) -> PlannedPartition:
    carried = partition.range.size - size
    if not carried:
        return partition
    return replace(
        partition,
        range=OffsetRange(partition.start_offset, partition.start_offset + size),
        end_reason=f"{partition.end_reason}, capped: {carried} carried over",
    )
