"""The world of the model: one group, two pipelines on it, and a bookkeeping that knows more than the code under test.

The oracle sees each object that is written to the work store and each commit that reaches the group, and knows from
that, not from what the code says of itself:

- ``outputs``: what each run's output holds, by split: an attempt empties its split, the end of its sink fills it;
- ``accounted``: of each pipeline and log, the offsets that a landed plan has read, or counted as lost or skipped, or
  that the startup mode of the pipeline's first plan passed over;
- ``successes``: the outputs of the runs whose commit returned and that have not begun anew since, windows apart;
  ``promised``: what each run's output held when its commit last returned, which a later success must hold as well;
- ``looks``: what each step has seen of the group. A commit replaces only what its plan was made upon, or its own.

Which runs live is the model's to say (``alive``), and wrong: a run that it gives up may go on as a zombie.

A log is a topic's *id* and a partition: a topic that is created again is another log. What a person orders to be read
twice (``restart``, ``on_group_moved``) begins another *epoch* of the log: only within one epoch two outputs with one
record are a fault. What is written after an unclean election at offsets that were taken before is another record. One
state of affairs is excused, see :meth:`World.forget`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.committing import commit_run
from airflow_kafka_offsets.errors import DataLoss
from airflow_kafka_offsets.frozen_plans import plan_run
from airflow_kafka_offsets.offsets.assign import split_plan, started_splits
from airflow_kafka_offsets.offsets.checkpoint import Checkpoint
from airflow_kafka_offsets.offsets.commits import CommitMark
from airflow_kafka_offsets.offsets.manifest import plan_from_dict
from airflow_kafka_offsets.offsets.model import ClusterDescription, CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan, PlannedPartition
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.offsets.unblock import parse_unblock
from airflow_kafka_offsets.offsets.verify import PartitionRead, ReadReport
from airflow_kafka_offsets.planner import request_for
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.objects import WorkStore, decode
from airflow_kafka_offsets.stores.reads import begin_read_unless_replaced, store_report
from airflow_kafka_offsets.stores.runs import find_plan, store_plan
from airflow_kafka_offsets.unblocking import unblock
from tests.cluster.memory import InMemoryCluster
from tests.model.steps import Place, Step, SteppedCluster, current_step

GROUP = "g"
TOPICS = ("orders", "orders-2")
T = 1_704_103_200_000

Log = tuple[str, int]  # topic id, partition
Held = dict[
    Log, dict[int, tuple[int, int]]
]  # which records an output has: by offset its epoch and how often it was cut


@dataclass
class Run:
    """A DAG run: what it was asked, the plan that its resolve task last pushed, and what works for it now."""

    key: RunKey
    pipeline: str
    ask: dict[str, Any]
    plan: OffsetPlan | None = None
    airflows_copy: OffsetPlan | None = None
    steps: list[tuple[str, Step]] = field(default_factory=list)

    @property
    def last(self) -> Step | None:
        return self.steps[-1][1] if self.steps else None

    @property
    def window(self) -> bool:
        return "startup_timestamp" in self.ask

    def take(self, task: str, step: Step) -> None:
        self.steps.append((task, step))


@dataclass(frozen=True)
class Output:
    """What a split of a run's output holds; not ``whole``: an attempt has begun and not ended.

    :ivar moment: how many logs had been cut when it was read.
    """

    plan: OffsetPlan
    split: int
    whole: bool
    moment: int


class Cluster(InMemoryCluster):
    """Its topics' ids are counted, so that what is found once is found again."""

    created = 0

    def create_topic(self, name: str, partitions: int = 1, **how: bool) -> None:
        super().create_topic(name, partitions, **how)
        self.created += 1
        self.topics[name].topic_id = f"{name}-{self.created}"


