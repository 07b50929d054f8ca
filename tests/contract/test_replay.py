"""A run's frozen plan, read again: after a retry, a clear, a clear of an old run, a re-plan. Over both clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.errors import (
    DataLoss,
    OverlappingRun,
    PlanCommitted,
    PlanSuperseded,
    ReadNotVerified,
    TopicRecreated,
)
from airflow_kafka_offsets.offsets.assign import started_splits
from airflow_kafka_offsets.offsets.commits import mark_of
from airflow_kafka_offsets.offsets.model import CommittedOffset
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.reads import begin_read
from airflow_kafka_offsets.stores.runs import replace_plan
from tests.cluster.commits import commit
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline, ranges


@pytest.fixture
def pipeline(cluster: AnyCluster, store: WorkStore, orders: str, group: str) -> Pipeline:
    cluster.produce(orders, 4)
    return Pipeline(cluster.reader, store, orders, group)


def test_a_retry_reads_the_same_ranges_whatever_was_produced_meanwhile(cluster: AnyCluster, pipeline: Pipeline) -> None:
    plan = pipeline.plan("one")
    cluster.produce(pipeline.topic, 5)
    assert pipeline.plan("one") == plan
    assert ranges(plan)[0] == (0, 4)


def test_a_run_that_has_committed_may_write_its_own_output_again(cluster: AnyCluster, pipeline: Pipeline) -> None:
    plan = pipeline.run("one")
    cluster.produce(pipeline.topic, 2)
    pipeline.run("two")
    assert pipeline.plan("one") == plan
    pipeline.read(plan)
    pipeline.commit(plan)
    assert ranges(pipeline.plan("three"))[0] == (6, 6)


def test_an_old_failed_run_that_is_cleared_after_newer_ones_is_superseded(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """The commonest of all operator actions: its records are in the newer run's output."""
    pipeline.plan("old")
    pipeline.run("new")
    with pytest.raises(PlanSuperseded, match="run dag/new/resolve has gone on") as error:
        pipeline.plan("old")
    assert error.value.outputs == []


def test_a_superseded_plan_whose_split_has_begun_names_what_it_began_to_write(pipeline: Pipeline) -> None:
    old = pipeline.plan("old")
    begin_read(pipeline.store, old, 0, "lake/run=old/split=0")
    pipeline.run("new")
    with pytest.raises(PlanSuperseded, match="split 0: lake/run=old/split=0"):
        pipeline.plan("old")


