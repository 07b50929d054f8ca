"""docs/fault-matrix.md, made of the rows' declarations and of what was seen when all of them were played."""

from collections.abc import Iterable
from pathlib import Path

from tests.faults.matrix import MATRIX
from tests.faults.rows import Played, Row

DOCUMENT = Path(__file__).parents[2] / "docs" / "fault-matrix.md"

HEAD = """\
# Fault matrix

Each row runs the example DAG on real Kafka, Spark and Airflow: scheduler, api-server, triggerer and tasks are
processes. One fault is injected, at the socket, the process or the disk. Then Airflow's own retries, an operator's
clear or the next run bring the pipeline to its end.

- **healed**: a reader of the whole output folder finds every record that was produced exactly once, and the group is at
  the log's end.
- **refused**: nothing was written to the group or to the output of another batch. The task's log names the cause and
  the remedy. After the remedy the row ends like a healed one.

A row fails if its fault did not fire. It also fails if the group ever held an offset above what read reports had
verified by then; a watcher reads the group all the time, on a connection of its own. `make test-faults` plays all rows
and makes this page; CI plays those with a star.

Elsewhere: a cleared Spark task that re-attaches to a finished driver and submits nothing needs a cluster of processes
(`tests/spark/test_standalone_cluster.py`); a driver that is killed at each step of a sink's write is in
`tests/spark/sinks/test_kills.py`; brokers that have just started are in `tests/faults/test_new_brokers.py`.
"""

KNOWN_WRONG = """\
A row that is **known to be wrong** fails today, and says what it should have ended as and what will mend it. Its test
fails if the row holds, or if it fails in another way.
"""

NOT_PLAYED = "not played yet"


def document(before: str, played: Iterable[Played]) -> str:
    """The text of docs/fault-matrix.md, in which a row that was not played now keeps the proof that it had.

    :param before: the document as it is; empty where there is none.
    """
    proofs = {**_proofs(before), **{one.row.name: _cell(one.proof) for one in played}}
    lines = [HEAD, KNOWN_WRONG] if any(row.known_wrong for row in MATRIX) else [HEAD]
    for kind in dict.fromkeys(row.kind for row in MATRIX):
        lines += [f"## {kind}", "", "| fault | how it is made | ends | proof that it fired |", "|---|---|---|---|"]
        lines += [line(row, proofs.get(row.name, NOT_PLAYED)) for row in MATRIX if row.kind == kind]
        lines.append("")
    return "\n".join(lines)


def line(row: Row, proof: str) -> str:
    """One row of the table."""
    end = f"refused: `{row.cause}`; {row.remedy}" if row.ends == "refused" else "healed"
    if row.known_wrong:
        end = f"known to be wrong: {row.known_wrong}. It should end {end}"
    return f"| {_cell(row.name)}{STAR * row.in_every_test_run} | {_cell(row.made)} | {_cell(end)} | {proof} |"


STAR = " \\*"


def _proofs(text: str) -> dict[str, str]:
    """The last cell of each row, by the name in its first."""
    rows = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in text.splitlines() if line[:2] == "| "]
    return {cells[0].removesuffix(STAR): cells[-1] for cells in rows}


def names_shown(text: str) -> dict[str, bool]:
    """The rows of the document, and whether each has been played."""
    return {name: proof != NOT_PLAYED for name, proof in _proofs(text).items() if name != "fault"}


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")
