"""The promise as a state machine: whatever happens to runs, group, topics and store, in whatever order.

No record is jumped over unless a plan counts it; none is in the outputs of two successful runs; nothing is committed
above what was verified; and from wherever it ends, a remedy that the error itself names leads on. ``world.py`` keeps
the books, ``steps.py`` makes workers stop between their looks and writes.

CI explores some thousands of steps. For more, any number of examples of any length:
``MODEL_EXAMPLES=5000 MODEL_STEPS=60 pytest tests/model``. A counterexample is printed as the calls that make it, and
with a blob for ``@reproduce_failure``. To make it short takes hypothesis minutes: ``MODEL_NO_SHRINK=1`` shows the one
that was found first, which tells at once whether there is any. ``python -m tests.model.broken`` shows that rules of the
package, broken one at a time, are noticed here.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_kafka_offsets.errors import (
    CommitConflict,
    DataLoss,
    GroupMoved,
    OverlappingRun,
    PlanSuperseded,
    ReadNotVerified,
)
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from tests.model.steps import Step
from tests.model.world import GROUP, TOPICS, Run, T, World

SHRINKS = "MODEL_NO_SHRINK" not in os.environ  # to see at once whether there is a counterexample
ALL = 10_000  # pauses: to its end
PIPELINES = ("dag-a", "dag-b")
PLACES = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("orders-2", 0))
PIPELINE = st.sampled_from((PIPELINES[0], *PIPELINES))
PLACE = st.sampled_from(PLACES)
MODES = st.fixed_dictionaries(
    {
        "startup_mode": st.sampled_from(["earliest-offset", "group-offsets", "latest-offset"]),
        "splits": st.sampled_from([1, 2]),
        "commit_mode": st.sampled_from([None, None, "checkpoint-only"]),
        "window_commit_mode": st.sampled_from([None, "on-success"]),
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
MORE = st.sampled_from([{}, {}, {"re_plan": True}, {"on_data_loss": "advance"}])
Records = list[tuple[TopicPartition, int, int]]
RECORDS = st.lists(st.tuples(PLACE, st.integers(1, 4), st.sampled_from((0, 0, 0, 3))), max_size=2)
OFFSET = st.integers(0, 12)
COMMIT_PAUSES = (
    "opened the fence",
    "look at the group",
    "send",
    "send",
    "sent",
    "look at its members",
    "commit",
    "committed",
    "wrote checkpoint",
    "wrote receipt",
)
CLEARS = ("all", "commit", "expire")
EVENTS = {
    "produce": (RECORDS,),
    "add_partition_or_topic": (),
    "retention": (PLACE, st.integers(1, 4)),
    "recreate_topic": (PLACE,),
    "truncation": (PLACE, st.integers(1, 4)),
    "transaction_times_out": (),
    "expire": (st.none() | st.lists(PLACE, min_size=1, max_size=2),),
    "reset_by_a_person": (PLACE, OFFSET),
    "consumer": (PLACE, OFFSET),
    "lose_an_object": (st.integers(0, 200), st.booleans()),
}
EVENT = st.one_of(*(st.tuples(st.just(name), *arguments) for name, arguments in EVENTS.items()))
# What is possible in one example. Where everything happens at once, each thing is refused for the sake of another, and
# nothing goes far (swarm testing).
POSSIBLE = st.one_of(
    st.just(frozenset(EVENTS)), st.frozensets(st.sampled_from(sorted(EVENTS)), max_size=3), st.just(frozenset())
)
MEANWHILE = st.one_of(
    EVENT,
    EVENT,
    st.tuples(st.just("another_run"), RECORDS),
    st.tuples(st.just("another_run"), RECORDS),
    st.tuples(st.just("rival"), st.integers(1, 24)),
    st.tuples(st.just("rival"), st.just(ALL)),
    st.tuples(st.just("reset"), st.sampled_from(PLACES[:2]), OFFSET),
    st.tuples(st.just("read_again"), st.integers(2, 3)),
    st.tuples(st.just("read_again"), st.just(ALL)),
    st.tuples(st.just("re_plan"), RECORDS, st.integers(2, 6)),
    st.tuples(st.just("kill"), st.integers(0, 3)),
)
MEANWHILE_IT_COMMITS = st.one_of(
    st.tuples(st.just("reset"), st.sampled_from(PLACES[:2]), OFFSET),
    st.tuples(st.just("read_again"), st.integers(2, 3)),
    st.tuples(st.just("re_plan"), RECORDS, st.integers(2, 3)),
    st.tuples(st.just("kill"), st.integers(0, 3)),
)
FENCING = st.sampled_from(("transaction", "transaction", "transaction", "compare"))  # one kind a group
LIVES = st.sampled_from((True, True, False))  # False: Airflow takes the run for dead, and its worker goes on
PAUSES = st.sampled_from([ALL, ALL, ALL, 1, 2, 3, 5, 8])
ARRIVED = st.integers(0, 3)
WHICH = st.sampled_from((0, 0, 0, 1, 1, 2, 3, 5))  # counted from the newest, so that shrinking leads to it


class Model(RuleBasedStateMachine):
    """The rules are what Airflow, Kafka and people do."""

    def __init__(self) -> None:
        super().__init__()
        self.raised_outside = sys.exception()
        logging.disable(logging.WARNING)  # thousands of lines on objects that were never written completely
        shared = Path("/dev/shm")  # objects are synced to the disk, which would take most of the time
        self.folder = TemporaryDirectory(dir=shared if shared.is_dir() else None)

    @initialize(a=MODES, b=MODES, fencing=FENCING, count=st.integers(0, 3), possible=POSSIBLE, one=st.booleans())
    def begin(
        self, a: dict[str, Any], b: dict[str, Any], fencing: str, count: int, possible: frozenset[str], one: bool
    ) -> None:
        self.possible, self.one, self.moved = possible, one, False
        self.world = World(Path(self.folder.name), fencing, dict(zip(PIPELINES, (a, b), strict=True)))
        self.ways: dict[str, dict[str, str]] = {pipeline: {} for pipeline in PIPELINES}
        if count:
            self.world.produce(PLACES[0], count)

    # ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(pipeline=PIPELINE, ask=ASK, records=RECORDS, follows=st.booleans())
    def whole_run(self, pipeline: str, ask: dict[str, Any], records: Records, follows: bool) -> None:
        """``follows``: as the last error of this pipeline says."""
        self._produce(records)
        self._through(self._new_run(pipeline, {**ask, **self.ways[pipeline]} if follows else ask))

    @rule(pipeline=PIPELINE, ask=ASK, records=RECORDS, pauses=PAUSES, lives=LIVES)
    def start_run(self, pipeline: str, ask: dict[str, Any], records: Records, pauses: int, lives: bool) -> None:
        self._produce(records)
        self._begin(self._new_run(pipeline, ask), pauses, lives)

    @rule(pipeline=PIPELINE, first=st.integers(0, 9), seconds=st.integers(1, 9), pauses=PAUSES)
    def window_run(self, pipeline: str, first: int, seconds: int, pauses: int) -> None:
        start = T + 1000 * first
        self.moved = True  # where windows are mirrored
        window = {"startup_mode": "timestamp", "startup_timestamp": start}
        window |= {"bounded_mode": "timestamp", "bounded_timestamp": start + 1000 * seconds}
        run = self._new_run(pipeline, window)
        if pauses == ALL:
            self._through(run)
        else:
            self._begin(run, pauses, lives=True)

    @precondition(lambda self: self.world.runs)
    @rule(which=WHICH, pauses=PAUSES)
    def next_task(self, which: int, pauses: int) -> None:
        """What Airflow does next for a run: the task after the one that succeeded, or a retry of a failed one."""
        run = self._run(which)
        last = run.last
        if last is None or last.done:
            made = self.world.next_task(run)
            last = made or last
        if last is not None:
            last.advance(pauses)

    @precondition(lambda self: self.world.runs)
    @rule(which=WHICH, more=MORE, pauses=PAUSES, lives=LIVES)
    def clear_resolve(self, which: int, more: dict[str, Any], pauses: int, lives: bool) -> None:
        """Also a second scheduler: the tries before may still be there."""
        self._begin(self._run(which), pauses, lives, **more)

    @precondition(lambda self: self.world.alive)
    @rule(which=WHICH)
    def give_up(self, which: int) -> None:
        """The run has failed, or Airflow thinks so."""
        living = [run.key for run in self.world.runs if run.key in self.world.alive]
        self.world.alive.discard(living[-1 - which % len(living)])

    @precondition(lambda self: self.world.runs)
    @rule(which=WHICH, more=MORE)
    def clear_all(self, which: int, more: dict[str, Any]) -> None:
        self._through(self._run(which), **more)

    @precondition(lambda self: self._planned())
    @rule(which=WHICH, pauses=PAUSES, short=st.sampled_from([False, False, False, True]))
    def clear_read(self, which: int, pauses: int, short: bool) -> None:
        planned = self._planned()
        self.world.read(planned[-1 - which % len(planned)], short).advance(pauses)

    @precondition(lambda self: self._planned())
    @rule(which=WHICH, pauses=PAUSES)
    def clear_commit(self, which: int, pauses: int) -> None:
        planned = self._planned()
        self.world.commit(planned[-1 - which % len(planned)]).advance(pauses)

    @rule(pipeline=PIPELINE, tp=PLACE, records=RECORDS, back=st.integers(0, 2), pauses=PAUSES, asks=st.booleans())
    def unblock(self, pipeline: str, tp: TopicPartition, records: Records, back: int, pauses: int, asks: bool) -> None:
        self._produce(records)
        if tp.topic in self.world.cluster.topics:
            log = self.world.cluster.topics[tp.topic].logs[tp.partition]
            to = max(0, log.high_watermark - back)
            self.world.unblock(pipeline, tp, to, self.ways[pipeline], asks).advance(pauses)

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

    # ── the common ways into trouble, which chance alone would seldom take ────────────────────────────────────────────

    @rule(
        pipeline=PIPELINE,
        records=RECORDS,
        task=st.sampled_from(("commit", "commit", "read", "resolve")),
        where=st.sampled_from(COMMIT_PAUSES) | st.integers(1, 24),
        meanwhile=MEANWHILE,
    )
    def interrupted_run(
        self, pipeline: str, records: Records, task: str, where: str | int, meanwhile: tuple[Any, ...]
    ) -> None:
        """While one of its tasks stands still, something else happens; then it goes on, and does not live for long."""
        self._interrupted(pipeline, records, task, where, meanwhile)

    @rule(
        pipeline=PIPELINE,
        more=st.integers(1, 3),
        records=RECORDS,
        where=st.sampled_from(COMMIT_PAUSES),
        meanwhile=MEANWHILE_IT_COMMITS,
    )
    def interrupted_commit(
        self, pipeline: str, more: int, records: Records, where: str, meanwhile: tuple[Any, ...]
    ) -> None:
        """Its Spark task is cleared, or the run is planned anew, or it dies, or a person resets the group."""
        self._interrupted(pipeline, [(PLACES[0], more, 0), *records], "commit", where, meanwhile)

    def _interrupted(
        self, pipeline: str, records: Records, task: str, where: str | int, meanwhile: tuple[Any, ...]
    ) -> None:
        self._produce(records)
        run = self._new_run(pipeline, dict(self.ways[pipeline]))
        rival = None
        for name in ("resolve", "read", "commit"):
            step = getattr(self.world, name)(run)
            if name == task:
                step.advance_to(where)
                self._meanwhile(run, step, rival, *meanwhile)
            if not step.finish().succeeded:
                self.ways[run.pipeline] = _named(step.error) if step.error else {}
                break
            if name == "read" and meanwhile[0] == "rival":
                rival = self._rival(run)
        self.world.alive.discard(run.key)

    def _meanwhile(self, run: Run, step: Step, rival: Run | None, what: str, *arguments: Any) -> None:
        match what, *arguments:
            case "another_run", records:
                self.world.alive.discard(run.key)
                self._produce(records)
                self._through(self._new_run(run.pipeline, {}))
            case "rival", pauses:
                if rival is not None:
                    self.world.commit(rival).advance(pauses)
            case "read_again", pauses:
                if run.plan:
                    self.world.read(run).advance(pauses)
            case "re_plan", records, pauses:
                self._produce(records)
                if run.plan and self.world.resolve(run, re_plan=True).finish().succeeded:
                    self.world.read(run).advance(pauses)
            case "reset", tp, offset:
                self._reset_by_a_person(tp, offset)
            case "kill", arrived:
                self._kill(step, arrived)
                self.world.alive.discard(run.key)
                self.world.cluster.time_out(GROUP)
                error = self._through(self._new_run(run.pipeline, {}))
                alone = self.one and not self.possible and not self.moved and self.world.fencing == "transaction"
                assert not (alone and isinstance(error, GroupMoved)), f"a run died, and a person is asked: {error}"
            case _:
                self._event(what, *arguments)

    def _rival(self, run: Run) -> Run | None:
        """Another run that was planned from the same checkpoint and has read, while ``run`` was taken for dead."""
        self.world.alive.discard(run.key)
        rival = self._new_run(run.pipeline, {"max_records": 2})
        if self.world.resolve(rival).finish().error or self.world.read(rival).finish().error:
            return None
        self.world.alive.discard(rival.key)
        return rival

    @rule(pipeline=PIPELINE, records=RECORDS, more=RECORDS, tasks=st.integers(1, 2), clears=st.sampled_from(CLEARS))
    def overtaken_run(self, pipeline: str, records: Records, more: Records, tasks: int, clears: str) -> None:
        """A run fails, newer ones go on, and then it is cleared: the commonest of all operator actions."""
        self._produce(records)
        old = self._new_run(pipeline, dict(self.ways[pipeline]))
        for name in ("resolve", "read")[:tasks]:
            if getattr(self.world, name)(old).finish().error:
                return
        self.world.alive.discard(old.key)
        self._produce(more)
        self._through(self._new_run(pipeline, {}))
        if clears == "expire":
            self._event("expire", None)
        if clears == "commit":
            self.world.commit(old).finish()
        else:
            self._through(old)

    @rule(pipeline=PIPELINE, records=RECORDS, more=RECORDS, meanwhile=EVENT, asks=ASK, newer=st.integers(0, 2))
    def cleared_after_its_commit(
        self,
        pipeline: str,
        records: Records,
        more: Records,
        meanwhile: tuple[Any, ...],
        asks: dict[str, Any],
        newer: int,
    ) -> None:
        """It writes its own output anew, whatever has become of the group."""
        self._produce(records)
        run = self._new_run(pipeline, dict(self.ways[pipeline]))
        if self._through(run):
            return
        for _ in range(newer):
            self._produce(more)
            self._through(self._new_run(pipeline, asks))
        self._event(*meanwhile)
        error = self._through(run)
        if "lose_an_object" not in self.possible:
            assert not isinstance(error, CommitConflict | GroupMoved | PlanSuperseded), (
                f"{run.key} has committed: {error}"
            )

    @rule(
        pipeline=PIPELINE,
        records=RECORDS,
        more=RECORDS,
        where=st.sampled_from(COMMIT_PAUSES),
        pauses=st.integers(1, 16),
    )
    def planned_anew_while_it_commits(
        self, pipeline: str, records: Records, more: Records, where: str, pauses: int
    ) -> None:
        """A person clears the run with re_plan; its commit, which Airflow takes for dead, is still there."""
        self._produce([(PLACES[0], 1, 0), *records])
        run = self._new_run(pipeline, dict(self.ways[pipeline]))
        if self.world.resolve(run).finish().error or self.world.read(run).finish().error:
            return
        commit = self.world.commit(run).advance_to(where)
        self._produce(more)
        anew = self.world.resolve(run, re_plan=True).advance(pauses)
        commit.finish()
        anew.finish()
        if run.plan and self.world.read(run).finish().succeeded:
            self.world.commit(run).finish()
        self._through(run)

    @rule(pipeline=PIPELINE, records=RECORDS, splits=st.tuples(st.integers(1, 3), st.integers(1, 3)), pauses=PAUSES)
    def late_driver(self, pipeline: str, records: Records, splits: tuple[int, int], pauses: int) -> None:
        """It waits in a queue while its run is planned anew, and comes before that plan is committed."""
        self._produce(records)
        run = self._new_run(pipeline, dict(self.ways[pipeline]))
        if self.world.resolve(run, splits=splits[0]).finish().error:
            return
        driver = self.world.read(run).advance(1)
        if self.world.resolve(run, splits=splits[1], re_plan=True).finish().error:
            return
        driver.advance(pauses)
        if self.world.read(run).finish().succeeded:
            self.world.commit(run).finish()
        error = self._through(run, splits=splits[1], re_plan=True) if "lose_an_object" not in self.possible else None
        assert not isinstance(error, ReadNotVerified), f"no way on: {error}"

    # ── Kafka, people and the disk: rarer than what Airflow does ──────────────────────────────────────────────────────

    @precondition(lambda self: self.possible)
    @rule(event=EVENT)
    def event(self, event: tuple[Any, ...]) -> None:
        self._event(*event)

    def _event(self, name: str, *arguments: Any) -> None:
        if name in self.possible:
            getattr(self, f"_{name}")(*arguments)

    def _produce(self, records: Records) -> None:
        for tp, count, late in records:
            if tp.topic in self.world.cluster.topics:
                self.world.produce(tp, count, late)

    def _truncation(self, tp: TopicPartition, count: int) -> None:
        if tp.topic in self.world.cluster.topics:
            log = self.world.cluster.topics[tp.topic].logs[tp.partition]
            self.world.truncate(tp, max(log.log_start_offset, log.high_watermark - count))

    def _transaction_times_out(self) -> None:
        self.world.cluster.time_out(GROUP)

    def _add_partition_or_topic(self) -> None:
        topics = self.world.cluster.topics
        if TOPICS[1] not in topics:
            self.world.cluster.create_topic(TOPICS[1])
        elif len(topics[TOPICS[0]].logs) < 4:
            self.world.cluster.add_partitions(TOPICS[0], 1)

    def _retention(self, tp: TopicPartition, count: int) -> None:
        if tp.topic in self.world.cluster.topics:
            log = self.world.cluster.topics[tp.topic].logs[tp.partition]
            self.world.cluster.delete_records(tp, min(log.high_watermark, log.log_start_offset + count))

    def _recreate_topic(self, tp: TopicPartition) -> None:
        if tp.topic in self.world.cluster.topics:
            self.world.cluster.recreate_topic(tp.topic)
            self.world.forget()

    def _expire(self, partitions: list[TopicPartition] | None) -> None:
        if not self.world.members:
            self.world.cluster.expire(GROUP, partitions)
            self.world.forget()

    def _reset_by_a_person(self, tp: TopicPartition, offset: int) -> None:
        if not self.world.members:
            self._commit_as_somebody(tp, offset)

    def _consumer(self, tp: TopicPartition, offset: int) -> None:
        """It joins; when it is there, it commits, or leaves."""
        if self.world.members and offset < 3:
            self.world.members.pop().__exit__(None, None, None)
        elif self.world.members:
            self._commit_as_somebody(tp, offset)
        elif tp.topic in self.world.cluster.topics:
            member = self.world.cluster.live_member(GROUP, tp.topic)
            member.__enter__()
            self.world.members.append(member)

    def _lose_an_object(self, which: int, truncated: bool) -> None:
        """The newest object of some series is half-written, or gone.

        A ``begun`` object is never gone altogether: nobody can notice that an attempt took place which left nothing.
        Nor what a window's run has registered: that is all there is that could tell another run.
        """
        root = Path(self.folder.name)
        series: dict[tuple[Path, str], list[Path]] = {}
        for path in sorted(root.rglob("*.json"), key=lambda p: (p.parent, int(p.name.split(".")[1]))):
            if path.relative_to(root).parts[0] == "windows":
                continue
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
            # Not where a rule has failed already: what fails here would hide it.
            if hasattr(self, "world") and sys.exception() is self.raised_outside:
                self._a_remedy_leads_on()
        finally:
            logging.disable(logging.NOTSET)
            self.folder.cleanup()

    def _a_remedy_leads_on(self) -> None:
        """(d): all that is under way dies; then a new run, with the ways out that the errors themselves name."""
        for step in self._open():
            self._kill(step, 0)
        while self.world.members:
            self.world.members.pop().__exit__(None, None, None)
        self.world.cluster.time_out(GROUP)
        for pipeline in PIPELINES:
            self._nobody_waits_for_ever(pipeline)
        self.world.alive.clear()
        for pipeline in PIPELINES:
            ways: dict[str, str] = {}
            said = []
            for _ in range(5):
                run = self.world.new_run(pipeline, dict(ways))
                error = self._through(run)
                if error is None:
                    break
                said.append(str(error))
                ways |= _named(error)
            else:
                raise AssertionError(f"no named remedy leads {pipeline} on; tried {ways}:\n" + "\n\n".join(said))
            assert run.plan is not None
            for p in run.plan.partitions:
                tp = p.topic_partition
                assert p.end_offset == self.world.cluster.topics[tp.topic].logs[tp.partition].high_watermark
            self.world.check()

    def _nobody_waits_for_ever(self, pipeline: str) -> None:
        """Of the runs that live, one at least is told something else than to wait."""
        living = [run for run in self.world.runs if run.key in self.world.alive and run.pipeline == pipeline]
        errors = [self.world.resolve(run).finish().error for run in living if not run.window]
        waiting = [error for error in errors if isinstance(error, OverlappingRun)]
        assert not errors or len(waiting) < len(errors), "all wait:\n" + "\n\n".join(map(str, waiting))

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _through(self, run: Run, **more: Any) -> Exception | None:
        """Resolve, read and commit without a pause; the refusal that stopped it."""
        error = self.world.resolve(run, **more).finish().error
        if error is None:
            error = self.world.read(run).finish().error
            assert not isinstance(error, DataLoss), f"{run.key} was let read what is gone: {error}"
        error = error or self.world.commit(run).finish().error
        assert "goes on from checkpoint" not in str(error), f"{run.key} was let read what another run has read: {error}"
        self.ways[run.pipeline] = _named(error) if error else {}
        self.world.alive.discard(run.key)
        return error

    def _begin(self, run: Run, pauses: int, lives: bool, **more: Any) -> None:
        step = self.world.resolve(run, **more)
        if not lives:
            self.world.alive.discard(run.key)
        step.advance(pauses)

    def _new_run(self, pipeline: str, ask: dict[str, Any]) -> Run:
        return self.world.new_run(PIPELINES[0] if self.one else pipeline, ask)

    def _run(self, which: int) -> Run:
        return self.world.runs[-1 - which % len(self.world.runs)]

    def _planned(self) -> list[Run]:
        return [run for run in self.world.runs if run.plan]

    def _open(self) -> list[Step]:
        steps = [step for run in self.world.runs for _, step in run.steps]
        return [step for step in (*(step for _, step in self.world.commands), *steps) if not step.done]

    def _kill(self, step: Step, arrived: int) -> None:
        step.kill(arrived)
        for run in self.world.runs:
            if ("commit", step) in run.steps:
                self.world.hurt_checkpoint(run.pipeline)
        for pipeline, command in self.world.commands:
            if command is step:
                self.world.hurt_checkpoint(pipeline)

    def _commit_as_somebody(self, tp: TopicPartition, offset: int) -> None:
        if tp.topic not in self.world.cluster.topics:
            return
        log = self.world.cluster.topics[tp.topic].logs[tp.partition]
        self.moved = True
        somewhere = max(log.log_start_offset, min(offset, log.high_watermark))
        self.world.cluster.commit_as_somebody_else(GROUP, {tp: CommittedOffset(somewhere)})
        self.world.forget()


def _named(error: Exception) -> dict[str, str]:
    """The policies that an error's message names."""
    ways: dict[str, str] = {}
    for name, value in re.findall(r'(on_\w+)="([\w-]+)"', str(error)):
        ways.setdefault(name, value)
    return ways


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=int(os.environ.get("MODEL_EXAMPLES", "200")),
    stateful_step_count=int(os.environ.get("MODEL_STEPS", "40")),
    deadline=None,
    print_blob=True,
    phases=[phase for phase in Phase if phase is not Phase.explain and (SHRINKS or phase is not Phase.shrink)],
    suppress_health_check=list(HealthCheck),
)
