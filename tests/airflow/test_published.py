"""The asset event of a commit: what it says, and when there is none."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets import CommitOffsetsOperator
from airflow_kafka_offsets.operators.commit import partition_key
from testbed.broker import KafkaBroker
from testbed.dag_runs import RunResult

ASSET = "committed-orders"


def test_a_commit_says_which_offsets_were_read_and_nothing_where_nothing_was(
    run: Callable[..., RunResult],
    xcom: Callable[..., Any],
    events: Callable[..., Any],
    broker: KafkaBroker,
    topic: Any,
    group: str,
) -> None:
    name = topic(3)
    broker.produce_many(name, 10, partitions=2)
    conf = {"topic": name, "group": group}
    first, second = run("commit_published", conf), run("commit_published", conf)
    broker.produce_many(name, 1)
    third = run("commit_published", conf)

    assert [result.states("commit") for result in (first, second, third)] == [["success"]] * 3
    plan = xcom("commit_published", first, "resolve", "plan")
    about = {"group_id": group, "batch": plan["batch"], "plan_id": plan["plan_id"], "window": None}
    assert events(first) == [{**about, "topics": {name: {"0": [0, 5], "1": [0, 5]}}}]
    assert events(second) == []
    assert [event["topics"] for event in events(third)] == [{name: {"0": [5, 6]}}]
    assert partition_keys(first) == [None], "with a key it would start no DAG that is scheduled on the asset alone"


def test_a_large_plan_is_published_by_its_reference(
    run: Callable[..., RunResult],
    xcom: Callable[..., Any],
    events: Callable[..., Any],
    broker: KafkaBroker,
    topic: Any,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("airflow_kafka_offsets.hooks.value_sizes.LARGEST", 100)
    name = topic(2)
    broker.produce_many(name, 10, partitions=2)
    result = run("commit_published", {"topic": name, "group": group})
    (event,) = events(result)
    plan = xcom("commit_published", result, "resolve", "plan")
    assert {key: event[key] for key in event} == {
        "group_id": group,
        "batch": plan["batch"],
        "window": None,
        **{key: plan[key] for key in ("plan_id", "stored_as", "work_store")},
    }


def test_a_window_is_published_with_its_bounds_though_no_group_is_moved(
    run: Callable[..., RunResult], events: Callable[..., Any], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(1)
    begin = datetime(2026, 11, 20, 10, tzinfo=UTC)
    start_ms = int(begin.timestamp() * 1000)
    broker.produce_many(name, 4, timestamp_ms=lambda n: start_ms + n * 1_800_000)
    result = run("window_published", {"topic": name, "group": group}, logical_date=begin + timedelta(hours=1))
    (event,) = events(result)
    assert (event["window"], event["topics"]) == ([start_ms, start_ms + 3_600_000], {name: {"0": [0, 2]}})
    assert partition_keys(result) == ["2026-11-20T10:00:00"], "as DAGs take it that are scheduled on partitions"


def test_a_partition_key_is_the_start_of_the_window_and_two_windows_have_two() -> None:
    assert partition_key(0) == "1970-01-01T00:00:00"
    assert partition_key(1) == "1970-01-01T00:00:00.001"
    assert len(partition_key(10**17)) <= 250, "no time that Airflow's clock has"


def partition_keys(result: RunResult) -> list[Any]:
    """Of the asset events of a run."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == result.run_id))
        return [event.partition_key for event in found]


def test_without_an_asset_there_is_no_event(
    run: Callable[..., RunResult], events: Callable[..., Any], broker: KafkaBroker, topic: Any, group: str
) -> None:
    name = topic(1)
    broker.produce_many(name, 1)
    assert events(run("resolve_and_commit", {"topic": name, "group": group})) == []


def test_the_asset_is_an_outlet_beside_the_users_own(airflow: Path) -> None:
    from airflow.sdk import Asset

    own, published = Asset("own"), Asset(ASSET)
    assert CommitOffsetsOperator(task_id="a", plan={}, outlets=[own], asset=published).outlets == [own, published]
    assert CommitOffsetsOperator(task_id="b", plan={}, outlets=own).outlets == [own]
    assert CommitOffsetsOperator(task_id="c", plan={}).outlets == []
    assert CommitOffsetsOperator(task_id="d", plan={}, outlets=[published], asset=published).outlets == [published]
