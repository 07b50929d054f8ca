"""A scheduled pipeline on a cluster: each run resolves a batch and commits it, or fails in between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.engine.commit import commit
from airflow_kafka_offsets.engine.surroundings import NoAirflow
from airflow_kafka_offsets.engine.turn import resolve
from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from airflow_kafka_offsets.json_columns import to_columns
from airflow_kafka_offsets.kafka_values import CommittedOffset, RunKey, TopicPartition
from airflow_kafka_offsets.log.entries import Batch, entry_to_dict
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import PlanBody
from airflow_kafka_offsets.request import RunContext, parse_request
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.objects import create_object
from tests.conformance.situations import NOW, Range


@dataclass
class Run:
    """A run and what it resolved.

    :ivar body: what its batch reads; ``None``: there was nothing new, and no batch.
    """

    pipeline: Pipeline
    key: RunKey
    work: ResolvedBatch | NoBatch
    batch: Batch | None
    body: PlanBody | None

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        return {tp.partition: (r.start, r.end) for tp, r in (self.body.ranges if self.body else {}).items()}

    @property
    def by_topic(self) -> dict[TopicPartition, tuple[int, int]]:
        return {tp: (r.start, r.end) for tp, r in (self.body.ranges if self.body else {}).items()}

    @property
    def planned(self) -> dict[int, Range]:
        """Each partition's range, and what is lost, skipped and read again."""
        assert self.body is not None
        found = {}
        for tp, planned in self.body.ranges.items():
            counts = dict.fromkeys(("lost", "skipped", "again"), 0)
            for one in self.body.decisions:
                if one.partition == tp:
                    counts[one.kind] += 1 if one.end is None else one.end - one.start
            found[tp.partition] = Range(planned.start, planned.end, **counts)
        return found

    def commit(self, cluster: Any = None) -> None:
        """The commit task. What the Spark job did is not looked at: ``require_report=False``."""
        if isinstance(self.work, ResolvedBatch):
            commit(self.work.given(), self.work.log, cluster or self.pipeline.cluster)

    def spark(self) -> Run:
        """The Spark task: reports that exactly the planned offsets were written."""
        assert isinstance(self.work, ResolvedBatch)
        assert self.body is not None
        folder, attempt = self.work.log.folder(self.work.batch.number), "1-abcd"
        common = {"version": 1, "plan_id": self.work.batch.plan.plan_id, "job": None, "output": None}
        counts = {
            tp: (size, 0, 0, size, 0, r.start, r.end - 1)
            for tp, r in self.body.ranges.items()
            if (size := r.end - r.start)
        }
        names = ("rows", "bad", "filtered", "offsets", "gaps", "first", "last")
        create_object(self.work.log.store, f"{folder}/{attempt}.begun.json", common)
        report = {**common, "counts": to_columns(names, counts)}
        create_object(self.work.log.store, f"{folder}/{attempt}.report.json", report)
        return self

    @property
    def entries(self) -> list[str]:
        batch = self.pipeline.log.batch(self.batch.number) if self.batch else None
        return [entry_to_dict(entry)["entry"] for entry in (batch.entries if batch else ())]


@dataclass
class Pipeline:
    """A pipeline whose runs are numbered. ``parameters`` are the operator's; a run may add to them.

    :ivar group: ``None``: there is none.
    """

    cluster: Any
    topic: str
    group: str | None
    parameters: dict[str, Any] = field(default_factory=dict)
    connection: dict[str, Any] = field(default_factory=dict)
    store: MemoryStore = field(default_factory=MemoryStore)
    pipeline_id: str = "billing"
    runs: int = 0

    @property
    def log(self) -> PipelineLog:
        return PipelineLog(self.store, self.pipeline_id)

    def resolve(self, run_id: str, **more: Any) -> Run:
        """The resolve task of a run; a second time it is a retry, or the run was cleared."""
        given = {"topics": [self.topic], "group_id": self.group, "require_report": False}
        given |= {"pipeline_id": self.pipeline_id, **self.parameters, **more}
        want = parse_request(given, RunContext(NOW), self.connection)
        run = RunKey("dag", run_id, "resolve")
        work = resolve(want, run, self.log, self.cluster, NoAirflow())
        number = work.batch.number if isinstance(work, ResolvedBatch) else self.log.batch_of(run)
        batch = None if number is None else self.log.batch(number)
        return Run(self, run, work, batch, None if batch is None else self.log.body(batch))

    def next(self, **more: Any) -> Run:
        """The resolve task of a new run."""
        self.runs += 1
        return self.resolve(f"run-{self.runs}", **more)

    def first(self, **more: Any) -> Run:
        """What a first run would read: there is no log, and nothing stays."""
        return Pipeline(self.cluster, self.topic, self.group, self.parameters, self.connection).next(**more)

    def ends_well(self, **more: Any) -> Run:
        """A new run, all of it."""
        run = self.next(**more)
        run.commit()
        return run

    @property
    def at(self) -> dict[int, int]:
        """The position, by partition number."""
        return {tp.partition: offset for tp, offset in self.position.items()}

    @property
    def position(self) -> dict[TopicPartition, int]:
        newest = self.log.head().committed
        return {} if newest is None else {tp: o.offset for tp, o in self.log.position_after(newest).items()}

    def committed(self, *partitions: TopicPartition) -> dict[int, int]:
        """What the group holds of them, by partition number."""
        assert self.group is not None
        found = self.cluster.committed(self.group, list(partitions))
        return {tp.partition: committed.offset for tp, committed in found.items()}


class Wrapped:
    """A cluster of which a test answers some questions itself, by a method; ``self.real`` answers the rest."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def of(topic: str, numbers: Iterable[int], offset: int) -> dict[TopicPartition, CommittedOffset]:
    return {TopicPartition(topic, number): CommittedOffset(offset) for number in numbers}
