"""The world of the model: Airflow's runs and their tasks, two pipelines, one cluster, one work store, one lake.

What happens in it is the model's to say (``test_model.py``); what must hold in it is written in ``books.py`` and
``reader.py``. Which runs are running is the model's to say too (``running``), and wrong: a run that it gives up may go
on as a zombie.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from airflow_kafka_offsets.batch.engine import take_pipeline_over
from airflow_kafka_offsets.batch.orders import TakeOver
from airflow_kafka_offsets.errors import ReadNotVerified
from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, RunKey, TopicPartition
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, read_batch
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.position import ShiftBy
from airflow_kafka_offsets.plan.topic_outputs import TOPIC
from airflow_kafka_offsets.request.parse_request import RunContext, request_for
from airflow_kafka_offsets.request.policies import Skip
from tests import engine
from tests.asked import request_parameters
from tests.cluster.memory import InMemoryCluster, MemoryTransaction
from tests.engine import Asker, Assignment, find_old, plan_batch, remove, skip_batch, skip_window
from tests.model.books import Books
from tests.model.driver import drive, drive_by_offsets, records_gone
from tests.model.lake import NO_LOG, Lake, Log
from tests.model.reader import check_log, check_windows
from tests.model.steps import Step, SteppedCluster, SteppedStore
from tests.model.store import MemoryStore

TOPICS = ("orders", "orders-2")
T = 1_704_103_200_000
NOW = 1_800_000_000_000
OF_THE_JOB = ("require_report", "given_offsets", "by_topic")


@dataclass(frozen=True)
class Handed:
    """What a resolve task pushed for the tasks after it.

    :ivar folder: of the batch, below the pipeline's; ``None``: there is nothing to do.
    """

    folder: str | None
    plan_id: str | None = None
    plan_object: str = ""
    plan: Plan | None = None
    splits: tuple[int, ...] = ()


@dataclass
class Run:
    """A DAG run: what it was asked, what its resolve task last pushed, and what works for it now.

    :ivar does: the key of the batch that it was given first, ``None`` for nothing, and when that was.
    """

    key: RunKey
    pipeline: str
    ask: dict[str, Any]
    handed: Handed | None = None
    resolve: Step | None = None
    drivers: dict[int, Step] = field(default_factory=dict)
    commit: Step | None = None
    does: tuple[int, str | None] | None = None

    @property
    def window(self) -> bool:
        return "startup_timestamp" in self.ask

    @property
    def is_done(self) -> bool:
        return self.commit is not None and self.commit.succeeded

    def __str__(self) -> str:
        return f"{self.key.dag_id}/{self.key.run_id}"


class Cluster(InMemoryCluster):
    """Its topics' ids are counted, so that what is found once is found again."""

    created = 0

    def create_topic(self, name: str, partitions: int = 1, **how: bool) -> None:
        super().create_topic(name, partitions, **how)
        self.created += 1
        self.topics[name].topic_id = f"{name}-{self.created}"


