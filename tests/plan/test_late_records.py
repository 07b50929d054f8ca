"""What lies between two adjacent windows, because it came after the first of them was planned."""

import pytest

from airflow_kafka_offsets.plan.completeness import joined
from tests.builders import altered, plan, planned, tp

WINDOW = {"window": True, "startup_mode": "timestamp", "bounded_mode": "timestamp"}
BEFORE = plan([planned(0, 0, 5), planned(1, 0, 7)], window_bounds=(0, 10), **WINDOW)
AFTER = plan([planned(0, 8, 9), planned(1, 7, 9), planned(2, 3, 4)], window_bounds=(10, 20), **WINDOW)


def late(before, after):
    return {p.topic_partition: p.late for p in joined(after, before).partitions if p.late}


def test_offsets_that_neither_reads_are_counted():
    assert late(BEFORE, AFTER) == {tp(0): 3}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"window_bounds": (0, 9)}, {}, id="a gap between the windows"),
        pytest.param({"window_bounds": None}, {}, id="the first is no window"),
        pytest.param({}, {"window_bounds": None}, id="the second is none"),
        pytest.param({}, {"topic_ids": {"orders": "made anew"}}, id="a topic that was made anew"),
        pytest.param({"cluster_id": "another"}, {}, id="another cluster"),
        pytest.param({}, {"partitions": (planned(0, 8, 9, log_start_offset=8),)}, id="what was deleted"),
        pytest.param({}, {"partitions": (planned(0, 4, 9),)}, id="a start below the end"),
    ],
)  # fmt: skip
def test_nothing_is_counted_that_cannot_be_late(before, after):
    assert late(altered(BEFORE, **before), altered(AFTER, **after)) == {}


def test_of_what_was_deleted_in_part_the_rest_is_counted():
    assert late(BEFORE, altered(AFTER, partitions=(planned(0, 8, 9, log_start_offset=6),))) == {tp(0): 2}


def test_the_plan_says_how_many_where_and_what_can_be_done():
    told = joined(AFTER, BEFORE)
    assert [p.late for p in told.partitions] == [3, 0, 0]
    (warning,) = told.warnings
    for words in ("3 offsets came too late", str(BEFORE.by.run), "orders[0] 3", "re_plan", "bounded_mode='timestamp'"):
        assert words in warning
    assert told.plan_id == AFTER.plan_id


def test_without_late_records_the_plan_is_the_same():
    assert joined(AFTER, altered(BEFORE, partitions=(planned(0, 0, 8),))) == AFTER
