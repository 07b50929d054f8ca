"""Marks: all records that were wanted are found again, and few others."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.marks import BLOCK, MARK, near, note, noted
from airflow_kafka_offsets.spark.plan import Plan, Range


@pytest.mark.parametrize(
    ("wanted", "others"),
    [("false", 0), ("offset = 4711", 10), ("offset % 100 = 3", 5_000), ("offset % 2 = 0", 10_000), ("true", 0)],
)
def test_a_second_read_has_all_wanted_records_and_few_others(spark: SparkSession, wanted: str, others: int) -> None:
    records = spark.range(20_000).selectExpr("'orders' AS topic", "CAST(id % 3 AS INT) AS partition", "id AS offset")
    bitmap = records.selectExpr(note(wanted, MARK)).collect()[0][0]
    found = noted(records, bitmap)
    assert len(bitmap) == 4096
    assert found.where(wanted).count() == records.where(wanted).count()
    assert found.where(f"NOT ({wanted})").count() <= others


def test_a_second_read_fetches_what_lies_between_the_first_and_the_last_wanted_record(spark: SparkSession) -> None:
    """In blocks of 4,096 offsets; of a partition without a wanted record, nothing."""
    rows = spark.range(10_000, 50_000).selectExpr(
        "'größe' AS topic", "CAST(id % 2 AS INT) AS partition", "id AS offset"
    )
    wanted = "partition = 0 AND offset BETWEEN 10100 AND 21000 AND offset % 1000 = 0"
    bitmap = rows.selectExpr(note(wanted, BLOCK)).collect()[0][0]
    ranges = tuple(Range("größe", partition, 10_000, 50_000) for partition in (0, 1))
    plan = Plan(pipeline="orders", number=1, key="k", plan_id="p", ranges=ranges)
    assert near(plan, bitmap).ranges == (Range("größe", 0, 10_000, 24_576), Range("größe", 1, 10_000, 10_000))
    assert near(plan, bytes(4096)).read_ranges == ()
