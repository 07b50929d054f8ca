"""Where a reset brings a partition, and what that costs: a table, and laws for the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, PartitionSnapshot, TopicPartition
from airflow_kafka_offsets.plan.plan import BatchName, placed
from airflow_kafka_offsets.plan.plan_json import plan_from_dict, plan_to_dict
from airflow_kafka_offsets.plan.position import (
    Move,
    Position,
    SavedOffset,
    ShiftBy,
    Target,
    ToOffset,
    ToOffsets,
    move,
    position_after,
    position_within,
    reset_draft,
)
from airflow_kafka_offsets.request.modes import AtTimestamp
from tests.builders import NOW, plan

TP = TopicPartition("orders", 0)
LOG = PartitionSnapshot(10, 20, 20, leader_epoch=3)
AT = SavedOffset(15, 2)


@pytest.mark.parametrize(
    ("target", "before", "found", "after", "brought", "costs"),
    [
        ("earliest-offset", AT, None, SavedOffset(10), "", (0, 0, 5)),
        ("latest-offset", AT, None, SavedOffset(20, 3), "", (5, 0, 0)),
        (ShiftBy(), AT, None, SavedOffset(15, 2), "", (0, 0, 0)),
        (ShiftBy(), SavedOffset(4, 2), None, SavedOffset(10), "log start", (0, 6, 0)),
        (ShiftBy(), SavedOffset(24, 2), None, SavedOffset(20, 3), "end", (0, 0, 0)),
        (AtTimestamp(7), AT, 12, SavedOffset(12), "", (0, 0, 3)),
        (AtTimestamp(7), AT, None, SavedOffset(20, 3), "", (5, 0, 0)),
        (ShiftBy(2), AT, None, SavedOffset(17), "", (2, 0, 0)),
        (ShiftBy(-2), AT, None, SavedOffset(13), "", (0, 0, 2)),
        (ShiftBy(-9), AT, None, SavedOffset(10), "log start", (0, 0, 5)),
        (ShiftBy(9), AT, None, SavedOffset(20, 3), "end", (5, 0, 0)),
        (ToOffset(15), AT, None, SavedOffset(15, 2), "", (0, 0, 0)),
        (ToOffset(12), SavedOffset(4), None, SavedOffset(12), "", (2, 6, 0)),
        (ToOffset(12), SavedOffset(24), None, SavedOffset(12), "", (0, 0, 8)),
        (ToOffset(12), None, None, SavedOffset(12), "", (2, 0, 0)),
        ("latest-offset", None, None, SavedOffset(20, 3), "", (10, 0, 0)),
        ("earliest-offset", None, None, SavedOffset(10), "", (0, 0, 0)),
        (ToOffsets({TP: SavedOffset(12, 1)}, "group g"), AT, None, SavedOffset(12, 1), "", (0, 0, 3)),
    ],
)
def test_where_a_partition_goes_and_what_that_costs(
    target: Target,
    before: SavedOffset | None,
    found: int | None,
    after: SavedOffset,
    brought: str,
    costs: tuple[int, int, int],
) -> None:
    """The log is [10, 20). The costs: skipped, lost, read again."""
    made = move(target, TP, before, LOG, found)
    assert (made.after, made.brought, (made.skipped, made.lost, made.reads_again)) == (after, brought, costs)


def test_to_latest_ends_where_nothing_is_open_and_a_further_position_is_not_brought_back() -> None:
    """Under `read_committed` the end is the last stable offset; offsets up to the high watermark are of this log."""
    log = PartitionSnapshot(10, 16, 20)
    assert move("latest-offset", TP, AT, log).after.offset == 16
    assert not move(ShiftBy(), TP, SavedOffset(18), log).changes


offsets = st.integers(0, 50)


@st.composite
def moves(draw: st.DrawFn) -> Move:
    start, end, high = sorted(draw(st.tuples(offsets, offsets, offsets)))
    target = draw(
        st.sampled_from(["earliest-offset", "latest-offset", ShiftBy(), AtTimestamp(0)])
        | st.builds(ShiftBy, st.integers(-60, 60))
        | st.builds(ToOffset, offsets)
    )
    before = draw(st.none() | st.builds(SavedOffset, offsets))
    return move(target, TP, before, PartitionSnapshot(start, end, high), draw(st.none() | st.integers(start, end)))


@given(moves())
def test_the_new_offset_is_one_that_the_log_has(made: Move) -> None:
    assert made.log.log_start_offset <= made.after.offset <= made.log.high_watermark


@given(moves())
def test_no_offset_is_passed_over_without_being_counted(made: Move) -> None:
    assert min(made.skipped, made.lost, made.reads_again) >= 0
    forward = made.after.offset - made.goes_on_at
    assert made.skipped + made.lost == max(0, forward)
    assert made.reads_again == 0 or made.reads_again <= -forward
    assert made.changes or (made.skipped, made.lost, made.reads_again) == (0, 0, 0)


@given(moves())
def test_the_plan_reads_nothing_and_the_position_after_it_is_the_new_offset(made: Move) -> None:
    last = plan(restarts=("friday",), overwrites=(0,), warnings=("old",))
    position = Position(last.found.cluster_id, {TP: SavedOffset(3), TopicPartition("orders", 7): SavedOffset(9)})
    drafted = reset_draft(last, [made], {"orders": "id"}, {TP: CommittedOffset(3)}, "reset to latest: x", NOW)
    found = placed(drafted, BatchName("0000000002-20261122T022057-k3f9", 2), Actor(None), ((),))
    assert (found.empty, found.overwrites, found.warnings, found.resolved_at_ms) == (True, (), (), NOW)
    assert position_after(found, position).offsets == {**position.offsets, TP: made.after}
    assert position_within(found, position).offsets == position_after(found, position).offsets
    assert position_after(found, position).restarts == ("friday",)
    assert plan_from_dict(plan_to_dict(found)) == found
