"""A record whose own time is of the future: what a plan that ends by time says of it, and what it reads."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import DataLoss
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.stores.local import LocalStore
from tests.cluster.memory import InMemoryCluster
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline

HOUR = 3_600_000
NOW = 1_795_168_800_000
MICROSECONDS = NOW * 1000
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def pipeline(memory: AnyCluster, store: LocalStore, group: str) -> Pipeline:
    """Offset 2 of each partition has microseconds for milliseconds."""
    memory.create_topic("orders", 3)
    for number in range(3):
        memory.produce("orders", partition=number, timestamps_ms=[NOW - 9 * HOUR, NOW - 8 * HOUR, MICROSECONDS])
        memory.produce("orders", partition=number, timestamps_ms=[NOW - 7 * HOUR, NOW - HOUR])
    return Pipeline(memory.reader, store, "orders", group, {}, run_type="manual", now_ms=NOW)


def until(ago: int) -> dict[str, Any]:
    return {"startup_mode": "earliest-offset", "bounded_mode": "timestamp", "bounded_timestamp": NOW - ago * HOUR}


def window(first: int, last: int, **more: Any) -> dict[str, Any]:
    return {**until(last), "startup_mode": "timestamp", "startup_timestamp": NOW - first * HOUR, **more}


def test_a_run_from_the_position_ends_before_it_in_time_then_at_the_end_of_the_log(pipeline: Pipeline) -> None:
    before = pipeline.run("one", **until(8))
    assert (before.ranges, before.plan.warnings) == ([(0, 1)] * 3, ())
    run = pipeline.run("two", **until(6))
    assert run.ranges == [(1, 5)] * 3
    assert run.plan.partitions[0].end_reason == "the record at 2 has a time in the future → end"
    (warning,) = run.plan.warnings
    where = f"the record at offset 2 has a time in the future (the newest time in this partition is {MICROSECONDS} ms)"
    assert f"orders[0]: {where}; orders[1]: {where}; orders[2]: {where}. " in warning
    pipeline.cluster.produce(ORDERS, [NOW - 5 * HOUR])
    assert pipeline.run("three", **until(5)).ranges == [(5, 6), (5, 5), (5, 5)]


def test_a_window_that_would_end_there_is_refused_and_nothing_is_written(pipeline: Pipeline) -> None:
    with pytest.raises(DataLoss) as refused:
        pipeline.resolve("one", **window(8, 6))
    where = f"(the newest time in this partition is {MICROSECONDS} ms). The window would end there"
    said = f"orders[2]: the record at offset 2 has a time in the future {where}"
    for words in (said, "by position", '"policies": {"data_loss": "advance"}'):
        assert words in str(refused.value)
    assert pipeline.log.windows() == []
    run = pipeline.run("two", **window(8, 6, data_loss="advance"))
    assert run.ranges == [(1, 2)] * 3
    assert "This window ends there, and so does every later one" in run.plan.warnings[0]
    assert pipeline.run("three", **window(9, 8)).ranges == [(0, 1)] * 3


def test_a_time_an_hour_ahead_is_none_of_the_future(pipeline: Pipeline) -> None:
    memory: Any = pipeline.cluster
    memory.create_topic("ahead", 1)
    memory.produce(TopicPartition("ahead", 0), [NOW - HOUR, NOW + HOUR, NOW - HOUR])
    assert pipeline.resolve("one", topics="ahead", **window(2, 0)).ranges == [(0, 1)]
    memory.produce(TopicPartition("ahead", 0), [NOW + HOUR + 1])
    assert pipeline.resolve("one", topics="ahead", **window(2, 0)).ranges == [(0, 1)]


@pytest.mark.also_on_a_broker
def test_also_where_a_newer_one_lies_in_an_open_transaction(pipeline: Pipeline) -> None:
    """Then a committed reader is told no newest timestamp."""
    memory: Any = pipeline.cluster
    memory.create_topic("open", 1)
    tp = TopicPartition("open", 0)
    memory.produce(tp, [NOW - 9 * HOUR, MICROSECONDS, NOW - 8 * HOUR])
    memory.begin_transaction().produce(tp, [MICROSECONDS + 1])
    asked = {"topics": "open", "isolation_level": "read_committed", **until(5)}
    assert pipeline.resolve("one", **asked).ranges == [(0, 3)]


def test_a_plan_asks_no_more_than_before_where_there_is_none(pipeline: Pipeline, monkeypatch: Any) -> None:
    for number in range(3):
        pipeline.cluster.delete_records(TopicPartition("orders", number), 5)
    memory: Any = pipeline.cluster
    memory.create_topic("fine", 1)
    memory.produce(TopicPartition("fine", 0), [NOW - 2 * HOUR, NOW])
    asked: list[Any] = []
    real = InMemoryCluster.offsets_for_times

    def count(cluster: InMemoryCluster, times: Any, level: Any) -> Any:
        asked.append(times)
        return real(cluster, times, level)

    monkeypatch.setattr(InMemoryCluster, "offsets_for_times", count)
    pipeline.resolve("one", topics="fine", **window(3, 1))
    assert len(asked) == 2, "the start and the end"
