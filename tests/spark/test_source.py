"""How Spark's Kafka source is asked for the ranges of a plan."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark import Batch, for_each_batch, kept, read_batch, source
from airflow_kafka_offsets.spark.errors import InvalidJob
from airflow_kafka_offsets.spark.plan import read_plan
from airflow_kafka_offsets.spark.source import source_options, whole_topics
from airflow_kafka_offsets.spark.store import HadoopStore
from testbed.broker import KafkaBroker
from tests.spark.plans import PlannedBatch, Plans

Filled = Callable[..., str]
NONE = "__none__"


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def read(spark: SparkSession, planned: PlannedBatch) -> list[tuple[int, list[tuple[str, int, int]]]]:
    """The numbers of the attempts, and what each has read."""
    found = []

    def write(records: DataFrame, batch: Batch) -> DataFrame:
        rows: list[tuple[str, int, int]] = []
        found.append((batch.attempt, rows))
        rows += sorted(tuple(row) for row in records.select("topic", "partition", "offset").collect())
        return records

    for_each_batch(spark, write, planned.arguments())
    assert planned.problems() == []
    return found


# ── many partitions ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_whole_topics_are_subscribed_to_and_others_assigned_with_the_same_records(
    spark: SparkSession, plans: Plans, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MANY_PARTITIONS", 1)
    whole, part = filled(20, partitions=2), filled(20, partitions=2)
    ranges = {(whole, 0): (2, 4), (whole, 1): (7, 7), (part, 1): (0, 3)}
    planned = plans.batch(ranges, partitions={part: 2})
    store = HadoopStore(spark, f"file://{planned.root}")
    assert whole_topics(read_plan(store, "orders/batches/00000000/0000000001", 1)) == {whole}
    assert read(spark, planned) == [(1, sorted([(whole, 0, 2), (whole, 0, 3), *((part, 1, n) for n in range(3))]))]


def test_a_partition_that_is_new_since_the_plan_makes_no_difference(
    spark: SparkSession,
    plans: Plans,
    filled: Filled,
    broker: KafkaBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(source, "MANY_PARTITIONS", 1)
    topic = filled(20, partitions=2)
    planned = plans.batch({(topic, 0): (0, 3), (topic, 1): (0, 3)})
    admin = broker.admin()
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    with caplog.at_level(logging.INFO, "airflow_kafka_offsets"):
        assert read(spark, planned) == [(1, []), (2, [(topic, p, n) for p in range(2) for n in range(3)])]
    assert "a partition is new since the plan" in caplog.text


# ── options ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def options_of(spark: SparkSession, planned: PlannedBatch, servers: str | None = "argument:9092") -> dict[str, str]:
    store = HadoopStore(spark, str(planned.root))
    return source_options(spark, read_plan(store, "orders/batches/00000000/0000000001", 1), servers)


@pytest.mark.parametrize(
    ("sizes", "tasks"),
    [
        ([100_000], None),
        ([150_000, 10], "100000"),  # two cores: an even share would be less than a task is worth
        ([900_000, 100_000], "500000"),
        ([9_000_000], "1000000"),
    ],
)
def test_a_large_range_is_cut_into_shares_of_the_cores(
    spark: SparkSession, plans: Plans, sizes: list[int], tasks: str | None
) -> None:
    planned = plans.batch({("any", number): (0, size) for number, size in enumerate(sizes)})
    assert options_of(spark, planned).get("maxRecordsPerPartition") == tasks
    with setting(spark, "spark.kafka_offsets.source.minPartitions", "7"):
        assert "maxRecordsPerPartition" not in options_of(spark, planned)


def test_a_setting_comes_before_the_client_s_properties_and_these_before_the_arguments(
    spark: SparkSession, plans: Plans, tmp_path: Path
) -> None:
    planned = plans.batch({("any", 0): (0, 1)}, isolation_level="read_committed")
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:9092\nsecurity.protocol=SSL\nisolation.level=read_uncommitted\n")
    assert options_of(spark, planned)["kafka.bootstrap.servers"] == "argument:9092"
    with setting(spark, "spark.kafka_offsets.client_properties", str(file)):
        options = options_of(spark, planned)
        assert (options["kafka.bootstrap.servers"], options["kafka.security.protocol"]) == ("file:9092", "SSL")
        assert (options["kafka.isolation.level"], options["failOnDataLoss"]) == ("read_committed", "true")
        with setting(spark, "spark.kafka_offsets.source.kafka.bootstrap.servers", "setting:9092"):
            assert options_of(spark, planned)["kafka.bootstrap.servers"] == "setting:9092"


@pytest.mark.parametrize("name", ["startingTimestamp", "FAILONDATALOSS", "kafka.isolation.level", "subscribePattern"])
def test_a_setting_that_would_change_what_is_read_is_refused_before_the_attempt(
    spark: SparkSession, plans: Plans, name: str
) -> None:
    planned = plans.batch({("any", 0): (0, 1)})
    with setting(spark, f"spark.kafka_offsets.source.{name}", "0"), pytest.raises(InvalidJob, match=name):
        read_batch(spark, planned.arguments())
    assert planned.attempts == []


def test_a_cluster_must_be_named(spark: SparkSession, plans: Plans) -> None:
    with pytest.raises(InvalidJob, match="No cluster is named"):
        options_of(spark, plans.batch({("any", 0): (0, 1)}), servers=None)


@pytest.mark.parametrize("size", [0, 3])
def test_headers_are_read_where_an_expression_may_name_them(
    spark: SparkSession, plans: Plans, filled: Filled, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "SMALL", -1)
    planned = plans.batch({(filled(3), 0): (0, size)})

    def has_headers(**rows: Any) -> bool:
        job = planned.job({"output": None, "rows": {"select": None, "where": None, "expect": {}, **rows}})
        return "headers" in read_batch(spark, planned.arguments(job=job)).records.columns

    assert has_headers(select=["Headers[0].key AS k"])
    assert has_headers(select=["*"])
    assert has_headers(where="size(headers) = 1")
    assert has_headers(expect={"one": "`headers` IS NOT NULL"})
    assert not has_headers(select=["value.*", "key.* "], where="value.has_headers")
    assert "headers" not in read_batch(spark, planned.arguments(job=planned.job({"rows": None}))).records.columns
    monkeypatch.setattr(kept, "SMALL", 3)
    assert has_headers(), "bad records of a small plan come along, with their headers"
