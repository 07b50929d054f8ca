"""docs/conformance.md is what the rules and the tests say now."""

from __future__ import annotations

import re

import pytest

from tests.conformance.document import DOCUMENT, Rule, collect, document, held_by_rule, read_rules

LAST_OF_GROUP = {
    "A": 12, "B": 18, "C": 17, "D": 16, "E": 14, "F": 17, "G": 12, "H": 6, "I": 12, "J": 8, "K": 21, "L": 11, "M": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def held() -> dict[str, list[str]]:
    return held_by_rule(collect(), read_rules())


def test_every_rule_is_in_the_list_once_and_in_order() -> None:
    expected = [f"{group}{n}" for group, last in LAST_OF_GROUP.items() for n in range(1, last + 1)] + ["N2"]
    assert [rule.id for rule in read_rules()] == expected


def test_no_rule_is_without_a_test(held: dict[str, list[str]]) -> None:
    without = [rule.id for rule in read_rules() if rule.id not in held and not rule.outside]
    assert without == []


def test_a_rule_with_nothing_to_hold_says_why_and_no_other_does(held: dict[str, list[str]]) -> None:
    assert [r.id for r in read_rules() if bool(r.outside) == bool(r.here)] == []
    assert [r.id for r in read_rules() if r.outside and r.id in held] == []


def test_the_document_is_current(held: dict[str, list[str]]) -> None:
    assert DOCUMENT.read_text() == document(read_rules(), held), "run `make docs`"


def test_a_test_holds_the_rules_that_its_name_or_its_parameters_have() -> None:
    held = held_by_rule(
        [
            "tests/x/test_y.py::test_E4_E5_an_offset[memory]",
            "tests/x/test_y.py::test_E4_E5_an_offset[broker]",
            "tests/x/test_y.py::test_a_row[memory-C7 below]",
            "tests/x/test_y.py::test_nothing[p0-B6x-3]",
        ],
        [],
    )
    assert held == {
        "E4": ["x/test_y: E4 E5 an offset (also on a real broker)"],
        "E5": ["x/test_y: E4 E5 an offset (also on a real broker)"],
        "C7": ["x/test_y: C7 below"],
    }


def test_a_rule_cannot_name_a_test_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="L1 is held by tests/x"):
        held_by_rule([], [Rule("L1", "", "", held_by=["tests/x.py::test_gone"])])


def test_a_rule_is_a_row() -> None:
    text = document([Rule("A1", "nothing", "something")], {"A1": ["test_y: b", "test_y: a"]})
    assert re.search(r"^\| A1 \| nothing \| something \| test_y: a<br>test_y: b \|$", text, re.MULTILINE)
