"""Cuts are in order in every partition, in whatever order windows are taken."""

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.body import Offset, Stretch
from airflow_kafka_offsets.plan.window import Covered, with_window

TP = TopicPartition("t", 0)


def stretch(start: int, end: int, low: int, high: int, topic_id: str | None = None) -> Stretch:
    return Stretch(start, end, {TP: Offset(low, None, topic_id)}, {TP: Offset(high, None, topic_id)})


@given(st.permutations(range(8)), st.lists(st.integers(0, 99), min_size=16, max_size=16))
def test_a_new_cut_is_between_its_neighbours_and_adjacent_windows_merge(order: list[int], found: list[int]) -> None:
    stretches: tuple[Stretch, ...] = ()
    for number, hour in enumerate(order):
        covered = Covered(stretches)
        left, right = covered.cut_ending_at(hour), covered.cut_starting_at(hour + 1)
        low = left or {TP: Offset(covered.clamp(hour, TP, found[2 * number]))}
        high = right or {TP: Offset(covered.clamp(hour + 1, TP, max(found[2 * number + 1], low[TP].offset)))}
        stretches = with_window(stretches, (hour, hour + 1), low, high)
        cuts = [cut[TP].offset for s in stretches for cut in (s.start_cut, s.end_cut)]
        assert cuts == sorted(cuts)
    assert [(s.start_ms, s.end_ms) for s in stretches] == [(0, 8)]


def test_the_free_parts_of_a_window_are_those_in_no_stretch() -> None:
    covered = Covered([stretch(2, 3, 0, 0), stretch(5, 7, 0, 0)])
    assert covered.free((0, 10)) == [(0, 2), (3, 5), (7, 10)]
    assert covered.free((2, 3)) == []
    assert covered.free((3, 4)) == [(3, 4)]


def test_an_offset_of_an_ended_topic_counts_as_lacking() -> None:
    covered = Covered([stretch(0, 1, 5, 9, "old")], {"old"})
    assert (covered.before(2, TP), covered.clamp(2, TP, 4), covered.cut_ending_at(1), covered.topics()) == (
        0,
        4,
        {},
        {},
    )
    assert Covered([stretch(0, 1, 5, 9, "old")]).clamp(2, TP, 4) == 9
