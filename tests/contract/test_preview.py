"""What the next run would do, without a run. Over both clusters: nothing is written anywhere."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import GroupMoved
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.stores.local import LocalStore
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline, ranges
from tests.contract.troubles import names, produce
from tests.engine import preview


def next_plan(pipeline: Pipeline, **parameters: object) -> Plan:
    before, group = names(pipeline.store), pipeline.cluster.describe_group(pipeline.group)
    plan = preview(pipeline.request(**parameters), pipeline.cluster, pipeline.log)
    assert names(pipeline.store) == before
    assert pipeline.cluster.describe_group(pipeline.group) == group
    return plan


def test_without_a_log_it_is_what_the_first_run_reads(cluster: AnyCluster, pipeline: Pipeline) -> None:
    plan = next_plan(pipeline)
    assert (ranges(plan), isinstance(plan, Plan)) == ([(0, 4)] * 3, False)
    assert ranges(preview(pipeline.request(), pipeline.cluster, None)) == ranges(plan)
    assert pipeline.cluster.describe_group(pipeline.group).state == "Dead"
    assert pipeline.run("one").ranges == ranges(plan)


@pytest.mark.also_on_a_broker
def test_with_one_it_goes_on_from_its_position(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    plan = next_plan(pipeline)
    assert ranges(plan) == [(4, 6)] * 3
    assert pipeline.run("two").ranges == ranges(plan)


def test_an_unfinished_batch_is_shown_as_it_is(cluster: AnyCluster, pipeline: Pipeline) -> None:
    run = pipeline.resolve("one")
    produce(cluster, pipeline)
    plan = next_plan(pipeline)
    assert (ranges(plan), plan.plan_id) == ([(0, 4)] * 3, run.plan.plan_id)
    assert plan.warnings[-1] == "batch 1 is not committed: the next run does it again, as it is."


def test_a_window_is_planned_beside_the_log(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.resolve("one")
    window = {"startup_mode": "timestamp", "startup_timestamp": 1, "bounded_mode": "timestamp", "bounded_timestamp": 2}
    assert ranges(next_plan(pipeline, **window)) == [(0, 0)] * 3


def test_a_word_is_shown_as_a_run_would_take_it(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    assert ranges(next_plan(pipeline, restart="w")) == [(0, 4)] * 3
    assert pipeline.run("two", restart="w").ranges == [(0, 4)] * 3


def test_a_moved_group_is_refused_as_a_run_would_be(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 0): 2})
    with pytest.raises(GroupMoved):
        next_plan(pipeline)
    assert ranges(next_plan(pipeline, group_moved="adopt-group"))[0] == (2, 4)


def test_a_lost_log_is_gone_on_from_by_the_marks(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    pipeline.store = LocalStore(pipeline.store.root.with_name("a new one"))  # type: ignore[attr-defined]
    assert ranges(next_plan(pipeline)) == [(4, 6)] * 3
