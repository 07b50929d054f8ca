"""Which partitions a window waits for, and how far the others have come."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_offsets.plan.completeness import Arrived, arrived_by, judge, moves
from tests.builders import snap, tp

END = 1_795_168_800_000
IDLE, SKEW = 300_000, 10_000
PAST = Arrived(END, past_end=True)
BEFORE = Arrived(END - 1)
EMPTY = Arrived()
OPEN = Arrived(END - 1, undecided=True)


def verdict(*arrived, now=END, **more):
    found = {tp(number): one for number, one in enumerate(arrived)}
    return judge(END, found, now_ms=now, idle_timeout_ms=IDLE, clock_skew_ms=SKEW, **more)


@pytest.mark.parametrize(
    ("arrived", "after_ms", "waiting", "idle"),
    [
        pytest.param([PAST], 0, [], [], id="a record at the end"),
        pytest.param([PAST], -3_600_000, [], [], id="a producer's clock that is ahead"),
        pytest.param([BEFORE], 0, [0], [], id="none at the end, just now"),
        pytest.param([BEFORE], IDLE - 1, [0], [], id="none at the end, a moment before the timeout"),
        pytest.param([BEFORE], IDLE, [], [0], id="none at the end for as long as the timeout"),
        pytest.param([PAST, EMPTY], IDLE - 1, [1], [], id="an empty partition is waited for"),
        pytest.param([PAST, EMPTY], IDLE, [], [1], id="an empty partition, no longer than the timeout"),
        pytest.param([EMPTY, EMPTY], IDLE, [], [0, 1], id="an empty topic"),
        pytest.param([PAST, OPEN], 10 * IDLE, [1], [], id="an open transaction is waited for, whatever the clock says"),
        pytest.param([Arrived(None, True, True)], 0, [], [], id="a transaction that was opened past the end"),
        pytest.param([], 0, [], [], id="no partition"),
    ],
)  # fmt: skip
def test_who_is_waited_for(arrived, after_ms, waiting, idle):
    judged = verdict(*arrived, now=END + after_ms)
    assert [t.partition for t in judged.waiting] == waiting
    assert [t.partition for t in judged.idle] == idle
    assert judged.complete == (not waiting)


@pytest.mark.parametrize("found", [BEFORE, EMPTY])
@pytest.mark.parametrize(("after_ms", "complete"), [(0, False), (SKEW - 1, False), (SKEW, True)])
def test_where_the_broker_stamps_the_records_the_clock_decides(found, after_ms, complete):
    judged = verdict(found, now=END + after_ms, append_time_topics={"orders"})
    assert judged.complete == complete
    assert judged.idle == ()


def test_an_open_transaction_holds_where_the_broker_stamps_the_records_too():
    assert not verdict(OPEN, now=END + 10 * IDLE, append_time_topics={"orders"}).complete


def test_other_topics_do_not_profit_from_a_brokers_stamps():
    assert not verdict(BEFORE, now=END + SKEW, append_time_topics={"clicks"}).complete


def test_a_partition_that_moves_is_not_idle():
    moved = {tp(0): END + IDLE}
    assert not verdict(BEFORE, now=END + 2 * IDLE - 1, moved_ms=moved).complete
    assert verdict(BEFORE, now=END + 2 * IDLE, moved_ms=moved).idle == (tp(0),)


def test_a_topic_may_have_an_end_of_its_own():
    found = {tp(0): BEFORE, tp(0, "clicks"): BEFORE}
    ends = {"orders": END, "clicks": END - IDLE}
    judged = judge(END, found, now_ms=END, idle_timeout_ms=IDLE, by_topic=ends)
    assert (list(judged.waiting), judged.idle) == ([tp(0)], (tp(0, "clicks"),))


def test_one_that_moved_before_the_end_has_the_whole_timeout_after_it():
    assert not verdict(BEFORE, now=END + IDLE - 1, moved_ms={tp(0): END - IDLE}).complete


def test_what_moves_is_what_has_another_newest_timestamp_than_at_the_look_before():
    first, second = {tp(0): BEFORE, tp(1): EMPTY}, {tp(0): BEFORE, tp(1): BEFORE}
    assert moves({}, first, {}, 1) == {}
    assert moves(first, second, {tp(0): 0}, 2) == {tp(0): 0, tp(1): 2}
    assert moves(second, second, {tp(0): 0, tp(1): 2}, 3) == {tp(0): 0, tp(1): 2}


@pytest.mark.parametrize(
    ("arrived", "after_ms", "low_watermark"),
    [
        pytest.param([PAST, Arrived(END + 9, True)], 0, END, id="the one that has come least far"),
        pytest.param([Arrived(END + 9, True), BEFORE], IDLE, END + 9, id="an idle one does not count"),
        pytest.param([PAST, Arrived(END - 9)], 0, END - 9, id="one that is waited for counts"),
        pytest.param([PAST, EMPTY], 0, None, id="one that is waited for and has no record: not known"),
        pytest.param([EMPTY, BEFORE], IDLE, None, id="all are idle"),
        pytest.param([Arrived(None, True, True)], 0, END, id="past the end, and its newest is not decided"),
    ],
)  # fmt: skip
def test_the_low_watermark(arrived, after_ms, low_watermark):
    assert verdict(*arrived, now=END + after_ms).low_watermark_ms == low_watermark


def test_a_quiet_partition_whose_records_the_broker_stamps_has_come_as_far_as_the_end():
    assert verdict(EMPTY, now=END + SKEW, append_time_topics={"orders"}).low_watermark_ms == END


def test_the_progress_line_names_the_first_and_counts_the_rest():
    line = str(verdict(*[BEFORE, EMPTY] * 3))
    assert line.startswith("6 partitions may still get records before 2026-11-20T")
    assert "orders[0]: its newest record is of" in line
    assert "orders[1]: it has no record" in line
    assert line.endswith("; and 3 more")
    assert "orders[3]" not in line


def test_the_line_of_a_complete_window_counts_the_idle():
    assert str(verdict(PAST, EMPTY, now=END + IDLE)).endswith(", 1 idle")


# ── laws ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

CLOCK = st.integers(-(10**6), 10**6).map(lambda after: END + after)
BEFORE_END = st.none() | st.integers(1, 10**7).map(lambda short: END - short)
DECIDED = st.builds(Arrived, BEFORE_END)
PAST_END = st.builds(
    Arrived, st.none() | st.integers(0, 10**7).map(lambda ahead: END + ahead), st.just(True), st.booleans()
)
UNDECIDED = st.builds(Arrived, BEFORE_END, st.just(False), st.just(True))
ANY = st.lists(DECIDED | PAST_END | UNDECIDED, max_size=6)


@st.composite
def complete_windows(draw):
    """Partitions each of which is complete by a rule of its own: what arrived, the clock, who stamps, when it moved."""
    now = END + draw(st.integers(-(10**6), 10**6) | st.sampled_from([0, SKEW - 1, SKEW, IDLE - 1, IDLE, IDLE + 1]))
    stamped = draw(st.booleans())
    passed = [PAST_END]
    if stamped and now >= END + SKEW:
        passed.append(DECIDED)
    arrived, moved = [], {}
    for number in range(draw(st.integers(1, 6))):
        idle = now >= END + IDLE and draw(st.booleans())
        arrived.append(draw(DECIDED if idle else st.one_of(passed)))
        if idle and draw(st.booleans()):
            moved[tp(number)] = draw(st.integers(END - 10**6, now - IDLE))
    return arrived, now, {"orders"} if stamped else set(), moved


@given(complete_windows())
@example(([PAST, BEFORE], END + IDLE, set(), {}))
def test_of_a_complete_window_the_low_watermark_is_never_below_the_end(window):
    arrived, now, stamped, moved = window
    judged = verdict(*arrived, now=now, append_time_topics=stamped, moved_ms=moved)
    assert judged.complete
    assert (judged.low_watermark_ms is None) == (len(judged.idle) == len(arrived)), "unknown only where all are idle"
    assert judged.low_watermark_ms is None or judged.low_watermark_ms >= END


@given(complete_windows(), st.integers(0, 10**6))
def test_what_a_sensor_found_complete_is_complete_for_the_plan_after_it(window, later):
    """The sensor remembers what moved, and the plan does not."""
    arrived, now, stamped, moved = window
    assert verdict(*arrived, now=now, append_time_topics=stamped, moved_ms=moved).complete
    assert verdict(*arrived, now=now + later, append_time_topics=stamped).complete


@given(ANY, CLOCK)
def test_nothing_but_a_transaction_holds_longer_than_the_idle_timeout(arrived, now):
    judged = verdict(*arrived, now=max(now, END + IDLE))
    undecided = [tp(number) for number, found in enumerate(arrived) if found.undecided and not found.past_end]
    assert list(judged.waiting) == undecided


@given(ANY, CLOCK, st.booleans())
def test_every_partition_is_waited_for_or_idle_or_has_come_to_the_end(arrived, now, stamped):
    judged = verdict(*arrived, now=now, append_time_topics={"orders"} if stamped else ())
    assert set(judged.waiting).isdisjoint(judged.idle)
    held_by_end = {tp(number) for number, found in enumerate(arrived) if found.past_end}
    assert held_by_end.isdisjoint({*judged.waiting, *judged.idle})
    assert judged.complete == (not judged.waiting)


# ── what a plan has asked anyway ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("log", "newest", "end_time", "expected"),
    [
        pytest.param(snap(0, 5), END - 1, None, BEFORE, id="nothing at the end"),
        pytest.param(snap(0, 5), END, None, PAST, id="the newest record is at the end"),
        pytest.param(snap(0, 5), END - 1, 3, Arrived(END - 1, past_end=True), id="an older record is at the end"),
        pytest.param(snap(0, 5), None, 5, Arrived(None, past_end=True), id="found at the log's end"),
        pytest.param(snap(0, 5), None, 6, EMPTY, id="produced after the log's end was asked: not in the range"),
        pytest.param(snap(0, 0), None, None, EMPTY, id="never written"),
        pytest.param(snap(0, 3, 5), END - 1, None, OPEN, id="an open transaction"),
    ],
)  # fmt: skip
def test_what_has_arrived_is_told_by_what_the_plan_knows(log, newest, end_time, expected):
    found = arrived_by(
        {} if newest is None else {tp(): newest}, {tp(): END}, {tp(): log}, {} if end_time is None else {tp(): end_time}
    )
    assert found == {tp(): expected}
