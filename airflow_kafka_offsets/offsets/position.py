"""Where a pipeline goes on: the offsets of its last successful run, from the marks that it left in the group.

Flink applies the startup mode once; from then on its state decides (F1). A commit that names a plan of this package is
such state, and the position of its partition. A commit by anybody else is none, nor is a mirrored window.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_offsets.offsets.commits import CommitMark
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.resolve import Position


def positions_in_group(committed: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, Position] | None:
    """The position of each partition that this package committed; ``None`` where there is not one such partition."""
    positions = {}
    for tp, commit in committed.items():
        mark = CommitMark.of(commit)
        if mark and not mark.window:
            positions[tp] = Position(commit.offset, f"committed by plan {mark.plan_id}", commit.leader_epoch)
    return positions or None