class World:
    def __init__(self, folder: Path, fencing: str, modes: Mapping[str, dict[str, Any]]) -> None:
        """``fencing``: of the group; ``modes``: by pipeline its parameters, its ``commit_mode`` and that of windows."""
        self.fencing, self.modes = fencing, modes
        self.cluster = Cluster()
        self.cluster.create_topic("__consumer_offsets", internal=True)
        self.cluster.create_topic(TOPICS[0], 2)
        self.stepped = SteppedCluster(self.cluster, self)
        self.folder = folder
        self.store = WorkStore(Place(folder, self._on_object), str(folder))
        self.runs: list[Run] = []
        self.alive: set[RunKey] = set()
        self.commands: list[tuple[str, Step]] = []  # of a person, each with its pipeline
        self.clock = 0
        self.words = 0
        self.members: list[Any] = []
        # The oracle's own.
        self.plans: dict[str, OffsetPlan] = {}
        self.plan_epochs: dict[str, dict[Log, int]] = {}
        self.checkpoints: dict[str, Checkpoint] = {}
        self.checkpoint_epochs: dict[str, dict[Log, int]] = {}
        self.latest_epochs: dict[str, dict[Log, int]] = defaultdict(dict)
        self.restarts: dict[str, int] = {}
        self.outputs: dict[RunKey, dict[int, Output]] = defaultdict(dict)
        self.accounted: dict[tuple[str, Log], set[int]] = defaultdict(set)
        self.read_up_to: dict[tuple[str, Log, int], int] = {}
        self.successes: dict[RunKey, Held] = {}
        self.windows: dict[RunKey, Held] = {}
        self.promised: dict[RunKey, Held] = {}
        self.looks: dict[Step, list[Mapping[TopicPartition, CommittedOffset]]] = defaultdict(list)
        self.described: dict[Step, Mapping[str, str | None]] = {}
        self.cuts: list[tuple[Log, int]] = []
        self.verified: dict[Step, OffsetPlan] = {}
        self.commits_of: dict[Step, OffsetPlan] = {}
        self.landed: set[str] = set()
        self.landed_by: set[Step] = set()
        self.begun_pipelines: set[str] = set()
        self.known: set[tuple[str, Log]] = set()
        self.hurt: set[str] = set()
        self.forgotten: set[tuple[str, Log]] = set()

    # ── what people, Airflow and Kafka do ─────────────────────────────────────────────────────────────────────────────

    def produce(self, tp: TopicPartition, count: int, late: int = 0) -> None:
        self.clock += 1
        self.cluster.produce(tp, [T + 1000 * max(0, self.clock - late)] * count)

    def truncate(self, tp: TopicPartition, end_offset: int) -> None:
        """An unclean election. From here on other records are at and after ``end_offset``."""
        self.cluster.truncate(tp, end_offset)
        self.cuts.append(((self.cluster.topics[tp.topic].topic_id, tp.partition), end_offset))

    def new_run(self, pipeline: str, ask: dict[str, Any]) -> Run:
        run = Run(RunKey(pipeline, f"{len(self.runs):03}", "resolve"), pipeline, ask)
        self.runs.append(run)
        self.alive.add(run.key)
        return run

    def is_alive(self, run: RunKey) -> bool:
        return run in self.alive

    def resolve(self, run: Run, **more: Any) -> Step:
        given = {
            "topic_pattern": "orders.*",
            "group_id": GROUP,
            "checkpoint_id": run.pipeline,
            "auto_offset_reset": "earliest",
            **{name: value for name, value in self.modes[run.pipeline].items() if "commit_mode" not in name},
            **run.ask,
            **more,
            "run": run.key,
            "run_type": "scheduled",
        }

        def call() -> OffsetPlan:
            if run.airflows_copy and find_plan(self.store, run.key) is None:  # as ``recover_plan`` of the operator
                store_plan(self.store, run.key, run.airflows_copy)
            return plan_run(request_for({}, given), run.key, self.store, self.stepped, is_alive=self.is_alive).plan

        def pushed(plan: OffsetPlan) -> None:
            run.plan = run.airflows_copy = plan

        step = Step(call, pushed)
        run.take("resolve", step)
        self.alive.add(run.key)
        return step

    def next_task(self, run: Run) -> Step | None:
        match run.steps[-1] if run.steps else ("commit", None):
            case "resolve", step if step.succeeded:
                return self.read(run)
            case "read", step if step.succeeded:
                return self.commit(run)
            case "commit", step if step is not None and step.succeeded:
                return None
            case "commit", step if step is not None and run.plan:
                return self.commit(run)
            case "read", _ if run.plan:
                return self.read(run)
        return self.resolve(run)

    def read(self, run: Run, short: bool = False) -> Step:
        """The Spark jobs of the plan's splits, one after the other. ``short``: one exits 0 and has read half."""
        plan = run.plan
        assert plan is not None
        for kind, older in run.steps:
            if kind == "read" and not older.at.startswith(("start", "write begun")):
                older.kill()  # two drivers that write one output at one moment are the sink's matter, not a plan's

        def call() -> None:
            for split in started_splits(plan):
                attempt = begin_read_unless_replaced(self.store, plan, split, None)
                reads = {}
                for p in split_plan(plan)[split]:
                    self._require_records(plan, p)
                    count = p.range.size - (1 if short else 0)
                    if count:
                        reads[p.topic_partition] = PartitionRead(count, p.start_offset, p.start_offset + count - 1)
                store_report(self.store, ReadReport(plan.plan_id, split, attempt, "counts", reads))

        step = Step(call)
        run.take("read", step)
        return step

    def _require_records(self, plan: OffsetPlan, p: PlannedPartition) -> None:
        """Spark fails where records are gone (``failOnDataLoss``)."""
        topic = self.cluster.topics[p.topic_partition.topic]
        log = topic.logs[p.topic_partition.partition]
        gone = topic.topic_id != plan.topic_ids[p.topic_partition.topic]
        if gone or log.log_start_offset > p.start_offset or log.high_watermark < p.end_offset:
            raise DataLoss([f"{p.topic_partition}: Spark finds records gone"], "")

    def commit(self, run: Run) -> Step:
        plan = run.plan
        assert plan is not None
        mode = self.modes[run.pipeline].get("window_commit_mode" if plan.window else "commit_mode")
        step = Step(
            lambda: commit_run(
                plan,
                self.store,
                self.stepped,  # type: ignore[arg-type]
                commit_mode=mode,
                fencing=self.fencing,
                is_alive=self.is_alive,
            ),
            lambda _: self._on_success(run, plan, step),
        )
        run.take("commit", step)
        self.alive.add(run.key)
        self.commits_of[step] = plan
        self._notice_verified()
        return step

    def unblock(self, pipeline: str, tp: TopicPartition, to: int, ways: Mapping[str, str], asks_airflow: bool) -> Step:
        """A person gives up what lies below ``to``; ``asks_airflow``: as ``airflow kafka-offsets`` does."""
        request = parse_unblock(
            {tp.topic: {str(tp.partition): to}},
            checkpoint_id=pipeline,
            on_group_moved=ways.get("on_group_moved", "fail"),
        )
        step = Step(
            lambda: unblock(
                request,
                self.store,
                self.stepped,  # type: ignore[arg-type]
                commit_mode=self.modes[pipeline].get("commit_mode"),
                fencing=self.fencing,
                is_alive=self.is_alive if asks_airflow else None,
            )
        )
        self.commands.append((pipeline, step))
        return step

    def newest_checkpoint(self, pipeline: str) -> Checkpoint | None:
        return CheckpointChain(self.store, self.cluster.cluster_id, pipeline).newest()

    # ── what the oracle sees ──────────────────────────────────────────────────────────────────────────────────────────

    def _on_object(self, path: Path, data: bytes) -> None:
        value = decode(data)
        assert value is not None
        kind = path.name.split(".")[0]
        top = path.relative_to(self.folder).parts[0]
        if kind == "checkpoint":
            self._on_checkpoint(Checkpoint.from_dict(value))
        elif top in ("plans", "plans-of-no-run") and kind == "plan":
            self._on_plan(plan_from_dict(value))
        elif kind in ("begun", "report"):
            self._on_read(self.plans[value["plan_id"]], value["split"], value if kind == "report" else None)

    def _on_plan(self, plan: OffsetPlan) -> None:
        if plan.run is not None:
            self.windows.pop(plan.run, None)  # planned anew: its output is to be overwritten
            self._require_order_to_move(plan)
        if plan.plan_id in self.plans or plan.window:
            self.plans.setdefault(plan.plan_id, plan)
            return
        pipeline = plan.checkpoint_id or ""
        self.plans[plan.plan_id] = plan
        ordering = {run.key for run in self.runs if "on_group_moved" in run.ask}
        epochs = self.checkpoint_epochs[plan.parent or ""]
        self.plan_epochs[plan.plan_id] = mine = {}
        for p in plan.partitions:
            log = self.log(plan, p)
            epoch = epochs.get(log, 0)
            again = p.start_offset < self.read_up_to.get((pipeline, log, epoch), 0)
            backwards = p.continuity in ("overlap", "rewind", "truncated") or p.moved_back_by == "keep-checkpoint"
            ordered = (
                (backwards and plan.run in ordering)
                or p.moved_back_by == "on_data_loss"  # the log was cut below the position
                or plan.run is None  # unblock, from where on_group_moved says
            )
            if again and (ordered or self._excused(pipeline, log)):
                epoch = self.latest_epochs[pipeline].get(log, 0) + 1
            mine[log] = epoch
            self.latest_epochs[pipeline][log] = max(epoch, self.latest_epochs[pipeline].get(log, 0))
            if (pipeline, log) not in self.known:
                self.known.add((pipeline, log))
                if pipeline in self.begun_pipelines:  # a new partition: nothing that is still there may be passed over
                    assert p.start_offset <= p.log_start_offset, f"{p.topic_partition} is new, and {p} skips records"
                self.accounted[pipeline, log] |= set(range(p.start_offset))
            elif self._excused(pipeline, log):
                self.accounted[pipeline, log] |= set(range(p.start_offset))
            if p.continuity in ("new", "re-created"):  # no checkpoint holds it yet: what is gone was never promised
                self.accounted[pipeline, log] |= set(range(min(p.start_offset, p.log_start_offset)))
        self.begun_pipelines.add(pipeline)

    def _require_order_to_move(self, plan: OffsetPlan) -> None:
        """A plan that was made upon another offset than its checkpoint saw in the group was ordered to be."""
        parent = self.checkpoints.get(plan.parent or "")
        ask = next(run.ask for run in self.runs if run.key == plan.run)
        if parent is None or ask.keys() & {"on_group_moved", "restart"}:
            return
        for p in plan.partitions:
            tp = p.topic_partition
            if tp not in parent.offsets or parent.topic_ids[tp.topic] != plan.topic_ids[tp.topic]:
                continue
            seen = parent.offsets[tp].group_offset
            assert p.base_offset in (None, seen), f"{plan.run} takes {tp} from {p.base_offset}, unasked; it was {seen}"

    def _on_checkpoint(self, checkpoint: Checkpoint) -> None:
        pipeline = checkpoint.checkpoint_id
        self.checkpoints[checkpoint.id] = checkpoint
        restarts = len(checkpoint.restart.split("\n")) if checkpoint.restart else 0
        self.restarts[checkpoint.id] = restarts
        before = self.checkpoint_epochs.get(checkpoint.parent or "", self.latest_epochs[pipeline])
        epochs = {**before, **self.plan_epochs.get(checkpoint.plan_id or "", {})}
        if checkpoint.plan_id is None:
            anew = restarts > self.restarts.get(checkpoint.parent or "", 0)
            for tp, kept in checkpoint.offsets.items():
                log = (checkpoint.topic_ids[tp.topic] or "", tp.partition)
                if anew:  # a person ordered the startup mode to decide again
                    epochs[log] = self.latest_epochs[pipeline].get(log, -1) + 1
                    self.latest_epochs[pipeline][log] = epochs[log]
                if anew or pipeline not in self.begun_pipelines or self._excused(pipeline, log):
                    self.known.add((pipeline, log))
                    self.accounted[pipeline, log] |= set(range(kept.offset))
        elif checkpoint.plan_id not in self.landed:
            self._on_landed(self.plans[checkpoint.plan_id])
        self.checkpoint_epochs[checkpoint.id] = epochs
        self.hurt.discard(pipeline)
        self.forgotten = {(other, log) for other, log in self.forgotten if other != pipeline}

    def on_describe(self, described: ClusterDescription) -> None:
        step = current_step()
        if step is not None:
            self.described[step] = {name: topic.topic_id for name, topic in described.topics.items()}

    def on_look(self, found: Mapping[TopicPartition, CommittedOffset]) -> None:
        """A committer's last look at the group is its last at the reports: what was whole before it does not count."""
        step = current_step()
        if step is None:
            return
        self.looks[step].append(found)
        if step not in self.landed_by and self.verified.pop(step, None):
            self._notice_verified()

    def on_commit(
        self, before: Mapping[TopicPartition, CommittedOffset], landed: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        step = current_step()
        assert step is not None
        for plan_id in {mark.plan_id for commit in landed.values() if (mark := CommitMark.of(commit))}:
            plan = self.commits_of.get(step) or self.plans[plan_id]
            assert plan.plan_id == plan_id
            for p in plan.partitions:
                if p.topic_partition in landed:
                    self._require_base(step, plan, p, before.get(p.topic_partition))
                    self._require_not_back(plan, p, before.get(p.topic_partition))
            self._on_landed(self.plans[plan_id])
        self.forget()

    def _require_base(self, step: Step, plan: OffsetPlan, p: PlannedPartition, before: CommittedOffset | None) -> None:
        """Nobody's commit is replaced unseen. ``compare`` does not hold off who comes after the last look."""
        tp = p.topic_partition
        found = self.described[step].get(tp.topic)  # what is made anew after that look is not noticed
        assert found == plan.topic_ids[tp.topic], f"{plan.run} commits to another log of {tp}, {found}"
        if self.fencing == "compare" and before is not self.looks[step][-1].get(tp):
            return
        base = p.start_offset if plan.window else p.base_offset
        if plan.run is None:  # the same plan may be made twice, upon another base
            base = getattr(self.looks[step][0].get(tp), "offset", None)
        mark = CommitMark.of(before)
        own = mark is not None and mark.plan_id == plan.plan_id
        assert before is None or own or before.offset == base, f"{plan.run} replaces {before} at {tp}, made upon {base}"
        moved = plan.window and mark is not None and not mark.window
        assert not moved, f"window {plan.run} replaces the position {before} of {tp}"

    def _require_not_back(self, plan: OffsetPlan, p: PlannedPartition, before: CommittedOffset | None) -> None:
        """A run that is cleared after the pipeline has gone on does not set the group back.

        It may renew its own commit: a restart moves the checkpoint, and the group only when its run has committed.
        """
        if before is not None and before.offset == p.end_offset:
            return
        newest = self.newest_checkpoint(plan.checkpoint_id or "")
        if plan.window or newest is None or newest.id == plan.parent or self.fencing == "compare":
            return
        kept = newest.offsets.get(p.topic_partition)
        if kept is not None and newest.topic_ids[p.topic_partition.topic] == plan.topic_ids[p.topic_partition.topic]:
            assert p.end_offset >= kept.offset, f"{plan.run} sets {p.topic_partition} back to {p.end_offset}: {kept}"

    def _on_landed(self, plan: OffsetPlan) -> None:
        """A commit of ``plan`` has reached the group, or its checkpoint the store: its ends are the position."""
        step = current_step()
        assert step is not None
        read = step in self.verified or (plan.run is None and not plan.to_read())
        assert read, f"{plan.plan_id} of {plan.run} is committed, and its output was not whole"
        self.landed.add(plan.plan_id)
        self.landed_by.add(step)
        if plan.window:
            return
        pipeline = plan.checkpoint_id or ""
        for p in plan.partitions:
            log = self.log(plan, p)
            accounted = self.accounted[pipeline, log]
            accounted |= set(range(p.start_offset - p.lost - p.skipped, p.end_offset))
            jumped = set(range(p.end_offset)) - accounted
            assert not jumped, f"{pipeline} is at {p.end_offset} of {p.topic_partition}, past {sorted(jumped)}"
            key = (pipeline, log, self.plan_epochs[plan.plan_id][log])
            self.read_up_to[key] = max(p.end_offset, self.read_up_to.get(key, 0))

    def _on_read(self, plan: OffsetPlan, split: int, report: dict[str, Any] | None) -> None:
        assert plan.run is not None
        whole = False
        if report is not None:
            rows = sum(sum(columns["record_count"]) for columns in report["topics"].values())
            whole = rows == sum(p.range.size for p in split_plan(plan)[split])
        self.outputs[plan.run][split] = Output(plan, split, whole, len(self.cuts))
        if report is None:
            self.windows.pop(plan.run, None)
            self.successes.pop(plan.run, None)  # it is being written anew; without another commit it is nobody's
        self._notice_verified()

    def _notice_verified(self) -> None:
        """Which commits may count on a whole output: it was so at some moment since their last look."""
        for step, plan in self.commits_of.items():
            outputs = self.outputs[plan.run] if plan.run else {}
            whole = {(split, output.plan.plan_id) for split, output in outputs.items() if output.whole}
            if whole >= {(split, plan.plan_id) for split in started_splits(plan)}:
                self.verified[step] = plan

    def _on_success(self, run: Run, plan: OffsetPlan, step: Step) -> None:
        """The commit task succeeded: from here on people use the output.

        Not where the reads were cleared after this commit had verified them: Airflow clears the commit with them, so
        the one that returns is a zombie, and the new attempt needs a commit of its own.
        """
        assert step in self.verified, f"{run.key} succeeded, and its output was not whole at any time meanwhile"
        self.alive.discard(run.key)
        if not all(output.whole for output in self.outputs[run.key].values()):
            return
        held: Held = defaultdict(dict)
        for output in self.outputs[run.key].values():
            for p in split_plan(output.plan)[output.split]:
                log = self.log(output.plan, p)
                epoch = self.plan_epochs.get(output.plan.plan_id, {}).get(log, 0)
                twice = held[log].keys() & set(range(p.start_offset, p.end_offset))
                assert not twice, f"{run.key} succeeded, and has {sorted(twice)} of {p.topic_partition} twice"
                for offset in range(p.start_offset, p.end_offset):
                    cuts = sum(cut == log and offset >= end for cut, end in self.cuts[: output.moment])
                    held[log][offset] = (epoch, cuts)
        successes = self.windows if plan.window else self.successes
        for key, other in successes.items():
            if key == run.key or key.dag_id != run.key.dag_id:
                continue
            for log, offsets in held.items():
                both = {offset for offset, record in offsets.items() if other.get(log, {}).get(offset) == record}
                assert not both, f"{key} and {run.key} both succeeded and have {sorted(both)} of {log}"
        successes[run.key] = held
        if plan.window:
            return
        for log, offsets in self.promised.get(run.key, {}).items():
            missing = offsets.keys() - held[log].keys()
            assert not missing, f"{run.key} succeeded again, and its output has lost {sorted(missing)} of {log}"
        self.promised[run.key] = held

    # ── what is excused ───────────────────────────────────────────────────────────────────────────────────────────────

    def hurt_checkpoint(self, pipeline: str) -> None:
        """The newest checkpoint is not there any more (lost), or not there yet (a worker died after its commit)."""
        self.hurt.add(pipeline)
        self.forget()

    def forget(self) -> None:
        """Where a pipeline's last commit is in neither memory, it is nowhere.

        The one excuse: the checkpoint is gone, or was never written because the worker died, *and* the mark of that
        commit has gone from the group (expired, reset, or committed over) before any run saw it. Then nothing can know
        of it, and the next run reads again from the checkpoint before, or where its startup mode says.
        """
        for pipeline in self.hurt:
            for topic in self.cluster.topics.values():
                for number in topic.logs:
                    tp = TopicPartition(self._name_of(topic.topic_id), number)
                    mark = CommitMark.of(self.cluster.groups.get(GROUP, {}).get(tp))
                    if mark is None or mark.window or self.plans[mark.plan_id].checkpoint_id != pipeline:
                        self.forgotten.add((pipeline, (topic.topic_id, number)))

    def _excused(self, pipeline: str, log: Log) -> bool:
        return (pipeline, log) in self.forgotten

    def _name_of(self, topic_id: str) -> str:
        return next(name for name, topic in self.cluster.topics.items() if topic.topic_id == topic_id)

    @staticmethod
    def log(plan: OffsetPlan, partition: PlannedPartition) -> Log:
        tp = partition.topic_partition
        return plan.topic_ids[tp.topic] or "", tp.partition

    # ── what must hold at any moment ──────────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        """No position lies past a record that nobody read, lost or skipped on record."""
        for pipeline in self.begun_pipelines:
            newest = self.newest_checkpoint(pipeline)
            for tp, kept in newest.offsets.items() if newest else ():
                log = (newest.topic_ids[tp.topic] or "", tp.partition)
                jumped = set(range(kept.offset)) - self.accounted[pipeline, log]
                assert not jumped, f"{pipeline}'s checkpoint is at {kept.offset} of {tp}, past {sorted(jumped)}"
