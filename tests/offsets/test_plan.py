"""A plan's id says which records of which log it reads, for whom, and nothing else."""

from dataclasses import FrozenInstanceError, replace

import pytest

from airflow_kafka_offsets.offsets.model import CommittedOffset, OffsetRange, PartitionSnapshot, TopicPartition
from airflow_kafka_offsets.offsets.spec import RunKey
from tests.offsets.builders import RUN, plan, planned, tp

FIRST, SECOND = planned(0, 4, 10, base_offset=4), planned(1, 7, 7)
PLAN = plan([FIRST, SECOND])


def with_first(**fields):
    return {"partitions": (replace(FIRST, **fields), SECOND)}


@pytest.mark.parametrize(
    "change",
    [
        {"cluster_id": "cluster-2"},
        {"group_id": "h"},
        {"group_id": None},
        {"checkpoint_id": "other"},
        {"checkpoint_id": None},
        {"run": None},
        {"run": replace(RUN, dag_id="other")},
        {"run": replace(RUN, run_id="other")},
        {"run": replace(RUN, task_id="other")},
        {"run": replace(RUN, map_index=3)},
        {"isolation_level": "read_committed"},
        {"splits": 2},
        {"split_by": "flink"},
        {"topic_ids": {"orders": "another"}},
        {"topic_ids": {"orders": None}},
        with_first(range=OffsetRange(5, 10)),
        with_first(range=OffsetRange(4, 11)),
        {"partitions": (FIRST,)},
        {"partitions": (FIRST, planned(2, 7, 7))},
        {"partitions": (FIRST, planned(tp(1, "orders2"), 7, 7))},
    ],
    ids=str,
)
def test_what_is_read_and_for_whom_is_in_the_id(change):
    assert replace(PLAN, **change).plan_id != PLAN.plan_id


@pytest.mark.parametrize(
    "change",
    [
        {"resolved_at_ms": 0},
        {"interval": (0, 1)},
        {"startup_mode": "latest-offset"},
        {"bounded_mode": "timestamp"},
        {"window": True},
        {"window_complete": False},
        {"low_watermark_ms": 1},
        {"window_bounds": (0, 1)},
        {"parent": "c7"},
        {"replaces": "p7"},
        {"warnings": ("careful",)},
        {"ignored": (tp(9),)},
        with_first(start_reason="earliest → log start"),
        with_first(end_reason="timestamp"),
        with_first(base_offset=None),
        with_first(log_start_offset=3),
        with_first(leader_epoch=8),
        with_first(lost=2),
        with_first(skipped=2),
        with_first(moved_back_by="restart"),
        with_first(newest_timestamp=1),
        with_first(late=1),
    ],
    ids=str,
)
def test_clocks_reasons_modes_and_what_the_group_held_are_not_in_the_id(change):
    changed = replace(PLAN, **change)
    assert changed != PLAN, "it is another value"
    assert changed.plan_id == PLAN.plan_id


def test_the_id_of_a_stored_plan_stays_what_it_is():
    """A change here makes every plan in every work store unreadable: it needs a new version of the format."""
    assert PLAN.plan_id == "9d30debae86bedd3bc1643e3d20a2ad3"


def test_an_id_cannot_be_given():
    assert plan([FIRST], plan_id="mine").plan_id == plan([FIRST]).plan_id


def test_a_plan_knows_how_much_there_is_to_read():
    assert (PLAN.record_count_upper_bound, PLAN.empty, PLAN.to_read()) == (6, False, [FIRST])
    nothing = plan([SECOND])
    assert (nothing.record_count_upper_bound, nothing.empty, nothing.to_read()) == (0, True, [])


def test_warnings_are_added_to_those_it_has():
    assert PLAN.with_warnings(["a"]).with_warnings(["b"]).warnings == ("a", "b")


@pytest.mark.parametrize("rows", [[SECOND, FIRST], [FIRST, FIRST]], ids=["unsorted", "twice"])
def test_partitions_are_sorted_and_unique(rows):
    with pytest.raises(ValueError, match="sorted and unique"):
        plan(rows)


def test_a_plan_is_frozen():
    with pytest.raises(FrozenInstanceError):
        PLAN.group_id = "h"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: OffsetRange(5, 3), "end offset 3 is below start offset 5", id="a range that runs back"),
        pytest.param(lambda: OffsetRange(-1, 3), "start offset -1 is negative", id="a range from a sentinel"),
        pytest.param(lambda: CommittedOffset(-1001), "committed offset -1001 is negative", id="a commit that is none"),
        pytest.param(lambda: PartitionSnapshot(-1, 3, 3), "log start offset -1", id="a log start that is none"),
        pytest.param(lambda: PartitionSnapshot(0, 4, 3), "above high watermark 3", id="an end above the watermark"),
        pytest.param(lambda: PartitionSnapshot(5, 3, 3), "log start", id="a log that ends before it starts"),
        pytest.param(lambda: TopicPartition("", 0), "not a partition", id="no topic"),
        pytest.param(lambda: TopicPartition("orders", -1), "not a partition", id="no partition"),
    ],
)
def test_an_invalid_value_cannot_be_built(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_run_is_shown_with_its_map_index_only_if_mapped():
    assert str(RunKey("d", "r", "t")) == "d/r/t"
    assert str(RunKey("d", "r", "t", 0)) == "d/r/t[0]"
