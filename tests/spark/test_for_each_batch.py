"""The whole job: a function like Structured Streaming's ``foreachBatch`` one, or a sink, over one batch."""

import json
import pickle
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_kafka_offsets.errors import DataLoss, InvalidRequest, LateAttempt, ReadNotVerified, UnknownOutput
from airflow_kafka_offsets.log import read_reports as reads
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.plan.plan import new_key
from airflow_kafka_offsets.plan.window_claims import TimeClaim, batch_name_of
from airflow_kafka_offsets.spark import Batch, for_each_batch, planned_batch, read_batch
from airflow_kafka_offsets.spark.batch_job import refuse_unknown_output
from airflow_kafka_offsets.spark.sinks import delta, files
from testbed.broker import KafkaBroker
from tests.spark.conftest import NOW, Plans, attempts, committed, offset_numbers, planned_anew, require_read

Filled = Callable[..., str]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def do(spark: SparkSession, plans: Plans) -> Callable[..., Batch]:
    """`do(batch, write, split=0)`: the job of one split."""

    def run(batch: StoredBatch, write: Any, split: int = 0) -> Batch:
        return for_each_batch(spark, write, plans.arguments(batch, split))

    return run


def seen(spark: SparkSession, out: Path) -> list[int]:
    """The offsets that somebody sees who reads the whole output."""
    return offset_numbers(spark.read.parquet(str(out)))


# Functions that were written for Structured Streaming


def foreach_batch_function(base: Path) -> Callable[[DataFrame, int], None]:
    """What people do with a batch id: put it in a path, a column, SQL, a format, a Python function; compute with it."""

    def write(records: DataFrame, batch_id: int) -> None:
        odd = f.udf(lambda offset: (offset + batch_id) % 2 == 1, "boolean")
        values = records.select(
            f.col("value").cast("string").cast("long").alias("value"),
            f.lit(batch_id).alias("as_column"),
            f.expr(f"{batch_id} + 0").alias("as_sql"),
            odd("offset").alias("odd"),
            f.lit(f"{batch_id:05d}").alias("as_text"),
            f.lit(str({"batch": batch_id})).alias("in_a_dict"),
            f.lit(batch_id * 2 if batch_id > 0 else 0).alias("twice"),
        )
        values.write.mode("overwrite").option("note", batch_id).parquet(f"{base}/batch={batch_id}")

    return write


def test_a_foreach_batch_function_does_the_same_here_as_in_structured_streaming(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, topic: Callable[..., str], tmp_path: Path, do: Any
) -> None:
    name = topic(2)
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    stream = stream.option("subscribe", name).option("startingOffsets", "earliest")
    ours, theirs, ends = tmp_path / "ours", tmp_path / "theirs", [0, 0]
    for number in range(2):
        broker.produce_many(name, 20 + number, partitions=2)
        query = stream.load().writeStream.foreachBatch(foreach_batch_function(theirs))
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
        starts, ends = ends, [broker.offset_bounds(name)[partition][1] for partition in (0, 1)]
    # Its batches are numbered from 0, and ours from 1.
    batch = plans.batch({(name, partition): (starts[partition], ends[partition]) for partition in (0, 1)}, number=1)
    do(batch, foreach_batch_function(ours))
    require_read(batch)

    def table(base: Path) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, spark.read.parquet(str(base)).where("batch > 0").collect()))

    assert len(table(theirs)) == 21
    assert table(ours) == table(theirs)


def test_a_batch_of_the_log_is_its_number(plans: Plans) -> None:
    batch = plans.job(plans.batch({("any", 0): (0, 10)}, number=41))
    assert isinstance(batch, int)
    assert (batch, batch.number, batch + 1, hash(batch)) == (41, 41, 42, hash(41))
    assert [f"{batch}", f"{batch:05}", str(batch), repr(batch), f"{[batch]}", f"{batch:d}", json.dumps(batch)] == [
        "41", "00041", "41", "41", "[41]", "41", "41",
    ]  # fmt: skip
    assert pickle.loads(pickle.dumps(batch)) == 41
    assert type(pickle.loads(pickle.dumps(batch))) is int
    assert batch.window is None


@pytest.mark.parametrize("returned", [None, 3, [None]], ids=repr)
def test_a_function_that_returns_no_frame_is_counted_by_what_spark_scanned(
    spark: SparkSession, plans: Plans, filled: Filled, do: Any, returned: object
) -> None:
    """Structured Streaming does not look at what a function returns either."""
    batch = plans.batch({(filled(10), 0): (0, 10)})

    def write(records: DataFrame, batch_id: int) -> object:
        records.write.format("noop").mode("overwrite").save()
        return returned

    do(batch, write)
    require_read(batch)


