"""``{topic}`` in the sink: each topic has an output of its own, and each record is in that of its topic, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.errors import BadRecords, ReadNotVerified, UnknownOutput
from airflow_kafka_offsets.plan.topic_outputs import of_topic
from airflow_kafka_offsets.values.row_definition import FieldFormat, RowDefinition
from tests.contract.troubles import Killed, die
from tests.spark.conftest import Plans, planned_anew, require_read
from tests.spark.rows.conftest import Rows, json_rows, order

ORDERS = json_rows("id BIGINT, amount INT")
GOOD = [order(0), order(1)]


@pytest.fixture
def sink(rows: Rows) -> dict[str, Any]:
    return {"format": "parquet", "path": f"{rows.folder}/lake/{{topic}}"}


def seen(rows: Rows, *topics: str) -> list[list[int]]:
    """What somebody sees who reads the folder of each topic as a whole."""
    return [rows.offsets({"path": f"{rows.folder}/lake/{topic.lower().replace('-', '_')}"}) for topic in topics]


def test_each_topic_has_its_folder_and_bad_records_of_all_go_to_one_place(
    rows: Rows, plans: Plans, produced: Any, sink: dict[str, Any]
) -> None:
    one, two = produced([*GOOD, b"bad"]), produced([b"bad", order(1)])
    batch = plans.batch({(one, 0): (0, 3), (two, 0): (0, 2)})
    rows.do(batch, ORDERS, rows.bad, sink=sink)
    require_read(batch)
    assert seen(rows, one, two) == [[0, 1], [1]]
    assert sorted(rows.table(rows.bad, "topic", "offset")) == sorted([(one, 2), (two, 0)])
    reads = rows.report(batch).partitions
    assert {tp.topic: (read.row_count, read.set_aside) for tp, read in reads.items()} == {one: (3, 1), two: (2, 1)}


def test_each_topic_has_a_schema_of_its_own(rows: Rows, plans: Plans, produced: Any, sink: dict[str, Any]) -> None:
    one, two = produced([order(7)]), produced([b"text"])
    batch = plans.batch({(one, 0): (0, 1), (two, 0): (0, 1)})
    formats = {one: (FieldFormat("json", "id BIGINT"), None), two: (FieldFormat("string"), None)}
    rows.do(batch, RowDefinition(topics=formats), sink=sink)
    require_read(batch)
    folders = [{"path": sink["path"].format(topic=topic.lower().replace("-", "_"))} for topic in (one, two)]
    assert [rows.table(folder, column) for folder, column in zip(folders, ("id", "value"), strict=True)] == [
        [(7,)],
        [("text",)],
    ]


def test_a_topic_that_a_new_plan_gives_to_another_split_is_in_the_output_once(
    rows: Rows, plans: Plans, produced: Any, sink: dict[str, Any]
) -> None:
    one, two = produced(GOOD), produced(GOOD)
    ends = {(one, 0): (0, 2), (two, 0): (0, 2)}
    batch = plans.batch(ends)
    rows.do(batch, ORDERS, sink=sink)
    assert seen(rows, one, two) == [[0, 1], [0, 1]]
    anew = planned_anew(batch, plans.plan(ends, splits=2))
    assert [len(split) for split in anew.log.plan.splits] == [1, 1]
    rows.do(anew, ORDERS, sink=sink, split=0)
    [left] = [tp.topic for tp in rows.report(anew).partitions]
    gone = one if left == two else two
    assert seen(rows, gone) == [[]]  # the other split has not come yet
    rows.do(anew, ORDERS, sink=sink, split=1)
    require_read(anew)
    assert seen(rows, one, two) == [[0, 1], [0, 1]]


@pytest.mark.parametrize("of_their_own", [False, True], ids=["one schema", "schemas of their own"])
def test_a_topic_that_a_new_plan_drops_leaves_nothing(
    rows: Rows, plans: Plans, produced: Any, sink: dict[str, Any], of_their_own: bool
) -> None:
    one, two = produced(GOOD), produced([*GOOD, b"bad"])
    batch = plans.batch({(one, 0): (0, 2), (two, 0): (0, 3)}, splits=2)
    for split in (0, 1):
        rows.do(batch, ORDERS, rows.bad, sink=sink, split=split)
    assert seen(rows, one, two) == [[0, 1], [0, 1]]
    anew = planned_anew(batch, plans.plan({(one, 0): (0, 2)}, splits=2, overwrites=(0, 1)))
    definition = RowDefinition(topics={one: (ORDERS.value, None)}) if of_their_own else ORDERS
    for split in (0, 1):
        rows.do(anew, definition, rows.bad, sink=sink, split=split)
    require_read(anew)
    assert seen(rows, one, two) == [[0, 1], []]
    assert rows.offsets(rows.bad) == []


def test_a_driver_that_is_killed_between_the_topics_is_not_committed_and_the_next_puts_both_right(
    rows: Rows, plans: Plans, produced: Any, sink: dict[str, Any]
) -> None:
    one, two = sorted([produced(GOOD), produced(GOOD)])
    batch = plans.batch({(one, 0): (0, 2), (two, 0): (0, 2)})
    with pytest.raises(Killed):
        rows.do(batch, ORDERS, sink=sink, before_table=(1, die))
    assert seen(rows, one, two) == [[0, 1], []]
    with pytest.raises(ReadNotVerified):
        require_read(batch)
    rows.do(batch, ORDERS, sink=sink)
    require_read(batch)
    assert seen(rows, one, two) == [[0, 1], [0, 1]]


def test_the_limit_is_that_of_all_topics_of_the_batch(
    rows: Rows, plans: Plans, produced: Any, sink: dict[str, Any]
) -> None:
    one, two = produced([order(0), b"bad"]), produced([b"bad", order(1)])
    batch = plans.batch({(one, 0): (0, 2), (two, 0): (0, 2)})
    with pytest.raises(BadRecords, match=r"2 records of .* are bad"):
        rows.do(batch, ORDERS, rows.bad, limit=1, sink=sink)
    assert seen(rows, one, two) == [[], []]


def test_an_output_of_a_topic_that_holds_unknown_batches_is_refused(
    rows: Rows, plans: Plans, produced: Any, sink: dict[str, Any]
) -> None:
    one, two = produced(GOOD), produced(GOOD)
    later = plans.batch({(two, 0): (0, 2)}, number=5, after="0000000004-20261120T100000-lost", characters="lost")
    rows.do(later, ORDERS, sink=sink)
    with pytest.raises(UnknownOutput, match=later.log.plan.batch.key):
        rows.do(plans.batch({(one, 0): (0, 2), (two, 0): (0, 2)}), ORDERS, sink=sink)
    assert seen(rows, one, two) == [[], [0, 1]]


def test_a_topic_without_records_in_this_batch_is_left_alone(
    rows: Rows, plans: Plans, produced: Any, sink: dict[str, Any]
) -> None:
    one, two = produced(GOOD), produced(GOOD)
    batch = plans.batch({(one, 0): (0, 2), (two, 0): (2, 2)})
    rows.do(batch, ORDERS, sink=sink)
    require_read(batch)
    assert seen(rows, one) == [[0, 1]]
    assert not Path(sink["path"].format(topic=two.lower().replace("-", "_"))).exists()


def test_gaps_of_transactions_are_no_missing_records(
    rows: Rows, plans: Plans, with_transactions: str, produced: Any, sink: dict[str, Any]
) -> None:
    other = produced([b"text"])
    batch = plans.batch({(with_transactions, 0): (0, 12), (other, 0): (0, 1)}, isolation_level="read_committed")
    rows.do(batch, RowDefinition(value=FieldFormat("string")), sink=sink)
    require_read(batch)
    assert seen(rows, with_transactions, other) == [[0, 1, 2, 3, 4, 10, 11], [0]]
    assert rows.report(batch).proof == "compared"


def test_records_whose_topic_has_no_schema_are_not_counted_as_rows(rows: Rows, plans: Plans, produced: Any) -> None:
    one = produced(GOOD)
    batch = plans.batch({(one, 0): (0, 2)})
    rows.do(batch, RowDefinition(topics={"another": (ORDERS.value, None)}))
    assert rows.offsets(rows.good) == []
    with pytest.raises(ReadNotVerified, match="short: 0 of 2 records"):
        require_read(batch)


@pytest.mark.parametrize("first", ["A", "a"])
def test_a_topic_that_takes_the_output_of_one_that_a_new_plan_drops_replaces_its_rows(
    rows: Rows, plans: Plans, produced: Any, sink: dict[str, Any], first: str
) -> None:
    gone = produced(GOOD, prefix=first)
    there = produced(GOOD, name=first.swapcase() + gone[1:])
    batch = plans.batch({(gone, 0): (0, 2)})
    rows.do(batch, ORDERS, sink=sink)
    anew = planned_anew(batch, plans.plan({(there, 0): (0, 2)}))
    rows.do(anew, ORDERS, sink=sink)
    require_read(anew)
    folder = {"path": sink["path"].format(topic=of_topic("{topic}", gone))}
    assert rows.table(folder, "topic", "offset") == [(there, 0), (there, 1)]
