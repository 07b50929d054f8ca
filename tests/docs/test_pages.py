"""What a reader copies from any page can be used: code compiles, DAGs load, command lines and settings parse."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.cli.main import _parser
from tests.docs.pages import DOCS, PAGES, ROOT, Block, blocks, blocks_of, commands, inline_commands

PYTHON = blocks("python")
LOADED = [block for block in PYTHON if block.why is None]
DAGS = [block for block in LOADED if re.search(r"^with DAG\(", block.code, re.MULTILINE)]
WITHOUT_A_DAG = [
    block
    for block in LOADED
    if block not in DAGS and re.search(r"kafka_spark_batch\(|\w+(Operator|Sensor)\b", block.code)
]
of_block = str


@pytest.mark.parametrize("block", PYTHON, ids=of_block)
def test_python_compiles_and_what_it_imports_of_this_package_is_there(block: Block) -> None:
    tree = ast.parse(block.code, filename=str(block))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow_kafka_offsets"):
            module = importlib.import_module(str(node.module))
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


def test_the_dags_load(tmp_path: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    for number, block in enumerate(DAGS):  # several pages have a DAG of one name
        code = re.sub(r'(DAG\(\s*"\w+)"', rf'\1_{number}"', block.code)
        (tmp_path / f"page_{number}.py").write_text(code)
    bag = DagBag(str(tmp_path))
    errors = {str(DAGS[int(Path(name).stem.removeprefix("page_"))]): e for name, e in bag.import_errors.items()}
    assert errors == {}
    assert len(bag.dags) == sum(len(re.findall(r"\bDAG\(\s*\"", block.code)) for block in DAGS)


@pytest.mark.parametrize("block", WITHOUT_A_DAG, ids=of_block)
def test_tasks_without_a_dag_can_be_made(block: Block) -> None:
    """In a DAG of the test, after a resolve task and the imports that the page has elsewhere."""
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk import DAG

    import airflow_kafka_offsets

    names: dict[str, Any] = {name: getattr(airflow_kafka_offsets, name) for name in airflow_kafka_offsets.__all__}
    names["SparkSubmitOperator"] = SparkSubmitOperator
    with DAG("page", schedule=None, start_date=datetime(2026, 1, 1)):
        if not re.search(r"^resolve = ", block.code, re.MULTILINE):
            names["resolve"] = names["ResolveStartupOffsetsOperator"](
                task_id="resolve", topics=["orders"], group_id="g"
            )
        exec(compile(block.code, str(block), "exec"), names)


@pytest.mark.parametrize(("where", "line"), [*commands("kafka-offsets"), *inline_commands("kafka-offsets")])
def test_a_command_line_can_be_parsed(where: str, line: str) -> None:
    words = shlex.split(re.split(r" [|>] ", line)[0], comments=True)[1:]
    _parser().parse_args(words)


def test_airflow_s_commands_can_be_parsed() -> None:
    from airflow.cli.cli_parser import get_parser

    parser = get_parser()
    for where, line in [*commands("airflow"), *inline_commands("airflow")]:
        words = shlex.split(re.split(r" (?:2>&1 )?[|>] ", line)[0], comments=True)[1:]
        if "…" in words or words[0] in ("kafka-offsets", "celery") or "-" not in line:
            continue  # Celery's are its provider's, and `tests/machines` runs them
        try:
            parser.parse_args(words)
        except SystemExit:
            pytest.fail(f"{where}: {line}")


@pytest.mark.parametrize("block", blocks("json"), ids=of_block)
def test_json_is_json(block: Block) -> None:
    json.loads(block.code)


def test_connections_are_json() -> None:
    found = [
        line
        for page in PAGES
        for line in re.findall(r"^\s*(?:\$ export )?AIRFLOW_CONN_\w+=(.+)$", page.read_text(), re.M)
    ]
    assert len(found) >= 5
    for value in found:
        json.loads(value.strip().strip("'"))


@pytest.mark.parametrize("block", blocks("properties", "ini"), ids=of_block)
def test_each_line_of_settings_is_one(block: Block) -> None:
    for line in block.code.splitlines():
        assert re.fullmatch(r"[\w.-]+ ?= ?.+|\[\w+\]|#.*|", line), line


def test_a_block_that_is_not_parsed_says_why() -> None:
    marks = sum(page.read_text().count("<!-- not parsed") for page in PAGES)
    assert marks == sum(block.why is not None for page in PAGES for block in blocks_of(page)), "right above its block"


def test_a_block_says_its_language_or_is_no_code() -> None:
    known = {"", "python", "console", "bash", "dockerfile", "json", "yaml", "properties", "ini", "sql"}
    assert {block.language for page in PAGES for block in blocks_of(page)} <= known


# ── README ────────────────────────────────────────────────────────────────────────────────────────────────────────────

README = (ROOT / "README.md").read_text()


def test_readme_is_one_screen() -> None:
    assert len(README.splitlines()) < 150


def test_readme_s_dag_is_that_of_the_first_page() -> None:
    first, *_ = (block.code for block in blocks_of(ROOT / "README.md") if block.language == "python")
    tutorial, *_ = (block.code for block in blocks_of(DOCS / "first-batch.md") if block.language == "python")
    assert first == tutorial


# ── links and pictures ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page: Path) -> None:
    """Here without anchors, so that it needs no site: ``make docs`` looks at those too."""
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    here = [target for target in targets if "://" not in target]
    assert [target for target in here if not (page.parent / target).exists()] == []


def test_each_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if not page.name.startswith("AKO-")}
    assert {page for page in pages if page not in navigation and "node_modules" not in page} == set()


@pytest.mark.parametrize("text", sorted((DOCS / "pictures").glob("*.d2")), ids=lambda path: path.name)
def test_a_picture_is_what_its_text_gives(text: Path) -> None:
    """``make pictures`` draws it, and leaves the digest of the text in it."""
    from hashlib import sha256

    assert sha256(text.read_bytes()).hexdigest() in text.with_suffix(".svg").read_text(), "run `make pictures`"


def test_the_page_of_the_command_line_is_current() -> None:
    from tests.docs.command_line import PAGE, page

    assert PAGE.read_text() == page(), "run `make docs`"
