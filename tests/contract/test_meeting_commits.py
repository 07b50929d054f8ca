"""Commits of one pipeline that meet each other, somebody else, or their end, at each moment of the write to the group.

The log decides which commit is made (``test_commit``), and ``test_mirror`` has the rules of the group. Here is what may
happen in between, also on a real broker.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Barrier
from typing import Any, cast

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import GroupMoved
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.stores.store import Store
from testbed.broker import KafkaBroker
from tests.cluster.commits import Interrupted
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Lake, Pipeline, Run, entries
from tests.contract.troubles import Killed, die, produce
from tests.engine import CommitOutcome
from tests.stores.builders import as_it_is_now

pytestmark = pytest.mark.also_on_a_broker

MOMENTS = ["before_commit", "after_commit"]
AT_FOUR = {0: 4, 1: 4, 2: 4}
AT_SIX = {0: 6, 1: 6, 2: 6}


def commit_while(run: Run, moment: str, happens: Callable[[], Any]) -> CommitOutcome:
    """Commit ``run``, and let something happen once, at one moment of the write to the group."""
    calls = iter([happens])

    def once() -> None:
        for call in calls:
            call()

    interrupted = Interrupted(run.pipeline.cluster, **{moment: once})
    outcome = replace(run, pipeline=replace(run.pipeline, cluster=interrupted)).commit()
    assert next(calls, None) is None, f"there was no moment {moment}"
    return outcome


def marks(pipeline: Pipeline) -> set[CommitMetadata | None]:
    partitions = [TopicPartition(pipeline.topic, number) for number in range(3)]
    return {CommitMetadata.of(commit) for commit in pipeline.cluster.committed(pipeline.group, partitions).values()}


# ── two committers ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("moment", MOMENTS)
def test_two_commits_of_one_batch_make_one_and_both_are_done(
    cluster: AnyCluster, pipeline: Pipeline, moment: str
) -> None:
    """A run that was taken for dead, and the one that did its batch again."""
    slow = pipeline.resolve("slow").spark()
    fast = pipeline.resolve("fast").spark()
    outcomes: list[CommitOutcome] = []
    outcomes.append(commit_while(slow, moment, lambda: outcomes.append(fast.commit())))
    assert [outcome.by_this for outcome in outcomes] == [False, True]
    assert entries(slow.batch) == ["plan", "taken", "commit"]
    assert pipeline.held() == pipeline.at() == AT_FOUR
    assert {mark.batch if mark else None for mark in marks(pipeline)} == {slow.batch_key}
    assert pipeline.resolve("next").assignment.batch is None
    assert pipeline.lake.offsets() == {number: [0, 1, 2, 3] for number in range(3)}


def test_fifty_races_end_with_the_group_at_the_position(
    broker: KafkaBroker, topic: Callable[..., str], group: str, store: LocalStore
) -> None:
    """Two clients let go at one moment: a late commit, against that of the same batch and a batch more."""
    orders = topic(3)

    def produce_one() -> None:
        broker.produce(orders, [(partition, None, "x", 1) for partition in range(3)])

    with (
        KafkaCluster(broker.client_config) as left,
        KafkaCluster(broker.client_config) as right,
        ThreadPoolExecutor(2) as threads,
    ):
        pipeline = Pipeline(right, store, orders, group)
        for number in range(20):
            produce_one()
            late = replace(pipeline, cluster=left).resolve(f"late-{number}").spark()
            on_time = pipeline.resolve(f"on-time-{number}").spark()
            produce_one()
            start = Barrier(2)

            def come_late(late: Run = late, start: Barrier = start) -> bool:
                start.wait()
                return late.commit().by_this

            def go_on(run: Run = on_time, start: Barrier = start) -> bool:
                start.wait()
                made = run.commit().by_this
                pipeline.run(f"next-{run.number}")
                return made

            made = [future.result() for future in [threads.submit(come_late), threads.submit(go_on)]]
            assert sorted(made) == [False, True], f"race {number}"
            assert pipeline.held() == pipeline.at() == dict.fromkeys(range(3), 2 * number + 2), f"race {number}"
        assert pipeline.newest.log.plan.batch is not None
        assert pipeline.newest.log.plan.batch.number == 40
        assert pipeline.lake.offsets() == {partition: list(range(40)) for partition in range(3)}


# ── others ────────────────────────────────────────────────────────────────────────────────────────────────────────────


# Kafka has no compare-and-set: before the commit it is as if the person had been a moment earlier than they were.
@pytest.mark.parametrize(("moment", "stands"), [("before_commit", False), ("after_commit", True)])
def test_a_persons_reset_stands_and_is_named_or_came_before_the_write(
    cluster: AnyCluster, pipeline: Pipeline, moment: str, stands: bool
) -> None:
    run = pipeline.resolve("one").spark()
    reset = {TopicPartition(pipeline.topic, 0): 2}
    assert commit_while(run, moment, lambda: cluster.commit_as_somebody(pipeline.group, reset)).by_this
    assert pipeline.at() == AT_FOUR
    if not stands:
        assert pipeline.held() == AT_FOUR
        assert pipeline.resolve("next").assignment.batch is None
        return
    assert pipeline.held() == {**AT_FOUR, 0: 2}
    with pytest.raises(GroupMoved, match="the position is 4, and the group is at 2"):
        pipeline.resolve("next")
    assert pipeline.held() == {**AT_FOUR, 0: 2}, "what the person wrote stands"
    assert pipeline.run("next", group_moved="adopt-group").ranges == [(2, 4), (4, 4), (4, 4)]
    assert pipeline.held() == AT_FOUR


def test_the_group_stays_behind_a_consumer_that_joins_before_the_write(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """The log has the commit, and the group is written once the consumer is gone."""
    run = pipeline.resolve("one").spark()
    member = cluster.live_member(pipeline.group, pipeline.topic)
    try:
        commit_while(run, "before_commit", member.__enter__)
        assert pipeline.held() == {}
        assert run.commit().group.is_behind
    finally:
        member.__exit__(None, None, None)
    assert entries(run.batch) == ["plan", "commit"]
    assert not run.commit().by_this
    assert pipeline.held() == AT_FOUR


# ── a crash at every step ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("then", ["the retry", "the next run"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_at_any_moment_of_the_write_loses_nothing_and_repeats_nothing(
    cluster: AnyCluster, pipeline: Pipeline, moment: str, then: str
) -> None:
    run = pipeline.resolve("one").spark()
    with pytest.raises(Killed):
        commit_while(run, moment, die)
    assert pipeline.held() == (AT_FOUR if moment == "after_commit" else {})
    if then == "the retry":
        assert not run.commit().by_this
    else:
        assert pipeline.run("two").assignment.batch is None
    assert pipeline.held() == pipeline.at() == AT_FOUR
    produce(cluster, pipeline)
    assert pipeline.run("three").ranges == [(4, 6)] * 3
    assert pipeline.held() == AT_SIX
    assert pipeline.lake.offsets() == {number: list(range(6)) for number in range(3)}


@dataclass
class Life:
    """How many steps a process takes before it is killed; without a number, all."""

    steps: int
    taken: list[str] = field(default_factory=list)

    def step(self, name: str) -> None:
        if len(self.taken) == self.steps:
            raise Killed
        self.taken.append(name)


class Mortal:
    """A store or a cluster whose every call is a step of a :class:`Life`."""

    def __init__(self, real: Any, life: Life) -> None:
        self._real, self._life = real, life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found):
            return found

        def call(*args: Any, **how: Any) -> Any:
            self._life.step(name)
            return found(*args, **how)

        return call


def with_life(run: Run, life: Life) -> Run:
    """``run``, whose commit task has only so many steps to live."""
    here, store = run.pipeline, cast(Store, Mortal(run.pipeline.store, life))
    return replace(run, pipeline=replace(here, cluster=Mortal(here.cluster, life), store=store))


@pytest.mark.parametrize("then", ["the retry", "the next run", "the retry, after the next run"])
def test_a_commit_that_is_killed_between_any_two_steps_loses_nothing_and_repeats_nothing(
    in_memory: Pipeline, memory: AnyCluster, then: str
) -> None:
    """Steps of the work store and of the group, from the first look at the batch to the last one at the log."""
    for steps in range(100):
        group = f"{in_memory.group}-{steps}"
        pipeline = replace(in_memory, group=group, pipeline_id=group, lake=Lake())
        run, life = pipeline.resolve("one").spark(), Life(steps)
        try:
            with_life(run, life).commit()
            break
        except Killed:
            died_before = f"step {steps + 1}, after {life.taken[-1] if life.taken else 'nothing'}"
        committed = as_it_is_now(run.batch).log.committed
        if committed is None:
            assert pipeline.held() == {}, f"the group is ahead of the log: {died_before}"
        if then == "the retry":
            assert run.commit().by_this == (committed is None), died_before
        else:
            two = pipeline.run("two")
            assert (two.assignment.batch is None) == (committed is not None), died_before
        if then == "the retry, after the next run":
            assert not run.commit().by_this, died_before
        produce(memory, pipeline)
        pipeline.run("three")
        ends = dict.fromkeys(range(3), (steps + 1) * 2 + 4)
        assert pipeline.held() == pipeline.at() == ends, died_before
        assert pipeline.lake.offsets() == {number: list(range(end)) for number, end in ends.items()}, died_before
    assert {"create", "commit_offsets"} <= set(life.taken)
    assert life.taken[-1] != "commit_offsets", "it looks at the log after the write"
