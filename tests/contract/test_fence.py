"""Commits of one pipeline that meet each other, somebody else, or their end, at each moment of the write to the group.

The log decides which commit is made (``test_commit``), and ``test_mirror`` has the rules of the group. Here is what may
happen in between: to both kinds of commit, and on a real broker where Kafka decides. Below it is the fence alone.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Barrier
from typing import Any, cast

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.protocol import Fencing
from airflow_kafka_offsets.errors import CommitUnsettled, GroupActive, GroupMoved, KafkaOffsetsError
from airflow_kafka_offsets.offsets.batch.mark import Mark
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.pipeline.commit import CommitOutcome
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.stores.store import Store
from testbed import kafka_answers, kafka_proxy
from testbed.broker import KafkaBroker
from testbed.kafka_proxy import KafkaProxy, Moment
from tests.cluster.commits import Interrupted, commit
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Lake, Pipeline, Run, entries
from tests.contract.troubles import Killed, die, produce

# "Before the second look": the members were looked at, and nothing is sent yet. A plain commit does not look at them.
MOMENTS: list[tuple[Fencing, str]] = [
    ("compare", "before_commit"),
    ("compare", "after_commit"),
    ("transaction", "before_second_look"),
    ("transaction", "before_commit"),
    ("transaction", "after_commit"),
]
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


def marks(pipeline: Pipeline) -> set[Mark | None]:
    partitions = [TopicPartition(pipeline.topic, number) for number in range(3)]
    return {Mark.of(commit) for commit in pipeline.cluster.committed(pipeline.group, partitions).values()}


# ── two committers ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("fencing", "moment"), MOMENTS)
def test_two_commits_of_one_batch_make_one_and_both_are_done(
    cluster: AnyCluster, pipeline: Pipeline, fencing: Fencing, moment: str
) -> None:
    """A run that was taken for dead, and the one that did its batch again."""
    pipeline.parameters["fencing"] = fencing
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
    broker: KafkaBroker, topic: Callable[..., str], group: str, store: LocalStore, fencing: Fencing
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
        pipeline.parameters["fencing"] = fencing
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


class DoesNotWait:
    """A cluster whose answers about a group leave out what is pending there."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def committed(self, *asked: Any, **how: Any) -> Any:
        return self._real.committed(*asked, **{**how, "stable": False})


def test_an_unsettled_write_gives_way_to_a_newer_position(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """What a broker answers to a commit while a younger committer opens the fence does not tell whether it arrived."""
    pipeline.parameters["fencing"] = "transaction"
    run = pipeline.resolve("one").spark()

    def overtake() -> None:
        produce(cluster, pipeline)
        replace(pipeline, cluster=DoesNotWait(pipeline.cluster)).run("two")
        raise CommitUnsettled("Cannot commit", "UNKNOWN", "Retry.", retriable=True)

    commit_while(run, "before_commit", overtake)
    assert pipeline.held() == pipeline.at() == AT_SIX


def test_a_dry_run_fences_nobody_off(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.parameters["fencing"] = "transaction"
    run = pipeline.resolve("one").spark()
    looks: list[CommitOutcome] = []
    interrupted = Interrupted(pipeline.cluster, before_second_look=lambda: looks.append(run.commit(dry_run=True)))
    replace(run, pipeline=replace(pipeline, cluster=interrupted)).commit()
    assert [set(look.written.values()) for look in looks] == [{(None, 4)}], "else the commit would begin once more"
    assert pipeline.held() == AT_FOUR


# ── others, who know of no fence ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fencing", "moment", "stands"),
    [
        # Kafka has no compare-and-set. It is as if the person had been a moment earlier than they were.
        ("compare", "before_commit", False),
        ("compare", "after_commit", True),
        ("transaction", "before_second_look", False),
        ("transaction", "before_commit", True),  # the broker drops what was pending before a plain commit came
        ("transaction", "after_commit", True),
    ],
)
def test_a_persons_reset_stands_and_is_named_or_came_before_the_write(
    cluster: AnyCluster, pipeline: Pipeline, fencing: Fencing, moment: str, stands: bool
) -> None:
    pipeline.parameters["fencing"] = fencing
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
    assert pipeline.run("next", on_group_moved="adopt-group").ranges == [(2, 4), (4, 4), (4, 4)]
    assert pipeline.held() == AT_FOUR


@pytest.mark.parametrize(("fencing", "moment"), [row for row in MOMENTS if row[1] != "after_commit"])
def test_a_consumer_that_joins_after_the_look_is_refused_by_the_broker_or_has_the_batch_before_it(
    cluster: AnyCluster, pipeline: Pipeline, fencing: Fencing, moment: str
) -> None:
    """The broker takes a transaction under members. Either way the log has the commit, and nothing else is written."""
    pipeline.parameters["fencing"] = fencing
    run = pipeline.resolve("one").spark()
    member = cluster.live_member(pipeline.group, pipeline.topic)
    try:
        if fencing == "compare":
            with pytest.raises(GroupActive, match="live members"):
                commit_while(run, moment, member.__enter__)
            assert pipeline.held() == {}
        else:
            assert commit_while(run, moment, member.__enter__).by_this
            assert pipeline.held() == AT_FOUR
        with pytest.raises(GroupActive):
            run.commit()
    finally:
        member.__exit__(None, None, None)
    assert entries(run.batch) == ["plan", "commit"]
    assert not run.commit().by_this
    assert pipeline.held() == AT_FOUR


# ── a crash at every step ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("then", ["the retry", "the next run"])
@pytest.mark.parametrize(("fencing", "moment"), MOMENTS)
def test_a_crash_at_any_moment_of_the_write_loses_nothing_and_repeats_nothing(
    cluster: AnyCluster, pipeline: Pipeline, fencing: Fencing, moment: str, then: str
) -> None:
    pipeline.parameters["fencing"] = fencing
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
    """A store, a cluster or an open commit whose every call is a step of a :class:`Life`.

    What was killed says no farewell: an open commit is left as it is.
    """

    def __init__(self, real: Any, life: Life) -> None:
        self._real, self._life = real, life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found):
            return found

        def call(*args: Any, **how: Any) -> Any:
            self._life.step(name)
            answer = found(*args, **how)
            return Mortal(answer, self._life) if name == "open_commit" else answer

        return call

    def __enter__(self) -> Mortal:
        self._life.step("enter")
        self._real.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if kind is not Killed:
            self._real.__exit__(kind, error, trace)


