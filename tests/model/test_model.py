"""The promise as a state machine: whatever happens to runs, group, topics and store, in whatever order.

No record is jumped over unless a plan counts it; none is in the outputs of two successful runs; nothing is committed
above what was verified; and from wherever it ends, a remedy that the error itself names leads on. ``world.py`` keeps
the books, ``steps.py`` makes workers stop between their looks and writes.

CI explores some thousands of steps. For more, any number of examples of any length:
``MODEL_EXAMPLES=5000 MODEL_STEPS=60 pytest tests/model``. A counterexample is printed as the calls that make it, and
with a blob for ``@reproduce_failure``.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from tests.model.steps import Step
from tests.model.world import GROUP, TOPICS, Run, T, World

PIPELINES = ("dag-a", "dag-b")
PLACES = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("orders-2", 0))
PIPELINE = st.sampled_from((PIPELINES[0], *PIPELINES))
PLACE = st.sampled_from(PLACES)
MODES = st.fixed_dictionaries(
    {
        "startup_mode": st.sampled_from(["earliest-offset", "group-offsets", "latest-offset"]),
        "splits": st.sampled_from([1, 2]),
        "commit_mode": st.sampled_from([None, None, "checkpoint-only"]),
    }
)
ASK = st.one_of(
    st.just({}),
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "max_records": st.integers(1, 4),
            "on_group_moved": st.sampled_from(["adopt-group", "keep-checkpoint"]),
            "on_data_loss": st.sampled_from(["advance", "reset"]),
            "on_recreated": st.just("earliest"),
            "restart": st.sampled_from(["once", "twice"]),
            "splits": st.integers(1, 3),
        },
    ),
)
PAUSES = st.sampled_from([10_000, 10_000, 10_000, 1, 2, 3, 5, 8])
ARRIVED = st.integers(0, 3)
WHICH = st.integers(0, 30)  # counted from the newest, so that shrinking leads to it


class Model(RuleBasedStateMachine):
    """The rules are what Airflow, Kafka and people do."""

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.WARNING)  # thousands of lines on objects that were never written completely
        shared = Path("/dev/shm")  # objects are synced to the disk, which would take most of the time
        self.folder = TemporaryDirectory(dir=shared if shared.is_dir() else None)

    @initialize(a=MODES, b=MODES, count=st.integers(0, 3))
    def begin(self, a: dict[str, Any], b: dict[str, Any], count: int) -> None:
        self.world = World(Path(self.folder.name), dict(zip(PIPELINES, (a, b), strict=True)))
        if count:
            self.world.produce(PLACES[0], count)

    # ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, which: int) -> Run:
        return self.world.runs[-1 - which % len(self.world.runs)]

    @rule(pipeline=PIPELINE, ask=ASK)
    def whole_run(self, pipeline: str, ask: dict[str, Any]) -> None:
        self._through(self.world.new_run(pipeline, ask))

    @rule(pipeline=PIPELINE, ask=ASK, pauses=PAUSES)
    def start_run(self, pipeline: str, ask: dict[str, Any], pauses: int) -> None:
        self.world.resolve(self.world.new_run(pipeline, ask)).advance(pauses)

    @rule(pipeline=PIPELINE, first=st.integers(0, 9), seconds=st.integers(1, 9))
    def window_run(self, pipeline: str, first: int, seconds: int) -> None:
        start = T + 1000 * first
        window = {"startup_mode": "timestamp", "startup_timestamp": start}
        window |= {"bounded_mode": "timestamp", "bounded_timestamp": start + 1000 * seconds}
        self._through(self.world.new_run(pipeline, window))

    @precondition(lambda self: self.world.runs)
    @rule(which=WHICH, more=st.sampled_from([{}, {}, {"re_plan": True}, {"on_data_loss": "advance"}]), pauses=PAUSES)
    def clear_resolve(self, which: int, more: dict[str, Any], pauses: int) -> None:
        """Also Airflow's retry, and a second scheduler: the tries before may still be there."""
        self.world.resolve(self._run(which), **more).advance(pauses)

    @precondition(lambda self: self.world.runs)
    @rule(which=WHICH, more=st.sampled_from([{}, {}, {"re_plan": True}]))
    def clear_all(self, which: int, more: dict[str, Any]) -> None:
        self._through(self._run(which), **more)

    @precondition(lambda self: any(run.plan for run in self.world.runs))
    @rule(which=WHICH, pauses=PAUSES, short=st.sampled_from([False, False, False, True]))
    def read(self, which: int, pauses: int, short: bool) -> None:
        planned = [run for run in self.world.runs if run.plan]
        step = self.world.read(planned[-1 - which % len(planned)], short)
        assert step is not None
        step.advance(pauses)

    @precondition(lambda self: any(run.plan for run in self.world.runs))
    @rule(which=WHICH, pauses=PAUSES)
    def commit(self, which: int, pauses: int) -> None:
        planned = [run for run in self.world.runs if run.plan]
        step = self.world.commit(planned[-1 - which % len(planned)])
        assert step is not None
        step.advance(pauses)

    @precondition(lambda self: self._open())
    @rule(which=WHICH, pauses=PAUSES)
    def go_on(self, which: int, pauses: int) -> None:
        """A worker that was slow, or asleep for a week."""
        steps = self._open()
        steps[-1 - which % len(steps)].advance(pauses)

    @precondition(lambda self: self._open())
    @rule(which=WHICH, arrived=ARRIVED)
    def kill(self, which: int, arrived: int) -> None:
        steps = self._open()
        self._kill(steps[-1 - which % len(steps)], arrived)

    # ── Kafka ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(tp=PLACE, count=st.integers(1, 4))
    def produce(self, tp: TopicPartition, count: int) -> None:
        if tp.topic in self.world.cluster.topics:
            self.world.produce(tp, count)

    @rule()
    def add_partition_or_topic(self) -> None:
        topics = self.world.cluster.topics
        if TOPICS[1] not in topics:
            self.world.cluster.create_topic(TOPICS[1])
        elif len(topics[TOPICS[0]].logs) < 4:
            self.world.cluster.add_partitions(TOPICS[0], 1)

    @rule(tp=PLACE, count=st.integers(1, 4))
    def retention(self, tp: TopicPartition, count: int) -> None:
        if tp.topic in self.world.cluster.topics:
            log = self.world.cluster.topics[tp.topic].logs[tp.partition]
            self.world.cluster.delete_records(tp, min(log.high_watermark, log.log_start_offset + count))

    @rule(topic=st.sampled_from(TOPICS))
    def recreate_topic(self, topic: str) -> None:
        if topic in self.world.cluster.topics:
            self.world.cluster.recreate_topic(topic)
            self.world.forget()

    @rule(partitions=st.none() | st.lists(PLACE, min_size=1, max_size=2))
    def expire(self, partitions: list[TopicPartition] | None) -> None:
        if not self.world.members:
            self.world.cluster.expire(GROUP, partitions)
            self.world.forget()

    # ── people ────────────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(tp=PLACE, offset=st.integers(0, 12))
    def reset_by_a_person(self, tp: TopicPartition, offset: int) -> None:
        if not self.world.members and tp.topic in self.world.cluster.topics:
            self._commit_as_somebody(tp, offset)

    @rule(topic=st.sampled_from(TOPICS))
    def consumer_joins(self, topic: str) -> None:
        if not self.world.members and topic in self.world.cluster.topics:
            member = self.world.cluster.live_member(GROUP, topic)
            member.__enter__()
            self.world.members.append(member)

    @precondition(lambda self: self.world.members)
    @rule(tp=PLACE, offset=st.integers(0, 12))
    def consumer_commits(self, tp: TopicPartition, offset: int) -> None:
        if tp.topic in self.world.cluster.topics:
            self._commit_as_somebody(tp, offset)

    @precondition(lambda self: self.world.members)
    @rule()
    def consumer_leaves(self) -> None:
        self.world.members.pop().__exit__(None, None, None)

    # ── the work store ────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(which=st.integers(0, 200), truncated=st.booleans())
    def lose_an_object(self, which: int, truncated: bool) -> None:
        """The newest object of some series is half-written, or gone.

        A ``begun`` object is never gone altogether: nobody can notice that an attempt took place which left nothing.
        """
        root = Path(self.folder.name)
        series: dict[tuple[Path, str], list[Path]] = {}
        for path in sorted(root.rglob("*.json"), key=lambda p: (p.parent, int(p.name.split(".")[1]))):
            series.setdefault((path.parent, path.name.split(".")[0]), []).append(path)
        if not series:
            return
        (folder, stem), paths = list(series.items())[which % len(series)]
        if truncated or stem == "begun":
            paths[-1].write_bytes(paths[-1].read_bytes()[:-10])
        else:
            paths[-1].unlink()
        if stem == "checkpoint":
            self.world.hurt_checkpoint(folder.name)

    # ── what must hold ────────────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def nothing_is_jumped_over(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self._a_remedy_leads_on()
        finally:
            logging.disable(logging.NOTSET)
            self.folder.cleanup()

    def _a_remedy_leads_on(self) -> None:
        """(d): all that is under way dies; then a new run, with the ways out that the errors themselves name."""
        for step in self._open():
            self._kill(step, 0)
        while self.world.members:
            self.consumer_leaves()
        for pipeline in PIPELINES:
            ways: dict[str, str] = {}
            said = []
            for _ in range(5):
                run = self.world.new_run(pipeline, dict(ways))
                error = self._through(run)
                if error is None:
                    break
                said.append(str(error))
                for name, value in re.findall(r'(on_\w+)="([\w-]+)"', str(error)):
                    ways.setdefault(name, value)
            else:
                raise AssertionError(f"no named remedy leads {pipeline} on; tried {ways}:\n" + "\n\n".join(said))
            assert run.plan is not None
            for p in run.plan.partitions:
                tp = p.topic_partition
                assert p.end_offset == self.world.cluster.topics[tp.topic].logs[tp.partition].high_watermark
            self.world.check()

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _through(self, run: Run, **more: Any) -> Exception | None:
        """Resolve, read and commit without a pause; the refusal that stopped it."""
        for step in (self.world.resolve(run, **more), self.world.read, self.world.commit):
            made = step if isinstance(step, Step) else step(run)
            assert made is not None
            if made.finish().error:
                return made.error
        return None

    def _open(self) -> list[Step]:
        return [step for run in self.world.runs for step in run.steps if not step.done]

    def _kill(self, step: Step, arrived: int) -> None:
        run = next(run for run in self.world.runs if step in run.steps)
        step.kill(arrived)
        if step in run.committing:
            self.world.hurt_checkpoint(run.pipeline)

    def _commit_as_somebody(self, tp: TopicPartition, offset: int) -> None:
        log = self.world.cluster.topics[tp.topic].logs[tp.partition]
        somewhere = max(log.log_start_offset, min(offset, log.high_watermark))
        self.world.cluster.commit_as_somebody_else(GROUP, {tp: CommittedOffset(somewhere)})
        self.world.forget()


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=int(os.environ.get("MODEL_EXAMPLES", "60")),
    stateful_step_count=int(os.environ.get("MODEL_STEPS", "40")),
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
