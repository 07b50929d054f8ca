"""A partition's position is the commit that names a plan of this package; nobody else's commit is one."""

import pytest

from airflow_kafka_offsets.offsets.commits import CommitMark
from airflow_kafka_offsets.offsets.model import CommittedOffset
from airflow_kafka_offsets.offsets.position import positions_in_group
from airflow_kafka_offsets.offsets.resolve import Position
from tests.offsets.builders import tp

OURS = CommitMark("p1", "billing/run-1/resolve").encode()
WINDOW = CommitMark("p2", "billing/run-2/resolve", window=True).encode()
SOMEBODY_ELSES = ["", "spark-batch-17", '{"run": "x"}', "[1, 2]", "17", '"plan"', "null"]


def test_a_commit_that_names_a_plan_is_the_position_with_its_epoch():
    group = {tp(0): CommittedOffset(7, 3, OURS), tp(1): CommittedOffset(0, None, OURS)}
    assert positions_in_group(group) == {
        tp(0): Position(7, "committed by plan p1", 3),
        tp(1): Position(0, "committed by plan p1", None),
    }


@pytest.mark.parametrize("metadata", SOMEBODY_ELSES)
def test_somebody_elses_commit_is_no_position(metadata):
    assert positions_in_group({tp(0): CommittedOffset(7, 3, metadata)}) is None


def test_a_mirrored_window_is_no_position():
    assert positions_in_group({tp(0): CommittedOffset(7, None, WINDOW)}) is None


def test_no_commit_is_no_position():
    assert positions_in_group({}) is None


def test_among_others_only_our_own_partitions_have_a_position():
    """The rest is then new to this pipeline (F3), however far somebody else has read it."""
    group = {tp(0): CommittedOffset(7, None, OURS), tp(1): CommittedOffset(9), tp(2): CommittedOffset(5, None, WINDOW)}
    assert positions_in_group(group) == {tp(0): Position(7, "committed by plan p1")}
