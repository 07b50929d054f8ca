"""What the page makes of views: no text of others becomes HTML, what is unknown says so, no script runs but ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from fastapi import Request

from airflow_kafka_offsets.page.actions import ACTIONS, FIELDS
from airflow_kafka_offsets.page.page_templates import shown
from airflow_kafka_offsets.page.views import Page
from tests.airflow import page_examples as example

EVIL = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>{{ 7 * 7 }}"
PAGES: dict[str, Callable[[str], dict[str, Any]]] = {
    "pipeline.html": lambda text: {
        "view": example.pipeline(text),
        "names": [named(text), named("another")],
        "asked": {"order": "newest first", "find": text, "state": "committed", "run": text},
        "states": ("", "committed"),
        "batch": text,
        "of_run": text,
        "may_edit": True,
        "words": ACTIONS,
    },
    "partitions.html": lambda text: {
        "view": example.partitions(text),
        "pipeline_id": text,
        "asked": {"order": "by name", "find": text},
    },
    "windows.html": lambda text: {"view": example.windows(text), "pipeline_id": text},
    "act.html": lambda text: {
        "action": "reset",
        "pipeline_id": text,
        "fields": FIELDS,
        "given": dict.fromkeys(FIELDS, text),
        "words": ACTIONS["reset"],
        "answer": example.answer(text),
        "refused": text,
        "token": "token",
    },
    "done.html": lambda text: {"answer": example.answer(text), "words": ACTIONS["reset"], "pipeline_id": text},
    "message.html": lambda text: {"message": text},
    "no_pipeline.html": lambda text: {},
}


def named(pipeline_id: str) -> Any:
    from airflow_kafka_offsets.page.dag_pipelines import PipelineName

    return PipelineName(pipeline_id, "resolve")


class Outline(HTMLParser):
    """The elements of a page with the names of their attributes, its texts, and its addresses."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.addresses += [value or "" for name, value in attrs if name in {"href", "src", "action", "hx-get"}]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def outline(template: str, values: dict[str, Any], root: str = "/kafka-offsets", dag_id: str = "alpha") -> Outline:
    scope = {"type": "http", "root_path": root, "path_params": {"dag_id": dag_id}, "state": {"nonce": "n0nce"}}
    return Outline(bytes(shown(Request(scope), template, **values).body).decode())


@pytest.mark.parametrize("template", PAGES)
def test_a_text_of_kafka_or_the_log_stays_a_text(template: str) -> None:
    harmless, evil = (outline(template, PAGES[template](text)) for text in ("some/words", EVIL))
    assert evil.elements == harmless.elements
    assert "49" not in " ".join(evil.texts)


@pytest.mark.parametrize("template", PAGES)
def test_no_page_has_a_script_but_ours_and_none_has_a_style_or_a_handler_of_its_own(template: str) -> None:
    found = outline(template, PAGES[template](EVIL)).elements
    assert [names for tag, names in found if tag == "script"] == [("nonce", "src", "defer")] * 2
    assert not [tag for tag, _ in found if tag in {"style", "iframe", "object", "embed", "base", "img"}]
    assert not [name for _, names in found for name in names if name == "style" or name.startswith(("on", "hx-on"))]


@pytest.mark.parametrize("template", PAGES)
def test_every_address_is_this_airflows_also_below_another_path(template: str) -> None:
    addresses = outline(template, PAGES[template](EVIL), root="/a/b/kafka-offsets", dag_id="al/pha?").addresses
    assert addresses
    for address in addresses:
        assert address.startswith(("/a/b/kafka-offsets/static/", "/a/b/kafka-offsets/dags/al%2Fpha%3F", "/a/b/dags/"))
        assert "<" not in address
        assert '"' not in address


def test_a_sign_that_nobody_sees_is_written_out() -> None:
    texts = outline("message.html", {"message": "orders\u202egpj"}).texts
    assert "orders\\u202egpj" in texts


def test_what_is_unknown_says_so_and_is_not_zero() -> None:
    view = replace(example.pipeline(count=None), chart=())
    cells = outline("pipeline.html", {**PAGES["pipeline.html"]("words"), "view": view}).texts
    assert cells.count("unknown") == 3  # records, set aside, lost
    assert "0" not in cells

    view_of_partitions = example.partitions(count=None)
    row = {**view_of_partitions.partitions.rows[0], "bar": None}
    unknown = replace(view_of_partitions, partitions=Page((row,), 1, 1, 1, 1))
    shown_as = outline("partitions.html", {**PAGES["partitions.html"]("words"), "view": unknown})
    assert shown_as.texts.count("unknown") == 2  # the bar, and what is left


def test_a_batch_of_which_nobody_knows_what_was_left_breaks_the_line() -> None:
    points = [replace(example.batch_row(), left=left) for left in (1, 2, None, 4)]
    view = replace(example.pipeline(), chart=tuple(points))
    found = outline("pipeline.html", {**PAGES["pipeline.html"]("words"), "view": view}).elements
    assert [tag for tag, _ in found].count("polyline") == 2


def test_who_may_not_edit_is_offered_no_action() -> None:
    values = PAGES["pipeline.html"]("words")
    offered, not_offered = (outline("pipeline.html", {**values, "may_edit": may}).addresses for may in (True, False))
    assert any("/act" in address for address in offered)
    assert not any("/act" in address for address in not_offered)


def test_every_field_of_every_action_has_words() -> None:
    assert {name for action in ACTIONS.values() for name in action.fields} == set(FIELDS)
