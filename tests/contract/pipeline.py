"""A pipeline without Airflow and Spark: resolve, "Spark" and commit of one run after another, as the operators do it.

Spark's part is played by :class:`Job`: it takes the steps of a driver (begin, look, write, look, report) in the work
store, and writes what it reads into a :class:`Lake`. A report is made of what the lake then holds, as a real one is. So
a test can look at the output the way a reader does: all of it, whoever wrote it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.kafka_values import Actor, RunKey, TopicPartition
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.log.read_reports import SplitAttempt, begin, require_current
from airflow_kafka_offsets.log.verify_reads import PartitionRead, Proof, ReadReport
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.position import Position
from airflow_kafka_offsets.request.parse_request import OutputOrigin, PlanRequest, RunContext, request_for
from airflow_kafka_offsets.request.policies import Skip, restart_word
from airflow_kafka_offsets.stores.store import Store
from tests.asked import request_parameters
from tests.engine import (
    Asker,
    Assignment,
    CommitOutcome,
    PlanReference,
    Reset,
    ResetOutcome,
    commit_batch,
    plan_batch,
    position_of,
    preview,
    redo,
    reset_position,
    skip_batch,
)
from tests.stores.builders import as_it_is_now

CHECKPOINT = "pipeline"
AIRFLOW = "https://airflow.example"

Row = tuple[TopicPartition, int]


@dataclass
class Airflow:
    """What a use case is told of the Airflow that it runs in.

    :ivar running: the run ids of the DAG runs that are running.
    :ivar succeeded: whether the resolve task has succeeded in an earlier run.
    :ivar failed: by run id, the tasks that have failed.
    """

    instance: str = AIRFLOW
    running: set[str] = field(default_factory=set)
    succeeded: bool = False
    failed: dict[str, list[str]] = field(default_factory=dict)

    def is_running(self, run: RunKey) -> bool:
        return run.run_id in self.running

    def has_succeeded_before(self, run: RunKey) -> bool:
        return self.succeeded

    def failed_tasks(self, run: RunKey) -> list[str]:
        return self.failed.get(run.run_id, [])

    def timed(self, step: str) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass
class Lake:
    """One output: the rows of each batch key and split."""

    rows: dict[tuple[str, int], list[Row]] = field(default_factory=dict)

    def offsets(self) -> dict[int, list[int]]:
        """What a reader of all of it finds: by partition number, every offset as often as there are rows of it."""
        found: dict[int, list[int]] = {}
        for rows in self.rows.values():
            for tp, offset in rows:
                found.setdefault(tp.partition, []).append(offset)
        return {number: sorted(found[number]) for number in sorted(found)}

    @property
    def keys(self) -> list[str]:
        """The batches that have rows, sorted."""
        return sorted({key for (key, _), rows in self.rows.items() if rows})

    def of(self, key: str) -> list[Row]:
        return sorted(row for (batch, _), rows in self.rows.items() if batch == key for row in rows)


class RecordsGone(Exception):
    """A record of the plan is not in Kafka any more."""


@dataclass
class Job:
    """The Spark driver of one split, step by step."""

    pipeline: Pipeline
    plan_object: str
    plan: Plan
    split: int
    attempt: SplitAttempt | None = None

    def begin(self) -> Job:
        """As ``read_batch``: is the plan the current one, are the records there? On record; looked once more.

        :raises RecordsGone: Kafka does not have all of them any more; nothing was begun.
        """
        names = self.pipeline.store.list(self.plan_object.rpartition("/")[0])
        require_current(self.pipeline.store, self.plan_object, self.plan, names)
        self.read()
        self.attempt = begin(
            self.pipeline.store, self.plan_object, self.plan, self.split, self.plan.asked.output, names
        )
        self.attempt.look()
        return self

    def write(self, rows: Iterable[Row] | None = None) -> Job:
        """Replace the rows of this key and split; by default by exactly what the split reads."""
        self.pipeline.lake.rows[self._key, self.split] = self.read() if rows is None else list(rows)
        return self

    def read(self) -> list[Row]:
        """What the split reads."""
        partitions = self.plan.splits[self.split]
        starts = self.pipeline.cluster.log_start_offsets([p.topic_partition for p in partitions]) if partitions else {}
        if any(starts[p.topic_partition] > p.start_offset for p in partitions):
            raise RecordsGone
        return [(p.topic_partition, offset) for p in partitions for offset in range(p.start_offset, p.end_offset)]

    def report(self, proof: Proof = "rows", output: str | None = None, *, looked: bool = True) -> Job:
        """What the lake holds of this key and split."""
        assert self.attempt is not None
        rows = self.pipeline.lake.rows.get((self._key, self.split), [])
        counts: dict[TopicPartition, Counter[int]] = {}
        for tp, offset in rows:
            counts.setdefault(tp, Counter())[offset] += 1
        reads = {tp: PartitionRead(c.total(), len(c), min(c), max(c)) for tp, c in counts.items()}
        where = output or self.plan.asked.output
        report = ReadReport(self.plan.plan_id, self.split, self.attempt.number, proof, reads, where, looked=looked)
        self.attempt.report(replace(report, rows=self.pipeline.rows))
        return self

    @property
    def _key(self) -> str:
        assert self.plan.batch is not None
        return self.plan.batch.key


@dataclass
class Run:
    """A DAG run whose resolve task has ended well."""

    pipeline: Pipeline
    key: RunKey
    assignment: Assignment

    @property
    def batch(self) -> StoredBatch:
        """What it was given to do, as its log was then."""
        assert self.assignment.batch is not None, self.assignment.sentence
        return self.assignment.batch

    @property
    def plan(self) -> Plan:
        return self.batch.log.plan

    @property
    def batch_key(self) -> str:
        assert self.plan.batch is not None
        return self.plan.batch.key

    @property
    def number(self) -> int | None:
        """Of its batch in the log; ``None`` for a window, and where there was nothing to do."""
        plan = self.assignment.plan
        return plan.batch.number if plan and plan.batch else None

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return ranges(self.plan)

    @property
    def splits(self) -> tuple[int, ...]:
        return self.assignment.splits

    @property
    def sentence(self) -> str:
        return self.assignment.sentence

    def job(self, split: int = 0) -> Job:
        return Job(self.pipeline, self.batch.plan_object, self.plan, split)

    def spark(self, splits: Sequence[int] | None = None) -> Run:
        """Every split that was to be started is read, written and reported."""
        for split in self.splits if splits is None else splits:
            self.job(split).begin().write().report()
        return self

    def commit(self, **how: Any) -> CommitOutcome:
        batch, plan = self.assignment.batch, self.assignment.plan
        handed = PlanReference(batch.name if batch else None, plan.plan_id if plan else None)
        pipeline = self.pipeline
        me = Actor(self.key, pipeline.airflow.instance)
        return commit_batch(handed, pipeline.log, pipeline.cluster, me, now_ms=pipeline.now_ms, **how)

    def done(self) -> Run:
        """Spark and commit."""
        self.spark()
        self.commit()
        return self


@dataclass
class Pipeline:
    """A DAG that reads ``topic`` in the name of ``group``.

    :ivar parameters: of its resolve task; a run may have others.
    :ivar run_type: Airflow's, of its runs.
    :ivar rows: the digest of the row definition that its jobs write with.
    """

    cluster: Any
    store: Store
    topic: str
    group: str
    parameters: dict[str, Any] = field(default_factory=lambda: {"startup_mode": "earliest-offset"})
    pipeline_id: str = CHECKPOINT
    run_type: str = "scheduled"
    airflow: Airflow = field(default_factory=Airflow)
    lake: Lake = field(default_factory=Lake)
    now_ms: int = field(default_factory=now_ms)
    rows: str | None = None

    def resolve(self, run: str | RunKey, *, run_type: str | None = None, **parameters: Any) -> Run:
        """The resolve task of ``run``; once more, if it ran before: a retry, or a clear."""
        key = run if isinstance(run, RunKey) else RunKey("dag", run, "resolve")
        request = self.request(run_type=run_type, **parameters)
        pipeline_id = request.scope.pipeline_id or ""
        asker = Asker(request, key, PipelineLog(self.store, pipeline_id), self.cluster, self.airflow)
        pipeline = self if pipeline_id == self.pipeline_id else replace(self, pipeline_id=pipeline_id)
        return Run(pipeline, key, plan_batch(asker))

    def run(self, name: str | RunKey, **parameters: Any) -> Run:
        """A run that ends well."""
        return self.resolve(name, **parameters).done()

    def reset_to_earliest(self, *, execute: bool = True) -> ResetOutcome:
        """A person sets the position back, whatever is read twice then."""
        asked = Reset("earliest-offset", "because", allow_duplicates=True)
        me = Actor(None, self.airflow.instance)
        return reset_position(self.log, self.cluster, me, asked, now_ms=self.now_ms, dry_run=not execute)

    def skip(self, skip: Skip) -> None:
        """A person gives up what ``skip`` names."""
        skip_batch(self.log, skip, now_ms=self.now_ms, dry_run=False)

    def redo_newest(self) -> None:
        """A person does the newest batch again."""
        me = Actor(None, self.airflow.instance)
        redo(self.newest, self.cluster, me, now_ms=self.now_ms)

    def preview(self, **parameters: Any) -> Plan:
        """What the next run would do."""
        return preview(self.request(**parameters), self.cluster, self.log)

    def request(
        self,
        *,
        run_type: str | None = None,
        output_origin: OutputOrigin = "fixed",
        jobs_tell: bool = True,
        nameless: bool = False,
        **parameters: Any,
    ) -> PlanRequest:
        given = {
            "topics": [self.topic],
            "group_id": self.group,
            "pipeline_id": self.pipeline_id,
            **self.parameters,
            **parameters,
        }
        run_context = RunContext(self.now_ms, run_type=run_type or self.run_type)
        request = request_for({}, request_parameters(**given), run_context)
        word = restart_word(self.parameters.get("restart"))
        how = {"output_origin": output_origin, "jobs_tell": jobs_tell, "nameless": nameless}
        return replace(request, restart_of_dag=word, **how)

    def actor(self, run: str) -> Actor:
        return Actor(RunKey("dag", run, "resolve"), self.airflow.instance)

    @property
    def log(self) -> PipelineLog:
        return PipelineLog(self.store, self.pipeline_id)

    @property
    def newest(self) -> StoredBatch:
        found = self.log.newest()
        assert found is not None, "the log is empty"
        return found

    @property
    def position(self) -> Position:
        found = position_of(self.log)
        assert found is not None, "there is no position"
        return found

    def at(self) -> dict[int, int]:
        """The position of ``topic``, by partition number."""
        return {tp.partition: kept.offset for tp, kept in self.position.offsets.items() if tp.topic == self.topic}

    def held(self, *, stable: bool = True) -> dict[int, int]:
        """What the group holds of ``topic``, by partition number; not stable: without waiting for what is pending."""
        description = self.cluster.describe(self.request(startup_mode="earliest-offset").scope.subscription)
        found = self.cluster.committed(self.group, description.partitions(), stable=stable)
        return {tp.partition: commit.offset for tp, commit in sorted(found.items()) if tp.topic == self.topic}


def ranges(plan: Plan) -> list[tuple[int, int]]:
    """Start and end of each partition."""
    return [(p.start_offset, p.end_offset) for p in plan.partitions]


def entries(batch: StoredBatch) -> list[str]:
    """The kinds of the entries of a batch's log from its current plan on: ``["plan", "taken", "commit"]``."""
    now = as_it_is_now(batch)
    return ["plan", *({"Taken": "taken", "Committed": "commit"}[type(entry).__name__] for entry in now.log.later)]


def starts(plan: Plan) -> list[int]:
    """The splits that Spark jobs are started for."""
    return plan.splits_to_start()
