"""A pipeline without Airflow and Spark: resolve, a Spark driver that reads, and commit, one run after another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.kafka_values import Actor, RunKey
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.read_reports import begin
from airflow_kafka_offsets.log.verify_reads import PartitionRead, ReadReport
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.request.parse_request import RunContext, request_for
from airflow_kafka_offsets.stores.local import LocalStore
from tests.asked import request_parameters
from tests.engine import Asker, Assignment, NoAirflow, PlanReference, commit_batch, plan_batch


@dataclass
class Pipeline:
    """A DAG that reads ``topic`` in the name of ``group``; its position is under the default name."""

    cluster: Any
    store: LocalStore
    topic: str
    group: str
    name: str = "dag"
    parameters: dict[str, Any] = field(default_factory=lambda: {"startup_mode": "earliest-offset"})
    rows: str | None = None  # the digest of its row definition
    at_ms: int | None = None  # the clock of its tasks, where it is not this machine's

    @property
    def pipeline_id(self) -> str:
        return f"{self.group}/{self.name}/resolve"

    @property
    def log(self) -> PipelineLog:
        return PipelineLog(self.store, self.pipeline_id)

    @property
    def newest_key(self) -> str:
        newest = self.log.newest()
        assert newest is not None
        return key_of(newest.log.plan)

    def objects(self) -> dict[str, float]:
        """Every object of the store, and when it was written."""
        return {str(file): file.stat().st_mtime_ns for file in self.store.root.rglob("*") if file.is_file()}

    def plan(self, run: str, **parameters: Any) -> Assignment:
        """What the resolve task of ``run`` does."""
        given = {
            "topics": [self.topic],
            "group_id": self.group,
            "pipeline_id": self.pipeline_id,
            **self.parameters,
            **parameters,
        }
        request = request_for({}, request_parameters(**given), RunContext(self._now_ms(), run_type="scheduled"))
        asker = Asker(request, RunKey(self.name, run, "resolve"), self.log, self.cluster, NoAirflow())
        return plan_batch(asker)

    def read(self, assignment: Assignment) -> None:
        """What Spark drivers do that read all of it, and write it to the batch's output."""
        batch = assignment.batch
        assert batch is not None
        for split in assignment.splits:
            attempt = begin(self.store, batch.plan_object, batch.log.plan, split, batch.log.plan.asked.output)
            attempt.look()
            reads = {
                p.topic_partition: PartitionRead(p.range.size, p.range.size, p.start_offset, p.end_offset - 1)
                for p in batch.log.plan.splits[split]
            }
            found = ReadReport(batch.log.plan.plan_id, split, attempt.number, "rows", reads, attempt.output)
            attempt.report(replace(found, rows=self.rows))

    def commit(self, run: str, assignment: Assignment) -> None:
        batch = assignment.batch
        handed = PlanReference(batch.name, batch.log.plan.plan_id) if batch else PlanReference(None)
        me = Actor(RunKey(self.name, run, "resolve"), NoAirflow().instance)
        commit_batch(handed, self.log, self.cluster, me, now_ms=self._now_ms())

    def run(self, run: str, **parameters: Any) -> Assignment:
        """The whole run."""
        assignment = self.plan(run, **parameters)
        self.read(assignment)
        self.commit(run, assignment)
        return assignment

    def _now_ms(self) -> int:
        return now_ms() if self.at_ms is None else self.at_ms


def key_of(plan: Plan | None) -> str:
    assert plan is not None
    assert plan.batch is not None
    return plan.batch.key
