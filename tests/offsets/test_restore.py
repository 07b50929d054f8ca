"""Where a run goes on: the newest checkpoint, a commit that landed without one, or this package's marks."""

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_kafka_offsets.errors import GroupMoved, TopicRecreated
from airflow_kafka_offsets.offsets.checkpoint import (
    Checkpoint,
    KeptOffset,
    checkpoint_after,
    checkpoint_of_starts,
)
from airflow_kafka_offsets.offsets.commits import CommitMark, mark_of
from airflow_kafka_offsets.offsets.model import CommittedOffset
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.offsets.resolve import Position
from airflow_kafka_offsets.offsets.restore import Restored, positions_in_group, restore
from airflow_kafka_offsets.offsets.spec import LatestOffset
from tests.offsets.builders import plan, planned, request, tp

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


# ── with a checkpoint ─────────────────────────────────────────────────────────────────────────────────────────────────

IDS = {"orders": "id-of-orders"}


def checkpoint(kept: Mapping[int, int | KeptOffset], **fields: Any) -> Checkpoint:
    """A checkpoint of `orders` whose group was seen where the checkpoint is, unless told otherwise."""
    offsets = {tp(n): k if isinstance(k, KeptOffset) else KeptOffset(k, k) for n, k in kept.items()}
    values = {
        "sequence": 4,
        "parent": "before",
        "checkpoint_id": "g/billing/resolve",
        "cluster_id": "cluster-1",
        "group_id": "g",
        "plan_id": "p4",
        "run": "billing/run-4/resolve",
        "startup": "group-offsets",
        "subscription": "topics orders",
        "topic_ids": IDS,
        "offsets": offsets,
    }
    return Checkpoint(**{**values, **fields})


def group(**marks: Any) -> dict[Any, CommittedOffset]:
    return {tp(int(name[1:])): c if isinstance(c, CommittedOffset) else CommittedOffset(c) for name, c in marks.items()}


def restored(
    newest: Checkpoint | None,
    committed: Mapping[Any, CommittedOffset],
    *stored: OffsetPlan,
    ids: Mapping[str, str | None] = IDS,
    **asked: Any,
) -> Restored:
    plans = {p.plan_id: p for p in stored}
    return restore(request(checkpoint_id="g/billing/resolve", **asked), newest, committed, ids, plans.get)


def offsets(result: Restored) -> dict[int, int] | None:
    return result.positions and {t.partition: p.offset for t, p in result.positions.items()}


def test_F1_the_checkpoint_beats_the_startup_mode_and_says_that_it_does():
    result = restored(checkpoint({0: 10}), group(p0=10), startup=LatestOffset())
    assert offsets(result) == {0: 10}
    assert not result.starts_anew
    assert [w for w in result.warnings if "latest-offset" in w and "restart" in w]


def test_the_same_startup_request_says_nothing():
    assert restored(checkpoint({0: 10}), group(p0=10)).warnings == ()


def test_F9_an_empty_checkpoint_is_one_and_every_partition_is_new():
    assert restored(checkpoint({}), {}).positions == {}
    assert restored(None, {}).positions is None


def test_without_a_checkpoint_what_the_plan_starts_from_must_be_kept():
    assert restored(None, {}).starts_anew
    assert restored(None, group(p0=CommittedOffset(7, None, OURS))).starts_anew


@pytest.mark.parametrize("offset", [9, 11], ids=["lower", "higher"])
def test_a_group_that_somebody_moved_is_refused(offset):
    with pytest.raises(
        GroupMoved, match=rf"orders\[0\].*at 10.*now the group is at {offset}.*not by this provider"
    ) as e:
        restored(checkpoint({0: 10, 1: 5}), group(p0=offset, p1=5))
    assert "adopt-group" in str(e.value)
    assert "keep-checkpoint" in str(e.value)


def test_a_commit_that_appeared_where_there_was_none_is_a_move():
    with pytest.raises(GroupMoved):
        restored(checkpoint({0: KeptOffset(10, None)}), group(p0=10))


def test_adopt_group_goes_on_from_the_group_only_where_it_moved():
    result = restored(checkpoint({0: 10, 1: 5}), group(p0=20, p1=5), on_group_moved="adopt-group")
    assert offsets(result) == {0: 20, 1: 5}
    assert result.moved_back_by == {}


def test_keep_checkpoint_goes_on_from_the_checkpoint_and_may_move_the_group_back():
    result = restored(checkpoint({0: 10, 1: 5}), group(p0=20, p1=5), on_group_moved="keep-checkpoint")
    assert offsets(result) == {0: 10, 1: 5}
    assert result.moved_back_by == {tp(0): "keep-checkpoint"}


def test_D12_expired_commits_leave_the_checkpoint_in_force_and_are_said():
    result = restored(checkpoint({0: 10, 1: 5}), group(p1=5))
    assert offsets(result) == {0: 10, 1: 5}
    assert [w for w in result.warnings if "offsets.retention.minutes" in w]


@pytest.mark.parametrize("end", [15, 8], ids=["higher", "lower"])
@pytest.mark.parametrize("plan_is_kept", [True, False])
def test_a_commit_that_landed_without_its_checkpoint_repairs_it(end, plan_is_kept):
    newest = checkpoint({0: 10, 1: 5})
    landed = plan([planned(0, 8, end, base_offset=10)], parent=newest.id)
    mark = CommitMark(landed.plan_id, "billing/run-5/resolve", newest.id).encode()

    result = restored(
        newest, {tp(0): CommittedOffset(end, None, mark), tp(1): CommittedOffset(5)}, *[landed][:plan_is_kept]
    )

    assert offsets(result) == {0: end, 1: 5}
    assert result.repaired
    assert result.checkpoint is not None
    assert (result.checkpoint.parent, result.checkpoint.plan_id) == (newest.id, landed.plan_id)


