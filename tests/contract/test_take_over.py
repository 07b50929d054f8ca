"""A person lets another Airflow go on with a pipeline: the log and the group say so, and the one before is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.batch.engine import take_pipeline_over
from airflow_kafka_offsets.batch.look_ups import World
from airflow_kafka_offsets.batch.orders import TakeOver
from airflow_kafka_offsets.batch.preview import rehearsed
from airflow_kafka_offsets.cli.batch_tables import entries_of
from airflow_kafka_offsets.errors import AnotherAirflow, BatchClosed, GroupActive, NoPosition
from airflow_kafka_offsets.kafka_values import Actor, TopicPartition
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata
from airflow_kafka_offsets.plan.position import ShiftBy
from airflow_kafka_offsets.request.policies import Skip
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Airflow, Pipeline
from tests.contract.test_reset import reset
from tests.contract.troubles import produce
from tests.engine import PlanReference, commit_batch, redo
from tests.stores.builders import as_it_is_now

THERE = "https://standby.example"
BY = Actor(None, THERE, "alice")


def standby(pipeline: Pipeline) -> Pipeline:
    return replace(pipeline, airflow=Airflow(THERE))


def take_over(pipeline: Pipeline, *, dry_run: bool = False) -> Any:
    world = World(pipeline.log, pipeline.cluster)
    return take_pipeline_over(TakeOver(BY, pipeline.now_ms), rehearsed(world) if dry_run else world)


def marks(pipeline: Pipeline) -> set[str | None]:
    found = pipeline.cluster.committed(pipeline.group, pipeline.position.offsets)
    return {metadata.instance for commit in found.values() if (metadata := CommitMetadata.of(commit))}


def test_of_a_committed_batch_the_next_run_is_the_other_airflows(in_memory: Pipeline, memory: AnyCluster) -> None:
    in_memory.run("one")
    produce(memory, in_memory)
    with pytest.raises(AnotherAirflow):
        standby(in_memory).resolve("two")
    take_over(in_memory)
    assert marks(in_memory) == {THERE}
    newest = as_it_is_now(in_memory.newest)
    assert newest.log.committed is not None, "nothing is done again"
    assert entries_of(newest).rows[-1]["what"] == "taken by alice"
    with pytest.raises(AnotherAirflow):
        in_memory.resolve("two")
    run = standby(in_memory).run("two")
    assert (run.number, run.ranges) == (2, [(4, 6)] * 3)


@pytest.mark.parametrize("commit_mode", ["on-success", "checkpoint-only"])
@pytest.mark.parametrize("what", ["commit", "redo", "reset", "skip"])
def test_what_a_person_without_airflow_does_leaves_the_pipeline_with_its_airflow(
    in_memory: Pipeline, memory: AnyCluster, what: str, commit_mode: str
) -> None:
    """It was planned by one Airflow, and another one has taken it over; a terminal names none."""
    in_memory.parameters["commit_mode"] = commit_mode
    left, nobody = in_memory.resolve("one"), Actor(None)
    take_over(in_memory)
    if what == "skip":
        in_memory.skip(Skip(left.batch_key, reason="spoiled"))
    else:
        left.spark()
        handed = PlanReference(left.batch.name, left.plan.plan_id)
        commit_batch(handed, in_memory.log, in_memory.cluster, nobody, now_ms=in_memory.now_ms)
    if what == "redo":
        redo(in_memory.newest, in_memory.cluster, nobody, now_ms=in_memory.now_ms)
    if what == "reset":
        reset(in_memory, ShiftBy(-1), me=nobody)
    produce(memory, in_memory)
    assert in_memory.newest.log.last_instance == THERE
    with pytest.raises(AnotherAirflow):
        in_memory.resolve("two")
    standby(in_memory).run("two")


def test_of_an_unfinished_batch_the_other_airflow_does_that_batch(in_memory: Pipeline) -> None:
    left = in_memory.resolve("one")
    take_over(in_memory)
    with pytest.raises(AnotherAirflow):
        left.spark().commit()
    run = standby(in_memory).run("two")
    assert (run.number, run.ranges) == (1, [(0, 4)] * 3)
    assert run.batch_key == left.batch_key


def test_the_group_is_the_other_airflows_also_where_the_newest_batch_is_of_one_partition(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    in_memory.run("one")
    produce(memory, in_memory)
    reset(in_memory, ShiftBy(1), partitions=(TopicPartition(in_memory.topic, 0),))
    take_over(in_memory)
    assert marks(in_memory) == {THERE}
    assert standby(in_memory).run("two").ranges == [(5, 6), (4, 6), (4, 6)]


def test_the_group_is_the_other_airflows_also_where_no_batch_is_committed(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    memory.commit_as_somebody(in_memory.group, {TopicPartition(in_memory.topic, n): 1 for n in range(3)})
    left = in_memory.resolve("one", startup_mode="group-offsets")
    take_over(in_memory)
    assert in_memory.held() == {0: 1, 1: 1, 2: 1}
    run = standby(in_memory).run("two", startup_mode="group-offsets")
    assert (run.batch_key, run.ranges) == (left.batch_key, [(1, 4)] * 3)


def test_a_live_member_of_the_group_is_found_before_anything_is_written(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    in_memory.run("one")
    with memory.live_member(in_memory.group, in_memory.topic), pytest.raises(GroupActive):
        take_over(in_memory)
    take_over(in_memory)
    assert marks(in_memory) == {THERE}


def test_a_dry_run_writes_nothing(in_memory: Pipeline) -> None:
    in_memory.run("one")
    before = as_it_is_now(in_memory.newest).log, marks(in_memory)
    batch, group = take_over(in_memory, dry_run=True)
    assert (batch.log.last_instance, len(group.written)) == (THERE, 3)
    assert (as_it_is_now(in_memory.newest).log, marks(in_memory)) == before


def test_what_is_this_airflows_already_is_refused_and_what_has_no_batch(in_memory: Pipeline) -> None:
    with pytest.raises(NoPosition):
        take_over(in_memory)
    standby(in_memory).run("one")
    with pytest.raises(BatchClosed, match="is the Airflow that wrote to it last"):
        take_over(in_memory)
