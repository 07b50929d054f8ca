"""Two outputs, and several attempts at one split: a reader of both sees each record once, or the commit is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from airflow_kafka_offsets.errors import DataLoss, InvalidRequest, LateAttempt, PlanReplaced, ReadNotVerified
from airflow_kafka_offsets.kafka_values import Actor
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.plan.planned_anew import emptied
from airflow_kafka_offsets.spark import decode, for_each_batch, planned_batch, read_batch, report_batch
from airflow_kafka_offsets.spark.sinks import files
from airflow_kafka_offsets.spark.sinks.sink_arguments import output_of, sink_of
from airflow_kafka_offsets.stores.objects import create_object
from airflow_kafka_offsets.values.row_definition import FieldFormat, RowDefinition
from testbed.broker import KafkaBroker
from tests.contract.troubles import Killed, die
from tests.spark.conftest import COMPACTED, NOT_YET, RUN, Plans, committed, compact, planned_anew, require_read
from tests.spark.rows.conftest import Rows, json_rows, order
from tests.stores.builders import as_it_is_now

VALUES = [order(0), b'{"id": "1"}', order(2)]  # the second is bad, until its schema is mended
STRICT = json_rows()
MENDED = json_rows("id STRING, amount DECIMAL(10,2), kind STRING")
ALL_GOOD = RowDefinition(value=FieldFormat("string"))


def fail() -> NoReturn:
    raise OSError("the output does not answer")


@pytest.fixture
def batch(plans: Plans, produced: Any) -> StoredBatch:
    stored: StoredBatch = plans.batch({(produced(VALUES), 0): (0, 3)})
    return stored


@pytest.fixture
def elsewhere(rows: Rows) -> dict[str, Any]:
    return {"format": "parquet", "path": f"{rows.folder}/elsewhere"}


def test_a_driver_that_is_killed_between_the_outputs_is_not_committed_and_the_next_puts_both_right(
    rows: Rows, batch: StoredBatch
) -> None:
    rows.do(batch, STRICT, rows.bad)
    with pytest.raises(Killed):
        rows.do(batch, MENDED, rows.bad, between=die)
    assert (rows.offsets(rows.good), rows.offsets(rows.bad)) == ([0, 1, 2], [1])  # offset 1 is in both
    with pytest.raises(ReadNotVerified):
        require_read(batch)
    rows.do(batch, MENDED, rows.bad)
    rows.require_each_once(batch, 3, rows.bad)


def test_a_first_driver_that_is_killed_between_the_outputs_loses_no_bad_record(rows: Rows, batch: StoredBatch) -> None:
    with pytest.raises(Killed):
        rows.do(batch, STRICT, rows.bad, between=die)
    with pytest.raises(ReadNotVerified):
        require_read(batch)
    rows.do(batch, STRICT, rows.bad)
    rows.require_each_once(batch, 3, rows.bad)


@pytest.mark.parametrize("second", [MENDED, STRICT], ids=["mended", "as before"])
def test_a_driver_that_wakes_up_between_the_outputs_spoils_no_newer_attempt(
    rows: Rows, batch: StoredBatch, second: RowDefinition
) -> None:
    def newer() -> None:
        rows.do(batch, second, rows.bad)
        rows.require_each_once(batch, 3, rows.bad)

    with pytest.raises(LateAttempt):
        rows.do(batch, STRICT, rows.bad, between=newer)
    assert rows.offsets(rows.bad) == ([] if second is MENDED else [1])  # the late one has set nothing aside
    with pytest.raises(ReadNotVerified):  # its rows may have come after the newer one's
        require_read(batch)
    rows.do(batch, second, rows.bad)
    rows.require_each_once(batch, 3, rows.bad)


def test_a_driver_whose_batch_is_planned_anew_between_the_outputs_stops_and_the_new_plan_is_done(
    rows: Rows, plans: Plans, produced: Any
) -> None:
    topic = produced(VALUES)
    batch = plans.batch({(topic, 0): (0, 3)})
    fewer = plans.plan({(topic, 0): (0, 2)})
    with pytest.raises(PlanReplaced):
        rows.do(batch, STRICT, rows.bad, between=lambda: planned_anew(batch, fewer))
    with pytest.raises(ReadNotVerified):
        require_read(batch)
    rows.do(as_it_is_now(batch), STRICT, rows.bad)
    rows.require_each_once(batch, 2, rows.bad)


def test_a_write_that_fails_in_the_second_output_leaves_what_the_attempt_before_has_reported(
    rows: Rows, batch: StoredBatch
) -> None:
    rows.do(batch, STRICT, rows.bad)
    with pytest.raises(OSError, match="does not answer"):
        rows.do(batch, STRICT, rows.bad, between=fail)
    rows.require_each_once(batch, 3, rows.bad)


def test_a_write_that_fails_in_a_new_place_leaves_what_is_whole_in_the_old_one(
    rows: Rows, batch: StoredBatch, elsewhere: dict[str, Any]
) -> None:
    rows.do(batch, STRICT, elsewhere)
    with pytest.raises(OSError, match="does not answer"):
        rows.do(batch, STRICT, rows.bad, between=fail)
    rows.require_each_once(batch, 3, rows.bad, elsewhere)


def sink(rows: Rows, batch: StoredBatch) -> None:
    for_each_batch(rows.spark, sink_of(rows.good), rows.plans.arguments(batch))


def function(rows: Rows, batch: StoredBatch) -> None:
    write = files(rows.good["path"])
    for_each_batch(rows.spark, lambda records, batch: write(records, batch), rows.plans.arguments(batch))


def job_of_ones_own(rows: Rows, stored: StoredBatch) -> None:
    batch = planned_batch(rows.plans.arguments(stored))
    report_batch(batch, files(rows.good["path"])(read_batch(rows.spark, batch), batch))


def typed_without_bad_records(rows: Rows, batch: StoredBatch) -> None:
    rows.do(batch, ALL_GOOD)


def typed(rows: Rows, batch: StoredBatch) -> None:
    rows.do(batch, STRICT, rows.bad)


@pytest.mark.parametrize("last", [typed, sink])
def test_an_old_place_that_cannot_be_emptied_keeps_the_batch_from_being_committed(
    rows: Rows, batch: StoredBatch, elsewhere: dict[str, Any], last: Callable[[Rows, StoredBatch], None]
) -> None:
    rows.do(batch, STRICT, rows.bad)
    rows.do(batch, STRICT, elsewhere)
    stray = Path(elsewhere["path"], "rows of another kind")
    stray.mkdir()
    with pytest.raises(InvalidRequest, match="rows of another kind") as refused:
        last(rows, batch)
    assert "name the same bad_records in the DAG again" in "".join(refused.value.__notes__)
    assert rows.offsets(elsewhere) == [1]  # and by now a second time in another output
    with pytest.raises(ReadNotVerified):
        require_read(batch)
    stray.rmdir()
    rows.do(batch, STRICT, rows.bad)
    rows.require_each_once(batch, 3, rows.bad, elsewhere)


@pytest.mark.parametrize("again", [sink, function, job_of_ones_own, typed_without_bad_records])
def test_bad_records_are_taken_back_whatever_the_job_writes_now(
    rows: Rows, batch: StoredBatch, again: Callable[[Rows, StoredBatch], None]
) -> None:
    typed(rows, batch)
    again(rows, batch)
    assert rows.offsets(rows.bad) == []
    rows.require_each_once(batch, 3, rows.bad)


@pytest.mark.parametrize("again", [sink, job_of_ones_own, typed_without_bad_records, typed])
def test_a_batch_that_is_left_out_is_gone_from_both_outputs_whatever_the_job_writes_now(
    rows: Rows, batch: StoredBatch, again: Callable[[Rows, StoredBatch], None]
) -> None:
    typed(rows, batch)
    left_out = as_it_is_now(batch).append(Planned(emptied(batch.log.plan, Actor(RUN), "a test")))
    assert left_out is not None
    again(rows, left_out)
    rows.require_each_once(batch, 0, rows.bad)


def test_a_late_driver_of_a_plain_sink_does_not_take_back_what_a_newer_attempt_has_set_aside(
    rows: Rows, batch: StoredBatch
) -> None:
    typed(rows, batch)
    plain = sink_of(rows.good)

    def late(records: Any, batch: Any) -> Any:
        written = plain(records, batch)
        typed(rows, stored)
        return written

    stored = batch
    with pytest.raises(LateAttempt):
        for_each_batch(rows.spark, late, rows.plans.arguments(batch))
    assert rows.offsets(rows.bad) == [1]
    with pytest.raises(ReadNotVerified):
        require_read(batch)
    typed(rows, batch)
    rows.require_each_once(batch, 3, rows.bad)


def test_a_job_with_two_sinks_that_wakes_up_between_them_spoils_no_newer_attempt(
    rows: Rows, batch: StoredBatch
) -> None:
    """At its second sink it is told that it comes late; by then it has written to the first."""

    def late(records: Any, job: Any) -> Any:
        found = decode(records, job)
        good = files(rows.good["path"])(found.rows, job)
        rows.do(batch, MENDED, rows.bad)
        return found.divided(good, files(rows.bad["path"])(found.bad, job))

    create_object(batch.store, STRICT.object_name, STRICT.to_dict())
    with pytest.raises(LateAttempt):
        for_each_batch(rows.spark, late, [*rows.plans.arguments(batch), "--rows", STRICT.digest])
    assert rows.offsets(rows.bad) == []
    with pytest.raises(ReadNotVerified):
        require_read(batch)
    rows.do(batch, MENDED, rows.bad)
    rows.require_each_once(batch, 3, rows.bad)


def test_rows_that_are_written_where_bad_records_lay_stay_there(rows: Rows, batch: StoredBatch) -> None:
    typed(rows, batch)
    with pytest.raises(InvalidRequest, match="put it back until this batch is committed"):
        for_each_batch(rows.spark, sink_of(rows.bad), rows.plans.arguments(batch))
    plan, place = batch.log.plan, output_of(rows.bad)
    moved = planned_anew(batch, replace(plan, asked=replace(plan.asked, output=place)))  # somebody accepts it
    for_each_batch(rows.spark, sink_of(rows.bad), rows.plans.arguments(moved))
    require_read(moved)
    assert rows.offsets(rows.bad) == [0, 1, 2]


def test_a_split_that_is_done_again_leaves_the_bad_records_of_the_others(
    rows: Rows, plans: Plans, produced: Any
) -> None:
    batch = plans.batch({(produced([order(0), value]), 0): (0, 2) for value in (b"x", b"y")}, splits=2)
    assert [len(split) for split in batch.log.plan.splits] == [1, 1]
    for split in (0, 1):
        rows.do(batch, STRICT, rows.bad, split=split)
    require_read(batch)
    assert (rows.offsets(rows.good), rows.offsets(rows.bad)) == ([0, 0], [1, 1])
    rows.do(batch, ALL_GOOD, split=0)
    require_read(batch)
    assert (rows.offsets(rows.good), rows.offsets(rows.bad)) == ([0, 0, 1], [1])


def test_a_failed_job_of_ones_own_that_took_nothing_back_is_not_taken_for_whole(rows: Rows, batch: StoredBatch) -> None:
    """Its output has each record, and the bad one is in the old place too."""
    typed(rows, batch)

    class Fails:
        output = rows.good["path"]

        def __call__(self, records: Any, batch: Any) -> None:
            files(self.output)(records, batch)
            raise OSError("after the write")

        def written(self, spark: Any, batch: Any) -> Any:
            return files(self.output).written(spark, batch)

    with pytest.raises(OSError, match="after the write"):
        for_each_batch(rows.spark, Fails(), rows.plans.arguments(batch))
    assert (rows.offsets(rows.good), rows.offsets(rows.bad)) == ([0, 1, 2], [1])
    with pytest.raises(ReadNotVerified):
        require_read(batch)


def test_the_split_of_a_reader_of_folders_keeps_its_topic(rows: Rows, plans: Plans, produced: Any) -> None:
    """Spark takes a folder ``topic=2026`` for a number, and would fail where another output has a word."""
    numeric, word = "2026", produced([b"no json"])
    broker = plans.broker
    broker.create_topic(numeric, 1, None)
    broker.produce(numeric, [(0, None, order(0), None)])
    batch = plans.batch({(numeric, 0): (0, 1), (word, 0): (0, 1)})
    rows.do(batch, STRICT, rows.bad, sink={**rows.good, "partition_by": ["topic"]})
    require_read(batch)


@pytest.mark.parametrize("job", [sink, typed])
def test_a_committed_batch_keeps_the_rows_whose_records_compaction_has_taken(
    rows: Rows, plans: Plans, broker: KafkaBroker, topic: Callable[..., str], job: Callable[[Rows, StoredBatch], None]
) -> None:
    """Its run is cleared a week later. The topic has the newest record of each key; the output has the history."""
    name = topic(config=COMPACTED | NOT_YET)
    broker.produce(name, [(0, b"same", order(number), None) for number in range(10)])
    batch = plans.batch({(name, 0): (0, 10)})
    for _ in range(2):
        job(rows, batch)
        rows.require_each_once(batch, 10)
        committed(batch)
    compact(broker, name)
    with pytest.raises(DataLoss, match=r"\[0\]: compaction has taken 9 records\n.* there is nothing to do"):
        job(rows, batch)
    assert rows.offsets(rows.good) == list(range(10))
    shutil.rmtree(rows.good["path"])  # as the message says, for who wants what is left
    job(rows, batch)
    assert rows.offsets(rows.good) == [9]
