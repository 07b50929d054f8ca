"""A plan, a real Spark and a real broker: what is read, and what the report says of it."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import InvalidRequest, LateAttempt, PlanReplaced, ReadNotVerified, StoreUnavailable
from airflow_kafka_offsets.offsets.verify import verify_reads
from airflow_kafka_offsets.spark import PlanJob, plan_job, read_plan, report_read, write_options
from airflow_kafka_offsets.stores.runs import replace_plan
from testbed.broker import KafkaBroker
from testbed.topics import wait_for
from tests.spark.conftest import RUN_ID, StoredPlans

Filled = Callable[..., str]


def offsets(frame: DataFrame) -> list[tuple[str, int, int]]:
    """(topic, partition, offset) of each record, sorted."""
    return sorted(tuple(row) for row in frame.select("topic", "partition", "offset").collect())


def offset_numbers(frame: DataFrame) -> list[int]:
    return [offset for _, _, offset in offsets(frame)]


def write(records: DataFrame, job: PlanJob, base: Path) -> DataFrame:
    """What a job does: overwrite the split's output, read it back."""
    output = job.output_path(str(base))
    records.write.mode("overwrite").parquet(output)
    return records.sparkSession.read.parquet(output)


def partitions_of(topic: str, count: int, start: int, end: int) -> dict[tuple[str, int], tuple[int, int]]:
    return {(topic, number): (start, end) for number in range(count)}


# What is read


def test_exactly_the_ranges_are_read_though_there_is_more_on_both_sides(
    spark: SparkSession, broker: KafkaBroker, plans: StoredPlans, filled: Filled
) -> None:
    orders, clicks = filled(30, partitions=3), filled(10)
    job = plans.job({(orders, 0): (2, 5), (orders, 1): (0, 10), (orders, 2): (4, 4), (clicks, 0): (9, 10)})
    broker.produce_many(orders, 30, partitions=3)
    expected = [
        *((orders, 0, n) for n in range(2, 5)),
        *((orders, 1, n) for n in range(10)),
        (clicks, 0, 9),
    ]
    assert offsets(read_plan(spark, job)) == sorted(expected)
    assert offsets(read_plan(spark, job, minPartitions=8)) == sorted(expected)


