"""The driver against a real Kafka: exactly the planned records, and no report for anything else."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.spark import Batch, count, for_each_batch, read_batch, report_batch
from airflow_kafka_offsets.spark.batch import BAD, FATE, FILTERED, ROW, Written
from airflow_kafka_offsets.spark.errors import NO_RETRY, InvalidJob, RecordsGone, StoreUnavailable
from airflow_kafka_offsets.spark.jobs import write_batch as write_batch_job
from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from testbed.broker import KafkaBroker
from tests.spark.plans import PlannedBatch, Plans

Filled = Callable[..., str]
Write = Callable[[DataFrame, Batch], DataFrame]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """What a job does: overwrite the batch's own folder, and read it back."""

    def overwrite(records: DataFrame, batch: Batch) -> DataFrame:
        folder = f"{tmp_path}/out/kafka_batch={batch.key}"
        records.write.mode("overwrite").parquet(folder)
        return batch.spark.read.parquet(folder)

    return overwrite


@pytest.fixture
def reads_kafka_once(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, "airflow_kafka_offsets"):
        yield
    assert "Kafka is read once more" not in caplog.text


def offsets(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row[0], row[1]) for row in frame.select("partition", "offset").collect())


def verified(**figures: int) -> dict[str, int]:
    return {name: figures.get(name, 0) for name in ("rows", "bad", "filtered", "offsets", "gaps")}


def figures(batch: PlannedBatch, topic: str) -> dict[str, int]:
    return {name: batch.counts((topic, 0))[name] for name in verified()}


# ── what is read ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_says_what_it_is(spark: SparkSession, plans: Plans, filled: Filled) -> None:
    hour = 1_795_168_800_000
    planned = plans.batch({(filled(1), 0): (0, 1)}, number=107, window=[hour, hour + 3_600_000])
    batch = read_batch(spark, planned.arguments())
    assert (batch.key, batch.number, batch.attempt, batch.name) == (planned.key, 107, 1, "orders")
    assert batch.window is not None
    assert [end.isoformat() for end in batch.window] == ["2026-11-20T10:00:00+00:00", "2026-11-20T11:00:00+00:00"]


# ── offsets without a record ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("reads_kafka_once")
def test_gaps_of_transactions_are_verified_without_a_second_read(
    spark: SparkSession, plans: Plans, with_transactions: str, write: Write
) -> None:
    planned = plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    for_each_batch(spark, write, planned.arguments())
    assert planned.problems() == []
    assert figures(planned, with_transactions) == verified(rows=7, offsets=7, gaps=5)


@pytest.mark.usefixtures("reads_kafka_once")
def test_gaps_of_compaction_are_verified_without_a_second_read(
    spark: SparkSession, plans: Plans, compacted: str, write: Write
) -> None:
    planned = plans.batch({(compacted, 0): (0, 80)})
    batch = read_batch(spark, planned.arguments())
    report_batch(batch, write(batch.records, batch))
    assert planned.problems() == []
    assert planned.counts((compacted, 0))["gaps"] > 0


def test_a_committed_batch_is_left_where_compaction_has_taken_records_of_it(
    spark: SparkSession, plans: Plans, compacted: str, write: Write
) -> None:
    planned = plans.batch({(compacted, 0): (0, 80)}).commit(rows=80)
    planned.plan(planned.ranges)
    with pytest.raises(RecordsGone, match=r"committed with 80 records, and Kafka has .* Its rows stay"):
        for_each_batch(spark, write, planned.arguments())
    assert planned.attempts == []
    planned.begun(2)
    with pytest.raises(RecordsGone, match="restore its rows"):
        for_each_batch(spark, write, planned.arguments())


def test_a_record_that_cannot_be_delivered_is_not_fetched_if_it_is_skipped(
    spark: SparkSession, plans: Plans, filled: Filled, write: Write, broker: KafkaBroker
) -> None:
    """The source fails for a record that is gone, as it does for one that it cannot read."""
    topic = filled(10)
    planned = plans.batch({(topic, 0): (0, 10)}, skips=[((topic, 0), (0, 4)), ((topic, 0), (6, 7))])
    broker.delete_records({(topic, 0): 4})
    for_each_batch(spark, write, planned.arguments())
    assert (planned.problems(), figures(planned, topic)) == ([], verified(rows=5, offsets=5))


