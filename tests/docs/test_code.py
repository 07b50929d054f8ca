"""What a reader copies from a page works: DAGs are built, commands and settings parse."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
import sys
import tomllib
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from click import Context
from deltalake import write_deltalake

import airflow_kafka_offsets
from airflow_kafka_offsets.cli.main import commands as offsets_commands
from tests.docs.pages import DOCS, PAGES, ROOT, Block, blocks, blocks_of, commands

PYTHON = blocks("python")
DAGS = [block for block in PYTHON if re.search(r"^with DAG\(", block.code, re.MULTILINE)]
PARTS = [
    block
    for block in PYTHON
    if block not in DAGS
    and "SparkSession" not in block.code
    and re.search(r"\b(Rows|Delta|kafka_spark_batch|KafkaSparkBatchOperator)\(", block.code)
]
of_block = str


@pytest.mark.parametrize("block", PYTHON, ids=of_block)
def test_python_compiles_and_what_it_imports_of_this_package_exists(block: Block) -> None:
    for node in ast.walk(ast.parse(block.code, filename=str(block))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow_kafka_offsets"):
            module = importlib.import_module(str(node.module))
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


@pytest.fixture
def stand_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator whose provider is not installed here: it takes any arguments."""
    from airflow.sdk import BaseOperator

    named = request.getfixturevalue("block").stand_in
    if named is None:
        return
    module, name = named

    class StandIn(BaseOperator):
        def __init__(self, *, task_id: str, **kwargs: Any) -> None:
            super().__init__(task_id=task_id)
            self.given = kwargs

    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        parent = ".".join(parts[:end])
        if end > 2:  # airflow.providers is there
            monkeypatch.setitem(sys.modules, parent, sys.modules.get(parent) or ModuleType(parent))
    monkeypatch.setattr(sys.modules[module], name, StandIn, raising=False)


@pytest.mark.parametrize("block", DAGS, ids=of_block)
def test_a_dag_is_built_and_commits_what_it_resolves(block: Block, stand_in: None) -> None:
    tree = ast.parse(block.code)
    (with_dag,) = [node for node in tree.body if isinstance(node, ast.With)]
    with_dag.items[0].optional_vars = ast.Name("built", ast.Store())
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(ast.fix_missing_locations(tree), str(block), "exec"), names)
    dag = names["built"]
    by_end = {task_id.rpartition(".")[2]: task_id for task_id in dag.task_ids}
    if not any(isinstance(task, airflow_kafka_offsets.KafkaSparkBatchOperator) for task in dag.tasks):
        assert by_end["resolve"] in dag.get_task(by_end["commit"]).get_flat_relative_ids(upstream=True)
    assert dag.default_args.items() >= {"retries": 2, "retry_delay": timedelta(minutes=1)}.items()


@pytest.mark.parametrize("block", PARTS, ids=of_block)
def test_a_part_of_a_dag_is_built(block: Block) -> None:
    """In a DAG of the test, with the imports that the page has elsewhere."""
    from airflow.sdk import DAG

    names: dict[str, Any] = {name: getattr(airflow_kafka_offsets, name) for name in airflow_kafka_offsets.__all__}
    with DAG("page", schedule=None, start_date=datetime(2026, 1, 1)):
        exec(compile(block.code, str(block), "exec"), {**names, "timedelta": timedelta})


@pytest.mark.parametrize(("where", "line"), commands("kafka-offsets"))
def test_a_command_exists_with_these_options(where: str, line: str) -> None:
    words = shlex.split(re.split(r" [|>] ", line)[0])[1:]
    if len(words) == 1:  # a command that is only mentioned
        assert words[0] in offsets_commands.list_commands(Context(offsets_commands))
        return
    context = offsets_commands.make_context("kafka-offsets", list(words))
    name, command, rest = offsets_commands.resolve_command(context, words)
    assert command is not None, name
    command.make_context(name, rest, parent=context).close()


def test_a_command_that_asks_kafka_names_the_cluster() -> None:
    lines = [line for _, line in commands("kafka-offsets") if re.match(r"kafka-offsets (plan|lag) .", line)]
    assert len(lines) >= 4
    named = ("--kafka-config-id", "--bootstrap-servers", "--client-config")
    assert [line for line in lines if not any(option in line for option in named)] == []


def test_commands_of_airflow_exist_with_these_options() -> None:
    from airflow.cli.cli_parser import get_parser

    parser, tried = get_parser(), 0
    for where, line in commands("airflow"):
        words = shlex.split(re.split(r" (?:2>&1 )?[|>] ", line)[0])[1:]
        if " -" not in line or words == ["tasks", "clear"]:
            continue  # a command that is only mentioned
        try:
            parser.parse_args(words)
        except SystemExit:
            if words[-1].startswith("--"):  # an option that is only mentioned, without its value
                continue
            pytest.fail(f"{where}: {line}")
        tried += 1
    assert tried >= 4


@pytest.mark.parametrize("block", blocks("json"), ids=of_block)
def test_json_is_json(block: Block) -> None:
    json.loads(block.code)


def test_connections_and_confs_are_json() -> None:
    texts = [page.read_text() for page in PAGES]
    found = [value for text in texts for value in re.findall(r"^(?:\$ export )?AIRFLOW_CONN_\w+=(.+)$", text, re.M)]
    found += [value for text in texts for value in re.findall(r"--(?:conf|conn-extra) '([^']+)'", text)]
    assert len(found) >= 5
    for value in found:
        json.loads(value.strip("'"))


def test_extras_and_targets_that_are_named_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(page.read_text() for page in PAGES)
    assert set(re.findall(r"airflow-kafka-offsets\[(\w+)\]", text)) <= set(project["optional-dependencies"])
    assert set(re.findall(r"(?:`|\$ )make ([a-z-]+)", text)) <= targets


@pytest.mark.parametrize("block", blocks("properties"), ids=of_block)
def test_a_line_of_settings_is_a_name_and_a_value(block: Block) -> None:
    assert [line for line in block.code.splitlines() if not re.fullmatch(r"[\w.-]+=.+", line)] == []


def test_a_block_names_a_known_language_or_is_no_code() -> None:
    known = {"", "python", "console", "bash", "json", "properties", "sql", "dockerfile"}
    assert {block.language for page in PAGES for block in blocks_of(page)} <= known


def test_the_first_batch_page_runs_the_versions_of_this_project() -> None:
    text = (DOCS / "first-batch.md").read_text()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"airflow_kafka_offsets-{version}-py3-none-any.whl" in text


def test_a_delta_table_is_read_without_spark_as_the_pages_print_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_deltalake(str(tmp_path / "lake" / "orders"), pa.table({"amount": ["12.50"] * 3}))
    (line,) = (line for _, line in commands("python") if "deltalake" in line)
    block = next(block for block in PYTHON if "deltalake" in block.code)
    for code in (shlex.split(line)[2], block.code):
        exec(re.sub(r"(/\w+)?/lake", f"{tmp_path}/lake", code), {})
        assert capsys.readouterr().out.count("12.50") == 3
