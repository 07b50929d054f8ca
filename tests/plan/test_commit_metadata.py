"""Marks: what encode() writes is read back and fits the broker; whatever others wrote is nobody's mark."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.plan.commit_metadata import (
    BY,
    METADATA_LIMIT_BYTES,
    CommitMetadata,
    name_in_metadata,
    newest_batch,
    position_of_group,
    writer_of,
)
from airflow_kafka_offsets.plan.plan import HIGHEST, new_key
from airflow_kafka_offsets.plan.position import SavedOffset
from airflow_kafka_offsets.plan.window_claims import TimeClaim, batch_name_of
from tests.builders import KEY, position, tp

OLDER, NEWER = new_key(6, 0, "aaaa"), new_key(12, 0, "aaaa")
MINE = CommitMetadata.by("g/billing/resolve", "airflow.example.com")
GOOD = {"by": BY, "pipeline": "p", "instance": "i", "batch": KEY}


def held(metadata: str, offset: int = 5) -> CommittedOffset:
    return CommittedOffset(offset, None, metadata)


def marked(batch: str | None, offset: int = 5, by: CommitMetadata = MINE, epoch: int | None = None) -> CommittedOffset:
    return CommittedOffset(offset, epoch, by.after(batch).encode())


# ── as text ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_mark_says_by_whom_for_which_pipeline_of_which_airflow_and_up_to_which_batch():
    assert json.loads(CommitMetadata("p", "i", KEY).encode()) == GOOD
    assert CommitMetadata.of(held(CommitMetadata("p", "i").encode())) == CommitMetadata("p", "i", None)


@given(st.text(), st.text(), st.none() | st.integers(1, HIGHEST).map(lambda number: new_key(number, 0, "k3f9")))
@example("x" * 9_000, "y" * 9_000, KEY)
@example("\U0001f600" * 3_000, "\U0001f600" * 3_000, KEY)
@example("\x00" * 900, '"' * 900, KEY)
@example("é" * 166, "\ud800" * 166, KEY)
@example("a" * 998, "b" * 999, KEY)
def test_whatever_the_names_a_mark_fits_and_is_read_back(pipeline, instance, batch):
    mark = CommitMetadata.by(pipeline, instance).after(batch)
    text = mark.encode()
    assert text.isascii()
    assert len(text) <= METADATA_LIMIT_BYTES
    assert CommitMetadata.of(held(text)) == mark


@given(st.text(), st.text())
@example("x" * 2_000, "x" * 2_001)
@example("x" * 2_000 + "a", "x" * 2_000 + "b")
def test_names_that_differ_differ_in_the_mark(one, other):
    """Two pipelines with one long beginning are two."""
    assert (name_in_metadata(one) == name_in_metadata(other)) == (one == other)


def test_a_short_name_is_itself_and_a_long_one_begins_like_itself():
    for name in ("g/billing/résolve", "x" * 998):
        assert name_in_metadata(name) == name
    for name in ("billing" * 1_000, "x" * 999):
        assert name_in_metadata(name) != name
        assert name_in_metadata(name)[:100] == name[:100]


# ── what others wrote ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param("", id="nothing, as a consumer writes"),
        pytest.param("spark-batch-17", id="a text"),
        pytest.param("[" * 4_000, id="4,000 brackets: JSON that nobody can read"),
        pytest.param('{"by":' * 600, id="as many objects"),
        pytest.param("null", id="null"),
        pytest.param("17", id="a number"),
        pytest.param("NaN", id="no JSON, but Python's"),
        pytest.param('"airflow-kafka-offsets"', id="our name as a text"),
        pytest.param(json.dumps([GOOD]), id="a list"),
        pytest.param("{}", id="an empty object"),
        pytest.param('{"plan": "p1", "run": "x"}', id="a foreign object with a plan"),
        pytest.param(json.dumps({**GOOD, "by": "another-tool"}), id="by another tool"),
        pytest.param(json.dumps({**GOOD, "by": BY.upper()}), id="by us in capitals"),
        pytest.param(json.dumps({k: v for k, v in GOOD.items() if k != "by"}), id="by nobody"),
        pytest.param(json.dumps({k: v for k, v in GOOD.items() if k != "pipeline"}), id="no pipeline"),
        pytest.param(json.dumps({k: v for k, v in GOOD.items() if k != "instance"}), id="no instance"),
        pytest.param(json.dumps({k: v for k, v in GOOD.items() if k != "batch"}), id="no batch"),
        pytest.param(json.dumps({**GOOD, "pipeline": 5}), id="a pipeline that is a number"),
        pytest.param(json.dumps({**GOOD, "pipeline": None}), id="a pipeline that is null"),
        pytest.param(json.dumps({**GOOD, "instance": ["i"]}), id="an instance that is a list"),
        pytest.param(json.dumps({**GOOD, "batch": 7}), id="a batch that is a number"),
        pytest.param(json.dumps({**GOOD, "batch": "7"}), id="a batch that is the digits of one"),
        pytest.param(json.dumps({**GOOD, "batch": ""}), id="a batch that is empty"),
        pytest.param(json.dumps({**GOOD, "batch": True}), id="a batch that is a flag"),
        pytest.param(
            json.dumps({**GOOD, "batch": batch_name_of(TimeClaim(0, 1), "p").key}), id="a window, which moves no group"
        ),
        pytest.param(CommitMetadata("p", "i", KEY).encode() + " " * 4_000, id="longer than we write"),
        pytest.param(json.dumps({**GOOD, "pipeline": "p" * 5_000}), id="names longer than we write"),
        pytest.param(CommitMetadata("p", "i", KEY).encode()[:-1], id="cut off"),
        pytest.param("\x00" + CommitMetadata("p", "i", KEY).encode(), id="binary"),
        pytest.param("9" * 4_095, id="a number with more digits than Python reads"),
    ],
)
def test_what_is_not_exactly_a_mark_is_somebodys(metadata):
    assert CommitMetadata.of(held(metadata)) is None
    assert writer_of(held(metadata)) == "somebody else (not this provider)"
    assert MINE.own({tp(): held(metadata)}) == {}


@given(st.text() | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*GOOD, "plan"]) | st.text(), inner),
).map(json.dumps))  # fmt: skip
def test_no_metadata_at_all_is_an_error(metadata):
    mark = CommitMetadata.of(held(metadata))
    assert mark is None or mark.encode()


def test_a_mark_is_read_up_to_the_length_that_a_broker_takes():
    text = CommitMetadata("p", "i", KEY).encode()
    assert CommitMetadata.of(held(text.ljust(METADATA_LIMIT_BYTES))) == CommitMetadata("p", "i", KEY)
    assert CommitMetadata.of(held(text.ljust(METADATA_LIMIT_BYTES + 1))) is None


def test_a_later_version_may_say_more():
    assert CommitMetadata.of(held(json.dumps({**GOOD, "plan": "p1"}))) == CommitMetadata("p", "i", KEY)


def test_who_wrote_a_commit_is_said():
    assert writer_of(marked(KEY)) == "pipeline 'g/billing/resolve' of Airflow airflow.example.com"


# ── whose the group is ────────────────────────────────────────────────────────────────────────────────────────────────

ANOTHER_PIPELINE = CommitMetadata.by("other", "airflow.example.com")
ANOTHER_AIRFLOW = CommitMetadata.by("g/billing/resolve", "staging.example.com")


def test_own_marks_are_those_of_the_pipeline_of_whichever_airflow():
    group = {
        tp(0): marked(KEY),
        tp(1): marked(KEY, by=ANOTHER_PIPELINE),
        tp(2): marked(None, by=ANOTHER_AIRFLOW),
        tp(3): held(""),
    }
    assert MINE.own(group) == {tp(0): MINE.after(KEY), tp(2): ANOTHER_AIRFLOW.after(None)}
    assert list(MINE.unsigned(group)) == [tp(1), tp(2), tp(3)], "what has to be signed: also another Airflow's"


@pytest.mark.parametrize(
    ("commit", "kept", "recorded", "foreign"),
    [
        pytest.param(marked(KEY, 99), 5, None, False, id="our mark, wherever it stands"),
        pytest.param(marked(None, 99, ANOTHER_AIRFLOW), 5, None, False, id="our pipeline's of another Airflow"),
        pytest.param(held("", 5), 5, None, False, id="equal to the position, whoever wrote it"),
        pytest.param(marked(KEY, 5, ANOTHER_PIPELINE), 5, None, False, id="equal to the position, another pipeline's"),
        pytest.param(held("", 6), 5, None, True, id="reset forward"),
        pytest.param(held("", 4), 5, None, True, id="reset back"),
        pytest.param(held("", 0), 5, None, True, id="reset to 0"),
        pytest.param(held("", 5), None, None, True, id="a partition that the position does not have"),
        pytest.param(marked(KEY, 6, ANOTHER_PIPELINE), 5, None, True, id="another pipeline's, elsewhere"),
        pytest.param(held("", 7), 5, 7, False, id="what the unfinished plan has seen, and not yet signed"),
        pytest.param(held("", 8), 5, 7, True, id="moved since the unfinished plan has seen it"),
        pytest.param(held("", 8), 5, None, True, id="the unfinished plan has seen nothing there"),
    ],
)  # fmt: skip
def test_what_is_somebodys_is_neither_marked_nor_where_the_position_is(commit, kept, recorded, foreign):
    where = position({} if kept is None else {0: kept})
    group = {tp(0): commit}
    assert MINE.foreign(group, where, {tp(0): recorded}) == (group if foreign else {})


def test_an_absent_commit_is_nobodys_and_without_a_position_every_unmarked_one_is_somebodys():
    assert MINE.foreign({}, position({0: 5})) == {}
    group = {tp(1): held(""), tp(0): marked(KEY), tp(2): held("", 0)}
    assert list(MINE.foreign(group, None)) == [tp(1), tp(2)], "and they are sorted"


def test_the_newest_batch_is_the_one_with_the_highest_number():
    marks = {tp(0): MINE.after(OLDER), tp(1): MINE.after(NEWER), tp(2): MINE.after(None)}
    assert newest_batch(marks) == NEWER
    assert newest_batch({tp(2): MINE.after(None)}) is None
    assert newest_batch({}) is None


# ── a lost work store ─────────────────────────────────────────────────────────────────────────────────────────────────


def told(group, before=None, ids=None):
    ids = {"orders": "id-of-orders", "clicks": "id-of-clicks"} if ids is None else ids
    return position_of_group(group, MINE.own(group), "cluster-1", ids, before)


def test_the_marks_of_a_lost_store_are_the_position_with_their_epochs():
    found = told({tp(0): marked(NEWER, 15, epoch=3), tp(1): marked(OLDER, 7), tp(2): held("", 9)})
    assert found.offsets == {tp(0): SavedOffset(15, 3), tp(1): SavedOffset(7)}
    assert (found.cluster_id, found.topic_ids) == ("cluster-1", {"orders": "id-of-orders"})
    assert (found.startup, found.restarts) == ("", ())


def test_a_group_that_was_only_signed_tells_no_position():
    """The first plan signs before anything is read: to go on from there would skip what it planned."""
    assert told({tp(0): marked(None, 15), tp(1): held("", 3)}) is None
    assert told({}) is None


def test_the_marks_go_over_what_an_older_log_still_knows():
    before = position({0: 5, 1: 6, tp(0, "clicks"): 7}, startup="earliest-offset", restarts=("a",))
    found = told({tp(0): marked(NEWER, 15)}, before)
    assert found.offsets == {tp(0): SavedOffset(15), tp(1): SavedOffset(6), tp(0, "clicks"): SavedOffset(7)}
    assert (found.startup, found.restarts) == ("earliest-offset", ("a",))
    assert found.topic_ids == {"orders": "id-of-orders", "clicks": "id-of-clicks"}
