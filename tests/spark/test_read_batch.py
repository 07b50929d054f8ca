"""A batch, a real Spark and a real broker: what is read, and when nothing is."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.errors import (
    ClusterUnavailable,
    DataLoss,
    InvalidRequest,
    LateAttempt,
    PlanReplaced,
    ReadNotVerified,
    StoreUnavailable,
)
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.read_reports import SplitAttempt
from airflow_kafka_offsets.plan.plan_json import spark_options
from airflow_kafka_offsets.spark import kafka_source as source_module
from airflow_kafka_offsets.spark import planned_batch, read_batch, report_batch
from airflow_kafka_offsets.spark.sinks import files
from testbed.broker import KafkaBroker
from testbed.ports import free_ports
from testbed.topics import wait_for
from tests.builders import planned, tp
from tests.spark.conftest import (
    Plans,
    attempts,
    committed,
    offset_numbers,
    offsets,
    planned_anew,
    require_read,
    tasks_of,
    write_split,
)

Filled = Callable[..., str]
SERVERS = "kafka.bootstrap.servers"


# What is read


def test_a_job_that_is_given_a_range_without_a_record_replaces_what_was_there_with_nothing(
    spark: SparkSession, broker: KafkaBroker, filled: Filled, tmp_path: Path
) -> None:
    """So it is told to where a batch was planned anew: docs/existing-dag.md."""
    orders, output = filled(10), str(tmp_path / "output")

    def read_into(start: int, end: int) -> None:
        made = planned(tp(0, orders), start, end)
        reader = spark.read.format("kafka").option(SERVERS, broker.bootstrap_servers).options(**spark_options([made]))
        reader.load().select("offset").write.mode("overwrite").parquet(output)

    read_into(2, 5)
    assert sorted(row[0] for row in spark.read.parquet(output).collect()) == [2, 3, 4]
    read_into(7, 7)
    assert spark.read.parquet(output).collect() == []


def test_exactly_the_ranges_are_read_though_there_is_more_on_both_sides(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, filled: Filled
) -> None:
    orders, clicks = filled(30, partitions=3), filled(10)
    job = plans.job(plans.batch({(orders, 0): (2, 5), (orders, 1): (0, 10), (orders, 2): (4, 4), (clicks, 0): (9, 10)}))
    broker.produce_many(orders, 30, partitions=3)
    expected = [
        *((orders, 0, n) for n in range(2, 5)),
        *((orders, 1, n) for n in range(10)),
        (clicks, 0, 9),
    ]
    assert offsets(read_batch(spark, job)) == sorted(expected)
    assert offsets(read_batch(spark, job, minPartitions=8)) == sorted(expected)


def test_splits_rejoin_to_the_batch_without_overlap(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(40, partitions=4)
    batch = plans.batch({(topic, number): (1, 9) for number in range(4)}, splits=2)
    for split in (0, 1):
        with pytest.raises(ReadNotVerified, match=f"split {split}: no Spark job has begun"):
            require_read(batch)
        job = plans.job(batch, split)
        report_batch(job, write_split(read_batch(spark, job), job, tmp_path))
    require_read(batch)
    everything = spark.read.parquet(str(tmp_path / f"kafka_batch={job.key}"))
    assert offsets(everything) == [(topic, p, n) for p in range(4) for n in range(1, 9)]


def test_a_range_that_is_cut_is_read_by_two_splits_each_record_once(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Also after one of the pieces was done again."""
    name = topic(2)
    broker.produce_many(name, 30_000, partitions=2, value=lambda number: b"")
    whole = {(name, 0): (1, 15_000), (name, 1): (4, 9)}
    batch = plans.batch(whole, splits=2)
    pieces = [[(p.topic_partition.partition, p.start_offset, p.end_offset) for p in s] for s in batch.log.plan.splits]
    assert pieces == [[(0, 10_001, 15_000), (1, 4, 9)], [(0, 1, 10_001)]]
    sink = files(str(tmp_path / "output"))
    for split in (0, 1, 0):
        job = plans.job(batch, split)
        report = report_batch(job, sink(read_batch(spark, job), job))
        read = report.partitions[TopicPartition(name, 0)]
        assert (0, read.first_offset, read.last_offset + 1) == pieces[split][0]
    require_read(batch)
    written = offsets(spark.read.parquet(str(tmp_path / "output")))
    assert written == [(name, number, n) for (name, number), ends in sorted(whole.items()) for n in range(*ends)]
    assert attempts(batch) == [1, 2]


