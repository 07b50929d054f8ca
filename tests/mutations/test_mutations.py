"""The patches still apply, each rule has one, and random changes are what they say. (`make mutate` runs them.)"""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from tests.conformance.document import read_rules
from tests.mutations.mutations import MUTATIONS, NO_MUTATION
from tests.mutations.patch import ROOT, Mutation, apply
from tests.mutations.random_lines import CORE, Change, changes_of, draw
from tests.mutations.survivors import KINDS, SURVIVORS, reason_for


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.rule} {mutation.new.strip()[:40]}")
def test_a_patch_applies_and_leaves_another_program(mutation: Mutation) -> None:
    before = (ROOT / mutation.file).read_text()
    after = apply(mutation, before)
    assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(before))


@pytest.mark.parametrize(("text", "times"), [("nothing of it", 0), ("old and old", 2)])
def test_a_patch_whose_text_is_not_there_once_does_not_apply(text: str, times: int) -> None:
    with pytest.raises(ValueError, match=f"{times} times"):
        apply(Mutation("A1", "x.py", "old", "new"), text)


def test_every_rule_that_has_code_has_a_patch() -> None:
    """The errors (L) and the options (M) are those of other rules, or of the cluster's client."""
    ruled = [rule.id for rule in read_rules() if rule.id[0] in "ABCDEFGHIJKN" and not rule.outside]
    patched = {mutation.rule for mutation in MUTATIONS}
    assert [rule for rule in ruled if rule not in patched | NO_MUTATION.keys()] == []
    assert sorted(patched & NO_MUTATION.keys()) == []


# ── random changes ────────────────────────────────────────────────────────────────────────────────────────────────────


def kinds(code: str) -> dict[str, set[str]]:
    """Of each kind of change the lines that it makes."""
    found: dict[str, set[str]] = {}
    for change in changes_of("x.py", code):
        found.setdefault(change.kind, set()).add(change.replaced[1])
    return found


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = a < b", {"comparison": {"x = a <= b"}}),
        ("x = 'é' == a != c", {"comparison": {"x = 'é' != a != c", "x = 'é' == a == c"},
                               "constant": {"x = 'éx' == a != c"}}),
        ("x = (a) not in (b)", {"comparison": {"x = (a) in (b)"}}),
        ("x = a and b or c", {"and/or": {"x = a or b or c", "x = a and b and c"}}),
        ("x = a + b - 1", {"sign": {"x = a - b - 1", "x = a + b + 1"}, "constant": {"x = a + b - 2"}}),
        ("x = 'é' + b", {}),
        ("x = min(a)", {"function": {"x = max(a)"}}),
        ("x = [n for n in a if n]", {"condition": {"x = [n for n in a if not (n)]"}}),
        ("x = f'{a + 1}'", {}),
        ("x: Literal[1] = True", {"constant": {"x: Literal[1] = False"}}),
        ("f(a)\nlog.info(1)", {"statement": {"pass"}}),
        ("def f() -> int:\n    'words'\n    return 1", {"result": {"return None"}, "constant": {"return 2"}}),
        ("def __str__(self):\n    return 1", {}),
        ("if a:\n    raise E(1 + 1)", {"condition": {"if not (a):"}, "statement": {"pass"}}),
        ("x[0] = a", {"statement": {"pass"}, "constant": {"x[1] = a"}}),
    ],
)  # fmt: skip
def test_what_is_changed(code: str, expected: dict[str, set[str]]) -> None:
    assert kinds(code) == expected


def test_a_change_says_where_it_is() -> None:
    path = "offsets/plan/splits.py"
    for change in changes_of(path, (ROOT / path).read_text()):
        compile(change.after, path, "exec")
        assert change.diff.splitlines()[0] == f"--- {path}:{change.line}"
        assert change.before.splitlines()[change.line - 1].strip() in change.replaced[0].splitlines()


def test_a_seed_draws_the_same_changes_and_no_two_of_one_line() -> None:
    drawn = draw(ROOT, 30, seed=7)
    assert drawn == draw(ROOT, 30, seed=7)
    assert drawn != draw(ROOT, 30, seed=8)
    assert len({(change.file, change.line) for change in drawn}) == 30
    assert {change.file.partition("/")[0] for change in drawn} <= set(CORE)


def test_every_survivor_is_still_a_change_of_the_code_and_has_a_reason() -> None:
    by_file: dict[str, list[Change]] = {}
    for survivor in SURVIVORS:
        if survivor.file not in by_file:
            by_file[survivor.file] = changes_of(survivor.file, (ROOT / survivor.file).read_text())
        changes = [change for change in by_file[survivor.file] if survivor.is_of(change)]
        assert changes, f"{survivor.file} has no such lines any more: {survivor.before}"
        assert reason_for(changes[0]) == survivor.reason
        assert survivor.reason.partition(":")[0] in KINDS
        assert reason_for(replace(changes[0], file="x.py")) is None