def test_a_newer_run_whose_commit_landed_without_its_checkpoint_supersedes_as_well(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.plan("old")
    new = pipeline.plan("new")
    mark = mark_of(new).encode()
    commit(
        cluster.reader,
        pipeline.group,
        {p.topic_partition: CommittedOffset(p.end_offset, None, mark) for p in new.partitions},
    )
    with pytest.raises(PlanSuperseded, match="dag/new/resolve"):
        pipeline.plan("old")


def test_a_commit_without_a_receipt_is_the_runs_own_and_it_may_go_on(cluster: AnyCluster, pipeline: Pipeline) -> None:
    plan = pipeline.plan("one")
    mark = mark_of(plan).encode()
    commit(
        cluster.reader,
        pipeline.group,
        {p.topic_partition: CommittedOffset(p.end_offset, None, mark) for p in plan.partitions},
    )
    assert pipeline.plan("one") == plan


def test_records_that_are_gone_stop_a_replay_before_spark_starts(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.plan("one")
    cluster.delete_records(pipeline.topic, 3)
    with pytest.raises(DataLoss, match=r"start offset 0 of the frozen plan is below log start offset 3 \(3 offsets"):
        pipeline.plan("one")


def test_advance_makes_a_successor_that_names_the_plan_and_counts_what_is_lost(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    plan = pipeline.plan("one")
    cluster.delete_records(pipeline.topic, 3)
    successor = pipeline.plan("one", on_data_loss="advance")
    assert (successor.replaces, ranges(successor)[0], successor.partitions[0].lost) == (plan.plan_id, (3, 4), 3)
    assert pipeline.plan("one", on_data_loss="advance") == successor
    pipeline.read(successor)
    pipeline.commit(successor)
    assert ranges(pipeline.plan("two"))[0] == (4, 4)


def test_a_run_that_has_committed_does_not_lose_what_its_output_holds(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    cluster.delete_records(pipeline.topic, 3)
    with pytest.raises(DataLoss, match="output already holds them"):
        pipeline.plan("one", on_data_loss="advance")


def test_a_topic_that_was_made_anew_stops_a_replay(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.plan("one")
    cluster.recreate_topic(pipeline.topic)
    with pytest.raises(TopicRecreated, match=pipeline.topic):
        pipeline.plan("one")


def test_re_plan_takes_what_has_come_since(cluster: AnyCluster, pipeline: Pipeline) -> None:
    plan = pipeline.plan("one")
    cluster.produce(pipeline.topic, 2)
    successor = pipeline.plan("one", re_plan=True)
    assert (successor.replaces, ranges(successor)[0]) == (plan.plan_id, (0, 6))
    assert pipeline.plan("one") == successor
    with pytest.raises(ReadNotVerified):
        pipeline.commit(successor)  # no report of the replaced plan counts for this one


def test_re_plan_of_what_has_not_changed_keeps_the_plan(pipeline: Pipeline) -> None:
    plan = pipeline.plan("one")
    assert pipeline.plan("one", re_plan=True) == plan


def test_re_plan_is_refused_for_a_run_that_has_committed(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    cluster.produce(pipeline.topic, 2)
    with pytest.raises(PlanCommitted, match="dag/one/resolve has committed"):
        pipeline.plan("one", re_plan=True)


def test_a_successor_starts_every_split_of_a_plan_that_had_begun(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Each old output is overwritten, also where the successor has nothing for it."""
    plan = pipeline.plan("one", splits=3)
    assert started_splits(plan) == [0]
    begin_read(pipeline.store, plan, 0, None)
    cluster.produce(pipeline.topic, 1, partition=1)
    successor = pipeline.plan("one", splits=1, re_plan=True)
    assert started_splits(successor) == [0, 1, 2]
    with pytest.raises(ReadNotVerified, match="split 2: no Spark job has begun"):
        pipeline.commit(successor)


def test_a_late_rival_does_not_take_the_place_of_a_successor(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Two re-plans at once: the first that is stored is the run's plan, for both."""
    old = pipeline.plan("one")
    cluster.produce(pipeline.topic, 1)
    first = pipeline.plan("one", re_plan=True)
    cluster.produce(pipeline.topic, 1)

    rival = replace(first, resolved_at_ms=0, splits=2, replaces=old.plan_id)
    stored = replace_plan(pipeline.store, RunKey("dag", "one", "resolve"), rival)
    assert stored.plan == first


def test_a_run_that_plans_while_another_one_is_open_waits_for_it(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Else both would start at the same records."""
    first = pipeline.plan("first", is_alive=lambda _: True)
    with pytest.raises(OverlappingRun, match="Run dag/first/resolve of this pipeline is not over"):
        pipeline.plan("second", is_alive=lambda _: True)
    assert pipeline.plan("first", is_alive=lambda _: True) == first, "a retry is in nobody's way"
    pipeline.read(first)
    pipeline.commit(first, is_alive=lambda _: True)
    cluster.produce(pipeline.topic, 1)
    assert ranges(pipeline.plan("second", is_alive=lambda _: True))[0] == (4, 5)


def test_a_run_that_was_found_dead_and_is_cleared_waits_for_the_one_that_went_on(pipeline: Pipeline) -> None:
    dead = pipeline.plan("dead")
    following = pipeline.plan("following", is_alive=lambda _: False)
    assert ranges(following) == ranges(dead)
    with pytest.raises(OverlappingRun, match="following"):
        pipeline.plan("dead", is_alive=lambda _: True)
    pipeline.read(following)
    pipeline.commit(following, is_alive=lambda _: True)
    with pytest.raises(PlanSuperseded, match="following"):
        pipeline.plan("dead", is_alive=lambda _: True)
    assert ranges(pipeline.plan("third", is_alive=lambda _: True))[0] == (4, 4), (
        "it does not wait for what is superseded"
    )


def test_a_run_that_is_cleared_after_its_commit_waits_for_nobody(pipeline: Pipeline) -> None:
    done = pipeline.run("done")
    pipeline.plan("open", is_alive=lambda _: True)
    assert pipeline.plan("done", is_alive=lambda _: True) == done
    pipeline.read(done)
    assert pipeline.commit(done, is_alive=lambda _: True).written
