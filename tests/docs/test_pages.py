"""Pages: links lead somewhere, nothing that is gone is named, and there are few of them and few words."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tests.docs.generate import GENERATED
from tests.docs.pages import DOCS, PAGES, ROOT, anchors_of, prose_of

WRITTEN = [page for page in PAGES if page.name not in GENERATED]
GONE = (
    r"work[ _]stores?\b|\bsplits?\b|\bpolic(y|ies)\b|take[- ]over\b|startup_mode|bounded_mode|auto_offset_reset|"
    r"re_plan|set aside|put on record|\bredo\b|commit_mode|by_duration|OffsetLagSensor|GroupEmptySensor|"
    r"BatchCommittedSensor|KafkaLagEventTrigger|SparkSubmitPlanOperator|bad_records=|partition_width|kafka_split"
)

_LICENCE = '# Licensed under the Apache License, Version 2.0 (the "License")'


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_and_anchors_lead_somewhere(page: Path) -> None:
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            missing.append(target)
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_references_of_a_page_are_defined_and_used(page: Path) -> None:
    text = prose_of(page)
    defined = set(re.findall(r"^\[([\w-]+)\]: http", text, re.MULTILINE))
    used = set(re.findall(r"\]\[([\w-]+)\]", text))
    assert used == defined


def test_each_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert {page for page in pages if f": {page}\n" not in navigation} == set()
    assert set(re.findall(r": ([\w-]+\.md)$", navigation, re.MULTILINE)) == pages


@pytest.mark.parametrize("page", WRITTEN, ids=names)
def test_nothing_that_is_gone_is_named(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert [line for line in lines if re.search(GONE, line)] == []


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_no_path_of_a_machine_is_named(page: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?:work|root|home)/[\w./-]*", page.read_text()) == []


def test_there_are_at_most_32_pages_and_27_000_words() -> None:
    pages = list(DOCS.rglob("*.md"))
    assert len(pages) <= 32
    assert sum(len(page.read_text().split()) for page in pages) <= 27_000


def test_readme_is_one_screen() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 75


def test_the_costs_in_the_readme_are_the_ones_that_were_measured_last() -> None:
    columns = ("all tasks, s", "from start to end, s")
    measured, shown = (
        cells_of(page, *columns) for page in (ROOT / "benchmarks/results/run_overhead.md", ROOT / "README.md")
    )
    assert len(shown) >= 3
    assert [row for row in shown.items() if row[1] not in measured.values()] == []


def cells_of(page: Path, *columns: str) -> dict[str, list[str]]:
    """Of the page's first table that has these columns: the first cell of each row, and the cells in the columns."""
    lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in page.read_text().splitlines()]
    at = next(n for n, cells in enumerate(lines) if {*columns} <= {*cells})
    rows = itertools.takewhile(lambda cells: len(cells) > 1, lines[at + 2 :])
    return {row[0]: [row[lines[at].index(column)] for column in columns] for row in rows}


def test_every_error_is_in_the_table_of_a_red_run() -> None:
    named = re.findall(r"^\| \[(\d{3})\]\(errors.md#ako-\1-", (DOCS / "red-run.md").read_text(), re.MULTILINE)
    assert named == sorted(page.stem[4:] for page in (ROOT / "airflow_kafka_offsets" / "errors").glob("AKO-*.md"))


def glossary() -> list[str]:
    return re.findall(r"^\| (?!word|-)(.+?) \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)


def test_the_glossary_has_at_most_25_words() -> None:
    rows = glossary()
    assert len(rows) <= 25
    names = [row.strip("*") for row in rows]
    assert names == sorted(names)


def test_the_page_of_the_first_batch_uses_no_word_of_the_glossary_but_six() -> None:
    first_day = {row.strip("*") for row in glossary() if row.startswith("*")}
    assert len(first_day) == 6
    page = re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose_of(DOCS / "first-batch.md"))
    later = [row for row in glossary() if not row.startswith("*")]
    assert [word for word in later if re.search(rf"\b{word}(s|es)?\b", page, re.IGNORECASE)] == []
    assert [word for word in first_day if f"| **{word}** |" not in page] == []


def test_a_cell_about_another_tool_has_a_source_or_says_that_none_was_found() -> None:
    bare = []
    for line in (DOCS / "compare.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or cells[0] == "":
            continue
        bare += [f"{cells[0]}: {cell}" for cell in cells[2:] if "](" not in cell and "][" not in cell]
    assert [cell for cell in bare if not cell.endswith(": not found")] == []


def test_the_architecture_names_every_room_and_only_files_that_exist() -> None:
    page = (DOCS / "architecture.md").read_text()
    package = ROOT / "airflow_kafka_offsets"
    rooms = [path.name for path in package.iterdir() if path.is_dir() and (path / "__init__.py").exists()]
    assert [room for room in rooms if f"`{room}/`" not in page] == []
    named = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?|[a-z_]+\.py|tests/[a-z_/]+)`", page)
    named += re.findall(r"^((?:[a-z_]+/)+[a-z_]+\.py)\b", page, re.MULTILINE)
    assert len(named) > 40
    assert [path for path in named if not (package / path).exists() and not (ROOT / path).exists()] == []


def test_each_file_of_the_package_names_its_licence() -> None:
    files = sorted((ROOT / "airflow_kafka_offsets").rglob("*.py"))
    assert len(files) > 100
    assert [names(file) for file in files if not file.read_text().startswith(_LICENCE)] == []
