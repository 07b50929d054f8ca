"""``explain``: the page of an error. It asks nobody: the pages are Markdown files of the package, ``errors/AKO-*.md``.

The documentation shows the same files. A page begins with ``# AKO-101 TopicRecreated``, and then says what that means.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.render import Answer, Table, columns
from airflow_kafka_offsets.errors import InvalidRequest


@dataclass(frozen=True)
class ErrorPage:
    """The text of one of the files, and what its first lines say."""

    text: str

    @property
    def code(self) -> str:
        return self.text.split()[1]

    @property
    def error(self) -> str:
        """The name of the class that has the code."""
        return self.text.split()[2]

    @property
    def first_sentence(self) -> str:
        """What the error means, for a list of them."""
        return self.text.split("\n\n")[1].partition(". ")[0] + "."


def explain(options: Options) -> Answer:
    """The page of the code; without one, a line for each."""
    asked = options.get("code")
    if asked is None:
        rows = [{"code": page.code, "error": page.error, "what_it_says": page.first_sentence} for page in error_pages()]
        return Answer([Table(columns("code", "error", "what_it_says"), rows, "errors")])
    wanted = asked.strip().lower()
    for page in error_pages():
        if wanted in (page.code.lower(), page.code[4:], page.error.lower()):
            row = {"code": page.code, "error": page.error, "page": page.text}
            text = page.text.rstrip("\n") if options.get("output") in (None, "table") else None
            return Answer([Table(columns("code", "error", "page"), [row], "errors")], text=text)
    raise InvalidRequest((f"{asked!r} is no code of an error; use one of those that kafka-offsets explain lists.",))


def error_pages() -> list[ErrorPage]:
    """Every page, by its code."""
    files = (resources.files("airflow_kafka_offsets") / "errors").iterdir()
    pages = [file for file in sorted(files, key=lambda file: file.name) if file.name != "README.md"]
    return [ErrorPage(file.read_text("utf-8")) for file in pages]
