"""The position after a batch, and the one that a batch goes on from: nothing is dropped that is still the same log."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.json_columns import as_json, read_as, reading
from airflow_kafka_offsets.plan.plan import Plan
from airflow_kafka_offsets.plan.position import Position, SavedOffset, position_after, position_within
from tests.builders import plan, planned, position, tp

ROWS = [planned(0, 10, 15, leader_epoch=3), planned(1, 5, 5)]


def offsets(found: Position) -> dict[str, int]:
    return {str(where): kept.offset for where, kept in found.offsets.items()}


# ── after a commit ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_position_after_a_batch_is_where_each_range_ends_with_the_epoch_of_the_end():
    after = position_after(plan(ROWS), None)
    assert after.offsets == {tp(0): SavedOffset(15, 3), tp(1): SavedOffset(5, None)}
    assert after.topic_ids == {"orders": "id-of-orders"}
    assert (after.cluster_id, after.startup, after.restarts) == ("cluster-1", "group-offsets", ())


def test_F6_a_partition_that_the_batch_lacks_keeps_its_offset():
    """A broker's partition list may be short for a moment; what is dropped would start at its log start again."""
    before = position({0: 10, 1: 5, 2: 7, tp(0, "clicks"): SavedOffset(9, 4)})
    after = position_after(plan(ROWS), before)
    assert offsets(after) == {"orders[0]": 15, "orders[1]": 5, "orders[2]": 7, "clicks[0]": 9}
    assert after.offsets[tp(0, "clicks")] == SavedOffset(9, 4)
    assert after.topic_ids == {"orders": "id-of-orders", "clicks": "id-of-clicks"}


def test_F9_after_a_batch_of_an_empty_position_there_is_just_the_batch():
    assert offsets(position_after(plan(ROWS), position({}))) == {"orders[0]": 15, "orders[1]": 5}


def test_E6_offsets_of_a_topic_that_was_made_anew_are_of_a_log_that_is_gone():
    before = position({0: 10, 2: 7, tp(0, "clicks"): 9})
    after = position_after(plan(ROWS, topic_ids={"orders": "another"}), before)
    assert offsets(after) == {"orders[0]": 15, "orders[1]": 5, "clicks[0]": 9}
    assert after.topic_ids == {"orders": "another", "clicks": "id-of-clicks"}


@pytest.mark.parametrize(
    ("was", "now", "kept"),
    [
        pytest.param(None, "id", True, id="an id that was not known tells nothing"),
        pytest.param("id", "id", True, id="the same"),
        pytest.param(None, None, True, id="never known"),
        pytest.param("id", None, True, id="an id that is not told any more"),
        pytest.param("id", "another", False, id="another"),
    ],
)
def test_only_another_id_makes_another_log(was, now, kept):
    before = position({2: 7}, topic_ids={"orders": was})
    after = position_after(plan(ROWS, topic_ids={"orders": now}), before)
    assert (tp(2) in after.offsets) is kept
    assert after.topic_ids == {"orders": now}


def test_nothing_of_another_cluster_is_kept():
    before = position({0: 10, 2: 7, tp(0, "clicks"): 9}, cluster_id="cluster-0")
    after = position_after(plan(ROWS), before)
    assert offsets(after) == {"orders[0]": 15, "orders[1]": 5}
    assert (after.cluster_id, after.topic_ids) == ("cluster-1", {"orders": "id-of-orders"})


def test_a_topic_of_which_no_partition_is_left_is_forgotten():
    after = position_after(plan([planned(0, 0, 3)], topic_ids={"orders": "i", "empty": "j"}), None)
    assert after.topic_ids == {"orders": "i"}


@pytest.mark.parametrize(
    ("before", "restarted", "startup"),
    [
        pytest.param(None, False, "earliest-offset", id="the first batch records its request"),
        pytest.param("latest-offset", False, "latest-offset", id="a later request is not applied, nor recorded"),
        pytest.param("latest-offset", True, "earliest-offset", id="a restart applies it, and records it"),
        pytest.param("", False, "earliest-offset", id="a position that only the group's marks told has none"),
    ],
)
def test_the_startup_request_that_is_recorded_is_the_one_that_was_applied(before, restarted, startup):
    known = None if before is None else position({0: 1}, startup=before)
    made = plan(ROWS, startup="earliest-offset", restarted=restarted)
    assert position_after(made, known).startup == startup


def test_every_restart_word_is_kept_so_that_none_is_applied_twice():
    made = plan(ROWS, restarts=("a", "b"), restarted=True)
    assert position_after(made, position({0: 1}, restarts=("a",))).restarts == ("a", "b")


