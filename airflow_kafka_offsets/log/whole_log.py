"""Reads all that the log has of a pipeline, many batches at once: for an audit, which needs each entry and each report.

There is no index that could be wrong. A batch takes a listing and a request for each of its objects, one after the
other. So what counts is how many batches are read at the same time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeVar

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.log.audit import AuditedBatch, BatchRecord, OrdinaryBatch, audit_batches, audit_windows
from airflow_kafka_offsets.log.ordinary_batch import ordinary_batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, entries_since_clean, read_what_is_left
from airflow_kafka_offsets.log.read_reports import attempts_of, set_aside_before
from airflow_kafka_offsets.progress_log import Progress
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.store import Store, ahead

T = TypeVar("T")
AT_ONCE = 256


def audit_pipeline(
    work_store: str, pipeline_id: str, from_ms: int | None = None, to_ms: int | None = None
) -> list[AuditedBatch]:
    """Each batch of a pipeline's log against the one before it and against its reads, the oldest first; then windows.

    Nothing is written, and no cluster is asked. What the output itself holds is not looked at.

    :param work_store: the URI of the work store, without a connection of Airflow.
    :param pipeline_id: the pipeline; ``kafka-offsets pipelines`` lists them.
    :param from_ms: only batches that were committed at or after this time, in epoch milliseconds.
    :param to_ms: only batches that were committed before this time.
    :raises StoreUnavailable: the work store cannot be read.
    :raises StoreDamaged: an object is torn, altered or missing; it is named.
    """
    audited, damaged = audit_log(PipelineLog(open_store(work_store), pipeline_id), from_ms, to_ms)
    if damaged:
        raise damaged[0]
    return audited


def audit_log(
    pipeline: PipelineLog, from_ms: int | None = None, to_ms: int | None = None
) -> tuple[list[AuditedBatch], list[StoreDamaged]]:
    """The audit, and what could not be read. A batch that is damaged is as one that is not in the log."""
    damaged: list[StoreDamaged] = []
    batches = list(audit_batches(_undamaged(_batches(pipeline, from_ms, to_ms, _read), damaged)))
    batches += audit_windows(_undamaged(_windows(pipeline, _read_whole), damaged))
    return [batch for batch in batches if is_within(batch.at_ms, from_ms, to_ms)], damaged


def is_within(at_ms: int, from_ms: int | None, to_ms: int | None) -> bool:
    return (from_ms or 0) <= at_ms and (to_ms is None or at_ms < to_ms)


def whole_records(pipeline: PipelineLog, from_ms: int | None, to_ms: int | None) -> Iterator[BatchRecord]:
    """The batches that may have been committed in that time, and all windows; with where bad records were set aside.

    :raises StoreDamaged: one cannot be read.
    """
    damaged: list[StoreDamaged] = []
    found = chain(_batches(pipeline, from_ms, to_ms, _read_with_places), _windows(pipeline, _read_with_places))
    yield from _undamaged(found, damaged)
    if damaged:
        raise damaged[0]


def _batches(
    pipeline: PipelineLog, from_ms: int | None, to_ms: int | None, read: Callable[[_Fetched], T]
) -> Iterator[T | StoreDamaged]:
    return _records(pipeline, _between(pipeline, pipeline.all_folders(), from_ms, to_ms), read)


def _windows(pipeline: PipelineLog, read: Callable[[_Fetched], T]) -> Iterator[T | StoreDamaged]:
    return _records(pipeline, (f"{pipeline.root}/windows/{name}" for name in pipeline.windows()), read)


def _between(pipeline: PipelineLog, folders: list[str], from_ms: int | None, to_ms: int | None) -> list[str]:
    """The batches that may have been committed in that time, with the one before them, which the first is held against.

    Only one batch is unfinished at a time: each is committed before the next one is planned. So of those that were
    planned before ``from_ms``, only the last one may have been committed after it.
    """

    def planned_ms(folder: str) -> int:
        found = read_what_is_left(pipeline.store, folder)
        return 0 if found is None else found.log.plan.resolved_at_ms

    try:
        first = 0 if from_ms is None else max(0, bisect_left(folders, from_ms, key=planned_ms) - 2)
        end = len(folders) if to_ms is None else bisect_left(folders, to_ms, first, key=planned_ms) + 1
    except StoreDamaged:  # named where it is read
        return folders
    return folders[first:end]


def _undamaged(found: Iterable[T | StoreDamaged | None], damaged: list[StoreDamaged]) -> Iterator[T]:
    for record in found:
        if isinstance(record, StoreDamaged):
            damaged.append(record)
        elif record is not None:
            yield record


class _Fetched:
    """A folder's objects, fetched: a store of these alone.

    Threads fetch and wait; what the objects say is read in one of them, since threads of Python compute one at a time.
    """

    is_remote = False

    def __init__(self, store: Store, folder: str, begun: bool) -> None:
        """:param begun: whether what attempts wrote down before they wrote rows is needed, too."""
        self.uri, self.driver_uri, self.folder = store.uri, store.driver_uri, folder
        self.names = store.list(folder)
        needed = (f"{folder}/{name}" for name in self.names if begun or not name.endswith(".begun.json"))
        self._objects = {name: store.get(name) for name in needed}

    def get(self, name: str) -> bytes | None:
        return self._objects.get(name)

    def list(self, folder: str) -> list[str]:
        return self.names

    def create(self, name: str, data: bytes) -> bool:
        raise NotImplementedError("an audit writes nothing")

    def delete(self, name: str) -> None:
        raise NotImplementedError("an audit removes nothing")


def _records(
    pipeline: PipelineLog, folders: Iterable[str], read: Callable[[_Fetched], T]
) -> Iterator[T | StoreDamaged]:
    """What is in each folder, as ``read`` understands it."""
    progress = Progress("read the log", unit="batches")
    questions = (partial(_Fetched, pipeline.store, folder, read is _read_with_places) for folder in folders)
    for fetched in ahead(questions, AT_ONCE) if pipeline.store.is_remote else (ask() for ask in questions):
        progress.add()
        try:
            found: T | StoreDamaged = read(fetched)
        except StoreDamaged as error:
            found = error
        yield found


def _read(found: _Fetched) -> OrdinaryBatch | BatchRecord | None:
    return ordinary_batch(found, found.folder, found.names, partial(_read_whole, found)) or _read_whole(found)


def _read_whole(found: _Fetched) -> BatchRecord | None:
    """``None``: the batch was cleaned away."""
    entries = tuple(entry for _, entry in entries_since_clean(found, found.folder, found.names))
    if not entries:
        return None
    splits = sorted(BatchRecord(entries, {}).log.plan.splits_with_rows())
    return BatchRecord(entries, {split: attempts_of(found, found.folder, found.names, split) for split in splits})


def _read_with_places(found: _Fetched) -> BatchRecord | None:
    record = _read_whole(found)
    if record is None:
        return None
    last = {split: attempts[0].number for split, attempts in record.attempts.items() if attempts}
    places = [set_aside_before(found, found.folder, split, number + 1) for split, number in last.items()]
    return replace(record, set_aside=tuple(chain.from_iterable(places)))
