"""What a run has to do, as a table: whose the batch is, whether that DAG run is running, and who has committed it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.kafka_values import Actor, RunKey
from airflow_kafka_offsets.log.entries import BatchLog, Committed, Planned, Taken, next_step
from tests.builders import plan, planned

ME = Actor(RunKey("billing", "run-2", "resolve"), "airflow.example.com")
OTHER = Actor(RunKey("billing", "run-1", "resolve"), "airflow.example.com")
MAPPED = Actor(RunKey("billing", "run-2", "resolve", 3), "airflow.example.com")  # of the same DAG run as ME
ANOTHER_DAG = Actor(RunKey("replays", "run-2", "resolve"), "airflow.example.com")  # the same run id, another DAG
PERSON = Actor(None, None)

RUNNING = {"other runs": {OTHER.run, ANOTHER_DAG.run}, "no run": set(), "every run": {OTHER.run, ME.run, MAPPED.run}}


def log(planner: Actor, *later: Taken | Committed) -> BatchLog:
    made = plan([planned(0, 0, 9)], by=planner)
    return BatchLog(Planned(made), 1, later)


def taken(by: Actor) -> Taken:
    return Taken(by, 5)


def commit(by: Actor) -> Committed:
    return Committed(by, 6, plan([planned(0, 0, 9)]).plan_id, position=None)


def step(me, found, running, own=False, again=False):
    return next_step(me, found, own=own, again=again, is_running=running.__contains__)


# ── nobody has committed it ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize(
    ("me", "found", "running", "expected"),
    [
        pytest.param(ME, log(ME), "no run", "do", id="planned by me: a retry"),
        pytest.param(ME, log(ME), "every run", "do", id="planned by me, who am running"),
        pytest.param(ME, log(OTHER, taken(ME)), "other runs", "do", id="taken by me from one that runs again"),
        pytest.param(ME, log(OTHER), "other runs", "wait", id="planned by a run that is running"),
        pytest.param(ME, log(OTHER), "no run", "do", id="planned by a run that is not running: failed, queued"),
        pytest.param(ME, log(ME, taken(OTHER)), "other runs", "wait", id="taken from me by a run that is running"),
        pytest.param(ME, log(ME, taken(OTHER)), "no run", "do", id="taken from me by a run that has failed"),
        pytest.param(ME, log(PERSON, taken(OTHER)), "other runs", "wait", id="the holder is who took it last"),
        pytest.param(
            ME, log(OTHER, taken(ANOTHER_DAG), taken(MAPPED)), "other runs", "do", id="of three it is the last"
        ),
        pytest.param(ME, log(MAPPED), "every run", "do", id="a task of my DAG run: those never wait"),
        pytest.param(MAPPED, log(ME), "every run", "do", id="nor the other way round"),
        pytest.param(ME, log(ANOTHER_DAG), "other runs", "wait", id="the same run id of another DAG"),
        pytest.param(ME, log(PERSON), "other runs", "do", id="planned by a person: nobody waits for one"),
        pytest.param(PERSON, log(OTHER), "other runs", "wait", id="a person waits for a run that is running"),
        pytest.param(PERSON, log(OTHER), "no run", "do", id="a person, and nobody is at it"),
        pytest.param(PERSON, log(PERSON), "no run", "do", id="a person's own"),
    ],
)
def test_an_unfinished_batch_is_done_unless_a_run_that_is_running_has_it(me, found, running, expected, own, again):
    """Rules 1 and 3. Whether it was the run's own, and whether somebody says ``redo``, changes nothing."""
    assert step(me, found, RUNNING[running], own, again) == expected


def test_only_the_holder_is_asked_about():
    """Airflow is asked once a look, and not at all where nobody could be waited for."""
    asked = []
    for found in (log(OTHER), log(MAPPED), log(PERSON), log(OTHER, commit(OTHER))):
        next_step(ME, found, own=True, again=False, is_running=lambda run: asked.append(run) or False)
    assert asked == [OTHER.run]


# ── it is committed, or there is none ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("found", "own", "again", "expected"),
    [
        pytest.param(None, False, False, "plan next", id="there is no batch"),
        pytest.param(None, True, True, "plan next", id="there is no batch, though somebody says redo"),
        pytest.param(log(OTHER, commit(OTHER)), False, False, "plan next", id="another run's, committed"),
        pytest.param(log(OTHER, commit(OTHER)), False, True, "plan next", id="redo is about the run's own batch only"),
        pytest.param(log(ME, commit(ME)), False, False, "plan next", id="committed by me, and I have taken none yet"),
        pytest.param(log(ME, commit(ME)), True, False, "do again", id="rule 2: my own, committed by me: I was cleared"),
        pytest.param(
            log(OTHER, taken(ME), commit(ME)), True, False, "do again", id="planned by another, committed by me"
        ),
        pytest.param(log(ME, commit(OTHER)), True, False, "leave", id="rule 2: mine, and another has committed it"),
        pytest.param(log(ME, commit(OTHER)), True, True, "do again", id="redo: mine, whoever has committed it"),
        pytest.param(log(ME, commit(ME)), True, True, "do again", id="redo: mine and by me"),
        pytest.param(log(ME, commit(PERSON)), True, False, "leave", id="a person has committed it"),
        pytest.param(log(ME, commit(MAPPED)), True, False, "leave", id="another task of my DAG run has"),
        pytest.param(log(ME, commit(OTHER), taken(OTHER)), True, False, "leave", id="who is doing it once more"),
        pytest.param(
            log(ME, commit(ME), taken(OTHER)), True, False, "do again", id="done once more by another, by me first"
        ),
    ],
)
@pytest.mark.parametrize("running", RUNNING)
def test_a_committed_batch_belongs_to_the_run_that_committed_it(found, own, again, expected, running):
    """Rule 2. Whether the holder is running does not matter any more: nobody waits for a committed batch."""
    assert step(ME, found, RUNNING[running], own, again) == expected


def test_whose_commit_it_is_does_not_depend_on_the_airflow_that_made_it():
    """A base URL that was changed makes no other run of this one."""
    moved = replace(ME, instance="new.example.com")
    assert step(moved, log(ME, commit(ME)), set(), own=True) == "do again"
    assert step(moved, log(ME), {ME.run}) == "do", "and it takes its own batch without waiting for itself"


ACTORS = st.sampled_from([ME, OTHER, MAPPED, ANOTHER_DAG, PERSON])
ENTRIES = st.lists(ACTORS.map(taken) | ACTORS.map(commit), max_size=5).map(tuple)


@given(
    ACTORS,
    ACTORS,
    ENTRIES,
    st.booleans(),
    st.booleans(),
    st.sets(st.sampled_from([ME.run, OTHER.run, ANOTHER_DAG.run])),
)
def test_whatever_the_log_says_there_is_one_thing_to_do(me, planner, later, own, again, running):
    if sum(isinstance(entry, Committed) for entry in later) > 1:
        later = tuple(entry for entry in later if isinstance(entry, Taken))
    found = log(planner, *later)
    todo = step(me, found, running, own, again)
    if todo == "wait":
        assert found.committed is None
        assert found.holder.run in running
        assert me.run is None or not found.holder.run.is_same_dag_run(me.run), "a run never waits for itself"
    assert (todo == "do") <= (found.committed is None)
    assert (todo in ("do again", "leave", "plan next")) == (found.committed is not None)
    assert (todo in ("do again", "leave")) <= own
