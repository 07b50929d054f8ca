"""What goes through Airflow's metadata database is below 64 KiB, at 10,000 partitions as at six."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_kafka_offsets import (
    CommitOffsetsOperator,
    PartitionDiscoverySensor,
    ResolveStartupOffsetsOperator,
    WindowCompleteSensor,
)
from airflow_kafka_offsets.errors import ClusterUnavailable
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.value_sizes import LARGEST, fits, partitions_or_counts, shortened
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.consumer_lag import Lag, LagLimits, PartitionLag
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.triggers.lag_event import event_of
from airflow_kafka_offsets.triggers.sensor_waits import PartitionDiscoveryTrigger
from tests.airflow.fixtures import plan_in_store
from tests.cluster.memory import InMemoryCluster

KIB_64 = 64 * 1024
TOPICS, PARTITIONS = 20, 500


@dataclass
class Task:
    """A task instance that keeps what is pushed."""

    task_id: str
    pushed: dict[str, Any] = field(default_factory=dict)
    dag_id: str = "large"
    run_id: str = "manual__1"
    map_index: int = -1

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def get_ti_count(self, **_: Any) -> int:
        return 0

    def get_dr_count(self, **_: Any) -> int:
        return 0

    @property
    def context(self) -> dict[str, Any]:
        events: dict[Any, Any] = {ASSET: SimpleNamespace(extra={})}
        return {"ti": self, "dag_run": SimpleNamespace(conf={}, run_type="manual"), "outlet_events": events}


ASSET = Asset("large")


@pytest.fixture
def cluster(airflow: Path, monkeypatch: pytest.MonkeyPatch) -> InMemoryCluster:
    """A record in each of 10,000 partitions."""
    cluster = InMemoryCluster()
    for number in range(TOPICS):
        name = f"orders-of-a-customer-with-a-name-of-some-length-{number:04}"
        cluster.create_topic(name, PARTITIONS)
        for partition in range(PARTITIONS):
            cluster.produce(TopicPartition(name, partition), [cluster.now_ms])

    monkeypatch.setattr(KafkaOffsetsHook, "open_cluster", lambda *_, **__: cluster)
    return cluster


def too_large(values: dict[str, Any]) -> dict[str, int]:
    sizes = {key: len(json.dumps(value).encode()) for key, value in values.items()}
    return {key: size for key, size in sizes.items() if size >= KIB_64}


def test_a_batch_of_10000_partitions_goes_from_resolve_to_commit_by_its_name_and_digest(
    cluster: InMemoryCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"topic_pattern": "orders-.*", "group_id": "g", "work_store": str(tmp_path), "splits": 4}
    resolve = ResolveStartupOffsetsOperator(task_id="resolve", auto_offset_reset="earliest", **about)
    resolving, committing = Task("resolve"), Task("commit")
    arguments = resolve.execute(resolving.context)

    pushed = {**resolving.pushed, "return_value": arguments}
    assert too_large(pushed) == {}
    assert pushed.keys() == {"pipeline", "plan", "summary", "return_value"}, "no option string fits"
    said = capsys.readouterr().out
    assert "assign, starting_offsets and ending_offsets are not pushed: for 10,000 partitions" in said
    assert "read_batch" in said
    assert max(len(json.dumps(words)) for words in arguments) < 1_000
    plan = plan_in_store(pushed["plan"])
    assert (plan["record_count_upper_bound"], len(plan["topics"])) == (TOPICS * PARTITIONS, TOPICS)

    commit = CommitOffsetsOperator(task_id="commit", plan=pushed["plan"], require_report=False, asset=ASSET)
    context = committing.context
    result = commit.execute(context)

    event = context["outlet_events"][ASSET].extra
    assert too_large({**committing.pushed, "return_value": result, "event": event}) == {}
    assert event.keys() == {"group_id", "batch", "plan_id", "window", "stored_as", "work_store"}
    assert result["partitions_written"] == TOPICS * PARTITIONS
    said += capsys.readouterr().out
    assert (len(said) < 8_000, said.count("9,990 more partitions")) == (True, 2), "tables of ten rows and a summary"


def test_so_many_spark_jobs_that_their_arguments_do_not_fit_are_refused_before_anything_is_planned(
    cluster: InMemoryCluster, tmp_path: Path
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topic_pattern="orders-.*", group_id="g", work_store=str(tmp_path), splits=5_000
    )
    with pytest.raises(AirflowFailException, match=r"splits is 5000: .* Give at most \d\d\d?, or shorter"):
        resolve.execute(Task("resolve").context)
    assert list(tmp_path.iterdir()) == []


def test_what_the_partition_sensor_found_travels_as_counts_where_the_lists_are_too_large(
    cluster: InMemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by way of the triggerer, which has the sensor look itself then."""
    monkeypatch.setattr("airflow_kafka_offsets.hooks.value_sizes.LARGEST", 1_000)
    scope = ScopeParameters(topic_pattern="orders-.*").to_dict()
    trigger = PartitionDiscoveryTrigger(
        kafka_config_id="kafka_default", scope=scope, min_partitions=1, poke_interval=0.01
    )

    async def event() -> Any:
        return (await anext(trigger.run())).payload

    payload = asyncio.run(event())
    assert payload == {"look_again": None}
    sensor = PartitionDiscoverySensor(task_id="wait", topic_pattern="orders-.*")
    found = sensor.execute_complete(Task("wait").context, payload)
    assert found == {"topic_count": TOPICS, "partition_count": TOPICS * PARTITIONS}


