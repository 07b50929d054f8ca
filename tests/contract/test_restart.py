"""``restart``, and other ways back below the group's offsets. Over both clusters."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest, PlanBelowGroup
from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.unblock import parse_unblock
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.unblocking import unblock
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import CHECKPOINT, Pipeline, ranges

CAPPED: dict[str, Any] = {"restart": "w", "max_records_per_partition": 2}


@pytest.fixture
def pipeline(cluster: AnyCluster, store: WorkStore, orders: str, group: str) -> Pipeline:
    for partition in range(3):
        cluster.produce(orders, 6, partition)
    return Pipeline(cluster.reader, store, orders, group)


def test_a_restart_goes_on_after_an_unblock(pipeline: Pipeline) -> None:
    """Its first run fails on a record that can never be read."""
    pipeline.run("before")
    pipeline.plan("restarted", **CAPPED)
    unblock(parse_unblock({pipeline.topic: {"0": 1}}, checkpoint_id=CHECKPOINT), pipeline.store, pipeline.cluster)
    assert ranges(pipeline.run("next", **CAPPED)) == [(1, 3), (0, 2), (0, 2)]


def test_a_restart_goes_on_after_a_run_of_fewer_partitions(pipeline: Pipeline) -> None:
    pipeline.run("before")
    pipeline.plan("restarted", **CAPPED)
    pipeline.run("fewer", partitions={pipeline.topic: [0]}, topics=None, **CAPPED)
    assert ranges(pipeline.run("all", **CAPPED)) == [(2, 4), (0, 2), (0, 2)]


def test_a_restart_goes_on_where_the_group_is_left_alone(pipeline: Pipeline) -> None:
    pipeline.run("before")
    found = []
    for name in ("one", "two", "three"):
        plan = pipeline.plan(name, **CAPPED)
        pipeline.read(plan)
        pipeline.commit(plan, commit_mode="checkpoint-only")
        found.append(ranges(plan)[0])
    assert found == [(0, 2), (2, 4), (4, 6)]


def test_a_word_with_a_line_end_is_the_same_word(pipeline: Pipeline) -> None:
    pipeline.run("one", restart="2026-11-20\n")
    assert ranges(pipeline.run("two", restart="2026-11-20\n")) == [(6, 6)] * 3
    assert ranges(pipeline.run("three", restart="2026-11-20")) == [(6, 6)] * 3


@pytest.mark.parametrize("word", [True, 20261120, "two\nwords"])
def test_what_is_no_word_is_refused(pipeline: Pipeline, word: Any) -> None:
    with pytest.raises(InvalidRequest, match="restart is"):
        pipeline.plan("one", restart=word)


def test_a_restart_of_a_renamed_pipeline_says_what_it_may_repeat(pipeline: Pipeline) -> None:
    pipeline.run("one", restart="w")
    renamed = pipeline.plan("two", restart="w", checkpoint_id="renamed")
    assert ranges(renamed) == [(0, 6)] * 3
    assert "the commits of run dag/one/resolve do not count" in renamed.warnings[0]


def test_a_partition_that_a_stranger_has_read_further_is_read_with_the_named_policy(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """It is new to the pipeline, which starts at its log start and would set the group back."""
    few = {"partitions": {pipeline.topic: [0, 1]}, "topics": None}
    pipeline.run("one", **few)
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 2): 5})
    with pytest.raises(PlanBelowGroup, match='on_group_moved="keep-checkpoint"'):
        pipeline.plan("two", max_records_per_partition=2)
    plan = pipeline.run("two", max_records_per_partition=2, on_group_moved="keep-checkpoint")
    assert ranges(plan)[2] == (0, 2)


def test_what_another_pipeline_has_read_of_a_new_partition_is_read_and_said(pipeline: Pipeline) -> None:
    few = {"partitions": {pipeline.topic: [0]}, "topics": None}
    pipeline.run("one", **few)
    pipeline.run("other", checkpoint_id="other", partitions={pipeline.topic: [1]}, topics=None)
    plan = pipeline.plan("two")
    assert ranges(plan)[1] == (0, 6)
    assert "by run dag/other/resolve, do not count" in plan.warnings[-1]