def with_life(run: Run, life: Life) -> Run:
    """``run``, whose commit task has only so many steps to live."""
    here, store = run.pipeline, cast(Store, Mortal(run.pipeline.store, life))
    return replace(run, pipeline=replace(here, cluster=Mortal(here.cluster, life), store=store))


@pytest.mark.parametrize("then", ["the retry", "the next run", "the retry, after the next run"])
def test_a_commit_that_is_killed_between_any_two_steps_loses_nothing_and_repeats_nothing(
    in_memory: Pipeline, memory: AnyCluster, fencing: Fencing, then: str
) -> None:
    """Steps of the work store and of the group, from the first look at the batch to the last one at the log."""
    in_memory.parameters["fencing"] = fencing
    for steps in range(100):
        group = f"{in_memory.group}-{steps}"
        pipeline = replace(in_memory, group=group, checkpoint_id=group, lake=Lake())
        run, life = pipeline.resolve("one").spark(), Life(steps)
        try:
            with_life(run, life).commit()
            break
        except Killed:
            died_before = f"step {steps + 1}, after {life.taken[-1] if life.taken else 'nothing'}"
        committed = run.batch.again().log.committed
        if committed is None:
            assert pipeline.held(stable=False) == {}, f"the group is ahead of the log: {died_before}"
        if then == "the retry":
            assert run.commit().by_this == (committed is None), died_before
        else:
            memory.reader.time_out(group)  # type: ignore[union-attr]  # the broker's, of what was left pending
            two = pipeline.run("two")
            assert (two.assignment.batch is None) == (committed is not None), died_before
        if then == "the retry, after the next run":
            assert not run.commit().by_this, died_before
        produce(memory, pipeline)
        pipeline.run("three")
        ends = dict.fromkeys(range(3), (steps + 1) * 2 + 4)
        assert pipeline.held() == pipeline.at() == ends, died_before
        assert pipeline.lake.offsets() == {number: list(range(end)) for number, end in ends.items()}, died_before
    assert {"create", "enter", "send", "commit"} <= set(life.taken)
    assert life.taken[-1] != "commit", "it looks at the log after the write"