def test_an_error_that_names_too_much_is_found_again_in_the_worker(
    airflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Any) -> Any:
        raise ClusterUnavailable("Cannot look", "\n".join(f"orders[{n}]: no" for n in range(10_000)), "Wait.")

    monkeypatch.setattr(PartitionDiscoveryTrigger, "look", fails)
    monkeypatch.setattr(WindowCompleteSensor, "_trigger", lambda *_: trigger())

    def trigger() -> PartitionDiscoveryTrigger:
        scope = ScopeParameters(topics=["a"]).to_dict()
        return PartitionDiscoveryTrigger(kafka_config_id="k", scope=scope, min_partitions=1, poke_interval=0.01)

    async def event() -> Any:
        return (await anext(trigger().run())).payload

    payload = asyncio.run(event())
    assert payload == {"look_again": None}
    with pytest.raises(ClusterUnavailable, match="Cannot look"):
        WindowCompleteSensor(task_id="wait", topics=["a"], end=0).execute_complete({}, payload)


def test_a_lag_of_too_many_topics_travels_without_them() -> None:
    rows = tuple(PartitionLag(TopicPartition(f"orders-of-customer-{n:06}", 0), 3) for n in range(10_000))
    lag = Lag("g", "c", LagLimits(1, None), 1_000, rows, "mark")
    assert event_of(lag) == {**lag.to_dict(), "topics": None}
    few = Lag("g", "c", LagLimits(1, None), 1_000, rows[:3], "mark")
    assert event_of(few) == few.to_dict()


def test_a_text_of_json_counts_as_it_is_stored_with_its_quotes_escaped() -> None:
    assert fits("a" * (LARGEST - 2))
    assert not fits("a" * (LARGEST - 1))
    assert not fits('"' * (LARGEST // 2))


def test_lists_stay_lists_while_they_fit() -> None:
    assert partitions_or_counts({"orders": [0, 1]}) == {"orders": [0, 1]}
    assert partitions_or_counts({}) == {}


def test_a_sentence_is_cut_where_nobody_reads_on() -> None:
    assert shortened("a" * 4_000) == "a" * 4_000
    assert shortened("a" * 9_000) == f"{'a' * 4_000} … and 5,000 more characters"
