"""Entity tables on Delta and Iceberg: after each merge they are the query over the log table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.errors import InvalidJob, OtherOutput
from airflow_kafka_offsets.spark.jobs.write_batch import write_batch
from airflow_kafka_offsets.spark.plan import Plan
from tests.spark.merge.logs import KeyedBatch, Log, record
from tests.spark.merge.scenes import SCENES, merged, play
from tests.spark.plans import LOG

pytestmark = pytest.mark.long

QUICK = {"iceberg": ("corrected", "placeholders", "truncated"), "delta": ("overtaken", "restored")}


def _marked(kind: str, scene: str) -> object:
    return pytest.param(kind, scene, marks=() if scene in QUICK[kind] else pytest.mark.slow)


@pytest.fixture(params=(pytest.param("delta", marks=pytest.mark.slow), "iceberg"))
def log(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Log:
    return Log(spark, tmp_path, request.param)


@pytest.fixture
def iceberg_log(spark: SparkSession, tmp_path: Path) -> Log:
    """For what is the same in both formats."""
    return Log(spark, tmp_path, "iceberg")


def expire(log: Log, name: str) -> None:
    """All of the history of an Iceberg table but its last snapshot goes."""
    name = name.partition(".")[2]
    log.spark.sql(f"CALL lake.system.expire_snapshots('{name}', TIMESTAMP '2999-01-01 00:00:00', 1)")


@pytest.mark.parametrize(("kind", "scene"), [_marked(kind, scene) for kind in QUICK for scene in SCENES])
def test_after_each_merge_the_table_is_the_query(spark: SparkSession, tmp_path: Path, kind: str, scene: str) -> None:
    play(Log(spark, tmp_path, kind), scene)


@pytest.mark.slow
def test_the_last_record_of_each_key_counts_and_a_deleted_key_has_no_row(log: Log) -> None:
    log.commit(1, [record(0, "a", "1"), record(1, "b", "1"), record(2, "a", "2")])
    assert merged(log) == [1]
    log.commit(2, [record(3, "b", None), record(4, "c", None)])
    log.commit(3, [record(5, "c", "3"), record(6, "d", "3")])
    assert merged(log) == [2, 3]
    assert log.entities == {"a": "2", "c": "3", "d": "3"}
    assert (log.merge(2), log.merge(3)) == ([], [])  # a late merge task, a retry
    log.commit(4, [])
    log.commit(5, [record(7, "never", None)])
    merged(log)
    log.commit(6, [record(8, "b", "6")])
    assert merged(log)[-1] == 6
    assert log.entities == {"a": "2", "b": "6", "c": "3", "d": "3"}


@pytest.mark.slow
def test_merges_at_the_same_time_end_as_one_after_the_other(log: Log) -> None:
    """Also the creation of the table."""
    for number in range(1, 4):
        log.commit(number, [record(10 * number + n, f"key {n}", str(number)) for n in range(3)])
    with ThreadPoolExecutor(3) as pool:  # each in a session of its own, as tasks have
        all_merged = list(pool.map(lambda number: log.merge(number, log.spark.newSession()), (1, 2, 3)))
    assert sorted(all_merged)[-1] == [1, 2, 3]
    assert log.differences() == []
    log.commit(1, [record(10, "key 0", "1!"), record(11, "new", "1!")])
    log.commit(4, [record(40, "key 0", "4"), record(41, "key 1", None)])
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: log.merge(number, log.spark.newSession()), (1, 4)))
    assert log.differences() == []
    assert log.entities == {"key 0": "4", "key 2": "3", "new": "1!"}


def test_a_truncate_leaves_the_rows_of_other_topics(iceberg_log: Log) -> None:
    log = iceberg_log
    other = [record(0, "z", "1", topic="others"), record(1, "y", "1", topic="others")]
    log.commit(1, [record(0, "a", "1"), record(1, "b", "1"), *other])
    log.merge()
    log.commit(2, [record(2, None, None, "t"), record(3, "b", "2"), record(2, "y", "2", topic="others")])
    log.merge()
    assert {row["id"]: (row["name"], row["doc"]) for row in log.rows} == {
        "b": ("2", "-"), "y": ("2", "-"), "z": ("1", "-")
    }  # fmt: skip


def test_the_table_may_be_dropped_at_any_time(log: Log) -> None:
    log.commit(1, [record(0, "a", "1"), record(1, "b", "1")])
    log.commit(2, [record(2, "a", None)])
    merged(log)
    if log.kind == "delta":
        log.spark.sql(f"DELETE FROM {log.table.name}")
        log.spark.sql(f"REPLACE TABLE {log.table.name} (id STRING, kafka_batch STRING) USING delta")
    else:
        log.spark.sql(f"DROP TABLE {log.table.name} PURGE")
    log.write(3, [record(3, "open", "3")])
    assert merged(log) == [1, 2]
    log.commit_written(3)
    assert merged(log) == [3]


@pytest.mark.slow
def test_what_others_commit_to_either_table_is_passed_over(log: Log) -> None:
    """Compactions, columns of the user's own, and a log table that was cleaned beyond what was merged last."""
    log.commit(1, [record(0, "a", "1"), record(1, "b", "1")])
    merged(log)
    log.spark.sql(f"ALTER TABLE {log.table.name} ADD COLUMNS (note STRING)")
    log.spark.sql(f"UPDATE {log.table.name} SET note = 'mine'")
    more = log.spark.sql(
        "SELECT 2L offset, 'a' ID, 'u' kafka_op, '2' name, '-' doc, 1L lsn, 0 `partition`, 'orders' topic, "
        "7 `odd-name`, map('x', 1) m"
    )
    log.commit(2, more)
    log.compact()
    merged(log)
    (row,) = (row for row in log.rows if row["id"] == "a")
    assert (row["name"], row["odd-name"], row["m"], row["note"]) == ("2", 7, {"x": 1}, "mine")
    log.commit(3 if log.kind == "iceberg" else 1, [record(0, "a", "1!")])
    if log.kind == "delta":
        log.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        log.compact()
        log.spark.sql(f"VACUUM {log.sink.name} RETAIN 0 HOURS")
    else:
        expire(log, log.sink.name)
    merged(log)
    assert set(log.entities) == ({"a"} if log.kind == "delta" else {"a", "b"})


