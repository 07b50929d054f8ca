"""Asks Kafka what has arrived before and after a window's end; ``plan/completeness.py`` decides by it.

One batch question for the newest timestamps answers nearly every look. Only for a ``read_committed`` reader, and only
for partitions that it leaves open, is it asked whether a transaction is open there: the committed end first, so that
what is written in between makes a partition look undecided, and never the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.kafka_values import IsolationLevel, TopicPartition
from airflow_kafka_offsets.plan.completeness import Arrived


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