def test_a_commit_that_landed_in_part_counts_for_the_whole_plan():
    """A commit is only begun once all reads are verified: what it has not reached is read all the same."""
    newest = checkpoint({0: 10, 1: 5})
    landed = plan([planned(0, 10, 15, base_offset=10), planned(1, 5, 9, base_offset=5)], parent=newest.id)
    mark = CommitMark(landed.plan_id, "billing/run-5/resolve", newest.id).encode()
    result = restored(newest, {tp(0): CommittedOffset(15, None, mark), tp(1): CommittedOffset(5)}, landed)
    assert offsets(result) == {0: 15, 1: 9}


def test_two_plans_that_landed_after_one_checkpoint_are_a_group_that_moved():
    newest = checkpoint({0: 10, 1: 5})
    marks = [CommitMark(name, "run", newest.id).encode() for name in ("one", "two")]
    with pytest.raises(GroupMoved, match="2 plans"):
        restored(newest, {tp(0): CommittedOffset(15, None, marks[0]), tp(1): CommittedOffset(9, None, marks[1])})


def test_E6_a_topic_with_another_id_is_refused():
    with pytest.raises(TopicRecreated, match="orders: its id is new, the checkpoint's offsets are of id-of-orders"):
        restored(checkpoint({0: 10}), {}, ids={"orders": "new"})


def test_on_recreated_earliest_drops_the_position_of_that_topic_alone():
    newest = checkpoint({0: 10}, topic_ids={**IDS, "clicks": "c"})
    newest = checkpoint(
        {}, topic_ids={**IDS, "clicks": "c"}, offsets={**newest.offsets, tp(0, "clicks"): KeptOffset(3, 3)}
    )
    result = restored(newest, {}, ids={"orders": "new", "clicks": "c"}, on_recreated="earliest")
    assert result.recreated == {"orders"}
    assert result.positions == {tp(0, "clicks"): Position(3, "checkpoint")}


def test_rule_4_a_partition_that_the_checkpoint_lacks_starts_at_a_commit_of_this_package():
    result = restored(checkpoint({0: 10}), {tp(0): CommittedOffset(10), tp(1): CommittedOffset(4, None, OURS)})
    assert offsets(result) == {0: 10, 1: 4}


@pytest.mark.parametrize(("checkpoint_id", "starts"), [("g/billing/resolve", {0: 10, 1: 4}), ("another", {0: 10})])
def test_rule_4_a_commit_of_another_pipeline_is_no_position(checkpoint_id, starts):
    """Whether or not its plan is still in the store."""
    mark = mark_of(plan([planned(1, 0, 4)], checkpoint_id=checkpoint_id)).encode()
    result = restored(checkpoint({0: 10}), {tp(0): CommittedOffset(10), tp(1): CommittedOffset(4, None, mark)})
    assert offsets(result) == starts


def test_restart_lets_the_startup_mode_decide_once():
    asked = {"restart": "2026-11-20", "startup": LatestOffset()}
    first = restored(checkpoint({0: 10}), group(p0=10), **asked)
    assert first.positions is None
    assert first.starts_anew
    assert first.moved_back_by == {tp(0): "restart"}
    again = restored(checkpoint({0: 10}, restart="2026-11-20"), group(p0=10), **asked)
    assert offsets(again) == {0: 10}


# ── the chain ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_F6_what_a_plan_lacks_keeps_its_offset_in_the_next_checkpoint():
    parent = checkpoint({0: 10, 1: 5})
    after = checkpoint_after(plan([planned(0, 10, 15)]), parent, {tp(0): 15})
    assert {t.partition: k.offset for t, k in after.offsets.items()} == {0: 15, 1: 5}
    assert (after.sequence, after.parent) == (parent.sequence + 1, parent.id)


def test_offsets_of_a_log_that_is_gone_are_not_inherited():
    parent = checkpoint({0: 10, 1: 5})
    after = checkpoint_after(plan([planned(0, 0, 3)], topic_ids={"orders": "new"}), parent, {})
    assert list(after.offsets) == [tp(0)]
    assert after.topic_ids == {"orders": "new"}


def test_the_first_checkpoint_holds_the_starts_and_the_group_as_seen():
    asked = request(startup=LatestOffset())
    first = checkpoint_of_starts(asked, plan([planned(0, 7, 9), planned(1, 0, 4)]), group(p0=3), None)
    assert first.offsets == {tp(0): KeptOffset(7, 3), tp(1): KeptOffset(0, None)}
    assert (first.sequence, first.parent, first.plan_id, first.startup) == (0, None, None, "latest-offset")


def test_a_checkpoint_survives_its_json_and_not_an_altered_one():
    before = checkpoint({0: 10, 1: KeptOffset(5, None, 3)}, restart="w")
    data = before.to_dict()
    assert Checkpoint.from_dict(data) == before
    data["topics"]["orders"]["offset"][0] = 11
    with pytest.raises(ValueError, match="digest"):
        Checkpoint.from_dict(data)
    with pytest.raises(ValueError, match="version 2"):
        Checkpoint.from_dict({**before.to_dict(), "version": 2})