@pytest.mark.slow
def test_a_row_that_was_erased_from_both_tables_stays_erased(iceberg_log: Log) -> None:
    log = iceberg_log
    log.commit(1, [record(0, "a", "1"), record(1, "forget", "1")])
    merged(log)
    for table in (log.sink.name, log.table.name):
        log.spark.sql(f"DELETE FROM {table} WHERE id = 'forget'")
    log.commit(2, [record(2, "a", "2")])
    merged(log)
    log.commit(2, [record(2, "b", "2!")])
    merged(log)
    assert log.entities == {"a": "1", "b": "2!"}


@pytest.mark.slow
def test_rows_that_the_log_table_has_no_more_stand_in_the_entity_table(iceberg_log: Log) -> None:
    """Old batches were deleted, and both tables' histories."""
    log = iceberg_log
    log.commit(1, [record(0, "old", "1", doc="x")])
    log.commit(2, [record(1, "b", "2"), record(2, "c", "2")])
    merged(log)
    log.spark.sql(f"DELETE FROM {log.sink.name} WHERE kafka_batch = '{log.batches[1].key}'")
    log.spark.sql(f"ALTER TABLE {log.table.name} ADD COLUMNS (note STRING)")
    log.spark.sql(f"UPDATE {log.table.name} SET note = 'mine'")
    for table in (log.sink, log.table):
        expire(log, table.name)
    log.commit(3, [record(3, "c", "3")])
    assert log.merge() == [2, 3]
    assert log.entities == {"old": "1", "b": "2", "c": "3"}


def test_rows_without_a_key_or_of_two_partitions_are_refused(iceberg_log: Log) -> None:
    log = iceberg_log
    log.commit(1, [record(0, None, "1")])
    with pytest.raises(InvalidJob, match=r"The row of orders-0:0 in iceberg:log has no id\. .*clear the run"):
        log.merge()
    log.commit(1, [record(0, "a", "1")])
    merged(log)
    log.commit(2, [record(0, "a", "2", partition=1)])
    with pytest.raises(InvalidJob, match=r"rows of one key in two partitions.*'a'.*order_by"):
        log.merge()
    assert log.entities == {"a": "1"}
    log.order_by = ["lsn"]
    log.job_uri = log.batches[2].job(log.job)
    with pytest.raises(InvalidJob, match=r"The row of orders-1:0 .* has no lsn, and only a delete may lack it"):
        log.merge()


@pytest.mark.slow
def test_a_table_that_was_filled_from_elsewhere_is_older_than_every_record(log: Log) -> None:
    bounds = "TBLPROPERTIES ('write.metadata.metrics.column.kafka_batch' = 'full')" if log.kind == "iceberg" else ""
    log.spark.sql(
        f"CREATE TABLE {log.table.name} (kafka_batch STRING, id STRING, name STRING) USING {log.kind} {bounds}"
    )
    log.spark.sql(f"INSERT INTO {log.table.name} VALUES (NULL, 'a', '0'), (NULL, 'b', '0'), (NULL, 'c', '0')")
    log.commit(1, [record(0, "a", "1"), record(1, "b", None)])
    assert log.merge() == [1]
    assert log.entities == {"a": "1", "c": "0"}
    log.commit(1, [record(0, "a", "1!")])
    log.merge()
    assert log.entities == {"a": "1!", "c": "0"}
    log.commit(2, [record(2, None, None, "t")])
    merged(log)


def test_other_outputs_and_logs_are_refused_and_adopted_keys_count(iceberg_log: Log) -> None:
    log = iceberg_log
    key = log.commit(1, [record(0, "a", "1")])
    log.merge()
    plan = Plan(pipeline="orders", number=1, key=key, plan_id="p", log=LOG)
    with pytest.raises(OtherOutput, match="table of pipeline 'orders'"):
        replace(log.sink, role="/merge").check(log.spark, plan)
    with pytest.raises(OtherOutput, match="'orders/merge'"):
        replace(log.table, role="/merge").check(log.spark, replace(plan, pipeline="payments"))
    payments = KeyedBatch(log.folder / "payments", "nowhere:1", "payments", 1).plan({("orders", 0): (0, 1)})
    with pytest.raises(OtherOutput, match="'orders/merge'"):  # before the batch has a key that sorts before its rows
        write_batch(log.spark, payments.arguments(payments.job({**log.job, "sink": log.sink_at("payments")})))
    assert payments.attempts == []
    (log.folder / "checkpoint").rename(log.folder / "lost")
    log.spark.sql(f"DROP TABLE {log.table.name} PURGE")
    new = Log(log.spark, log.folder, log.kind, ending="fedcba987654")
    new.commit(2, [record(1, "b", "2")])
    with pytest.raises(OtherOutput, match=rf"rows of batch {key}, and this log has no such batch"):
        new.merge()
    (log.folder / "checkpoint").rename(log.folder / "wrong")
    new = Log(log.spark, log.folder, log.kind, ending="fedcba987654", bases=(0, 2), adopted={"lost": f"{2:010}-g"})
    new.commit(1, [record(2, "b", None)])
    new.merge()
    assert new.entities == {"a": "1"}