def test_a_function_that_raises_reports_nothing(spark: SparkSession, plans: Plans, filled: Filled, do: Any) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})

    def write(records: DataFrame, batch_id: int) -> None:
        records.write.format("noop").mode("overwrite").save()
        raise RuntimeError("the second of two writes failed")

    with pytest.raises(RuntimeError, match="second of two"):
        do(batch, write)
    with pytest.raises(ReadNotVerified, match="attempt 1 began and has not reported; its output may be half written"):
        require_read(batch)


def test_a_function_that_returns_several_frames_is_held_to_all_of_them(
    spark: SparkSession, plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    topic = filled(10)
    one, other = files(f"{out}/one"), files(f"{out}/other")

    def write(records: DataFrame, batch: Batch) -> Sequence[DataFrame]:
        return [one(records, batch), other(records.where(keep), batch)]

    keep = "true"
    do(batch := plans.batch({(topic, 0): (0, 10)}), write)
    require_read(batch)
    keep = "offset <> 3"
    with pytest.raises(InvalidRequest, match="frame 2 has 9 rows"):
        do(batch := plans.batch({(topic, 0): (0, 10)}), write)
    with pytest.raises(ReadNotVerified, match="has not reported"):
        require_read(batch)


def test_a_write_that_fails_leaves_the_old_rows_and_the_split_unverified(
    spark: SparkSession, plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    do(batch, files(str(out)))

    def write(records: DataFrame, batch: Batch) -> DataFrame:
        return files(str(out))(records.withColumn("bad", f.expr("int(raise_error('a bad record'))")), batch)

    with pytest.raises(Exception, match="a bad record"):
        do(batch, write)
    assert seen(spark, out) == list(range(10))
    with pytest.raises(ReadNotVerified, match="attempt 2 began and has not reported"):
        require_read(batch)


def test_a_topic_that_is_made_anew_while_it_is_read_is_not_reported(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    """Spark's source knows no topic ids: the new topic has the same offsets, of other records."""
    batch = plans.batch({(topic := filled(10), 0): (0, 10)})

    def write(records: DataFrame, batch: Batch) -> DataFrame:
        broker.delete_topic(topic)
        broker.create_topic(topic, 1)
        broker.produce_many(topic, 20, value=lambda number: b"of another log")
        return files(str(out))(records, batch)

    with pytest.raises(DataLoss, match=r"its id is .*\n.*may be of another log"):
        do(batch, write)
    with pytest.raises(ReadNotVerified, match="attempt 1 began and has not reported"):
        require_read(batch)


class Failing:
    """A sink whose write fails after ``before`` was done; all else is the sink's own."""

    def __init__(self, sink: Any, before: Callable[[], object]) -> None:
        self.sink, self.before = sink, before

    def __call__(self, records: DataFrame, batch: Batch) -> Any:
        self.before()
        return self.sink(records.withColumn("bad", f.expr("int(raise_error('a bad record'))")), batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sink, name)


def test_a_job_that_is_cleared_while_retention_takes_its_records_leaves_a_whole_split_verified(
    spark: SparkSession, broker: KafkaBroker, plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    batch = plans.batch({(topic := filled(10), 0): (0, 10)})
    do(batch, files(str(out)))
    with pytest.raises(Exception, match=r"an error|bad record|KAFKA|Kafka"):
        do(batch, Failing(files(str(out)), lambda: broker.delete_records({(topic, 0): 10})))
    assert attempts(batch) == [1, 2]
    assert seen(spark, out) == list(range(10))
    require_read(batch)
    with pytest.raises(DataLoss):
        do(batch, files(str(out)))


def test_a_write_that_fails_and_leaves_no_whole_split_is_not_verified(
    spark: SparkSession, plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    do(batch, files(str(out)))
    lose = lambda: [file.unlink() for file in out.rglob("part-*")]  # noqa: E731
    with pytest.raises(Exception, match="a bad record"):
        do(batch, Failing(files(str(out)), lose))
    with pytest.raises(ReadNotVerified, match="attempt 2 began and has not reported"):
        require_read(batch)


def test_a_late_job_that_fails_shows_nothing_of_a_newer_ones_rows(
    plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    do(batch, files(str(out)))
    with pytest.raises(Exception, match="a bad record"):
        do(batch, Failing(files(str(out)), lambda: do(batch, files(str(out)))))
    with pytest.raises(ReadNotVerified, match="attempt 4 began and has not reported"):
        require_read(batch)


@pytest.mark.parametrize("wrote", [None, True, False], ids=["an error", "it wrote", "it did not"])
def test_a_late_job_that_fails_in_its_write_leaves_no_split_verified_that_it_may_have_changed(
    plans: Plans, filled: Filled, out: Path, do: Any, wrote: bool | None
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})

    def write(records: DataFrame, late: Batch) -> None:
        do(batch, files(str(out)))  # a newer attempt, which ends well
        require_read(batch)
        raise OSError("a folder is gone") if wrote is None else LateAttempt("It", "attempt 2", str(out), wrote)

    with pytest.raises((OSError, LateAttempt)):
        do(batch, write)
    if wrote is False:
        require_read(batch)
    else:
        with pytest.raises(ReadNotVerified, match="attempt 3 began and has not reported"):
            require_read(batch)


# Windows


def test_a_window_goes_to_the_place_of_its_name(
    spark: SparkSession, plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    window = plans.window({(filled(10), 0): (2, 7)})
    for _ in ("first", "again"):
        batch = do(window, files(str(out)))
        require_read(window)
        assert offset_numbers(spark.read.parquet(f"{out}/kafka_batch={batch.key}/kafka_split=0")) == [2, 3, 4, 5, 6]
    assert batch.key == f"{batch}" == "20261120T110000Z--20261120T120000Z-f742fed2"
    assert batch.window == (datetime(2026, 11, 20, 11, tzinfo=UTC), datetime(2026, 11, 20, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    "use",
    [
        lambda batch: batch.number,
        int,
        lambda batch: f"{range(10)[batch]}",
        lambda batch: batch + 1,
        lambda batch: batch % 2,
        lambda batch: batch == 0,
        lambda batch: batch != 0,
        lambda batch: batch > 0,
        lambda batch: range(batch),
        f.lit,
    ],
)
def test_to_use_a_window_as_a_number_raises(spark: SparkSession, plans: Plans, use: Callable[[Any], object]) -> None:
    batch = plans.job(plans.window({("any", 0): (0, 10)}))
    with pytest.raises((TypeError, AttributeError)):
        use(batch)
    with pytest.raises(TypeError, match=r"has no batch number: two windows would have one\. Use batch\.key"):
        int(batch)  # type: ignore[call-overload]
    assert not isinstance(batch, int)
    assert batch == batch
    assert pickle.loads(pickle.dumps(batch)) == batch.key


# The output


def test_a_sink_that_writes_elsewhere_than_the_resolve_task_was_told_is_refused_before_it_begins(
    plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)}, output="/lake/orders")
    told = rf"This job writes {out}, and batch \d+ is written to /lake/orders. Where the path was changed: put it back"
    with pytest.raises(InvalidRequest, match=told):
        do(batch, files(str(out)))
    assert attempts(batch) == []
    assert not out.exists()


def test_a_job_whose_path_was_changed_is_refused_although_the_dag_names_none(
    spark: SparkSession, plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    """The first job to begin the batch has put its output on record; a second one would write all of it once more."""
    ranges = {(filled(10), 0): (0, 10)}
    batch = plans.batch(ranges)
    do(batch, files(str(out)))
    with pytest.raises(InvalidRequest, match=rf"This job writes {out}-2, and batch 1 is written to {out}\. .*output="):
        do(batch, files(f"{out}-2"))
    assert attempts(batch) == [1]
    require_read(batch)
    moved = planned_anew(
        batch, plans.plan({(batch.log.plan.partitions[0].topic_partition): (0, 10)}, output=f"{out}-2")
    )
    do(moved, files(f"{out}-2"))
    require_read(moved)


def test_a_sink_that_two_drivers_could_not_write_safely_is_refused_before_it_begins(
    plans: Plans, filled: Filled, do: Any
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    with pytest.raises(InvalidRequest, match="two drivers overwrite each other's commit"):
        do(batch, delta("s3a://lake/orders"))
    assert attempts(batch) == []


@pytest.mark.parametrize(("told", "format"), [(True, "parquet"), (False, "parquet"), (True, "json")])
def test_the_report_names_the_sinks_output(
    plans: Plans, filled: Filled, out: Path, do: Any, told: bool, format: str
) -> None:
    """Its columns are as they were written: what Spark would make of the text is not asked."""
    batch = plans.batch({(filled(10), 0): (0, 10)}, output=str(out) if told else None)
    assert do(batch, files(str(out), format)).output == str(out)
    require_read(batch)
    [attempt] = reads.attempt_numbers(batch.store.list(batch.folder), 0)
    report = reads.report_of(batch.store, batch.folder, 0, *attempt)
    assert report is not None
    columns = report.columns[str(out)]
    assert (columns["offset"], columns["value"], columns["kafka_split"]) == ("bigint", "binary", "int")


def test_what_a_lost_log_wrote_is_refused_and_named(
    spark: SparkSession, plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    """Batches 1 and 2 of a log that is lost; the one that took its place goes on from batch 1, and has a batch 3."""
    topic = filled(30)
    first_key = do(plans.batch({(topic, 0): (0, 10)}), files(str(out))).key
    lost = plans.batch({(topic, 0): (10, 20)}, number=2, after=first_key, characters="lost")
    lost_key = do(lost, files(str(out))).key
    batch = plans.batch({(topic, 0): (10, 30)}, number=3, after=first_key)
    with pytest.raises(UnknownOutput, match=f"holds batches that batch 3 does not know of.*\n{lost_key}\n"):
        do(batch, files(str(out)))
    assert attempts(batch) == []
    assert seen(spark, out) == list(range(20))

    for file in sorted((out / f"kafka_batch={lost_key}").rglob("*"), reverse=True):  # as the message says
        file.unlink() if file.is_file() else file.rmdir()
    (out / f"kafka_batch={lost_key}").rmdir()
    for _ in ("first", "again"):  # its own key is its own
        do(batch, files(str(out)))
    require_read(batch)
    assert seen(spark, out) == list(range(30))


def test_the_driver_of_the_first_split_that_is_started_looks_for_unknown_batches(
    plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    """One that has the same number is of another log, too."""
    topic = filled(20, partitions=2)
    before = new_key(4, NOW, "test")
    do(plans.batch({(topic, 0): (0, 10)}, number=5, after=before, characters="lost"), files(str(out)))
    batch = plans.batch({(topic, 0): (0, 10), (topic, 1): (0, 9)}, number=5, after=before, splits=2)
    do(batch, files(str(out)), split=1)
    with pytest.raises(UnknownOutput, match="\n0000000005-20261120T100000-lost\n"):
        do(batch, files(str(out)), split=0)
    with pytest.raises(ReadNotVerified, match="split 0: no Spark job has begun"):
        require_read(batch)


def test_a_committed_batch_that_is_done_again_knows_the_ones_after_it(
    spark: SparkSession, plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    topic = filled(30)
    batch = plans.batch({(topic, 0): (0, 10)})
    key = do(batch, files(str(out))).key
    for number in (2, 3):
        later = plans.batch({(topic, 0): (number * 10 - 10, number * 10)}, number=number, after=key)
        key = do(later, files(str(out))).key
    do(committed(batch), files(str(out)))
    require_read(batch)
    assert seen(spark, out) == list(range(30))


def test_a_window_of_a_lost_log_is_refused_until_it_is_removed(
    spark: SparkSession, plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    """It may have had more splits, whose rows nobody would replace."""
    topic = filled(10, partitions=2)
    ranges = {(topic, 0): (0, 5), (topic, 1): (0, 5)}
    lost = plans.window(ranges, splits=2)
    for split in (0, 1):
        do(lost, files(str(out)), split)
    anew = plans.window(ranges)
    with pytest.raises(UnknownOutput, match="\n20261120T110000Z--20261120T120000Z-f742fed2\n"):
        do(anew, files(str(out)))
    assert attempts(anew) == []


def test_a_window_of_a_lost_log_that_overlaps_is_refused(
    spark: SparkSession, plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    """Its neighbour, and an hour of another pipeline that holds nothing, are none of its business."""
    topic = filled(10)
    window = plans.window({(topic, 0): (0, 5)})
    pipeline = window.log.plan.pipeline or ""
    start, end = window.log.plan.asked.window_bounds or (0, 0)
    keys = {
        name: batch_name_of(TimeClaim(*bounds), owner).key
        for name, owner, bounds in [
            ("lost", pipeline, (start - 1000, start + 1)),
            ("neighbour", pipeline, (end, end + 1000)),
            ("other", "another pipeline", (start, end)),
        ]
    }
    for key in keys.values():
        (out / f"kafka_batch={key}").mkdir(parents=True)
    with pytest.raises(UnknownOutput) as refused:
        do(window, files(str(out)))
    assert refused.value.keys == [keys["lost"]]


@pytest.mark.parametrize("select", ["*", "topic AS kafka_topic, 'a word' AS topic, partition, offset"])
def test_the_same_hour_of_another_pipeline_is_refused_where_it_holds_the_same_topic(
    spark: SparkSession, plans: Plans, filled: Filled, out: Path, do: Any, select: str
) -> None:
    """A DAG that was renamed, and whose output was released: each record would be there under two keys."""
    topic, other = filled(10), filled(10)
    sink = files(str(out))

    def write(records: DataFrame, batch: Batch) -> None:
        sink(records.selectExpr(*select.split(", ")), batch)

    of_before = plans.window({(topic, 0): (0, 5)}, pipeline="before")
    do(of_before, write)
    window = plans.window({(topic, 0): (0, 5)}, pipeline="renamed")
    with pytest.raises(UnknownOutput, match=f"\n{of_before.log.plan.batch.key}\n.*pipeline_id"):
        do(window, sink)
    assert attempts(window) == []
    beside = plans.window({(other, 0): (0, 5)}, pipeline="another")
    refuse_unknown_output(spark, plans.job(beside), sink)
    refuse_unknown_output(spark, plans.job(window), Upserted(sink))


class Upserted:
    """A table of entities: the same record once more changes nothing."""

    is_merged = True

    def __init__(self, sink: Any) -> None:
        self.keys = sink.keys


def test_a_batch_that_is_committed_while_its_output_is_looked_at_knows_the_ones_after_it(
    plans: Plans, filled: Filled, out: Path
) -> None:
    """A driver that slept: another attempt was committed meanwhile, and the next batch written."""
    topic = filled(20)
    stored = plans.batch({(topic, 0): (0, 10)})
    later = new_key(2, NOW, "next")

    class Sink:
        def keys(self, _: Any) -> list[str]:
            committed(stored)
            return [later]

    refuse_unknown_output(None, plans.job(stored), Sink())  # type: ignore[arg-type]


def test_the_splits_of_a_window_know_each_other_in_whatever_order_they_come(
    plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    topic = filled(10, partitions=2)
    window = plans.window({(topic, 0): (0, 5), (topic, 1): (0, 5)}, splits=2)
    do(window, files(str(out)), split=1)
    do(window, files(str(out)), split=0)
    require_read(window)
    anew = planned_anew(window, plans.plan({(topic, 0): (0, 4)}, window=True, splits=2, overwrites=(1,)))
    for split in (0, 1):
        do(anew, files(str(out)), split)
    require_read(anew)


def test_a_split_of_a_window_that_is_written_while_another_one_looks_is_known(
    spark: SparkSession, plans: Plans, filled: Filled, out: Path, do: Any
) -> None:
    topic = filled(10, partitions=2)
    window = plans.window({(topic, 0): (0, 5), (topic, 1): (0, 5)}, splits=2)
    sink = files(str(out))

    class WhileItLooks:
        output = sink.output

        def keys(self, spark: SparkSession) -> list[str]:
            do(window, sink, split=1)
            return sink.keys(spark)

        def __call__(self, records: DataFrame, batch: Batch) -> DataFrame:
            return sink(records, batch)

    do(window, WhileItLooks())
    require_read(window)


def test_a_sink_that_cannot_tell_what_it_holds_is_taken_at_its_word(
    spark: SparkSession, plans: Plans, filled: Filled, do: Any
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})

    class Nowhere:
        output = "nowhere"

        def __call__(self, records: DataFrame, batch: Batch) -> DataFrame:
            records.persist().write.format("noop").mode("overwrite").save()
            return batch.scanned

    assert do(batch, Nowhere()).output == "nowhere"
    require_read(batch)


def test_what_belongs_to_an_attempt_is_asked_after_the_read(spark: SparkSession, plans: Plans, filled: Filled) -> None:
    batch = planned_batch(plans.arguments(plans.batch({(filled(10), 0): (0, 10)})))
    for ask in (lambda: batch.attempt, lambda: batch.scanned, batch.look):
        with pytest.raises(InvalidRequest, match="after read_batch"):
            ask()
    records = read_batch(spark, batch)
    assert (batch.attempt, batch.scanned) == (1, records)
    batch.look()
