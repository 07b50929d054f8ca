"""Bad records that come along in an observation are as they were; what is too large does not come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark.kept import keep, kept

COLUMNS = ["topic", "partition", "offset", "timestamp", "headers", "key", "value", "reason"]
TYPES = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, key BINARY, value BINARY, reason STRING"
)
AT = datetime(2026, 11, 29, 10, 30, 0, 123_000, tzinfo=UTC).replace(tzinfo=None)
RECORDS = [
    ("größe", 0, 2**40, AT, [("h", b"\xff\x00"), ("h", None)], b"\x00\xff", b'"\xc3', 'it is "bad"\n'),
    ("größe", 1, 0, AT, None, None, None, "x"),
    ("größe", 1, 1, AT, [], b"", b"", "x"),
    ("größe", 1, 2, AT, [], b"", b"good", "not wanted"),
]
WANTED = "reason != 'not wanted'"


def observe(spark: SparkSession, offsets: int, times: int = 1) -> tuple[str, int]:
    records = spark.createDataFrame(RECORDS * times, TYPES)
    text, count = records.agg(aggregate(offsets), f.expr(f"count_if({WANTED})")).collect()[0]
    return text, count


def aggregate(offsets: int) -> Column:
    return keep(WANTED, [f.col(name) for name in COLUMNS], offsets)


def test_bad_records_are_as_they_were_and_once(spark: SparkSession) -> None:
    """Also those of a stage that ran twice."""
    for times in (1, 2):
        bad = kept(spark, *observe(spark, 100, times))
        assert bad is not None
        assert bad.schema.simpleString() == spark.createDataFrame([], TYPES).schema.simpleString()
        assert sorted(map(tuple, bad.collect())) == sorted(RECORDS[:3])


def test_if_one_is_larger_than_its_share_none_is_taken(spark: SparkSession) -> None:
    """Headers count, too."""
    assert kept(spark, *observe(spark, (8 << 20) // 4)) is None


def test_a_text_that_is_not_as_tasks_wrote_it_is_not_taken(spark: SparkSession) -> None:
    text, count = observe(spark, 100)
    for torn in (text.replace("größe", "großx", 1), text.replace(" ", "", 1), "\0" + text[1:], text[:-1], text[1:], ""):
        assert kept(spark, torn, count) is None


def test_of_threads_that_look_at_one_observation_none_takes_what_another_writes(spark: SparkSession) -> None:
    """A Spark Connect server and Spark's listeners look at the same time, and Spark itself does not keep them apart."""
    records = spark.createDataFrame(RECORDS * 500, TYPES).observe("seen", aggregate(2_000).alias("kept"))
    execution = records._jdf.queryExecution()
    execution.toRdd().count()
    with ThreadPoolExecutor(8) as threads:
        looks = threads.map(lambda _: execution.observedMetrics().apply("seen").getString(0), range(64))
        found = [kept(spark, text, 1_500) for text in {*looks}]
    taken = [bad for bad in found if bad is not None]
    assert [sorted(map(tuple, bad.collect())) for bad in taken] == [sorted(RECORDS[:3])]
