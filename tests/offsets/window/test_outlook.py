"""What a window would read, and what retention has taken of it, told from where its two ends lie in the logs."""

import pytest

from airflow_kafka_offsets.offsets.window.outlook import Boundary, WindowOutlook, look_out
from tests.offsets.builders import snap, tp

START, END = 1_000, 2_000


def outlook(*partitions, complete=True):
    """Of each partition: its log, the offsets of the window's start and end, and whether a record is at the end."""
    logs = {tp(number): log for number, (log, *_) in enumerate(partitions)}
    start = Boundary(START, {tp(n): first for n, (_, first, _, _) in enumerate(partitions)}, frozenset(logs))
    found = frozenset(tp(n) for n, (*_, is_found) in enumerate(partitions) if is_found)
    end = Boundary(END, {tp(n): past for n, (_, _, past, _) in enumerate(partitions)}, found)
    return look_out(logs, start, end, complete)


@pytest.mark.parametrize(
    ("partition", "retention"),
    [
        pytest.param((snap(0, 9), 0, 5, True), "kept", id="nothing was ever deleted"),
        pytest.param((snap(3, 9), 4, 6, True), "kept", id="a record from before the window is left"),
        pytest.param((snap(3, 9), 3, 6, True), "perhaps partly gone", id="it begins with the oldest record"),
        pytest.param((snap(3, 9), 3, 3, True), "gone", id="the oldest record is past its end"),
        pytest.param((snap(9, 9), 9, 9, False), "perhaps partly gone", id="an empty log, whose oldest nobody knows"),
        pytest.param((snap(0, 0), 0, 0, False), "kept", id="never written"),
    ],
)
def test_what_retention_has_taken_of_a_window(partition, retention):
    assert outlook(partition).retention == retention


def test_a_window_that_is_gone_in_one_partition_is_partly_gone():
    found = outlook((snap(3, 9), 3, 3, True), (snap(0, 9), 2, 6, True), (snap(5, 9), 5, 6, True))
    assert (found.gone, found.perhaps_gone, found.retention) == ((tp(0),), (tp(2),), "partly gone")


def test_records_are_counted_by_topic_as_offsets_between_the_bounds():
    found = outlook((snap(0, 9), 2, 6, True), (snap(0, 9), 0, 0, True), complete=False)
    assert found == WindowOutlook(START, END, {"orders": 4}, complete=False, partition_count=2)
    assert found.record_count_upper_bound == 4
