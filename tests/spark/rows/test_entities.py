"""A table of entities: which records become its rows, which delete one, and what the report says of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.spark.row_frames import check_definition, row_frames
from airflow_kafka_offsets.values.row_definition import FieldFormat, RowDefinition
from tests.spark.rows.conftest import json_rows

BY_VALUE = json_rows("id BIGINT, op STRING, name STRING", keys=("id",), delete_when="value.op = 'd'")
BY_KEY = replace(
    json_rows("name STRING", keys=("id",)), key=FieldFormat("string"), select=("CAST(key AS INT) AS id", "value.*")
)
RAW = RowDefinition(keys=("key",))


def became(spark: SparkSession, definition: RowDefinition, *records: tuple[str | None, str | None]) -> list[Any]:
    """Of each record, by offset: the id and whether it is deleted, or why it is no row; empty: it is left out."""
    given = [
        (key and key.encode(), value and value.encode(), "t", 0, offset) for offset, (key, value) in enumerate(records)
    ]
    frame = spark.createDataFrame(given, "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT")
    frame = frame.selectExpr("*", "timestamp_seconds(0) AS timestamp", "0 AS timestampType")
    frames = row_frames(frame, definition)
    name = definition.keys[0]
    rows = frames.rows.selectExpr("offset", f"CAST({name} AS STRING) AS id", "kafka_deleted").collect()
    rest = frames.rest.select("offset", "kafka_reason").collect()
    found = {row["offset"]: (row["id"], row["kafka_deleted"]) for row in rows}
    found |= {row["offset"]: row["kafka_reason"] for row in rest}
    return [found[offset] for offset in sorted(found)]


def test_a_record_deletes_its_entity_where_the_condition_is_true_and_not_where_it_is_null(spark: SparkSession) -> None:
    values = ['{"id": 1, "op": "c"}', '{"id": 2, "op": "d"}', '{"id": 3}']
    assert became(spark, BY_VALUE, *((None, value) for value in values)) == [("1", False), ("2", True), ("3", False)]


def test_a_tombstone_deletes_where_the_key_is_the_records_own_and_is_left_out_where_the_value_has_it(
    spark: SparkSession,
) -> None:
    assert became(spark, BY_KEY, ("7", '{"name": "a"}'), ("7", None)) == [("7", False), ("7", True)]
    assert became(spark, BY_VALUE, ("7", None)) == [""]
    assert became(spark, RAW, ("7", "a"), ("7", None)) == [("7", False), ("7", True)]
    assert became(spark, replace(BY_KEY, tombstones="leave-out"), ("7", None)) == [""]


def test_a_record_without_a_key_is_bad(spark: SparkSession) -> None:
    lacks = "id is null, and it is a key of the table"
    assert became(spark, BY_VALUE, (None, '{"op": "c"}')) == [lacks]
    assert became(spark, BY_KEY, (None, '{"name": "a"}'), (None, None)) == [lacks, lacks]


def test_a_record_on_which_the_condition_raises_is_bad(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "true")
    definition = replace(BY_VALUE, delete_when="CAST(value.name AS INT) = 1")
    values = ['{"id": 1, "name": "x"}', '{"id": 1, "name": "1"}']
    assert became(spark, definition, *((None, value) for value in values)) == [
        "delete_when raises an error on this record",
        ("1", True),
    ]


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        (replace(BY_VALUE, keys=("number",)), "the key 'number', and no column of select has that name"),
        (replace(BY_VALUE, delete_when="value.operation = 'd'"), "delete_when is refused by Spark"),
        (replace(BY_VALUE, delete_when="value.op"), "delete_when is of the type string; give a condition"),
        (replace(BY_VALUE, select=("value.id", "value.op AS topic")), "select names a column topic too"),
    ],
    ids=str,
)
def test_a_definition_that_cannot_be_used_is_refused(
    spark: SparkSession, definition: RowDefinition, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        check_definition(spark, definition)
