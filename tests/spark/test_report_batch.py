"""What a report shows of what was written, and what the commit makes of it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.errors import InvalidRequest, ReadNotVerified, StoreUnavailable
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.log.verify_reads import PartitionRead
from airflow_kafka_offsets.plan.splits import FEW_RECORDS
from airflow_kafka_offsets.spark import Batch, read_batch, report_batch
from airflow_kafka_offsets.spark.report import OF_FEW
from testbed.broker import KafkaBroker
from tests.spark.conftest import Plans, offset_numbers, planned_anew, require_read, write_split

Filled = Callable[..., str]


# Proof by rows


def test_each_offset_once_is_proof(spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path) -> None:
    topic = filled(20, partitions=2)
    batch = plans.batch({(topic, 0): (3, 10), (topic, 1): (4, 10)})
    job = plans.job(batch)
    report = report_batch(job, write_split(read_batch(spark, job), job, tmp_path))
    assert report.proof == "rows"
    assert report.partitions == {
        TopicPartition(topic, 0): PartitionRead(7, 7, 3, 9),
        TopicPartition(topic, 1): PartitionRead(6, 6, 4, 9),
    }
    require_read(batch)


def test_offsets_are_told_apart_beyond_one_word(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, topic: Callable[..., str], tmp_path: Path
) -> None:
    """They are counted 64 at a time, and a long's last bit is its sign."""
    name = topic()
    broker.produce_many(name, 1_000)
    batch = plans.batch({(name, 0): (1, 1_000)})
    job = plans.job(batch)
    report = report_batch(job, write_split(read_batch(spark, job), job, tmp_path))
    assert report.partitions == {TopicPartition(name, 0): PartitionRead(999, 999, 1, 999)}
    require_read(batch)


