"""What the demo prints: steps with their time, a table for each part, and claims that hold or end it."""

import time
from pathlib import Path
from typing import Protocol

from testbed.checks import duplicated_or_missing

Row = tuple[str, ...]
Claim = tuple[str, bool, str]
"""A sentence, whether it is so, and what was found instead."""


class DemoFailed(Exception):
    """The demo ran and did not show what it promises."""


class Part(Protocol):
    """A part of the demo: a topic, a DAG, and its runs.

    :ivar rows: its table; the first row has the titles.
    """

    rows: list[Row]

    def run(self) -> None: ...

    def claims(self) -> list[Claim]: ...


def step(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {message}", flush=True)


def show(part: Part) -> None:
    """Print the part's table and its claims.

    :raises DemoFailed: a claim does not hold.
    """
    print()
    _print_table(part.rows)
    print()
    for claim, holds, found in part.claims():
        if not holds:
            raise DemoFailed(f"it is not so that {claim}: {found}")
        print(f"  ok: {claim}")
    print(flush=True)


def each_record_once(output: Path, produced: int) -> list[Claim]:
    """Claims about an output whose values are the numbers from 0 to ``produced``."""
    missing, duplicated = duplicated_or_missing(output, produced)
    return [
        (f"each of {produced:,} records is in the output", not missing, f"missing: {missing:,}"),
        ("no record is there twice", not duplicated, f"rows too many: {duplicated:,}"),
    ]


def _print_table(rows: list[Row]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for first, *cells in rows:
        aligned = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print("  " + "   ".join([first.ljust(widths[0]), *aligned]))
