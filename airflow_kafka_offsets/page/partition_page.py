"""The partitions of one batch: found, sorted and counted here, so that a browser gets a page of 10,000."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_kafka_offsets.cli.batch_tables import entries_of, range_row, splits_of
from airflow_kafka_offsets.cli.option_values import find_batch
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.kafka_values import PartitionSnapshot, TopicPartition
from airflow_kafka_offsets.log.batch_lines import line_of
from airflow_kafka_offsets.page.batch_rows import state_of
from airflow_kafka_offsets.page.dag_pipelines import PagePipeline, found_in
from airflow_kafka_offsets.page.kafka_look import LOOKS, KafkaLooks
from airflow_kafka_offsets.page.pipeline_page import kafka_answer
from airflow_kafka_offsets.page.views import Bar, Page, PartitionOrder, PartitionsAsked, PartitionsView
from airflow_kafka_offsets.plan.plan import PlannedPartition
from airflow_kafka_offsets.plan.window_claims import name_of

_Left = Mapping[TopicPartition, int | None]
_SORTED_BY: Mapping[PartitionOrder, Callable[[PlannedPartition, _Left], int]] = {
    "most left first": lambda p, left: -1 if (count := left.get(p.topic_partition)) is None else count,
    "most records first": lambda p, _: p.size,
    "most lost first": lambda p, _: p.lost + p.skipped,
    "by name": lambda p, _: 0,
}
"""What comes first has most; of the same, they are in the order of their names."""


def partitions_view(
    pipeline: PagePipeline, name: str, asked: PartitionsAsked, looks: KafkaLooks = LOOKS
) -> PartitionsView:
    """The partitions of one batch or window.

    :param name: as ``BatchRow.name`` has it.
    :raises NoPosition: there is no such batch.
    :raises StoreUnavailable: the store does not answer; StoreDamaged: the batch cannot be read.
    """
    now, not_asked = now_ms(), list[str]()
    found = found_in(pipeline)
    if found.batch is not None and pipeline.open_cluster is not None:  # it answers while the batch is read
        looks.begin(pipeline.log, found.batch, pipeline.open_cluster)
    batch = find_batch(pipeline.log, name)
    answer = kafka_answer(pipeline, found, looks, not_asked)
    newest = batch if found.batch and batch.folder == found.batch.folder else pipeline.log.newest()
    position = newest.log.position if newest else None
    at = {tp: saved.offset for tp, saved in position.offsets.items()} if position else {}
    logs = answer.logs if answer else {}
    lags = {tp: lag.lag for tp, lag in answer.measured.partitions.items()} if answer and answer.measured else {}
    plan, line = batch.log.plan, line_of(batch)
    find, count = asked.find.strip().lower(), _SORTED_BY[asked.order]
    matching = [p for p in plan.partitions if _matches(p.topic_partition, find)]
    matching.sort(key=lambda p: -count(p, lags))
    shown = Page.of(matching, asked.page, max(1, min(asked.size, 500)), len(plan.partitions))
    rows = tuple(_row(p, logs.get(p.topic_partition), at.get(p.topic_partition), lags) for p in shown.rows)
    return PartitionsView(
        name=name,
        key=plan.batch.key,
        title=name_of(plan),
        state=state_of(line)[0],
        partitions=Page(rows, shown.number, shown.pages, shown.matching, shown.total),
        splits=tuple(_split_line(row) for row in splits_of(batch).rows),
        history=tuple(f"{row['at']}: {row['what']}" for row in entries_of(batch).rows),
        looked_at_ms=answer.looked_at_ms if answer else now,
        not_asked=tuple(not_asked),
    )


def _matches(tp: TopicPartition, find: str) -> bool:
    return find in str(tp).lower() or find == f"{tp.topic}-{tp.partition}".lower()


def _row(p: PlannedPartition, log: PartitionSnapshot | None, position: int | None, left: _Left) -> dict[str, object]:
    now = {"log_start": log.log_start_offset if log else None, "log_end": log.end_offset if log else None}
    more = {"position": position, "left": left.get(p.topic_partition), "bar": _bar(p, log, position)}
    return {**range_row(p), **now, **more}


def _bar(p: PlannedPartition, log: PartitionSnapshot | None, position: int | None) -> Bar | None:
    if log is None or log.end_offset <= log.log_start_offset:
        return None
    size = log.end_offset - log.log_start_offset

    def place(offset: int) -> float:
        return min(1.0, max(0.0, (offset - log.log_start_offset) / size))

    return Bar(place(p.start_offset), place(p.end_offset), place(p.end_offset if position is None else position))


def _split_line(row: Mapping[str, object]) -> str:
    attempt = f", attempt {row['attempt']}" if row["attempt"] else ""
    how = row["problem"] or f"{row['rows']} rows, {row['proof']}"
    return f"split {row['split']}{attempt}: {how}"
