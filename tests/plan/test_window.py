"""What is taken, what is free, and which cuts are nearest."""

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.body import Offset, Stretch
from airflow_kafka_offsets.plan.window import Covered, Cut, with_window

TP = TopicPartition("t", 0)


def cut(offset: int, topic_id: str | None = None) -> dict[TopicPartition, Offset]:
    return {TP: Offset(offset, None, topic_id)}


def stretch(start: int, end: int, low: int, high: int, topic_id: str | None = None) -> Stretch:
    return Stretch(start, end, cut(low, topic_id), cut(high, topic_id))


@given(st.permutations(range(8)))
def test_adjacent_windows_merge_and_the_nearest_cuts_are_those_of_the_neighbours(order: list[int]) -> None:
    stretches: tuple[Stretch, ...] = ()
    for number, hour in enumerate(order):
        taken = order[:number]
        before, after = Covered(stretches).nearest((hour, hour + 1))
        lower, higher = [other for other in taken if other < hour], [other for other in taken if other > hour]
        assert before == (Cut(max(lower) + 1, cut(10 * max(lower) + 10)) if lower else None)
        assert after == (Cut(min(higher), cut(10 * min(higher))) if higher else None)
        stretches = with_window(stretches, (hour, hour + 1), cut(10 * hour), cut(10 * hour + 10))
    assert stretches == (stretch(0, 8, 0, 80),)


def test_the_free_parts_of_a_window_are_those_in_no_stretch() -> None:
    covered = Covered([stretch(2, 3, 0, 0), stretch(5, 7, 0, 0)])
    assert covered.free((0, 10)) == [(0, 2), (3, 5), (7, 10)]
    assert covered.free((2, 3)) == []
    assert covered.free((3, 4)) == [(3, 4)]


def test_an_offset_of_an_ended_topic_counts_as_lacking() -> None:
    stretches = [stretch(0, 1, 5, 9, "old")]
    assert Covered(stretches).nearest((2, 3)) == (Cut(1, cut(9, "old")), None)
    assert Covered(stretches, {"old"}).nearest((2, 3)) == (Cut(1, {}), None)
    assert (Covered(stretches).topics(), Covered(stretches, {"old"}).topics()) == (cut(9, "old"), {})
