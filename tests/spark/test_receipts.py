"""The hash of planned offsets is the one that Spark observes."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark import receipts
from airflow_kafka_offsets.spark.plan import Plan, Range
from airflow_kafka_offsets.spark.receipts import HASH, planned_hash

RANGES = (Range("orders", 0, 0, 20), Range("größe", 7, 2**33, 2**33 + 9), Range("orders", 1, 5, 5))


@pytest.mark.parametrize("most_in_python", [0, 1_000])
def test_the_hash_of_a_plan_is_that_of_its_records(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most_in_python: int
) -> None:
    monkeypatch.setattr(receipts, "MOST_IN_PYTHON", most_in_python)
    monkeypatch.setattr(receipts, "_STEP", 7)
    rows = [(topic, partition, offset) for topic, partition, start, end in RANGES for offset in range(start, end)]
    records = spark.createDataFrame(rows, "topic STRING, partition INT, offset BIGINT")

    def observed(frame: Any) -> int:
        return int(frame.selectExpr(HASH).collect()[0][0])

    planned = planned_hash(spark, RANGES)
    assert planned == observed(records)
    assert planned != observed(records.where("offset != 3"))
    assert planned != observed(records.selectExpr("topic", "1 - partition AS partition", "offset"))


def test_ranges_are_cut_where_offsets_are_skipped() -> None:
    skips = (Range("a", 0, 0, 2), Range("a", 0, 5, 6), Range("a", 0, 9, 20), Range("b", 0, 3, 4))
    ranges = (Range("a", 0, 0, 10), Range("a", 1, 0, 10), Range("b", 0, 3, 4), Range("c", 0, 7, 7))
    plan = Plan(pipeline="orders", number=1, key="k", plan_id="p", ranges=ranges, skips=skips)
    assert plan.pieces == [Range("a", 0, 2, 5), Range("a", 0, 6, 9), Range("a", 1, 0, 10)]
