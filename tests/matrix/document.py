"""docs/compatibility.md, made of what ran: what did not run keeps what it had, or says that it did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.matrix.rows import ROWS, Row

DOCUMENT = Path(__file__).parents[2] / "docs" / "compatibility.md"
VERSIONS = ("Airflow", "Python", "Kafka", "Spark", "Kafka provider", "Spark provider", "confluent-kafka")
STEPS = ("batches", "backfill", "sensors", "two runs", "loss")
SINKS = ("delta", "iceberg")  # the steps before write Parquet
NOT_RUN = "not run"
_BEGIN, _END = "<!-- the table: made by `make test-matrix` -->\n", "<!-- end of the table -->\n"
_TITLES = {
    "airflow": "Airflow",
    "spark": "Spark",
    "kafka": "Kafka",
    "python": "Python",
    "client": "Kerberos",
    "all": "All of it",
}


@dataclass
class Seen:
    """What ran: by row, the versions that were installed, and how each step ended."""

    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    steps: dict[str, dict[str, str]] = field(default_factory=dict)


def document(before: str, seen: Seen) -> str:
    """The text of the document with the table renewed; what stands around the table is written by hand."""
    head, _, rest = before.partition(_BEGIN)
    old, _, tail = rest.partition(_END)
    had = table_of(old)
    lines = {**had, **{row.name: _line(row, seen, had.get(row.name, [])) for row in ROWS if row.name in seen.steps}}
    table = []
    for axis, title in _TITLES.items():
        columns = ("row", *VERSIONS, *STEPS, *SINKS)
        table += [f"### {title}", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        for row in (row for row in ROWS if row.axis == axis):
            cells = lines.get(row.name, [NOT_RUN] * (len(columns) - 1))
            table.append(f"| {' | '.join([row.name, *cells])} |")
        table.append("")
    return "".join([head, _BEGIN, "\n", "\n".join(table), "\n", _END, tail])


def table_of(text: str) -> dict[str, list[str]]:
    """The cells of each row in the document, by its name."""
    rows = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in text.splitlines() if line[:2] == "| "]
    names = {row.name for row in ROWS}
    width = len(VERSIONS + STEPS + SINKS)
    return {name: (cells + [NOT_RUN] * width)[:width] for name, *cells in rows if name in names}


def _line(row: Row, seen: Seen, had: Sequence[str]) -> list[str]:
    """A step that did not run now keeps what it had with the same versions."""
    found: Mapping[str, str] = seen.versions.get(row.name, {})
    versions = [found.get(name, "?") for name in VERSIONS]
    kept = (
        dict(zip(STEPS + SINKS, had[len(VERSIONS) :], strict=False)) if list(had[: len(VERSIONS)]) == versions else {}
    )
    return [*versions, *(({**kept, **seen.steps[row.name]}).get(step, NOT_RUN) for step in STEPS + SINKS)]
