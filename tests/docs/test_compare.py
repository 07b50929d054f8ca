"""docs/compare.md says of each other tool only what has a source, and what has none is "not found"."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS

PAGE = (DOCS / "compare.md").read_text()
HEAD, _, *ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("|")]
SOURCES = dict(re.findall(r"^\[([a-z0-9-]+)\]: (https://\S+)$", PAGE, re.MULTILINE))


def test_each_cell_of_another_tool_has_its_source_or_says_that_there_was_none() -> None:
    named = [(row[0], tool, cell) for row in ROWS for tool, cell in zip(HEAD[1:], row[2:], strict=True)]
    assert len(named) >= 60
    assert [cell for cell in named if not re.search(r"\]\[[a-z0-9-]+\]|^not found$", cell[2])] == []


def test_each_source_is_used_and_each_use_has_its_source() -> None:
    assert set(re.findall(r"\]\[([a-z0-9-]+)\]", PAGE)) == set(SOURCES)


def test_each_tool_of_the_table_has_a_paragraph_that_says_when_to_take_it() -> None:
    paragraphs = re.findall(r"^\*\*(.+?)\.\*\* Take it if", PAGE, re.MULTILINE)
    assert len(paragraphs) == len(HEAD) - 1
