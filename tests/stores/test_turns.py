"""Whose turn it is: of the living runs of a pipeline the one that asked first, and nobody waits for a dead one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import OverlappingRun
from airflow_kafka_offsets.offsets.spec import RunKey
from airflow_kafka_offsets.stores.objects import WorkStore
from airflow_kafka_offsets.stores.turns import Turns, nobody_lives

A, B, C = (RunKey("dag", name, "resolve") for name in "abc")


def everybody_lives(_: RunKey) -> bool:
    return True


@pytest.fixture
def turns(tmp_path: Path) -> Turns:
    return Turns(WorkStore(tmp_path, str(tmp_path)), "checkpoints/cluster/pipeline")


def test_a_living_run_that_came_first_is_named(turns: Turns) -> None:
    turns.take(A, everybody_lives)
    with pytest.raises(OverlappingRun, match="Run dag/a/resolve of this pipeline is not over") as refused:
        turns.take(B, everybody_lives)
    assert (refused.value.who, refused.value.by) == ("run dag/b/resolve", "dag/a/resolve")


def test_a_turn_is_taken_again_by_its_run(turns: Turns) -> None:
    for _retry in range(2):
        turns.take(A, everybody_lives)


def test_who_waits_keeps_the_place(turns: Turns) -> None:
    turns.take(A, everybody_lives)
    for run in (B, C):
        with pytest.raises(OverlappingRun):
            turns.take(run, everybody_lives)
    turns.end(A)
    with pytest.raises(OverlappingRun, match="dag/b/resolve of this"):
        turns.take(C, everybody_lives)
    turns.take(B, everybody_lives)


def test_a_dead_run_holds_nobody_up_and_comes_last_when_it_is_cleared(turns: Turns) -> None:
    turns.take(A, everybody_lives)
    turns.take(B, nobody_lives)
    with pytest.raises(OverlappingRun, match="dag/b/resolve of this"):
        turns.take(A, everybody_lives)
    turns.take(B, everybody_lives)


def test_who_is_no_run_comes_after_all_that_are_open_and_keeps_no_place(turns: Turns) -> None:
    turns.take(A, everybody_lives)
    with pytest.raises(OverlappingRun, match="asked to plan before this command"):
        turns.take(None, everybody_lives)
    turns.end(A)
    turns.take(None, everybody_lives)
    turns.take(B, everybody_lives)


def test_the_turns_of_other_pipelines_do_not_matter(turns: Turns) -> None:
    turns.take(A, everybody_lives)
    Turns(turns.store, "checkpoints/cluster/another").take(B, everybody_lives)


def test_a_half_written_turn_is_nobodys(turns: Turns) -> None:
    turns.take(A, everybody_lives)
    [written] = (turns.store.root / turns.folder).glob("turn.*.json")
    written.write_text(written.read_text()[:-10])
    turns.take(B, everybody_lives)


RUNS = st.sampled_from([A, B, C])
STEPS = st.lists(st.tuples(st.sampled_from(["take", "end", "die", "clear"]), RUNS), max_size=30)


@settings(deadline=None, max_examples=200)
@given(STEPS)
def test_never_two_at_once_and_always_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, RunKey]]
) -> None:
    """Of the living runs at most one has gone on and is not over; and of those that ask again one always goes on."""
    root = tmp_path_factory.mktemp("turns")
    turns = Turns(WorkStore(root, str(root)), "pipeline")
    living, on = {A, B, C}, set[RunKey]()

    def take(run: RunKey) -> None:
        try:
            turns.take(run, living.__contains__)
            on.add(run)
        except OverlappingRun:
            on.discard(run)

    for step, run in steps:
        match step:
            case "take" if run in living:
                take(run)
            case "end" if run in on:
                turns.end(run)
                on.discard(run)
            case "die":
                living.discard(run)
                on.discard(run)
            case "clear":
                living.add(run)
        assert len(on & living) <= 1, on
    for run in living:
        take(run)
    assert len(on) == (1 if living else 0), "whoever asks again is not waiting for nobody"
