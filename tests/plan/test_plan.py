"""A plan's id says which records of which log it reads, for which batch, and nothing else."""

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from airflow_kafka_offsets.kafka_values import Actor, OffsetRange
from airflow_kafka_offsets.plan.backlog import Backlog
from airflow_kafka_offsets.plan.plan import Asked, BatchName, Found, Plan, PlannedPartition, SkippedRange, VerifiedSplit
from tests.builders import KEY, altered, plan, planned, tp

FIRST, SECOND = planned(0, 4, 10, committed_offset=4, lost=2), planned(1, 7, 7, skipped=3)
PLAN = plan([FIRST, SECOND])


def with_first(**fields):
    return {"partitions": (replace(FIRST, **fields), SECOND)}


IN_THE_ID = [
    {"cluster_id": "cluster-2"},
    {"pipeline": "other"},
    {"pipeline": None},
    {"batch": BatchName("0000000008-20261120T100000-k3f9", 8)},
    {"verified": {0: VerifiedSplit("a-plan", 1)}},
    {"verified": {0: VerifiedSplit("a-plan", 2)}},
    {"isolation_level": "read_committed"},
    {"splits": 2},
    {"overwrites": (0,)},
    {"topic_ids": {"orders": "another"}},
    {"topic_ids": {"orders": None}},
    with_first(range=OffsetRange(5, 10)),
    with_first(range=OffsetRange(4, 11)),
    {"partitions": (FIRST,)},
    {"partitions": (FIRST, planned(2, 7, 7))},
    {"partitions": (FIRST, planned(tp(1, "orders2"), 7, 7))},
]


@pytest.mark.parametrize("change", IN_THE_ID, ids=str)
def test_what_is_read_and_for_which_batch_is_in_the_id(change):
    assert altered(PLAN, **change).plan_id != PLAN.plan_id


NOT_IN_THE_ID = [
    {"split_by": "flink"},
    {"resolved_at_ms": 0},
    {"interval": (0, 1)},
    {"startup_mode": "latest-offset"},
    {"bounded_mode": "timestamp"},
    {"window": True},
    {"window_complete": False},
    {"low_watermark_ms": 1},
    {"window_bounds": (0, 1)},
    {"run": None},
    {"group_id": "h"},
    {"instance": "another"},
    {"person": "alice"},
    {"group_follows": False},
    {"output": "s3://lake"},
    {"restarts": ("x",)},
    {"restarted": True},
    {"reason": "re_plan"},
    {"withdrawn": True},
    {"batch": BatchName(KEY, 7, None)},
    {"warnings": ("careful",)},
    {"ignored": (tp(9),)},
    {"vanished": ("clicks",)},
    {"subscription": "topics orders"},
    {"startup": "earliest-offset"},
    {"task": ("billing", "resolve")},
    {"timestamp_types": {"orders": "LogAppendTime"}},
    {"window_bounds_by_topic": {"orders": (0, 1)}},
    {"backlog": Backlog(7, 2, None, "how far apart the runs are is not known")},
    with_first(start_reason="earliest → log start"),
    with_first(end_reason="timestamp"),
    with_first(committed_offset=None),
    with_first(position=5),
    with_first(position_epoch=1),
    with_first(continuity="gap"),
    with_first(log_start_offset=3),
    with_first(leader_epoch=8),
    with_first(lost=3),
    with_first(skipped=2),
    with_first(newest_timestamp=1),
    with_first(late=1),
    with_first(past_end=5),
    with_first(held_back=5),
    with_first(margin_ms=5),
    with_first(skips=(SkippedRange(7, 8, "poison"),)),
]


@pytest.mark.parametrize("change", NOT_IN_THE_ID, ids=str)
def test_clocks_reasons_modes_and_what_the_group_held_are_not_in_the_id(change):
    changed = altered(PLAN, **change)
    assert changed != PLAN, "it is another value"
    assert changed.plan_id == PLAN.plan_id


def test_of_every_field_it_is_decided_whether_it_is_in_the_id():
    """One that is added later has to be put into one of the two lists. A gap is what the splits leave."""
    changed = [change for change in (*IN_THE_ID, *NOT_IN_THE_ID) if "partitions" not in change]
    in_parts = names_of(Plan) - {"asked", "found", "by", "split_count"} | names_of(Asked) | names_of(Found)
    assert {name for change in changed for name in change} == (in_parts | names_of(Actor)) - {"partitions"}
    rows = [change["partitions"][0] for change in (*IN_THE_ID, *NOT_IN_THE_ID) if "partitions" in change]
    decided = {
        name for row in rows for name in names_of(PlannedPartition) if getattr(row, name) != getattr(FIRST, name)
    }
    assert decided | {"topic_partition", "gap"} == names_of(PlannedPartition)


def names_of(kind):
    return {field.name for field in fields(kind) if field.init}


def test_the_id_of_a_stored_plan_stays_what_it_is():
    """A change here makes every plan in every work store unreadable: it needs a new version of the format."""
    assert PLAN.plan_id == "23fc1f36db4974c2ca574fe9ee93f96a"


def test_a_plan_knows_how_much_there_is_to_read():
    assert (PLAN.record_count_upper_bound, PLAN.empty, PLAN.to_read()) == (6, False, [FIRST])
    assert (PLAN.lost, PLAN.skipped) == (2, 3)
    nothing = plan([SECOND])
    assert (nothing.record_count_upper_bound, nothing.empty, nothing.to_read()) == (0, True, [])


def test_warnings_are_added_to_those_it_has():
    assert PLAN.with_warnings(["a"]).with_warnings(["b"]).warnings == ("a", "b")


@pytest.mark.parametrize("rows", [[SECOND, FIRST], [FIRST, FIRST]], ids=["unsorted", "twice"])
def test_partitions_are_sorted_and_unique(rows):
    with pytest.raises(ValueError, match="sorted and unique"):
        plan(rows)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"splits": ()}, "of 1 splits lists 0", id="not as many splits as it has"),
        pytest.param({"splits": ((),)}, "splits read 0 offsets, and its partitions have 6", id="records in no split"),
        pytest.param({"splits": ((FIRST, FIRST),)}, "its splits read 12 offsets", id="records in two places"),
        pytest.param({"partitions": (replace(FIRST, gap=1), SECOND)}, "have 5", id="a gap that a split reads"),
        pytest.param({"overwrites": (1,)}, r"\[1\] are not among its 1 splits", id="a split that it does not have"),
        pytest.param(
            {"verified": {3: VerifiedSplit("p", 1)}}, r"\[3\] are not among its 1 splits", id="another that stays"
        ),
    ],
)
def test_a_plan_whose_splits_are_not_its_ranges_cannot_be_built(changed, words):
    with pytest.raises(ValueError, match=words):
        replace(PLAN, **changed)


def test_a_split_that_stays_is_not_started_and_may_hold_rows():
    made = altered(PLAN, splits=2, verified={0: VerifiedSplit("an-earlier-plan", 3)}, overwrites=(1,))
    assert (made.splits_with_rows(), made.splits_to_start()) == ({0, 1}, [1])


def test_a_plan_is_frozen():
    with pytest.raises(FrozenInstanceError):
        PLAN.pipeline = "h"


def test_a_batch_is_shown_by_its_number_and_a_window_by_its_key():
    assert str(BatchName(KEY, 7)) == "batch 7"
    assert str(BatchName("20261120T000000Z--20261121T000000Z-0a1b2c3d")) == (
        "window 20261120T000000Z--20261121T000000Z-0a1b2c3d"
    )
