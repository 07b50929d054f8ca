"""``what_if``: two definitions over the same records, and the whole answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.rows.config import BadRecords, Delta, Json, Rows
from airflow_kafka_offsets.rows.job import job_object
from airflow_kafka_offsets.spark import what_if
from airflow_kafka_offsets.spark.errors import InvalidJob
from tests.docs.pages import DOCS, blocks_of

pytestmark = pytest.mark.long

BAD = BadRecords(Delta("/lake/bad"))
VALUES = [
    *({"id": n, "amount": n, "note": "a"} for n in range(5)),
    {"id": 5, "amount": 5.5, "note": "b"},
    {"id": 6, "amount": 6.5, "note": "b"},
    {"id": 7, "amount": -7, "note": "c"},
    {"id": 8, "amount": 8, "note": "test"},
    {"id": 9, "amount": 900, "note": "d"},
    {"id": "secret", "amount": 1, "note": "e"},
]
OLD = Rows(value=Json("id BIGINT, amount BIGINT, note STRING"), where="value.note != 'test'", bad=BAD)
NEW = Rows(
    value=Json("id BIGINT, amount DECIMAL(10, 2)"),
    select=["value.id", "value.amount", "value.id % 2 = 0 AS even"],
    expect={"not too much": "value.amount < 100"},
    bad=BAD,
)
ANSWER = """\
**12 records** (orders-0: 20 to 31)

| old ↓ new → | row | bad | filtered |
| --- | --- | --- | --- |
| row | 6 | 1 | 0 |
| bad | 2 | 2 | 0 |
| filtered | 1 | 0 | 0 |

| bad, because | old | new |
| --- | --- | --- |
| the value is not JSON of the schema: amount is not bigint | 2 | 0 |
| the expectation 'not too much' is not met | 0 | 1 |
| the value is not JSON of the schema | 1 | 1 |
| the value is not JSON of the schema: id is not bigint | 1 | 1 |

| column | old | new | values that differ |
| --- | --- | --- | --- |
| id | bigint | bigint | 0 |
| amount | bigint | decimal(10,2) | 6 |
| note | string |  |  |
| even |  | boolean |  |

| change | such as |
| --- | --- |
| bad → row | orders-0:25, orders-0:26 |
| filtered → row | orders-0:28 |
| row → bad | orders-0:29 |
| other values | orders-0:20, orders-0:21, orders-0:22 |
"""


def records(spark: SparkSession, *texts: str) -> DataFrame:
    rows = [(None, text.encode(), "orders", 0, 20 + n) for n, text in enumerate(texts)]
    return spark.createDataFrame(rows, "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT")


def job(rows: Rows) -> dict[str, object]:
    return job_object(Delta("/lake/orders"), rows)


def test_the_answer_says_what_becomes_of_whom_and_shows_no_content(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        frame = records(spark, *map(json.dumps, VALUES), "no JSON")
        assert what_if(frame, old=job(OLD), new=job(NEW)) == ANSWER
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert "secret" not in ANSWER


@pytest.mark.slow
def test_the_script_of_the_page_runs(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Over a sample in a file, as a pull request has it."""
    records(spark, *map(json.dumps, VALUES)).write.parquet(str(tmp_path / "sample"))
    (block,) = (block for block in blocks_of(DOCS / "what-if.md") if block.language == "python")
    exec(block.code.replace("tests/sample.parquet", str(tmp_path / "sample")), {})
    assert "| amount | bigint | decimal(10,2) |" in capsys.readouterr().out


def test_a_record_that_is_there_twice_is_refused(spark: SparkSession) -> None:
    frame = records(spark, "{}")
    with pytest.raises(InvalidJob, match="An offset is in the frame twice"):
        what_if(frame.union(frame), old=job(OLD), new=job(NEW))


def test_an_expression_that_raises_is_named_without_the_value(spark: SparkSession) -> None:
    new = Rows(value=Json("id STRING"), select=["CAST(value.id AS INT) AS id"])
    with pytest.raises(InvalidJob, match="CAST_INVALID_INPUT") as refused:
        what_if(records(spark, '{"id": "secret"}'), old=job(OLD), new=job(new))
    assert "secret" not in str(refused.value)
    assert refused.value.__suppress_context__
