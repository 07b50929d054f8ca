"""docs/errors, made of `airflow_kafka_offsets/error_pages.py`: `python -m tests.errors.document` (`make docs`)."""

from __future__ import annotations

import sys
from pathlib import Path

from airflow_kafka_offsets.error_pages import explained, first_sentence, page_of

FOLDER = Path(__file__).parents[2] / "docs" / "errors"
HEAD = """\
# Errors

Every message of the operators and of the command line begins with a code. Each code has a page: what it means, how to
look, each way out, and what it costs. `kafka-offsets explain AKO-101` prints the same page without a network.

Made by `make docs` from `airflow_kafka_offsets/error_pages.py`; `make test` fails when it is not current.

| code | error | what it says |
|---|---|---|
"""


def pages() -> dict[str, str]:
    """Every file of the folder, by its name."""
    rows = [
        f"| [{kind.code}]({kind.code}.md) | `{kind.__name__}` | {first_sentence(kind).replace('|', chr(92) + '|')} |\n"
        for kind in explained()
    ]
    return {"README.md": HEAD + "".join(rows), **{f"{kind.code}.md": page_of(kind) for kind in explained()}}


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    written = pages()
    for old in FOLDER.glob("*.md"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
