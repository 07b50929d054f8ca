"""Of two who commit to one group one is fenced off or refused; nothing is rewound, skipped, or written in part."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.protocol import Fencing
from airflow_kafka_offsets.errors import (
    CommitConflict,
    CommitUnsettled,
    GroupActive,
    InvalidRequest,
    KafkaOffsetsError,
    OverlappingRun,
    ReadNotVerified,
    RefusedError,
)
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.reads import begin_read
from testbed import kafka_answers, kafka_proxy
from testbed.broker import KafkaBroker
from testbed.kafka_proxy import KafkaProxy, Moment
from tests.cluster.commits import Interrupted, commit
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import CHECKPOINT, Pipeline, ranges
from tests.contract.troubles import Killed, die

MOMENTS = ("before_second_look", "before_commit", "after_commit")


@pytest.fixture
def pipeline(cluster: AnyCluster, store: WorkStore, orders: str, group: str) -> Pipeline:
    """Four records in each partition, read by no run yet."""
    for partition in range(3):
        cluster.produce(orders, 4, partition)
    return Pipeline(cluster.reader, store, orders, group)


def planned(pipeline: Pipeline, run: str, **parameters: Any) -> OffsetPlan:
    plan = pipeline.plan(run, **parameters)
    pipeline.read(plan)
    return plan


def held(pipeline: Pipeline) -> dict[int, int]:
    found = pipeline.cluster.committed(pipeline.group, [TopicPartition(pipeline.topic, n) for n in range(3)])
    return {tp.partition: commit.offset for tp, commit in found.items()}


def ends(plan: OffsetPlan) -> dict[int, int]:
    return {p.topic_partition.partition: p.end_offset for p in plan.partitions}


def newest_plan(pipeline: Pipeline, plan: OffsetPlan) -> str | None:
    newest = CheckpointChain(pipeline.store, plan.cluster_id, CHECKPOINT).newest()
    assert newest is not None
    return newest.plan_id


def commit_while(pipeline: Pipeline, plan: OffsetPlan, moment: str, happens: Callable[[], Any], **how: Any) -> None:
    """Commit ``plan``, and let something happen once, at one moment of that."""
    calls = iter([happens])

    def once() -> None:
        for call in calls:
            call()

    interrupted = Interrupted(pipeline.cluster, **{moment: once})
    replace(pipeline, cluster=interrupted).commit(plan, **how)


# ── two committers ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("moment", MOMENTS)
def test_of_two_committers_the_slower_is_fenced_or_refused(pipeline: Pipeline, moment: str) -> None:
    """Both were found dead by Airflow, so that neither waits for the other: only the fence is between them."""
    slow, fast = planned(pipeline, "slow"), planned(pipeline, "fast", max_records=6)
    overtaking: list[str] = []

    def overtake() -> None:
        try:
            pipeline.commit(fast)
            overtaking.append("committed")
        except CommitConflict:
            overtaking.append("refused")

    if moment == "after_commit":
        commit_while(pipeline, slow, moment, overtake)
        winner = slow
    else:
        with pytest.raises(CommitConflict):
            commit_while(pipeline, slow, moment, overtake)
        winner = fast
    assert overtaking == ["refused" if winner is slow else "committed"]
    assert held(pipeline) == ends(winner)
    assert newest_plan(pipeline, winner) == winner.plan_id
    assert ranges(pipeline.run("next")) == [(ends(winner)[n], 4) for n in range(3)]


@pytest.mark.parametrize("moment", MOMENTS)
def test_two_committers_of_one_plan_commit_it_once(pipeline: Pipeline, moment: str) -> None:
    """A retry while the first try still runs."""
    plan = planned(pipeline, "one")
    try:
        commit_while(pipeline, plan, moment, lambda: pipeline.commit(plan))
    except CommitConflict:
        assert moment != "after_commit", "what has landed is repeated without harm"
    assert held(pipeline) == ends(plan)
    assert newest_plan(pipeline, plan) == plan.plan_id
    assert ranges(pipeline.run("next")) == [(4, 4)] * 3


@pytest.mark.parametrize("moment", MOMENTS)
def test_without_a_fence_the_work_store_keeps_living_committers_apart(pipeline: Pipeline, moment: str) -> None:
    """``compare``: the broker would take both. A run that came later waits for the one that came first."""
    first, second = planned(pipeline, "first"), planned(pipeline, "second", max_records=6)
    how: dict[str, Any] = {"fencing": "compare", "is_alive": lambda _: True}
    second_try: list[type[KafkaOffsetsError]] = []

    def overtake() -> None:
        with pytest.raises((OverlappingRun, CommitConflict)) as refused:
            pipeline.commit(second, **how)
        second_try.append(refused.type)

    turn = CheckpointChain(pipeline.store, first.cluster_id, CHECKPOINT).turns
    assert first.run is not None
    turn.end(first.run)  # both planned while the other one was taken for dead; now both live, and ask anew
    turn.take(first.run, lambda _: False)
    commit_while(pipeline, first, moment, overtake, **how)
    assert second_try == [OverlappingRun]
    assert held(pipeline) == ends(first)
    with pytest.raises(CommitConflict):
        pipeline.commit(second, **how)


def test_a_hundred_races_end_with_one_commit_each(
    broker: KafkaBroker, topic: Callable[..., str], group: str, store: WorkStore
) -> None:
    """Two processes' worth of clients, let go at one moment, on a real broker; both taken for dead by the other."""
    orders = topic(3)
    with (
        KafkaCluster(broker.client_config) as left,
        KafkaCluster(broker.client_config) as right,
        ThreadPoolExecutor(2) as threads,
    ):
        pipeline = Pipeline(left, store, orders, group)
        position = dict.fromkeys(range(3), 0)
        outcomes: list[str] = []
        for number in range(100):
            broker.produce(orders, [(partition, None, "x", 1) for partition in range(3) for _ in range(2)])
            plans = [
                planned(pipeline, f"{number}-{name}", max_records_per_partition=cap)
                for name, cap in (("one", 1), ("all", None))
            ]
            barrier = Barrier(2)

            def race(cluster: KafkaCluster, plan: OffsetPlan, start: Barrier = barrier) -> str:
                start.wait()
                try:
                    replace(pipeline, cluster=cluster).commit(plan)
                except RefusedError:
                    return "refused"
                return "committed"

            results = list(threads.map(race, (left, right), plans))
            assert results.count("committed") <= 1, f"race {number}: {results}"
            now = held(pipeline)
            if "committed" in results:
                winner = plans[results.index("committed")]
                assert now == ends(winner), f"race {number}: what was committed is the winner's, whole"
                assert newest_plan(pipeline, winner) == winner.plan_id
            else:
                assert {n: now.get(n, 0) for n in range(3)} == position, f"race {number}: both refused, nothing moved"
            for plan in plans:
                assert [start for start, _ in ranges(plan)] == list(position.values()), "nothing was jumped over"
            position = {n: now.get(n, 0) for n in range(3)}
            outcomes += results
        assert outcomes.count("committed") > 50, outcomes


