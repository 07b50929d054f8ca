"""Entity tables on Delta and Iceberg: corrections arrive, and nothing old comes back over something new."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.spark.errors import InvalidJob, LateAttempt, OtherOutput
from airflow_kafka_offsets.spark.merge import Merge
from tests.spark.merge.logs import Log


@pytest.fixture(params=(pytest.param("delta", marks=pytest.mark.slow), "iceberg"))
def log(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Log:
    return Log(spark, tmp_path, request.param)


@pytest.fixture
def iceberg_log(spark: SparkSession, tmp_path: Path) -> Log:
    """For what is the same in both formats."""
    return Log(spark, tmp_path, "iceberg")


@pytest.mark.parametrize("kind", [pytest.param("delta", marks=pytest.mark.slow), "iceberg"])
def test_the_last_record_of_each_key_counts_and_a_deleted_key_keeps_its_row(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    log = Log(spark, tmp_path, kind)
    log.commit(1, [(0, "a", "1"), (1, "b", "1"), (2, "a", "2")])
    assert log.merge(1) == [1]
    assert log.entities == {"a": ("2", 2), "b": ("1", 1)}
    log.commit(2, [(3, "b", None), (4, "c", None)])
    log.commit(3, [(5, "c", "3"), (6, "d", "3")])
    assert log.merge(3) == [2, 3]
    assert log.entities == {"a": ("2", 2), "b": (None, 3), "c": ("3", 5), "d": ("3", 6)}
    assert (log.merge(2), log.merge(3)) == ([], [])  # a late merge task, a retry
    log.commit(4, [])
    log.commit(5, [(7, "b", "5")])
    assert log.merge(5) == [5]
    assert log.entities["b"] == ("5", 7)


@pytest.mark.slow
def test_a_reprocessed_batch_corrects_its_rows_and_no_later_ones(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    log.commit(1, [(0, "a", "1"), (1, "b", "1"), (2, "wrong", "1"), (3, "e", "1"), (4, "e", "bad")])
    log.commit(2, [(5, "b", None), (6, "c", "2")])
    log.merge(2)
    log.commit(1, [(0, "a", "1!"), (1, "b", "1!"), (2, "c", "1!"), (3, "e", "1!"), (4, "d", "1!")])
    with caplog.at_level(logging.WARNING, "airflow_kafka_offsets"):
        assert log.merge(1) == [1]
        assert log.merge(1) == [1]  # its retry changes nothing
    assert log.entities == {
        "a": ("1!", 0), "b": (None, 5), "c": ("2", 6), "d": ("1!", 4), "e": ("1!", 3), "wrong": ("1", 2)
    }  # fmt: skip
    message = caplog.messages[0]
    assert "Batch 1 was reprocessed, and keys that it had are not in it any more: 1." in message
    assert "('wrong',)" in message
    log.spark.sql(message.partition("remove them: ")[2])
    assert "wrong" not in log.entities


def test_a_merge_that_failed_is_made_up_for_by_the_next_one(iceberg_log: Log) -> None:
    log = iceberg_log
    log.commit(1, [(0, None, "1")])
    with pytest.raises(InvalidJob, match=r"has no id; the last one is orders-0:0\. .*clear the run"):
        log.merge(1)
    log.commit(1, [(0, "a", "1")])
    log.commit(2, [(1, "a", "2")])
    assert log.merge(2) == [1, 2]
    assert log.entities == {"a": ("2", 1)}


def test_merges_at_the_same_time_end_as_one_after_the_other(log: Log) -> None:
    """Also the creation of the table."""
    for number in range(1, 4):
        log.commit(number, [(10 * number + n, f"key {n}", str(number)) for n in range(3)])
    with ThreadPoolExecutor(3) as pool:
        merged = list(pool.map(log.merge, (1, 2, 3)))
    assert all(numbers in ([], [1, 2, 3]) for numbers in merged)
    assert log.entities == {f"key {n}": ("3", 30 + n) for n in range(3)}
    log.commit(1, [(10, "key 0", "1!"), (11, "new", "1!")])
    log.commit(4, [(40, "key 0", "4"), (41, "key 1", None)])
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(log.merge, (1, 4)))
    assert log.entities == {"key 0": ("4", 40), "key 1": (None, 41), "key 2": ("3", 32), "new": ("1!", 11)}


def test_a_merge_that_was_overtaken_brings_nothing_old_back(
    log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It has read a batch, and writes when the batch was reprocessed and merged, and a later one, too."""
    log.commit(1, [(0, "a", "old"), (1, "b", "old"), (2, "wrong", "old")])
    write = Merge.write

    def write_late(merge: Merge, newest: DataFrame) -> None:
        monkeypatch.undo()
        log.commit(1, [(0, "a", "new"), (1, "b", "new")])
        log.commit(2, [(2, "b", None)])
        assert log.merge(2) == [1, 2]
        write(merge, newest)

    monkeypatch.setattr(Merge, "write", write_late)
    with caplog.at_level(logging.WARNING, "airflow_kafka_offsets"):
        log.merge(1)
    assert log.entities == {"a": ("new", 0), "b": (None, 2), "wrong": ("old", 2)}
    assert ["('wrong',)" in message for message in caplog.messages] == [True]  # as if it had been in time


