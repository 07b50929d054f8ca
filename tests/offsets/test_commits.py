"""DESIGN's commit table, row by row; the mark that a commit carries."""

import json

import pytest

from airflow_kafka_offsets.errors import CommitConflict, TopicRecreated
from airflow_kafka_offsets.offsets.commits import (
    METADATA_LIMIT_BYTES,
    CommitMark,
    decide_commit,
    decide_mirror,
    mark_of,
    pipeline_mark,
)
from airflow_kafka_offsets.offsets.model import CommittedOffset
from airflow_kafka_offsets.offsets.refusals import Refusal
from airflow_kafka_offsets.offsets.spec import RunKey
from tests.offsets.builders import RUN, plan, planned

OURS, SOMEBODY, ANOTHER_PLAN = "ours", "somebody", "another plan"
ON_RECORD, PARENT_NEWEST, GONE_ON, MAY_GO_BACK = "on record", "parent newest", "gone on", "may go back"


def decide(base, end, now, *states, topic_id="id-of-orders", planned_id="id-of-orders"):
    """The decision for one partition whose plan starts at its base. ``now``: an offset and who wrote it, or None."""
    row = planned(0, 0, end, base_offset=base, moved_back_by="on_data_loss" if MAY_GO_BACK in states else None)
    made = plan([row], topic_ids={"orders": planned_id})
    metadata = {OURS: mark_of(made).encode(), SOMEBODY: "", ANOTHER_PLAN: CommitMark("p9", "b/r/t").encode()}
    return decide_commit(
        made,
        row,
        CommittedOffset(now[0], None, metadata[now[1]]) if now else None,
        topic_id,
        own_commit_on_record=ON_RECORD in states,
        parent_is_newest=PARENT_NEWEST in states,
        gone_on=GONE_ON in states,
    )


@pytest.mark.parametrize(
    ("base", "end", "now", "states", "decision"),
    [
        pytest.param(5, 10, (10, OURS), [], "write", id="2 at the end by this plan: the retry after a lost answer"),
        pytest.param(None, 10, (10, OURS), [ON_RECORD], "write", id="2 cleared after its commit: renews the expiry"),
        pytest.param(10, 10, (10, SOMEBODY), [], "write", id="2 base is the end: nothing read, renews the expiry"),
        pytest.param(5, 10, (12, ANOTHER_PLAN), [ON_RECORD], "keep", id="3 beyond the end, our commit on record"),
        pytest.param(5, 10, (12, SOMEBODY), [ON_RECORD], "keep", id="3 whoever moved on from our commit"),
        pytest.param(12, 10, (12, SOMEBODY), [ON_RECORD, MAY_GO_BACK], "keep", id="3 goes back once, not twice"),
        pytest.param(None, 10, None, [ON_RECORD, GONE_ON], "keep", id="3 gone on: absent then and expired now"),
        pytest.param(5, 10, None, [ON_RECORD, GONE_ON], "keep", id="3 gone on: expired"),
        pytest.param(5, 10, (5, ANOTHER_PLAN), [ON_RECORD, GONE_ON], "keep", id="3 gone on: a part never landed"),
        pytest.param(5, 10, (3, SOMEBODY), [ON_RECORD, GONE_ON], "keep", id="3 gone on: moved back since"),
        pytest.param(5, 10, (5, SOMEBODY), [], "write", id="4 at the base: a first commit over a foreign one"),
        pytest.param(5, 10, (5, ANOTHER_PLAN), [], "write", id="4 at the base, which is the run before"),
        pytest.param(0, 10, (0, SOMEBODY), [], "write", id="4 I4 a base of 0 is a base"),
        pytest.param(None, 10, None, [], "write", id="4 absent then and now"),
        pytest.param(None, 0, None, [], "write", id="4 I4 an end of 0 is committed too"),
        pytest.param(12, 10, (12, SOMEBODY), [MAY_GO_BACK], "write", id="4 before 3: a named policy moves it back"),
        pytest.param(5, 10, None, [PARENT_NEWEST], "write", id="5 expired meanwhile, nobody went on from elsewhere"),
    ],
)
def test_a_commit_is_written_or_left(base, end, now, states, decision):
    assert decide(base, end, now, *states) == decision


