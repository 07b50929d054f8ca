"""Every error has a code and a page, every message names both, and says what, where and what now."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import airflow_kafka_offsets
from airflow_kafka_offsets import errors
from airflow_kafka_offsets.cli.commands import COMMANDS
from airflow_kafka_offsets.error_pages import PAGES, explained, find_explained, page_of
from airflow_kafka_offsets.errors import KafkaOffsetsError, PartitionsRefused, TopicRecreated, UnavailableError
from tests.errors.document import FOLDER, pages
from tests.offsets.test_errors import CLASSES, example

GROUPING = {"KafkaOffsetsError", "RequestError", "RefusedError", "PartitionsRefused", "UnavailableError"}
RAISED = [kind for kind in CLASSES if kind.__name__ not in GROUPING]
PACKAGE = Path(airflow_kafka_offsets.__file__).parent
WAY_OUT = re.compile(
    r"\b(call|check|clear|commit|correct|give|grant|install|leave out|let|lower|mark|name|raise|remove|restore|retry|"
    r"run later|say|set|stop|there is nothing to do|try again|use|wait)\b|kafka-offsets \w|on_[a-z_]+",
    re.IGNORECASE,
)
OPTIONS = {option.flag for command in COMMANDS for option in command.options}
every_error = pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)


@every_error
def test_every_error_has_a_code_of_its_own_and_a_page(kind: type[KafkaOffsetsError]) -> None:
    assert re.fullmatch(r"AKO-\d{3}", vars(kind).get("code", "")), "its own, and not an inherited one"
    assert [other for other in RAISED if other.code == kind.code] == [kind]
    assert kind in PAGES


def test_no_page_is_of_a_class_that_is_never_raised() -> None:
    assert set(PAGES) == set(RAISED)
    assert TopicRecreated.code == "AKO-101"


@every_error
def test_every_message_begins_with_its_code_and_ends_with_its_page(kind: type[KafkaOffsetsError]) -> None:
    error = example(kind)
    assert str(error).startswith(f"{kind.code} {kind.__name__}: ")
    assert str(error).endswith(f"\nPage: kafka-offsets explain {kind.code}")
    assert "AKO-" not in error.message, "inside of another sentence there is no code"
    assert error.message in str(error)


def test_a_page_on_the_web_is_named_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "DOCS_URL", "https://docs.example/offsets")
    last = str(TopicRecreated(["orders: its id is b, the position is of a"], "Set it.")).splitlines()[-1]
    assert last == "Page: https://docs.example/offsets/errors/AKO-101 (kafka-offsets explain AKO-101)"


COMPOSED = [kind for kind in RAISED if "message" in vars(kind) and kind is not errors.InvalidRequest]
"""Those that write their own way out; with InvalidRequest, each problem does: ``test_parameters``."""


@pytest.mark.parametrize("kind", COMPOSED, ids=lambda kind: kind.__name__)
def test_every_message_ends_with_what_now(kind: type[KafkaOffsetsError]) -> None:
    """What and where are its facts: ``test_the_message_has_every_fact``."""
    last = example(kind).message.splitlines()[-1]
    assert WAY_OUT.search(last), last


@pytest.mark.parametrize("module", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_whoever_refuses_says_what_now(module: Path) -> None:
    """Of the classes whose remedy the caller gives: each is written out where it is raised."""
    place = {kind.__name__: 1 for kind in RAISED if issubclass(kind, PartitionsRefused)}
    place |= {kind.__name__: 2 for kind in RAISED if issubclass(kind, UnavailableError)} | {"Refusal": 2}
    for call in ast.walk(ast.parse(module.read_text())):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in place:
            continue
        remedy = next(iter(call.args[place[call.func.id] :]), None)
        if remedy is None or ".remedy" in ast.unparse(remedy):  # handed on from where it is written
            continue
        words = [part.value for part in ast.walk(remedy) if isinstance(part, ast.Constant)]
        if words:
            assert WAY_OUT.search("".join(map(str, words))), ast.unparse(remedy)


@every_error
def test_every_page_says_what_it_means_how_to_look_each_way_out_and_what_it_costs(
    kind: type[KafkaOffsetsError],
) -> None:
    page = PAGES[kind]
    assert page.look
    assert page.ways
    assert [way for way in page.ways if not re.search(r"\. Cost: \S", way)] == [], 'each ends with "Cost: …."'
    assert all(line.endswith(".") for line in (page.meaning, *page.look, *page.ways))
    assert page_of(kind).startswith(f"# {kind.code} {kind.__name__}\n\n{page.meaning}")
    for option in re.findall(r"`--([a-z-]+)", page_of(kind).partition("## How to clear")[0]):
        assert f"--{option}" in OPTIONS


@every_error
def test_a_page_that_says_to_clear_says_how(kind: type[KafkaOffsetsError]) -> None:
    says = any("clear" in re.findall(r"\w+", way.lower()) for way in PAGES[kind].ways)
    assert ("`airflow tasks clear DAG --task-regex TASK --downstream" in page_of(kind)) == says


def test_the_pages_in_docs_are_current_and_no_other_is_there() -> None:
    """If this fails: ``make docs``."""
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == pages()


@pytest.mark.parametrize("asked", ["AKO-101", "ako-101", "101", "TopicRecreated", " topicrecreated "])
def test_a_page_is_found_by_its_code_and_by_its_name(asked: str) -> None:
    assert find_explained(asked) is TopicRecreated


def test_the_pages_are_in_the_order_of_their_codes() -> None:
    codes = [kind.code for kind in explained()]
    assert codes == sorted(codes)
    assert find_explained("AKO-999") is None
