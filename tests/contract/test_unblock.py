"""`unblock`: the way past records that can never be read, and what is left of it by a crash. Over both clusters."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import (
    CommitConflict,
    EndBeforeStart,
    GroupActive,
    GroupMoved,
    InvalidRequest,
    NoPosition,
    NothingToDiscover,
    OverlappingRun,
    PlanSuperseded,
    StoreUnavailable,
)
from airflow_kafka_offsets.offsets.checkpoint import Checkpoint
from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.unblock import parse_unblock
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.runs import find_plan_by_id
from airflow_kafka_offsets.unblocking import Unblocked, unblock
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import CHECKPOINT, Pipeline, ranges


class NoCheckpoints(WorkStore):
    """A store that fails when a checkpoint is to be written: a disk that is full at that moment."""

    def create(self, name: str, value: dict[str, Any]) -> bool:
        if name.startswith("checkpoints/"):
            raise StoreUnavailable(f"Cannot write {name}", "No space left on device", "Make room.", retriable=True)
        return super().create(name, value)


@pytest.fixture
def pipeline(cluster: AnyCluster, store: WorkStore, orders: str, group: str) -> Pipeline:
    """One run has read up to 4 of 10 records of partition 0, and all 3 of partition 1."""
    cluster.produce(orders, 4)
    cluster.produce(orders, 3, partition=1)
    pipeline = Pipeline(cluster.reader, store, orders, group)
    pipeline.run("one")
    cluster.produce(orders, 6)
    return pipeline


def unblocked(pipeline: Pipeline, to: dict[str, int], store: WorkStore | None = None, **asked: Any) -> Unblocked:
    how = {name: asked.pop(name) for name in ("commit_mode", "dry_run", "is_alive") if name in asked}
    request = parse_unblock({pipeline.topic: to}, checkpoint_id=CHECKPOINT, **asked)
    return unblock(request, store or pipeline.store, pipeline.cluster, **how)


def newest(pipeline: Pipeline) -> Checkpoint:
    cluster_id = pipeline.plan("one").cluster_id
    return CheckpointChain(pipeline.store, cluster_id, CHECKPOINT).required()


def group_at(pipeline: Pipeline) -> dict[int, int]:
    partitions = [TopicPartition(pipeline.topic, number) for number in range(3)]
    return {tp.partition: c.offset for tp, c in pipeline.cluster.committed(pipeline.group, partitions).items()}


def test_a_living_run_that_has_planned_is_not_cut_off(pipeline: Pipeline) -> None:
    pipeline.plan("open", is_alive=lambda _: True)
    with pytest.raises(OverlappingRun, match="Run dag/open/resolve of this pipeline is not over"):
        unblocked(pipeline, {"0": 8}, is_alive=lambda _: True)
    assert group_at(pipeline)[0] == 4


def test_the_next_run_goes_on_from_there_and_the_other_partitions_stay(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.produce(pipeline.topic, 2, partition=1)
    done = unblocked(pipeline, {"0": 8})
    assert done.plan is not None
    assert [(p.skipped, p.lost, p.range.size) for p in done.plan.partitions] == [(4, 0, 0)]
    assert group_at(pipeline)[0] == 8
    assert ranges(pipeline.run("two"))[:2] == [(8, 10), (3, 5)]


def test_it_is_a_link_of_the_chain_that_names_its_plan_and_no_run(pipeline: Pipeline) -> None:
    before = newest(pipeline)
    done = unblocked(pipeline, {"0": 8})
    after = newest(pipeline)
    assert done.plan is not None
    assert (after.parent, after.sequence) == (before.id, before.sequence + 1)
    assert (after.plan_id, after.run, after.subscription) == (done.plan.plan_id, None, before.subscription)
    assert find_plan_by_id(pipeline.store, done.plan.plan_id) == done.plan


def test_a_dry_run_shows_the_same_and_writes_nothing(pipeline: Pipeline) -> None:
    before, group = newest(pipeline), group_at(pipeline)
    shown = unblocked(pipeline, {"0": 8}, dry_run=True)
    assert (newest(pipeline), group_at(pipeline)) == (before, group)
    assert shown.plan is not None
    assert find_plan_by_id(pipeline.store, shown.plan.plan_id) is None
    done = unblocked(pipeline, {"0": 8})
    assert done.plan is not None
    assert done.plan.partitions == shown.plan.partitions
    assert done.outcome is not None
    assert shown.outcome is not None
    assert done.outcome.written == shown.outcome.written


def test_what_retention_has_taken_is_lost_and_the_rest_is_skipped(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.delete_records(pipeline.topic, 7)
    done = unblocked(pipeline, {"0": 9})
    assert done.plan is not None
    assert [(p.lost, p.skipped) for p in done.plan.partitions] == [(3, 2)]


def test_an_open_transaction_over_the_position_can_be_stepped_over(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """A `read_committed` pipeline waits for it, for ever if its producer is gone."""
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(pipeline.topic, 0), [0])
    try:
        unblocked(pipeline, {"0": 11})
        assert newest(pipeline).offsets[TopicPartition(pipeline.topic, 0)].offset == 11
    finally:
        transaction.abort()


def test_a_second_call_finds_the_position_there_and_writes_nothing(pipeline: Pipeline) -> None:
    unblocked(pipeline, {"0": 8})
    before = newest(pipeline)
    assert unblocked(pipeline, {"0": 8}).plan is None
    assert newest(pipeline) == before


@pytest.mark.parametrize("repaired_by", ["a run", "unblock", "unblock of another partition"])
def test_a_commit_that_landed_without_its_checkpoint_is_completed(pipeline: Pipeline, repaired_by: str) -> None:
    """A crash between the group and the checkpoint: the mark in the group names the plan, and that is in the store."""
    with pytest.raises(StoreUnavailable):
        unblocked(pipeline, {"0": 8}, store=NoCheckpoints(pipeline.store.root, pipeline.store.uri))
    assert group_at(pipeline)[0] == 8
    if repaired_by == "unblock":
        done = unblocked(pipeline, {"0": 8})
        assert (done.plan, done.repaired_from) == (None, newest(pipeline).plan_id)
    elif repaired_by == "unblock of another partition":
        assert unblocked(pipeline, {"1": 3}, dry_run=True).repaired_from is not None
        assert newest(pipeline).offsets[TopicPartition(pipeline.topic, 0)].offset == 4
        assert unblocked(pipeline, {"1": 3}).plan is None
        assert newest(pipeline).offsets[TopicPartition(pipeline.topic, 0)].offset == 8
    assert ranges(pipeline.run("two"))[:2] == [(8, 10), (3, 3)]


def test_a_run_that_was_planned_before_is_superseded_and_goes_on_with_re_plan(pipeline: Pipeline) -> None:
    """The run that could not read: retried as it is, it would read what was given up, or commit it as read."""
    pipeline.plan("blocked")
    unblocked(pipeline, {"0": 8})
    with pytest.raises(PlanSuperseded, match="unblock") as refused:
        pipeline.plan("blocked")
    assert "re_plan" in str(refused.value)
    assert ranges(pipeline.plan("blocked", re_plan=True))[0] == (8, 10)


def test_the_late_commit_of_a_run_that_was_planned_before_is_refused(pipeline: Pipeline) -> None:
    plan = pipeline.plan("blocked")
    pipeline.read(plan)
    unblocked(pipeline, {"0": 8})
    with pytest.raises(CommitConflict):
        pipeline.commit(plan)
    assert group_at(pipeline)[0] == 8


def test_where_the_group_is_left_alone_the_checkpoint_alone_moves(pipeline: Pipeline) -> None:
    before = group_at(pipeline)
    plan = pipeline.plan("two")
    unblocked(pipeline, {"0": 8}, commit_mode="checkpoint-only")
    assert group_at(pipeline) == before
    assert ranges(pipeline.plan("three"))[0] == (8, 10)
    with pytest.raises(PlanSuperseded):
        pipeline.plan("two")
    pipeline.read(plan)
    with pytest.raises(CommitConflict, match="unblock"):
        pipeline.commit(plan)


def test_expired_commits_do_not_stand_in_the_way(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.hands.expire(pipeline.group)
    unblocked(pipeline, {"0": 8})
    assert group_at(pipeline) == {0: 8}


@pytest.mark.parametrize(
    ("to", "error", "words"),
    [
        pytest.param({"0": 3}, EndBeforeStart, "below the position 4 .*\n.*restart", id="back"),
        pytest.param({"0": 11}, EndBeforeStart, "beyond the end of the log, 10", id="beyond the end"),
        pytest.param({"7": 1}, NothingToDiscover, r"\[7\] does not exist", id="no such partition"),
        pytest.param({"0": 3, "1": 9}, EndBeforeStart, "below the position(.|\n)*beyond the end", id="both at once"),
    ],
)
def test_a_wrong_offset_is_refused_and_nothing_moves(
    pipeline: Pipeline, to: dict[str, int], error: type[Exception], words: str
) -> None:
    before = newest(pipeline)
    with pytest.raises(error, match=words):
        unblocked(pipeline, to)
    assert newest(pipeline) == before


def test_a_partition_that_the_checkpoint_lacks_is_refused(cluster: AnyCluster, pipeline: Pipeline) -> None:
    cluster.hands.add_partitions(pipeline.topic, 1)
    with pytest.raises(NoPosition, match=r"\[3\]: the checkpoint does not hold it"):
        unblocked(pipeline, {"3": 0})


def test_without_a_checkpoint_there_is_nothing_to_move(
    cluster: AnyCluster, store: WorkStore, orders: str, group: str
) -> None:
    with pytest.raises(NoPosition, match="There is no checkpoint of 'pipeline'"):
        unblocked(Pipeline(cluster.reader, store, orders, group), {"0": 1})


def test_another_group_than_the_checkpoints_is_refused_by_name(pipeline: Pipeline) -> None:
    with pytest.raises(InvalidRequest, match="is of group"):
        unblocked(pipeline, {"0": 8}, group_id="another")


def test_a_live_group_is_refused(cluster: AnyCluster, pipeline: Pipeline) -> None:
    with cluster.live_member(pipeline.group, pipeline.topic), pytest.raises(GroupActive):
        unblocked(pipeline, {"0": 8})


def test_a_group_that_moved_is_refused_as_planning_does(cluster: AnyCluster, pipeline: Pipeline) -> None:
    partition = TopicPartition(pipeline.topic, 0)
    cluster.commit_as_somebody(pipeline.group, {partition: 2})
    for dry_run in (True, False):
        with pytest.raises(GroupMoved, match="not by this provider"):
            unblocked(pipeline, {"0": 8}, dry_run=dry_run)
    done = unblocked(pipeline, {"0": 8}, on_group_moved="keep-checkpoint")
    assert done.positions == {partition: 4}
    assert newest(pipeline).offsets[partition].offset == 8


def test_a_partition_that_is_not_named_may_have_moved_the_next_run_asks(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 1): 1})
    unblocked(pipeline, {"0": 8})
    with pytest.raises(GroupMoved, match=r"\[1\]"):
        pipeline.plan("two")


def test_a_wrong_request_names_everything_at_once() -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_unblock('{"orders": {"0": -1}}', checkpoint_id="c", on_group_moved="hope")
    assert len(refused.value.problems) == 2
    with pytest.raises(InvalidRequest, match="names no partition"):
        parse_unblock("{}", checkpoint_id="c")