@pytest.mark.parametrize(
    ("base", "end", "now", "states", "words"),
    [
        pytest.param(5, 10, (12, SOMEBODY), [], ("at 5", "ends at 10", "at 12", "somebody else"), id="3 beyond"),
        pytest.param(5, 10, (12, OURS), [], ("at 12",), id="3 beyond, and a mark alone is no record"),
        pytest.param(5, 10, (10, SOMEBODY), [], ("at 5", "at 10"), id="6 at the end, by somebody else"),
        pytest.param(5, 10, (10, ANOTHER_PLAN), [], ("run b/r/t, plan p9",), id="6 at the end, by another plan"),
        pytest.param(5, 10, (7, ANOTHER_PLAN), [], ("at 7", "run b/r/t, plan p9"), id="6 in between"),
        pytest.param(5, 10, (3, SOMEBODY), [], ("at 3",), id="6 below the base: a person reset it"),
        pytest.param(5, 10, (3, SOMEBODY), [ON_RECORD], ("at 3",), id="6 reset after our commit is no row 3"),
        pytest.param(None, 10, (3, SOMEBODY), [], ("no commit when the plan", "at 3"), id="6 a commit appeared"),
        pytest.param(None, 10, (0, SOMEBODY), [], ("no commit when the plan", "at 0"), id="6 0 is not absent"),
        pytest.param(0, 10, None, [], ("at 0", "at no commit", "nobody"), id="6 absent is not 0"),
        pytest.param(5, 10, None, [], ("at 5", "nobody: it expired or was deleted"), id="5 not without the parent"),
        pytest.param(5, 10, None, [ON_RECORD], ("at no commit",), id="5 a receipt is not the newest checkpoint"),
        pytest.param(5, 10, (3, SOMEBODY), [GONE_ON], ("at 3",), id="6 gone on, and not from this plan's commit"),
        pytest.param(12, 10, (12, SOMEBODY), [], ("at 12", "ends at 10"), id="4 not back without a policy"),
        pytest.param(12, 10, (11, SOMEBODY), [MAY_GO_BACK], ("at 11",), id="6 a policy does not excuse a move"),
    ],
)
def test_a_conflict_names_base_end_now_and_who_wrote_it(base, end, now, states, words):
    with pytest.raises(Refusal) as refused:
        decide(base, end, now, *states)
    assert refused.value.error is CommitConflict
    assert refused.value.line.startswith("orders[0]: ")
    assert all(word in refused.value.line for word in words), refused.value.line
    assert "Nothing was committed" in refused.value.remedy
    for way in ("re_plan", "on_group_moved", "kafka-offsets commit --execute", "kafka-offsets unblock"):
        assert way in refused.value.remedy


@pytest.mark.parametrize(
    ("now", "states"),
    [((10, OURS), []), ((12, SOMEBODY), [ON_RECORD]), ((5, SOMEBODY), []), (None, [PARENT_NEWEST]), ((7, OURS), [])],
    ids=["before 2", "before 3", "before 4", "before 5", "before 6"],
)
@pytest.mark.parametrize("topic_id", ["another", None], ids=["re-created", "deleted"])
def test_row_1_another_topic_id_comes_first(now, states, topic_id):
    with pytest.raises(Refusal) as refused:
        decide(5, 10, now, *states, topic_id=topic_id)
    assert refused.value.error is TopicRecreated
    assert "id-of-orders" in refused.value.line
    assert (topic_id or "gone") in refused.value.line


@pytest.mark.parametrize("topic_id", [None, "the first one known"])
def test_row_1_needs_an_id_in_the_plan(topic_id):
    """A cluster that had no topic ids when the plan was made has none to compare."""
    assert decide(5, 10, (5, SOMEBODY), topic_id=topic_id, planned_id=None) == "write"


# ── a window's mirror ─────────────────────────────────────────────────────────────────────────────────────────────────

WINDOWS_MARK = CommitMark("p9", "b/r/t", window=True).encode()


def mirror(start, end, now, topic_id="id-of-orders"):
    """The decision for one partition. ``now``: an offset and who wrote it, or None."""
    made = plan([planned(0, start, end)], window=True)
    metadata = {OURS: mark_of(made).encode(), SOMEBODY: "", ANOTHER_PLAN: CommitMark("p9", "b/r/t").encode()}
    metadata["another window"] = WINDOWS_MARK
    found = CommittedOffset(now[0], None, metadata[now[1]]) if now else None
    return decide_mirror(made, made.partitions[0], found, topic_id)


