"""Runs that are cleared after their own commit, and commits and jobs that come late. Over both clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import (
    CommitConflict,
    PlanCommitted,
    PlanLost,
    PlanReplaced,
    ReadNotVerified,
)
from airflow_kafka_offsets.offsets.assign import started_splits
from airflow_kafka_offsets.offsets.commits import mark_of
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.stores import commit_record
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.reads import begin_read, withdraw_late
from airflow_kafka_offsets.stores.runs import find_plan, refuse_replaced, store_plan
from tests.cluster.commits import commit
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline, ranges
from tests.contract.troubles import Killed, Meanwhile, clear, die, forget_plan, land, planned_anew, produce, read


def held(pipeline: Pipeline) -> list[int]:
    partitions = [TopicPartition(pipeline.topic, number) for number in range(3)]
    return [commit.offset for commit in pipeline.cluster.committed(pipeline.group, partitions).values()]


# ── cleared after its own commit ──────────────────────────────────────────────────────────────────────────────────────


def test_the_last_run_is_cleared_after_the_group_has_expired(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("first")
    produce(cluster, pipeline)
    last = pipeline.run("last")
    cluster.hands.expire(pipeline.group)
    clear(pipeline, last)
    assert ranges(pipeline.plan("next")) == [(6, 6)] * 3


def test_an_old_run_that_is_cleared_after_expiry_does_not_set_the_group_back(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """Its base is no commit, and so is what the group holds: the next run would go on from there."""
    pipeline.parameters["on_group_moved"] = "adopt-group"
    old = pipeline.run("old")
    produce(cluster, pipeline)
    pipeline.run("new")
    cluster.hands.expire(pipeline.group)
    clear(pipeline, old)
    assert held(pipeline) == []
    assert ranges(pipeline.plan("next")) == [(6, 6)] * 3


def test_a_committed_run_is_cleared_while_a_restart_is_below_its_end(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("first")
    produce(cluster, pipeline)
    last = pipeline.run("last")
    pipeline.run("again", restart="w", max_records_per_partition=2)
    clear(pipeline, last)
    assert held(pipeline) == [2, 2, 2]
    assert ranges(pipeline.plan("next")) == [(2, 6)] * 3


def test_a_commit_that_landed_in_part_and_whose_plan_is_lost_is_not_this_runs_commit(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """The checkpoint that was made good from its marks names it. What never landed is the next run's."""
    pipeline.run("first")
    produce(cluster, pipeline)
    part = pipeline.plan("part")
    pipeline.read(part)
    landed = part.partitions[0]
    mark = mark_of(part).encode()
    commit(pipeline.cluster, pipeline.group, {landed.topic_partition: CommittedOffset(landed.end_offset, None, mark)})
    forget_plan(pipeline, part)
    pipeline.run("next")
    assert part.run is not None
    store_plan(pipeline.store, part.run, part)  # Airflow's copy of it
    with pytest.raises(CommitConflict):
        pipeline.commit(part)


@pytest.mark.parametrize("killed_before", [(CheckpointChain, "append"), (commit_record, "store_receipt")])
def test_a_run_that_has_committed_and_lost_its_plan_is_not_planned_anew(
    cluster: AnyCluster, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, killed_before: tuple[Any, str]
) -> None:
    """Also without a receipt: its output would lose what was committed as read."""
    lost = pipeline.plan("lost")
    pipeline.read(lost)
    with monkeypatch.context() as patch:
        patch.setattr(*killed_before, die)
        with pytest.raises(Killed):
            pipeline.commit(lost)
    forget_plan(pipeline, lost)
    produce(cluster, pipeline)
    with pytest.raises(PlanLost, match=lost.plan_id):
        pipeline.plan("lost")


# ── a commit that lands while its run is planned anew ─────────────────────────────────────────────────────────────────


def test_a_commit_that_lands_during_re_plan_keeps_its_plan(cluster: AnyCluster, pipeline: Pipeline) -> None:
    old = pipeline.plan("one")
    pipeline.read(old)
    produce(cluster, pipeline)
    looking = replace(pipeline, cluster=Meanwhile(pipeline.cluster, "describe", lambda: pipeline.commit(old)))
    with pytest.raises(PlanCommitted, match=old.plan_id):
        looking.plan("one", re_plan=True)
    clear(pipeline, old)
    assert ranges(pipeline.plan("next")) == [(4, 6)] * 3


