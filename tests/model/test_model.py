"""The promise as a state machine: whatever happens to runs, group, topics and store, in whatever order.

A reader of the output finds each record of the committed batches once; no position passes a record that nobody read,
lost or skipped on record; the group is never ahead of the log; and from wherever it ends, the remedies that the errors
name lead on. ``books.py`` and ``reader.py`` say what must hold, ``steps.py`` makes workers stop between their looks and
writes.

CI explores some thousands of steps, the same each time, so that it fails for a change and for nothing else. For others,
any number of examples of any length:
``MODEL_EXAMPLES=5000 MODEL_STEPS=60 pytest tests/model``. A counterexample is printed as the calls that make it, and
with a blob for ``@reproduce_failure``. To make it short takes hypothesis minutes: ``MODEL_NO_SHRINK=1`` shows the one
that was found first, which tells at once whether there is any. ``python -m tests.model.broken`` shows that rules of the
package, broken one at a time, are noticed here.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from airflow_kafka_offsets.errors import (
    BatchGone,
    DataLoss,
    InvalidRequest,
    KafkaOffsetsError,
    ReadNotVerified,
    WindowOverlaps,
)
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan import splits as splits_module
from airflow_kafka_offsets.request.policies import SITUATIONS
from tests.model import remedies
from tests.model.steps import Fate, Step
from tests.model.store import ReadOnce
from tests.model.world import TOPICS, Run, T, World

SHRINKS = "MODEL_NO_SHRINK" not in os.environ  # to see at once whether there is a counterexample
ALL = 3_000  # pauses: to its end
PIPELINES = ("dag-a", "dag-b")
PLACES = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("orders-2", 0))
PIPELINE = st.sampled_from((PIPELINES[0], PIPELINES[0], *PIPELINES))
PLACE = st.sampled_from(PLACES)
MODES = st.fixed_dictionaries(
    {
        "startup_mode": st.sampled_from(
            ["earliest-offset", "earliest-offset", "group-offsets", "latest-offset", "timestamp"]
        ),
        "splits": st.sampled_from([1, 2]),
        "commit_mode": st.sampled_from(["on-success", "on-success", "checkpoint-only"]),
        "require_report": st.sampled_from([True, True, True, True, False]),
        "given_offsets": st.booleans(),  # where no report is required
        "by_topic": st.booleans(),  # whether each topic has an output; where no job is given offsets
    }
)
EDITS: dict[str, Any] = {  # of a DAG, between two runs or before one is cleared
    "topic_pattern": st.sampled_from(["orders", "orders.+"]),
    "startup_mode": st.sampled_from(["earliest-offset", "group-offsets", "latest-offset", "timestamp"]),
    "commit_mode": st.sampled_from(["on-success", "checkpoint-only"]),
    "filter_restored_partitions": st.booleans(),
    "group_id": st.sampled_from(["g", "g-c"]),
    "isolation_level": st.sampled_from(["read_committed", "read_uncommitted"]),
}
ASK = st.one_of(
    st.just({}),
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "max_records": st.integers(1, 4),
            "group_moved": st.just("chosen"),
            "data_loss": st.sampled_from(["advance", "reset"]),
            "topic_recreated": st.just("earliest"),
            "restart": st.sampled_from(["once", "twice"]),
            "splits": st.integers(1, 3),
            "split_by": st.just("flink"),
            "re_plan": st.just(True),
            "redo": st.just(True),
            "unavailable": st.just("hold"),
            "hold": st.lists(PLACE.map(lambda tp: f"{tp.topic}-{tp.partition}"), min_size=1, max_size=2, unique=True),
            "new_partition": st.sampled_from(["latest", "timestamp"]),
            "end": st.integers(0, 12).map(lambda second: T + 1000 * second),
            **EDITS,
        },
    ),
)
HOLDS: dict[str, Any] = {"unavailable": "hold", "hold": ["orders-1"]}
REDO = {"redo": True}
MORE = st.one_of(
    st.sampled_from([{}, {}, {"re_plan": True}, REDO, {"data_loss": "advance"}, HOLDS]),
    st.fixed_dictionaries(
        {},
        optional={"re_plan": st.just(True), "splits": st.integers(1, 3), "max_records": st.integers(1, 4), **EDITS},
    ),
)
Records = list[tuple[TopicPartition, int, int]]
RECORDS = st.lists(st.tuples(PLACE, st.integers(1, 4), st.sampled_from((0, 0, 0, 3, -6))), max_size=2)
OFFSET = st.integers(0, 12)
MOMENTS = {
    "resolve": (
        "look at the group",
        "look at the ends",
        "create plan",
        "create taken",
        "write the group",
        "create run",
    ),
    "spark": ("list the keys", "create begun", "read the records", "swap", "read it back", "create report"),
    "commit": ("look at the group", "create commit", "look at the group", "write the group"),
}
CLEARS = ("all", "spark", "only spark", "commit", "expire")
EVENTS = {
    "produce": (RECORDS,),
    "add_partition_or_topic": (),
    "retention": (PLACE, st.integers(1, 4)),
    "recreate_topic": (PLACE,),
    "delete_topic": (),
    "truncation": (PLACE, st.integers(1, 4)),
    "election": (PLACE, st.booleans()),
    "expire": (st.none() | st.lists(PLACE, min_size=1, max_size=2),),
    "reset_by_a_person": (PLACE, OFFSET),
    "consumer": (PLACE, OFFSET),
    "lose_store": (st.none() | st.integers(0, 3),),
    "copy_store": (),
    "replace_cluster": (),
    "move_airflow": (),
    "edit_output": (PIPELINE,),
    "transact": (PLACE, st.integers(1, 3)),
    "end_transactions": (st.booleans(),),
}
ALWAYS = frozenset(os.environ.get("MODEL_POSSIBLE", "").split())  # a broken rule explores what it is about
CHOSEN = {name: arguments for name, arguments in EVENTS.items() if not ALWAYS or name in ALWAYS}
EVENT = st.one_of(*(st.tuples(st.just(name), *arguments) for name, arguments in CHOSEN.items()))
# What is possible in one example. Where everything happens at once, each thing is refused for the sake of another, and
# nothing goes far (swarm testing).
POSSIBLE = st.one_of(
    st.frozensets(st.sampled_from(sorted(EVENTS)), max_size=3),
    st.frozensets(st.sampled_from(sorted(EVENTS)), max_size=3),
    st.just(frozenset(EVENTS)),
    st.just(frozenset()),
)
MEANWHILE = st.one_of(
    EVENT,
    EVENT,
    st.tuples(st.just("other_runs"), RECORDS, st.integers(1, 2)),
    st.tuples(st.just("other_runs"), RECORDS, st.integers(1, 2)),
    st.tuples(st.just("same_task"), st.integers(1, 40)),
    st.tuples(st.just("same_task"), st.just(ALL)),
    st.tuples(st.just("read_again"), st.integers(2, 20)),
    st.tuples(st.just("read_again"), st.just(ALL)),
    st.tuples(st.just("re_plan"), RECORDS, st.integers(5, 40), st.integers(1, 3)),
    st.tuples(st.just("strike"), st.integers(0, 3), st.sampled_from(["dies", "error", "taken"])),
)
PAUSES = st.sampled_from([ALL, ALL, ALL, 1, 2, 4, 6, 9, 13, 18, 25])
LIVES = st.sampled_from((True, True, False))  # False: Airflow takes the run for dead, and its worker goes on
ARRIVED = st.integers(0, 3)
WHICH = st.sampled_from((0, 0, 0, 1, 1, 2, 3, 5))  # counted from the newest, so that shrinking leads to it


class Model(RuleBasedStateMachine):
    """The rules are what Airflow, Kafka and people do."""

    def __init__(self) -> None:
        super().__init__()
        self.raised_outside = sys.exception()
        logging.disable(logging.ERROR)  # thousands of lines on what is refused
        attempts, digits = count(1), (digit for number in count(1) for digit in f"{number:04}")
        self.patches = [
            patch("airflow_kafka_offsets.log.read_reports.secrets.token_hex", lambda _: f"{next(attempts):08x}"),
            patch("airflow_kafka_offsets.batch.carry_out.secrets.choice", lambda _: next(digits)),
            patch("airflow_kafka_offsets.spark.hadoop_store.open_store", lambda _: self.world.store),
            patch("airflow_kafka_offsets.log.pipeline_log.read_object", ReadOnce()),
        ]
        for each in self.patches:
            each.start()

    @initialize(
        a=MODES,
        b=MODES,
        shared=st.booleans(),
        chosen=st.sampled_from(("adopt-group", "keep-checkpoint")),
        cluster=st.sampled_from(("earliest", "adopt-group")),
        output=st.sampled_from(("accept", "put it back")),
        records=st.integers(0, 3),
        possible=POSSIBLE,
        one=st.sampled_from((True, True, False)),
        looks=st.booleans(),
    )
    def begin(
        self,
        a: dict[str, Any],
        b: dict[str, Any],
        shared: bool,
        chosen: str,
        cluster: str,
        output: str,
        records: int,
        possible: frozenset[str],
        one: bool,
        looks: bool,
    ) -> None:
        """``shared``: both pipelines name one group. ``one``: there is only one pipeline."""
        self.possible, self.one = possible | ALWAYS, one
        modes = {
            PIPELINES[0]: {**a, "group_id": "g"},
            PIPELINES[1]: {**b, "group_id": "g" if shared else "g-b"},
        }
        for mode in modes.values():
            mode["given_offsets"] &= not mode["require_report"]
            mode["by_topic"] &= not mode["given_offsets"]
        self.world = World(modes, looks=looks)
        for pipeline in PIPELINES:
            self.world.choices[pipeline] = {
                "group_moved": chosen,
                "cluster_changed": cluster,
                "output_changed": output,
            }
        self.ways: dict[str, dict[str, Any]] = {pipeline: {} for pipeline in PIPELINES}
        if records:
            self.world.produce(PLACES[0], records)

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

    @rule(
        pipeline=PIPELINE,
        first=st.integers(0, 9),
        seconds=st.integers(1, 9),
        pauses=PAUSES,
        splits=st.integers(1, 2),
        words=st.sampled_from(
            [{}, {}, {"data_loss": "advance"}, {"isolation_level": "read_committed"}, {"topic_pattern": "orders"}]
        ),
    )
    def window_run(
        self, pipeline: str, first: int, seconds: int, pauses: int, splits: int, words: dict[str, Any]
    ) -> None:
        run = self._new_run(pipeline, {**_window(first, seconds), "splits": splits, **words})
        if pauses == ALL:
            self._through(run)
        else:
            self._begin(run, pauses, lives=True)

    @precondition(lambda self: self.world.unfinished(PIPELINES[0]))
    @rule(past=st.none() | st.integers(0, 3), which=st.sampled_from(["past", "only"]), records=RECORDS)
    def skip(self, past: int | None, which: str, records: Records) -> None:
        """A person gives up the unfinished batch, what a partition has of it up to an offset, or one record."""
        plan = self.world.unfinished(PIPELINES[0])
        assert plan is not None
        assert plan.batch is not None
        order: dict[str, Any] = {"batch": plan.batch.key, "reason": "poison"}
        if past is not None and plan.to_read():
            p = plan.to_read()[0]
            order[which] = f"{p.topic_partition.topic}-{p.topic_partition.partition}:{p.start_offset + past}"
        self._produce(records)
        self._through(self._new_run(PIPELINES[0], {"skip": order, **self.ways[PIPELINES[0]]}))

    @rule(pipeline=PIPELINE, which=WHICH, window=st.booleans(), pauses=PAUSES)
    def skip_by_hand(self, pipeline: str, which: int, window: bool, pauses: int) -> None:
        """The same at the command line; also a window, committed or not."""
        pipeline = PIPELINES[0] if self.one else pipeline
        keys = self.world.skippable(pipeline, window=window)
        if keys:
            self.world.start_skip(pipeline, keys[-1 - which % len(keys)], window=window).advance(pauses)

    @rule(pipeline=PIPELINE, by=st.none() | st.integers(1, 3), records=RECORDS, pauses=PAUSES)
    def reset_by_hand(self, pipeline: str, by: int | None, records: Records, pauses: int) -> None:
        """Forward: what was read is not read again."""
        self._produce(records)
        self.world.start_reset(PIPELINES[0] if self.one else pipeline, by).advance(pauses)

    @rule(pipeline=PIPELINE, which=WHICH, pauses=PAUSES, reads=st.booleans())
    def redo_by_hand(self, pipeline: str, which: int, pauses: int, reads: bool) -> None:
        """``reads``: the person starts the Spark jobs of it, too."""
        pipeline = PIPELINES[0] if self.one else pipeline
        folders = [folder for _, folder in self.world.books.batches(pipeline) if self.world.books.committed(folder)]
        if not folders:
            return
        folder = folders[-1 - which % len(folders)]
        done = self.world.start_redo(pipeline, folder).advance(pauses).succeeded
        if done and reads and (run := self.world.run_by_hand(pipeline, folder)):
            for split in run.handed.splits if run.handed else ():
                self.world.start_driver(run, split).advance(pauses)

    @rule(pipeline=PIPELINE, pauses=PAUSES)
    def take_over_by_hand(self, pipeline: str, pauses: int) -> None:
        self.world.start_take_over(PIPELINES[0] if self.one else pipeline).advance(pauses)

    @rule(pauses=PAUSES)
    def clean(self, pauses: int) -> None:
        """Everything that is over is old by now."""
        if not self.world.given_offsets:  # such a job does not notice that a window overlaps one that is cleaned away
            self.world.start_clean().advance(pauses)

    @precondition(lambda self: self.world.runs)
    @rule(which=WHICH, pauses=PAUSES)
    def next_task(self, which: int, pauses: int) -> None:
        """What Airflow does next for a run: the task after the one that succeeded, or a retry of a failed one."""
        for step in self.world.next_steps(self._run(which)):
            step.advance(pauses)

    @precondition(lambda self: self.world.runs)
    @rule(which=WHICH, more=MORE, pauses=PAUSES, lives=LIVES)
    def clear_resolve(self, which: int, more: dict[str, Any], pauses: int, lives: bool) -> None:
        """Also a second scheduler: the tries before may still be there."""
        run = self._run(which)
        self._begin(run, pauses, lives, **({} if run.window and more == REDO else self._edited(run, more)))

    @precondition(lambda self: self.world.running)
    @rule(which=WHICH)
    def give_up(self, which: int) -> None:
        """The run has failed, or Airflow thinks so."""
        running = [run.key for run in self.world.runs if run.key in self.world.running]
        self.world.running.discard(running[-1 - which % len(running)])

    @precondition(lambda self: self.world.runs)
    @rule(which=WHICH, more=MORE)
    def clear_all(self, which: int, more: dict[str, Any]) -> None:
        run = self._run(which)
        self._through(run, **self._edited(run, more))

    @precondition(lambda self: self._handed())
    @rule(which=WHICH, pauses=PAUSES, short=st.sampled_from([False, False, False, True]), only=st.booleans())
    def clear_from_spark(self, which: int, pauses: int, short: bool, only: bool) -> None:
        """``short``: the jobs end well and have read half."""
        run = self._handed()[-1 - which % len(self._handed())]
        assert run.handed is not None
        steps = [self.world.start_driver(run, split, short=short).advance(pauses) for split in run.handed.splits]
        if not only and all(step.succeeded for step in steps):
            self.world.start_commit(run).advance(pauses)

    @precondition(lambda self: self._handed())
    @rule(which=WHICH, pauses=PAUSES)
    def clear_commit(self, which: int, pauses: int) -> None:
        """Also a person who marks the Spark tasks as successful, done or not."""
        self.world.start_commit(self._handed()[-1 - which % len(self._handed())]).advance(pauses)

    @precondition(lambda self: self._open())
    @rule(which=WHICH, pauses=PAUSES)
    def go_on(self, which: int, pauses: int) -> None:
        """A worker that was slow, or asleep for a week."""
        steps = self._open()
        steps[-1 - which % len(steps)].advance(pauses)

    @precondition(lambda self: self._open())
    @rule(which=WHICH, arrived=ARRIVED, then=st.sampled_from(["dies", "dies", "error", "taken"]))
    def strike(self, which: int, arrived: int, then: Any) -> None:
        steps = self._open()
        steps[-1 - which % len(steps)].strike(Fate(arrived, then))

    # ── the common ways into trouble, which chance alone would seldom take ────────────────────────────────────────────

    @rule(
        pipeline=PIPELINE,
        records=RECORDS,
        splits=st.integers(1, 2),
        moment=st.sampled_from([(task, where) for task, places in MOMENTS.items() for where in places])
        | st.tuples(st.sampled_from(sorted(MOMENTS)), st.integers(1, 40)),
        meanwhile=MEANWHILE,
        then=st.sampled_from(["dies", "goes on", "goes on"]),
    )
    def interrupted_run(
        self, pipeline: str, records: Records, splits: int, moment: Any, meanwhile: tuple[Any, ...], then: str
    ) -> None:
        """While one of its tasks stands still, something else happens; then it goes on, and does not live for long."""
        self._produce([(PLACES[0], 2, 0), *records])
        run = self._new_run(pipeline, {"splits": splits, **self.ways[pipeline]})
        task, where = moment
        step = self.world.start_resolve(run)
        if task == "resolve":
            self._interrupt(run, step, where, meanwhile, then)
        if not step.finish().succeeded:
            self._note(run, step.error)
            return
        for split in run.handed.splits if run.handed else ():
            step = self.world.start_driver(run, split)
            if task == "spark" and split == 0:
                self._interrupt(run, step, where, meanwhile, then)
            if not step.finish().succeeded:
                self._note(run, step.error)
                return
        step = self.world.start_commit(run)
        if task == "commit":
            self._interrupt(run, step, where, meanwhile, then)
        self._note(run, step.finish().error)

    def _interrupt(self, run: Run, step: Step, where: str | int, meanwhile: tuple[Any, ...], then: str) -> None:
        step.advance_to(where)
        match meanwhile:
            case "other_runs", records, how_many:
                for _ in range(how_many):
                    self.world.running.discard(run.key)
                    self._produce([(PLACES[0], 1, 0), *records])
                    self._through(self._new_run(run.pipeline, {}))
            case "same_task", pauses:
                match step.kind:
                    case "resolve":
                        self.world.start_resolve(run).advance(pauses)
                    case "commit":
                        self.world.start_commit(run).advance(pauses)
            case "read_again", pauses:
                for split in run.handed.splits if run.handed else ():
                    self.world.start_driver(run, split).advance(pauses)
            case "re_plan", records, pauses, splits:
                self.world.running.discard(run.key)
                self._produce(records)
                other = self._new_run(run.pipeline, {"re_plan": True, "splits": splits})
                if self.world.start_resolve(other).advance(pauses).finish().succeeded and pauses > 20:
                    for step_of in self.world.next_steps(other):
                        step_of.advance(pauses)
            case "strike", arrived, fate:
                step.strike(Fate(arrived, fate))
            case name, *arguments:
                self._event(name, *arguments)
        if then == "dies":
            step.strike(Fate())
            self.world.running.discard(run.key)

    @rule(pipeline=PIPELINE, records=RECORDS, more=RECORDS, tasks=st.integers(1, 2), clears=st.sampled_from(CLEARS))
    def overtaken_run(self, pipeline: str, records: Records, more: Records, tasks: int, clears: str) -> None:
        """A run fails, newer ones go on, and then it is cleared: the commonest of all operator actions."""
        self._produce(records)
        old = self._new_run(pipeline, dict(self.ways[pipeline]))
        if not self.world.start_resolve(old).finish().succeeded:
            return
        if tasks == 2:
            for step in self.world.next_steps(old):
                step.finish()
        self.world.running.discard(old.key)
        self._produce(more)
        self._through(self._new_run(pipeline, {}))
        self._clear(old, clears)

    @rule(
        pipeline=PIPELINE,
        records=RECORDS,
        more=RECORDS,
        meanwhile=EVENT,
        asks=ASK,
        newer=st.integers(0, 2),
        clears=st.sampled_from(CLEARS),
    )
    def cleared_after_its_commit(
        self,
        pipeline: str,
        records: Records,
        more: Records,
        meanwhile: tuple[Any, ...],
        asks: dict[str, Any],
        newer: int,
        clears: str,
    ) -> None:
        """It does its own batch once more, whatever has become of the group."""
        self._produce(records)
        run = self._new_run(pipeline, dict(self.ways[pipeline]))
        if self._through(run):
            return
        for _ in range(newer):
            self._produce(more)
            self._through(self._new_run(pipeline, asks))
        self._event(*meanwhile)
        self._clear(run, clears)

    def _clear(self, run: Run, what: str) -> None:
        if what == "expire":
            self._event("expire", None)
        handed = run.handed
        if what in ("all", "expire") or handed is None:
            self._through(run)
            return
        steps = [self.world.start_driver(run, split).finish() for split in handed.splits if what != "commit"]
        if what != "only spark" and all(step.succeeded for step in steps):
            self._note(run, self.world.start_commit(run).finish().error)

    @rule(
        pipeline=PIPELINE,
        records=RECORDS,
        splits=st.tuples(st.integers(1, 3), st.integers(1, 3)),
        pauses=PAUSES,
        where=st.sampled_from(MOMENTS["spark"]),
    )
    def late_driver(self, pipeline: str, records: Records, splits: tuple[int, int], pauses: int, where: str) -> None:
        """It waits in a queue, or works for long, while its batch is planned anew, and comes before the commit."""
        self._produce([(PLACES[0], 2, 0), *records])
        run = self._new_run(pipeline, {**self.ways[pipeline], "splits": splits[0]})
        if not self.world.start_resolve(run).finish().succeeded or not run.handed or not run.handed.splits:
            return
        driver = self.world.start_driver(run, run.handed.splits[0]).advance_to(where)
        self.world.running.discard(run.key)
        other = self._new_run(pipeline, {"splits": splits[1], "re_plan": True, "max_records": splits[1]})
        if not self.world.start_resolve(other).finish().succeeded:
            return
        steps = [step.finish() for step in self.world.next_steps(other)]
        driver.advance(pauses)
        if all(step.succeeded for step in steps) and other.handed:
            self._note(other, self.world.start_commit(other).finish().error)
            self._through(other)

    @rule(
        pipeline=PIPELINE,
        splits=st.integers(2, 3),
        reads=st.integers(1, 3),
        gone=st.lists(st.tuples(PLACE, st.integers(1, 4)), max_size=2),
        how=st.sampled_from(["next", "advance", "advance", "skip", "re_plan"]),
        tasks=st.integers(0, 2),
        late=st.sampled_from([None, None, "list", "create plan", "create plan"]),
    )
    def half_read_run(
        self,
        pipeline: str,
        splits: int,
        reads: int,
        gone: list[tuple[TopicPartition, int]],
        how: str,
        tasks: int,
        late: str | None,
    ) -> None:
        """Some splits are read; then records of these or others are gone or skipped, and another run goes on.

        ``late``: the last one of them is written, its first record goes, and it is reported when the other run has come
        so far.
        """
        self._produce([(PLACES[0], 3, 0), (PLACES[1], 2, 0)])
        run = self._new_run(pipeline, {**self.ways[pipeline], "splits": splits})
        if not self.world.start_resolve(run).finish().succeeded or run.handed is None or run.handed.plan is None:
            return
        plan, read = run.handed.plan, run.handed.splits[:reads]
        drivers = [self.world.start_driver(run, split) for split in read]
        for driver in drivers[: -1 if late else None]:
            driver.finish()
        if late and read and plan.splits[read[-1]]:
            drivers[-1].advance_to("read it back")
            written = plan.splits[read[-1]][0]
            self.world.cluster.delete_records(written.topic_partition, written.start_offset + 1)
        self.world.running.discard(run.key)
        unread = [p for number, split in enumerate(plan.splits) if number not in read for p in split]
        ask: dict[str, Any] = {"data_loss": "advance"} if how in ("advance", "re_plan") else {}
        ask |= {"re_plan": True} if how == "re_plan" else {}
        if how == "skip" and unread:
            first = unread[0]
            past = f"{first.topic_partition.topic}-{first.topic_partition.partition}:{first.start_offset}"
            ask["skip"] = {"batch": plan.batch.key, "reason": "poison", "past": past}
        else:
            for tp, how_many in gone:
                self._retention(tp, how_many)
        other = self._new_run(pipeline, {**ask, **self.ways[pipeline]})
        if late and drivers:
            step = self.world.start_resolve(other).advance_to(late)
            drivers[-1].finish()
            step.finish()
        self._through(other, last=tasks)

    @rule(pipeline=PIPELINE, records=RECORDS, tasks=st.integers(0, 2), finishes=st.booleans())
    def replaced_run(self, pipeline: str, records: Records, tasks: int, finishes: bool) -> None:
        """A run has read all, and before it commits, another one plans the batch anew, and comes so far."""
        self._produce([(PLACES[0], 2, 0), *records])
        old = self._new_run(pipeline, dict(self.ways[pipeline]))
        if not self.world.start_resolve(old).finish().succeeded:
            return
        steps = [step.finish() for step in self.world.next_steps(old)]
        self.world.running.discard(old.key)
        self._produce([(PLACES[0], 1, 0)])
        other = self._new_run(pipeline, {"re_plan": True, **self.ways[pipeline]})
        self._through(other, last=tasks)
        if all(step.succeeded for step in steps):
            self._note(old, self.world.start_commit(old).finish().error)
        if finishes:
            self._through(other)

    @rule(
        pipeline=PIPELINE,
        first=st.integers(0, 6),
        seconds=st.integers(1, 4),
        other=st.tuples(st.integers(0, 6), st.integers(1, 4)),
        where=st.sampled_from(("create plan", "create claim", "list", "create run")) | st.integers(1, 40),
        pauses=PAUSES,
        words=st.sampled_from([{}, {}, {"re_plan": True}]),
    )
    def two_windows(
        self,
        pipeline: str,
        first: int,
        seconds: int,
        other: tuple[int, int],
        where: str | int,
        pauses: int,
        words: dict[str, Any],
    ) -> None:
        """Two runs plan windows at one moment, which may be the same, overlap, touch or lie apart."""
        one = self._new_run(pipeline, {**_window(first, seconds), **words})
        two = self._new_run(pipeline, _window(*other))
        step = self.world.start_resolve(one).advance_to(where)
        self.world.start_resolve(two).advance(pauses)
        if step.finish().succeeded:
            self._through(one)
        self._through(two)

    # ── Kafka, people and disks: rarer than what Airflow does ─────────────────────────────────────────────────────────

    @precondition(lambda self: self.possible)
    @rule(event=EVENT)
    def event(self, event: tuple[Any, ...]) -> None:
        self._event(*event)

    def _event(self, name: str, *arguments: Any) -> None:
        if name in self.possible:
            getattr(self, f"_{name}")(*arguments)

    def _produce(self, records: Records) -> None:
        for tp, how_many, late in records:
            if tp.topic in self.world.cluster.topics:
                self.world.produce(tp, how_many, late)

    def _truncation(self, tp: TopicPartition, how_many: int) -> None:
        if tp.topic in self.world.cluster.topics:
            log = self.world.cluster.topics[tp.topic].logs[tp.partition]
            self.world.truncate(tp, max(log.log_start_offset, log.high_watermark - how_many))

    def _election(self, tp: TopicPartition, somebody: bool) -> None:
        if tp.topic in self.world.cluster.topics:
            self.world.cluster.elect(tp, 1 if somebody else None)

    def _add_partition_or_topic(self) -> None:
        topics = self.world.cluster.topics
        if TOPICS[1] not in topics:
            self.world.cluster.create_topic(TOPICS[1])
        elif len(topics[TOPICS[0]].logs) < 4:
            self.world.cluster.add_partitions(TOPICS[0], 1)

    def _retention(self, tp: TopicPartition, how_many: int) -> None:
        if tp.topic in self.world.cluster.topics:
            log = self.world.cluster.topics[tp.topic].logs[tp.partition]
            self.world.cluster.delete_records(tp, min(log.high_watermark, log.log_start_offset + how_many))

    def _recreate_topic(self, tp: TopicPartition) -> None:
        if tp.topic in self.world.cluster.topics:
            self.world.recreate_topic(tp.topic)

    def _delete_topic(self) -> None:
        if TOPICS[1] in self.world.cluster.topics:
            self.world.delete_topic(TOPICS[1])

    def _expire(self, partitions: list[TopicPartition] | None) -> None:
        if not self.world.members:
            self.world.expire("g", partitions)

    def _reset_by_a_person(self, tp: TopicPartition, offset: int) -> None:
        if not self.world.members:
            self._commit_as_somebody(tp, offset)

    def _consumer(self, tp: TopicPartition, offset: int) -> None:
        """It joins; when it is there, it commits, or leaves."""
        if self.world.members and offset < 6:
            self.world.members_leave()
        elif self.world.members:
            self._commit_as_somebody(tp, offset)
        elif tp.topic in self.world.cluster.topics:
            self.world.member_joins("g", tp.topic)

    def _commit_as_somebody(self, tp: TopicPartition, offset: int) -> None:
        if tp.topic in self.world.cluster.topics:
            log = self.world.cluster.topics[tp.topic].logs[tp.partition]
            self.world.commit_as_somebody("g", tp, max(log.log_start_offset, min(offset, log.high_watermark)))

    def _lose_store(self, copy: int | None) -> None:
        # Nobody knows of the output that the DAG does not name any more, and some jobs do not look at what it holds.
        if not (self.world.edits or self.world.given_offsets):
            self.world.lose_store(copy)

    def _copy_store(self) -> None:
        self.world.copy_store()

    def _replace_cluster(self) -> None:
        self.world.replace_cluster()

    def _edit_output(self, pipeline: str) -> None:
        if not self.world.books.store_changed_at:
            self.world.edits[pipeline] += 1

    def _transact(self, tp: TopicPartition, how_many: int) -> None:
        if tp.topic in self.world.cluster.topics:
            self.world.transact(tp, how_many)

    def _end_transactions(self, aborted: bool) -> None:
        self.world.end_transactions(aborted=aborted)

    def _move_airflow(self) -> None:
        self.world.instance = f"{self.world.instance}'"

    # ── what must hold at the end ─────────────────────────────────────────────────────────────────────────────────────

    def teardown(self) -> None:
        try:
            # Not where a rule has failed already: what fails here would hide it.
            if hasattr(self, "world") and sys.exception() is self.raised_outside:
                self._remedies_lead_on()
        finally:
            logging.disable(logging.NOTSET)
            for each in self.patches:
                each.stop()

    def _remedies_lead_on(self) -> None:
        """All that is under way dies; then a new run gets through, and the next one reads just the rest."""
        for step in self._open():
            step.strike(Fate())
        self.world.members_leave()
        self.world.end_transactions(aborted=False)
        self.world.elect_leaders()
        self.world.running.clear()
        for pipeline in PIPELINES[: 1 if self.one else 2]:
            self._new_runs_get_through(pipeline)
            self._windows_end(pipeline)
            self._old_runs_end(pipeline)
            self._the_next_run_reads_the_rest(pipeline)
            self.world.check(pipeline)

    def _new_runs_get_through(self, pipeline: str) -> None:
        words: dict[str, Any] = {}
        said = []
        for _ in range(8):
            run = self._new_run(pipeline, dict(words))
            error = self._with_retries(run)
            if error is None:
                return
            said.append(f"{type(error).__name__}: {error}")
            words = {**words, **remedies.words_for(self.world, run, error)}
        raise AssertionError(f"no remedy leads {pipeline} on; tried {words}:\n" + "\n\n".join(said))

    def _with_retries(self, run: Run) -> Exception | None:
        """The run, cleared up to three times, with what its errors say is to be done by hand."""
        for _ in range(4):
            error = self._through(run)
            if error is None or (run.resolve and run.resolve.error):
                break
        self.world.running.discard(run.key)
        return error

    def _old_runs_end(self, pipeline: str) -> None:
        """A run that was not over is cleared: it gets through, its batch is gone, or it was told to wait for words."""
        for run in [run for run in self.world.runs if run.pipeline == pipeline and not run.is_done][-3:]:
            once = ("skip", "re_plan", "redo", "restart", "hold", "topic_pattern")
            run.ask = {name: word for name, word in run.ask.items() if name not in once}
            said = []
            for _ in range(8):
                error = self._with_retries(run)
                if error is None or self._is_final(run, error):
                    break
                said.append(f"{type(error).__name__}: {error}")
                run.ask = {**run.ask, **remedies.words_for(self.world, run, error)}
            else:
                raise AssertionError(f"{run} never ends; asked {run.ask}:\n" + "\n\n".join(said))

    def _windows_end(self, pipeline: str) -> None:
        """A window gets through, or its records are in others; one that nobody finished is skipped, and makes room."""
        windows = [run for run in self.world.runs if run.pipeline == pipeline and run.window and not run.is_done]
        for old in windows[-2:]:
            said = []
            for _ in range(6):
                run = self._new_run(pipeline, _bounds_of(old))
                error = self._with_retries(run)
                if error is None or self._is_final(run, error):
                    break
                said.append(f"{type(error).__name__}: {error}")
                words = remedies.words_for(self.world, run, error)
                old.ask = {**old.ask, **words}
                if isinstance(error, WindowOverlaps):
                    others = self.world.unfinished_windows(pipeline)
                    for key, ask in others:
                        self.world.start_skip(pipeline, key, window=True).finish()
                        self._with_retries(self._new_run(pipeline, ask))
                    if not others:  # the records are in windows that are done
                        break
            else:
                raise AssertionError(f"window {old} never ends:\n" + "\n\n".join(said))

    def _is_final(self, run: Run, error: Exception) -> bool:
        """Whether the error says that nothing more is to be done with this run."""
        match error:
            case BatchGone() | WindowOverlaps():
                return True
            case DataLoss() | ReadNotVerified():
                return self.world.is_left_as_it_is(run)
        return False

    def _the_next_run_reads_the_rest(self, pipeline: str) -> None:
        for _ in range(4):
            before = self.world.books.newest_commit(pipeline)
            self._produce([(place, 2, 0) for place in PLACES])
            run = self._new_run(pipeline, {"topic_vanished": "drop"})
            error = self._with_retries(run)
            if error is None:
                break
            self._new_runs_get_through(pipeline)  # what was verified is finished first, on whichever cluster it was
        else:
            raise AssertionError(f"the run after it is stopped: {error}")
        assert run.handed is not None
        plan = run.handed.plan
        assert plan is not None
        for p in plan.partitions:
            tp = p.topic_partition
            assert p.end_offset == self.world.cluster.topics[tp.topic].logs[tp.partition].high_watermark
            if before is not None and before.position is not None and tp in before.position.offsets:
                assert p.start_offset == before.position.offsets[tp].offset

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _through(self, run: Run, *, last: int = 2, **more: Any) -> Exception | None:
        """Resolve, read and commit without a pause; the refusal that stopped it, of which people do what it says.

        :param last: which of the three comes last.
        """
        error = self.world.start_resolve(run, **more).finish().error
        if error is None and run.handed is not None and last > 0:
            for split in run.handed.splits:
                error = self.world.start_driver(run, split).finish().error
                let = f"{run} was let read what is gone: {error}"
                moved = run.handed.plan and "its output is" in (run.handed.plan.reason or "")  # not looked at again
                assert not isinstance(error, DataLoss) or "skip" in run.ask or moved, let
                if error is not None:
                    break
        if error is None and last > 1:
            error = self.world.start_commit(run).finish().error
        self._note(run, error)
        return error

    def _note(self, run: Run, error: Exception | None) -> None:
        self.world.running.discard(run.key)
        self.ways[run.pipeline] = remedies.words_for(self.world, run, error) if error else {}
        if error is not None:
            asked = {"skip", "re_plan", "redo", "restart"} & run.ask.keys()
            moved = "The DAG's output is" in str(error)
            assert not isinstance(error, InvalidRequest) or asked or moved, f"{run}: {error}"
            assert isinstance(error, KafkaOffsetsError) or "Spark" in type(error).__name__
            remedies.act(self.world, run, error)

    def _begin(self, run: Run, pauses: int, lives: bool, **more: Any) -> None:
        step = self.world.start_resolve(run, **more)
        if not lives:
            self.world.running.discard(run.key)
        step.advance(pauses)

    def _new_run(self, pipeline: str, ask: dict[str, Any]) -> Run:
        pipeline = PIPELINES[0] if self.one else pipeline
        if ask.get("group_moved") == "chosen":
            ask = {**ask, "group_moved": self.world.choices[pipeline]["group_moved"]}
        return self.world.new_run(pipeline, self._asks(ask))

    def _asks(self, ask: dict[str, Any]) -> dict[str, Any]:
        if "lose_store" in self.possible:  # the group alone tells of the loss, and an edited DAG asks another one
            return {name: word for name, word in ask.items() if name not in ("group_id", "commit_mode")}
        return ask

    def _edited(self, run: Run, more: dict[str, Any]) -> dict[str, Any]:
        """What a run is asked besides, when it is cleared; a window reads all of its time."""
        not_for_it = ("startup_mode", "max_records", *HOLDS) if run.window else ()
        return {name: word for name, word in self._asks(more).items() if name not in not_for_it}

    def _run(self, which: int) -> Run:
        return self.world.runs[-1 - which % len(self.world.runs)]

    def _handed(self) -> list[Run]:
        return [run for run in self.world.runs if run.handed is not None]

    def _open(self) -> list[Step]:
        return self.world.open_steps()


def _bounds_of(run: Run) -> dict[str, Any]:
    return {
        name: value for name, value in run.ask.items() if "_mode" in name or "_timestamp" in name or name in SITUATIONS
    }


@pytest.fixture(scope="module", autouse=True)
def _cuts_ranges_of_a_few_records() -> Iterator[None]:
    """A world has a handful of records, and the pieces of a partition have to go through all that happens in it."""
    with patch.object(splits_module, "LEAST_CUT", 1):
        yield


def _window(first: int, seconds: int) -> dict[str, Any]:
    start = T + 1000 * first
    return {
        "startup_mode": "timestamp",
        "startup_timestamp": start,
        "bounded_mode": "timestamp",
        "bounded_timestamp": start + 1000 * seconds,
    }


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=int(os.environ.get("MODEL_EXAMPLES", "200")),
    derandomize="MODEL_EXAMPLES" not in os.environ,
    stateful_step_count=int(os.environ.get("MODEL_STEPS", "40")),
    print_blob=True,
    phases=[phase for phase in Phase if phase is not Phase.explain and (SHRINKS or phase is not Phase.shrink)],
    suppress_health_check=list(HealthCheck),
)