class World:
    """:param modes: of each pipeline, its parameters. :param looks: whether sinks look right before they swap."""

    def __init__(self, modes: Mapping[str, dict[str, Any]], *, looks: bool = True) -> None:
        self.modes, self.looks = modes, looks
        self.given_offsets = any(mode["given_offsets"] for mode in modes.values())
        self.cluster = Cluster()
        self.cluster.create_topic("__consumer_offsets")
        self.cluster.create_topic(TOPICS[0], 2)
        self.memory, self.copies = MemoryStore(), list[dict[str, bytes]]()
        self.lake = Lake()
        self.cuts: dict[Log, list[int]] = {}
        self.runs: list[Run] = []
        self.steps: list[Step] = []
        self.running: set[RunKey] = set()
        self.resolved: set[RunKey] = set()
        self.instance = "airflow-1"
        self.clock = 0
        self.members: list[Any] = []
        self.choices: dict[str, dict[str, str]] = {}
        self.restarts = 0
        self.edits: Counter[str] = Counter()
        self.transactions: list[MemoryTransaction] = []
        self.books = Books(self)
        self.store = SteppedStore(self.memory, self.books)
        self.stepped: Any = SteppedCluster(self.cluster, self.books)

    # ── what the use cases know of Airflow ────────────────────────────────────────────────────────────────────────────

    def is_running(self, run: RunKey) -> bool:
        return run in self.running

    def has_succeeded_before(self, run: RunKey) -> bool:
        return any(other.dag_id == run.dag_id and other != run for other in self.resolved)

    def failed_tasks(self, run: RunKey) -> list[str]:
        return []

    def timed(self, step: str) -> AbstractContextManager[None]:
        return nullcontext()

    # ── runs and their tasks ──────────────────────────────────────────────────────────────────────────────────────────

    def new_run(self, pipeline: str, ask: Mapping[str, Any]) -> Run:
        run = Run(RunKey(pipeline, f"{len(self.runs):03}", "resolve"), pipeline, dict(ask))
        self.runs.append(run)
        self.running.add(run.key)
        return run

    def start_resolve(self, run: Run, **more: Any) -> Step:
        ask = {**run.ask, **more}
        if "topic_pattern" in ask:
            ask.pop("hold", None)  # it may name what is not subscribed to
        if (end := ask.pop("end", None)) is not None:
            ask |= {"bounded_mode": "timestamp", "bounded_timestamp": end}

        def call() -> Assignment:
            modes = {name: value for name, value in self.modes[run.pipeline].items() if name not in OF_THE_JOB}
            given = {"topic_pattern": "orders.*", "auto_offset_reset": "earliest", **modes}
            given |= {"pipeline_id": run.pipeline, "output_name": self.output_of(run.pipeline), **ask}
            if given["startup_mode"] == "timestamp":
                given.setdefault("startup_timestamp", T + 3000)
                if not run.window and given.pop("bounded_timestamp", None):
                    del given["bounded_mode"]
            elif given.get("new_partition") == "timestamp":
                del given["new_partition"]
            if run.window:
                given |= {"output_name": self.windows_output_of(run.pipeline)}
            request = request_for({}, request_parameters(**given), RunContext(NOW, run_type="scheduled"))
            request = replace(request, jobs_tell=not self.modes[run.pipeline]["given_offsets"])
            asker = Asker(request, run.key, self._log(run.pipeline), self.stepped, self)
            return plan_batch(asker)

        def pushed(assignment: Assignment) -> None:
            batch, root = assignment.batch, f"{self._log(run.pipeline).root}/"
            self.resolved.add(run.key)
            run.drivers, run.commit = {}, None
            plan = batch.log.plan if batch else None
            self._remove_what_stays_behind(plan)
            self._require_same(run, plan.batch.key if plan and plan.batch else None)
            if batch is None or plan is None:
                run.handed = Handed(None)
                return
            folder = batch.folder.removeprefix(root)
            run.handed = Handed(folder, plan.plan_id, batch.plan_object, plan, assignment.splits)

        run.resolve, run.drivers, run.commit = self._step("resolve", run, ask, call, pushed), {}, None
        self.running.add(run.key)
        return run.resolve

    def _remove_what_stays_behind(self, plan: Plan | None) -> None:
        """A person does what the warning says."""
        for warning in plan.warnings if plan else ():
            if match := re.match(r"Rows of (.+?) stay behind in '(.+?)'\.", warning):
                self.lake.remove(match[2], [match[1]])

    def _require_same(self, run: Run, key: str | None) -> None:
        """A run that was given a batch is never given another one."""
        if run.does is None or run.does[0] < self.books.store_changed_at:
            run.does = (self.books.now, key)
        assert run.does[1] == key, f"{run} did {run.does[1] or 'nothing'}, and is given {key or 'nothing'}"

    def start_driver(self, run: Run, split: int, *, short: bool = False) -> Step:
        handed = run.handed
        assert handed is not None
        modes = self.modes[run.pipeline]
        short = short and modes["require_report"]  # such a job has to make one

        def call() -> None:
            if modes["given_offsets"]:
                drive_by_offsets(self, handed, split)
            else:
                drive(self, handed, split, short=short)

        run.drivers[split] = self._step("spark", run, run.ask, call)
        return run.drivers[split]

    def start_commit(self, run: Run) -> Step:
        handed = run.handed
        assert handed is not None
        me = Actor(run.key, self.instance)
        pipeline, require_report = run.pipeline, self.modes[run.pipeline]["require_report"]
        if not all((driver := run.drivers.get(split)) and driver.succeeded for split in handed.splits):
            self.books.on_marked_as_done(handed.plan)

        def call() -> engine.CommitOutcome:
            log = self._log(pipeline)
            asked = engine.PlanReference(handed.folder, handed.plan_id)
            try:
                return engine.commit_batch(asked, log, self.stepped, me, now_ms=NOW, require_report=require_report)
            except ReadNotVerified:
                self.books.require_refusal(step, f"{log.root}/{handed.folder}")
                raise

        def succeeded(outcome: engine.CommitOutcome) -> None:
            self.running.discard(run.key)
            assert not (handed.plan and handed.plan.withdrawn), f"{run} is green, and its window was withdrawn"
            self.books.on_success(step, handed.folder, outcome.group.left_alone)
            if run.window:  # what a lost store has left beside the log's batches is the next batch's to find
                check_windows(self, pipeline)
            else:
                self.check(pipeline)

        step = run.commit = self._step("commit", run, run.ask, call, succeeded)
        self.running.add(run.key)
        return step

    def _step(self, kind: str, run: Run, ask: Mapping[str, Any], call: Any, on_return: Any = lambda _: None) -> Step:
        step = Step(kind, run, ask, call, self.books.tick, on_return)
        step.group_at_birth = dict(self.group_of(run.pipeline))
        folders = [folder for _, folder in self.books.batches(run.pipeline)]
        step.verified = {folder for folder in folders if self.books.verified(folder)}
        step.verified_splits = {(folder, n) for folder in folders for n in self.books.verified_splits(folder)}
        step.log_starts = {
            (self.cluster.cluster_id, topic.topic_id, partition): log.log_start_offset
            for topic in self.cluster.topics.values()
            for partition, log in topic.logs.items()
        }
        self.steps = [old for old in self.steps if not old.done] + [step]
        return step

    def start_skip(self, pipeline: str, key: str, *, window: bool) -> Step:
        """A person gives up an unfinished batch or a window, at the command line."""
        skip = skip_window if window else skip_batch
        order = Skip(key, reason="by hand")
        return self._by_hand("skip", pipeline, lambda: skip(self._log(pipeline), order, now_ms=NOW, dry_run=False))

    def start_reset(self, pipeline: str, by: int | None) -> Step:
        """A person moves the position forward.

        :param by: so many offsets; ``None``: to the end.
        """
        target = "latest-offset" if by is None else ShiftBy(by)
        order = engine.Reset(target, "by hand")
        me = Actor(None, self.instance)
        reset = partial(engine.reset_position, self._log(pipeline), self.stepped, me, order, now_ms=NOW, dry_run=False)
        return self._by_hand("reset", pipeline, reset, skip=True)

    def start_redo(self, pipeline: str, folder: str) -> Step:
        """A person does a committed batch again; its Spark jobs come next."""
        me = Actor(None, self.instance)

        def call() -> None:
            batch = read_batch(self.store, folder)
            if batch is not None:
                engine.redo(batch, self.stepped, me, now_ms=NOW)

        return self._by_hand("redo", pipeline, call)

    def run_by_hand(self, pipeline: str, folder: str) -> Run | None:
        """What ``redo`` prints for Spark, as a run that Airflow knows nothing of."""
        batch = read_batch(self.store, folder)
        if batch is None:
            return None
        plan = batch.log.plan
        splits = tuple(sorted(plan.splits_with_rows()))
        handed = Handed(
            folder.removeprefix(f"{self._log(pipeline).root}/"), plan.plan_id, batch.plan_object, plan, splits
        )
        return Run(RunKey("a-person", "", ""), pipeline, {}, handed)

    def start_take_over(self, pipeline: str) -> Step:
        """A person lets the Airflow that there is now have the pipeline."""
        order = TakeOver(Actor(None, self.instance), NOW)
        world = engine.World(self._log(pipeline), self.stepped)
        return self._by_hand("take over", pipeline, lambda: take_pipeline_over(order, world))

    def start_clean(self) -> Step:
        """A person removes what is old; here all that is over is old."""

        def call() -> None:
            for removal in find_old(self.store, NOW + 1):
                remove(removal)

        return self._by_hand("clean", next(iter(self.modes)), call)

    def _by_hand(self, what: str, pipeline: str, call: Any, **ask: Any) -> Step:
        person = Run(RunKey("a-person", "", ""), pipeline, {what: True, **ask})
        return self._step(what, person, person.ask, call)

    def next_steps(self, run: Run) -> list[Step]:
        """What Airflow does next for a run: the tasks after those that succeeded, or a retry of those that failed."""
        if run.resolve is None or (run.resolve.done and not run.resolve.succeeded):
            return [self.start_resolve(run)]
        if not run.resolve.done:
            return [run.resolve]
        handed = run.handed
        assert handed is not None
        drivers = [
            self.start_driver(run, split)
            if (driver := run.drivers.get(split)) is None or (driver.done and not driver.succeeded)
            else driver
            for split in handed.splits
        ]
        waiting = [driver for driver in drivers if not driver.succeeded]
        if waiting:
            return waiting
        if run.commit is None or (run.commit.done and not run.commit.succeeded):
            return [self.start_commit(run)]
        return [] if run.commit.done else [run.commit]

    def open_steps(self) -> list[Step]:
        return [step for step in self.steps if not step.done]

    # ── what is where ─────────────────────────────────────────────────────────────────────────────────────────────────

    def output_of(self, pipeline: str) -> str:
        """What the DAG names now."""
        return self.outputs_of(pipeline)[self.edits[pipeline] % 2]

    def outputs_of(self, pipeline: str) -> tuple[str, str]:
        each = f"/{TOPIC}" if self.modes[pipeline]["by_topic"] else ""
        return f"/lake/{pipeline}{each}", f"/lake/{pipeline}-moved{each}"

    def windows_output_of(self, pipeline: str) -> str:
        return f"{self.output_of(pipeline)}-windows"

    def group_of(self, pipeline: str) -> dict[TopicPartition, CommittedOffset]:
        return self.cluster.groups.get(self.modes[pipeline]["group_id"], {})

    def held(self, group_id: str | None, tp: TopicPartition) -> CommittedOffset | None:
        return self.cluster.groups.get(group_id or "", {}).get(tp)

    def _log(self, pipeline: str) -> PipelineLog:
        return PipelineLog(self.store, pipeline)

    def unfinished(self, pipeline: str) -> Plan | None:
        """The plan of the batch that is not committed."""
        for _, folder in self.books.batches(pipeline):
            if not self.books.committed(folder) and (planned := self.books.planned(folder)):
                return planned.plan
        return None

    def skippable(self, pipeline: str, *, window: bool) -> list[str]:
        """What a person may name: the unfinished batch's key, or windows'."""
        if window:
            return [plan.batch.key for plan in self._windows(pipeline) if plan.batch]
        plan = self.unfinished(pipeline)
        return [plan.batch.key] if plan and plan.batch else []

    def unfinished_windows(self, pipeline: str) -> list[tuple[str, dict[str, Any]]]:
        """Key and bounds of the windows that nobody has committed."""
        found = []
        for plan in self._windows(pipeline):
            assert plan.batch is not None
            assert plan.asked.window_bounds is not None
            if plan.batch.key not in self.books.windows:
                start, end = plan.asked.window_bounds
                bounds = {"startup_mode": "timestamp", "startup_timestamp": start}
                found.append((plan.batch.key, {**bounds, "bounded_mode": "timestamp", "bounded_timestamp": end}))
        return found

    def _windows(self, pipeline: str) -> list[Plan]:
        start = f"pipelines/{pipeline}/windows/"
        folders = [folder for folder in self.books.logs if folder.startswith(start)]
        return [planned.plan for folder in folders if (planned := self.books.planned(folder))]

    def cut_at(self, log: Log, offset: int) -> int:
        """How often the log was cut at or below the offset."""
        return sum(end <= offset for end in self.cuts.get(log, ()))

    def was_cut(self, log: Log) -> bool:
        return log in self.cuts

    def log_start(self, log: Log) -> int:
        for topic in self.cluster.topics.values():
            if topic.topic_id == log[1] and log[2] in topic.logs and self.cluster.cluster_id == log[0]:
                return topic.logs[log[2]].log_start_offset
        return NO_LOG

    def is_left_as_it_is(self, run: Run) -> bool:
        """Whether nobody can do the run's batch once more: it is committed, not verified, and its records are gone."""
        handed = run.handed
        if handed is None or handed.plan is None:
            return False
        folder = handed.plan_object.rpartition("/")[0]
        gone = any(records_gone(self, handed.plan, split) for split in range(len(handed.plan.splits)))
        return gone and self.books.committed(folder) is not None and not self.books.verified(folder)

    # ── what people, Kafka and disks do ───────────────────────────────────────────────────────────────────────────────

    def produce(self, tp: TopicPartition, count: int, late: int = 0) -> None:
        self.clock += 1
        self.cluster.produce(tp, [T + 1000 * max(0, self.clock - late)] * count)

    def transact(self, tp: TopicPartition, count: int) -> None:
        self.clock += 1
        transaction = self.cluster.begin_transaction()
        transaction.produce(tp, [T + 1000 * self.clock] * count)
        self.transactions.append(transaction)

    def end_transactions(self, *, aborted: bool) -> None:
        while self.transactions:
            transaction = self.transactions.pop()
            transaction.written = [tp for tp in transaction.written if self._is_open(transaction, tp)]
            transaction.abort() if aborted else transaction.commit()

    def _is_open(self, transaction: MemoryTransaction, tp: TopicPartition) -> bool:
        """Whether its topic is the one that it wrote to, and no election has cut what it wrote."""
        topic = self.cluster.topics.get(tp.topic)
        return topic is not None and tp.partition in topic.logs and id(transaction) in topic.logs[tp.partition].open

    def truncate(self, tp: TopicPartition, end_offset: int) -> None:
        """An unclean election. From here on other records are at and after ``end_offset``."""
        self.cluster.truncate(tp, end_offset)
        log = (self.cluster.cluster_id, self.cluster.topics[tp.topic].topic_id, tp.partition)
        self.cuts.setdefault(log, []).append(end_offset)

    def elect_leaders(self) -> None:
        """Each partition that nobody leads is led again."""
        for name, topic in self.cluster.topics.items():
            for number, log in topic.logs.items():
                if log.leader is None:
                    self.cluster.elect(TopicPartition(name, number))

    def recreate_topic(self, name: str) -> None:
        self.cluster.recreate_topic(name)
        self.books.on_group_changed()

    def delete_topic(self, name: str) -> None:
        self.cluster.delete_topic(name)
        self.books.on_group_changed()

    def expire(self, group_id: str, partitions: list[TopicPartition] | None) -> None:
        self.cluster.expire(group_id, partitions)
        self.books.on_group_changed()

    def commit_as_somebody(self, group_id: str, tp: TopicPartition, offset: int) -> None:
        written = {tp: CommittedOffset(offset)}
        self.cluster.commit_as_somebody_else(group_id, written)
        self.books.on_somebody_writes(written)

    def replace_cluster(self) -> None:
        """Another cluster answers; what it has of the topics and of the group came with it, or has not."""
        old = dict(self.cluster.topics)
        self.cluster.cluster_id = f"memory-{self.cluster.created}"
        for name, topic in old.items():
            if name != "__consumer_offsets":
                self.cluster.recreate_topic(name, len(topic.logs))
        self.cluster.pending.clear()
        self.books.on_group_changed()

    def member_joins(self, group_id: str, topic: str) -> None:
        member = self.cluster.live_member(group_id, topic)
        member.__enter__()
        self.members.append(member)

    def members_leave(self) -> None:
        while self.members:
            self.members.pop().__exit__(None, None, None)

    def copy_store(self) -> None:
        self.copies.append(dict(self.memory.objects))

    def lose_store(self, copy: int | None) -> None:
        """:param copy: which older copy is put back; ``None``: the store is empty."""
        restored = self.copies[-1 - copy % len(self.copies)] if copy is not None and self.copies else {}
        self.memory.replace(dict(restored))
        self.books.on_store()

    def remove_unknown(self, run: Run, keys: list[str]) -> None:
        """A person does what ``UnknownOutput`` says."""
        assert run.handed is not None
        assert run.handed.plan is not None
        self.books.on_removed(run.pipeline, keys, run.handed.plan)
        self.lake.remove(run.handed.plan.asked.output or "", keys)

    # ── what must hold ────────────────────────────────────────────────────────────────────────────────────────────────

    def check(self, pipeline: str) -> None:
        check_log(self, pipeline)
        check_windows(self, pipeline)
