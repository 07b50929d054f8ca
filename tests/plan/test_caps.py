"""Caps lower ends, never starts; what one run leaves is the next run's, and no partition waits for ever."""

from dataclasses import replace

import pytest

from airflow_kafka_offsets.kafka_values import OffsetRange
from airflow_kafka_offsets.plan.splits import cap, fair_shares
from tests.builders import planned


@pytest.mark.parametrize(
    ("wanted", "total", "shares"),
    [
        pytest.param([10, 10], 8, [4, 4], id="equal parts"),
        pytest.param([2, 100, 100], 20, [2, 9, 9], id="small ones whole, the rest in equal parts"),
        pytest.param([100, 2, 100], 20, [9, 2, 9], id="in the order given"),
        pytest.param([5, 5], 10, [5, 5], id="all of it"),
        pytest.param([5, 5], 99, [5, 5], id="never more than wanted"),
        pytest.param([0, 7, 0], 3, [0, 3, 0], id="an empty partition gets nothing"),
        pytest.param([], 5, [], id="no partition"),
    ],
)
def test_shares_are_as_equal_as_the_wants_allow(wanted, total, shares):
    assert fair_shares(wanted, total) == shares


@pytest.mark.parametrize("total", [1, 2, 4])
def test_a_cap_below_the_number_of_partitions_still_reads_that_many(total):
    """HUDI-918: a limit that was divided by the number of partitions came to 0, and nothing was ever read."""
    assert sum(fair_shares([50] * 5, total)) == total


@pytest.mark.parametrize(
    ("max_records", "per_partition", "ends"),
    [
        pytest.param(None, None, [12, 105, 7], id="no cap"),
        pytest.param(None, 3, [12, 103, 7], id="per partition"),
        pytest.param(None, 4, [12, 104, 7], id="per partition, one is carried over"),
        pytest.param(4, None, [12, 102, 7], id="per run"),
        pytest.param(10, 3, [12, 103, 7], id="both, the first is the tighter"),
        pytest.param(4, 3, [12, 102, 7], id="both, the second is the tighter"),
    ],
)
def test_a_cap_lowers_ends_and_leaves_starts(max_records, per_partition, ends):
    rows = cap([planned(0, 10, 12), planned(1, 100, 105), planned(2, 7, 7)], max_records, per_partition)
    assert [p.start_offset for p in rows] == [10, 100, 7]
    assert [p.end_offset for p in rows] == ends


def test_a_capped_end_says_how_much_is_carried_over():
    rows = [planned(0, 0, 2), planned(1, 0, 9, lost=3, committed_offset=0, continuity="gap")]
    whole, capped = cap(rows, None, 2)
    assert whole == rows[0]
    assert capped == replace(rows[1], range=OffsetRange(0, 2), end_reason="latest, capped: 7 carried over", past_end=7)
    more = [replace(rows[0], past_end=4), replace(rows[1], past_end=1)]
    assert [p.past_end for p in cap(more, None, 2)] == [4, 8], "what lies behind an end by time is behind the cap too"


@pytest.mark.parametrize(("turn", "shares"), [(0, [1, 1, 0]), (1, [0, 1, 1]), (2, [1, 0, 1]), (3, [1, 1, 0])])
def test_what_cannot_be_divided_goes_round(turn, shares):
    assert fair_shares([9, 9, 9], 2, turn) == shares


@pytest.mark.parametrize("busy", [0, 1])
def test_no_partition_starves_while_a_smaller_one_is_kept_busy(busy):
    """One record a run, and one is produced into the busy one before each run: the old ones of the other are read."""
    old, start, end = 1 - busy, [0, 0], [3, 3]
    end[busy] = 0
    for _run in range(12):
        end[busy] += 1
        rows = cap([planned(n, start[n], end[n]) for n in (0, 1)], 1, None)
        start = [p.end_offset for p in rows]
    assert start[old] == 3
    assert start[busy] == 12 - 3


@pytest.mark.parametrize("busy", [0, 1])
def test_one_record_is_read_although_more_come_elsewhere_than_a_run_may_read(busy):
    start, end = [0, 0], [1, 1]
    end[busy] = 0
    for _run in range(2):
        end[busy] += 5
        rows = cap([planned(n, start[n], end[n]) for n in (0, 1)], 1, None)
        start = [p.end_offset for p in rows]
    assert start == [1, 1]