def test_the_scheduler_runs_a_task_for_each_piece_of_a_range_that_is_cut_into_splits(
    spark: SparkSession,
    broker: KafkaBroker,
    plans: Plans,
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One task a piece; two where a piece is more than one of two cores should read. Each reads a contiguous part."""
    name, most = topic(2), 10_002  # of a split: a third of all
    broker.produce_many(name, 60_000, partitions=2, value=lambda number: b"")
    batch = plans.batch({(name, 0): (0, 30_000), (name, 1): (4, 9)}, splits=3)
    for fewest, expected in ((source_module.FEWEST, [2, 1, 1]), (4000, [3, 2, 2])):
        monkeypatch.setattr(source_module, "FEWEST", fewest)
        counted, read = [], []
        for split in range(3):
            records = read_batch(spark, plans.job(batch, split))
            parts, tasks = tasks_of(spark, records.select(f.spark_partition_id(), "partition", "offset"))
            counted.append(tasks)
            by_task: dict[tuple[int, int], list[int]] = {}
            for task, partition, offset in parts:
                by_task.setdefault((task, partition), []).append(offset)
            assert len(by_task) == tasks, "no task without records, and none that reads of two partitions"
            assert all(part == [*range(part[0], part[-1] + 1)] for part in by_task.values()), "contiguous, in order"
            assert len(parts) <= most
            read += [(partition, offset) for _, partition, offset in parts]
        assert counted == expected
        assert sorted(read) == [*((0, n) for n in range(30_000)), *((1, n) for n in range(4, 9))]


@pytest.mark.parametrize(
    ("sizes", "cores", "most"),
    [
        pytest.param([200_000] * 4, 4, 200_000, id="an even share of the cores"),
        pytest.param([10, 20, 30], 2, 100_000, id="few records are not cut"),
        pytest.param([10**9, 1], 8, 10**6, id="no task has more than a million, whatever cores there are now"),
        pytest.param([400_001], 4, 100_001, id="rounded up, so that no core gets two"),
    ],
)
def test_the_plan_says_how_many_records_a_task_reads(sizes: list[int], cores: int, most: int) -> None:
    assert source_module.records_of_a_task(sizes, cores) == most


def test_a_large_partition_is_read_by_as_many_tasks_as_planned(
    spark: SparkSession, plans: Plans, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two cores, so half of 120 records each: the partition of 100 is read by two tasks, the others by one."""
    monkeypatch.setattr(source_module, "FEWEST", 10)
    name = filled(300, partitions=3)
    batch = plans.batch({(name, 0): (0, 100), (name, 1): (5, 15), (name, 2): (90, 100)})
    records = read_batch(spark, plans.job(batch))
    assert records.rdd.getNumPartitions() == 4
    assert len(offsets(records)) == len(set(offsets(records))) == 120
    assert read_batch(spark, plans.job(batch), minPartitions=12).rdd.getNumPartitions() == 12
    assert read_batch(spark, plans.job(batch), maxrecordsperpartition=50).rdd.getNumPartitions() == 4
    monkeypatch.undo()
    assert read_batch(spark, plans.job(batch)).rdd.getNumPartitions() == 3


def test_a_range_with_gaps_is_cut_as_well(spark: SparkSession, plans: Plans, with_transactions: str) -> None:
    """Some tasks have markers and aborted records only."""
    batch = plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed")
    records = read_batch(spark, plans.job(batch), maxRecordsPerPartition=2)
    assert records.rdd.getNumPartitions() == 6
    assert offset_numbers(records) == [0, 1, 2, 3, 4, 10, 11]


def test_a_fetch_at_the_end_of_a_log_does_not_wait_for_more_and_a_poll_hands_over_many_records(
    spark: SparkSession, plans: Plans, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's own are half a second for each partition, and 500 records. A job that tunes its fetches is left alone."""
    asked = []
    monkeypatch.setattr(source_module, "require_records", lambda spark, batch, options: asked.append(options))
    batch = plans.batch({(filled(3), 0): (0, 3)})
    for options in (
        {},
        {"kafka.fetch.max.wait.ms": "70"},
        {"kafka.fetch.min.bytes": "9"},
        {"kafka.max.poll.records": "5"},
    ):
        read_batch(spark, plans.job(batch), **options)
    assert [found.get("kafka.fetch.max.wait.ms") for found in asked] == ["10", "70", None, "10"]
    assert [found.get("kafka.max.poll.records") for found in asked] == ["10000", "10000", "10000", "5"]


def test_a_repeat_overwrites_its_own_output(spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    for attempt in (1, 2):
        job = plans.job(batch)
        report = report_batch(job, write_split(read_batch(spark, job), job, tmp_path))
        assert report.attempt == job.attempt == attempt
    assert offset_numbers(spark.read.parquet(str(tmp_path / f"kafka_batch={job.key}"))) == list(range(10))
    require_read(batch)


def test_a_split_without_records_overwrites_its_output_with_nothing(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    """The batch is planned anew: what its split held is not in the plan any more."""
    topic = filled(10)
    batch = plans.batch({(topic, 0): (0, 10)})
    full = plans.job(batch)
    write_split(read_batch(spark, full), full, tmp_path)

    anew = planned_anew(batch, plans.plan({(topic, 0): (10, 10)}, overwrites=(0,)))
    empty, other = plans.job(anew), plans.job(plans.batch({(topic, 0): (0, 10)}))
    for options in ({}, {"includeHeaders": "true"}, {"includeheaders": True}):
        assert read_batch(spark, empty, **options).schema == read_batch(spark, other, **options).schema
    written = write_split(read_batch(spark, empty), empty, tmp_path)
    assert offsets(written) == []
    assert report_batch(empty, written).partitions == {}
    require_read(anew)


def test_read_committed_leaves_out_what_was_aborted_and_what_is_open(
    spark: SparkSession, plans: Plans, with_transactions: str
) -> None:
    job = plans.job(plans.batch({(with_transactions, 0): (0, 12)}, isolation_level="read_committed"))
    assert offset_numbers(read_batch(spark, job)) == [0, 1, 2, 3, 4, 10, 11]


def test_read_uncommitted_reads_everything(spark: SparkSession, plans: Plans, with_transactions: str) -> None:
    job = plans.job(plans.batch({(with_transactions, 0): (0, 14)}))
    assert offset_numbers(read_batch(spark, job)) == [0, 1, 2, 3, 4, 6, 7, 8, 10, 11, 12, 13]


def test_a_partition_added_since_the_plan_changes_nothing(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, filled: Filled
) -> None:
    topic = filled(10)
    job = plans.job(plans.batch({(topic, 0): (0, 10)}))
    admin = broker.admin()
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    wait_for("there are 3 partitions", lambda: len(broker.offset_bounds(topic)) == 3)
    broker.produce(topic, [(2, None, b"new", None)])
    assert offsets(read_batch(spark, job)) == [(topic, 0, n) for n in range(10)]


def test_the_job_s_own_arguments_are_the_default(
    spark: SparkSession, plans: Plans, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = plans.batch({(filled(10), 0): (3, 6)})
    monkeypatch.setattr("sys.argv", ["job.py", *plans.arguments(batch)])
    assert offset_numbers(read_batch(spark, planned_batch())) == [3, 4, 5]


# Records that are gone, and clusters that do not answer


def test_records_deleted_since_the_plan_are_said_in_a_sentence_and_nothing_begins(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, filled: Filled
) -> None:
    topic, whole = filled(20, partitions=2), filled(10)
    job = plans.job(batch := plans.batch({(topic, 0): (0, 10), (topic, 1): (0, 10), (whole, 0): (0, 10)}))
    broker.delete_records({(topic, 0): 5, (topic, 1): 10})
    with pytest.raises(DataLoss) as gone:
        read_batch(spark, job)
    assert gone.value.message.splitlines() == [
        f"{topic}[0]: start offset 0 is below log start offset 5 (5 offsets are gone)",
        f"{topic}[1]: start offset 0 is below log start offset 10 (10 offsets are gone)",
        "batch 1 cannot be read any more. Nothing was written: its output stays as it is. If the batch is not "
        'committed: policies={"data_loss": "advance"} reads what is left, and kafka-offsets skip leaves it out.',
    ]
    assert attempts(batch) == []


def test_a_committed_output_stays_verified_where_its_records_are_gone(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    batch = plans.batch({(topic, 0): (0, 10)})
    job = plans.job(batch)
    report_batch(job, write_split(read_batch(spark, job), job, tmp_path))
    broker.delete_records({(topic, 0): 10})
    with pytest.raises(DataLoss, match="10 offsets are gone"):
        read_batch(spark, plans.job(batch))
    assert attempts(batch) == [1]
    require_read(batch)
    assert offset_numbers(spark.read.parquet(str(tmp_path / f"kafka_batch={job.key}"))) == list(range(10))


@pytest.mark.parametrize("records", [5, 30], ids=["fewer records", "more records"])
def test_a_topic_made_anew_is_another_log_whatever_it_holds(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, filled: Filled, records: int
) -> None:
    topic = filled(10)
    job = plans.job(batch := plans.batch({(topic, 0): (0, 10)}))
    broker.delete_topic(topic)
    broker.create_topic(topic)
    broker.produce_many(topic, records)
    with pytest.raises(DataLoss) as gone:
        read_batch(spark, job)
    was, now = str(batch.log.plan.found.topic_ids[topic]), str(plans.topic_id(topic))
    as_kafka_writes_it = str.maketrans("+/", "-_")
    said = f"{topic}: its id is {now}, the plan was made for {was}\n".translate(as_kafka_writes_it)
    assert gone.value.message.startswith(said)
    assert attempts(batch) == []


def test_an_id_is_the_same_however_it_is_written(spark: SparkSession, plans: Plans, filled: Filled) -> None:
    """librdkafka, which plans are made with, writes ids in another base 64 than Kafka: two topics in three differ."""
    topics = [filled(1)]
    while not any(sign in str(plans.topic_id(topics[-1])) for sign in "+/"):
        topics.append(filled(1))
    job = plans.job(plans.batch({(topics[-1], 0): (0, 1)}))
    assert offset_numbers(read_batch(spark, job)) == [0]


def test_a_topic_without_an_id_is_known_by_its_end(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, filled: Filled
) -> None:
    """Clusters before Kafka 2.8, and services that speak its protocol, have no ids."""
    topic = filled(10)
    job = plans.job(batch := plans.batch({(topic, 0): (0, 10)}, topic_ids={topic: None}))
    broker.delete_topic(topic)
    broker.create_topic(topic)
    broker.produce_many(topic, 5)
    with pytest.raises(DataLoss, match=r"\[0\]: end offset 10 is beyond the end of the log, 5\n"):
        read_batch(spark, job)
    assert attempts(batch) == []


def test_a_topic_that_is_gone_is_said_to_be_gone_and_is_not_made_anew(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, filled: Filled
) -> None:
    topic, other = filled(10), filled(10)
    job = plans.job(batch := plans.batch({(topic, 0): (0, 10), (other, 0): (0, 10)}))
    broker.delete_topic(topic)
    with pytest.raises(DataLoss, match=f": {topic}: it does not exist any more\n"):
        read_batch(spark, job)
    assert attempts(batch) == []
    assert plans.topic_id(topic) is None


@pytest.mark.parametrize("options", [{}, {"minPartitions": 4}], ids=["", "split"])
def test_records_deleted_after_the_look_fail_the_job(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, filled: Filled, options: dict[str, int]
) -> None:
    topic = filled(10)
    job = plans.job(batch := plans.batch({(topic, 0): (0, 10)}))
    records = read_batch(spark, job, **options)
    broker.delete_records({(topic, 0): 5})
    with pytest.raises((PySparkException, Py4JJavaError), match="data may have been lost"):
        records.count()
    with pytest.raises(ReadNotVerified, match="attempt 1 began and has not reported"):
        require_read(batch)


def test_where_nobody_listens_the_cluster_is_said_to_be_unavailable_and_nothing_begins(
    spark: SparkSession, plans: Plans
) -> None:
    batch = plans.batch({("any", 0): (0, 10)})
    address = f"127.0.0.1:{free_ports(1)[0]}"
    began = time.monotonic()
    with pytest.raises(ClusterUnavailable) as unavailable:
        read_batch(spark, planned_batch(plans.arguments(batch, servers=address)))
    assert time.monotonic() - began < 25
    what, remedy = unavailable.value.message.splitlines()
    assert what.startswith(
        f"Spark cannot ask the Kafka cluster at {address} by PLAINTEXT: Timed out waiting for a node assignment"
    )
    assert remedy.startswith("Check the Kafka settings that Spark was given")
    assert attempts(batch) == []


def test_a_name_that_nobody_knows_is_told_at_once(spark: SparkSession, plans: Plans) -> None:
    batch = plans.batch({("any", 0): (0, 10)})
    with pytest.raises(
        ClusterUnavailable, match=r"at nobody\.invalid:9092 by PLAINTEXT: .*No resolvable bootstrap urls given"
    ):
        read_batch(spark, planned_batch(plans.arguments(batch, servers="nobody.invalid:9092")))
    assert attempts(batch) == []


def test_a_longer_timeout_of_the_job_s_own_is_taken(spark: SparkSession, plans: Plans, filled: Filled) -> None:
    """Kafka refuses a client whose request may take longer than the call that it belongs to."""
    job = plans.job(plans.batch({(filled(10), 0): (0, 10)}))
    assert read_batch(spark, job, **{"kafka.request.timeout.ms": 40_000}).count() == 10


# Attempts that come late


def test_a_job_whose_plan_was_replaced_while_it_waited_begins_nothing(
    spark: SparkSession, plans: Plans, filled: Filled
) -> None:
    topic = filled(10)
    batch = plans.batch({(topic, 0): (0, 10)})
    job = plans.job(batch)
    anew = planned_anew(batch, plans.plan({(topic, 0): (0, 8)}))
    with pytest.raises(PlanReplaced, match=f"replaced by plan {anew.log.plan.plan_id}.*\nClear the run's resolve task"):
        read_batch(spark, job)
    assert attempts(batch) == []


def test_a_plan_replaced_between_the_first_look_and_the_second_stops_the_job_and_nothing_was_written(
    spark: SparkSession, plans: Plans, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(10)
    batch = plans.batch({(topic, 0): (0, 10)})
    job = plans.job(batch)
    begin = source_module.begin

    def begin_slowly(*arguments: object) -> object:
        attempt = begin(*arguments)  # type: ignore[arg-type]
        planned_anew(batch, plans.plan({(topic, 0): (0, 8)}))
        return attempt

    monkeypatch.setattr(source_module, "begin", begin_slowly)
    with pytest.raises(PlanReplaced):
        read_batch(spark, job)
    with pytest.raises(ReadNotVerified, match="no Spark job has begun"):
        require_read(batch)


@pytest.fixture
def late_look(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], object]], None]]:
    """`late_look(what)`: the next job that has begun sleeps before it looks again, while `what` happens."""

    def after_begin(what: Callable[[], object]) -> None:
        begin = source_module.begin

        def begin_slowly(*arguments: object) -> object:
            monkeypatch.setattr(source_module, "begin", begin)
            attempt = begin(*arguments)  # type: ignore[arg-type]
            what()
            return attempt

        monkeypatch.setattr(source_module, "begin", begin_slowly)

    return after_begin


def test_a_job_that_finds_a_later_one_before_it_writes_stops_and_takes_nothing_away(
    spark: SparkSession,
    plans: Plans,
    filled: Filled,
    tmp_path: Path,
    late_look: Callable[[Callable[[], object]], None],
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    late, then = plans.job(batch), plans.job(batch)
    late_look(lambda: report_batch(then, write_split(read_batch(spark, then), then, tmp_path)))
    with pytest.raises(LateAttempt, match=r"attempt 1 .* stops before it writes: attempt 2 has taken its place"):
        read_batch(spark, late)
    require_read(batch)


def test_a_sink_that_looks_before_it_swaps_stops_in_time(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    late, then = plans.job(batch), plans.job(batch)
    read_batch(spark, late)
    report_batch(then, write_split(read_batch(spark, then), then, tmp_path))
    with pytest.raises(LateAttempt, match="stops before it writes"):
        late.look()
    require_read(batch)


def test_a_job_that_was_given_up_and_writes_late_takes_the_verification_away(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    """Its worker was cut off, another attempt has reported, and then its files arrive in the same output."""
    batch = plans.batch({(filled(10), 0): (0, 10)})
    late, then = plans.job(batch), plans.job(batch)
    records = read_batch(spark, late)
    report_batch(then, write_split(read_batch(spark, then), then, tmp_path))
    require_read(batch)
    with pytest.raises(LateAttempt, match=r"attempt 1 .* comes too late: attempt 2 has taken its place"):
        report_batch(late, write_split(records, late, tmp_path))
    with pytest.raises(ReadNotVerified, match="attempt 3 began and has not reported"):
        require_read(batch)
    report_batch(then, write_split(read_batch(spark, then), then, tmp_path))
    require_read(batch)


def test_a_job_whose_plan_is_replaced_while_it_writes_reports_nothing(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(10)
    batch = plans.batch({(topic, 0): (0, 10)})
    job = plans.job(batch)
    written = write_split(read_batch(spark, job), job, tmp_path)
    anew = planned_anew(batch, plans.plan({(topic, 0): (0, 8)}))
    with pytest.raises(LateAttempt, match=f"plan {anew.log.plan.plan_id} has taken its place"):
        report_batch(job, written)
    with pytest.raises(ReadNotVerified, match="attempt 2 began and has not reported"):
        require_read(anew)


def test_of_two_jobs_that_begin_at_once_none_goes_on_that_has_seen_the_other(
    spark: SparkSession,
    plans: Plans,
    filled: Filled,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    late_look: Callable[[Callable[[], object]], None],
) -> None:
    """Both have listed the folder before one has written into it: they have one number."""
    batch = plans.batch({(filled(10), 0): (0, 10)})
    one, other = plans.job(batch), plans.job(batch)

    def begin_with_the_same_number() -> None:
        with monkeypatch.context() as patch:
            patch.setattr("airflow_kafka_offsets.log.read_reports.attempt_numbers", lambda *_: [])
            twin.append(source_module.begin(other.store, other.plan_object, other.plan, 0, None))

    twin: list[SplitAttempt] = []
    late_look(begin_with_the_same_number)
    with pytest.raises(LateAttempt, match="attempt 1 has taken its place"):
        read_batch(spark, one)
    assert attempts(batch) == [1, 1]
    twin[0].look()  # the first one has said that it wrote nothing, so the second may go on
    with pytest.raises(ReadNotVerified, match="attempt 1 began and has not reported"):
        require_read(batch)
    report_batch(other, write_split(read_batch(spark, other), other, tmp_path))
    require_read(batch)


def test_a_committed_batch_that_is_done_again_needs_a_new_report(
    spark: SparkSession, plans: Plans, filled: Filled, tmp_path: Path
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    job = plans.job(batch)
    report_batch(job, write_split(read_batch(spark, job), job, tmp_path))
    again = committed(batch)
    redone = again.log.redone
    assert redone is not None
    assert redone.attempts == {0: 1}
    job = plans.job(again)
    assert report_batch(job, write_split(read_batch(spark, job), job, tmp_path)).attempt == 2


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
def test_an_option_that_changes_what_is_read_is_refused(spark: SparkSession, plans: Plans, option: str) -> None:
    batch = plans.batch({("any", 0): (0, 10)})
    with pytest.raises(InvalidRequest, match=option):
        read_batch(spark, plans.job(batch), **{option: "x"})
    assert attempts(batch) == []


def test_an_option_that_the_source_does_not_take_is_found_before_anything_begins(
    spark: SparkSession, plans: Plans, filled: Filled
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    with pytest.raises(PySparkException, match=r"auto\.offset\.reset"):
        read_batch(spark, plans.job(batch), **{"kafka.auto.offset.reset": "latest"})
    assert attempts(batch) == []


def test_without_bootstrap_servers_nothing_begins(spark: SparkSession, plans: Plans) -> None:
    batch = plans.batch({("any", 0): (0, 10)})
    job = plans.job(batch)
    job.bootstrap_servers = None
    with pytest.raises(InvalidRequest, match=r"spark\.kafka_offsets\.source\.kafka\.bootstrap\.servers"):
        read_batch(spark, job)
    assert attempts(batch) == []


def test_options_win_over_spark_settings_and_these_over_arguments(
    spark: SparkSession, plans: Plans, filled: Filled
) -> None:
    job = plans.job(plans.batch({(filled(10), 0): (0, 10)}))
    servers, job.bootstrap_servers = job.bootstrap_servers, "nobody.invalid:1"
    setting = f"spark.kafka_offsets.source.{SERVERS}"
    try:
        spark.conf.set(setting, str(servers))
        assert read_batch(spark, job).count() == 10
        spark.conf.set(setting, "nobody.invalid:1")
        assert read_batch(spark, job, **{SERVERS: servers}).count() == 10
    finally:
        spark.conf.unset(setting)


# Arguments


def test_a_split_that_the_plan_does_not_have_is_refused(plans: Plans) -> None:
    batch = plans.batch({("any", 0): (0, 10)}, splits=2)
    with pytest.raises(InvalidRequest, match="splits 0 to 1"):
        plans.job(batch, split=2)


def test_another_plan_under_the_name_is_refused(plans: Plans) -> None:
    arguments = plans.arguments(plans.batch({("any", 0): (0, 10)}))
    arguments[arguments.index("--plan-id") + 1] = "another"
    with pytest.raises(StoreUnavailable, match="Cannot find plan another"):
        planned_batch(arguments)


def test_a_work_store_that_is_not_seen_from_here_is_named(plans: Plans, tmp_path: Path) -> None:
    batch = plans.batch({("any", 0): (0, 10)})
    plans = replace(plans, store=type(plans.store)(tmp_path / "of-this-machine"))
    with pytest.raises(StoreUnavailable, match=r"of-this-machine: object .* is not there\nThis driver must see"):
        plans.job(batch)
