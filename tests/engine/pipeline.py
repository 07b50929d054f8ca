"""A pipeline in memory: runs that resolve, a stand-in for the Spark driver, and commits.

The driver keeps to the job contract's protocol and writes nothing but counts, which by default are what was planned.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.engine.commit import Committed, commit
from airflow_kafka_offsets.engine.resolve import resolve
from airflow_kafka_offsets.engine.work import Nothing, Work
from airflow_kafka_offsets.json_columns import to_columns
from airflow_kafka_offsets.kafka_values import RunKey, TopicPartition
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.reports import Counts
from airflow_kafka_offsets.offsets import Timestamp
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
    """Which DAG runs are running, and whether the task has succeeded before."""

    running: set[str] = field(default_factory=set)
    has_succeeded_before: bool = False

    def is_running(self, run: RunKey) -> bool:
        return run.run_id in self.running

    def has_succeeded(self) -> bool:
        return self.has_succeeded_before


@dataclass
class Pipeline:
    """One pipeline, with the parameters that its DAG gives to resolve."""

    cluster: InMemoryCluster
    parameters: dict[str, Any] = field(default_factory=dict)
    store: Store = field(default_factory=MemoryStore)
    airflow: AirflowOfTests = field(default_factory=AirflowOfTests)
    output: str | None = "files:/lake/orders"
    connection: dict[str, Any] = field(default_factory=dict)
    _runs: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def log(self) -> PipelineLog:
        """As another process opens it."""
        return PipelineLog(self.store, self.request().pipeline_id)

    def request(self, conf: Mapping[str, Any] | None = None, interval: Any = None, **changed: Any) -> Request:
        defaults = {"topics": [TOPIC], "group_id": "lake", "start": "earliest", "pipeline_id": "orders"}
        context = RunContext(self.cluster.now_ms, interval, conf or {})
        return parse_request({**defaults, **self.parameters, **changed}, context, self.connection)

    def window(self, start_ms: int, end_ms: int, **changed: Any) -> Request:
        bounds = {"start": Timestamp(), "end": Timestamp(), "group_id": None}
        return self.request(interval=(start_ms, end_ms), **{**bounds, **changed})

    def run(self, name: str | None = None) -> RunKey:
        return RunKey("dag", name or f"run{next(self._runs)}", "resolve")

    def resolve(self, run: str | None = None, want: Request | None = None, **changed: Any) -> Work | Nothing:
        want = want or self.request(**changed)
        kafka: Cluster = self.cluster
        return resolve(want, self.run(run), PipelineLog(self.store, want.pipeline_id), kafka, self.airflow)

    def work(self, run: str | None = None, want: Request | None = None, **changed: Any) -> Work:
        work = self.resolve(run, want, **changed)
        assert isinstance(work, Work), work
        return work

    def commit(self, work: Work, job: str | None = None) -> Committed:
        log = PipelineLog(self.store, work.batch.plan.pipeline)
        return commit(work.given(job=job), log, self.cluster)

    def whole_run(self, run: str | None = None, want: Request | None = None, **changed: Any) -> Work | Nothing:
        """Resolve, Spark and commit."""
        work = self.resolve(run, want, **changed)
        if isinstance(work, Work):
            if work.starts_job:
                self.drive(work)
            self.commit(work)
        return work

    def begin(self, work: Work, output: str | None = None, job: str | None = None) -> str:
        """A driver begins an attempt. Returns the attempt's name."""
        batch = PipelineLog(self.store, work.batch.plan.pipeline).existing(work.batch.number)
        name = f"{batch.highest_attempt + 1}-{next(self._runs):04}"
        begun = {"version": 1, "plan_id": work.batch.plan.plan_id, "job": job, "output": output or self.output}
        create_object(self.store, f"{work.log.folder(batch.number)}/{name}.begun.json", begun)
        return name

    def report(
        self,
        work: Work,
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
            "counts": to_columns(Counts._fields, counts),
        }
        create_object(self.store, f"{work.log.folder(work.batch.number)}/{attempt}.report.json", report)

    def drive(self, work: Work, output: str | None = None, job: str | None = None) -> None:
        """A driver that does all that was planned."""
        self.report(work, self.begin(work, output, job), None, output, job)


def whole_counts(work: Work) -> dict[TopicPartition, Counts]:
    """What a driver counts that wrote each planned offset once."""
    return {
        tp: Counts(rows=planned, offsets=planned, first=r.start, last=r.end - 1)
        for tp, r in work.body.ranges.items()
        if (planned := work.body.planned(tp))
    }


def ranges_of(work: Work) -> dict[int, tuple[int, int]]:
    """Start and end by partition, of a plan of one topic."""
    return {tp.partition: (r.start, r.end) for tp, r in work.body.ranges.items()}
