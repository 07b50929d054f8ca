"""Bad records of a committed batch whose records are gone from Kafka become rows, or stay where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.rows.config import BadRecords, Merge
from airflow_kafka_offsets.spark.errors import BadRecords as TooManyBadRecords
from airflow_kafka_offsets.spark.errors import ConditionNotMet, OutputLost, RecordsGone
from airflow_kafka_offsets.spark.run import Work
from airflow_kafka_offsets.store.objects import create_object
from testbed.broker import KafkaBroker
from tests.spark.rows.conftest import Lake
from tests.spark.rows.healing import VALUES, Orders, lenient, new, old

pytestmark = pytest.mark.long

KINDS = ("delta", "iceberg")
Make = Callable[..., Orders]


@pytest.fixture
def orders_of(spark: SparkSession, broker: KafkaBroker, topic: Callable[..., str], tmp_path: Path) -> Make:
    """`orders_of(kind)`: batch 1 is committed with one row and three bad records, which Kafka has no more."""

    def make(kind: str = "delta", **more: object) -> Orders:
        lake = Lake(spark, kind, tmp_path)
        orders = Orders(lake, broker, topic(), old(lake, **more))
        orders.produce()
        orders.run("a")
        orders.forget(len(VALUES))
        return orders

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_a_corrected_definition_heals_bad_records_in_their_batch(orders_of: Make, kind: str) -> None:
    orders = orders_of(kind)
    assert (orders.seen(), orders.committed(1)) == (([0], [1, 2, 3]), (1, 3, 0))
    orders.definition = new(orders.lake)
    work = orders.run("a")
    assert "its bad records are read again" in work.summary
    assert (orders.seen(), orders.committed(1)) == (([0, 1, 3], [2]), (3, 1, 0))
    assert orders.lake.table("good", "id", "amount", "kafka_batch") == [
        (0, 1.0, work.key), (1, 2.5, work.key), (3, -4.5, work.key)]  # fmt: skip
    assert orders.lake.table("bad", "key", "value", "kafka_batch") == [(b"k", b"none", work.key)]
    assert orders.batch(1).plan.from_outputs

    orders.definition = lenient(orders.lake)  # once more, by the next definition
    orders.run("a")
    assert (orders.seen(), orders.committed(1)) == (([0, 1, 2, 3], []), (4, 0, 0))
    assert [row[1] for row in orders.lake.table("good", "id", "amount")] == [1.0, 2.5, None, -4.5]
    orders.produce()
    orders.run("b")
    assert orders.offsets("good") == [*range(8)]


def test_the_definition_that_committed_them_heals_nothing_and_the_run_says_why(orders_of: Make) -> None:
    orders = orders_of()
    work = orders.run("a")
    assert work.is_left
    assert "3 bad records cannot be healed by the definition of rows that committed them" in work.summary
    assert "Run with latest bundle version" in work.summary
    assert (orders.batch(1).highest_attempt, len(orders.batch(1).entries)) == (1, 2)


def test_a_definition_by_which_records_are_bad_again_moves_no_row_back(orders_of: Make) -> None:
    orders = orders_of()
    for definition in (new(orders.lake), old(orders.lake)):
        orders.definition = definition
        orders.run("a")
        assert (orders.seen(), orders.committed(1)) == (([0, 1, 3], [2]), (3, 1, 0))


def test_what_where_would_filter_stays_bad_because_its_bytes_are_nowhere_else(orders_of: Make) -> None:
    orders = orders_of()
    orders.definition = new(orders.lake, where="value.amount > 0", expect={"small": "value.amount < 9"})
    orders.run("a")
    assert (orders.seen(), orders.committed(1)) == (([0, 1], [2, 3]), (2, 2, 0))
    reasons = orders.lake.table("bad", "reason")
    assert reasons[1] == ("the expectation 'where value.amount > 0' is not met",)


def test_an_attempt_that_did_not_end_is_mended_though_compaction_has_taken_records_since(
    orders_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else merges would ask for ever for a clear that is refused. What no attempt has begun stays as it is."""

    def refuse(work: Work, records: DataFrame) -> None:
        raise RecordsGone("Batch 2 is not rewritten", "Kafka has fewer records", "Its rows stay")

    orders = orders_of()
    orders.definition = lenient(orders.lake)
    orders.produce()
    orders.run("b")
    work = orders.resolve("b")
    monkeypatch.setattr(Work, "_refuse_fewer", refuse)
    with pytest.raises(RecordsGone):
        orders.drive(work)
    begun = {"version": 1, "plan_id": work.batch.plan.plan_id, "job": None, "output": work.batch.plan.output}
    create_object(work.log.store, f"{work.log.folder(2)}/2-0a1b2c3d.begun.json", begun)
    orders.drive(work)
    orders.commit(work)
    assert (orders.seen_of(2), orders.batch(2).is_closed) == (([0, 1, 2, 3], []), True)


