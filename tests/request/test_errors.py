"""Every error has a code and a page, says what to do, survives pickling, and has no secrets."""

from __future__ import annotations

import pickle
import re
from dataclasses import fields
from pathlib import Path

import pytest

import airflow_kafka_offsets
from airflow_kafka_offsets import errors
from airflow_kafka_offsets.errors import (
    GroupActive,
    InvalidRequest,
    KafkaOffsetsError,
    OverlappingRun,
    UnavailableError,
    clean_text,
    counted,
    listed,
)
from airflow_kafka_offsets.spark.errors import BatchError

PAGES = Path(airflow_kafka_offsets.__file__).parent / "errors"
CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, KafkaOffsetsError)]
GROUPING = {
    *("KafkaOffsetsError", "RequestError", "RefusedError", "PartitionsRefused", "Refusal", "PipelineDiffers"),
    "UnavailableError",
}
RAISED = [kind for kind in CLASSES if kind.__name__ not in GROUPING]
IN_SPARK = BatchError.__subclasses__()
FACTS = {
    "problems": ("topics is missing.", "start is None."),
    "partitions": ["orders-0: offset 3 is gone", "orders-1: offset 4 is gone"],
    "differences": ["It has read cluster a, and the connection leads to b."],
    "members": ("consumer-1 at /10.0.0.1",),
    "retriable": True,
    "unanswered": {"orders-0": "no leader"},
}
each = pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)


def example(kind: type[KafkaOffsetsError]) -> KafkaOffsetsError:
    return kind(*(FACTS.get(f.name, f"the {f.name} of it.") for f in fields(kind)))


def test_every_error_that_is_raised_has_a_code_of_its_own_and_a_page_and_no_page_is_left_over():
    own = {vars(kind)["code"]: kind.__name__ for kind in RAISED}
    assert len(own) == len(RAISED)
    codes = {kind.code: kind.__name__ for kind in IN_SPARK} | own
    assert all(re.fullmatch(r"AKO-[0-5]\d\d", code) for code in codes)
    pages = {path.stem: path.read_text().split("\n", 1)[0] for path in PAGES.glob("AKO-*.md")}
    assert pages == {code: f"# {code} {name}" for code, name in codes.items()}
    table = re.findall(r"^\| \[(AKO-\d+)\]\(\1\.md\) \| `(\w+)` \|", (PAGES / "README.md").read_text(), re.MULTILINE)
    assert table == sorted(codes.items())
    assert not any(kind.code for kind in CLASSES if kind not in RAISED), "a class that only groups has none"


@each
def test_a_page_says_what_happened_why_and_what_to_do(kind):
    page = (PAGES / f"{kind.code}.md").read_text()
    assert re.findall("^## (.*)$", page, re.MULTILINE) == ["Why", "What to do"]
    again = " Another try may succeed." if kind.retriable else ""
    assert f"{again} Exit status {kind.exit_status}.\n\n## Why" in page
    ways = page.partition("## What to do\n\n")[2].splitlines()
    assert ways
    assert all(way.startswith("- ") and way.endswith(".") for way in ways)
    assert 8 <= page.count("\n") <= 20


@each
def test_a_message_has_its_code_every_fact_and_its_page(kind):
    error = example(kind)
    assert str(error).startswith(f"{kind.code} {kind.__name__}: ")
    assert str(error).endswith(f"\nPage: kafka-offsets explain {kind.code}")
    for f in fields(kind):
        if f.name not in ("retriable", "unanswered"):
            value = getattr(error, f.name)
            assert all(part in error.message for part in (value if not isinstance(value, str) else [value]))


@each
def test_an_error_survives_pickling(kind):
    error = example(kind)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert [getattr(copy, f.name) for f in fields(kind)] == [getattr(error, f.name) for f in fields(kind)]
    assert (str(copy), copy.retriable) == (str(error), error.retriable)


def test_the_exit_status_says_who_can_act():
    assert {kind.exit_status for kind in RAISED if issubclass(kind, errors.RequestError)} == {2}
    assert {kind.exit_status for kind in RAISED if issubclass(kind, errors.RefusedError)} == {1}
    assert {kind.exit_status for kind in RAISED if issubclass(kind, UnavailableError)} == {3}


def test_another_try_may_succeed_only_where_the_class_or_its_raiser_says_so():
    retriable = {kind.__name__ for kind in RAISED if kind.retriable}
    assert retriable == {"GroupActive", "OverlappingRun"}
    assert OverlappingRun("run a", "Batch 7").retriable


def test_many_problems_are_lines_and_many_partitions_are_counted():
    assert InvalidRequest(("a is 1.", "b is 2.")).message == "2 problems with the request:\n- a is 1.\n- b is 2."
    assert listed(f"orders-{n}" for n in range(10_000)).splitlines()[-1] == "… and 9,980 more"


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 batches"), (1, "1 batch"), (2, "2 batches"), (12_000, "12,000 batches")]
)
def test_a_count_and_its_noun_agree(number: int, words: str):
    assert counted(number, "batch") == words
    assert counted(number, "record") == words.replace("batches", "records").replace("batch", "record")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-ärger 🚀", "orders-ärger 🚀"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\nb\rc\0", r"a\nb\rc\x00"),
        ("ab\u202etxt", r"ab\u202etxt"),
        ("\ud800", r"\ud800"),
    ],
)
def test_words_from_outside_cannot_drive_a_terminal(text, shown):
    assert clean_text(text) == shown
    assert shown in GroupActive("g", "Stable", (text,)).message
