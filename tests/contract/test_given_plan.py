"""A plan as JSON that is given to resolve: exactly its ranges are read, of the log that it was made for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import DataLoss, InvalidRequest, NothingToDiscover, OutputTaken
from airflow_kafka_offsets.plan.plan_json import plan_to_dict
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline
from tests.contract.troubles import produce


@pytest.fixture
def in_memory(in_memory: Pipeline) -> Pipeline:
    """Its DAG says nothing of starts and ends."""
    return replace(in_memory, parameters={})


def shown(pipeline: Pipeline, **parameters: Any) -> dict[str, Any]:
    """What ``kafka-offsets plan --output json`` writes."""
    drafted = pipeline.preview(**{"startup_mode": "earliest-offset", **parameters})
    found: dict[str, Any] = json.loads(json.dumps(plan_to_dict(drafted)))
    return found


def test_a_manual_run_reads_the_plan_that_was_shown_whatever_has_come_since(
    memory: AnyCluster, in_memory: Pipeline
) -> None:
    plan = shown(in_memory)
    produce(memory, in_memory)
    memory.hands.add_partitions("orders", 1)
    run = in_memory.resolve("one", run_type="manual", from_plan=plan)
    assert run.ranges == [(0, 4), (0, 4), (0, 4)]
    assert run.number is None, "it moves no position"
    run.done()
    assert in_memory.lake.offsets() == {0: [0, 1, 2, 3], 1: [0, 1, 2, 3], 2: [0, 1, 2, 3]}
    again = in_memory.resolve("two", run_type="manual", from_plan=json.dumps(plan))
    assert again.batch_key == run.batch_key, "the same plan is the same batch, replayed into the same place"


BESIDE: list[tuple[dict[str, Any], str]] = [
    ({"startup_mode": "earliest-offset"}, "says where to start and to end, so leave out startup_mode"),
    (
        {"startup_timestamp": 5, "bounded_offsets": {}},
        "says where to start and to end, so leave out startup_timestamp, bounded_offsets",
    ),
    ({"topics": ["payments"]}, "has orders[0], which is not subscribed to"),
    ({"topics": None, "topic_pattern": "pay.*"}, "has orders[0], which is not subscribed to"),
    ({"topics": None, "partitions": {"orders": [0, 2]}}, "has orders[1], which is not subscribed to"),
]


@pytest.mark.parametrize(("beside", "problem"), BESIDE)
def test_A7_what_says_something_else_than_the_plan_is_refused(
    in_memory: Pipeline, beside: dict[str, Any], problem: str
) -> None:
    """Nothing silently wins."""
    plan = shown(in_memory)
    with pytest.raises(InvalidRequest) as refused:
        in_memory.resolve("one", run_type="manual", from_plan=plan, **beside)
    assert refused.value.problems == (f"from_plan {problem}.",)


@pytest.mark.parametrize(
    "beside", [{"topics": None}, {"topics": None, "topic_pattern": "or.*"}, {"topics": ["orders", "payments"]}]
)
def test_topics_that_have_the_plans_partitions_may_stand_beside_it(in_memory: Pipeline, beside: dict[str, Any]) -> None:
    plan = shown(in_memory)
    assert in_memory.resolve("one", run_type="manual", from_plan=plan, **beside).ranges == [(0, 4)] * 3


def test_what_is_wrong_with_the_topics_is_said_too(in_memory: Pipeline) -> None:
    with pytest.raises(InvalidRequest) as refused:
        in_memory.resolve("one", run_type="manual", from_plan=shown(in_memory), topics="a b", splits=0)
    assert [problem.split()[0] for problem in refused.value.problems] == ["topics", "splits"]


def test_a_plan_of_some_partitions_reads_no_others(in_memory: Pipeline) -> None:
    plan = shown(in_memory, topics=None, partitions={"orders": [1]})
    run = in_memory.resolve("one", run_type="manual", from_plan=plan)
    assert [(p.topic_partition.partition, p.start_offset, p.end_offset) for p in run.plan.partitions] == [(1, 0, 4)]


def test_a_pipeline_on_a_schedule_begins_with_the_plan_and_reads_it_once(
    memory: AnyCluster, in_memory: Pipeline
) -> None:
    plan = shown(in_memory)
    produce(memory, in_memory)
    assert in_memory.run("one", from_plan=plan).ranges == [(0, 4)] * 3
    assert in_memory.resolve("two", from_plan=plan).number is None, "there is nothing more in it"
    assert in_memory.run("three", startup_mode="group-offsets").ranges == [(4, 6)] * 3


def test_a_window_by_a_plan_is_not_written_beside_the_batches_of_a_log(in_memory: Pipeline) -> None:
    """Each record would be there twice, under two keys."""
    plan = shown(in_memory)
    in_memory.run("one", startup_mode="earliest-offset", output_name="/lake/orders")
    with pytest.raises(OutputTaken):
        in_memory.resolve("two", run_type="manual", from_plan=plan, output_name="/lake/orders")


def test_records_that_are_gone_since_the_plan_are_not_passed_over(memory: AnyCluster, in_memory: Pipeline) -> None:
    plan = shown(in_memory)
    memory.delete_records("orders", 2)
    with pytest.raises(DataLoss):
        in_memory.resolve("one", run_type="manual", from_plan=plan)


def test_a_plan_of_another_log_is_refused(memory: AnyCluster, in_memory: Pipeline) -> None:
    plan = shown(in_memory)
    with pytest.raises(InvalidRequest, match="from_plan is of cluster another, and this is"):
        in_memory.resolve("one", run_type="manual", from_plan={**plan, "cluster_id": "another"})
    memory.recreate_topic("orders")
    produce(memory, in_memory, 9)
    with pytest.raises(InvalidRequest, match="from_plan was made before topic orders was deleted and created again"):
        in_memory.resolve("one", run_type="manual", from_plan=plan)
    memory.hands.delete_topic("orders")
    with pytest.raises(NothingToDiscover):
        in_memory.resolve("one", run_type="manual", from_plan=plan)
    assert in_memory.log.windows() == []


NO_PLAN: list[tuple[Any, str]] = [
    ("@/plans/orders.json", "which a resolve task or a command reads"),
    ("[1, 2]", "is [1, 2]; expected the JSON of kafka-offsets plan"),
    ("{", "is not JSON"),
    ({}, "is no plan (plan version None is not known"),
    ({"version": 1}, "is no plan ('topics'); expected"),
    ({"version": 2, "topics": {}}, "is no plan (plan version 2 is not known"),
    ({"version": 1, "topics": {}, "cluster_id": "c", "isolation_level": "read_uncommitted"}, "without a partition"),
    ({"version": 1, "topics": {"orders": {"partition": [0]}}}, "has no column start_offset"),
]


@pytest.mark.parametrize(("given", "problem"), NO_PLAN)
def test_what_is_no_plan_is_refused(in_memory: Pipeline, given: Any, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        in_memory.resolve("one", run_type="manual", from_plan=given)
    (only,) = refused.value.problems
    assert only.startswith("from_plan ")
    assert problem in only


def test_a_plan_is_read_under_its_own_isolation_level(in_memory: Pipeline) -> None:
    """The same range has other records under another one."""
    plan = shown(in_memory, isolation_level="read_committed")
    with pytest.raises(InvalidRequest, match="from_plan was made under isolation_level='read_committed'"):
        in_memory.resolve("one", run_type="manual", from_plan=plan)
    run = in_memory.resolve("one", run_type="manual", from_plan=plan, isolation_level="read_committed")
    assert run.ranges == [(0, 4)] * 3