@pytest.mark.parametrize("kind", KINDS)
def test_filtered_records_and_gaps_are_counted_as_before(orders_of: Make, kind: str) -> None:
    orders = orders_of(kind, where="value IS NULL OR value.id IS NULL OR value.id > 0")
    assert (orders.seen(), orders.committed(1)) == (([], [1, 2, 3]), (0, 3, 1))
    orders.definition = new(orders.lake)
    orders.run("a")
    assert (orders.seen(), orders.committed(1)) == (([1, 3], [2]), (2, 1, 1))


def test_a_healed_record_takes_its_old_place_in_the_entity_table(orders_of: Make) -> None:
    """A later batch has a newer row of one key."""
    orders = orders_of()
    orders.merge = Merge(f"{orders.lake.folder}/entities", keys=["id"])
    orders.produce(b'{"id":1,"amount":10}')
    last = orders.run("b")
    orders.merge_into_entities(last)
    assert orders.lake.entities == {0: 1.0, 1: 10.0}
    orders.forget(len(VALUES) + 1)
    orders.definition = new(orders.lake)
    orders.merge_into_entities(orders.run("a"))
    assert orders.offsets("good") == [0, 1, 3, 4]
    assert orders.lake.entities == {0: 1.0, 1: 10.0, 3: -4.5}


def test_rows_that_are_not_as_ensured_or_too_many_bad_ones_are_not_written(orders_of: Make) -> None:
    orders = orders_of()
    before = orders.versions()
    orders.definition = new(orders.lake, ensure={"few": "count(*) < 3"})
    with pytest.raises(ConditionNotMet, match="is unchanged"):
        orders.run("a")
    orders.definition = new(orders.lake, bad=BadRecords(orders.lake.sink("bad"), limit=0))
    with pytest.raises(TooManyBadRecords, match="1 of 4, and the limit is 0"):
        orders.run("a")
    assert (orders.versions(), orders.seen(), orders.committed(1)) == (before, ([0], [1, 2, 3]), (1, 3, 0))
    orders.definition = new(orders.lake, ensure={"few": "count(*) < 4"})
    orders.run("a")
    assert orders.seen() == ([0, 1, 3], [2])


EDITS = {
    "DELETE FROM {good} WHERE offset = 0": "0 has 3 rows and bad records of 3 offsets, and was committed with 4",
    "DELETE FROM {bad} WHERE offset = 2": "0 has 3 rows and bad records of 3 offsets, and was committed with 4",
    "INSERT INTO {good} SELECT * FROM {good}": "0 has 5 rows and bad records of 4 offsets, and was committed with 4",
    "UPDATE {bad} SET offset = 1 WHERE offset = 2": "0 has 4 rows and bad records of 3 offsets, and was committed with",
}


def test_a_table_that_somebody_changed_stops_it_before_anything_is_written(orders_of: Make) -> None:
    orders = orders_of()
    orders.definition = new(orders.lake)
    tables, before = {name: orders.sql(name) for name in ("good", "bad")}, orders.versions()
    for edit, said in EDITS.items():
        orders.lake.spark.sql(edit.format(**tables))
        edited = orders.versions()
        with pytest.raises(OutputLost, match=f"-{said}"):
            orders.run("a")
        assert orders.versions() == edited
        for name, table in tables.items():
            orders.lake.spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {before[name]}")
    orders.run("a")
    assert (orders.seen(), orders.committed(1)) == (([0, 1, 3], [2]), (3, 1, 0))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_batches_are_healed_one_after_the_other(orders_of: Make, kind: str) -> None:
    """The newest first, as a person clears them."""
    orders, count = orders_of(kind), 6
    for number in range(2, count + 1):
        orders.produce()
        orders.run(f"run {number}")
    offsets = range(count * len(VALUES))
    orders.forget(len(offsets))
    assert orders.seen() == ([o for o in offsets if o % 4 == 0], [o for o in offsets if o % 4])
    orders.definition = new(orders.lake)
    for name in (*(f"run {number}" for number in range(count, 1, -1)), "a"):
        orders.run(name)
    assert orders.seen() == ([o for o in offsets if o % 4 != 2], [o for o in offsets if o % 4 == 2])
    assert {orders.committed(number) for number in range(1, count + 1)} == {(3, 1, 0)}
    amounts = [row[0] for row in orders.lake.table("good", "amount")]
    assert amounts == [1.0, 2.5, -4.5] * count