def test_what_spark_cannot_observe_is_read_once_more(
    spark: SparkSession, plans: Plans, with_transactions: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An RDD is no action of Spark SQL: ``Observation.get`` would wait for ever."""
    monkeypatch.setattr(count, "OBSERVED_WITHIN_S", 0.1)
    planned = plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")

    def by_rdd(records: DataFrame, batch: Batch) -> DataFrame:
        return write(spark.createDataFrame(records.rdd, records.schema), batch)

    for_each_batch(spark, by_rdd, planned.arguments())
    assert figures(planned, with_transactions) == verified(rows=7, offsets=7, gaps=5)


# ── what is written ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda r: r.where("offset != 4"), "9 offsets and 0 gaps of 10"),
        (lambda r: r.union(r.where("offset = 4")), "11 rows for 10 offsets"),
        (lambda r: r.where("offset != 4").union(r.where("offset = 5")), "10 rows for 9 offsets"),
        (lambda r: r.withColumn("offset", f.col("offset") + 1), "offsets outside of the range"),
        (lambda r: r.withColumn("offset", f.lit(None).cast("long")), "10 rows for 0 offsets"),
        (lambda r: r.limit(0), "0 offsets and 0 gaps of 10"),
    ],
    ids=["one too few", "one twice", "one twice and one too few", "shifted", "without offsets", "none"],
)
def test_a_wrong_output_is_not_verified(
    spark: SparkSession,
    plans: Plans,
    filled: Filled,
    write: Write,
    wrong: Any,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(count, "OBSERVED_WITHIN_S", 1.0)  # an output of none observes nothing
    planned = plans.batch({(filled(10), 0): (0, 10)})
    for_each_batch(spark, lambda records, batch: write(wrong(records), batch), planned.arguments())
    assert any(problem in line for line in planned.problems()), planned.problems()


def test_rows_of_another_topic_are_reported(spark: SparkSession, plans: Plans, filled: Filled, write: Write) -> None:
    planned = plans.batch({(filled(3), 0): (0, 3)})
    for_each_batch(
        spark, lambda r, b: write(r.union(r.limit(1).withColumn("topic", f.lit("alien"))), b), planned.arguments()
    )
    assert planned.counts(("alien", 0))["rows"] == 1


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (lambda r: r.drop("partition", "offset"), "no column offset, partition"),
        (
            lambda r: r.withColumn("topic", f.when(f.col("offset") > 1, f.col("topic"))),
            "Rows without a topic or partition: 2",
        ),
    ],
)
def test_rows_that_cannot_be_counted_are_refused(
    spark: SparkSession, plans: Plans, filled: Filled, spoil: Any, cause: str
) -> None:
    planned = plans.batch({(filled(3), 0): (0, 3)})
    with pytest.raises(InvalidJob, match=cause):
        for_each_batch(spark, lambda records, _: spoil(records), planned.arguments())
    assert planned.names("report") == []


def test_a_function_that_reads_nothing_back_is_counted_by_its_scan(
    spark: SparkSession, plans: Plans, filled: Filled
) -> None:
    topic = filled(10)
    planned = plans.batch({(topic, 0): (2, 10)})
    for_each_batch(spark, lambda records, _: records.persist().count() and None, planned.arguments())
    assert (planned.problems(), figures(planned, topic)) == ([], verified(rows=8, offsets=8))
    assert planned.report()["proof"] == "trusted"


def divided(records: DataFrame) -> DataFrame:
    """Offset 1 is a bad record, each third one from 2 on is filtered."""
    fate = f.expr(f"CASE WHEN offset = 1 THEN '{BAD}' WHEN offset % 3 = 2 THEN '{FILTERED}' ELSE '{ROW}' END")
    return records.select("topic", "partition", "offset", fate.alias(FATE))


@pytest.mark.usefixtures("reads_kafka_once")
def test_filtered_records_are_accounted_for_without_a_second_read(
    spark: SparkSession, plans: Plans, filled: Filled, write: Write
) -> None:
    topic = filled(10)
    planned = plans.batch({(topic, 0): (0, 10)})

    def keep(records: DataFrame, batch: Batch) -> Any:
        outputs = write(divided(records).where(f"{FATE} != '{FILTERED}'"), batch)
        return Written(outputs, divided(records), filtered=3)

    for_each_batch(spark, keep, planned.arguments())
    assert (planned.problems(), figures(planned, topic)) == ([], verified(rows=6, bad=1, filtered=3, offsets=10))


def test_filtered_records_beside_gaps_are_found_by_a_scan(
    spark: SparkSession, plans: Plans, with_transactions: str, write: Write
) -> None:
    planned = plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")

    def keep(records: DataFrame, batch: Batch) -> Any:
        outputs = write(divided(records).where(f"{FATE} != '{FILTERED}'"), batch)
        return Written(outputs, divided(records), filtered=2)

    for_each_batch(spark, keep, planned.arguments())
    assert planned.problems() == []
    assert figures(planned, with_transactions) == verified(rows=4, bad=1, filtered=2, offsets=7, gaps=5)


# ── attempts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_write_that_fails_reports_nothing_and_the_next_attempt_is_verified(
    spark: SparkSession, plans: Plans, filled: Filled, write: Write
) -> None:
    planned = plans.batch({(filled(3), 0): (0, 3)})

    def fails(records: DataFrame, batch: Batch) -> DataFrame:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        for_each_batch(spark, fails, planned.arguments())
    assert (planned.attempts, planned.names("report")) == ([1], [])
    for_each_batch(spark, write, planned.arguments())
    assert (planned.attempts, planned.problems()) == ([1, 2], [])


def test_a_batch_that_verifies_without_records_is_left(spark: SparkSession, plans: Plans) -> None:
    planned = plans.batch({("nowhere", 0): (0, 9)})
    arguments = [*planned.arguments(), "--nothing-to-do"]
    assert for_each_batch(spark, lambda *_: pytest.fail("it was written"), arguments) is None
    with pytest.raises(SystemExit) as ended:
        read_batch(spark, arguments)
    assert (ended.value.code, planned.attempts) == (0, [])


# ── objects and arguments ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_object_is_read_and_its_digest_is_reported(
    spark: SparkSession, plans: Plans, filled: Filled, write: Write
) -> None:
    planned = plans.batch({(filled(3), 0): (0, 3)})
    uri = planned.job({"output": None, "sink": None, "rows": None})
    batch = for_each_batch(spark, write, planned.arguments(job=uri))
    assert batch is not None
    assert batch.job is not None
    assert "rows" in batch.job
    assert planned.report()["job"] == uri.rpartition("/")[2].removesuffix(".json")
    other = planned.job({"output": "delta:/elsewhere"})
    Path(uri.removeprefix("file://")).write_bytes(Path(other.removeprefix("file://")).read_bytes())
    with pytest.raises(StoreUnavailable, match="cut off or altered"):
        read_batch(spark, planned.arguments(job=uri))


@pytest.mark.parametrize(
    ("argv", "cause"),
    [
        ([], "started without arguments"),
        (["--bootstrap-servers", "host:9092"], "started without arguments"),
        (["--plan"], "expected one argument"),
        (["--plan", "None"], "does not end with"),
        (["--plan", "s3://b/orders/batches/00000000/0000000007/1-aa.ranges.json"], "does not end with"),
        (["--plan=/w/o/batches/00000000/0000000007/1.json", "--job", "/v/o/jobs/a.json"], "is not in the checkpoint"),
    ],
)
def test_a_job_without_its_arguments_is_refused(spark: SparkSession, argv: list[str], cause: str) -> None:
    with pytest.raises(InvalidJob, match=cause):
        for_each_batch(spark, lambda *_: pytest.fail("it was written"), argv)


def test_the_packaged_job_without_a_job_object_is_refused(spark: SparkSession, plans: Plans) -> None:
    batch = plans.batch({("nowhere", 0): (0, 0)})
    with pytest.raises(InvalidJob, match="have no --job"):
        write_batch(spark, batch.arguments())
    assert batch.attempts == []


# ── how a packaged job ends ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_packaged_job_that_no_retry_can_mend_ends_with_a_status_of_its_own(spark: SparkSession) -> None:
    ended = subprocess.run([sys.executable, write_batch_job.__file__], capture_output=True, text=True, check=False)
    assert ended.returncode == NO_RETRY
    assert "AKO-405: " in ended.stderr
