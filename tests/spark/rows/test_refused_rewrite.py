"""A committed batch that is written again by a definition that is refused keeps its rows and its bad records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.rows.config import BadRecords, Json, Rows
from airflow_kafka_offsets.spark.errors import BadRecords as TooManyBad
from airflow_kafka_offsets.spark.errors import ConditionNotMet
from testbed.broker import KafkaBroker
from tests.spark.rows.conftest import Lake
from tests.spark.rows.healing import Orders

pytestmark = pytest.mark.long

PLAIN = Rows(Json("id BIGINT, amount DOUBLE"))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_too_many_bad_records_leave_committed_rows(
    spark: SparkSession, broker: KafkaBroker, topic: Callable[..., str], tmp_path: Path, kind: str
) -> None:
    lake = Lake(spark, kind, tmp_path)
    orders = Orders(lake, broker, topic(), PLAIN)
    orders.produce(*(b'{"id":%d,"amount":%d}' % (n, n - 2) for n in range(4)))
    orders.run("a")
    orders.definition = replace(PLAIN, expect={"positive": "value.amount > 0"})
    with pytest.raises(TooManyBad):
        orders.run("a")
    assert orders.offsets("good") == [0, 1, 2, 3]

    orders.definition = replace(PLAIN, bad=BadRecords(lake.sink("bad"), limit=0))
    orders.run("a")
    assert orders.offsets("good") == [0, 1, 2, 3]


def test_what_is_not_ensured_leaves_bad_records_where_they_were(
    spark: SparkSession, broker: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    lake = Lake(spark, "delta", tmp_path)
    orders = Orders(lake, broker, topic(), replace(PLAIN, bad=BadRecords(lake.sink("bad"))))
    orders.produce(b'{"id":0,"amount":1}', b"none")
    orders.run("a")
    assert orders.seen() == ([0], [1])
    orders.definition = replace(PLAIN, bad=BadRecords(lake.sink("elsewhere")), ensure={"two": "count(*) = 2"})
    with pytest.raises(ConditionNotMet):
        orders.run("a")
    assert orders.seen() == ([0], [1])
