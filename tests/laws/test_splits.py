"""Splits by size: every offset in one split, no cut without need, and as even as can be for skews as they occur."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.splits import LEAST_CUT
from tests.builders import plan, planned
from tests.laws.test_laws import law

sizes_of_partitions = st.lists(st.one_of(st.integers(0, 50), st.integers(0, 300_000)), max_size=12)


def made_of(sizes, splits):
    rows = [planned(TopicPartition("orders", number), 3, 3 + size) for number, size in enumerate(sizes)]
    return plan(rows, splits=splits)


def loads(made):
    return [sum(p.range.size for p in split) for split in made.splits]


@law
@given(sizes_of_partitions, st.integers(1, 12))
def test_the_splits_together_are_the_plan_each_offset_once(sizes, count):
    made = made_of(sizes, count)
    splits = made.splits
    assert len(splits) == count
    for split in splits:
        partitions = [p.topic_partition for p in split]
        assert partitions == sorted(set(partitions)), "a partition is in a split once, for a report counts by partition"
        assert all(p.range.size for p in split)
    for whole in made.partitions:
        pieces = sorted(
            (p.start_offset, p.end_offset)
            for split in splits
            for p in split
            if p.topic_partition == whole.topic_partition
        )
        assert (
            [pieces[0][0], pieces[-1][1]] == [whole.start_offset, whole.end_offset] if whole.range.size else not pieces
        )
        assert all(before[1] == after[0] for before, after in pairwise(pieces)), "contiguous"


@law
@given(sizes_of_partitions, st.integers(1, 12))
def test_no_range_is_cut_unless_it_alone_is_more_than_an_even_split(sizes, count):
    made = made_of(sizes, count)
    share = -(-sum(sizes) // count)
    found = [p.topic_partition.partition for split in made.splits for p in split]
    for number, size in enumerate(sizes):
        if size <= max(share, LEAST_CUT):
            assert found.count(number) == (size > 0)
        else:
            assert found.count(number) > 1
            assert max(loads(made)) <= max(share, LEAST_CUT, 2 * max((s for s in sizes if s <= share), default=0))


def zipf(partitions: int, exponent: float) -> list[int]:
    return [int(1e7 / rank**exponent) for rank in range(1, partitions + 1)]


def best_possible(sizes: Sequence[int], count: int) -> int:
    """The least that the largest split can have, if only what is more than an even split is cut: all ways are tried."""
    share = -(-sum(sizes) // count)
    whole = [size for size in sizes if size <= share]
    low, high = share, max(share, sum(whole))
    while low < high:
        middle = (low + high) // 2
        if _bins(whole, middle) <= count:
            high = middle
        else:
            low = middle + 1
    return low


def _bins(sizes: list[int], most: int) -> int:
    """How many splits of at most ``most`` hold these, by the number and the last one's load of each subset."""
    least = [(1, 0)] + [(len(sizes) + 1, 0)] * (2 ** len(sizes) - 1)
    for subset in range(1, 2 ** len(sizes)):
        for item, size in enumerate(sizes):
            if subset >> item & 1:
                bins, load = least[subset ^ 1 << item]
                filled = (bins, load + size) if load + size <= most else (bins + 1, size)
                least[subset] = min(least[subset], filled)
    return least[-1][0]


@pytest.mark.parametrize("exponent", [0.3, 0.5, 0.8, 1.0, 1.5])
@pytest.mark.parametrize(("partitions", "count"), [(6, 2), (7, 3), (8, 4), (9, 3), (10, 4)])
def test_few_skewed_partitions_are_within_a_seventh_of_the_best_possible(partitions, count, exponent):
    """The longest range goes to the lightest split, which for ranges of any size is within a third (Graham)."""
    sizes = zipf(partitions, exponent)
    assert max(loads(made_of(sizes, count))) <= 8 / 7 * best_possible(sizes, count)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.5, 2.0])
@pytest.mark.parametrize(("partitions", "count"), [(100, 8), (100, 2), (1_000, 32), (10_000, 16)])
def test_many_skewed_partitions_are_within_a_twentieth_of_an_even_share(partitions, count, exponent):
    sizes = zipf(partitions, exponent)
    if exponent == 0.0:
        sizes = sizes[: partitions // count * count]
    assert max(loads(made_of(sizes, count))) <= 1.05 * -(-sum(sizes) // count)
