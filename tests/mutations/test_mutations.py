"""The patches still apply, each rule has one, and the changes are what they say. (`make mutate` runs them.)"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.conformance.document import read_rules
from tests.model.broken import BROKEN
from tests.mutations.__main__ import FOLDERS
from tests.mutations.changes import (
    Always,
    Change,
    In,
    Instead,
    Less,
    Matched,
    Never,
    Rather,
    Reworded,
    Swapped,
    Without,
)
from tests.mutations.core import Mutant, mutants_in
from tests.mutations.outside import OUTSIDE
from tests.mutations.patch import ROOT, Mutation, apply
from tests.mutations.rules import NO_PATCH, RULES
from tests.mutations.survivors import KINDS, SURVIVORS, Survivor

TWINS = [patch for broken in BROKEN for patch in broken.patches]


@pytest.mark.parametrize(
    "mutation", [*RULES, *OUTSIDE, *TWINS], ids=lambda mutation: f"{mutation.rule} {mutation.where}"
)
def test_a_patch_finds_its_place_and_leaves_another_program(mutation: Mutation) -> None:
    patched = apply(mutation)
    assert ast.dump(ast.parse(patched.text)) != ast.dump(ast.parse((ROOT / patched.file).read_text()))


def test_the_tests_that_a_patch_names_are_there() -> None:
    """Else it is noticed by nobody, which only a whole ``make mutate`` would say."""
    tests = Path(__file__).parents[1]
    ids = [
        f"{file.relative_to(tests)}::{found.name}"
        for folder in FOLDERS
        for file in (tests.parent / folder).rglob("test_*.py")
        for found in ast.walk(ast.parse(file.read_text()))
        if isinstance(found, ast.FunctionDef)
    ]
    named = [(patch, place) for patch in (*RULES, *OUTSIDE) if patch.tests for place in patch.tests.split()]
    gone = [
        (patch.rule, place)
        for patch, place in named
        if not (
            (tests.parent / place.partition("::")[0]).exists()
            if place.startswith("tests/")
            else any(re.search(patch.tests, test_id) for test_id in ids)
        )
    ]
    assert gone == []


def test_a_patch_finds_its_place_after_files_were_renamed_and_lines_laid_out_anew(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text(
        "class A:\n    def f(self):\n        if (self.x or\n            self.y): return 1\n"
    )
    found = apply(Mutation("rule", "A.f", Never("y")), tmp_path)
    assert found.file == "elsewhere.py"
    assert "if self.x or False:" in found.text


def test_a_patch_whose_place_is_gone_or_there_twice_does_not_apply(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(x):\n    if x: return 1\n    if x: return 2\n")
    with pytest.raises(LookupError, match=r"a\.py: 'x' is there 2 times"):
        apply(Mutation("rule", "f", Never("x")), tmp_path)
    with pytest.raises(LookupError, match="the package has no g"):
        apply(Mutation("rule", "g", Never("x")), tmp_path)


def test_every_rule_that_has_code_has_a_patch() -> None:
    """The errors (L) and the options (M) are those of other rules, or of the cluster's client."""
    ruled = [rule.id for rule in read_rules() if rule.id[0] in "ABCDEFGHIJKN" and not rule.outside]
    patched = {mutation.rule for mutation in RULES}
    assert [rule for rule in ruled if rule not in patched | NO_PATCH.keys()] == []
    assert sorted(patched & NO_PATCH.keys()) == []


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        (Never("b"), "if a.b(c): f()", "if False: f()"),
        (Never("b"), "x = a and b(c) or d", "x = a and False or d"),
        (Always("b"), "x = [a for a in c if a.b]", "x = [a for a in c if True]"),
        (Without("b"), "a()\nc.b(a)", "a()\npass"),
        (Rather("b", "c()\nd()"), "a()\nb()", "a()\nc()\nd()"),
        (Rather("x = b()", "x = 1"), "x = b()\ny = b()", "x = 1\ny = b()"),
        (Less("'b'"), "x = ('a', 'b')", "x = ('a',)"),
        (Less("2"), "x = {1: a, 2: b}", "x = {1: a}"),
        (Less("b"), "f(a, b)", "f(a)"),
        (Instead("a + 1", "a"), "x = f(a+1)", "x = f(a)"),
        (Reworded("b", "d"), "x = 'a b c'", "x = 'a d c'"),
        (Swapped("a", "c"), "a()\nb()\nc()", "c()\nb()\na()"),
        (Matched("b"), "match a:\n case 1: pass", "match b:\n case 1: pass"),
        (In("1", Without("f")), "match a:\n case 1: f()\n case 2: f()", "match a:\n case 1: pass\n case 2: f()"),
    ],
    ids=lambda value: str(value) if not isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_changed(change: Change, before: str, after: str) -> None:
    code = ast.parse(before)
    change.apply(code)
    assert ast.unparse(ast.fix_missing_locations(code)) == ast.unparse(ast.parse(after))


# ── mutants of the core ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_folders_of_the_core_are_there() -> None:
    config = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["tool"]["mutmut"]
    for pattern in config["only_mutate"]:
        assert list(ROOT.parent.glob(pattern)), f"{pattern}: no such folder any more; see [tool.mutmut]"
    for place in config["pytest_add_cli_args_test_selection"]:
        assert (ROOT.parent / place).exists()


def test_a_mutant_that_says_something_else_is_none(tmp_path: Path) -> None:
    module = tmp_path / "airflow_kafka_offsets" / "m.py"
    module.parent.mkdir()
    module.write_text(
        "def x_f__mutmut_orig(a):\n    return 'a', a + 1\n"
        "def x_f__mutmut_1(a):\n    return 'XXaXX', a + 1\n"
        "def x_f__mutmut_2(a):\n    return 'a', a - 1\n"
    )
    found = list(mutants_in(tmp_path))
    assert found == [Mutant("airflow_kafka_offsets.m.x_f__mutmut_2", "return ('a', a + 1)", "return ('a', a - 1)")]
    assert found[0].function == "f"
    assert Survivor("f", found[0].before, found[0].after, "words: …").is_of(found[0])


def test_every_survivor_has_a_reason() -> None:
    assert {survivor.reason.partition(":")[0] for survivor in SURVIVORS} <= set(KINDS)
