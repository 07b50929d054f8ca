"""What has arrived before and past a window's end: the questions behind :mod:`airflow_kafka_offsets.offsets.complete`.

One batch question for the newest timestamps answers nearly every look. Only for a ``read_committed`` reader, and only
for partitions that it leaves open, is it asked whether a transaction is open there: the committed end first, so that
what is written in between makes a partition look undecided, and never the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.offsets.complete import Arrived
from airflow_kafka_offsets.offsets.model import IsolationLevel, PartitionSnapshot, TopicPartition


def look_for_arrivals(
    cluster: OffsetReader, ends_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
) -> dict[TopicPartition, Arrived]:
    """What a look at the cluster says of each partition, for a window that ends there at that time.

    :raises ClusterUnavailable: a partition has no answer.
    """
    newest = cluster.newest_timestamps(ends_ms, isolation_level)
    open_ended = [tp for tp, end_ms in ends_ms.items() if newest.get(tp, -1) < end_ms]
    undecided: set[TopicPartition] = set()
    past_end: Mapping[TopicPartition, int] = {}
    if open_ended and isolation_level == "read_committed":
        committed = cluster.end_offsets(open_ended, "read_committed")
        high_watermarks = cluster.end_offsets(open_ended, "read_uncommitted")
        undecided = {tp for tp in open_ended if committed[tp].offset < high_watermarks[tp].offset}
        past_end = (
            cluster.offsets_for_times({tp: ends_ms[tp] for tp in undecided}, isolation_level) if undecided else {}
        )
    return {
        tp: Arrived(newest.get(tp), newest.get(tp, -1) >= end_ms or tp in past_end, tp in undecided)
        for tp, end_ms in ends_ms.items()
    }


def arrivals_of_plan(
    newest: Mapping[TopicPartition, int],
    ends_ms: Mapping[TopicPartition, int],
    snapshots: Mapping[TopicPartition, PartitionSnapshot],
    end_times: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Arrived]:
    """The same from what a plan has asked anyway. ``newest`` must have been asked before the ends of the logs.

    A record past the end counts only up to the end that the plan knows: what was written between the two look-ups is
    not in its range.
    """
    return {
        tp: Arrived(
            newest.get(tp),
            newest.get(tp, -1) >= ends_ms[tp] or (tp in end_times and end_times[tp] <= snapshot.end_offset),
            snapshot.end_offset < snapshot.high_watermark,
        )
        for tp, snapshot in snapshots.items()
    }