def test_splits_rejoin_to_the_plan_without_overlap(
    spark: SparkSession, plans: StoredPlans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(40, partitions=4)
    ranges = partitions_of(topic, 4, 1, 9)
    arguments = plans.arguments(ranges, splits=2)
    for split in ("0", "1"):
        arguments[arguments.index("--split") + 1] = split
        job = plan_job(arguments)
        report_read(job, write(read_plan(spark, job), job, tmp_path / "out"))
    verify_reads(job.plan, plans.attempts(job.plan))
    everything = spark.read.parquet(str(tmp_path / "out"))
    assert offsets(everything) == [(topic, p, n) for p in range(4) for n in range(1, 9)]
    # The folders' names are percent-encoded; the columns that Spark makes of them are not.
    assert sorted(map(tuple, everything.select("run", "split").distinct().collect())) == [(RUN_ID, 0), (RUN_ID, 1)]


def test_a_repeat_overwrites_its_own_output(
    spark: SparkSession, plans: StoredPlans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    arguments = plans.arguments({(topic, 0): (0, 10)})
    for attempt in (1, 2):
        job = plan_job(arguments)
        report = report_read(job, write(read_plan(spark, job), job, tmp_path / "out"))
        assert report.attempt == attempt
    assert offset_numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(10))
    verify_reads(job.plan, plans.attempts(job.plan))


def test_a_split_without_records_overwrites_its_output_with_nothing(
    spark: SparkSession, plans: StoredPlans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    full = plans.job({(topic, 0): (0, 10)})
    write(read_plan(spark, full), full, tmp_path / "out")

    empty = plans.job({(topic, 0): (10, 10)})
    for options in ({}, {"includeHeaders": "true"}):
        assert read_plan(spark, empty, **options).schema == read_plan(spark, full, **options).schema
    written = write(read_plan(spark, empty), empty, tmp_path / "out")
    assert offsets(written) == []
    assert report_read(empty, written).partitions == {}


@pytest.fixture
def transactional(broker: KafkaBroker) -> Iterator[Callable[[], Producer]]:
    """`transactional()`: a producer in a transaction."""
    producers = []  # kept: one that is dropped with a transaction open ends it

    def begin() -> Producer:
        producer = Producer({**broker.client_config, "transactional.id": f"tx-{uuid.uuid4().hex}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producers.append(producer)
        return producer

    yield begin
    producers.clear()


def produce(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        producer.produce(topic, value=b"%d" % number, partition=0)
    assert producer.flush(30) == 0


def last_stable_offset(broker: KafkaBroker, topic: str) -> int:
    tp, admin = TopicPartition(topic, 0), broker.admin()
    futures = admin.list_offsets({tp: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)
    return futures[tp].result(30).offset


@pytest.fixture
def with_transactions(
    broker: KafkaBroker, topic: Callable[..., str], transactional: Callable[[], Producer]
) -> Iterator[str]:
    """0-4 committed, 5 their marker, 6-8 aborted, 9 their marker, 10-11 plain, 12-13 in a transaction still open."""
    name = topic()
    committed, aborted, still_open = transactional(), transactional(), transactional()
    produce(committed, name, 5)
    committed.commit_transaction(30)
    produce(aborted, name, 3)
    aborted.abort_transaction(30)
    broker.produce_many(name, 2)
    produce(still_open, name, 2)
    assert broker.offset_bounds(name) == {0: (0, 14)}
    wait_for("the markers are written", lambda: last_stable_offset(broker, name) == 12)
    yield name
    still_open.abort_transaction(30)


def test_read_committed_leaves_out_what_was_aborted_and_what_is_open(
    spark: SparkSession, plans: StoredPlans, with_transactions: str
) -> None:
    job = plans.job({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    assert offset_numbers(read_plan(spark, job)) == [0, 1, 2, 3, 4, 10, 11]


def test_read_uncommitted_reads_everything(spark: SparkSession, plans: StoredPlans, with_transactions: str) -> None:
    job = plans.job({(with_transactions, 0): (0, 14)})
    assert offset_numbers(read_plan(spark, job)) == [0, 1, 2, 3, 4, 6, 7, 8, 10, 11, 12, 13]


@pytest.mark.parametrize("options", [{}, {"minPartitions": 4}], ids=["", "split"])
def test_records_deleted_since_the_plan_fail_the_job(
    spark: SparkSession, broker: KafkaBroker, plans: StoredPlans, filled: Filled, options: dict[str, int]
) -> None:
    topic = filled(10)
    job = plans.job({(topic, 0): (0, 10)})
    broker.delete_records({(topic, 0): 5})
    with pytest.raises((PySparkException, Py4JJavaError), match="data may have been lost"):
        read_plan(spark, job, **options).count()
    with pytest.raises(ReadNotVerified, match="has not reported"):
        verify_reads(job.plan, plans.attempts(job.plan))


def test_a_topic_made_anew_that_holds_fewer_records_fails_the_job(
    spark: SparkSession, broker: KafkaBroker, plans: StoredPlans, filled: Filled
) -> None:
    topic = filled(10)
    job = plans.job({(topic, 0): (0, 10)})
    broker.delete_topic(topic)
    broker.create_topic(topic)
    broker.produce_many(topic, 5)
    with pytest.raises((PySparkException, Py4JJavaError), match="data may have been lost"):
        read_plan(spark, job, minPartitions=4).count()


def test_a_partition_added_since_the_plan_changes_nothing(
    spark: SparkSession, broker: KafkaBroker, plans: StoredPlans, filled: Filled
) -> None:
    topic = filled(10)
    job = plans.job({(topic, 0): (0, 10)})
    admin = broker.admin()
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    wait_for("there are 3 partitions", lambda: len(broker.offset_bounds(topic)) == 3)
    broker.produce(topic, [(2, None, b"new", None)])
    assert offsets(read_plan(spark, job)) == [(topic, 0, n) for n in range(10)]


def test_the_job_s_own_arguments_are_the_default(
    spark: SparkSession, plans: StoredPlans, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(10)
    monkeypatch.setattr("sys.argv", ["job.py", *plans.arguments({(topic, 0): (3, 6)})])
    assert offset_numbers(read_plan(spark)) == [3, 4, 5]


# What is reported


def test_counts_that_fill_the_ranges_are_proof(
    spark: SparkSession, plans: StoredPlans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(20, partitions=2)
    job = plans.job(partitions_of(topic, 2, 3, 10))
    job.output_path(str(tmp_path / "out"))
    report = report_read(job, write(read_plan(spark, job), job, tmp_path / "out"))
    assert report.proof == "counts"
    assert report.output == f"{tmp_path}/out/run=scheduled__2026-11-20T10%3A00%3A00+00%3A00/split=0"
    verify_reads(job.plan, plans.attempts(job.plan))


def test_gaps_are_proven_by_the_scan_of_a_persisted_frame_and_by_nothing_less(
    spark: SparkSession,
    plans: StoredPlans,
    with_transactions: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    job = plans.job({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")

    assert report_read(job, write(read_plan(spark, job), job, tmp_path / "out")).proof == "counts"
    assert "persist()" in caplog.text
    with pytest.raises(ReadNotVerified, match="short: 7 of 12 records"):
        verify_reads(job.plan, plans.attempts(job.plan))

    records = read_plan(spark, job).persist()
    assert report_read(job, write(records, job, tmp_path / "out")).proof == "scan"
    verify_reads(job.plan, plans.attempts(job.plan))
    records.unpersist()


def test_a_compacted_topic_is_proven_by_the_scan(
    spark: SparkSession, broker: KafkaBroker, topic: Callable[..., str], plans: StoredPlans, tmp_path: Path
) -> None:
    name = compacted_topic(broker, topic)
    end = broker.offset_bounds(name)[0][1]
    job = plans.job({(name, 0): (0, end)})
    records = read_plan(spark, job).persist()
    report = report_read(job, write(records, job, tmp_path / "out"))
    assert report.proof == "scan"
    assert sum(read.record_count for read in report.partitions.values()) < end
    verify_reads(job.plan, plans.attempts(job.plan))
    records.unpersist()


def compacted_topic(broker: KafkaBroker, topic: Callable[..., str]) -> str:
    """A topic that has lost records to compaction. The cleaner looks every 15 s; the broker is told to hurry."""
    admin = broker.admin()
    hurry = ConfigEntry("log.cleaner.backoff.ms", "50", incremental_operation=AlterConfigOpType.SET)
    this_broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[hurry])
    for future in admin.incremental_alter_configs([this_broker]).values():
        future.result(30)
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    name = topic(config=config)
    for _ in range(4):
        broker.produce(name, [(0, b"same", b"%d" % n, n) for n in range(20)])

    def first_offset() -> int:
        broker.produce(name, [(0, b"other", b"x", None)])  # a segment is closed by what comes after it
        consumer = Consumer({**broker.client_config, "group.id": "none", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(name, 0, 0)])
            message = consumer.poll(10)
            return message.offset() if message is not None and message.error() is None else 0
        finally:
            consumer.close()

    wait_for("the first records are compacted away", lambda: first_offset() > 0)
    return name


def test_a_job_that_writes_half_is_short(
    spark: SparkSession, plans: StoredPlans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    job = plans.job({(topic, 0): (0, 10)})
    records = read_plan(spark, job)
    report_read(job, write(records.where("offset % 2 = 0"), job, tmp_path / "out"))
    with pytest.raises(ReadNotVerified, match="short: 5 of 10 records"):
        verify_reads(job.plan, plans.attempts(job.plan))


def test_persisting_does_not_hide_that_half_was_written(
    spark: SparkSession, plans: StoredPlans, filled: Filled, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = filled(10)
    job = plans.job({(topic, 0): (0, 10)})
    records = read_plan(spark, job).persist()
    assert report_read(job, write(records.where("offset < 9"), job, tmp_path / "out")).proof == "counts"
    assert "others than were written" in caplog.text
    with pytest.raises(ReadNotVerified, match="short: 9 of 10 records"):
        verify_reads(job.plan, plans.attempts(job.plan))
    records.unpersist()


def test_a_job_that_began_and_died_is_not_verified_by_the_attempt_before(
    spark: SparkSession, plans: StoredPlans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    job = plans.job({(topic, 0): (0, 10)})
    with pytest.raises(ReadNotVerified, match="no Spark job has begun"):
        verify_reads(job.plan, plans.attempts(job.plan))
    report_read(job, write(read_plan(spark, job), job, tmp_path / "out"))
    verify_reads(job.plan, plans.attempts(job.plan))
    read_plan(spark, job)
    with pytest.raises(ReadNotVerified, match="attempt 2 began and has not reported"):
        verify_reads(job.plan, plans.attempts(job.plan))


def test_a_job_that_was_given_up_and_writes_late_takes_the_verification_away(
    spark: SparkSession, plans: StoredPlans, filled: Filled, tmp_path: Path
) -> None:
    """Its worker was cut off, another attempt has reported, and then its files arrive in the same output."""
    topic = filled(10)
    arguments = plans.arguments({(topic, 0): (0, 10)})
    late, then = plan_job(arguments), plan_job(arguments)
    records = read_plan(spark, late)
    report_read(then, write(read_plan(spark, then), then, tmp_path / "out"))
    verify_reads(then.plan, plans.attempts(then.plan))
    with pytest.raises(LateAttempt, match=r"Attempt 1 .* too late: attempt 2 has taken its place"):
        report_read(late, write(records, late, tmp_path / "out"))
    with pytest.raises(ReadNotVerified, match="attempt 3 began and has not reported"):
        verify_reads(then.plan, plans.attempts(then.plan))
    report_read(then, write(read_plan(spark, then), then, tmp_path / "out"))
    verify_reads(then.plan, plans.attempts(then.plan))


def test_a_job_whose_plan_was_replaced_while_it_waited_reads_nothing(
    spark: SparkSession, plans: StoredPlans, filled: Filled
) -> None:
    job = plans.job({(filled(10), 0): (0, 10)})
    assert job.plan.run is not None
    replace_plan(plans.store, job.plan.run, replace(job.plan, splits=2, replaces=job.plan.plan_id))
    with pytest.raises(PlanReplaced, match="Clear the run's resolve task"):
        read_plan(spark, job)
    assert plans.attempts(job.plan)[0].report is None, "it is on record: who replaces a plan looks there"


def test_a_persisted_source_may_be_reported_where_the_sink_cannot_be_read(
    spark: SparkSession, plans: StoredPlans, with_transactions: str
) -> None:
    job = plans.job({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    records = read_plan(spark, job).persist()
    records.write.format("noop").mode("overwrite").save()
    assert report_read(job, records).proof == "scan"
    verify_reads(job.plan, plans.attempts(job.plan))
    records.unpersist()


def test_a_report_never_reads_kafka_a_second_time(spark: SparkSession, plans: StoredPlans, filled: Filled) -> None:
    topic = filled(10)
    job = plans.job({(topic, 0): (0, 10)})
    records = read_plan(spark, job)
    for frame in (records, records.select("*"), records.where("offset >= 0")):
        with pytest.raises(InvalidRequest, match="second time"):
            report_read(job, frame)
    derived = records.where("offset >= 0").persist()
    assert report_read(job, derived).proof == "counts"
    derived.unpersist()


def test_a_report_needs_the_columns_that_it_counts_by(
    spark: SparkSession, plans: StoredPlans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    job = plans.job({(topic, 0): (0, 10)})
    written = write(read_plan(spark, job), job, tmp_path / "out")
    with pytest.raises(InvalidRequest, match="no column partition, offset"):
        report_read(job, written.select("value", "topic"))


def test_a_report_comes_after_a_read_and_once(
    spark: SparkSession, plans: StoredPlans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    job = plans.job({(topic, 0): (0, 10)})
    with pytest.raises(InvalidRequest, match="after read_plan"):
        report_read(job, spark.range(1))
    written = write(read_plan(spark, job), job, tmp_path / "out")
    report_read(job, written)
    with pytest.raises(StoreUnavailable, match="reported already"):
        report_read(job, written)


def test_after_write_options_only_the_table_tells_what_was_written(
    spark: SparkSession, plans: StoredPlans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    job = plans.job({(topic, 0): (0, 10)})
    with pytest.raises(InvalidRequest, match="after read_plan"):
        write_options(job)
    records = read_plan(spark, job).persist()
    with pytest.raises(InvalidRequest, match="Nobody knows which table"):
        write_options(job)
    job.output_path(str(tmp_path / "table"))
    records = read_plan(spark, job).persist()
    write_options(job)
    with pytest.raises(InvalidRequest, match="may be skipped"):
        report_read(job, records)
    records.unpersist()


# Options


@pytest.mark.parametrize(
    "option",
    [
        "assign",
        "subscribe",
        "startingoffsets",
        "endingOffsets",
        "startingTimestamp",
        "failOnDataLoss",
        "kafka.isolation.level",
    ],
)
def test_an_option_that_changes_what_is_read_is_refused(spark: SparkSession, plans: StoredPlans, option: str) -> None:
    job = plans.job({("any", 0): (0, 10)})
    with pytest.raises(InvalidRequest, match=option):
        read_plan(spark, job, **{option: "x"})
    assert plans.attempts(job.plan) == {}


def test_without_bootstrap_servers_nothing_begins(spark: SparkSession, plans: StoredPlans) -> None:
    job = plans.job({("any", 0): (0, 10)})
    job.bootstrap_servers = None
    with pytest.raises(InvalidRequest, match=r"spark\.kafka_offsets\.kafka\.bootstrap\.servers"):
        read_plan(spark, job)
    assert plans.attempts(job.plan) == {}


def test_options_win_over_spark_settings_and_these_over_arguments(
    spark: SparkSession, plans: StoredPlans, filled: Filled
) -> None:
    topic = filled(10)
    job = plans.job({(topic, 0): (0, 10)})
    servers, job.bootstrap_servers = job.bootstrap_servers, "nobody.invalid:1"
    setting = "spark.kafka_offsets.kafka.bootstrap.servers"
    try:
        spark.conf.set(setting, servers)
        assert read_plan(spark, job).count() == 10
        spark.conf.set(setting, "nobody.invalid:1")
        assert read_plan(spark, job, **{"kafka.bootstrap.servers": servers}).count() == 10
    finally:
        spark.conf.unset(setting)


def test_a_split_that_the_plan_does_not_have_is_refused(plans: StoredPlans) -> None:
    with pytest.raises(InvalidRequest, match="splits 0 to 1"):
        plan_job(plans.arguments({("any", 0): (0, 10)}, splits=2, split=2))


def test_another_plan_under_the_name_is_refused(plans: StoredPlans) -> None:
    arguments = plans.arguments({("any", 0): (0, 10)})
    arguments[arguments.index("--plan-id") + 1] = "another"
    with pytest.raises(StoreUnavailable, match="Cannot read plan another"):
        plan_job(arguments)
