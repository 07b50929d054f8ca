"""Caps are shared fairly, and shards are Flink's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.body import PlannedRange
from airflow_kafka_offsets.plan.cap import cap_ranges, fair_shares, flink_owner, java_string_hash

sizes = st.lists(st.integers(0, 50), min_size=1, max_size=8)


@given(sizes, st.integers(1, 200), st.integers(0, 100))
def test_a_share_is_never_more_than_wanted_and_all_that_is_allowed_is_given(
    wanted: list[int], total: int, first: int
) -> None:
    shares = fair_shares(wanted, total, first)
    assert all(0 <= share <= want for share, want in zip(shares, wanted, strict=True))
    assert sum(shares) == min(total, sum(wanted))
    unmet = [share for share, want in zip(shares, wanted, strict=True) if share < want]
    assert not unmet or max(shares) - min(unmet) <= 1 or max(shares) <= min(unmet) + 1


@given(st.integers(1, 6), st.integers(1, 13))
def test_what_cannot_be_divided_goes_round(partitions: int, cap: int) -> None:
    """After as many runs as there are partitions, each has had the same: none waits for ever."""
    starts = {TopicPartition("t", n): 0 for n in range(partitions)}
    for _ in range(partitions):
        ranges = {tp: PlannedRange(start, 1_000) for tp, start in starts.items()}
        starts = {tp: capped.end for tp, capped in cap_ranges(ranges, cap).items()}
    assert set(starts.values()) == {cap}


@pytest.mark.parametrize(("topic", "owners"), [("ow-orders", [2, 3, 0]), ("ow-clicks", [0, 1, 2])])
def test_shards_are_those_of_flinks_assigner(topic: str, owners: list[int]) -> None:
    """Observed with real Flink, four subtasks (H1)."""
    assert [flink_owner(TopicPartition(topic, n), 4) for n in range(3)] == owners


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("Hello", 69609650), ("hello world", 1794106052)])
def test_a_hash_is_that_of_java(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_the_only_shard_has_every_partition() -> None:
    assert {flink_owner(TopicPartition("t", n), 1) for n in range(3)} == {0}


def test_no_shards_are_an_error() -> None:
    with pytest.raises(ValueError, match="not positive"):
        flink_owner(TopicPartition("t", 0), 0)
