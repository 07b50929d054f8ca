# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""What a command answers: tables for people, or one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.errors import clean_lines, clean_text

PROGRAM = "kafka-offsets"
Row = dict[str, Any]
_MOST_ROWS = 500  # in a terminal


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one kind.

    :ivar name: its member in JSON.
    :ivar columns: those that people see, separated by spaces; one without any value is left out.
    """

    name: str
    rows: Sequence[Row]
    columns: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """
    :ivar text: sentences for people, above the tables.
    :ivar facts: members of the JSON object beside the tables.
    :ivar notes: what to know or to do next; on standard error.
    """

    text: str = ""
    facts: Row = field(default_factory=dict)
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    exit_status: int = 0


def show(answer: Answer, output: str) -> None:
    """Print it: JSON alone, or text and tables."""
    if output == "json":
        print(json.dumps({**answer.facts, **{table.name: table.rows for table in answer.tables}}, indent=2))
    else:
        print(clean_lines(answer.text))
        for table in answer.tables:
            if table.rows and table.columns:
                _print_table(table)
    sys.stdout.flush()
    say(*answer.notes)


def say(*messages: str) -> None:
    """Messages for people, on standard error."""
    for message in messages:
        print(clean_lines(message), file=sys.stderr)


def _print_table(table: Table) -> None:
    """In a terminal as it fits; in a pipe, a row is a line."""
    names = [name for name in table.columns.split() if any(_cell(row.get(name)) for row in table.rows)]
    rows = [[_cell(row.get(name)) for name in names] for row in table.rows]
    titles = [name.replace("_", " ") for name in names]
    is_number = [all(isinstance(row.get(name), int | None) for row in table.rows) for name in names]
    print()
    if sys.stdout.isatty():
        _print_in_terminal(titles, rows, is_number)
        return
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for cells in [titles, *rows]:
        aligned = zip(cells, widths, is_number, strict=True)
        print("  ".join(c.rjust(width) if right else c.ljust(width) for c, width, right in aligned).rstrip())


def _print_in_terminal(titles: Sequence[str], rows: Sequence[Sequence[str]], is_number: Sequence[bool]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, pad_edge=False, header_style="bold")
    for title, right in zip(titles, is_number, strict=True):
        shown.add_column(title, justify="right" if right else "left", overflow="fold")
    for cells in rows[:_MOST_ROWS]:
        shown.add_row(*map(Text, cells))
    Console(highlight=False).print(shown)
    if len(rows) > _MOST_ROWS:
        print(f"… and {len(rows) - _MOST_ROWS:,} more; a pipe or --output json has all of them")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {n:,}" if isinstance(n, int) else f"{name} {n}" for name, n in value.items() if n)
    if isinstance(value, list):
        return " to ".join(map(_cell, value))
    return clean_text(value)
