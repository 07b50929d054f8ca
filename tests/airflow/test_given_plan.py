"""A plan that a person gives to the resolve task: from a file that its worker reads, or as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets import ResolveStartupOffsetsOperator, plan_offsets
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.operators.saved_places import with_places_read
from airflow_kafka_offsets.plan.plan_json import plan_to_dict
from airflow_kafka_offsets.request.offset_maps import parse_partition_offsets
from airflow_kafka_offsets.request.parameters import RequestParameters
from testbed.broker import KafkaBroker
from testbed.dag_runs import RunResult
from tests.airflow.fixtures import plan_in_store


def test_the_file_is_read_by_the_worker_and_exactly_its_ranges_are_planned(
    run: Callable[..., RunResult],
    xcom: Callable[..., Any],
    broker: KafkaBroker,
    topic: Any,
    group: str,
    tmp_path: Path,
) -> None:
    name, file = topic(2), tmp_path / "plan.json"
    broker.produce(name, [(0, None, b"x", None)] * 5)
    asked = {"topics": [name], "group_id": group, "startup_mode": "earliest-offset"}
    file.write_text(json.dumps(plan_to_dict(plan_offsets(broker.client_config, **asked))))
    broker.produce(name, [(0, None, b"x", None)] * 3)

    result = run("plan_given", {"topic": name, "group": group, "file": str(file)})

    assert result.states("resolve") == ["success"]
    columns = plan_in_store(xcom("plan_given", result, "resolve", "plan"))["topics"][name]
    assert (columns["start_offset"], columns["end_offset"]) == ([0, 0], [5, 0])


@pytest.mark.parametrize(
    ("file", "sentence"),
    [("plans/orders.json", "give the whole path, from the root"), ("/none/plan.json", "cannot be read here")],
)
def test_a_file_that_cannot_be_read_fails_the_run_at_once(
    run: Callable[..., RunResult], said: Callable[[], str], topic: Any, group: str, file: str, sentence: str
) -> None:
    result = run("plan_given", {"topic": topic(1), "group": group, "file": file})
    assert result.states("resolve") == ["failed"]
    text = said()
    assert f"from_plan is '{file}'" in text
    assert sentence in text


def test_a_dag_whose_plan_is_in_a_file_is_parsed_without_it(airflow: Path) -> None:
    assert ResolveStartupOffsetsOperator(task_id="resolve", from_plan="@/none/plan.json").topics is None
    assert ResolveStartupOffsetsOperator(task_id="resolve", from_plan="{{ params.plan | tojson }}").topics is None
    with pytest.raises(InvalidRequest, match="splits is 0"):
        ResolveStartupOffsetsOperator(task_id="resolve", from_plan="@/none/plan.json", splits=0)


def test_offsets_may_be_in_a_place_which_the_worker_reads(airflow: Path, tmp_path: Path) -> None:
    """A query's checkpoint, too; what is wrong with several places is said at once."""
    words = {"startup_mode": "specific-offsets", "specific_offsets": "@s3://aws_default@lake/checkpoints/orders"}
    assert ResolveStartupOffsetsOperator(task_id="resolve", topics=["orders"], **words).specific_offsets
    for name, text in (("offsets/0", 'v1\n{}\n{"orders":{"0":42}}'), ("commits/0", "v1\n{}")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    asked = RequestParameters(specific_offsets=f"@{tmp_path}", bounded_offsets={"orders": {"0": 50}})
    read = with_places_read(asked)
    assert parse_partition_offsets(read.specific_offsets) == {TopicPartition("orders", 0): 42}
    assert read.bounded_offsets == asked.bounded_offsets
    with pytest.raises(InvalidRequest) as refused:
        with_places_read(replace(asked, specific_offsets="@checkpoints/orders", bounded_offsets="@ftp://lake/ends"))
    first, second = refused.value.problems
    assert first == "specific_offsets is 'checkpoints/orders'; give the whole path, from the root."
    assert second.startswith("bounded_offsets ftp://lake/ends cannot be used")


def test_what_is_no_plan_is_found_when_the_dag_is_parsed(airflow: Path) -> None:
    with pytest.raises(InvalidRequest, match="from_plan is no plan"):
        ResolveStartupOffsetsOperator(task_id="resolve", from_plan={"topics": {}})
