"""The checkpoint: the offsets after a pipeline's last success, kept apart from the group.

Flink's rule (F1): state beats every startup mode, and beats commits. Checkpoints form a chain, each naming its parent;
the newest valid one counts. What must stay true (DESIGN, Position and The checkpoint):

- with the first plan a checkpoint is written that holds its starts, so that the next run goes on from there if this one
  fails; otherwise ``latest-offset`` would skip what came in between;
- a partition that a plan lacks keeps its offset in the next checkpoint: a broker's partition list that is short for a
  moment drops nothing (F6, FLINK-6006);
- an empty checkpoint is a checkpoint: every partition is new then (F9).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.spec import PlanRequest

VERSION = 1


@dataclass(frozen=True, slots=True)
class KeptOffset:
    """Of one partition: the next offset to read, and what the group held when the checkpoint was written."""

    offset: int
    group_offset: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One link of the chain.

    :ivar sequence: its parent's plus one; the first has 0.
    :ivar plan_id: the plan whose ends it holds; ``None`` where it holds the starts of a plan (nothing read).
    :ivar startup: the startup request that began this chain, in words.
    :ivar restart: the word of the last ``restart`` that was applied.
    :ivar subscription: what the plan subscribed to, in words: a field, so that a changed one finds its checkpoint.
    """

    sequence: int
    parent: str | None
    checkpoint_id: str
    cluster_id: str
    group_id: str | None
    plan_id: str | None
    run: str | None
    startup: str
    subscription: str
    topic_ids: Mapping[str, str | None]
    offsets: Mapping[TopicPartition, KeptOffset]
    restart: str | None = None
    id: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        body = json.dumps(self._fields(), separators=(",", ":"))
        object.__setattr__(self, "id", hashlib.sha256(body.encode()).hexdigest()[:32])

    @property
    def writer(self) -> str:
        """Who wrote it, in words: only ``unblock`` moves a position by a plan that is no run's."""
        return f"run {self.run}" if self.run else f"kafka-offsets unblock (plan {self.plan_id})"

    def to_dict(self) -> dict[str, Any]:
        return {"version": VERSION, "id": self.id, **self._fields()}

    def _fields(self) -> dict[str, Any]:
        topics: dict[str, dict[str, Any]] = {}
        for topic in sorted({*self.topic_ids, *(tp.topic for tp in self.offsets)}):
            topics[topic] = {
                "topic_id": self.topic_ids.get(topic),
                "partition": [],
                "offset": [],
                "group_offset": [],
                "leader_epoch": [],
            }
        for tp in sorted(self.offsets):
            kept, columns = self.offsets[tp], topics[tp.topic]
            columns["partition"].append(tp.partition)
            columns["offset"].append(kept.offset)
            columns["group_offset"].append(kept.group_offset)
            columns["leader_epoch"].append(kept.leader_epoch)
        return {
            "sequence": self.sequence,
            "parent": self.parent,
            "checkpoint_id": self.checkpoint_id,
            "cluster_id": self.cluster_id,
            "group_id": self.group_id,
            "plan_id": self.plan_id,
            "run": self.run,
            "startup": self.startup,
            "restart": self.restart,
            "subscription": self.subscription,
            "topics": topics,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Checkpoint:
        """:raises ValueError: another version, or not what was written under this id."""
        if data.get("version") != VERSION:
            raise ValueError(f"checkpoint version {data.get('version')!r} is not known to this version of the package")
        try:
            kept = {
                TopicPartition(topic, number): KeptOffset(offset, group_offset, epoch)
                for topic, columns in data["topics"].items()
                for number, offset, group_offset, epoch in zip(
                    columns["partition"],
                    columns["offset"],
                    columns["group_offset"],
                    columns["leader_epoch"],
                    strict=True,
                )
            }
            names = (
                "sequence",
                "parent",
                "checkpoint_id",
                "cluster_id",
                "group_id",
                "plan_id",
                "run",
                "startup",
                "restart",
                "subscription",
            )
            checkpoint = cls(
                **{name: data[name] for name in names},
                topic_ids={topic: columns["topic_id"] for topic, columns in data["topics"].items()},
                offsets=kept,
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a checkpoint: {error!r}") from error
        if checkpoint.id != data.get("id"):
            raise ValueError(f"the checkpoint's id is {data.get('id')}, but its contents digest to {checkpoint.id}")
        return checkpoint


def checkpoint_of_starts(
    request: PlanRequest,
    plan: OffsetPlan,
    committed: Mapping[TopicPartition, CommittedOffset],
    parent: Checkpoint | None,
) -> Checkpoint:
    """What the startup mode decided, kept before anything is read: the plan's starts, and the group as it is seen."""
    kept = {
        p.topic_partition: KeptOffset(p.start_offset, _offset(committed.get(p.topic_partition)), p.leader_epoch)
        for p in plan.partitions
    }
    words = applied_restarts(parent)
    if request.restart is not None and request.restart not in words:
        words = (*words, request.restart)
    return _next(parent, plan, kept, request.startup_words, "\n".join(words) or None)


def applied_restarts(checkpoint: Checkpoint | None) -> tuple[str, ...]:
    """Every word that ``restart`` was ever applied with: none of them applies a second time."""
    return tuple(checkpoint.restart.split("\n")) if checkpoint and checkpoint.restart else ()


def checkpoint_after(
    plan: OffsetPlan, parent: Checkpoint, group_now: Mapping[TopicPartition, int | None]
) -> Checkpoint:
    """The plan's ends, after its commit.

    :param group_now: what the group holds for the plan's partitions: their ends, unless it was not committed to.
    """
    kept = {
        p.topic_partition: KeptOffset(p.end_offset, group_now.get(p.topic_partition), p.leader_epoch)
        for p in plan.partitions
    }
    return _next(parent, plan, kept, parent.startup, parent.restart, plan_id=plan.plan_id)


def _next(
    parent: Checkpoint | None,
    plan: OffsetPlan,
    kept: Mapping[TopicPartition, KeptOffset],
    startup: str,
    restart: str | None,
    plan_id: str | None = None,
) -> Checkpoint:
    before = parent.topic_ids if parent else {}
    # Offsets of a topic that was re-created belong to a log that is gone.
    recreated = {topic for topic, topic_id in plan.topic_ids.items() if before.get(topic) not in (None, topic_id)}
    inherited = {tp: offset for tp, offset in (parent.offsets if parent else {}).items() if tp.topic not in recreated}
    return Checkpoint(
        sequence=parent.sequence + 1 if parent else 0,
        parent=parent.id if parent else None,
        checkpoint_id=plan.checkpoint_id or "",
        cluster_id=plan.cluster_id,
        group_id=plan.group_id,
        plan_id=plan_id,
        run=str(plan.run) if plan.run else None,
        startup=startup,
        subscription=plan.subscription,
        topic_ids={**before, **plan.topic_ids},
        offsets={**inherited, **kept},
        restart=restart,
    )


def _offset(committed: CommittedOffset | None) -> int | None:
    return None if committed is None else committed.offset
