"""A world: a pipeline of one kind, its Airflow, Kafka, Spark and people, one verb at a time.

Tries of resolve, spark and commit crash at any verb, or go on as zombies. Runs are cleared (all, only Spark, only the
commit), Spark is marked as successful; people reset, skip, acknowledge, clean, and move the group; retention, cut logs,
compaction and re-created topics change the records; jobs write half, are corrected, and move their output; the
checkpoint location is lost, or an older copy of it restored. Each world ends quietly: what still runs goes on to its
end, a person carries out what each refusal says, and fresh runs finish the rest.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

from airflow_kafka_offsets.engine.commit import commit, needs_job
from airflow_kafka_offsets.engine.group import Mark
from airflow_kafka_offsets.engine.look import records_gone
from airflow_kafka_offsets.engine.resolve import resolve
from airflow_kafka_offsets.engine.work import Given, Nothing, Work
from airflow_kafka_offsets.errors import (
    KafkaOffsetsError,
    StoreDamaged,
    WindowRefused,
)
from airflow_kafka_offsets.kafka_values import RunKey, TopicPartition
from airflow_kafka_offsets.log.entries import Batch, Plan
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.reports import verify
from airflow_kafka_offsets.plan.body import PlanBody, body_from_dict
from airflow_kafka_offsets.request import Request, RunContext, parse_request
from airflow_kafka_offsets.store.objects import decode
from tests.model import people
from tests.model.driver import FIRST_JOB, Driver, Job, Sink, Stopped, run_plain_job
from tests.model.stepping import T0, UNIT_MS, Program, SteppingCluster, SteppingStore, program

Kind = Literal["sequence", "window"]


@dataclass
class Run:
    """A DAG run, as Airflow knows it.

    :ivar task: the task to run next; ``done``: all have succeeded.
    """

    name: str
    window: tuple[int, int] | None
    task: str = "resolve"
    tries: int = 0
    acknowledges: str | None = None
    work: Work | None = None
    given: Given | None = None
    job: Job = FIRST_JOB

    @property
    def key(self) -> RunKey:
        return RunKey("dag", self.name, "resolve")


class World:
    """
    :ivar spoilt: records of which a red task says that nobody knows.
    :ivar twice: how often more a record may be in the output, by a person's decision.
    :ivar kept: rows of committed batches that an older log plans, too.
    :ivar torn: keys of batches that were open when the log was lost; ``left``: rows that an older log may not know.
    :ivar planned: of each window's batch, the log starts that its planner saw.
    """

    def __init__(self, kind: Kind, seed: int, theme: str) -> None:
        self.kind, self.seed, self.theme, self.rnd = kind, seed, theme, random.Random(f"{kind} {seed}")
        rnd = self.rnd
        self.store, self.kafka = SteppingStore(self._created), SteppingCluster(now_ms=T0)
        self.view = self.log
        self.has_reports, self.stretches = rnd.random() < 0.92, rnd.choice((2, 3, 500))
        self.sink = Sink(fences=rnd.random() < 0.5 and self.has_reports)
        self.group = "g" if kind == "sequence" and rnd.random() < 0.85 else None
        self.asks_needs_job = rnd.random() < 0.5
        self.changes_topics, self.compacts = theme == "topics" or rnd.random() < 0.3, rnd.random() < 0.2
        self.job, self.clock = FIRST_JOB, 0
        self.programs: list[Program] = []
        self.runs = {name: Run(name, self._some_window()) for name in (f"r{i}" for i in range(14))}
        self.alive: set[str] = set()
        self.succeeded, self.is_behind, self.people = False, True, 0
        self.is_ending = self.has_lost_log = False
        self.bad: list[str] = []
        self.errors: list[str] = []
        self.counts: Counter[str] = Counter()
        self.records: dict[tuple[Any, ...], int] = {}
        self.destroyed: set[Any] = set()
        self.compacted: set[Any] = set()
        self.spoilt: set[Any] = set()
        self.twice: Counter[Any] = Counter()
        self.planned: dict[str, Any] = {}
        self.windows_done: set[tuple[int, int]] = set()
        self.old_logs: list[list[tuple[Batch, PlanBody]]] = []
        self.kept: set[Any] = set()
        self.torn: set[str] = set()
        self.left: dict[tuple[str, str], int] = {}
        self.unknown: set[str] = set()
        self.copies: list[dict[str, bytes]] = []
        self.kafka.create_topic("orders", 2)
        self.start_at, self.chance_of_half = rnd.choice(("earliest", "latest")), 0.06

    @cached_property
    def want(self) -> Request:
        """What is asked for, but for what differs from run to run."""
        start = self.start_at if self.kind == "sequence" else "earliest"
        parameters = {"topics": ["orders"], "pipeline_id": "orders", "start": start, "group_id": self.group}
        return parse_request({**parameters, "require_report": self.has_reports}, RunContext(now_ms=T0), {})

    # ── what there is ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def log(self) -> PipelineLog:
        """Each program reads the log anew; ``view`` is the world's own."""
        return PipelineLog(self.store, "orders")

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition("orders", p) for p in self.kafka.topics["orders"].logs]

    def high_watermark(self, tp: TopicPartition) -> int:
        return self.kafka.topics["orders"].logs[tp.partition].high_watermark

    def is_gone(self, record: tuple[Any, ...]) -> bool:
        topic = self.kafka.topics["orders"]
        return record[0] != topic.topic_id or record[2] < topic.logs[record[1]].log_start_offset

    def is_running(self, run: RunKey) -> bool:
        return run.run_id in self.alive

    def has_succeeded(self) -> bool:
        return self.succeeded

    @staticmethod
    def units(time_ms: int) -> int:
        return (time_ms - T0) // UNIT_MS

    def _some_window(self) -> tuple[int, int] | None:
        if self.kind == "sequence":
            return None
        first = self.rnd.randrange(10) * 10
        if self.rnd.random() < 0.9:
            return first, first + 10
        return first + self.rnd.choice((0, 5)), first + self.rnd.choice((10, 15, 20))

    def _created(self, name: str, data: bytes) -> None:
        """The store has a new object."""
        me = program()
        if b'"entry":"commit"' in data:
            self.is_behind = True
            self.store.commits, self.store.committed = self.store.commits + 1, name.rpartition("/")[0]
            if me is not None:
                me.has_mirrored = True
        if b'"entry":' in data and b'"run":null' in data:
            people.forget_unknown_rows(self)
        if b'"entry":"plan"' in data and name.endswith("/1.json"):
            self.planned[name] = dict(me.log_starts) if me else {}

    def request(self, **changes: Any) -> Request:
        return replace(self.want, **{"now_ms": T0 + self.clock * UNIT_MS, **changes})

    def request_of(self, run: Run, *, is_quiet: bool) -> Request:
        some = frozenset() if is_quiet else frozenset(tp for tp in self.partitions if self.rnd.random() < 0.07)
        changes: dict[str, Any] = {"exclude": some if len(some) < len(self.partitions) else frozenset()}
        changes["on_data_loss"] = "advance" if is_quiet or self.rnd.random() < 0.6 else "fail"
        if run.window is None:
            changes["max_records"] = None if is_quiet else self.rnd.choice((None, 3))
        else:
            changes["window"] = tuple(T0 + t * UNIT_MS for t in run.window)
        return self.request(acknowledge=run.acknowledges, **changes)

    # ── programs ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, run: Run, *, is_quiet: bool = False) -> Program:
        run.tries += 1
        self.alive.add(run.name)
        speed = 1.0 if is_quiet else self.rnd.choice((1, 1, 1, 0.1))
        calls = {"resolve": self._resolve, "spark": self._spark, "commit": self._commit}
        self.programs.append(Program(run.task, partial(calls[run.task], run, is_quiet), run.name, speed))
        return self.programs[-1]

    def person(self, call: Callable[[], Any]) -> None:
        self.programs.append(Program("person", call))

    def _resolve(self, run: Run, is_quiet: bool) -> Work | Nothing:
        return resolve(self.request_of(run, is_quiet=is_quiet), run.key, self.log, self.kafka, self)

    def _spark(self, run: Run, is_quiet: bool) -> None:
        work, given, job = run.work, run.given, run.job
        assert work is not None
        assert given is not None
        if not given.starts_job or (self.asks_needs_job and not needs_job(given, self.log, self.kafka)):
            return
        if not self.has_reports:
            run_plain_job(self.kafka, self.sink, self.rnd, work.batch, work.body, partial(self._is_overtaken, work))
            return
        path = work.arguments("kafka:9092")[1].removeprefix("memory://checkpoint/")
        driver = Driver(self.store, self.kafka, self.sink, self.rnd, path, job)
        driver.run(writes_half=not is_quiet and self.rnd.random() < self.chance_of_half)

    def _commit(self, run: Run, is_quiet: bool) -> Any:
        assert run.given is not None
        return commit(run.given, self.log, self.kafka)

    def _is_overtaken(self, work: Work) -> bool:
        """Whether a job without a report is late: nothing stops it."""
        objects, folder = self.store.objects, work.log.folder(work.batch.number)
        later = [n for k in range(work.batch.plan_entry + 1, 99) if (n := f"{folder}/{k}.json") in objects]
        is_gone = f"{folder}/{work.batch.plan_entry}.json" not in objects
        return is_gone or any(b'"entry":"claim"' not in objects[n] or b'"run":null' in objects[n] for n in later)

    def step(self, program: Program) -> None:
        if program.step():
            self.programs.remove(program)
            self._ended(program)

    def crash(self, program: Program) -> None:
        self.programs.remove(program)
        self.is_behind |= program.has_mirrored
        program.crash()

    def run_all(self) -> None:
        while self.programs:
            self.step(self.rnd.choice(self.programs))

    # ── what Airflow makes of it ──────────────────────────────────────────────────────────────────────────────────────

    def _ended(self, program: Program) -> None:
        error = program.error
        self._look_at_group(program)
        if error is not None:
            self.errors.append(f"{program.run or 'person'} {program.task}: {error}"[:400])
            self.counts[type(error).__name__ if not isinstance(error, Stopped) else f"Stopped {error}"[:16]] += 1
            if isinstance(error, StoreDamaged) and self._is_cleaned(error):
                self.counts["raced with clean"] += 1
            elif isinstance(error, StoreDamaged) or not isinstance(error, KafkaOffsetsError | Stopped):
                self.bad.append(f"{program.task} fell over: {error!r}"[:400])
        if program.run is None or not program.is_awaited:
            return
        run = self.runs[program.run]
        {"resolve": self._resolved, "spark": self._spark_ended, "commit": self._committed}[program.task](run, program)

    def _is_cleaned(self, error: StoreDamaged) -> bool:
        name = re.search(r"object (\S+) of", error.what)
        return name is not None and name[1] in self.store.removed

    def _resolved(self, run: Run, program: Program) -> None:
        match program.result:
            case Work() as work:
                self.succeeded = True
                run.work, run.job = work, self.job if self.has_reports else FIRST_JOB
                run.given = work.given(job=run.job.digest if self.has_reports else None)
                run.task = "spark" if run.given.starts_job else "commit"
            case Nothing():
                self.succeeded = True
                run.task = "done"
                self.alive.discard(run.name)
                if run.window:
                    self.windows_done.add(run.window)
            case _:
                self.alive.discard(run.name)
                if isinstance(program.error, WindowRefused) and "overlaps" in program.error.cause:
                    windows = {batch.first_plan.window for batch in self.batches()}
                    if tuple(T0 + t * UNIT_MS for t in run.window) in windows:
                        self.bad.append(f"window {run.window} is refused to a run, and it is planned")
                if self.is_ending or self.rnd.random() < 0.5:
                    people.obey(self, program.error, run)

    def _spark_ended(self, run: Run, program: Program) -> None:
        if program.error is None:
            run.task = "commit"
            return
        if str(program.error) == "output" and (self.is_ending or self.rnd.random() < 0.5):
            people.acknowledge_somehow(self, run)
        if self.rnd.random() < 0.5:
            run.task = "resolve"

    def _committed(self, run: Run, program: Program) -> None:
        self.alive.discard(run.name)
        if program.error is not None:
            if self.is_ending or self.rnd.random() < 0.5:
                people.obey(self, program.error, run)
            if self.rnd.random() < 0.7:
                run.task = "resolve"
            return
        run.task = "done"
        given = run.given
        assert given is not None
        batch = self.log.batch(given.batch)
        if batch is None or not batch.plan.offsets or batch.is_cleaned or not self.has_reports:
            return
        body = self.log.body(batch)
        written = self.sink.jobs.get((batch.output or "A", batch.plan.key), -1)
        if written < run.job.number and not records_gone(self.kafka, batch.plan, body):
            self.bad.append(f"{batch} was corrected, and is in the output by the old job")
        if given.after and not any(a.number > given.after and a.is_reported for a in batch.attempts):
            self.bad.append(f"{batch} was done again, says the run, and nothing was")

    def batches(self) -> list[Any]:
        found, number = [], 1
        while (batch := self.view.batch(number)) is not None:
            found.append(batch)
            number += 1
        return found

    def _look_at_group(self, program: Program) -> None:
        """The group is never ahead of the log; and equals the position once all who write it have ended well."""
        if self.group is None or not program.has_mirrored:
            return
        if program.error is not None or program.is_late:
            self.is_behind = True
        elif program.seen_commits == self.store.commits:
            self.is_behind = False
        held = self.kafka.groups.get(self.group, {})
        marks = [Mark.of(c) for c in held.values()]
        if self.is_behind or any(p.has_mirrored for p in self.programs) or not all(marks):
            return
        committed = [b for b in self.batches() if b.is_committed]
        if not committed:
            return
        position = self.view.position_after(committed[-1])
        topic_id = self.kafka.topics["orders"].topic_id
        for tp, offset in position.items():
            if offset.topic_id == topic_id and (tp not in held or held[tp].offset != offset.offset):
                self.bad.append(f"all mirrors have ended, and the group holds {held.get(tp)} of {tp}, not {offset}")

    def is_verified(self, batch: Batch) -> bool:
        view = self.view
        return not self.has_reports or verify(batch, view.body(batch), view.report).is_verified

    def body_of(self, batch: Batch, plan: Plan | None = None) -> PlanBody:
        """Also of a batch that was cleaned."""
        name = (plan or batch.plan).ranges.name
        return body_from_dict(decode(self.store.bodies[f"{self.log.folder(batch.number)}/{name}"]))

    def offsets_of(self, batch: Batch) -> list[tuple[Any, ...]]:
        """What a batch reads: (topic id, partition, offset)."""
        body, ids = self.body_of(batch), batch.plan.topic_ids
        skipped = {
            (tp, o) for tp, skips in body.skips.items() for s in skips for o in range(s.start_offset, s.end_offset)
        }
        return [
            (ids.get(tp.topic), tp.partition, o)
            for tp, r in sorted(body.ranges.items())
            for o in range(r.start, r.end)
            if (tp, o) not in skipped
        ]
