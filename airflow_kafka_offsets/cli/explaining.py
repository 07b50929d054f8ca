"""``explain``: the page of an error. It asks nobody: the pages are Markdown files of the package, ``errors/AKO-*.md``.

The documentation shows the same files. A page begins with ``# AKO-101 TopicRecreated``, and then says what that means.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from airflow_kafka_offsets.cli.inputs import Options
from airflow_kafka_offsets.cli.render import Page, Table, show
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


def explain(options: Options) -> int:
    """The page of the code; without one, a line for each."""
    asked, output = options.get("code"), options.get("output")
    pages = error_pages()
    if asked is None:
        rows = [(page.code, page.error, page.first_sentence) for page in pages]
        show(Page([Table(("code", "error", "what it says"), rows, "errors")]), output)
        return 0
    wanted = asked.strip().lower()
    found = [page for page in pages if wanted in (page.code.lower(), page.code[4:], page.error.lower())]
    if not found:
        raise InvalidRequest((f"{asked!r} is no code of an error; use one of those that kafka-offsets explain lists.",))
    page = found[0]
    if output in (None, "table"):
        print(page.text, end="")
    else:
        show(Page([Table(("code", "error", "page"), [(page.code, page.error, page.text)], "errors")]), output)
    return 0


def error_pages() -> list[ErrorPage]:
    """Every page, by its code."""
    files = (resources.files("airflow_kafka_offsets") / "errors").iterdir()
    pages = [file for file in sorted(files, key=lambda file: file.name) if file.name != "README.md"]
    return [ErrorPage(file.read_text("utf-8")) for file in pages]
