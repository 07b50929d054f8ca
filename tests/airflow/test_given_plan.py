"""A plan that a person gives to the resolve task: from a file that its worker reads, or as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets import ResolveStartupOffsetsOperator, plan_offsets
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.plan.plan_json import plan_to_dict
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
    [("plans/orders.json", "give the whole path, from the root"), ("/none/plan.json", "cannot read")],
)
def test_a_file_that_cannot_be_read_fails_the_run_at_once(
    run: Callable[..., RunResult], said: Callable[[], str], topic: Any, group: str, file: str, sentence: str
) -> None:
    result = run("plan_given", {"topic": topic(1), "group": group, "file": file})
    assert result.states("resolve") == ["failed"]
    text = said()
    assert f"from_plan is the file '{file}'" in text
    assert sentence in text


def test_a_dag_whose_plan_is_in_a_file_is_parsed_without_it(airflow: Path) -> None:
    assert ResolveStartupOffsetsOperator(task_id="resolve", from_plan="@/none/plan.json").topics is None
    assert ResolveStartupOffsetsOperator(task_id="resolve", from_plan="{{ params.plan | tojson }}").topics is None
    with pytest.raises(InvalidRequest, match="splits is 0"):
        ResolveStartupOffsetsOperator(task_id="resolve", from_plan="@/none/plan.json", splits=0)


def test_what_is_no_plan_is_found_when_the_dag_is_parsed(airflow: Path) -> None:
    with pytest.raises(InvalidRequest, match="from_plan is no plan"):
        ResolveStartupOffsetsOperator(task_id="resolve", from_plan={"topics": {}})
