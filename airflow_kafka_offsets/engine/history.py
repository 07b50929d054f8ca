"""What the log says of pipelines and their batches, from headers alone: lists, the page and metrics read it here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import unquote

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, pipelines_of
from airflow_kafka_offsets.progress_log import Progress
from airflow_kafka_offsets.store.protocol import Store, together

T = TypeVar("T")
State = Literal["planned", "begun", "reported", "committed", "reprocessing"]
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """One batch.

    :ivar state: ``begun`` and ``reported``: by the last attempt that counts; ``reprocessing``: committed, and written
        again.
    :ivar at_ms: the time of its last entry.
    :ivar offsets: how many its job has to account for.
    :ivar given_up: offsets that are lost, skipped or read again.
    :ivar rows: ``None`` until it is committed; so are ``bad`` and ``filtered``.
    :ivar owner: the run or the person of its last plan or claim.
    :ivar is_cleaned: whether only headers are left of it.
    """

    number: int
    key: str
    kind: str
    state: State
    at_ms: int
    window: tuple[int, int] | None
    offsets: int
    partitions: int
    given_up: Mapping[str, int]
    rows: int | None
    bad: int | None
    filtered: int | None
    output: str | None
    owner: str
    attempts: int
    is_cleaned: bool


def summary_of(batch: Batch) -> BatchSummary:
    plan, last = batch.plan, batch.commits[-1] if batch.commits else None
    return BatchSummary(
        number=batch.number,
        key=plan.key,
        kind=plan.kind,
        state=state_of(batch),
        at_ms=batch.entries[-1].at_ms,
        window=plan.window,
        offsets=plan.offsets,
        partitions=plan.partitions,
        given_up=plan.given_up,
        rows=last.rows if last else None,
        bad=last.bad if last else None,
        filtered=last.filtered if last else None,
        output=batch.output,
        owner=str(batch.owner),
        attempts=batch.highest_attempt,
        is_cleaned=batch.is_cleaned,
    )


def state_of(batch: Batch) -> State:
    if batch.is_committed:
        return "committed" if batch.is_closed else "reprocessing"
    counts = [attempt for attempt in batch.attempts if attempt.number == batch.highest_attempt > batch.after]
    if not counts:
        return "planned"
    return "reported" if all(attempt.is_reported for attempt in counts) else "begun"


def read_each(log: PipelineLog, numbers: Iterable[int], read: Callable[[Batch], T]) -> Iterator[T]:
    """What ``read`` makes of these batches; many at a time where the store is remote.

    :raises StoreDamaged: one of them is not there, or cannot be read.
    """
    left = list(numbers)
    progress = Progress("read batches", len(left), "batches")
    while left:
        some, left = left[:_AT_ONCE], left[_AT_ONCE:]
        yield from together(log.store, *(partial(lambda number: read(log.existing(number)), number) for number in some))
        progress.add(len(some))


@dataclass(frozen=True, slots=True)
class PipelineSummary:
    """One pipeline.

    :ivar name: as its DAG names it.
    :ivar log: ``None`` where it is damaged or has no batch; so is ``newest``.
    :ivar damage: why it cannot be read.
    """

    name: str
    log: PipelineLog | None = None
    newest: Batch | None = None
    damage: StoreDamaged | None = None


def pipelines(store: Store) -> list[PipelineSummary]:
    """All pipelines of a checkpoint location, sorted by name."""
    look: list[Callable[[], Any]] = [partial(_pipeline, store, folder) for folder in pipelines_of(store)]
    return sorted(together(store, *look), key=lambda pipeline: pipeline.name)


def _pipeline(store: Store, folder: str) -> PipelineSummary:
    log = PipelineLog(store, unquote(folder))
    log.root = folder  # a long name is cut in it
    try:
        newest = log.newest()
    except StoreDamaged as damage:
        return PipelineSummary(log.pipeline_id, damage=damage)
    if newest is None:
        return PipelineSummary(log.pipeline_id)
    log.pipeline_id = newest.plan.pipeline
    return PipelineSummary(log.pipeline_id, log, newest)
