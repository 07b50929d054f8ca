"""The log of one batch as values: what its entries say together, and that each is read back as it was written."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.kafka_values import Actor, RunKey
from airflow_kafka_offsets.log.entries import (
    BatchLog,
    Committed,
    History,
    Planned,
    Summary,
    Taken,
    Totals,
    entry_from_dict,
    entry_to_dict,
    log_of,
)
from airflow_kafka_offsets.plan.position import SavedOffset
from tests.builders import RUN, plan, planned, position, tp

ME = Actor(RUN, "airflow.example.com")
OTHER = Actor(RunKey("billing", "run-1", "resolve"), "staging.example.com")
PERSON = Actor(None)
PLAN = Planned(plan([planned(0, 4, 10)]), position({0: 4}))
ANEW = Planned(plan([planned(0, 5, 10)], run=OTHER.run, instance=OTHER.instance, reason="re_plan"), position({0: 4}))
COMMIT = Committed(ME, 6, PLAN.plan.plan_id, position=position({0: 10, 1: SavedOffset(3, 2)}, restarts=("a",)))


# ── what a log says ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_alone_is_held_by_who_made_it():
    log = BatchLog(PLAN)
    assert (log.plan, log.holder, log.committed, log.redone) == (PLAN.plan, ME, None, None)
    assert (log.plan_number, log.next_number, log.last_instance) == (1, 2, "airflow.example.com")


def test_the_holder_is_who_took_it_last_and_a_commit_changes_no_holder():
    log = BatchLog(PLAN, 1, (Taken(OTHER, 5), Taken(PERSON, 6), Committed(OTHER, 7, "p", position=None)))
    assert log.holder == PERSON
    assert log.next_number == 5
    assert log.last_instance == "staging.example.com"


def test_a_plan_made_anew_is_the_current_one_and_forgets_who_had_taken_and_committed_what_was_before():
    log = BatchLog(PLAN).with_entry(Taken(OTHER, 5)).with_entry(COMMIT).with_entry(ANEW)
    assert log == BatchLog(ANEW, 4)
    assert (log.holder, log.committed, log.next_number) == (OTHER, None, 5)


def test_each_entry_has_the_next_number():
    log = BatchLog(PLAN, 3)
    for entry, number in ((Taken(ME, 1), 4), (COMMIT, 5), (Taken(ME, 2), 6)):
        assert log.next_number == number
        log = log.with_entry(entry)
    assert (log.plan_number, log.later[1]) == (3, COMMIT)


@pytest.mark.parametrize(
    ("later", "redone"),
    [
        pytest.param([], None, id="a plan"),
        pytest.param([Taken(ME, 1, {0: 1})], None, id="taken, and not committed yet"),
        pytest.param([Taken(ME, 1, {0: 1}), COMMIT], None, id="taken before the commit"),
        pytest.param([COMMIT, Taken(ME, 2, {0: 1})], Taken(ME, 2, {0: 1}), id="once more"),
        pytest.param([COMMIT, Taken(ME, 2, {0: 1}), Taken(OTHER, 3, {0: 2})], Taken(OTHER, 3, {0: 2}), id="the last"),
        pytest.param([COMMIT, Taken(ME, 2, {0: 1}), Taken(OTHER, 3)], None, id="taken, and not done again"),
    ],
)  # fmt: skip
def test_a_committed_batch_is_done_again_by_the_last_who_took_it_after_the_commit(later, redone):
    """Rule 4: reads from before that ``taken`` do not verify it."""
    assert BatchLog(PLAN, 1, tuple(later)).redone == redone


# ── as objects ────────────────────────────────────────────────────────────────────────────────────────────────────────

NAME = st.text(max_size=8)
ACTORS = st.builds(
    Actor, st.none() | st.builds(RunKey, NAME, NAME, NAME, st.integers(-1, 99)), st.none() | NAME, st.none() | NAME
)  # fmt: skip
OFFSET = st.integers(0, 2**63 - 1)
POSITIONS = st.none() | st.dictionaries(
    st.sampled_from([tp(0), tp(1), tp(0, "clicks")]), st.builds(SavedOffset, OFFSET, st.none() | st.integers(0, 9))
).map(position)
PLANS = st.builds(
    lambda ends, by: plan(
        [planned(number, 0, end) for number, end in enumerate(ends)], run=by.run, instance=by.instance
    ),
    st.lists(OFFSET, max_size=3),
    ACTORS,
)
DEFINITIONS = st.lists(NAME, max_size=2).map(tuple)
TOTALS = st.builds(Totals, st.integers(1, 99), *[OFFSET] * 5, st.none() | OFFSET, st.none() | OFFSET)
SUMMARIES = st.builds(
    Summary,
    key=NAME,
    number=st.none() | OFFSET,
    after=st.none() | NAME,
    plan=OFFSET,
    planned_ms=OFFSET,
    by=st.lists(ACTORS, max_size=2).map(tuple),
    records=OFFSET,
    lost=OFFSET,
    skipped=OFFSET,
    late=OFFSET,
    splits=OFFSET,
    left=st.none() | OFFSET,
    reason=st.none() | NAME,
    startup=NAME,
    withdrawn=st.booleans(),
    task=st.none() | st.tuples(NAME, NAME),
    group_id=st.none() | NAME,
    output=st.none() | NAME,
    totals=TOTALS,
)
READS = st.sampled_from([None, "0" * 32])
ENTRIES = st.one_of(
    st.builds(Planned, PLANS, POSITIONS, st.builds(History, DEFINITIONS, st.just(Totals()) | TOTALS)),
    st.builds(Taken, ACTORS, OFFSET, st.dictionaries(st.integers(0, 200), st.integers(1, 10**6))),
    st.builds(
        Committed, ACTORS, OFFSET, NAME, OFFSET, OFFSET, DEFINITIONS, READS, st.none() | SUMMARIES, position=POSITIONS
    ),
)


@given(ENTRIES)
def test_an_entry_is_read_back_as_it_was_written(entry):
    assert entry_from_dict(json.loads(json.dumps(entry_to_dict(entry)))) == entry


def written(entry, /, *without, **more):
    data = json.loads(json.dumps(entry_to_dict(entry)))
    return {name: value for name, value in {**data, **more}.items() if name not in without}


TAKEN = Taken(ME, 5, {0: 2, 11: 3})


def test_who_and_when_and_of_each_split_the_highest_attempt_is_in_a_taken():
    assert written(TAKEN) == {
        "version": 1,
        "entry": "taken",
        "at_ms": 5,
        "by": {
            "run": {"dag_id": RUN.dag_id, "run_id": RUN.run_id, "task_id": RUN.task_id, "map_index": -1},
            "instance": "airflow.example.com",
            "person": None,
        },
        "attempts": {"0": 2, "11": 3},
        "unread": 0,
    }


def test_a_commit_names_its_plan_and_holds_the_whole_position():
    found = written(COMMIT)
    assert (found["entry"], found["plan_id"]) == ("commit", PLAN.plan.plan_id)
    assert found["position"]["offsets"]["orders"]["offset"] == [10, 3]
    assert found["position"]["restarts"] == ["a"]


def test_a_field_that_a_later_release_adds_is_passed_over():
    assert entry_from_dict(written(TAKEN, colour="red")) == TAKEN


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(written(TAKEN, version=2), "version 2 is not known", id="a later version"),
        pytest.param(written(TAKEN, version="1"), "version '1' is not known", id="a version that is text"),
        pytest.param(written(TAKEN, "version"), "version None is not known", id="no version"),
        pytest.param(written(TAKEN, entry="lease"), "entry 'lease' is not known", id="a kind that is not known"),
        pytest.param(written(TAKEN, "entry"), "not an entry.*entry", id="no kind"),
        pytest.param(written(TAKEN, entry=["plan"]), "is not known", id="a kind that is a list"),
        pytest.param(written(TAKEN, "by"), "not an entry.*by", id="by nobody"),
        pytest.param(written(TAKEN, by="me"), "not an entry", id="by a text"),
        pytest.param(written(TAKEN, at_ms="5"), "'5' is not a whole number", id="a time that is text"),
        pytest.param(written(TAKEN, attempts=[1]), "not an entry", id="attempts that are a list"),
        pytest.param(written(TAKEN, attempts={"0": "1"}), "'1' is not a whole number", id="an attempt that is text"),
        pytest.param(written(TAKEN, attempts={"x": 1}), "invalid literal", id="a split that is none"),
        pytest.param(written(COMMIT, "plan_id"), "not an entry.*plan_id", id="a commit of no plan"),
        pytest.param(written(COMMIT, plan_id=5), "5 is not text", id="a plan that is a number"),
        pytest.param(written(COMMIT, "position"), "not an entry.*position", id="a commit without a position"),
        pytest.param(written(COMMIT, position={}), "not an entry.*cluster_id", id="a position that is empty"),
        pytest.param(written(COMMIT, position=[]), "not an entry", id="a position that is a list"),
        pytest.param(written(PLAN, plan={}), "plan version None", id="no plan"),
        pytest.param(written(PLAN, plan=None), "not a plan", id="a plan that is null"),
        pytest.param(
            written(PLAN, plan={**written(PLAN)["plan"], "cluster_id": "other"}), "it was altered", id="an altered plan"
        ),
        pytest.param(
            written(PLAN, plan={**written(PLAN)["plan"], "interval": [1]}), "not a plan", id="half an interval"
        ),
    ],
)  # fmt: skip
def test_what_is_no_entry_is_refused(data, words):
    with pytest.raises(ValueError, match=words):
        entry_from_dict(data)


@given(ENTRIES, st.data())
def test_an_entry_of_which_a_field_is_anything_else_is_an_entry_or_a_ValueError(entry, data):
    found = json.loads(json.dumps(entry_to_dict(entry)))
    where = found
    while isinstance(where, dict) and where:
        key = data.draw(st.sampled_from(sorted(where)))
        if not isinstance(where[key], dict) or data.draw(st.booleans()):
            where[key] = data.draw(st.none() | st.booleans() | st.text() | st.just([]) | st.just({}) | st.just(1.5))
            break
        where = where[key]
    with suppress(ValueError):
        entry_from_dict(found)


# ── entries as a log ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_log_begins_with_its_current_plan():
    assert log_of([PLAN], 1) == BatchLog(PLAN)
    assert log_of([ANEW, Taken(ME, 5), COMMIT], 3) == BatchLog(ANEW, 3, (Taken(ME, 5), COMMIT))


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([Taken(ME, 5)], id="a taken"),
        pytest.param([COMMIT, PLAN], id="a commit before its plan"),
        pytest.param([PLAN, ANEW], id="a plan that is not the current one"),
        pytest.param([PLAN, COMMIT, ANEW], id="a plan after the commit"),
    ],
)
def test_a_log_that_does_not_begin_with_its_current_plan_is_refused(entries):
    with pytest.raises(ValueError, match="begins with its current plan"):
        log_of(entries, 1)


def test_who_acts_is_said():
    assert str(ME) == f"run {RUN}"
    assert str(replace(ME, run=None)) == "a person at the command line"
