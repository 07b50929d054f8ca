"""From one run to the next, over both clusters: plan, read, commit, and what may happen in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.committing import commit_offsets
from airflow_kafka_offsets.errors import (
    ClusterUnavailable,
    CommitConflict,
    GroupActive,
    GroupMoved,
    InvalidRequest,
    PlanLost,
    ReadNotVerified,
    StoreUnavailable,
    TopicRecreated,
)
from airflow_kafka_offsets.offsets.commits import CommitMark, mark_of
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.spec import TopicList
from airflow_kafka_offsets.planner import make_plan, now_ms, request_for
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.objects import WorkStore
from tests.cluster.commits import Interrupted, commit
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import CHECKPOINT, Pipeline, ranges


@pytest.fixture
def pipeline(cluster: AnyCluster, store: WorkStore, orders: str, group: str) -> Pipeline:
    return Pipeline(cluster.reader, store, orders, group)


def held(cluster: AnyCluster, pipeline: Pipeline) -> dict[int, int]:
    """What the group holds, by partition."""
    found = cluster.reader.committed(pipeline.group, [TopicPartition(pipeline.topic, n) for n in range(3)])
    return {tp.partition: commit.offset for tp, commit in found.items()}


def chain_of(cluster: AnyCluster, pipeline: Pipeline) -> CheckpointChain:
    cluster_id = cluster.reader.describe(TopicList((pipeline.topic,))).cluster_id
    return CheckpointChain(pipeline.store, cluster_id, CHECKPOINT)


# make_plan


def test_a_plan_without_a_store_writes_nothing(cluster: AnyCluster, orders: str, group: str) -> None:
    cluster.produce(orders, 4)
    request = request_for({}, {"topics": [orders], "group_id": group, "startup_mode": "earliest-offset"})
    plan = make_plan(request, cluster.reader, now_ms=now_ms())
    assert ranges(plan) == [(0, 4), (0, 0), (0, 0)]
    assert plan.parent is None
    assert cluster.reader.describe_group(group).state == "Dead"
    assert plan.plan_id == make_plan(request, cluster.reader, now_ms=now_ms()).plan_id


def test_J2_the_end_of_a_plan_is_that_of_its_isolation_level(cluster: AnyCluster, orders: str) -> None:
    cluster.produce(orders, 2)
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(orders, 0), [now_ms()] * 3)
    asked = {"topics": [orders], "startup_mode": "earliest-offset"}
    ends = [
        ranges(make_plan(request_for({}, {**asked, "isolation_level": level}), cluster.reader, now_ms=now_ms()))[0]
        for level in ("read_uncommitted", "read_committed")
    ]
    assert ends == [(0, 5), (0, 2)]
    transaction.abort()


# A chain of runs


def test_a_chain_of_runs_reads_every_record_once(cluster: AnyCluster, pipeline: Pipeline) -> None:
    for number in range(4):
        for partition in range(3):
            cluster.produce(pipeline.topic, number + partition, partition)
        plan = pipeline.run(f"run-{number}")
        assert held(cluster, pipeline) == {p.topic_partition.partition: p.end_offset for p in plan.partitions}
    for partition in range(3):
        tp = TopicPartition(pipeline.topic, partition)
        read = [offset for part in pipeline.seen[tp] for offset in part]
        assert read == list(range(cluster.reader.end_offsets([tp], "read_uncommitted")[tp].offset))
        assert len(read) == sum(number + partition for number in range(4))


def test_a_commit_carries_the_mark_of_its_plan(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 2)
    plan = pipeline.run("first")
    tp = TopicPartition(pipeline.topic, 0)
    commit = cluster.reader.committed(pipeline.group, [tp])[tp]
    assert CommitMark.of(commit) == mark_of(plan)
    assert commit.leader_epoch == 0


def test_a_first_run_with_latest_that_fails_loses_nothing(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.parameters = {"startup_mode": "latest-offset"}
    cluster.produce(pipeline.topic, 5)
    assert ranges(pipeline.plan("failed"))[0] == (5, 5)
    cluster.produce(pipeline.topic, 3)
    assert ranges(pipeline.run("next"))[0] == (5, 8)


def test_a_failed_run_is_read_by_the_next_one(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 2)
    pipeline.run("first")
    cluster.produce(pipeline.topic, 2)
    assert ranges(pipeline.plan("failed"))[0] == (2, 4)
    cluster.produce(pipeline.topic, 2)
    assert ranges(pipeline.run("third"))[0] == (2, 6)


def test_a_runs_plan_is_frozen(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 2)
    plan = pipeline.plan("run")
    cluster.produce(pipeline.topic, 9)
    assert pipeline.plan("run") == plan
    pipeline.read(plan)
    pipeline.commit(plan)
    assert pipeline.plan("run") == plan
    assert ranges(pipeline.plan("next"))[0] == (2, 11)


def test_a_run_that_committed_and_lost_its_plan_is_not_planned_anew(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 2)
    plan = pipeline.run("run")
    for path in pipeline.store.root.glob("plans/**/plan.*.json"):
        path.unlink()
    with pytest.raises(PlanLost, match=plan.plan_id):
        pipeline.plan("run")


def test_a_new_partition_is_read_from_its_start(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.parameters = {"startup_mode": "latest-offset"}
    pipeline.run("first")
    cluster.hands.add_partitions(pipeline.topic, 1)
    cluster.produce(pipeline.topic, 3, partition=3)
    assert ranges(pipeline.run("second"))[3] == (0, 3)


# The group moves between two runs


def test_a_group_that_a_person_moved_stops_the_next_run(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 6)
    pipeline.run("first")
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 0): 2})
    with pytest.raises(GroupMoved) as refused:
        pipeline.plan("second")
    assert len(refused.value.partitions) == 1
    for fact in (f"{pipeline.topic}[0]", "at 6", "at 2", "somebody else"):
        assert fact in str(refused.value)


@pytest.mark.parametrize(("policy", "start"), [("adopt-group", 2), ("keep-checkpoint", 6)])
def test_a_moved_group_is_gone_on_from_as_the_policy_says(
    cluster: AnyCluster, pipeline: Pipeline, policy: str, start: int
) -> None:
    cluster.produce(pipeline.topic, 6)
    pipeline.run("first")
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 0): 2})
    cluster.produce(pipeline.topic, 1)
    assert ranges(pipeline.run("second", on_group_moved=policy))[0] == (start, 7)
    assert held(cluster, pipeline)[0] == 7
    cluster.produce(pipeline.topic, 1)
    assert ranges(pipeline.run("third"))[0] == (7, 8)


def test_expired_commits_are_gone_on_from_by_the_checkpoint(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 4)
    pipeline.run("first")
    cluster.hands.expire(pipeline.group)
    cluster.produce(pipeline.topic, 2)
    plan = pipeline.run("second")
    assert ranges(plan)[0] == (4, 6)
    assert any("offsets.retention.minutes" in warning for warning in plan.warnings)
    assert held(cluster, pipeline) == {0: 6, 1: 0, 2: 0}


def test_commits_that_expire_between_plan_and_commit_are_written(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 4)
    pipeline.run("first")
    cluster.produce(pipeline.topic, 1)
    plan = pipeline.plan("second")
    cluster.hands.expire(pipeline.group)
    pipeline.read(plan)
    pipeline.commit(plan)
    assert held(cluster, pipeline) == {0: 5, 1: 0, 2: 0}


# The commit


def test_a_crash_between_commit_and_checkpoint_is_repaired_by_the_next_run(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    cluster.produce(pipeline.topic, 4)
    pipeline.run("first")
    cluster.produce(pipeline.topic, 3)
    plan = pipeline.plan("crashed")
    mark = mark_of(plan).encode()
    commits = {p.topic_partition: CommittedOffset(p.end_offset, p.leader_epoch, mark) for p in plan.partitions}
    commit(cluster.reader, pipeline.group, commits)
    before = chain_of(cluster, pipeline).newest()
    cluster.produce(pipeline.topic, 2)
    assert ranges(pipeline.plan("next"))[0] == (7, 9)
    repaired = chain_of(cluster, pipeline).newest()
    assert before is not None
    assert repaired is not None
    assert (repaired.plan_id, repaired.parent) == (plan.plan_id, before.id)
    pipeline.read(plan)
    outcome = pipeline.commit(plan)  # the crashed run's task is retried after all
    assert outcome.written[TopicPartition(pipeline.topic, 0)] == (7, 7)
    assert held(cluster, pipeline)[0] == 7


def test_a_store_that_fails_after_the_commit_is_said_and_the_retry_ends_it(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    cluster.produce(pipeline.topic, 4)
    plan = pipeline.plan("run")
    pipeline.read(plan)
    folder = pipeline.store.root / "checkpoints"
    aside = folder.with_name("aside")

    def break_store() -> None:
        folder.rename(aside)
        folder.write_text("a file where a folder belongs")

    pipeline.cluster = Interrupted(cluster.reader, after_commit=break_store)
    with pytest.raises(StoreUnavailable):
        pipeline.commit(plan)
    folder.unlink()
    aside.rename(folder)
    assert held(cluster, pipeline)[0] == 4

    pipeline.cluster = cluster.reader
    pipeline.commit(plan)
    newest = chain_of(cluster, pipeline).newest()
    assert newest is not None
    assert newest.plan_id == plan.plan_id
    cluster.produce(pipeline.topic, 1)
    assert ranges(pipeline.run("next"))[0] == (4, 5)


def test_a_commit_whose_answer_was_lost_is_repeated_without_harm(cluster: AnyCluster, pipeline: Pipeline) -> None:
    def lose() -> None:
        raise ClusterUnavailable("commit", "no answer", "retry", retriable=True)

    cluster.produce(pipeline.topic, 4)
    plan = pipeline.plan("run")
    pipeline.read(plan)
    pipeline.cluster = Interrupted(cluster.reader, after_commit=lose)
    with pytest.raises(ClusterUnavailable):
        pipeline.commit(plan)
    assert held(cluster, pipeline) == {0: 4, 1: 0, 2: 0}
    pipeline.cluster = cluster.reader
    first = pipeline.commit(plan)
    again = pipeline.commit(plan)
    assert first.written == again.written
    assert set(first.written.values()) == {(4, 4), (0, 0)}
    assert held(cluster, pipeline) == {0: 4, 1: 0, 2: 0}
    cluster.produce(pipeline.topic, 1)
    assert ranges(pipeline.run("next"))[0] == (4, 5)


def test_a_commit_that_is_repeated_after_the_next_run_leaves_the_group_alone(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    cluster.produce(pipeline.topic, 4)
    first = pipeline.run("first")
    cluster.produce(pipeline.topic, 4)
    pipeline.run("second")
    outcome = pipeline.commit(first)
    assert TopicPartition(pipeline.topic, 0) in outcome.kept
    assert held(cluster, pipeline)[0] == 8


def test_a_group_that_moved_since_the_plan_is_a_conflict_with_all_the_facts(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    cluster.produce(pipeline.topic, 6)
    pipeline.run("first")
    cluster.produce(pipeline.topic, 6)
    plan = pipeline.plan("second")
    pipeline.read(plan)
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 0): 9})
    with pytest.raises(CommitConflict) as refused:
        pipeline.commit(plan)
    assert refused.value.partitions == [
        f"{pipeline.topic}[0]: the group was at 6 when the plan was made, the plan ends at 12, "
        "and now the group is at 9, committed by somebody else (not by this provider)"
    ]
    assert held(cluster, pipeline) == {0: 9, 1: 0, 2: 0}


def test_two_plans_of_one_checkpoint_are_committed_once(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 4)
    pipeline.run("first")
    cluster.produce(pipeline.topic, 4)
    slow = pipeline.plan("slow")
    pipeline.read(slow)
    cluster.produce(pipeline.topic, 4)
    pipeline.run("fast")
    with pytest.raises(CommitConflict):
        pipeline.commit(slow)
    assert held(cluster, pipeline)[0] == 12


def test_a_topic_that_was_made_again_since_the_plan_is_not_committed(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 4)
    plan = pipeline.plan("run")
    pipeline.read(plan)
    cluster.recreate_topic(pipeline.topic)
    cluster.produce(pipeline.topic, 9)
    with pytest.raises(TopicRecreated) as refused:
        pipeline.commit(plan)
    assert plan.topic_ids[pipeline.topic] in str(refused.value)
    assert held(cluster, pipeline) == {}


def test_a_topic_that_was_made_again_between_two_runs_stops_the_next(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 4)
    pipeline.run("first")
    cluster.recreate_topic(pipeline.topic)
    cluster.produce(pipeline.topic, 9)
    with pytest.raises(TopicRecreated):
        pipeline.plan("second")
    assert ranges(pipeline.run("second", on_recreated="earliest"))[0] == (0, 9)
    assert held(cluster, pipeline)[0] == 9


def test_a_live_group_is_not_committed_to(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 4)
    plan = pipeline.plan("run")
    pipeline.read(plan)
    with cluster.live_member(pipeline.group, pipeline.topic):
        with pytest.raises(GroupActive) as refused:
            pipeline.commit(plan)
        assert len(refused.value.members) == 1
        with pytest.raises(GroupActive):
            commit_offsets(plan, cluster.reader, dry_run=True)
    assert held(cluster, pipeline) == {}
    pipeline.commit(plan)
    assert held(cluster, pipeline)[0] == 4


def test_a_dry_run_says_what_it_would_write_and_writes_nothing(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 4)
    plan = pipeline.plan("run")
    outcome = commit_offsets(plan, cluster.reader, dry_run=True)
    assert outcome.dry_run
    assert outcome.written[TopicPartition(pipeline.topic, 0)] == (None, 4)
    assert held(cluster, pipeline) == {}
    assert commit_offsets(plan, cluster.reader).written == outcome.written
    assert held(cluster, pipeline) == {0: 4, 1: 0, 2: 0}


def test_what_was_not_read_is_not_committed(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 4)
    plan = pipeline.plan("run")
    with pytest.raises(ReadNotVerified):
        pipeline.commit(plan)
    assert held(cluster, pipeline) == {}
    pipeline.commit(plan, require_report=False)
    assert held(cluster, pipeline)[0] == 4


def test_checkpoint_only_leaves_the_group_alone_and_the_next_run_goes_on(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    for number, (start, end) in enumerate([(0, 2), (2, 4), (4, 6)]):
        cluster.produce(pipeline.topic, 2)
        plan = pipeline.plan(f"run-{number}")
        assert ranges(plan)[0] == (start, end)
        pipeline.read(plan)
        outcome = pipeline.commit(plan, commit_mode="checkpoint-only")
        assert outcome.written == {}
        assert "checkpoint-only" in (outcome.not_committed or "")
    assert held(cluster, pipeline) == {}


def test_never_moves_neither_group_nor_checkpoint(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 2)
    plan = pipeline.plan("first")
    pipeline.read(plan)
    pipeline.commit(plan, commit_mode="never")
    assert held(cluster, pipeline) == {}
    assert ranges(pipeline.plan("second"))[0] == (0, 2)


def test_a_plan_of_another_cluster_is_not_committed(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 2)
    plan = replace(pipeline.plan("run"), cluster_id="another")
    with pytest.raises(InvalidRequest, match="another"):
        commit_offsets(plan, cluster.reader)
    assert held(cluster, pipeline) == {}
