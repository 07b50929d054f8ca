"""A pipeline in memory, without Airflow and Spark: each run plans, reads, reports and commits as the operators do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.kafka_values import Actor, RunKey, TopicPartition
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.log.read_reports import begin
from airflow_kafka_offsets.log.verify_reads import PartitionRead, ReadReport
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.request.parse_request import RunContext, request_for
from airflow_kafka_offsets.stores.store import Store
from tests.asked import request_parameters
from tests.cluster.memory import InMemoryCluster
from tests.engine import Asker, Assignment, NoAirflow, PlanReference, commit_batch, plan_batch
from tests.model.store import MemoryStore

NOW = 1_795_168_800_000
GROUP, CHECKPOINT = "g", "g/dag/resolve"

Rows = dict[TopicPartition, list[int]]


def cluster(**fields: Any) -> InMemoryCluster:
    """An empty cluster; every broker that has a group has its topic."""
    made = InMemoryCluster(**fields)
    made.create_topic("__consumer_offsets")
    return made


class Died(Exception):
    """The worker is gone between the commit in the log and the one in the group."""


class Dying:
    """A cluster whose group's commit is never sent."""

    def __init__(self, real: InMemoryCluster) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def commit_offsets(self, *_: Any) -> None:
        raise Died


@dataclass
class Pipeline:
    """``ask`` are the operator's parameters of every run.

    :ivar lake: the rows that Spark has written, by the batch's key and split: who writes them again replaces them.
    """

    cluster: InMemoryCluster
    ask: dict[str, Any]
    store: Store = field(default_factory=MemoryStore)
    lake: dict[tuple[str, int], Rows] = field(default_factory=dict)

    @property
    def log(self) -> PipelineLog:
        return PipelineLog(self.store, CHECKPOINT)

    def asker(
        self, run: RunKey, *, store: Store | None = None, run_context: dict[str, Any] | None = None, **more: Any
    ) -> Asker:
        asked = request_parameters(**{"group_id": GROUP, "pipeline_id": CHECKPOINT, **self.ask, **more})
        moment = RunContext(**{"now_ms": NOW, "run_type": "scheduled", **(run_context or {})})
        return Asker(
            request_for({}, asked, moment), run, PipelineLog(store or self.store, CHECKPOINT), self.cluster, NoAirflow()
        )

    def plan(self, run: RunKey, **more: Any) -> Assignment:
        asker = self.asker(run, **more)
        return plan_batch(asker)

    def read(self, batch: StoredBatch, splits: tuple[int, ...], *, dies: str | None = None) -> None:
        """Spark's jobs, into a sink that keeps its contract: one that dies has written all of its split, or nothing.

        :param dies: ``before`` or ``after`` its write.
        """
        plan = batch.log.plan
        assert plan.batch is not None
        for split in splits:
            attempt = begin(batch.store, batch.plan_object, plan, split, plan.asked.output)
            attempt.look()
            rows = {p.topic_partition: list(range(p.start_offset, p.end_offset)) for p in plan.splits[split]}
            if dies != "before":
                self.lake[plan.batch.key, split] = rows
            if dies is not None:
                continue
            reads = {tp: PartitionRead(len(o), len(set(o)), min(o), max(o)) for tp, o in rows.items()}
            attempt.report(ReadReport(plan.plan_id, split, attempt.number, "rows", reads, plan.asked.output))

    def commit(self, run: RunKey, assignment: Assignment, *, dies: bool = False) -> None:
        handed = PlanReference(None)
        if assignment.batch is not None:
            folder = assignment.batch.folder.removeprefix(f"{self.log.root}/")
            handed = PlanReference(folder, assignment.batch.log.plan.plan_id)
        target: Any = Dying(self.cluster) if dies else self.cluster
        commit_batch(handed, self.log, target, Actor(run, NoAirflow().instance), now_ms=NOW)

    def run(self, run: RunKey, **more: Any) -> Assignment:
        assignment = self.plan(run, **more)
        if assignment.batch is not None:
            self.read(assignment.batch, assignment.splits)
        self.commit(run, assignment)
        return assignment

    def batches(self) -> list[StoredBatch]:
        """All batches of the log, the oldest first."""
        return list(self.log.newest_first())[::-1]

    def held(self) -> dict[TopicPartition, int]:
        return {tp: commit.offset for tp, commit in self.cluster.groups.get(GROUP, {}).items()}

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {
            TopicPartition(name, number): log.high_watermark
            for name, topic in self.cluster.topics.items()
            if name != "__consumer_offsets"
            for number, log in topic.logs.items()
        }


def run_key(name: object) -> RunKey:
    return RunKey("dag", f"run-{name}", "resolve")


def ranges(plan: Plan) -> dict[TopicPartition, tuple[int, int]]:
    return {p.topic_partition: (p.start_offset, p.end_offset) for p in plan.partitions}