HANGS = """
    import os, signal
    from airflow_kafka_offsets.broker.cluster import KafkaCluster
    from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
    with KafkaCluster({config!r}) as cluster, cluster.open_commit({group!r}, "transaction") as opened:
        opened.send({{TopicPartition({topic!r}, 0): CommittedOffset(3)}})
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_committer_left_pending_is_aborted_by_the_next_one(
    broker: KafkaBroker, group: str, topic: Callable[..., str], store: LocalStore
) -> None:
    """At once: the retry of a killed commit task does not wait until the transaction times out."""
    name = topic(3)
    tp = TopicPartition(name, 0)
    broker.produce(name, [(partition, None, "x", 1) for partition in range(3) for _ in range(4)])
    with KafkaCluster(broker.client_config) as cluster:
        pipeline = Pipeline(cluster, store, name, group)
        pipeline.parameters["fencing"] = "transaction"
        run = pipeline.resolve("one").spark()
        with pytest.raises(Killed):
            commit_while(run, "before_second_look", die)
    script = textwrap.dedent(HANGS.format(config=dict(broker.client_config), group=group, topic=name))
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -9
    with KafkaCluster(broker.client_config, deadline_s=1.0, attempt_s=1.0) as impatient:
        with pytest.raises(KafkaOffsetsError, match="UNSTABLE_OFFSET_COMMIT"):
            impatient.committed(group, [tp])  # nobody can know yet
        assert impatient.committed(group, [tp], stable=False) == {}
    with KafkaCluster(broker.client_config, deadline_s=10.0) as cluster:  # the transaction may take 30 s, and 10 more
        pipeline.cluster = cluster
        assert not run.commit().by_this
        assert pipeline.held() == AT_FOUR


@pytest.mark.parametrize("arrived", [True, False], ids=["arrived", "did not arrive"])
def test_a_broker_that_does_not_tell_whether_the_commit_arrived_is_asked_what_it_has(
    broker: KafkaBroker, proxy: KafkaProxy, topic: Callable[..., str], group: str, store: LocalStore, arrived: bool
) -> None:
    """UNKNOWN: a 4.1 broker's answer to a commit while a younger committer opens the fence."""
    orders = topic(3)
    broker.produce(orders, [(partition, None, "x", 1) for partition in range(3)])
    unknown = kafka_answers.end_txn_error(kafka_answers.UNKNOWN_SERVER_ERROR)
    with KafkaCluster({"bootstrap.servers": proxy.bootstrap_servers, "client.id": "committer"}) as cluster:
        pipeline = Pipeline(cluster, store, orders, group)
        pipeline.parameters["fencing"] = "transaction"
        run = pipeline.resolve("one").spark()
        rule = proxy.arm(
            "EndTxn answered with UNKNOWN",
            Moment("committer", kafka_proxy.END_TXN),
            (kafka_proxy.changed if arrived else kafka_proxy.instead)(unknown),
        )
        outcome = run.commit()
        assert rule.proof()
        assert outcome.by_this
        assert set(outcome.written.values()) == {(1 if arrived else None, 1)}
        assert pipeline.held() == pipeline.at() == {0: 1, 1: 1, 2: 1}


# ── the fence itself, over both clusters ──────────────────────────────────────────────────────────────────────────────


def test_what_was_sent_is_not_seen_before_it_is_committed(cluster: AnyCluster, orders: str, group: str) -> None:
    tp = TopicPartition(orders, 0)
    with cluster.reader.open_commit(group, "transaction") as opened:
        opened.send({tp: CommittedOffset(5)})
        assert cluster.reader.committed(group, [tp], stable=False) == {}
    assert cluster.reader.committed(group, [tp]) == {}, "leaving without a commit aborts it"


def test_a_fenced_commit_is_all_or_nothing(cluster: AnyCluster, orders: str, group: str) -> None:
    good, missing = TopicPartition(orders, 0), TopicPartition(orders, 8)
    with pytest.raises(KafkaOffsetsError, match=r"8\]"):
        commit(cluster.impatient, group, dict.fromkeys((good, missing), CommittedOffset(1)), "transaction")
    assert cluster.reader.committed(group, [good]) == {}


def test_groups_do_not_fence_each_other_off(cluster: AnyCluster, orders: str, group: str) -> None:
    tp = TopicPartition(orders, 0)
    with cluster.reader.open_commit(group, "transaction") as opened:
        opened.send({tp: CommittedOffset(5)})
        commit(cluster.reader, f"{group}-{uuid.uuid4().hex[:6]}", {tp: CommittedOffset(1)}, "transaction")
        opened.commit()
    assert cluster.reader.committed(group, [tp])[tp].offset == 5
