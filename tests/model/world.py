"""A world: a pipeline of one kind, its Airflow, Kafka, Spark, tables and people, one verb at a time.

Tries of resolve, spark and commit crash at any verb, or go on as zombies. Runs are cleared (all, only Spark, only the
commit; runs with a conf too, at any time later), Spark is marked as successful. What else happens is in
:mod:`~tests.model.happenings`; what people do, who act only by runs with a conf, in :mod:`~tests.model.people`. Each
world ends quietly: accidents are mended, refusals are answered as they print it, and fresh runs finish the rest.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from airflow_kafka_offsets.engine.commit import commit, needs_job
from airflow_kafka_offsets.engine.dry_run import resolve_and_compare
from airflow_kafka_offsets.engine.identity import Decided
from airflow_kafka_offsets.engine.look import Answers
from airflow_kafka_offsets.engine.turn import resolve
from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from airflow_kafka_offsets.errors import KafkaOffsetsError, StoreDamaged, WindowRefused
from airflow_kafka_offsets.kafka_values import CommittedOffset, Planned, RunKey, TopicPartition
from airflow_kafka_offsets.log.entries import Batch, Plan
from airflow_kafka_offsets.log.identity import Identity, Start
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.reports import verify
from airflow_kafka_offsets.offsets import GroupOffsets
from airflow_kafka_offsets.plan.body import Offset, PlanBody, body_from_dict
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.objects import decode
from tests.model import people, watch
from tests.model.asking import request_of
from tests.model.deployment import AirflowOf, Pipeline, Run, batches_in, identities_in
from tests.model.driver import Driver, Job, Row, Stopped, Tables, run_plain_job
from tests.model.stepping import T0, UNIT_MS, Program, SteppingCluster, SteppingStore, program

Kind = Literal["sequence", "window"]
Place = tuple[str, TopicPartition, int]
"""(origin of the topic, partition, offset)."""


_CLEARS = itertools.count()  # a run that resolves again was cleared


class World:
    """
    :ivar clusters: X; Z, which is staging: other records; Y after a migration: the records of X, other topic ids.
    :ivar conn, req_output, req_shards: what is deployed; ``true_…``: what people mean.
    :ivar asks: parameters of the DAG, whatever else is deployed.
    :ivar origins: by topic id: the topic of X that has the records.
    :ivar records: their times; ``hidden``: of aborted transactions, where readers do not see them.
    :ivar started: where the pipeline has to begin with each (origin, partition).
    :ivar deleted: places of rows that people have deleted, because they are read again.
    :ivar spoilt: places that may be missing; ``twice``: how much more often a record may be there, as people allow.
    :ivar unfair: origins of topics re-created before a migration, which nobody can notice.
    :ivar named: offsets of the group that people have named.
    :ivar lost: the objects of logs that were lost; ``settled``: their last plans of batches whose rows were all there.
    :ivar looked_before: keys of batches whose drivers have looked before a table was rolled back.
    :ivar copied: the DAG in another environment.
    """

    def __init__(self, kind: Kind, seed: int, themes: Iterable[str] = ()) -> None:
        self.kind, self.seed, self.rnd = kind, seed, random.Random(f"{kind} {seed}")
        rnd, is_sequence = self.rnd, kind == "sequence"
        self.on = {theme for theme in people.THEMES if rnd.random() < 0.35} | {*themes}
        self.has_reports = rnd.random() < 0.94
        if not self.has_reports:
            self.on -= {"outputs", "rolled back", "losses", "environments"}
        self.origins: dict[str, str] = {}
        self.clusters: dict[str, SteppingCluster] = {}
        self.conn = self.true_conn = "X"
        self.isolation_level = "read_committed" if "transactions" in self.on else "read_uncommitted"
        self.tables = Tables(rnd.random() < 0.5 and self.has_reports, self.origins)
        self.has_group = is_sequence and rnd.random() < 0.6
        start = rnd.choice(("earliest", "latest", GroupOffsets("g", "earliest")))
        shards = 2 if is_sequence and rnd.random() < 0.3 else 1
        group = "g" if self.has_group else None
        self.pipeline = Pipeline("orders", SteppingStore(partial(watch.created, self)), shards, start, group)
        self.pipelines = [self.pipeline]
        self.copied: Pipeline | None = None
        self.req_shards = shards
        self.true_output = self.req_output = "A" if is_sequence or rnd.random() < 0.6 else None
        if not self.has_reports:
            self.true_output = self.req_output = None
        self.asks: dict[str, Any] = {}
        self.stretches = rnd.choice((3, 500, 500))
        self.asks_needs_job = rnd.random() < 0.5
        self.clock, self.job_number, self.cap = 0, 0, None
        self.programs: list[Program] = []
        self.runs: dict[str, Run] = {}
        self.alive: set[str] = set()
        self.acted: list[Run] = []
        self.people = self.group_moves = self.losses = 0
        self.deletes, self.is_ending, self.chance_of_half = True, False, 0.06
        self.bad: list[str] = []
        self.errors: list[str] = []
        self.counts: Counter[str] = Counter()
        self.records: dict[Row, int] = {}
        self.hidden: set[Row] = set()
        self.open: list[tuple[Any, list[Row]]] = []
        self.destroyed: set[Row] = set()
        self.compacted: set[Row] = set()
        self.truncated: set[TopicPartition] = set()
        self.started: dict[tuple[str, TopicPartition], int] = {}
        self.known: set[tuple[str, TopicPartition]] = set()
        self.before_first: dict[tuple[str, TopicPartition], int] = {}
        self.spoilt: set[Place] = set()
        self.deleted: set[Place] = set()
        self.torn: set[str] = set()
        self.looked_before: set[str] = set()
        self.settled: dict[str, Plan] = {}
        self.counted: set[tuple[str, str, Row]] = set()
        self.twice: Counter[Row] = Counter()
        self.unfair: set[str] = set()
        self.named: set[tuple[TopicPartition, int]] = set()
        self.committed_keys: set[str] = set()
        self.windows_done: set[tuple[int, int]] = set()
        self.lost: list[tuple[Pipeline, dict[str, bytes]]] = []
        self.copies: list[dict[str, bytes]] = []
        for cluster in "XZ":
            self.add_cluster(cluster)
            self.new_topic("orders", 2, cluster)
            self.new_topic("returns", 1, cluster)
        if self.has_group and rnd.random() < 0.5:
            held = {TopicPartition("orders", 0): CommittedOffset(0)}
            self.kafka.commit_as_somebody_else("g", held)
            self.group_moves += "subscriptions" in self.on  # the first run may not subscribe to it
        for number in range(14):
            self.new_run(f"r{number}")

    # ── what there is ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def kafka(self) -> SteppingCluster:
        """The pipeline's own cluster, wherever the connection leads to."""
        return self.clusters[self.true_conn]

    @property
    def partitions(self) -> list[TopicPartition]:
        topics = self.kafka.topics
        return [TopicPartition(name, p) for name in sorted(topics) for p in sorted(topics[name].logs)]

    def add_cluster(self, name: str) -> SteppingCluster:
        self.clusters[name] = SteppingCluster(name, T0)
        self.clusters[name].on_commit = partial(watch.group_written, self)
        return self.clusters[name]

    def new_topic(self, name: str, partitions: int, cluster: str | None = None) -> None:
        kafka = self.clusters[cluster or self.true_conn]
        kafka.create_topic(name, partitions)
        self.origins[kafka.topics[name].topic_id] = kafka.topics[name].topic_id

    def origin(self, tp: TopicPartition) -> str | None:
        topic = self.kafka.topics.get(tp.topic)
        return None if topic is None else self.origins[topic.topic_id]

    def new_run(
        self,
        run_id: str,
        conf: Any = None,
        window: tuple[int, int] | None = None,
        pipeline: Pipeline | None = None,
    ) -> list[Run]:
        pipeline, window = pipeline or self.pipeline, window or self._some_window()
        runs = [Run(run_id, shard, pipeline, window, conf) for shard in range(pipeline.shards)]
        self.runs |= {run.name: run for run in runs}
        return runs

    def _some_window(self) -> tuple[int, int] | None:
        if self.kind == "sequence":
            return None
        first = self.rnd.randrange(14) * 10
        if self.rnd.random() < 0.9:
            return first, first + 10
        return first + self.rnd.choice((0, 5)), first + self.rnd.choice((10, 15, 20))

    def identities(self, pipeline: Pipeline | None = None) -> list[Identity]:
        return identities_in((pipeline or self.pipeline).store.objects, (pipeline or self.pipeline).name)

    def starts(self) -> Mapping[TopicPartition, Start]:
        """That resets have set."""
        log = self.pipeline.logs()[0]
        identity = log.identity()
        assert identity is not None
        return log.identity_body(identity).starts

    def position(self) -> dict[TopicPartition, Offset]:
        """After the newest commits, and where unfinished batches found new partitions."""
        found = dict[TopicPartition, Offset]()
        for log in self.pipeline.logs():
            identity = log.identity()
            assert identity is not None
            head = log.head()
            former = {} if head.unfinished is None else log.body(head.unfinished).resume_from
            found |= {**former, **Decided(identity).position(log, head.committed)}
        return found

    def batches(self, pipeline: Pipeline | None = None) -> list[Batch]:
        return [b for log in (pipeline or self.pipeline).logs() for b in batches_in(log)]

    def body_of(self, plan: Plan, store: SteppingStore | None = None) -> PlanBody:
        """Also of a batch that was cleaned."""
        folder = PipelineLog(MemoryStore(), plan.pipeline).folder(plan.number)
        return body_from_dict(decode((store or self.pipeline.store).bodies[f"{folder}/{plan.ranges.name}"]))

    def places_of(self, plan: Plan) -> set[Place]:
        """What a plan reads."""
        body = self.body_of(plan)
        return {
            (self.origins[str(plan.topics[tp.topic].id)], tp, o)
            for tp, r in body.ranges.items()
            if r.start < r.end
            for o in range(r.start, r.end)
            if not any(s.start_offset <= o < s.end_offset for s in body.skips.get(tp, ()))
        }

    def rows_of_key(self, output: str, key: str) -> list[list[Row]]:
        """In earlier versions of the table."""
        return [version[key] for version in self.tables.versions[output] if key in version]

    @staticmethod
    def units(time_ms: int) -> int:
        return (time_ms - T0) // UNIT_MS

    def is_gone(self, plan: Plan) -> bool:
        return bool(Answers(self.view_of_kafka, plan.isolation_level).gone(plan, self.body_of(plan)))

    @property
    def view_of_kafka(self) -> Any:
        """The cluster, for the world itself: only programs stop at verbs."""
        assert program() is None
        return self.kafka

    def is_verified(self, log: PipelineLog, batch: Batch) -> bool:
        return not self.has_reports or verify(batch, log.body(batch), log.report).is_verified

    # ── programs ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, run: Run, *, is_quiet: bool = False) -> Program:
        run.tries += 1
        self.alive.add(run.name)
        speed = 1.0 if is_quiet else self.rnd.choice((1, 1, 1, 0.1))
        calls = {"resolve": self._resolve, "spark": self._spark, "commit": self._commit}
        kafka = self.clusters[self.conn]
        self.programs.append(Program(run.task, partial(calls[run.task], run, kafka, is_quiet), run.name, speed))
        return self.programs[-1]

    def _resolve(self, run: Run, kafka: SteppingCluster, is_quiet: bool) -> ResolvedBatch | NoBatch:
        me = program()
        assert me is not None
        for tp in self.partitions:
            log, held = self.kafka.log_of(tp), self.kafka.groups.get("g", {}).get(tp)
            me.began[tp] = log.log_start_offset, log.end("read_committed"), log.high_watermark, held
        request = request_of(self, run, is_quiet=is_quiet)
        me.job, me.kafka = Job(self.job_number, self.req_output), kafka
        map_index = run.shard if request.shard else -1
        key = RunKey("dag", run.run_id, "orders", map_index, clears=str(next(_CLEARS)))
        log = PipelineLog(run.pipeline.store, request.pipeline_id)
        airflow = AirflowOf(self, run, request.pipeline_id)
        if run.conf is not None and not is_quiet and self.rnd.random() < 0.1:
            with suppress(KafkaOffsetsError):
                resolve_and_compare(request, key, log, kafka, airflow, dry=True)
            if me.created:
                self.bad.append(f"a dry run of {run.name} has written")
        return resolve(request, key, log, kafka, airflow)

    def _spark(self, run: Run, kafka: SteppingCluster, is_quiet: bool) -> None:
        work, given = run.work, run.given
        assert work is not None
        assert given is not None
        assert run.kafka is not None
        kafka = run.kafka  # its address is an argument of the job
        log = PipelineLog(run.pipeline.store, given.pipeline)
        if not given.starts_job or (self.asks_needs_job and not needs_job(given, log, kafka)):
            return
        if not self.has_reports:
            overtaken = partial(self._is_overtaken, run.pipeline, work)
            run_plain_job(kafka, self.tables, self.rnd, work.batch.plan, work.body, overtaken)
            return
        arguments = work.arguments("kafka:9092")
        path = arguments[1].removeprefix("memory://checkpoint/")
        driver = Driver(run.pipeline.store, kafka, self.tables, self.rnd, path, run.job)
        writes_half = not is_quiet and self.rnd.random() < self.chance_of_half
        driver.run(writes_half=writes_half, only_looks="--nothing-to-do" in arguments)

    def _commit(self, run: Run, kafka: SteppingCluster, is_quiet: bool) -> Any:
        assert run.given is not None
        return commit(run.given, PipelineLog(run.pipeline.store, run.given.pipeline), kafka)

    def _is_overtaken(self, pipeline: Pipeline, work: ResolvedBatch) -> bool:
        """Whether a job without a report is late: nothing stops it."""
        batch = PipelineLog(pipeline.store.view, work.log.pipeline_id).batch(work.batch.number)
        return batch is None or batch.is_closed or batch.plan.plan_id != work.batch.plan.plan_id

    def step(self, program: Program) -> None:
        if program.step():
            self.programs.remove(program)
            self._ended(program)

    def crash(self, program: Program) -> None:
        self.programs.remove(program)
        program.crash()

    def run_all(self) -> None:
        while self.programs:
            self.step(self.rnd.choice(self.programs))

    # ── what Airflow makes of it ──────────────────────────────────────────────────────────────────────────────────────

    def _ended(self, program: Program) -> None:
        error = program.error
        if error is not None:
            self.errors.append(f"{program.run} {program.task}: {error}"[:700])
            self.counts[f"Stopped: {error}"[:24] if isinstance(error, Stopped) else type(error).__name__] += 1
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
        return name is not None and any(name[1] in pipeline.store.removed for pipeline in self.pipelines)

    def _resolved(self, run: Run, program: Program) -> None:
        match program.result:
            case ResolvedBatch() as work:
                run.work, run.job, run.kafka = work, program.job, program.kafka
                run.given = work.given(job=run.job.digest if self.has_reports else None)
                run.task = "spark" if run.given.starts_job else "commit"
                if not run.given.is_rewrite:
                    run.pipeline.memory[work.log.pipeline_id] = Planned(work.key, work.batch.plan.plan_id)
            case NoBatch():
                run.task = "done"
                self.alive.discard(run.name)
                if run.window and run.pipeline is self.pipeline:
                    self.windows_done.add(run.window)
            case _:
                self.alive.discard(run.name)
                if isinstance(program.error, WindowRefused) and "overlaps" in program.error.cause and run.window:
                    windows = {batch.first_plan.window for batch in self.batches(run.pipeline)}
                    if tuple(T0 + t * UNIT_MS for t in run.window) in windows:
                        self.bad.append(f"window {run.window} is refused to a run, and it is planned")
                if self.is_ending or self.rnd.random() < 0.5:
                    people.answer(self, run, program.error)

    def _spark_ended(self, run: Run, program: Program) -> None:
        if program.error is None:
            run.task = "commit"
            return
        if self.is_ending or self.rnd.random() < 0.5:
            people.answer(self, run, program.error)
        run.task = "resolve"
        if self.rnd.random() < 0.5:
            self.alive.discard(run.name)

    def _committed(self, run: Run, program: Program) -> None:
        self.alive.discard(run.name)
        if program.error is not None:
            if self.is_ending or self.rnd.random() < 0.5:
                people.answer(self, run, program.error)
            run.task = "resolve" if self.is_ending or self.rnd.random() < 0.7 else run.task
            return
        run.task = "done"
        given = run.given
        assert given is not None
        log = PipelineLog(run.pipeline.store.view, given.pipeline)
        batch = log.batch(given.batch)
        if batch is None or not batch.plan.offsets or batch.is_cleaned or not self.has_reports:
            return
        output = batch.commits[-1].output
        is_there = batch.plan.key in self.tables.rows[str(output)]
        if is_there and self.tables.jobs[str(output), batch.plan.key] < run.job.number and not self.is_gone(batch.plan):
            self.bad.append(f"{batch} was corrected, and is in the output by the old job")
