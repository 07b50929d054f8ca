"""Every error has a code and a page, every message names both, and says what, where and what now."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import airflow_kafka_offsets
from airflow_kafka_offsets import errors
from airflow_kafka_offsets.batch.messages import advance_or_stop
from airflow_kafka_offsets.cli.commands import COMMANDS
from airflow_kafka_offsets.cli.help_commands import error_pages
from airflow_kafka_offsets.errors import KafkaOffsetsError, PartitionsRefused, TopicRecreated, UnavailableError
from tests.docs.pages import DOCS
from tests.plan.test_errors import CLASSES, example

GROUPING = {"KafkaOffsetsError", "RequestError", "RefusedError", "PartitionsRefused", "UnavailableError"}
RAISED = [kind for kind in CLASSES if kind.__name__ not in GROUPING]
PACKAGE = Path(airflow_kafka_offsets.__file__).parent
PAGES = {page["code"]: page for page in error_pages()}
WAY_OUT = re.compile(
    r"\b(call|check|clear|commit|correct|give|grant|install|leave out|let|lower|mark|name|put|raise|remove|restore|"
    r"retry|run later|say|set|stop|there is nothing to do|try again|use|wait)\b|kafka-offsets \w|policies=",
    re.IGNORECASE,
)
OPTIONS = {option.flag for command in COMMANDS for option in command.options}
every_error = pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)


@every_error
def test_every_error_has_a_code_of_its_own_and_a_page(kind: type[KafkaOffsetsError]) -> None:
    assert re.fullmatch(r"AKO-\d{3}", vars(kind).get("code", "")), "its own, and not an inherited one"
    assert [other for other in RAISED if other.code == kind.code] == [kind]
    assert PAGES[kind.code]["error"] == kind.__name__


def test_no_page_is_of_a_class_that_is_never_raised() -> None:
    assert set(PAGES) == {kind.code for kind in RAISED}
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
    place |= {kind.__name__: 2 for kind in RAISED if issubclass(kind, UnavailableError)}
    for call in ast.walk(ast.parse(module.read_text())):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in place:
            continue
        remedy = next(iter(call.args[place[call.func.id] :]), None)
        if remedy is None or re.search(r"\.remedy|advance_or_stop", ast.unparse(remedy)):  # from where it is written
            continue
        words = [part.value for part in ast.walk(remedy) if isinstance(part, ast.Constant)]
        if words:
            assert WAY_OUT.search("".join(map(str, words))), ast.unparse(remedy)


def test_where_records_are_gone_both_ways_out_are_named() -> None:
    """It is written once, in the messages, and handed to whoever refuses for that."""
    assert WAY_OUT.search(advance_or_stop("The records went."))
    assert '"data_loss": "advance"' in advance_or_stop("The records went.")


def section(text: str, title: str) -> list[str]:
    """The points of a list under a heading; none where the page has no such heading."""
    return re.findall(r"^- (.+)$", text.partition(f"\n## {title}\n")[2].partition("\n## ")[0], re.MULTILINE)


@every_error
def test_every_page_says_what_it_means_how_to_look_each_way_out_and_what_it_costs(
    kind: type[KafkaOffsetsError],
) -> None:
    page = PAGES[kind.code]["page"]
    meaning, look, ways = page.split("\n\n")[1], section(page, "How to look"), section(page, "Ways out")
    assert look
    assert ways
    assert [way for way in ways if not re.search(r"\. Cost: \S", way)] == [], 'each ends with "Cost: …."'
    assert all(line.endswith(".") for line in (meaning, *look, *ways))
    assert page.startswith(f"# {kind.code} {kind.__name__}\n\n{meaning}\n\n## How to look\n")
    for option in re.findall(r"`--([a-z-]+)", page.partition("## How to clear")[0]):
        assert f"--{option}" in OPTIONS


@every_error
def test_a_page_says_the_exit_status_and_whether_another_try_may_succeed(kind: type[KafkaOffsetsError]) -> None:
    again = " Another try may succeed." if kind.retriable else ""
    assert f". Exit status {kind.exit_status}.{again}\n\n" in PAGES[kind.code]["page"]


@every_error
def test_a_page_that_says_to_clear_says_how(kind: type[KafkaOffsetsError]) -> None:
    page = PAGES[kind.code]["page"]
    says = any("clear" in re.findall(r"\w+", way.lower()) for way in section(page, "Ways out"))
    assert ("`airflow tasks clear DAG --task-regex TASK --downstream" in page) == says


def test_the_table_of_the_errors_names_every_page_by_its_first_sentence() -> None:
    rows = ["| [{code}]({code}.md) | `{error}` | {what_it_says} |".format(**page) for page in error_pages()]
    table = (DOCS / "errors/README.md").read_text().partition("|---|---|---|\n")[2]
    assert table.splitlines() == rows


def test_the_docs_show_the_package_s_own_files() -> None:
    """``docs/errors`` is a link to the package's folder; a copy of the project may have a copy of it."""
    shown, own = ({file.name: file.read_text() for file in (root / "errors").iterdir()} for root in (DOCS, PACKAGE))
    assert shown == own
    assert own.keys() == {"README.md", *(f"{code}.md" for code in PAGES)}


def test_the_pages_are_in_the_order_of_their_codes() -> None:
    assert list(PAGES) == sorted(PAGES)
