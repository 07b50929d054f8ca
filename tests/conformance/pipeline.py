"""A scheduled pipeline on a cluster: each run makes its plan and commits it, or fails in between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.committing import Cluster, CommitOutcome, commit_run
from airflow_kafka_offsets.frozen_plans import plan_run
from airflow_kafka_offsets.offsets.checkpoint import Checkpoint
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.planner import request_for
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.objects import WorkStore


@dataclass
class Pipeline:
    """``ask`` are the operator's parameters of every run; a run may add to them."""

    cluster: Cluster
    store: WorkStore
    group: str | None
    ask: dict[str, Any]
    checkpoint_id: str | None = "billing"
    runs: int = 0

    def plan(self, cluster: Cluster | None = None, **more: Any) -> OffsetPlan:
        """The frozen plan of a new run."""
        self.runs += 1
        return self.replay(self.runs, cluster, **more)

    def replay(self, number: int, cluster: Cluster | None = None, **more: Any) -> OffsetPlan:
        """The plan of run ``number``: a retry asks for it again."""
        run = RunKey("billing", f"run-{number}", "resolve")
        ask = {"group_id": self.group, "checkpoint_id": self.checkpoint_id, **self.ask, **more}
        request = request_for({}, {**ask, "run": run, "run_type": "scheduled"})
        return plan_run(request, run, self.store, cluster or self.cluster).plan

    def commit(self, plan: OffsetPlan, mode: str | None = None, cluster: Cluster | None = None) -> CommitOutcome:
        return commit_run(plan, self.store, cluster or self.cluster, commit_mode=mode, require_report=False)

    def run(self, mode: str | None = None, **more: Any) -> OffsetPlan:
        plan = self.plan(**more)
        self.commit(plan, mode)
        return plan

    def committed(self, *partitions: TopicPartition) -> dict[int, int]:
        """What the group holds of them, by partition number."""
        assert self.group is not None
        found = self.cluster.committed(self.group, list(partitions))
        return {tp.partition: commit.offset for tp, commit in found.items()}

    def checkpoint(self, plan: OffsetPlan) -> Checkpoint | None:
        return CheckpointChain(self.store, plan.cluster_id, str(self.checkpoint_id)).newest()


def ranges(plan: OffsetPlan) -> dict[int, tuple[int, int]]:
    return {p.topic_partition.partition: (p.start_offset, p.end_offset) for p in plan.partitions}


def reasons(plan: OffsetPlan) -> list[str]:
    return [p.start_reason for p in plan.partitions]


class Wrapped:
    """A cluster of which a test answers some questions itself, by a method; ``self.real`` answers the rest."""

    def __init__(self, real: Cluster) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def of(topic: str, numbers: Iterable[int], offset: int) -> dict[TopicPartition, CommittedOffset]:
    return {TopicPartition(topic, number): CommittedOffset(offset) for number in numbers}
