"""What a command found, as tables for people, JSON for programs, CSV for spreadsheets.

On a terminal a table fits ``WIDTH`` columns: ``rich`` draws it. Elsewhere it is plain text, and a row is one line, so
that ``grep`` finds it whole.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.cli.layout import WIDTH, Cells, fits, laid_out

VERSION = 1


_BORDERS = 2  # of a column that is drawn, beyond the gap between two


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
    if output in (None, "table") and sys.stdout.isatty():
        _draw(page)
    else:
        print(render(page, output))


def say(*messages: str) -> None:
    """Tell the person at the terminal; standard output is for what was asked for."""
    for message in messages:
        print(harmless(message), file=sys.stderr)


def harmless(text: str) -> str:
    """``text`` without what a terminal obeys: others name topics, write commit metadata and objects of the store."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


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
        return harmless(buffer.getvalue().rstrip("\n"))
    parts = [
        page.head,
        *("\n".join(laid_out(_cells(table), sys.maxsize)) for table in page.tables if table.rows),
        page.summary,
    ]
    return harmless("\n\n".join(part for part in parts if part))


def _draw(page: Page) -> None:
    """The same on a terminal; ``rich`` is imported nowhere else."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    console = Console()
    console.width = min(console.width, WIDTH)
    if page.head:
        print(harmless(page.head))
    for cells in (_cells(table) for table in page.tables if table.rows):
        if not fits(cells, console.width - _BORDERS * len(cells.headings)):
            print("\n".join(laid_out(cells, console.width)))  # what people copy stays whole
            continue
        drawn = Drawn(box=box.ROUNDED)
        for heading, is_left in zip(cells.headings, cells.left, strict=True):
            drawn.add_column(Text(heading), justify="left" if is_left else "right", overflow="fold")
        for row in cells.rows:
            drawn.add_row(*map(Text, row))
        console.print(drawn)
    if page.summary:
        print(harmless(page.summary))


def _cells(table: Table) -> Cells:
    """A table's cells as text for people."""
    shown = [number for number, column in enumerate(table.columns) if column not in table.hidden]
    words = [table.absent.get(column, "-") for column in table.columns]
    rows = [[words[n] if row[n] is None else harmless(str(_yes_or_no(row[n]))) for n in shown] for row in table.rows]
    left = [any(isinstance(row[n], str | bool) for row in table.rows) for n in shown]
    return Cells([table.columns[n] for n in shown], rows, left)


def _yes_or_no(cell: object) -> object:
    return {True: "yes", False: "no"}[cell] if isinstance(cell, bool) else cell
