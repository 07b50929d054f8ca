"""Whether logs were cut below an offset and have grown past it again, with others: an unclean leader election."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from airflow_kafka_offsets.broker.protocol import OffsetReader
from airflow_kafka_offsets.offsets.model import TopicPartition


class At(Protocol):
    """An offset, and the newest leader epoch of when it was taken from the log."""

    @property
    def offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int | None: ...


def look_for_cuts(cluster: OffsetReader, known: Mapping[TopicPartition, At]) -> dict[TopicPartition, int]:
    """The first offset from which on the log is another one now; absent where it is the same up to the known offset.

    :param known: with epochs, of partitions that have had another leader since; where there is none, nobody is asked.
    """
    epochs = {tp: at.leader_epoch for tp, at in known.items() if at.leader_epoch is not None}
    ends = cluster.ends_of_epochs(epochs) if epochs else {}
    return {tp: end for tp, end in ends.items() if end < known[tp].offset}
