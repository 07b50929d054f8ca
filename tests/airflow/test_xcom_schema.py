"""docs/schemas/xcom.schema.json says what the tasks push: every XCom and event of real runs fits it, field by field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.hooks.page_link import PipelinePageLink
from testbed.broker import KafkaBroker
from testbed.dag_runs import RunResult, load_dag
from tests.airflow.conftest import Orders
from tests.airflow.fixtures import TEST_DAGS
from tests.docs.test_schemas import closed

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/xcom.schema.json").read_text())
OWN = {name.partition(".")[0] for name in SCHEMA["$defs"]}


def fit(name: str, value: Any) -> None:
    assert name in SCHEMA["$defs"], f"docs/schemas/xcom.schema.json does not know {name}"
    Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": closed(SCHEMA)["$defs"]}).validate(value)


@pytest.fixture
def pushed(airflow: Path) -> Callable[[str, RunResult], set[str]]:
    """`pushed(dag_id, result)`: the names of what the package's tasks pushed in a run; each of them fits."""

    def of_run(dag_id: str, result: RunResult) -> set[str]:
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session

        files = (path for path in sorted(TEST_DAGS.glob("*.py")) if f'"{dag_id}"' in path.read_text())
        dag = load_dag(next(files), dag_id)
        names = set()
        with create_session() as session:
            for row in session.scalars(XComModel.get_many(dag_ids=dag_id, run_id=result.run_id)):
                name = f"{dag.get_task(row.task_id).task_type}.{row.key}"
                if name.partition(".")[0] in OWN and row.key != PipelinePageLink().xcom_key:  # it is Airflow's
                    fit(name, row.value)  # as the task API has stored it
                    names.add(name)
        return names

    return of_run


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_what_a_run_pushes(pushed: Callable[..., set[str]], orders: Orders) -> None:
    orders.produce(5)
    with_records, without = orders.run(), orders.run()
    always = {
        *(f"ResolveStartupOffsetsOperator.{key}" for key in ("return_value", "plan", "pipeline", "summary")),
        *(f"CommitOffsetsOperator.{key}" for key in ("return_value", "runs_left", "summary")),
        "PartitionDiscoverySensor.return_value",
    }
    of_options = {f"ResolveStartupOffsetsOperator.{key}" for key in ("assign", "starting_offsets", "ending_offsets")}
    assert pushed("batch", with_records) - {"PartitionDiscoverySensor.new_partitions"} == always | of_options
    assert pushed("batch", without) >= always


def test_what_the_sensors_push(
    run: Callable[..., RunResult], pushed: Callable[..., set[str]], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name, end = topic(2), now_ms()
    broker.produce(name, [(0, None, b"x", end + 7), (1, None, b"x", end)])
    window = run("window_awaited", {"topic": name, "end": end})
    lag = run("lag_awaited", {"topic": name, "group": group, "min_records": 1})
    assert pushed("window_awaited", window) == {"WindowCompleteSensor.return_value"}
    assert pushed("lag_awaited", lag) == {"OffsetLagSensor.return_value"}


def test_what_the_sensors_of_groups_and_commits_push(
    run: Callable[..., RunResult], pushed: Callable[..., set[str]], broker: KafkaBroker, topic: Any, group: str
) -> None:
    conf = {"topic": topic(1), "group": group}
    broker.produce(conf["topic"], [(0, None, b"x", None)])
    run("checkpoint_only", conf)
    awaited = run("commit_awaited", {**conf, "end": 1})
    assert pushed("commit_awaited", awaited) == {"BatchCommittedSensor.return_value", "GroupEmptySensor.return_value"}


@pytest.mark.parametrize("largest", [48 * 1024, 100])
def test_what_an_assets_event_says(
    run: Callable[..., RunResult],
    events: Callable[[RunResult], list[Any]],
    broker: KafkaBroker,
    topic: Any,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    largest: int,
) -> None:
    monkeypatch.setattr("airflow_kafka_offsets.hooks.value_sizes.LARGEST", largest)
    name = topic(2)
    broker.produce_many(name, 10, partitions=2)
    (event,) = events(run("commit_published", {"topic": name, "group": group}))
    fit("CommitOffsetsOperator.asset", event)
    assert ("topics" in event) == (largest > 100)
