"""What a command found, as a table for people, JSON for programs, CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_offsets.offsets.plan.codec import plan_to_dict
from airflow_kafka_offsets.offsets.request.offset_maps import to_csv, to_flink
from airflow_kafka_offsets.offsets.plan.plan import OffsetPlan


@dataclass(frozen=True)
class Table:
    """Rows under columns, and what is true of all of them.

    :ivar columns: in words; JSON has them with underscores.
    :ivar rows: a cell that is ``None`` is absent or unknown: null in JSON, nothing in CSV, a word in a table.
    :ivar facts: what JSON has beside the rows.
    :ivar summary: what a table says below the rows.
    :ivar rows_name: what JSON calls the rows.
    :ivar absent: that word, by column, where it is not ``-``.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    facts: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    rows_name: str = "partitions"
    absent: Mapping[str, str] = field(default_factory=dict)


def render(table: Table, output: str | None) -> str:
    """One of the forms of ``--output``; without a final newline."""
    if output == "json":
        names = [column.replace(" ", "_") for column in table.columns]
        rows = [dict(zip(names, row, strict=True)) for row in table.rows]
        return json.dumps({**table.facts, table.rows_name: rows})
    if output == "csv":
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([table.columns, *table.rows])
        return buffer.getvalue().rstrip("\n")
    lines = _aligned(table) if table.rows else []
    return "\n".join([*lines, *([""] if lines and table.summary else []), *([table.summary] if table.summary else [])])


def _aligned(table: Table) -> list[str]:
    """Numbers to the right, texts to the left."""
    words = [table.absent.get(column, "-") for column in table.columns]
    cells = [
        [*table.columns],
        *([word if cell is None else str(cell) for cell, word in zip(row, words, strict=True)] for row in table.rows),
    ]
    widths = [max(len(row[number]) for row in cells) for number in range(len(table.columns))]
    left = {number for row in table.rows for number, cell in enumerate(row) if isinstance(cell, str)}
    return [
        "  ".join(
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def render_plan(plan: OffsetPlan, output: str) -> str:
    """One of the forms of ``plan --output``, ``json`` being exactly the plan's; without a final newline."""
    if output == "json":
        return json.dumps(plan_to_dict(plan))
    if output in ("offsets-csv", "offsets-flink"):
        starts = {p.topic_partition: p.start_offset for p in plan.partitions}
        return to_csv(starts) if output == "offsets-csv" else to_flink(starts)
    columns = "topic,partition,log start,committed,start,end,records,lost,skipped,start reason,end reason"
    rows = [
        (
            p.topic_partition.topic,
            p.topic_partition.partition,
            p.log_start_offset,
            p.base_offset,
            p.start_offset,
            p.end_offset,
            p.range.size,
            p.lost,
            p.skipped,
            p.start_reason,
            p.end_reason,
        )
        for p in plan.partitions
    ]
    return render(Table(columns.split(","), rows, summary=_summary(plan), absent={"committed": ""}), output)


def _summary(plan: OffsetPlan) -> str:
    group = f"group {plan.group_id}" if plan.group_id else "no group"
    kind = "window" if plan.window else f"from {plan.startup_mode}"
    return (
        f"plan {plan.plan_id}: up to {plan.record_count_upper_bound} records of {len(plan.partitions)} partitions, "
        f"{kind} to {plan.bounded_mode}, {plan.isolation_level}, {group}, cluster {plan.cluster_id}"
    )
