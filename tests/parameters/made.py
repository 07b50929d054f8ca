"""What is made of the table of parameters (``request/parameters.py``): ``python -m tests.parameters.made``.

The resolve task's docstring, templates and signature; the task group's types; the tables of docs/parameters.md. They
are committed, because Airflow fills ``default_args`` from real parameters only, and an editor and mypy see no others;
``tests/airflow/test_parsing.py`` compares them with the table.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.request.parameters import (
    CONF,
    DAG,
    MOST_DAGS,
    ORDERS,
    RequestParameters,
    ResolveParameters,
    row_of,
)
from airflow_kafka_offsets.request.policies import ANSWERS, SITUATIONS, answers_of

ROOT = Path(__file__).parents[2]
RESOLVE = ROOT / "airflow_kafka_offsets" / "operators" / "resolve.py"
TASK_GROUP = ROOT / "airflow_kafka_offsets" / "operators" / "task_group.py"
PAGE = ROOT / "docs" / "parameters.md"

TYPES = {
    name: str(annotation)
    for kind in reversed(ResolveParameters.__mro__)
    for name, annotation in vars(kind).get("__annotations__", {}).items()
}


def of_a_dag(kind: type[RequestParameters] = ResolveParameters) -> list[Field[Any]]:
    """The parameters that may stand in a DAG, those that most DAGs do with first."""
    found = {parameter.name: parameter for parameter in fields(kind) if DAG in row_of(parameter).places}
    return [found[name] for name in dict.fromkeys((*MOST_DAGS, *found))]


def meaning(parameter: Field[Any]) -> str:
    """In Markdown, with the values and the default."""
    row, default = row_of(parameter), parameter.default
    values = [f"`{word}`" for word in row.words] if row.words is not ANSWERS else []
    more = f". One of {', '.join(values)}" if values else ""
    return row.meaning + more + ("" if default in (None, ()) else f". Default: `{default}`")


# ── operators/resolve.py ──────────────────────────────────────────────────────────────────────────────────────────────


def resolve(source: str) -> str:
    source = between(source, "    :param kafka_config_id:", "    :raises InvalidRequest: when the DAG", _docstring())
    source = between(source, "    template_fields: ", "    ui_color", _template_fields())
    source = between(source, "    def __init__(\n", "        super().__init__(", _signature())
    return between(source, "**kwargs})\n", "        self._refuse_what_is_wrong()\n", "**kwargs})\n" + _attributes())


def _docstring() -> str:
    lines = [f"    :param {parameter.name}: {meaning(parameter)}.".replace("`", "``") for parameter in of_a_dag()]
    return "".join(
        textwrap.fill(line, 120, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False) + "\n"
        for line in lines
    )


def _template_fields() -> str:
    return (
        "    template_fields: Sequence[str] = (\n"
        + "".join(f'        "{parameter.name}",\n' for parameter in of_a_dag())
        + "    )\n"
    )


def _signature() -> str:
    rows = [f"        {p.name}: {TYPES[p.name]} = {_literal(p.default)},\n" for p in of_a_dag()]
    return "    def __init__(\n        self,\n        *,\n" + "".join(rows) + "        **kwargs: Any,\n    ) -> None:\n"


def _attributes() -> str:
    rows = [f"            {parameter.name}={parameter.name},\n" for parameter in of_a_dag()]
    return "        ResolveParameters.__init__(\n            self,\n" + "".join(rows) + "        )\n"


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


# ── operators/task_group.py ─────────────────────────────────────────────────────────────────────────────────────


def task_group(source: str) -> str:
    """``sink`` and ``output_name`` are parameters of the task group's own."""
    rows = [f"    {p.name}: {TYPES[p.name]}\n" for p in of_a_dag() if p.name not in ("sink", "output_name")]
    begin = "    kafka_config_id: "
    return between(source, begin, "\n\nclass TaskParameters", "".join(rows))


# ── docs/parameters.md ────────────────────────────────────────────────────────────────────────────────────────────────


def page(source: str) -> str:
    first, others = of_a_dag()[: len(MOST_DAGS)], of_a_dag()[len(MOST_DAGS) :]
    headings = dict.fromkeys(row_of(parameter).heading for parameter in others)
    text = _table(first)
    for heading in headings:
        of_heading = [parameter for parameter in others if row_of(parameter).heading == heading]
        text += f"\n## {heading[0].upper()}{heading[1:]}\n\n{_table(of_heading)}"
    source = _between_marks(source, "parameters", text)
    source = _between_marks(source, "situations", _situations())
    in_conf = [parameter for parameter in fields(RequestParameters) if CONF in row_of(parameter).places]
    orders = [parameter for parameter in in_conf if row_of(parameter).heading == ORDERS]
    also = ", ".join(f"`{parameter.name}`" for parameter in in_conf if parameter not in orders)
    return _between_marks(source, "conf", f"It takes {also}, and these:\n\n{_table(orders)}")


def _table(rows: Iterable[Field[Any]]) -> str:
    lines = [f"| `{parameter.name}` | {_cell(meaning(parameter))} |\n" for parameter in rows]
    return "| parameter | is |\n|---|---|\n" + "".join(lines)


def _situations() -> str:
    lines = [
        f"| `{name}` | {row.what} | `{answers_of(name)[0]}` | "
        f"{'<br>'.join(f'`{answer}`: {does}' for answer, does in row.answers.items())} | {row.recorded} |\n"
        for name, row in SITUATIONS.items()
    ]
    return (
        "| situation | what has happened | default | other answers | what the log holds of it |\n"
        + "|---|---|---|---|---|\n"
        + "".join(lines)
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _between_marks(source: str, name: str, text: str) -> str:
    begin, end = f"<!-- made of the table: {name} -->\n", f"<!-- end: {name} -->\n"
    return between(source, begin, end, f"{begin}\n{text}\n")


def between(source: str, begin: str, end: str, text: str) -> str:
    """``source`` with ``text`` in the place of what begins with ``begin``, up to ``end``."""
    found = re.subn(f"{re.escape(begin)}.*?(?={re.escape(end)})", lambda _: text, source, count=1, flags=re.DOTALL)
    assert found[1] == 1, f"nothing between {begin!r} and {end!r}"
    return found[0]


MADE: dict[Path, Callable[[str], str]] = {RESOLVE: resolve, TASK_GROUP: task_group, PAGE: page}


def main() -> int:
    for file, made in MADE.items():
        file.write_text(made(file.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
