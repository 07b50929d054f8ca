"""A plan as a table for people, JSON for programs, CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
import json

from airflow_kafka_offsets.offsets.manifest import plan_to_dict
from airflow_kafka_offsets.offsets.offset_maps import to_csv, to_flink
from airflow_kafka_offsets.offsets.plan import OffsetPlan

_COLUMNS = ("topic", "partition", "log start", "committed", "start", "end", "records", "lost", "skipped")
_REASONS = ("start reason", "end reason")


def render_plan(plan: OffsetPlan, output: str) -> str:
    """One of the forms of ``--output``, ``json`` being exactly the plan's; without a final newline."""
    if output == "json":
        return json.dumps(plan_to_dict(plan))
    if output in ("offsets-csv", "offsets-flink"):
        starts = {p.topic_partition: p.start_offset for p in plan.partitions}
        return to_csv(starts) if output == "offsets-csv" else to_flink(starts)
    rows: list[tuple[object, ...]] = [
        (
            p.topic_partition.topic,
            p.topic_partition.partition,
            p.log_start_offset,
            "" if p.base_offset is None else p.base_offset,
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
    if output == "csv":
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([(*_COLUMNS, *_REASONS), *rows])
        return buffer.getvalue().rstrip("\n")
    return "\n".join([*_table(rows), "", _summary(plan)])


def _table(rows: list[tuple[object, ...]]) -> list[str]:
    cells = [[*_COLUMNS, *_REASONS], *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    left = {0, *range(len(_COLUMNS), len(_COLUMNS) + len(_REASONS))}
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _summary(plan: OffsetPlan) -> str:
    group = f"group {plan.group_id}" if plan.group_id else "no group"
    kind = "window" if plan.window else f"from {plan.startup_mode}"
    return (
        f"plan {plan.plan_id}: up to {plan.record_count_upper_bound} records of {len(plan.partitions)} partitions, "
        f"{kind} to {plan.bounded_mode}, {plan.isolation_level}, {group}, cluster {plan.cluster_id}"
    )