# ── others, who know of no fence ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_persons_reset_is_never_overwritten_in_silence(
    cluster: AnyCluster, pipeline: Pipeline, fencing: Fencing, moment: str
) -> None:
    plan = planned(pipeline, "one")
    tp = TopicPartition(pipeline.topic, 0)
    if (fencing, moment) == ("compare", "before_commit"):
        # What no plain commit can find: the reset came after the last look, and this commit after it. It is as if the
        # person had been a moment earlier than they were; the plan was read, and is committed.
        commit_while(
            pipeline, plan, moment, lambda: cluster.commit_as_somebody(pipeline.group, {tp: 2}), fencing=fencing
        )
        assert held(pipeline) == ends(plan)
        return
    with pytest.raises(CommitConflict, match="2"):
        commit_while(
            pipeline, plan, moment, lambda: cluster.commit_as_somebody(pipeline.group, {tp: 2}), fencing=fencing
        )
    assert held(pipeline)[0] == 2, "what the person wrote stands"
    with pytest.raises(RefusedError):
        pipeline.plan("next")
    adopted = pipeline.run("next", on_group_moved="adopt-group")
    assert ranges(adopted)[0] == (2, 4)


@pytest.mark.parametrize("moment", ["before the first look", *MOMENTS[:2]])
def test_a_consumer_that_joins_is_seen_or_refused_by_the_broker(
    cluster: AnyCluster, pipeline: Pipeline, fencing: Fencing, moment: str
) -> None:
    plan = planned(pipeline, "one")
    member = cluster.live_member(pipeline.group, pipeline.topic)
    try:
        if moment == "before the first look":
            member.__enter__()
            with pytest.raises(GroupActive):
                pipeline.commit(plan, fencing=fencing)
            assert held(pipeline) == {}
        elif moment == "before_commit" and fencing == "compare":
            with pytest.raises(GroupActive):
                commit_while(pipeline, plan, moment, member.__enter__, fencing=fencing)
            assert held(pipeline) == {}
        else:
            # It joined after the look, and the broker takes a transaction under members: what was read is committed.
            # The consumer read the offsets of before, and what it commits next is GroupMoved for the next run.
            commit_while(pipeline, plan, moment, member.__enter__, fencing="transaction")
            assert held(pipeline) == ends(plan)
    finally:
        member.__exit__(None, None, None)


