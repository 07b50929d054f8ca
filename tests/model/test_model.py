"""Random worlds, fixed schedules and broken twins. ``MODEL_WORLDS``: how many worlds of each kind (16)."""

from __future__ import annotations

import os

import pytest

from tests.model.run import run_world
from tests.model.scenes import SCENES, play
from tests.model.twins import TWINS, broken, noticed

KINDS = ("sequence", "window")
WORLDS, PART = int(os.environ.get("MODEL_WORLDS", "16")), 8
BY_SCENE = [(kind, name) for kind in KINDS for name, twin in TWINS[kind].items() if callable(twin.where)]
BY_WORLDS = [(kind, name) for kind in KINDS for name, twin in TWINS[kind].items() if not callable(twin.where)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(0, WORLDS, PART))
def test_readers_find_each_record_once_or_a_decision_says_why_not(kind, first):
    worlds = (run_world(kind, seed) for seed in range(first, min(first + PART, WORLDS)))
    wrong = {world.seed: world.bad for world in worlds if world.bad and not world.tables.late_swaps}
    assert not wrong


@pytest.mark.parametrize(("scene", "kind"), SCENES, ids=lambda value: getattr(value, "__name__", value))
def test_a_fixed_schedule_ends_well(scene, kind):
    assert not play(scene, kind)


@pytest.mark.parametrize(("kind", "name"), BY_SCENE)
def test_a_fixed_schedule_notices_that_a_rule_is_missing(kind, name):
    assert noticed(kind, TWINS[kind][name])


@pytest.mark.parametrize(("kind", "name"), BY_WORLDS)
def test_what_random_worlds_notice_is_an_edit_of_the_code_as_it_is(kind, name):
    twin = TWINS[kind][name]
    before = {edit[0]: edit[0].__code__ for edit in twin.edits if not isinstance(edit, str)}
    with broken(twin):
        assert before
        assert all(function.__code__ != code for function, code in before.items())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), BY_WORLDS)
def test_a_random_world_notices_that_a_rule_is_missing(kind, name):
    assert noticed(kind, TWINS[kind][name], range(200))
