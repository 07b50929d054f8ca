"""Views of the page with every field filled, for what is made of them."""

from __future__ import annotations

from dataclasses import replace

from airflow_kafka_offsets.cli.batch_tables import range_row
from airflow_kafka_offsets.cli.printing import Answer, Table, columns
from airflow_kafka_offsets.errors import ResetRefused
from airflow_kafka_offsets.kafka_values import OffsetRange, RunKey, TopicPartition
from airflow_kafka_offsets.page.views import (
    Bar,
    BatchRow,
    Figure,
    Page,
    PartitionsView,
    Phrase,
    PipelineView,
    RunLink,
    WindowCell,
    WindowsView,
)
from airflow_kafka_offsets.plan.plan import PlannedPartition

NOON = 1_795_608_000_000  # 2026-11-25T12:00:00Z
HOUR = 3_600_000
FIGURES = ("unread", "oldest", "retention", "next_run", "lost", "set_aside")


def batch_row(text: str = "words", count: int | None = 5_270) -> BatchRow:
    """:param text: stands in the place of each text; :param count: of each number."""
    return BatchRow(
        name=text,
        key=text,
        title=text,
        state=text,
        tone="good",
        planned_ms=NOON,
        runs=(RunLink(text, RunKey(text, text, text)), RunLink(text, None)),
        records=count,
        set_aside=count,
        lost=count,
        left=count,
        splits=text,
        took_ms=count,
        took=text,
        why=text,
    )


def pipeline(text: str = "words", count: int | None = 5_270) -> PipelineView:
    return PipelineView(
        pipeline_id=text,
        dag_id="alpha",
        task_id=text,
        about=(("group", text), ("log", text)),
        sentence=(Phrase(text, "good"), Phrase(text)),
        figures=tuple(Figure(name, text, text, count) for name in FIGURES),
        chart=tuple(replace(batch_row(text, n), left=None if n == 3 else n) for n in range(8)),
        batches=Page((batch_row(text, count),), 2, 3, 41, 212),
        newest=text,
        has_windows=True,
        looked_at_ms=NOON,
        is_waiting=True,
        not_asked=(text,),
        command=text,
        can=("reset", "skip", "redo", "take over"),
    )


def partitions(text: str = "words", count: int | None = 5_270) -> PartitionsView:
    planned = PlannedPartition(TopicPartition(text, 3), OffsetRange(count or 0, count or 0), text, text, 0, 0)
    row = {**range_row(planned), "bar": Bar(0.25, 0.5, 0.75), "log_start": count, "log_end": count}
    row |= {"position": count, "left": count, "records": count or 0, "lost": 1, "skipped": 2}
    return PartitionsView(text, text, text, text, Page((row,), 2, 3, 41, 212), (text,), (text,), NOON, (text,))


def windows(text: str = "words") -> WindowsView:
    cells = (
        WindowCell(NOON, NOON + HOUR, text, "good", batch_row(text), text),
        WindowCell(NOON + HOUR, NOON + 2 * HOUR, text, "bad", None, text),
    )
    return WindowsView("2026-11", ("2026-10", "2026-11"), cells, (batch_row(text),), NOON, (text,))


def answer(text: str = "words") -> Answer:
    table = Table(columns("topic", "offset"), [{"topic": text, "offset": 4711}], name=text)
    refused = ResetRefused([text], text)
    return Answer([table], summary=text, head=text, text=text, messages=(text,), dry_run="resets", errors=(refused,))