def test_a_spark_task_that_begins_again_while_the_commit_is_prepared_is_seen(
    pipeline: Pipeline, fencing: Fencing
) -> None:
    """Its output may be half overwritten by now."""
    plan = planned(pipeline, "one")
    with pytest.raises(ReadNotVerified, match="began and has not reported"):
        commit_while(
            pipeline,
            plan,
            "before_second_look",
            lambda: begin_read(pipeline.store, plan, 0, None),
            fencing=fencing,
        )
    assert held(pipeline) == {}


# ── a crash at every step ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("then", ["retry", "next run"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_at_any_step_loses_nothing_and_repeats_nothing(
    pipeline: Pipeline, fencing: Fencing, moment: str, then: str
) -> None:
    plan = planned(pipeline, "one")
    with pytest.raises(Killed):
        commit_while(pipeline, plan, moment, die, fencing=fencing)
    landed = moment == "after_commit"
    assert held(pipeline) == (ends(plan) if landed else {})
    if then == "retry":
        pipeline.commit(plan, fencing=fencing)
        landed = True
    following = planned(pipeline, "next")
    assert ranges(following) == [(4, 4) if landed else (0, 4)] * 3
    pipeline.commit(following, fencing=fencing)
    assert held(pipeline) == ends(following)


HANGS = """
    import os, signal
    from airflow_kafka_offsets.broker.cluster import KafkaCluster
    from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
    with KafkaCluster({config!r}) as cluster, cluster.open_commit({group!r}, "transaction") as opened:
        opened.send({{TopicPartition({topic!r}, 0): CommittedOffset(3)}})
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_committer_left_pending_is_aborted_by_the_next_one(
    broker: KafkaBroker, group: str, topic: Callable[..., str]
) -> None:
    name = topic()
    tp = TopicPartition(name, 0)
    script = textwrap.dedent(HANGS.format(config=dict(broker.client_config), group=group, topic=name))
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -9
    with KafkaCluster(broker.client_config, deadline_s=1.0, attempt_s=1.0) as impatient:
        with pytest.raises(KafkaOffsetsError, match="UNSTABLE_OFFSET_COMMIT"):
            impatient.committed(group, [tp])  # nobody can know yet
        assert impatient.committed(group, [tp], stable=False) == {}
    with KafkaCluster(broker.client_config) as cluster, cluster.open_commit(group, "transaction") as opened:
        assert cluster.committed(group, [tp]) == {}
        opened.send({tp: CommittedOffset(1)})
        opened.commit()
        assert cluster.committed(group, [tp]) == {tp: CommittedOffset(1)}


@pytest.mark.parametrize("arrived", [True, False], ids=["arrived", "did not arrive"])
def test_an_answer_that_does_not_tell_whether_the_commit_arrived_is_looked_into(
    broker: KafkaBroker, proxy: KafkaProxy, topic: Callable[..., str], group: str, store: WorkStore, arrived: bool
) -> None:
    """UNKNOWN: a 4.1 broker's answer to a commit while a younger committer opens the fence."""
    orders = topic(3)
    broker.produce(orders, [(partition, None, "x", 1) for partition in range(3)])
    unknown = kafka_answers.end_txn_error(kafka_answers.UNKNOWN_SERVER_ERROR)
    with KafkaCluster({"bootstrap.servers": proxy.bootstrap_servers, "client.id": "committer"}) as cluster:
        pipeline = Pipeline(cluster, store, orders, group)
        plan = planned(pipeline, "one")
        rule = proxy.arm(
            "EndTxn answered with UNKNOWN",
            Moment("committer", kafka_proxy.END_TXN),
            (kafka_proxy.changed if arrived else kafka_proxy.instead)(unknown),
        )
        pipeline.commit(plan)
        assert rule.proof()
        assert held(pipeline) == ends(plan)
        assert newest_plan(pipeline, plan) == plan.plan_id


def test_an_unsettled_commit_gives_way_to_the_one_that_fenced_it_off(pipeline: Pipeline) -> None:
    slow, fast = planned(pipeline, "slow"), planned(pipeline, "fast", max_records=6)

    def overtake() -> None:
        pipeline.commit(fast)
        raise CommitUnsettled("Cannot commit", "UNKNOWN", "Retry.", retriable=True)

    with pytest.raises(CommitConflict):
        commit_while(pipeline, slow, "before_commit", overtake)
    assert held(pipeline) == ends(fast)
    assert newest_plan(pipeline, fast) == fast.plan_id


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


def test_an_unknown_fencing_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(InvalidRequest, match="use one of transaction, compare"):
        pipeline.commit(planned(pipeline, "one"), fencing="none")
