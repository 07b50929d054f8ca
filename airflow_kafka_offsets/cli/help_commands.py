"""``explain``, the page of an error, and ``completion``. They ask nobody: the pages are Markdown files of the package,
``errors/AKO-*.md``.

The documentation shows the same files. A page begins with ``# AKO-101 TopicRecreated``, and then says what that means.
"""

from __future__ import annotations

from importlib import resources

from argcomplete.shell_integration import shellcode

from airflow_kafka_offsets.cli.commands import PROGRAM, Options
from airflow_kafka_offsets.cli.printing import Answer, Table, columns
from airflow_kafka_offsets.errors import InvalidRequest


def explain(options: Options) -> Answer:
    """The page of the code; without one, a line for each."""
    asked = options.get("code")
    if asked is None:
        return Answer([Table(columns("code", "error", "what_it_says"), error_pages(), "errors")])
    wanted = asked.strip().lower()
    for page in error_pages():
        if wanted in (page["code"].lower(), page["code"][4:], page["error"].lower()):
            text = page["page"].rstrip("\n") if options.get("output") in (None, "table") else None
            return Answer([Table(columns("code", "error", "page"), [page], "errors")], text=text)
    raise InvalidRequest((f"{asked!r} is no code of an error; use one of those that kafka-offsets explain lists.",))


def error_pages() -> list[dict[str, str]]:
    """Every page by its code, with the name of the class and the first sentence."""
    pages = []
    for file in sorted((resources.files("airflow_kafka_offsets") / "errors").iterdir(), key=lambda file: file.name):
        if file.name != "README.md":
            text = file.read_text("utf-8")
            title, meaning, *_ = text.split("\n\n")
            _, code, error = title.split()
            first = meaning.partition(". ")[0] + "."
            pages.append({"code": code, "error": error, "what_it_says": first, "page": text})
    return pages


# ── completion: what a shell has to evaluate so that TAB completes this command's words ───────────────────────────────
# The shell then calls the command itself and asks what could come next (argcomplete's protocol), so a new option is
# completed without a new script. Under ``airflow`` there is nothing to do: Airflow's own completion knows our commands.


def completion(options: Options) -> Answer:
    """The script for ``shell``: bash, zsh or fish."""
    return Answer(text=shellcode([PROGRAM], shell=options["shell"]).strip("\n"))