def test_a_batch_that_is_claimed_while_it_is_read_is_not_merged(
    iceberg_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = iceberg_log
    log.commit(1, [(0, "a", "1")])
    read = Merge.newest

    def read_and_claim(*arguments: Any) -> DataFrame:
        found = read(*arguments)
        log.batches[1].append("claim", after=1, acknowledged=0)
        return found

    monkeypatch.setattr(Merge, "newest", read_and_claim)
    with pytest.raises(LateAttempt, match="began to write it again while it was read"):
        log.merge(1)
    assert log.table.read(log.spark) is None


@pytest.mark.slow
def test_a_key_in_two_partitions_is_refused_until_a_person_says_that_all_is_newer(iceberg_log: Log) -> None:
    log = iceberg_log
    log.commit(1, [(5, "a", "1"), (6, "b", "1")])
    log.merge(1)
    log.commit(2, [(0, "a", "2")], partition=1)
    with pytest.raises(InvalidJob, match="its row from orders-0:5 and a newer record at orders-1:0") as raised:
        log.merge(2)
    assert log.entities == {"a": ("1", 5), "b": ("1", 6)}
    log.spark.sql(raised.value.remedy.partition(": ")[2])
    log.merge(2)
    log.commit(1, [(5, "a", "1!"), (6, "b", "1!")])
    log.merge(1)  # older, so it says nothing of a
    assert log.entities == {"a": ("2", 0), "b": ("1!", 6)}
    log.commit(3, [(7, "a", "3")])
    log.commit(4, [(1, "a", "4")], partition=1)
    with pytest.raises(InvalidJob, match=r"Keys with rows of two partitions in .*: 1; one has its last at orders-1:1"):
        log.merge(4)


def test_the_table_gets_new_columns_and_keeps_those_that_are_its_own(log: Log) -> None:
    log.commit(1, [(0, "a", "1")])
    log.merge(1)
    log.spark.sql(f"ALTER TABLE {log.table.name} ADD COLUMNS (note STRING)")
    log.spark.sql(f"UPDATE {log.table.name} SET note = 'mine'")
    more = log.spark.sql(
        "SELECT 1L offset, 'a' ID, '2' value, 'orders' topic, 0 `partition`, 7 `odd-name`, map('x', 1) m"
    )
    log.commit(2, more)
    log.merge(2)
    (row,) = log.rows
    assert (row["value"], row["odd-name"], row["m"], row["note"]) == ("2", 7, {"x": 1}, "mine")


def test_a_table_that_was_filled_from_elsewhere_is_older_than_every_record(log: Log) -> None:
    log.spark.sql(
        f"CREATE TABLE {log.table.name} (kafka_batch STRING, id STRING, value STRING) USING {log.kind} "
        "TBLPROPERTIES ('write.metadata.metrics.column.kafka_batch' = 'full', "
        "'write.merge.isolation-level' = 'snapshot')"
    )
    log.spark.sql(f"INSERT INTO {log.table.name} VALUES (NULL, 'a', '0'), (NULL, 'b', '0')")
    log.commit(1, [(0, "a", "1")])
    with pytest.raises(InvalidJob, match="could insert a key twice") as raised:
        log.merge(1)
    log.spark.sql(raised.value.remedy)
    assert log.merge(1) == [1]
    found = {row["id"]: row["value"] for row in log.rows}
    assert found == {"a": "1", "b": "0"}


def test_other_outputs_logs_and_tables_are_refused(iceberg_log: Log) -> None:
    log = iceberg_log
    log.commit(1, [(0, "a", "1")])
    log.merge(1)
    log.write(2, [(1, "a", "2")]).append("commit", output="delta:/lake/moved")
    log.commit(3, [(2, "b", "3")])
    with pytest.raises(OtherOutput, match=r"batch 2.*rows are in delta:/lake/moved"):
        log.merge(3)
    alias = {**log.job, "merge": {**log.job["merge"], "sink": log.job["sink"]}}
    with pytest.raises(OtherOutput, match="name of pipeline 'orders'"):
        Merge.of(alias, "orders").check(log.spark)
    with pytest.raises(OtherOutput, match="'orders/merge'"):
        Merge.of(log.job, "payments").check(log.spark)


@pytest.mark.slow
def test_after_a_lost_log_a_person_says_that_all_of_the_new_one_is_newer(iceberg_log: Log) -> None:
    log = iceberg_log
    log.commit(1, [(0, "a", "1")])
    log.commit(2, [(1, "b", "2")])
    log.merge(2)
    (log.folder / "checkpoint").rename(log.folder / "lost")
    new = Log(log.spark, log.folder, log.kind, ending="new1")
    new.commit(1, [(2, "a", "3")])
    with pytest.raises(OtherOutput, match=r"rows of batch 0000000002-.*this log has no such batch") as raised:
        new.merge(1)
    log.spark.sql(raised.value.remedy.partition(": ")[2])
    assert new.merge(1) == [1]
    assert log.entities == {"a": ("3", 2), "b": ("2", 1)}
