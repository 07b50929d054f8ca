"""Splits: Flink's assigner bit for bit (H1, H3, H4; H2 is a law), and splits of balanced size."""

from itertools import chain

import pytest

from airflow_kafka_offsets.plan.splits import (
    flink_owner,
    java_string_hash,
)
from tests.builders import plan, planned, tp

LONG = "a-very-long-topic-name-that-overflows-thirty-two-bits.many.times.over_0123456789"

# Printed by a Java 17: topic.hashCode(), and ((topic.hashCode() * 31) & 0x7FFFFFFF) % n of partition 0.
JAVA = [
    pytest.param("", 0, {1: 0, 3: 0, 4: 0, 7: 0}, id="empty"),
    pytest.param("orders", -1008770331, {1: 0, 3: 0, 4: 3, 7: 3}, id="a negative hash"),
    pytest.param("ow-orders", -1548760470, {1: 0, 3: 1, 4: 2, 7: 3}, id="H1 ow-orders"),
    pytest.param("ow-clicks", -1897704592, {1: 0, 3: 1, 4: 0, 7: 0}, id="H1 ow-clicks"),
    pytest.param("polygenelubricants", -(2**31), {1: 0, 3: 0, 4: 0, 7: 0}, id="Integer.MIN_VALUE"),
    pytest.param(LONG, 244505529, {1: 0, 3: 0, 4: 3, 7: 0}, id="long: overflows many times"),
    pytest.param("\U0001f600", 1772899, {1: 0, 3: 1, 4: 1, 7: 6}, id="outside of the BMP: two UTF-16 units"),
    pytest.param("télémétrie-\U0001f600-日本", -213116180, {1: 0, 3: 0, 4: 0, 7: 3}, id="mixed"),
]


@pytest.mark.parametrize(("topic", "hash_code", "owners"), JAVA)
def test_H1_the_hash_is_javas(topic, hash_code, owners):
    assert java_string_hash(topic) == hash_code % 2**32


@pytest.mark.parametrize(("topic", "hash_code", "owners"), JAVA[1:])
def test_H1_the_owner_is_flinks(topic, hash_code, owners):
    assert {n: flink_owner(tp(0, topic), n) for n in owners} == owners


@pytest.mark.parametrize(("topic", "owners"), [("ow-orders", [2, 3, 0]), ("ow-clicks", [0, 1, 2])])
def test_H1_what_real_flink_assigned_to_four_subtasks(topic, owners):
    assert [flink_owner(tp(number, topic), 4) for number in range(3)] == owners


@pytest.mark.parametrize("parallelism", [0, -1])
def test_H4_no_split_is_an_error(parallelism):
    with pytest.raises(ValueError, match=f"parallelism {parallelism} is not positive"):
        flink_owner(tp(0), parallelism)


def numbers(splits):
    return [[p.topic_partition.partition for p in split] for split in splits]


def test_H1_split_by_flink_gives_each_split_what_flinks_subtask_would_read():
    rows = [planned(tp(number, "ow-orders"), 0, 10) for number in range(5)]
    assert numbers(plan(rows, splits=4, split_by="flink").splits) == [[2], [3], [0, 4], [1]]


def test_split_by_size_balances_records_and_not_partitions():
    rows = [planned(0, 0, 90), *[planned(n, 0, 30) for n in (1, 2, 3)]]
    assert numbers(plan(rows, splits=2).splits) == [[0], [1, 2, 3]]


@pytest.mark.parametrize("rule", ["size", "flink"])
def test_H3_splits_beyond_the_partitions_are_empty_and_keep_their_numbers(rule):
    rows = [planned(0, 0, 9), planned(1, 0, 5)]
    made = plan(rows, splits=5, split_by=rule)
    splits = made.splits
    assert len(splits) == 5
    assert sorted(chain(*numbers(splits))) == [0, 1]
    assert made.splits_to_start() == [number for number, split in enumerate(splits) if split]
    assert len(made.splits_to_start()) == 2


@pytest.mark.parametrize("rule", ["size", "flink"])
def test_a_partition_without_records_is_in_no_split(rule):
    made = plan([planned(0, 5, 5), planned(1, 0, 5)], splits=2, split_by=rule)
    assert sorted(chain(*numbers(made.splits))) == [1]


def test_a_plan_without_records_starts_no_split():
    assert plan([planned(0, 5, 5)], splits=3).splits_to_start() == []


def test_a_split_that_an_earlier_plan_wrote_is_started_without_records_and_once():
    """What its jobs wrote has to go; a split that has records is overwritten anyway."""
    made = plan([planned(0, 0, 9)], splits=3, overwrites=(0, 2))
    assert made.splits_with_rows() == {0, 2}
    assert made.splits_to_start() == [0, 2]
    assert [len(split) for split in made.splits] == [1, 0, 0]
