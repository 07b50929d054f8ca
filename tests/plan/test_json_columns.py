"""Rows of partitions as columns by topic: read back as written, or refused; nothing else can happen."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.json_columns import from_columns, read_as, text, to_columns, whole
from airflow_kafka_offsets.kafka_values import TopicPartition
from tests.builders import tp

COLUMNS_READ = {"offset": (Any, False), "epoch": (Any, False)}
NAMES = tuple(COLUMNS_READ)
VALUE = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
PLACE = st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 2**31 - 1))
ROWS = st.dictionaries(PLACE, st.tuples(VALUE, VALUE), max_size=8)
ANYTHING = st.recursive(
    VALUE | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
COLUMNS = st.dictionaries(
    st.sampled_from(["partition", *NAMES, "later"]), ANYTHING | st.lists(st.integers(-1, 3) | VALUE, max_size=3)
)


@given(ROWS)
def test_rows_are_read_back_as_they_were_written(rows):
    found = dict(from_columns(json.loads(json.dumps(to_columns(NAMES, rows))), COLUMNS_READ))
    assert found == {where: dict(zip(NAMES, row, strict=True)) for where, row in rows.items()}


@given(ROWS)
def test_columns_are_parallel_and_sorted_by_partition(rows):
    for columns in to_columns(NAMES, rows).values():
        assert {len(column) for column in columns.values()} == {len(columns["partition"])}
        assert columns["partition"] == sorted(set(columns["partition"]))


@given(st.dictionaries(st.text(max_size=3), COLUMNS | ANYTHING, max_size=3) | ANYTHING)
def test_whatever_stands_there_is_rows_or_a_ValueError(found):
    """What a later version, or nobody at all, has written must be named as a damaged object, and not be a traceback."""
    try:
        rows = dict(from_columns(found, COLUMNS_READ))
    except ValueError:
        return
    assert all(isinstance(where, TopicPartition) and row.keys() == set(NAMES) for where, row in rows.items())


GOOD = {"orders": {"partition": [0, 1], "offset": [5, 9], "epoch": [None, 3]}}


def test_the_form_is_that_of_the_plan():
    assert to_columns(NAMES, {tp(1): (9, 3), tp(0): (5, None)}) == GOOD
    assert to_columns(NAMES, {}) == {}


def test_a_column_that_a_later_version_adds_is_passed_over():
    more = {"orders": {**GOOD["orders"], "rack": ["a"], "topic_id": "x"}}
    assert dict(from_columns(more, COLUMNS_READ)) == dict(from_columns(GOOD, COLUMNS_READ))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        pytest.param({"partition": None}, "'orders' has no partitions", id="no partitions"),
        pytest.param({"partition": 5}, "'orders' has no partitions", id="a number"),
        pytest.param({"epoch": None}, "'orders' has no column epoch for each", id="a column is missing"),
        pytest.param({"offset": [5]}, "'orders' has no column offset for each", id="a column is shorter"),
        pytest.param({"offset": [5, 9, 1]}, "'orders' has no column offset for each", id="a column is longer"),
        pytest.param({"offset": "59"}, "'orders' has no column offset for each", id="a text as long as the column"),
        pytest.param({"offset": {}, "epoch": 1}, "no column offset, epoch", id="two are wrong"),
        pytest.param({"partition": [0, 0]}, r"orders\[0\] is named twice", id="a partition twice"),
        pytest.param({"partition": [0, "1"]}, "'1' is not a whole number", id="digits"),
        pytest.param({"partition": [0, True]}, "True is not a whole number", id="a flag"),
        pytest.param({"partition": [0, 1.0]}, "1.0 is not a whole number", id="a float"),
        pytest.param({"partition": [0, -1]}, "not a partition", id="a sentinel"),
    ],
)
def test_malformed_columns_are_refused_by_name(columns, words):
    with pytest.raises(ValueError, match=words):
        dict(from_columns({"orders": {**GOOD["orders"], **columns}}, COLUMNS_READ))


@pytest.mark.parametrize("topics", [None, [], "orders", 5, {"orders": []}, {"orders": None}, {"": {"partition": [0]}}])
def test_what_is_no_object_of_topics_is_refused(topics):
    with pytest.raises(ValueError, match=r"no object of topics|no partitions|no column"):
        dict(from_columns(topics, COLUMNS_READ))


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, [], float("nan")], ids=str)
def test_a_whole_number_is_nothing_else(value):
    with pytest.raises(ValueError, match="is not a whole number"):
        whole(value)


@pytest.mark.parametrize("value", [1, None, True, b"x", ["x"]], ids=str)
def test_text_is_nothing_else(value):
    with pytest.raises(ValueError, match="is not text"):
        text(value)


def test_absent_is_None_where_it_may_be():
    assert (whole(0), whole(-5), read_as(int | None, None), read_as(int | None, 3)) == (0, -5, None, 3)
    assert (text(""), read_as(str | None, None), read_as(str | None, "x")) == ("", None, "x")


def test_a_column_that_is_missing_has_the_default_of_its_field():
    both = {"offset": (int, False), "epoch": (int | None, True)}
    assert dict(from_columns({"orders": {"partition": [0], "offset": [5]}}, both)) == {tp(0): {"offset": 5}}
