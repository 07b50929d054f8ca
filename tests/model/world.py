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

from airflow_kafka_offsets.engine import by_hand
from airflow_kafka_offsets.engine.commit import commit, needs_job
from airflow_kafka_offsets.engine.group import Mark
from airflow_kafka_offsets.engine.look import Look, records_gone
from airflow_kafka_offsets.engine.resolve import resolve
from airflow_kafka_offsets.engine.work import Given, Nothing, Work
from airflow_kafka_offsets.errors import (
    CheckpointBehindGroup,
    CheckpointLost,
    GroupMoved,
    KafkaOffsetsError,
    ResetRefused,
    StoreDamaged,
    WindowRefused,
)
from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, OffsetRange, RunKey, TopicPartition
from airflow_kafka_offsets.log.clean import clean
from airflow_kafka_offsets.log.entries import Batch, Plan
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.reports import verify
from airflow_kafka_offsets.offsets import GroupStart
from airflow_kafka_offsets.plan.body import PlanBody, body_from_dict
from airflow_kafka_offsets.request import Request, RunContext, parse_request
from airflow_kafka_offsets.store.objects import decode
from tests.model.driver import FIRST_JOB, Driver, Job, Sink, Stopped, run_plain_job
from tests.model.stepping import Program, SteppingCluster, SteppingStore, epoch_of, program

