"""A pipeline in memory: runs that resolve, a stand-in for the Spark driver, and commits.

The driver keeps to the job contract's protocol and writes nothing but counts, which by default are what was planned.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.engine.commit import Committed, commit
from airflow_kafka_offsets.engine.turn import resolve
from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from airflow_kafka_offsets.errors import EndBeforeStart, KafkaOffsetsError
from airflow_kafka_offsets.json_columns import to_columns
from airflow_kafka_offsets.kafka_values import Planned, RunKey, TopicPartition
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.reports import Counts
from airflow_kafka_offsets.offsets import SpecificOffsets, Timestamp
from airflow_kafka_offsets.request import Request, RunContext, parse_request
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.objects import create_object
from airflow_kafka_offsets.store.protocol import Store
from tests.cluster.memory import InMemoryCluster

TOPIC = "orders"
HOUR = 3_600_000


def tp(partition: int, topic: str = TOPIC) -> TopicPartition:
    return TopicPartition(topic, partition)


def produce(cluster: InMemoryCluster, partition: int, count: int, age_s: int = 0) -> None:
    cluster.produce(tp(partition), [cluster.now_ms - age_s * 1000] * count)


def committed(cluster: InMemoryCluster) -> dict[int, int]:
    """The offsets of the group ``lake``."""
    return {tp.partition: c.offset for tp, c in cluster.groups.get("lake", {}).items()}


@dataclass
class AirflowOfTests:
    """Which runs are running, and what the task has planned last.

    :ivar held: what would keep another run from starting. :ivar jobs: the job object of its task.
    """

    running: set[str] = field(default_factory=set)
    planned: Planned | None = None
    user: str | None = "maria"
    held: str = ""
    jobs: Mapping[str, Any] | None = None

    def is_running(self, run: RunKey) -> bool:
        return run.run_id in self.running

    def last_planned(self) -> Planned | None:
        return self.planned

    def triggering_user(self) -> str | None:
        return self.user

    def ways_past(self) -> str:
        return self.held

    def job(self, topics: Collection[str]) -> Mapping[str, Any] | None:
        return self.jobs


@dataclass
class Pipeline:
    """One pipeline, with the parameters that its DAG gives to resolve."""

    cluster: InMemoryCluster
    parameters: dict[str, Any] = field(default_factory=dict)
    store: Store = field(default_factory=MemoryStore)
    airflow: AirflowOfTests = field(default_factory=AirflowOfTests)
    output: str | None = "delta:/lake/orders"
    connection: dict[str, Any] = field(default_factory=dict)
    remembers: bool = True
    _runs: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _clears: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def log(self) -> PipelineLog:
        """As another process opens it."""
        return PipelineLog(self.store, self.request().pipeline_id)

    def request(
        self, conf: Mapping[str, Any] | None = None, interval: Any = None, output: str | None = "", **changed: Any
    ) -> Request:
        defaults = {"topics": [TOPIC], "group_id": "lake", "start": "earliest", "pipeline_id": "orders"}
        context = RunContext(self.cluster.now_ms, interval, conf)
        writes = self.output if output == "" else output
        return parse_request({**defaults, **self.parameters, **changed}, context, self.connection, writes)

    def window(self, start_ms: int, end_ms: int, **changed: Any) -> Request:
        bounds = {"start": Timestamp(), "end": Timestamp(), "group_id": None}
        return self.request(**{"interval": (start_ms, end_ms), **bounds, **changed})

    def run(self, name: str | None = None) -> RunKey:
        """Each time it is asked for, a run was cleared."""
        return RunKey("dag", name or f"run{next(self._runs)}", "orders", clears=str(next(self._clears)))

    def resolve(self, run: str | None = None, want: Request | None = None, **changed: Any) -> ResolvedBatch | NoBatch:
        want = want or self.request(**changed)
        kafka: Cluster = self.cluster
        done = resolve(want, self.run(run), PipelineLog(self.store, want.pipeline_id), kafka, self.airflow)
        if isinstance(done, ResolvedBatch) and not done.batch.is_committed and self.remembers:
            self.airflow.planned = Planned(done.key, done.batch.plan.plan_id)
        return done

    def act(self, run: str | None = None, *, after: int, reason: str = "why", **acts: Any) -> ResolvedBatch | NoBatch:
        """A run whose conf has these acts."""
        return self.resolve(run, conf=conf_of(after, **{"reason": reason, **acts}))

    def run_printed(self, error: Exception, run: str | None = None, **changed: Any) -> ResolvedBatch | NoBatch:
        """A run with the first conf that a refusal prints, as it stands."""
        return self.resolve(run, conf=printed_confs(error)[0], **changed)

    def work(self, run: str | None = None, want: Request | None = None, **changed: Any) -> ResolvedBatch:
        work = self.resolve(run, want, **changed)
        assert isinstance(work, ResolvedBatch), work
        return work

    def commit(self, work: ResolvedBatch, job: str | None = None) -> Committed:
        log = PipelineLog(self.store, work.batch.plan.pipeline)
        return commit(work.given(job=job), log, self.cluster)

    def whole_run(self, run: str | None = None, want: Request | None = None, **changed: Any) -> ResolvedBatch | NoBatch:
        """Resolve, Spark and commit."""
        work = self.resolve(run, want, **changed)
        if isinstance(work, ResolvedBatch):
            if work.starts_job:
                self.drive(work)
            self.commit(work)
        return work

    def begin(self, work: ResolvedBatch, output: str | None = None, job: str | None = None, **more: str) -> str:
        """A driver begins an attempt. Returns the attempt's name."""
        batch = PipelineLog(self.store, work.batch.plan.pipeline).existing(work.batch.number)
        name = f"{batch.highest_attempt + 1}-{next(self._runs):04}"
        begun = {"version": 1, "plan_id": work.batch.plan.plan_id, "job": job, "output": output or self.output, **more}
        create_object(self.store, f"{work.log.folder(batch.number)}/{name}.begun.json", begun)
        return name

    def report(
        self,
        work: ResolvedBatch,
        attempt: str,
        counts: Mapping[TopicPartition, Counts] | None = None,
        output: str | None = None,
        job: str | None = None,
    ) -> None:
        counts = whole_counts(work) if counts is None else counts
        report = {
            "version": 1,
            "plan_id": work.batch.plan.plan_id,
            "job": job,
            "output": output or self.output,
            "snapshot": "7",
            "counts": to_columns(Counts._fields, counts),
            "proof": "receipt",
        }
        create_object(self.store, f"{work.log.folder(work.batch.number)}/{attempt}.report.json", report)

    def drive(self, work: ResolvedBatch, output: str | None = None, job: str | None = None) -> None:
        """A driver that does all that was planned."""
        self.report(work, self.begin(work, output, job), None, output, job)


