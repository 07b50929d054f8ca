"""A cap is shared fairly, used up, and starves nobody: whatever the backlogs are, and whatever arrives meanwhile."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.plan.backlog import more_runs
from airflow_kafka_offsets.plan.splits import cap, fair_shares
from tests.builders import planned
from tests.laws.examples import of_examples

law = of_examples(200)

WANTED = st.lists(st.one_of(st.just(0), st.integers(0, 9), st.integers(0, 10_000)), max_size=12)
TOTAL = st.one_of(st.integers(1, 30), st.integers(1, 100_000))
TURN = st.integers(0, 10**9)


@law
@given(WANTED, TOTAL, TURN)
def test_the_sum_is_the_cap_or_the_backlog_whichever_is_less(wanted: list[int], total: int, turn: int) -> None:
    assert sum(fair_shares(wanted, total, turn)) == min(total, sum(wanted))


@law
@given(WANTED, TOTAL, TURN)
def test_shares_are_max_min_fair_up_to_the_one_that_cannot_be_divided(wanted: list[int], total: int, turn: int) -> None:
    """Who has less than it wants could only get more from somebody who has no more than it."""
    shares = fair_shares(wanted, total, turn)
    assert all(0 <= share <= want for share, want in zip(shares, wanted, strict=True))
    hungry = [share for share, want in zip(shares, wanted, strict=True) if share < want]
    assert not hungry or max(shares) <= min(hungry) + 1


@law
@given(WANTED, TOTAL, TURN)
def test_whose_turn_it_is_moves_one_offset_at_most(wanted: list[int], total: int, turn: int) -> None:
    now, first = fair_shares(wanted, total, turn), fair_shares(wanted, total)
    assert all(abs(a - b) <= 1 for a, b in zip(now, first, strict=True))


@law
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=8),
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(1, 5)),
    st.data(),
)
def test_over_as_many_runs_as_the_cap_fits_into_the_partitions_each_one_with_a_backlog_advances(
    backlogs: list[int], most: int, per_partition: int | None, data: st.DataObject
) -> None:
    """However much arrives at the others before each run."""
    starts, ends = [0] * len(backlogs), list(backlogs)
    for _run in range(-(-len(backlogs) // most)):
        rows = cap([planned(n, starts[n], ends[n]) for n in range(len(ends))], most, per_partition)
        starts = [p.end_offset for p in rows]
        arrived = data.draw(st.lists(st.integers(0, 50), min_size=len(ends), max_size=len(ends)))
        ends = [end + more for end, more in zip(ends, arrived, strict=True)]
    assert all(start > 0 for start, backlog in zip(starts, backlogs, strict=True) if backlog)


@law
@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=8), st.integers(1, 60), st.one_of(st.none(), st.integers(1, 30))
)
def test_a_backlog_is_read_whole_in_about_the_runs_that_are_said(
    backlogs: list[int], most: int, per_partition: int | None
) -> None:
    """Never in fewer. Both caps together may take longer than the tighter one says: at most one after the other."""
    rows = [planned(n, 0, end) for n, end in enumerate(backlogs)]
    carried = {p.topic_partition: p.range.size for p in rows}
    said, runs = more_runs(carried, most, per_partition), 0
    while any(p.range.size for p in rows):
        done = cap(rows, most, per_partition)
        rows = [planned(n, p.end_offset, backlogs[n]) for n, p in enumerate(done)]
        runs += 1
    one = -(-sum(backlogs) // most)
    other = -(-max(backlogs) // per_partition) if per_partition else 0
    assert said <= runs <= one + other
    assert per_partition is not None or runs == said
