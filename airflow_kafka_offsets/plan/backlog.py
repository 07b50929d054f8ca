"""What a cap leaves to later runs: about how many they are, and what retention may delete before they come.

An estimate, for people: nothing is decided by it, and it is no part of a plan's id. It takes for granted that nothing
new arrives, that runs come at the pace of now, and that each reads an equal part of what is left. Kafka deletes whole
segments, and not at once, so retention takes what is said here at the earliest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.errors import counted
from airflow_kafka_offsets.kafka_values import TopicPartition


@dataclass(frozen=True, slots=True)
class Backlog:
    """
    :ivar carried_over: offsets that the cap left.
    :ivar more_runs: about so many more runs read them.
    :ivar expiring: about so many of them may be older than ``retention.ms`` before they are read; ``None`` where that
        is not known.
    :ivar because: what ``expiring`` stands on, or why it is not known: a phrase.
    """

    carried_over: int
    more_runs: int
    expiring: int | None
    because: str

    def __str__(self) -> str:
        records, runs = counted(self.carried_over, "record"), counted(self.more_runs, "more run")
        left = f"the cap left {records}, which {'takes' if self.carried_over == 1 else 'take'} about {runs}"
        if self.expiring is None:
            fate = f"whether retention deletes some of them before is not known: {self.because}"
        elif self.expiring:
            fate = f"retention may delete about {counted(self.expiring, 'record')} of them before ({self.because})"
        else:
            fate = f"retention deletes none of them before ({self.because})"
        return f"{left} if nothing new arrives; {fate}"


def more_runs(carried: Mapping[TopicPartition, int], most: int | None, most_per_partition: int | None) -> int:
    """How many runs under the same caps read what is left; the tighter cap decides."""
    by_all = -(-sum(carried.values()) // most) if most else 0
    by_one = max((-(-left // most_per_partition) for left in carried.values()), default=0) if most_per_partition else 0
    return max(by_all, by_one)


def expiring(
    end_offset: int, size: int, young_at_next: int | None, last: int, young_at_last: int | None, runs: int
) -> int:
    """How many offsets of a partition are older than their retention when the run comes that would read them.

    Retention and the runs both move through the log. Who is ahead is looked at when the next run comes, and when the
    last one does or retention is through; in between, both are taken to move evenly.

    :param end_offset: where this plan ends; ``size`` offsets are left from there on.
    :param young_at_next: the first offset that retention leaves when the next run comes; ``None``: it leaves none.
    :param last: the run, counted from 1, that is the last one or the first that would find nothing left by retention.
    :param young_at_last: as ``young_at_next``, when that run comes.
    :param runs: how many read what is left.
    """

    def overtaken(young: int | None, read: int) -> int:
        old = size if young is None else min(young - end_offset, size)
        return max(0, old - read)

    return max(overtaken(young_at_next, 0), overtaken(young_at_last, size * (last - 1) // runs))
