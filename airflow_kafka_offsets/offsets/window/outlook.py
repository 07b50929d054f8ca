"""Estimates what a window would read, by where its two ends lie in the logs, and what retention has deleted of it.

Retention leaves no trace of what it took, only a log start above 0. What can be told of a partition's window then:

- The oldest record that is left lies at or past the window's end: all that the window ever had there is *gone*. That it
  had nothing cannot be excluded.
- The window starts at or before that oldest record, and ends after it: *perhaps gone* in part. So it is of an empty
  log, whose oldest record nobody knows.
- Otherwise a record from before the window is left, and so is the window: Kafka deletes from the front. (By segments:
  where timestamps are far out of order, a record of the window may have lain in front of an older one.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.offsets.model import PartitionSnapshot, TopicPartition


@dataclass(frozen=True, slots=True)
class WindowOutlook:
    """One window ``[start_ms, end_ms)`` over all partitions.

    :ivar records: by topic, how many records there can be; compaction and transaction markers make it fewer.
    :ivar complete: whether no more records are expected, by the rule of ``complete.py``.
    :ivar gone: partitions of which retention has taken the whole window.
    :ivar perhaps_gone: partitions of which it may have taken some.
    """

    start_ms: int
    end_ms: int
    records: Mapping[str, int]
    complete: bool
    partition_count: int
    gone: tuple[TopicPartition, ...] = ()
    perhaps_gone: tuple[TopicPartition, ...] = ()

    @property
    def record_count_upper_bound(self) -> int:
        return sum(self.records.values())

    @property
    def retention(self) -> str:
        """``kept``, ``perhaps partly gone``, ``partly gone`` or ``gone``."""
        if self.gone:
            return "gone" if len(self.gone) == self.partition_count else "partly gone"
        return "perhaps partly gone" if self.perhaps_gone else "kept"


@dataclass(frozen=True, slots=True)
class Boundary:
    """One moment in all logs.

    :ivar offsets: of every partition, the first record at or after it, or the log's end.
    :ivar found: the partitions that have such a record.
    """

    moment_ms: int
    offsets: Mapping[TopicPartition, int]
    found: frozenset[TopicPartition]


def look_out(
    snapshots: Mapping[TopicPartition, PartitionSnapshot], start: Boundary, end: Boundary, complete: bool
) -> WindowOutlook:
    """The window between two boundaries. One that shares a boundary with another shares no record with it."""
    records: dict[str, int] = {}
    gone, perhaps = [], []
    for tp, log in snapshots.items():
        first, past = start.offsets[tp], end.offsets[tp]
        records[tp.topic] = records.get(tp.topic, 0) + past - first
        if not log.log_start_offset or first > log.log_start_offset:
            continue
        if past <= log.log_start_offset and tp in end.found:
            gone.append(tp)
        else:
            perhaps.append(tp)
    return WindowOutlook(
        start.moment_ms,
        end.moment_ms,
        records,
        complete,
        len(snapshots),
        tuple(sorted(gone)),
        tuple(sorted(perhaps)),
    )
