"""What a command answers, as tables for people, JSON for programs and CSV for spreadsheets.

On a terminal ``rich`` draws a table of at most ``WIDTH`` columns: sentences are wrapped between words. A table that is
too wide even so has a line for each cell. So names and numbers stay whole, and can be copied. Elsewhere a row is one
line, so that ``grep`` finds it whole.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from textwrap import fill
from typing import Any

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.plan.plan_table import aligned
from airflow_kafka_offsets.request.times import short_time

VERSION = 1
WIDTH = 120


@dataclass(frozen=True)
class Column:
    """One field of every row, and how people see it.

    :ivar name: the field's; people and spreadsheets read it with spaces, or ``heading`` in its place.
    :ivar absent: what a table says where the value is ``None``: absent, or unknown.
    :ivar for_people: whether a table has the column; it has not where another one says the same.
    :ivar words: what people and spreadsheets read in the place of the value, made of the row.
    """

    name: str
    absent: str = "-"
    for_people: bool = True
    words: Callable[[Mapping[str, Any]], str | None] | None = None
    heading: str = ""

    @property
    def title(self) -> str:
        return self.heading or self.name.replace("_", " ")

    def is_text(self, row: Mapping[str, object]) -> bool:
        return self.words is not None or isinstance(row.get(self.name), str | bool)

    def text(self, row: Mapping[str, object], absent: str) -> str:
        value = self.words(row) if self.words else row.get(self.name)
        if isinstance(value, bool):
            return "yes" if value else "no"
        return absent if value is None else harmless(str(value))


@dataclass(frozen=True)
class Table:
    """Rows under columns.

    :ivar rows: their fields, as JSON has those that are columns; one that a row lacks is null.
    :ivar name: what JSON calls the rows.
    """

    columns: Sequence[Column]
    rows: Sequence[Mapping[str, object]]
    name: str = "partitions"


@dataclass(frozen=True)
class Answer:
    """All that a command prints.

    :ivar tables: CSV has the first alone.
    :ivar facts: what JSON has beside the rows.
    :ivar summary: what people read below the tables; ``head`` stands above them.
    :ivar text: printed as it is, in the place of all of that.
    :ivar messages: for the person at the terminal, on standard error.
    :ivar dry_run: what ``--execute`` does, such as ``commits``; empty where it was done, or nothing is to be done.
    :ivar errors: what is wrong with that which is shown; the exit status is that of the first.
    """

    tables: Sequence[Table] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    head: str = ""
    text: str | None = None
    messages: Sequence[str] = ()
    dry_run: str = ""
    errors: Sequence[KafkaOffsetsError] = ()


def columns(*names: str, **more: Any) -> list[Column]:
    """A column for each name; ``more`` is what all of them have."""
    return [Column(name, **more) for name in names]


def in_time(name: str, heading: str, *, for_people: bool = True) -> Column:
    """Milliseconds, which people read in units that fit."""

    return Column(
        name,
        for_people=for_people,
        words=lambda row: None if row[name] is None else short_time(row[name]),
        heading=heading,
    )


def show(answer: Answer, output: str | None) -> None:
    """Print it in one of the forms of ``--output``."""
    if answer.text is not None:
        print(answer.text)
    elif output == "json":
        tables = {
            table.name: [{column.name: row.get(column.name) for column in table.columns} for row in table.rows]
            for table in answer.tables
        }
        print(json.dumps({"version": VERSION, **answer.facts, **tables}))
    elif output == "csv":
        rows = [[column.text(row, "") for column in answer.tables[0].columns] for row in answer.tables[0].rows]
        titles = [column.title for column in answer.tables[0].columns]
        csv.writer(sys.stdout, lineterminator="\n").writerows([titles, *rows])
    else:
        draw = drawn if sys.stdout.isatty() else plain
        parts = [harmless(answer.head), *(draw(table) for table in answer.tables if table.rows)]
        print("\n\n".join(part for part in (*parts, harmless(answer.summary)) if part))
    sys.stdout.flush()


def say(*messages: str) -> None:
    """Print it for the person at the terminal; standard output is for what was asked for."""
    for message in messages:
        print(harmless(message), file=sys.stderr)


def harmless(text: str) -> str:
    """``text`` without what a terminal obeys: others name topics, write commit metadata and objects of the store."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def plain(table: Table) -> str:
    """A row a line, as wide as its words: numbers to the right, texts to the left."""
    (titles, *rows), left = _for_people(table)
    return "\n".join(aligned(titles, rows, [title for title, is_left in zip(titles, left, strict=True) if is_left]))


def drawn(table: Table, width: int | None = None) -> str:
    """As ``rich`` draws it, which is imported nowhere else; or a line for each cell where that does not fit.

    :param width: of the terminal; ``None``: of the one that is there.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table as Drawing
    from rich.text import Text

    lines, left = _for_people(table)
    console = Console(width=width)
    console.width = min(console.width, WIDTH)
    widths = _fitted(list(zip(*lines, strict=True)), left, console.width - 3 * len(left) - 1)  # less the borders
    if widths is None:
        return _one_cell_a_line(lines, console.width)
    drawing = Drawing(box=box.ROUNDED)
    for title, is_left, wide in zip(lines[0], left, widths, strict=True):
        drawing.add_column(Text(title), justify="left" if is_left else "right", width=wide, overflow="fold")
    for line in lines[1:]:
        drawing.add_row(*map(Text, line))
    with console.capture() as captured:
        console.print(drawing)
    return captured.get().rstrip("\n")


def _for_people(table: Table) -> tuple[list[list[str]], list[bool]]:
    """The line of titles and a line for each row; and of each column, whether it holds texts and not numbers."""
    shown = [column for column in table.columns if column.for_people]
    titles = [column.title for column in shown]
    lines = [[column.text(row, column.absent) for column in shown] for row in table.rows]
    return [titles, *lines], [any(map(column.is_text, table.rows)) for column in shown]


def _fitted(columns: Sequence[Sequence[str]], left: Sequence[bool], space: int) -> list[int] | None:
    """The widths that together take at most ``space``, the widest column giving first.

    ``None`` where that would break a word, or a number.
    """
    widths = [max(map(len, column)) for column in columns]
    words = [" ".join(column).split() if is_left else column for column, is_left in zip(columns, left, strict=True)]
    narrowest = [max(map(len, column), default=0) for column in words]
    if sum(narrowest) > space:
        return None
    while sum(widths) > space:
        able = [n for n, width in enumerate(widths) if width > narrowest[n]]
        widths[max(able, key=lambda n: widths[n])] -= 1
    return widths


def _one_cell_a_line(lines: Sequence[Sequence[str]], width: int) -> str:
    """Sentences are wrapped; a word that is wider than the terminal is not, so that it can be copied."""
    titles, *rows = lines
    label = max(map(len, titles)) + 2
    wrap = partial(fill, width=width, subsequent_indent=" " * label, break_long_words=False, break_on_hyphens=False)
    blocks = [[wrap(f"{title:<{label}}{cell}") for title, cell in zip(titles, row, strict=True)] for row in rows]
    return "\n\n".join("\n".join(block) for block in blocks)