class StoreOfDriver:
    """What a driver reads of the engine's store."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.get, self.list = pipeline.store.get, pipeline.store.list

    def put(self, name: str, data: bytes) -> None:
        raise AssertionError(name)


def refused(pipeline: Pipeline, **changed: Any) -> KafkaOffsetsError:
    with pytest.raises(KafkaOffsetsError) as error:
        pipeline.resolve(**changed)
    return error.value


def fail_to_plan(pipeline: Pipeline, conf: Mapping[str, Any] | None = None) -> None:
    """A run that writes an identity, and fails before it has a batch."""
    with pytest.raises(EndBeforeStart):
        pipeline.resolve(conf=conf, end=SpecificOffsets({TOPIC: {"0": 0, "1": 0, "2": 0}}))


def copy_of(store: Store) -> MemoryStore:
    assert isinstance(store, MemoryStore)
    copy = MemoryStore()
    copy.objects.update(store.objects)
    return copy


def conf_of(after: int, pipeline: str = "orders", **acts: Any) -> dict[str, Any]:
    """A conf as a person writes it."""
    return {"pipeline": pipeline, "after": after, "reason": "why", **acts}


def printed_confs(error: Exception) -> list[Any]:
    """The confs that a refusal prints, each on a line of its own."""
    return [
        json.loads(line)["kafka_offsets"] for line in str(error).splitlines() if line.startswith('{"kafka_offsets"')
    ]


def whole_counts(work: ResolvedBatch) -> dict[TopicPartition, Counts]:
    """What a driver counts that wrote each planned offset once."""
    return {
        tp: Counts(rows=planned, offsets=planned, first=r.start, last=r.end - 1)
        for tp, r in work.body.ranges.items()
        if (planned := work.body.planned(tp))
    }


def ranges_of(work: ResolvedBatch) -> dict[int, tuple[int, int]]:
    """Start and end by partition, of a plan of one topic."""
    return {tp.partition: (r.start, r.end) for tp, r in work.body.ranges.items()}