# ── what a plan goes on from ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_that_is_planned_anew_goes_on_from_where_its_plan_did_and_not_from_where_that_started():
    """The plan started later because records were gone; its position says from where they are counted."""
    rows = [planned(0, 12, 15, position=10, position_epoch=2), planned(1, 5, 5)]
    within = position_within(plan(rows), position({0: 10, 1: 5, 2: 7}))
    assert within.offsets == {tp(0): SavedOffset(10, 2), tp(1): SavedOffset(5, None), tp(2): SavedOffset(7)}


def test_what_the_startup_mode_has_decided_for_the_first_batch_stays_decided():
    """Else latest-offset would skip, at each try, what has come since the one before."""
    assert offsets(position_within(plan([planned(0, 90, 95)], startup="latest-offset"), None)) == {"orders[0]": 90}


# ── laws ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

PLACES = [tp(number, topic) for topic in ("clicks", "orders") for number in range(3)]
KEPT = st.builds(SavedOffset, st.integers(0, 2**63 - 1), st.none() | st.integers(0, 9))
IDS = st.fixed_dictionaries({topic: st.sampled_from([None, "i", "j"]) for topic in ("clicks", "orders")})
CLUSTER = st.sampled_from(["cluster-1", "cluster-2"])
POSITIONS = st.builds(
    Position, CLUSTER, st.dictionaries(st.sampled_from(PLACES), KEPT), IDS, st.text(), st.lists(st.text()).map(tuple)
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    rows = [
        planned(where, start, start + size, position=start, leader_epoch=epoch)
        for where, start, size, epoch in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(PLACES), st.integers(0, 50), st.integers(0, 9), st.none() | st.integers(0, 9)
                ),
                unique_by=lambda row: row[0],
            ).map(sorted)
        )
    ]
    topics = {row.topic_partition.topic for row in rows}
    ids = draw(IDS)
    return plan(rows, cluster_id=draw(CLUSTER), topic_ids={topic: ids[topic] for topic in topics})


@given(plans(), st.none() | POSITIONS)
def test_after_a_batch_each_offset_is_of_the_batch_or_of_the_same_log_before(made, before):
    after = position_after(made, before)
    ends = {p.topic_partition: SavedOffset(p.end_offset, p.leader_epoch) for p in made.partitions}
    assert {where: after.offsets[where] for where in ends} == ends
    kept = before.offsets if before is not None and before.cluster_id == made.found.cluster_id else {}
    for where in PLACES:
        if where in ends:
            continue
        old = (before.topic_ids if before else {}).get(where.topic)
        now = made.found.topic_ids.get(where.topic)
        another = None not in (old, now) and old != now
        assert after.offsets.get(where) == (None if another else kept.get(where))
    assert set(after.topic_ids) <= {where.topic for where in after.offsets}


def read(data):
    with reading("a position"):
        return read_as(Position, data)


@given(POSITIONS)
def test_a_position_is_read_back_as_it_was_written(before):
    assert read(json.loads(json.dumps(as_json(before)))) == before


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda d: d.update(cluster_id=5), id="a cluster that is no text"),
        pytest.param(lambda d: d.update(restarts=[1]), id="a word that is no text"),
        pytest.param(lambda d: d.update(startup=None), id="no startup"),
        pytest.param(lambda d: d["topic_ids"].update(orders=5), id="an id that is no text"),
        pytest.param(lambda d: d["offsets"]["orders"].update(offset=["5"]), id="an offset that is text"),
        pytest.param(lambda d: d["offsets"]["orders"].update(offset=[True]), id="an offset that is a flag"),
        pytest.param(lambda d: d["offsets"]["orders"].update(offset=[5, 6]), id="a column that is longer"),
        pytest.param(lambda d: d["offsets"]["orders"].pop("offset"), id="a column is missing"),
        pytest.param(lambda d: d["offsets"]["orders"].update(offset=[-1]), id="a sentinel"),
        pytest.param(lambda d: d.update(offsets=[]), id="topics that are a list"),
        pytest.param(lambda d: d["offsets"].update(orders=[]), id="a topic that is a list"),
        pytest.param(lambda d: d.update(restarts=None), id="no words"),
        pytest.param(lambda d: d.pop("cluster_id"), id="no cluster"),
    ],
)
def test_what_is_no_position_is_refused(edit):
    data = json.loads(json.dumps(as_json(position({0: 5}, restarts=("a",)))))
    assert read(data)
    edit(data)
    with pytest.raises(ValueError):  # noqa: PT011 - the sentence is the object's, which names it
        read(data)