Kind = Literal["sequence", "window"]
UNIT_MS, T0 = 60_000, 1_800_000_000_000
FAR = 10**9
_OFFSET = re.compile(r"orders-([0-9]+): rows with offset ([0-9]+) ")


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
    :ivar kept: rows of committed batches that an older log knows.
    :ivar torn: keys of batches that were open when the log was lost; ``left``: rows that an older log may not know.
    :ivar planned: of each window's batch, the log starts that its planner saw.
    """

    def __init__(self, kind: Kind, seed: int, theme: str) -> None:
        self.kind, self.seed, self.theme, self.rnd = kind, seed, theme, random.Random(f"{kind} {seed}")
        rnd = self.rnd
        self.store, self.kafka = SteppingStore(self._created), SteppingCluster(now_ms=T0)
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
        self.is_ending = False
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
        """Each program reads the log anew."""
        return PipelineLog(self.store, "orders")

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition("orders", p) for p in self.kafka.topics["orders"].logs]

    def high_watermark(self, tp: TopicPartition) -> int:
        return self.kafka.topics["orders"].logs[tp.partition].high_watermark

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
            self.store.commits += 1
            if me is not None:
                me.has_mirrored = True
        if b'"entry":' in data and b'"run":null' in data:
            self._forget_unknown_rows()
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
                    self._obey(program.error, run)

    def _spark_ended(self, run: Run, program: Program) -> None:
        if program.error is None:
            run.task = "commit"
            return
        if str(program.error) == "output" and (self.is_ending or self.rnd.random() < 0.5):
            self._acknowledge(run)
        if self.rnd.random() < 0.5:
            run.task = "resolve"

    def _committed(self, run: Run, program: Program) -> None:
        self.alive.discard(run.name)
        if program.error is not None:
            if self.is_ending or self.rnd.random() < 0.5:
                self._obey(program.error, run)
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
        log, found, number = self.log, [], 1
        while (batch := log.batch(number)) is not None:
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
        position = self.log.position_after(committed[-1])
        topic_id = self.kafka.topics["orders"].topic_id
        for tp, offset in position.items():
            if offset.topic_id == topic_id and (tp not in held or held[tp].offset != offset.offset):
                self.bad.append(f"all mirrors have ended, and the group holds {held.get(tp)} of {tp}, not {offset}")

    # ── people ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _who(self) -> Actor:
        self.people += 1
        return Actor(person=f"person {self.people}")

    def _obey(self, error: Exception | None, run: Run) -> None:
        """A person does what a refusal says."""
        match error:
            case CheckpointLost() if "group-offsets" in error.remedy:
                self.person(self._go_on_from_group)
            case CheckpointLost() if "acknowledge" in error.remedy:
                self._accept_unknown_rows()
                run.acknowledges = f"lost {self.people}"
            case CheckpointBehindGroup() | GroupMoved():
                self._acknowledge(run)

    def _acknowledge(self, run: Run) -> None:
        if self.rnd.random() < 0.4:
            self.people += 1
            run.acknowledges = f"why {self.people}"
            if run.task == "spark":
                run.task = "resolve"
        elif self.kind == "sequence":
            self.person(partial(self.acknowledge, None))
        elif run.given is not None:
            self.person(partial(self.acknowledge, run.given.batch))

    def acknowledge(self, number: int | None) -> None:
        """``reset --start current``, by window with ``--window``."""
        who, log = self._who(), self.log
        while True:
            look = Look(self.request(), self.kafka)
            _ = look.group
            batch = log.newest() if number is None else log.batch(number)
            if batch is None or by_hand.acknowledge(look, log, batch, who):
                self.counts["acknowledged"] += batch is not None
                return

    def reset(self, start: Any) -> None:
        by_hand.reset(self.request(start=start), self._who(), self.log, self.kafka, allow_duplicates=True)
        self.counts["reset"] += 1

    def _go_on_from_group(self) -> None:
        """After a lost log: delete the rows that the refusal names, or allow that they are there twice."""
        assert self.group is not None
        want, who = self.request(start=GroupStart(self.group, "earliest"), otherwise="earliest"), self._who()
        try:
            by_hand.reset(want, who, self.log, self.kafka)
        except ResetRefused as refusal:
            named = {int(m[1]): int(m[2]) for line in refusal.partitions if (m := _OFFSET.match(line))}
            if not named:
                raise
            topic_id = self.kafka.topics["orders"].topic_id
            held = self.kafka.groups.get(self.group, {})
            unknown = {p for p in named if Mark.of(held.get(TopicPartition("orders", p), CommittedOffset(0))) is None}
            self.spoilt |= {r[:3] for r in self.records if r[0] != topic_id or r[1] in unknown}
            self._forget_rows(lambda _, row: row[0] == topic_id and row[2] >= named.get(row[1], FAR))
            by_hand.reset(want, who, self.log, self.kafka, allow_duplicates=True)
            self.counts["went on from the group"] += 1

    def _accept_unknown_rows(self) -> None:
        """A log is lost, and nothing says where it was: all rows are deleted, or may be there twice."""
        self.counts["started anew"] += 1
        self.spoilt |= {r[:3] for r in self.records}
        self._forget_rows(lambda _, row: True)

    def _forget_rows(self, are: Callable[[str, Any], bool]) -> None:
        """Rows that the log does not know: half of the people delete them, the others allow them."""
        deletes = self.rnd.random() < 0.5
        for at, rows in self.sink.rows.items():
            forgotten = [row for row in rows if are(at[1], row)]
            if deletes:
                self.sink.rows[at] = [row for row in rows if row not in forgotten]
            else:
                self.twice.update(forgotten)

    def _forget_unknown_rows(self) -> None:
        """Those that an older log does not know; a person does that who acknowledges the log."""
        unknown, self.unknown = self.unknown, set()
        self._forget_rows(lambda key, _: key in unknown)

    def skip(self) -> None:
        batches = [b for b in self.batches() if not b.is_committed and not b.is_cleaned]
        ranges = [(tp, r) for b in batches[-3:] for tp, r in self.log.body(b).ranges.items() if r.end > r.start]
        if ranges:
            tp, planned = self.rnd.choice(ranges)
            offset = self.rnd.randrange(planned.start, planned.end)
            self.person(partial(self._skip, tp, OffsetRange(offset, offset + 1)))

    def _skip(self, tp: TopicPartition, skipped: OffsetRange) -> None:
        by_hand.skip(self.request(), self._who(), self.log, self.kafka, tp, skipped)
        self.counts["skip"] += 1

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────────────

    def produce_some(self) -> None:
        tp, late = self.rnd.choice(self.partitions), self.rnd.choice((0, 0, 0, 3, 15, 40))
        for _ in range(self.rnd.randint(1, 3)):
            time = max(0, self.clock - self.rnd.randint(0, late))
            self.produce(tp.partition, self.clock + 9999 if self.rnd.random() < 0.004 else time)

    def produce(self, partition: int, *times: int) -> None:
        for time in times:
            tp = TopicPartition("orders", partition)
            (offset,) = self.kafka.produce(tp, [T0 + time * UNIT_MS])
            self.records[self.identity(tp, offset)] = time

    def identity(self, tp: TopicPartition, offset: int) -> tuple[Any, ...]:
        topic = self.kafka.topics["orders"]
        return topic.topic_id, tp.partition, offset, epoch_of(topic.logs[tp.partition], offset)

    def expire(self) -> None:
        tp = self.rnd.choice(self.partitions)
        log = self.kafka.topics["orders"].logs[tp.partition]
        low = max(log.log_start_offset, log.high_watermark - 20)
        self.kafka.delete_records(tp, self.rnd.randint(low, log.high_watermark))

    def change_topic(self) -> None:
        """Unclean elections, elections, and a topic that is re-created."""
        tp = self.rnd.choice(self.partitions)
        log = self.kafka.topics["orders"].logs[tp.partition]
        what = self.rnd.random()
        if what < 0.25:
            self.kafka.elect(tp)
        elif what < 0.8:
            self.cut_log(tp, self.rnd.randint(max(log.log_start_offset, log.high_watermark - 6), log.high_watermark))
        else:
            self.recreate_topic()

    def cut_log(self, tp: TopicPartition, end: int) -> None:
        self.counts["cut log"] += 1
        self.destroyed |= {self.identity(tp, o) for o in range(end, self.high_watermark(tp))}
        self.kafka.truncate(tp, end)

    def recreate_topic(self) -> None:
        self.counts["re-created topic"] += 1
        topic_id = self.kafka.topics["orders"].topic_id
        self.destroyed |= {r for r in self.records if r[0] == topic_id}
        self.kafka.recreate_topic("orders")
        self._group_changed()  # its offsets are gone

    def compact(self) -> None:
        tp = self.rnd.choice(self.partitions)
        log = self.kafka.topics["orders"].logs[tp.partition]
        if len(log.entries) > 1:
            entry = self.rnd.choice(log.entries[:-1])
            log.entries.remove(entry)
            self.compacted.add(self.identity(tp, entry.offset)[:3])

    def move_group(self) -> None:
        held = self.kafka.groups.get(self.group or "", {})
        some = {tp: CommittedOffset(max(0, c.offset - self.rnd.randint(0, 9))) for tp, c in held.items()}
        if some:
            self.counts["moved group"] += 1
            self._group_changed()
            self.kafka.commit_as_somebody_else(self.group or "", some)

    def forget_group(self) -> None:
        self.kafka.expire(self.group or "")
        self._group_changed()

    def _group_changed(self) -> None:
        """A program that is writing to it cannot make it right any more."""
        self.is_behind = True
        for other in self.programs:
            other.is_late = other.has_mirrored

    def clean(self) -> None:
        self.person(lambda: clean(self.log, FAR * FAR, execute=True))
        self.counts["clean"] += 1

    def lose_log(self, copy: dict[str, bytes] | None = None) -> None:
        """The checkpoint location is empty, or an older copy. Spark jobs end first; what else runs ends there."""
        for other in [p for p in self.programs if p.task != "spark"]:
            self.crash(other)
        self.run_all()
        self.counts["lost log" if copy is None else "older log"] += 1
        batches = self.batches()
        for batch in batches:
            if not (batch.is_closed and (batch.is_cleaned or self.is_verified(batch))):
                self.torn.add(batch.plan.key)
                self.spoilt |= set(self.offsets_of(batch))
        if copy is None:
            self.old_logs.append([(b, self.body_of(b)) for b in batches])
        self.store.objects.clear()
        self.store.objects.update(copy or {})
        known = {batch.plan.key: batch for batch in self.batches()}
        if copy is not None:
            self.unknown = {batch.plan.key for batch in batches} - known.keys()
            safe = {batch.plan.key for batch in batches if batch.is_committed} & known.keys()
            at = self.body_of([*known.values()][-1]).resume_from if known else {}
            logs = {(offset.topic_id, tp.partition) for tp, offset in at.items()}
            rows = (row for (_, key), rows in self.sink.rows.items() for row in rows if key in safe)
            self.kept |= {row for row in rows if row[:2] in logs}
            held = self.kafka.groups.get(self.group or "", {}).values()
            if not any(mark and mark.batch > max(known, default="") for mark in map(Mark.of, held)):
                self._forget_unknown_rows()  # nothing refuses that the pipeline goes on
            self.left = dict(self.sink.attempts)
        self.copies, self.windows_done, self.is_behind = [], set(), True
        for run in self.runs.values():
            run.acknowledges = None  # on paper: an old one would accept the lost log, too
            if run.task != "done" or self.rnd.random() < 0.2:
                run.task = "resolve"

    def is_verified(self, batch: Batch) -> bool:
        log = self.log
        return not self.has_reports or verify(batch, log.body(batch), log.report).is_verified

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
