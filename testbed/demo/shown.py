"""What the demo prints: steps with their time, a table for each part, and claims that hold or end it."""

import time
from typing import Protocol

Row = tuple[str, ...]


class DemoFailed(Exception):
    """The demo ran and did not show what it promises."""


class Part(Protocol):
    """A part of the demo: a topic, a DAG, and its runs.

    :ivar topic: the topic it creates.
    :ivar rows: its table; the first row has the titles.
    """

    topic: str
    rows: list[Row]

    def run(self) -> None: ...

    def claims(self) -> dict[str, str]:
        """For each claim what speaks against it; empty where it holds."""
        ...


def step(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {message}", flush=True)


def show(part: Part) -> None:
    """Print the part's table and its claims.

    :raises DemoFailed: a claim does not hold.
    """
    print()
    _print_table(part.rows)
    print()
    for claim, otherwise in part.claims().items():
        print(f"  NOT SO: {claim}: {otherwise}" if otherwise else f"  ok: {claim}")
        if otherwise:
            raise DemoFailed(f"{claim}: {otherwise}")
    print(flush=True)


def _print_table(rows: list[Row]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for first, *cells in rows:
        aligned = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print("  " + "   ".join([first.ljust(widths[0]), *aligned]))
