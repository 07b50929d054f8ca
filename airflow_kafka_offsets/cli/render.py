"""What a command found, as tables for people, JSON for programs, CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

VERSION = 1


@dataclass(frozen=True)
class Table:
    """Rows under columns.

    :ivar columns: in words; JSON has them with underscores.
    :ivar rows: a cell that is ``None`` is absent or unknown: null in JSON, nothing in CSV, a word in a table.
    :ivar name: what JSON calls the rows.
    :ivar absent: that word, by column, where it is not ``-``.
    :ivar hidden: columns that a table for people leaves out, because another one says it.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    name: str = "partitions"
    absent: Mapping[str, str] = field(default_factory=dict)
    hidden: Collection[str] = ()

    def to_dicts(self) -> list[dict[str, object]]:
        names = [column.replace(" ", "_") for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class Page:
    """All that a command prints.

    :ivar facts: what JSON has beside the rows.
    :ivar summary: what a table says below the rows.
    :ivar head: what it says above them.
    :ivar tables: CSV has the first alone.
    """

    tables: Sequence[Table]
    facts: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    head: str = ""


def show(page: Page, output: str | None) -> None:
    """Print it in one of the forms of ``--output``."""
    print(render(page, output))


def say(*messages: str) -> None:
    """Tell the person at the terminal; standard output is for what was asked for."""
    for message in messages:
        print(message, file=sys.stderr)


def say_dry_run(done: str) -> None:
    """:param done: what --execute does, such as ``commits``."""
    say(f"This was a dry run: nothing was written. --execute {done}.")


def render(page: Page, output: str | None) -> str:
    """Without a final newline."""
    if output == "json":
        return json.dumps({"version": VERSION, **page.facts, **{table.name: table.to_dicts() for table in page.tables}})
    if output == "csv":
        first = page.tables[0]
        buffer = io.StringIO()
        rows = [[_yes_or_no(cell) for cell in row] for row in first.rows]
        csv.writer(buffer, lineterminator="\n").writerows([first.columns, *rows])
        return buffer.getvalue().rstrip("\n")
    parts = [page.head, *("\n".join(_aligned(table)) for table in page.tables if table.rows), page.summary]
    return "\n\n".join(part for part in parts if part)


def _aligned(table: Table) -> list[str]:
    """Numbers to the right, texts to the left."""
    shown = [number for number, column in enumerate(table.columns) if column not in table.hidden]
    words = [table.absent.get(column, "-") for column in table.columns]
    rows = [[words[n] if row[n] is None else str(_yes_or_no(row[n])) for n in shown] for row in table.rows]
    cells = [[table.columns[n] for n in shown], *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = [any(isinstance(row[n], str | bool) for row in table.rows) for n in shown]
    return [
        "  ".join(
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(row, widths, left, strict=True)
        ).rstrip()
        for row in cells
    ]


def _yes_or_no(cell: object) -> object:
    return {True: "yes", False: "no"}[cell] if isinstance(cell, bool) else cell