LOSSES: Mapping[str, tuple[int, Mapping[int, int], str]] = {
    # How many records there are, how often each of some is written, and what the commit says.
    "one doubled, one dropped": (100, {40: 2, 60: 0}, "twice: 100 rows for 99 different offsets"),
    "sums and sums of squares are as they should be": (
        8,
        {1: 0, 5: 0, 6: 0, 2: 2, 3: 2, 7: 2},
        "twice: 8 rows for 5 different offsets",
    ),
    "one dropped": (10, {4: 0}, "short: 9 of 10 offsets"),
    "the first dropped": (10, {0: 0}, "short: 9 of 10 offsets"),
    "one doubled": (10, {9: 2}, "twice: 11 rows for 10 different offsets"),
    "all dropped": (4, dict.fromkeys(range(4), 0), "short: 0 of 4 records"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_join_that_loses_or_doubles_is_refused(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path, name: str
) -> None:
    count, times, said = LOSSES[name]
    batch = plans.batch({(filled(count), 0): (0, count)})
    job = plans.job(batch)
    side = spark.createDataFrame([(n,) for n in range(count) for _ in range(times.get(n, 1))] or [], "id BIGINT")
    records = read_batch(spark, job)
    joined = records.join(side, records["offset"] == side["id"]).drop("id")
    report_batch(job, write_split(joined, job, tmp_path))
    with pytest.raises(ReadNotVerified) as refused:
        require_read(batch)
    assert said in str(refused.value)


def test_offsets_of_another_range_are_refused(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    batch = plans.batch({(filled(20), 0): (5, 15)})
    job = plans.job(batch)
    shifted = read_batch(spark, job).withColumn("offset", f.col("offset") + 1)
    report_batch(job, write_split(shifted, job, tmp_path))
    with pytest.raises(ReadNotVerified, match="beyond: offsets 6 to 15 are reported"):
        require_read(batch)


def test_a_job_that_began_and_died_is_not_verified_by_the_attempt_before(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    job = plans.job(batch)
    with pytest.raises(ReadNotVerified, match="no Spark job has begun"):
        require_read(batch)
    report_batch(job, write_split(read_batch(spark, job), job, tmp_path))
    require_read(batch)
    read_batch(spark, plans.job(batch))
    with pytest.raises(ReadNotVerified, match="attempt 2 began and has not reported"):
        require_read(batch)


# Proof by the scan


@pytest.mark.parametrize("persisted", [True, False])
def test_gaps_are_proven_by_the_scan(
    spark: SparkSession,
    plans: Plans,
    with_transactions: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    persisted: bool,
) -> None:
    batch = plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    job = plans.job(batch)
    records = read_batch(spark, job)
    records = records.persist() if persisted else records
    assert report_batch(job, write_split(records, job, tmp_path)).proof == "compared"
    assert ("persist()" in caplog.text) is not persisted
    require_read(batch)
    records.unpersist()


def test_rows_that_are_counted_from_persisted_records_are_held_against_them(
    spark: SparkSession, plans: Plans, filled: Filled
) -> None:
    """As many as there should be, one of them twice, and one not at all."""
    batch = plans.batch({(filled(10), 0): (0, 10)})
    job = plans.job(batch)
    records = read_batch(spark, job).persist()
    doubled = records.where("offset <> 3").union(records.where("offset = 4"))
    assert report_batch(job, doubled).proof == "rows"
    records.unpersist()
    with pytest.raises(ReadNotVerified, match="twice: 10 rows for 9 different offsets"):
        require_read(batch)


def test_a_compacted_topic_is_proven_by_the_scan(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, compacted: str, tmp_path: Path
) -> None:
    end = broker.offset_bounds(compacted)[0][1]
    batch = plans.batch({(compacted, 0): (0, end)})
    job = plans.job(batch)
    records = read_batch(spark, job).persist()
    report = report_batch(job, write_split(records, job, tmp_path))
    assert report.proof == "compared"
    assert sum(read.offset_count for read in report.partitions.values()) < end
    require_read(batch)
    records.unpersist()


@pytest.mark.parametrize(
    "change",
    [
        lambda records: records.where("offset <> 10"),
        lambda records: records.unionAll(records.where("offset = 4")),
        lambda records: records.withColumn("offset", f.expr("if(offset = 10, 4, offset)")),
        lambda records: records.withColumn("offset", f.expr("if(offset = 3, 6, offset)")),  # an offset without a record
    ],
    ids=["dropped", "doubled", "dropped and doubled", "another one"],
)
@pytest.mark.parametrize("persisted", [True, False])
def test_gaps_do_not_hide_that_other_records_were_written(
    spark: SparkSession,
    plans: Plans,
    with_transactions: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[DataFrame], DataFrame],
    persisted: bool,
) -> None:
    batch = plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    job = plans.job(batch)
    records = read_batch(spark, job)
    records = records.persist() if persisted else records
    assert report_batch(job, write_split(change(records), job, tmp_path)).proof == "rows"
    assert "Spark scans other records than these" in caplog.text
    with pytest.raises(ReadNotVerified):
        require_read(batch)
    records.unpersist()


@pytest.mark.parametrize("persisted", [True, False])
def test_the_records_themselves_are_reported_where_the_sink_cannot_be_read(
    spark: SparkSession, plans: Plans, with_transactions: str, caplog: pytest.LogCaptureFixture, persisted: bool
) -> None:
    batch = plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    job = plans.job(batch)
    records = read_batch(spark, job)
    records = records.persist() if persisted else records
    records.write.format("noop").mode("overwrite").save()
    assert report_batch(job, job.scanned).proof == "scan"
    assert ("Kafka is read a second time" in caplog.text) is not persisted
    require_read(batch)
    records.unpersist()


def test_a_frame_that_is_made_from_the_records_shows_nothing_of_the_output(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    job = plans.job(batch)
    records = read_batch(spark, job)
    same_ranges = read_batch(spark, job)
    with_itself = records.join(records.select("topic", "partition", "offset"), ["topic", "partition", "offset"])
    for frame in (
        records.where("offset >= 0"),
        same_ranges.where("offset < 100"),
        records.selectExpr("*", "1 AS one"),
        with_itself,
        with_itself.drop("key").select("offset", "topic", "partition").distinct(),
    ):
        with pytest.raises(InvalidRequest, match="shows nothing of what was written"):
            report_batch(job, frame)


def test_a_persisted_frame_shows_what_the_sink_was_given_and_no_more(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    whole, half = plans.batch({(topic, 0): (0, 10)}), plans.batch({(topic, 0): (0, 10)})
    for batch, kept in ((whole, "offset >= 0"), (half, "offset >= 5")):
        job = plans.job(batch)
        given = read_batch(spark, job).where(kept).persist()
        write_split(given, job, tmp_path)
        assert report_batch(job, given).proof == ("scan" if batch is whole else "rows")
        given.unpersist()
    require_read(whole)
    with pytest.raises(ReadNotVerified, match="short: 5 of 10 offsets"):
        require_read(half)


# A split that must be empty


@pytest.fixture
def emptied(spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path) -> tuple[StoredBatch, Batch, DataFrame]:
    """A batch that had records, which are in its output, and is planned anew without any; its job, and that output."""
    topic = filled(10)
    batch = plans.batch({(topic, 0): (0, 10)})
    before = plans.job(batch)
    output = write_split(read_batch(spark, before), before, tmp_path)
    anew = planned_anew(batch, plans.plan({(topic, 0): (10, 10)}, overwrites=(0,)))
    return anew, plans.job(anew), output


def test_a_split_that_must_be_empty_is_read_back(
    spark: SparkSession, emptied: tuple[StoredBatch, Batch, DataFrame], tmp_path: Path
) -> None:
    batch, job, _ = emptied
    report = report_batch(job, write_split(read_batch(spark, job), job, tmp_path))
    assert (report.proof, report.partitions) == ("rows", {})
    require_read(batch)


def test_rows_that_are_left_in_a_split_that_must_be_empty_are_found(
    spark: SparkSession, emptied: tuple[StoredBatch, Batch, DataFrame]
) -> None:
    batch, job, output = emptied
    read_batch(spark, job)  # and its sink appends, or forgets the old rows
    report_batch(job, output)
    with pytest.raises(ReadNotVerified, match="10 rows are reported, and it is not in this split"):
        require_read(batch)


@pytest.mark.parametrize("of", [lambda r: None, lambda r: r, lambda r: r.where("true"), lambda r: r.select("*", "key")])
def test_no_frame_of_no_records_shows_that_the_output_is_empty(
    spark: SparkSession,
    emptied: tuple[StoredBatch, Batch, DataFrame],
    of: Callable[[DataFrame], DataFrame | None],
) -> None:
    _, job, _ = emptied
    assert report_batch(job, of(read_batch(spark, job))).proof == "scan"


# Several sinks


def test_of_several_sinks_the_one_that_lost_a_record_is_named(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    for lost in (0, 1):
        job = plans.job(batch := plans.batch({(topic, 0): (0, 10)}))
        records = read_batch(spark, job)
        kept = ["offset <> 7" if number == lost else "true" for number in (0, 1)]
        with pytest.raises(InvalidRequest, match=rf"all of 10 offsets: frame {lost + 1} has 9 rows\. Where"):
            report_batch(job, *(write_split(records.where(k), job, tmp_path / f"{lost}-{k[-1]}") for k in kept))
        with pytest.raises(ReadNotVerified, match="has not reported"):
            require_read(batch)


def test_dead_letters_are_reported_by_one_frame_over_both_outputs(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    job = plans.job(batch := plans.batch({(filled(10), 0): (0, 10)}))
    records = read_batch(spark, job)
    good, dead = (
        write_split(records.where(kept), job, tmp_path / name).select("topic", "partition", "offset")
        for name, kept in (("good", "offset % 3 > 0"), ("dead", "offset % 3 = 0"))
    )
    with pytest.raises(InvalidRequest, match=r"frame 1 has 6 rows, frame 2 has 4 rows\. .* good\.unionByName\(dead\)"):
        report_batch(job, good, dead)
    assert report_batch(job, good.unionByName(dead)).proof == "rows"
    require_read(batch)


@pytest.mark.parametrize("scanned_first", [True, False])
def test_a_report_claims_no_more_than_its_weakest_sink_shows(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path, scanned_first: bool
) -> None:
    job = plans.job(batch := plans.batch({(filled(10), 0): (0, 10)}))
    records = read_batch(spark, job).persist()
    frames = [None, write_split(records, job, tmp_path)]
    assert report_batch(job, *(frames if scanned_first else frames[::-1])).proof == "scan"
    require_read(batch)
    records.unpersist()


@pytest.mark.parametrize("scanned_first", [True, False])
def test_of_several_sinks_each_has_to_show_that_the_split_is_empty(
    spark: SparkSession, emptied: tuple[StoredBatch, Batch, DataFrame], tmp_path: Path, scanned_first: bool
) -> None:
    _, job, _ = emptied
    frames = [None, write_split(read_batch(spark, job), job, tmp_path)]
    assert report_batch(job, *(frames if scanned_first else frames[::-1])).proof == "scan"


# What cannot be counted


def test_a_report_needs_the_columns_that_it_counts_by(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    job = plans.job(plans.batch({(filled(10), 0): (0, 10)}))
    written = write_split(read_batch(spark, job), job, tmp_path)
    with pytest.raises(InvalidRequest, match="no column partition, offset"):
        report_batch(job, written.select("value", "topic"))


def test_rows_that_come_from_nowhere_are_refused(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    """An outer join adds rows without an offset, beside the ones that should be there and in their place."""
    topic = filled(10)
    alone = spark.createDataFrame([(None, None, None)], "topic STRING, partition INT, offset BIGINT")
    beside = spark.createDataFrame([(topic, 0, None)], "topic STRING, partition INT, offset BIGINT")
    batch = plans.batch({(topic, 0): (0, 10)})
    job = plans.job(batch)
    written = write_split(read_batch(spark, job), job, tmp_path).select("topic", "partition", "offset")
    with pytest.raises(InvalidRequest, match="did not come from this batch"):
        report_batch(job, written.unionAll(alone))
    report_batch(job, written.where("offset > 0").unionAll(beside))
    with pytest.raises(ReadNotVerified, match="twice: 10 rows for 9 different offsets"):
        require_read(batch)


def test_a_topic_that_spark_takes_for_a_number_is_counted(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, topic: Callable[..., str], tmp_path: Path
) -> None:
    """A folder `topic=2026` is read as an INT column, and a partition may come back as text."""
    name = str(int(topic().rpartition("-")[2], 16))
    broker.create_topic(name)
    broker.produce_many(name, 10)
    batch = plans.batch({(name, 0): (0, 10)})
    job = plans.job(batch)
    read_batch(spark, job).write.partitionBy("topic").parquet(str(tmp_path / "out"))
    written = spark.read.parquet(str(tmp_path / "out"))
    assert written.schema["topic"].dataType.typeName() != "string"
    report_batch(job, written.withColumn("partition", f.col("partition").cast("string")))
    require_read(batch)


def test_a_report_comes_after_a_read_and_once(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    job = plans.job(plans.batch({(filled(10), 0): (0, 10)}))
    with pytest.raises(InvalidRequest, match="after read_batch"):
        report_batch(job, spark.range(1))
    written = write_split(read_batch(spark, job), job, tmp_path)
    assert offset_numbers(written) == list(range(10))
    for _ in ("first", "the same once more"):
        report_batch(job, written)
    with pytest.raises(StoreUnavailable, match="reported already"):
        report_batch(job, written.where("offset < 5"))


def test_a_report_of_another_output_than_the_plan_s_is_refused(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)}, output="/lake/orders")
    job = plans.job(batch)
    job.output = str(tmp_path)
    report_batch(job, write_split(read_batch(spark, job), job, tmp_path))
    with pytest.raises(ReadNotVerified, match=f"written to {tmp_path}, and the batch's output is /lake/orders"):
        require_read(batch)


def test_many_records_are_counted_as_few_are(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, topic: Callable[..., str], tmp_path: Path
) -> None:
    """A query over many is compiled, one over few is not. What is asked for it is given back."""
    name = topic()
    broker.produce_many(name, FEW_RECORDS + 1)
    before = {setting: spark.conf.get(setting, None) for setting in OF_FEW}
    for size in (FEW_RECORDS, FEW_RECORDS + 1):
        job = plans.job(plans.batch({(name, 0): (0, size)}))
        report = report_batch(job, write_split(read_batch(spark, job), job, tmp_path / str(size)))
        assert report.partitions == {TopicPartition(name, 0): PartitionRead(size, size, 0, size - 1)}
        assert {setting: spark.conf.get(setting, None) for setting in OF_FEW} == before