@pytest.mark.parametrize(
    ("start", "end", "now"),
    [
        pytest.param(5, 10, (5, SOMEBODY), id="at its start"),
        pytest.param(5, 10, (5, "another window"), id="at its start, where the window before it ended"),
        pytest.param(0, 10, (0, SOMEBODY), id="0 is a start"),
        pytest.param(5, 5, (5, SOMEBODY), id="a partition without records matches at its start"),
        pytest.param(5, 10, (10, OURS), id="at its end by this very plan: a retry"),
        pytest.param(5, 5, (5, OURS), id="a retry, of a partition without records"),
    ],
)
def test_a_window_is_mirrored_where_the_group_stands_at_its_start(start, end, now):
    assert mirror(start, end, now) is None


@pytest.mark.parametrize(
    ("start", "end", "now", "words"),
    [
        pytest.param(5, 10, None, ("starts at 5", "at no commit"), id="absent"),
        pytest.param(0, 10, None, ("starts at 0", "at no commit"), id="absent is not 0"),
        pytest.param(5, 10, (4, SOMEBODY), ("starts at 5", "at 4"), id="below: records would be passed over"),
        pytest.param(5, 10, (6, SOMEBODY), ("at 6",), id="inside"),
        pytest.param(5, 10, (10, SOMEBODY), ("at 10",), id="at its end by somebody else"),
        pytest.param(5, 10, (10, "another window"), ("at 10",), id="at its end by another window"),
        pytest.param(5, 10, (12, OURS), ("at 12",), id="beyond: never moved back"),
        pytest.param(5, 5, (4, SOMEBODY), ("at 4",), id="no records, and elsewhere"),
        pytest.param(5, 10, (5, ANOTHER_PLAN), ("at 5", "run b/r/t, plan p9"), id="a position is not replaced"),
    ],
)
def test_elsewhere_a_window_writes_nothing_and_says_why(start, end, now, words):
    said = mirror(start, end, now)
    assert said is not None
    assert said.startswith("orders[0]: ")
    assert all(word in said for word in words), said


@pytest.mark.parametrize("now", [(5, SOMEBODY), (10, OURS), None])
@pytest.mark.parametrize("topic_id", ["another", None])
def test_row_1_comes_first_for_a_window_too(now, topic_id):
    with pytest.raises(Refusal) as refused:
        mirror(5, 10, now, topic_id)
    assert refused.value.error is TopicRecreated


# ── the mark ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "mark",
    [
        CommitMark("p1"),
        CommitMark("p1", "billing/run-1/resolve", "c1", "0123456789abcdef"),
        CommitMark("p1", "бухгалтерия/\U0001f600/resolve", None, window=True),
    ],
)
def test_a_mark_is_read_back_as_it_was_written(mark):
    assert CommitMark.of(CommittedOffset(1, None, mark.encode())) == mark


def test_a_mark_says_run_plan_parent_and_pipeline_and_window_only_if_it_is_one():
    made = plan([planned(0, 0, 1)], parent="c1")
    said = {"run": str(RUN), "plan": made.plan_id, "parent": "c1", "pipeline": pipeline_mark("g/billing/resolve")}
    assert json.loads(mark_of(made).encode()) == said
    window = plan([planned(0, 0, 1)], window=True, run=None, checkpoint_id=None)
    assert json.loads(mark_of(window).encode()) == {
        "run": None,
        "plan": window.plan_id,
        "parent": None,
        "window": True,
    }


@pytest.mark.parametrize("run_id", ["x" * 9_000, "\U0001f600" * 3_000], ids=["ASCII", "escaped"])
def test_a_long_run_name_is_cut_so_that_the_broker_takes_the_mark(run_id):
    made = plan([planned(0, 0, 1)], run=RunKey("billing", run_id, "resolve"), parent="f" * 32)
    text = mark_of(made).encode()
    assert len(text.encode()) <= METADATA_LIMIT_BYTES
    mark = CommitMark.of(CommittedOffset(1, None, text))
    assert (mark.plan_id, mark.parent) == (made.plan_id, "f" * 32), "what identifies is never cut"
    assert mark.run.startswith("billing/")


def test_no_commit_has_no_mark():
    assert CommitMark.of(None) is None
