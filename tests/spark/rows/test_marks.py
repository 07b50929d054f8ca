"""Marks: all records that were wanted are found again, and few others."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.marks import note, noted


@pytest.mark.parametrize(
    ("wanted", "others"),
    [("false", 0), ("offset = 4711", 10), ("offset % 100 = 3", 5_000), ("offset % 2 = 0", 10_000), ("true", 0)],
)
def test_a_second_read_has_all_wanted_records_and_few_others(spark: SparkSession, wanted: str, others: int) -> None:
    records = spark.range(20_000).selectExpr("'orders' AS topic", "CAST(id % 3 AS INT) AS partition", "id AS offset")
    bitmap = records.selectExpr(note(wanted)).collect()[0][0]
    found = noted(records, bitmap)
    assert len(bitmap) == 4096
    assert found.where(wanted).count() == records.where(wanted).count()
    assert found.where(f"NOT ({wanted})").count() <= others
