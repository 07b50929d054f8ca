"""The job that reads an output and compares it with the log, on real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.log.entries import Committed, Planned
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.log.read_reports import begin_attempt, store_report
from airflow_kafka_offsets.log.verify_reads import PartitionRead
from airflow_kafka_offsets.plan.plan import PlannedPartition
from airflow_kafka_offsets.plan.position import Position, position_after
from airflow_kafka_offsets.spark.jobs.audit_output import run
from airflow_kafka_offsets.spark.sinks import files
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.stores.objects import create_object
from airflow_kafka_offsets.values.row_definition import FieldFormat, RowDefinition
from testbed.java import Java
from tests.builders import NOW, PIPELINE, planned, tp
from tests.spark.sinks.outputs import conf
from tests.stores.builders import DAY, commit, key_of, plan_of, read, report_of


@dataclass(frozen=True)
class Written:
    """A batch as a sink knows it."""

    key: str
    split: int = 0
    attempt: int = 1

    @property
    def row_filter(self) -> str:
        return f"kafka_batch = '{self.key}' AND kafka_split = {self.split}"

    def look(self, output: str) -> None:
        """Nobody else is there."""


@dataclass
class World:
    """Three batches of ten offsets, one a day, in the log and, where it is ``written``, in the output."""

    spark: SparkSession
    root: Path
    written: bool
    out: str = "out"

    def __post_init__(self) -> None:
        self.log = PipelineLog(LocalStore(self.root / "store"), PIPELINE)
        self.position: Position | None = None
        for number in (1, 2, 3):
            batch = self.begin(number)
            read(batch)
            done = commit(batch, NOW + number * DAY).log.committed
            self.position = done.position if done else None
            if self.written:
                self.write(number, range(10 * number - 10, 10 * number))

    def begin(self, number: int, rows: Sequence[PlannedPartition] | None = None) -> StoredBatch:
        plan = plan_of(number, rows, resolved_at_ms=NOW + number * DAY)
        begun = self.log.begin(number, Planned(plan, self.position))
        assert begun is not None
        return begun

    def write(
        self, number: int, offsets: Any, key: str | None = None, out: str = "", topic: str = "orders", sink: Any = None
    ) -> None:
        rows = [(topic, 0, offset, b"x") for offset in offsets]
        frame = self.spark.createDataFrame(rows, "topic STRING, partition INT, offset BIGINT, value BINARY")
        sink = sink or files(str(self.root / (out or self.out)))
        sink(frame, Written(key or key_of(number)))

    def audited(self, *more: str) -> dict[str, Any]:
        store, out = self.log.store.uri, str(self.root / self.out)
        words = ["--work-store", store, "--pipeline-id", PIPELINE, "--sink-format", "parquet", "--sink-path", out]
        return run(self.spark, [*words, *more])


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    return World(spark, tmp_path, written=True)


@pytest.fixture
def fourth(spark: SparkSession, tmp_path: Path) -> World:
    """For tests that look at batch 4 alone."""
    return World(spark, tmp_path, written=False)


FROM_4 = ("--from", str(NOW + 4 * DAY))


def test_an_output_that_has_each_record_once_is_right(world: World) -> None:
    found = world.audited()
    assert (found["batches"], found["rows"], found["wrong"], found["findings"]) == (3, 30, 0, [])
    assert found["version"] == 1


def test_what_is_missing_there_twice_or_of_no_batch_is_named_by_batch_and_offset(world: World) -> None:
    world.write(1, [0, 1, 2, 5, 6, 7, 8])
    world.write(2, [*range(10, 20), 13, 13])
    world.write(9, [3, 4], key_of(9))
    world.begin(4)
    world.write(4, [30], key_of(4))
    found = world.audited()
    shown = [(one["key"], one["finding"], one["rows"], one["what"]) for one in found["findings"]]
    assert shown == [
        (key_of(1), "missing", 3, "7 of 10 rows of [0, 10) are there; not [3, 5), [9, 10)"),
        (key_of(2), "twice", 2, "12 rows have 10 different offsets of [10, 20): 13"),
        (key_of(4), "not judged", 1, "the batch is not committed"),
        (key_of(9), "of no batch", 2, "the log has no such batch"),
    ]
    assert found["wrong"] == 3


def test_of_one_day_only_its_batches_are_read(world: World) -> None:
    world.write(1, [0])
    world.write(3, [20])
    day = [str(NOW + 2 * DAY), str(NOW + 3 * DAY)]
    found = world.audited("--from", day[0], "--to", day[1])
    assert (found["batches"], found["rows"], found["findings"]) == (1, 10, [])
    assert world.audited("--from", str(NOW + 9 * DAY))["batches"] == 0


def test_an_output_that_is_gone_lacks_all_rows(world: World) -> None:
    for file in sorted((world.root / "out").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    found = world.audited()
    assert [(one["finding"], one["rows"]) for one in found["findings"]] == [("missing", 10)] * 3


def test_of_rows_that_were_merged_by_key_none_is_missing_and_a_strange_one_is_found(fourth: World) -> None:
    merged = fourth.begin(4)
    begin_attempt(merged.store, merged.folder, 0, 1, "abcd", {})
    store_report(merged.store, merged.folder, "abcd", report_of(merged.log.plan, 0, 1, proof="merged"))
    commit(merged, NOW + 4 * DAY)
    fourth.write(4, [31, 35])
    found = fourth.audited(*FROM_4)
    assert (found["merged"], found["rows"], found["wrong"], found["findings"]) == (1, 2, 0, [])
    fourth.write(4, [31, 31, 55])
    assert [(one["finding"], one["rows"]) for one in fourth.audited(*FROM_4)["findings"]] == [
        ("of no batch", 3),
        ("twice", 1),
    ]


def rows_of_4(fourth: World, set_aside: int, words: Any = None, **report: Any) -> StoredBatch:
    """Batch 4 is committed. Of its records so many were bad."""
    batch = fourth.begin(4)
    begin_attempt(batch.store, batch.folder, 0, 1, "abcd", {"set_aside": words})
    reads = {tp(): PartitionRead(10, 10, 30, 39, set_aside=set_aside)}
    store_report(batch.store, batch.folder, "abcd", report_of(batch.log.plan, 0, 1, partitions=reads))
    plan, after = batch.log.plan, position_after(batch.log.plan, fourth.position)
    batch.append(
        Committed(plan.by, NOW + 4 * DAY, plan.plan_id, set_aside, 0, report.get("definitions", ()), position=after)
    )
    return batch


def test_typed_rows_are_found_by_their_own_names(fourth: World) -> None:
    definition = RowDefinition(FieldFormat("string"), select=("value AS offset",))
    create_object(fourth.log.store, definition.object_name, definition.to_dict())
    rows_of_4(fourth, 0, definitions=(definition.digest,))
    rows = [("text", "orders", 0, offset) for offset in range(30, 40)]
    frame = fourth.spark.createDataFrame(rows, "offset STRING, topic STRING, partition INT, kafka_offset BIGINT")
    fourth.out = "typed rows"
    files(str(fourth.root / fourth.out))(frame, Written(key_of(4)))
    assert fourth.audited(*FROM_4)["findings"] == []


def test_bad_records_are_looked_for_where_they_were_set_aside(fourth: World) -> None:
    bad = {"format": "parquet", "path": str(fourth.root / "bad")}
    rows_of_4(fourth, 2, bad)
    fourth.write(4, range(30, 38))
    [missing] = fourth.audited(*FROM_4)["findings"]
    assert (missing["rows"], missing["what"]) == (2, "8 of 10 rows of [30, 40) are there; not [38, 40)")
    fourth.write(4, [38, 39], out="bad")
    found = fourth.audited(*FROM_4)
    assert (found["rows"], found["findings"]) == (10, [])
    fourth.write(4, [37, 38, 39], out="bad")
    [twice] = fourth.audited(*FROM_4)["findings"]
    assert (twice["finding"], twice["what"]) == ("twice", "11 rows have 10 different offsets of [30, 40): 37")


def test_bad_records_that_an_earlier_attempt_has_left_behind_are_there_twice(fourth: World) -> None:
    batch = rows_of_4(fourth, 0)
    old = {"format": "parquet", "path": str(fourth.root / "bad")}
    begin_attempt(batch.store, batch.folder, 0, 2, "efgh", {"set_aside": None})
    store_report(batch.store, batch.folder, "efgh", report_of(batch.log.plan, 0, 2))
    fourth.write(4, range(30, 40))
    fourth.write(4, [33], out="bad")
    assert fourth.audited(*FROM_4)["findings"] == []
    begin_attempt(batch.store, batch.folder, 0, 1, "xyz", {"set_aside": old})
    [twice] = fourth.audited(*FROM_4)["findings"]
    assert (twice["finding"], twice["what"]) == ("twice", "11 rows have 10 different offsets of [30, 40): 33")


def test_each_topic_has_an_output_of_its_own(fourth: World) -> None:
    fourth.out = "each/{topic}"
    refunds = TopicPartition("shop.Refunds", 0)
    batch = fourth.begin(4, [planned(0, 30, 40), planned(refunds, 0, 5)])
    read(batch)
    commit(batch, NOW + 4 * DAY)
    fourth.write(4, range(30, 40), out="each/orders")
    fourth.write(4, range(4), out="each/shop_refunds", topic="shop.Refunds")
    [missing] = fourth.audited(*FROM_4)["findings"]
    what = "4 of 5 rows of [0, 5) are there; not [4, 5)"
    assert (missing["topic"], missing["finding"], missing["what"]) == ("shop.Refunds", "missing", what)


def test_each_topic_has_a_table_of_its_own(java: Java, spark_environment: Mapping[str, str], tmp_path: Path) -> None:
    """In a Spark that has Iceberg: one row of a topic is gone, and the other topic has one twice."""
    program = ["-m", "tests.spark.audit_of_tables", json.dumps(conf(java, tmp_path)), str(tmp_path)]
    environment = {**os.environ, **spark_environment}
    done = subprocess.run([sys.executable, *program], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert [(one["topic"], one["finding"], one["what"]) for one in found["findings"]] == [
        ("orders", "missing", "9 of 10 rows of [30, 40) are there; not [39, 40)"),
        ("shop.Refunds", "twice", "6 rows have 5 different offsets of [0, 5): 4"),
    ]
    assert (found["batches"], found["rows"]) == (1, 15)


def test_the_command_reads_the_output_too_in_the_spark_that_is_there(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("audit", "--work-store", world.log.store.uri, "--pipeline-id", PIPELINE, "--output", "json")
    sink = json.dumps({"format": "parquet", "path": str(world.root / world.out)})
    assert main([*words, "--sink", sink]) == 0
    assert json.loads(capfd.readouterr().out)["output"] == []
    world.write(3, range(20, 29))
    assert main([*words, "--sink", sink]) == 1
    output, messages = capfd.readouterr()
    found = json.loads(output)
    assert [(one["key"], one["finding"], one["rows"]) for one in found["output"]] == [(key_of(3), "missing", 1)]
    assert found["output_rows"] == 29
    assert "not [29, 30)" in messages
    assert main([*words, "--sink", '{"format": "xml"}']) == 2


def test_a_job_without_its_arguments_says_which(world: World) -> None:
    with pytest.raises(InvalidRequest, match="--pipeline-id"):
        run(world.spark, ["--work-store", world.log.store.uri])
    with pytest.raises(InvalidRequest, match="--from is 'soon'"):
        world.audited("--from", "soon")