def test_a_commit_that_lands_while_its_plan_is_advanced_keeps_its_plan(cluster: AnyCluster, pipeline: Pipeline) -> None:
    old = pipeline.plan("one")
    pipeline.read(old)
    cluster.delete_records(pipeline.topic, 2)
    commit_it = Meanwhile(pipeline.cluster, "log_start_offsets", lambda: pipeline.commit(old))
    with pytest.raises(PlanCommitted, match=old.plan_id):
        replace(pipeline, cluster=commit_it).plan("one", on_data_loss="advance")
    assert old.run is not None
    kept = find_plan(pipeline.store, old.run)
    assert kept is not None
    assert kept.plan.plan_id == old.plan_id


def test_a_replaced_plan_whose_commit_landed_at_the_last_moment_becomes_the_runs_again(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """It had been verified before it was replaced, and was sent to the group after that had been asked."""
    old, new = planned_anew(cluster, pipeline)
    begin_read(pipeline.store, new, 0, None)
    land(pipeline, old)
    with pytest.raises(PlanCommitted, match=old.plan_id):
        pipeline.plan("one", re_plan=True)
    again = pipeline.plan("one")
    assert again.plan_id == old.plan_id
    with pytest.raises(ReadNotVerified):
        pipeline.commit(again)  # its output has been overwritten meanwhile
    pipeline.read(again)
    pipeline.commit(again)
    assert ranges(pipeline.plan("next")) == [(4, 6)] * 3


# ── jobs that come late ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_of_a_plan_that_was_replaced_reads_nothing(pipeline: Pipeline) -> None:
    old = pipeline.plan("one", splits=3)
    pipeline.plan("one", splits=1, re_plan=True)
    begin_read(pipeline.store, old, 2, None)
    with pytest.raises(PlanReplaced, match="Clear the run's resolve task"):
        refuse_replaced(pipeline.store, old)


def test_what_a_late_job_has_begun_is_overwritten_before_anything_is_committed(pipeline: Pipeline) -> None:
    """It waited in a queue while its plan, of which nothing had begun, was replaced by one of fewer splits."""
    old = pipeline.plan("one", splits=3)
    new = pipeline.plan("one", splits=1, re_plan=True)
    attempt = begin_read(pipeline.store, old, 2, None)
    withdraw_late(pipeline.store, old, 2, attempt)
    read(pipeline, new)
    with pytest.raises(ReadNotVerified, match=r"split 2: plan .* has begun"):
        pipeline.commit(new)
    newer = pipeline.plan("one", splits=1, re_plan=True)
    assert started_splits(newer) == [0, 1, 2]
    read(pipeline, newer)
    pipeline.commit(newer)


def test_the_next_re_plan_overwrites_what_a_late_job_has_begun(cluster: AnyCluster, pipeline: Pipeline) -> None:
    old = pipeline.plan("one", splits=3)
    pipeline.plan("one", splits=1, re_plan=True)
    begin_read(pipeline.store, old, 2, None)
    produce(cluster, pipeline)
    assert started_splits(pipeline.plan("one", splits=1, re_plan=True)) == [0, 1, 2]


def test_a_late_job_in_a_split_without_records_leaves_a_way_on(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("first")
    cluster.produce(pipeline.topic, 2, 0)
    cluster.produce(pipeline.topic, 2, 1)
    old = pipeline.plan("one", splits=2)
    fewer: dict[str, Any] = {"splits": 2, "partitions": {pipeline.topic: [0]}, "topics": None, "re_plan": True}
    new = pipeline.plan("one", **fewer)
    assert (started_splits(old), started_splits(new)) == ([0, 1], [0])
    withdraw_late(pipeline.store, old, 1, begin_read(pipeline.store, old, 1, None))
    read(pipeline, new)
    with pytest.raises(ReadNotVerified, match="re_plan"):
        pipeline.commit(new)
    newer = pipeline.plan("one", **fewer)
    assert started_splits(newer) == [0, 1]
    read(pipeline, newer)
    pipeline.commit(newer)
