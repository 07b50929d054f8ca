"""The position of a pipeline: of each partition the next offset to read, as the last commit left it.

It is the truth about where a run starts (Flink's F1: state beats every startup mode, and beats the group's commits).
A partition that a batch lacks keeps its offset, so that a broker's partition list that is short for a moment drops
nothing (F6, FLINK-6006). An empty position is a position: every partition is new then (F9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.json_columns import from_columns, text, text_or_none, to_columns, whole, whole_or_none
from airflow_kafka_offsets.kafka_values import TopicPartition, topics_made_anew
from airflow_kafka_offsets.plan.plan import Draft


@dataclass(frozen=True, slots=True)
class SavedOffset:
    """The next offset to read of one partition."""

    offset: int
    leader_epoch: int | None = None

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise ValueError(f"offset {self.offset} is negative")


@dataclass(frozen=True, slots=True)
class Position:
    """Where a pipeline goes on.

    :ivar cluster_id: of the cluster that the offsets are of.
    :ivar startup: the startup request that the pipeline began with, in words; ``""`` where only the group says it.
    :ivar restarts: every word that ``restart`` was applied with; none of them is applied a second time.
    :ivar topic_ids: of the topics that the offsets are of; ``None`` where the cluster has no ids.
    """

    cluster_id: str
    offsets: Mapping[TopicPartition, SavedOffset]
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)
    startup: str = ""
    restarts: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        rows = {tp: (saved.offset, saved.leader_epoch) for tp, saved in self.offsets.items()}
        topics = to_columns(("offset", "leader_epoch"), rows)
        return {
            "cluster_id": self.cluster_id,
            "startup": self.startup,
            "restarts": list(self.restarts),
            "topics": {topic: {"topic_id": self.topic_ids.get(topic), **columns} for topic, columns in topics.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Position:
        """:raises ValueError: it is no position."""
        try:
            topics = data["topics"]
            offsets = {
                tp: SavedOffset(whole(row["offset"]), whole_or_none(row["leader_epoch"]))
                for tp, row in from_columns(topics, ("offset", "leader_epoch"))
            }
            ids = {topic: text_or_none(columns.get("topic_id")) for topic, columns in topics.items()}
            restarts = tuple(map(text, data["restarts"]))
            return cls(text(data["cluster_id"]), offsets, ids, text(data["startup"]), restarts)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a position: {error!r}") from error


def position_after(plan: Draft, before: Position | None) -> Position:
    """The position once ``plan`` is committed, which went on from ``before``."""
    return _with(plan, before, {p.topic_partition: SavedOffset(p.end_offset, p.leader_epoch) for p in plan.partitions})


def position_within(plan: Draft, before: Position | None) -> Position:
    """The position that ``plan`` itself went on from, with all that the startup mode and people have decided for it.

    A batch that is planned anew goes on from here: what the startup mode has decided once is not decided again, else
    ``latest-offset`` would skip what has come since.
    """
    saved = {p.topic_partition: SavedOffset(p.position, p.position_epoch) for p in plan.partitions}
    return _with(plan, before, saved)


def _with(plan: Draft, before: Position | None, offsets: Mapping[TopicPartition, SavedOffset]) -> Position:
    same = before if before is not None and before.cluster_id == plan.found.cluster_id else None
    old_ids = same.topic_ids if same else {}
    # Offsets of a topic that was re-created belong to a log that is gone.
    recreated = topics_made_anew(old_ids, plan.found.topic_ids)
    inherited = {tp: saved for tp, saved in (same.offsets if same else {}).items() if tp.topic not in recreated}
    offsets = {**inherited, **offsets}
    topics = {tp.topic for tp in offsets}
    ids = {topic: topic_id for topic, topic_id in {**old_ids, **plan.found.topic_ids}.items() if topic in topics}
    startup = before.startup if before is not None and before.startup and not plan.restarted else plan.asked.startup
    return Position(plan.found.cluster_id, offsets, ids, startup, plan.restarts)
