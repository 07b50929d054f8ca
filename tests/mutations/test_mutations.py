"""The patches still apply, and each rule that has code has one. (`make mutate` runs them.)"""

from __future__ import annotations

import ast

import pytest

from tests.conformance.document import read_rules
from tests.mutations.mutations import MUTATIONS, NO_MUTATION, Mutation
from tests.mutations.patch import ROOT, apply


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.rule} {mutation.new.strip()[:40]}")
def test_a_patch_applies_and_leaves_a_program(mutation: Mutation) -> None:
    before = (ROOT / mutation.file).read_text()
    after = apply(mutation, before)
    assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(before))


def test_a_patch_whose_text_is_gone_does_not_apply() -> None:
    with pytest.raises(ValueError, match="0 times"):
        apply(Mutation("A1", "x.py", "old", "new"), "nothing of it")


def test_every_rule_that_has_code_has_a_patch() -> None:
    """The errors (L) and the options (M) are those of other rules, or of the cluster's client."""
    ruled = [rule.id for rule in read_rules() if rule.id[0] in "ABCDEFGHIJKN" and not rule.outside]
    patched = {mutation.rule for mutation in MUTATIONS}
    assert [rule for rule in ruled if rule not in patched | NO_MUTATION.keys()] == []
    assert sorted(patched & NO_MUTATION.keys()) == []


def test_every_row_of_the_commit_table_has_a_patch() -> None:
    patched = {mutation.rule for mutation in MUTATIONS}
    assert [row for row in range(1, 7) if f"commit {row}" not in patched] == []
