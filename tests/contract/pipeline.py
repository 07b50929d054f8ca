"""A pipeline without Airflow and Spark: plans, "reads" and commits one run after another, as the operators do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.committing import CommitOutcome, commit_run
from airflow_kafka_offsets.frozen_plans import plan_run
from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.offsets.verify import PartitionRead, ReadReport
from airflow_kafka_offsets.planner import request_for
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.reads import begin_read, store_report
from airflow_kafka_offsets.stores.turns import IsAlive, nobody_lives

CHECKPOINT = "pipeline"


@dataclass
class Pipeline:
    """A DAG that reads ``topic`` in the name of ``group``. What it read and committed is in ``seen``."""

    cluster: Any
    store: WorkStore
    topic: str
    group: str
    parameters: dict[str, Any] = field(default_factory=lambda: {"startup_mode": "earliest-offset"})
    seen: dict[TopicPartition, list[range]] = field(default_factory=dict)
    is_alive: IsAlive = nobody_lives

    def plan(self, run: str, *, is_alive: IsAlive | None = None, **parameters: Any) -> OffsetPlan:
        key = RunKey("dag", run, "resolve")
        given = {
            "topics": [self.topic],
            "group_id": self.group,
            "checkpoint_id": CHECKPOINT,
            "run": key,
            "run_type": "scheduled",
            **self.parameters,
            **parameters,
        }
        return plan_run(request_for({}, given), key, self.store, self.cluster, is_alive=is_alive or self.is_alive).plan

    def read(self, plan: OffsetPlan) -> None:
        """The report of a Spark job that has read all of it."""
        ranges = {p.topic_partition: p.range for p in plan.to_read()}
        attempt = begin_read(self.store, plan, 0, None)
        reads = {tp: PartitionRead(r.size, r.start_offset, r.end_offset - 1) for tp, r in ranges.items()}
        store_report(self.store, ReadReport(plan.plan_id, 0, attempt, "counts", reads))

    def commit(self, plan: OffsetPlan, **how: Any) -> CommitOutcome:
        outcome = commit_run(plan, self.store, self.cluster, **how)
        for p in plan.to_read():
            self.seen.setdefault(p.topic_partition, []).append(range(p.start_offset, p.end_offset))
        return outcome

    def run(self, name: str, **parameters: Any) -> OffsetPlan:
        plan = self.plan(name, **parameters)
        self.read(plan)
        self.commit(plan)
        return plan


def ranges(plan: OffsetPlan) -> list[tuple[int, int]]:
    return [(p.start_offset, p.end_offset) for p in plan.partitions]
