"""Reads all that the log has of a pipeline, many batches at once: for an audit, which needs each entry and each report.

There is no index that could be wrong. A hundred batches take one listing where the store lists below folders. An
ordinary one takes one request, for its commit; another one takes a request for each of its objects.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, groupby

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.kafka_values import grouped
from airflow_kafka_offsets.log.audit import AuditedBatch, BatchRecord, OrdinaryBatch, audit_batches, audit_windows
from airflow_kafka_offsets.log.ordinary_batch import commit_in, ordinary_batches
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, entries_since_clean, read_what_is_left
from airflow_kafka_offsets.log.read_reports import attempts_of, set_aside_before, sole_attempts
from airflow_kafka_offsets.progress_log import Progress
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.store import MANY, MOST_AT_ONCE, Store, ahead, get_all, list_below

Found = BatchRecord | OrdinaryBatch | StoreDamaged | None
Read = Callable[["_Fetched", str], BatchRecord | None]


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
    batches = list(audit_batches(_undamaged(_batches(pipeline, from_ms, to_ms, _read_whole), damaged)))
    batches += audit_windows(_whole(_undamaged(_windows(pipeline, _read_whole), damaged)))
    return [batch for batch in batches if is_within(batch.at_ms, from_ms, to_ms)], damaged


def is_within(at_ms: int, from_ms: int | None, to_ms: int | None) -> bool:
    return (from_ms or 0) <= at_ms and (to_ms is None or at_ms < to_ms)


def whole_records(pipeline: PipelineLog, from_ms: int | None, to_ms: int | None) -> Iterator[BatchRecord]:
    """The batches that may have been committed in that time, and all windows; with where bad records were set aside.

    :raises StoreDamaged: one cannot be read.
    """
    damaged: list[StoreDamaged] = []
    found = chain(_batches(pipeline, from_ms, to_ms, _read_with_places), _windows(pipeline, _read_with_places))
    yield from _whole(_undamaged(found, damaged))
    if damaged:
        raise damaged[0]


def _batches(pipeline: PipelineLog, from_ms: int | None, to_ms: int | None, read: Read) -> Iterator[Found]:
    if from_ms is None and to_ms is None:
        return _records(pipeline, dict.fromkeys(pipeline.hundreds()), read)
    hundreds = groupby(_between(pipeline, pipeline.all_folders(), from_ms, to_ms), lambda name: name.rpartition("/")[0])
    return _records(pipeline, {above: frozenset(folders) for above, folders in hundreds}, read)


def _windows(pipeline: PipelineLog, read: Read) -> Iterator[Found]:
    return _records(pipeline, dict.fromkeys(map(pipeline.folder_of_window, pipeline.windows())), read, MOST_AT_ONCE)


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


def _undamaged(found: Iterable[Found], damaged: list[StoreDamaged]) -> Iterator[BatchRecord | OrdinaryBatch]:
    for record in found:
        if isinstance(record, StoreDamaged):
            damaged.append(record)
        elif record is not None:
            yield record


def _whole(found: Iterable[BatchRecord | OrdinaryBatch]) -> Iterator[BatchRecord]:
    return (record for record in found if isinstance(record, BatchRecord))


class _Fetched:
    """What lies below a folder: a store of the objects that were fetched.

    Threads fetch and wait; what the objects say is read in one of them, since threads of Python compute one at a time.
    """

    is_remote = False

    def __init__(self, store: Store, above: str) -> None:
        self.uri, self.driver_uri, self._store = store.uri, store.driver_uri, store
        paths = (found.rpartition("/") for found in list_below(store, above))
        self.names = grouped((folder, name) for folder, _, name in paths)
        self._objects: dict[str, bytes | None] = {}

    def fetch(self, names: Iterable[str]) -> None:
        wanted = [name for name in names if name not in self._objects]
        self._objects.update(zip(wanted, get_all(self._store, wanted), strict=True))

    def get(self, name: str) -> bytes | None:
        return self._objects.get(name)

    def list(self, folder: str) -> list[str]:
        return self.names.get(folder, [])

    def create(self, name: str, data: bytes) -> bool:
        raise NotImplementedError("an audit writes nothing")

    def delete(self, name: str) -> None:
        raise NotImplementedError("an audit removes nothing")


def _records(
    pipeline: PipelineLog, above: Mapping[str, Collection[str] | None], read: Read, at_once: int = MOST_AT_ONCE // MANY
) -> Iterator[Found]:
    """What is in each batch's folder, as ``read`` understands it, or that it is an ordinary one.

    :param above: the folders that the batches lie in, and which of them; ``None``: all.
    """
    progress = Progress("read the log", unit="batches")
    questions = (partial(_fetch, pipeline, name, only, read is _read_with_places) for name, only in above.items())
    for fetched, ordinary in ahead(pipeline.store, questions, at_once):
        for folder, known in ordinary.items():
            progress.add()
            try:
                found: Found = known or read(fetched, folder)
            except StoreDamaged as error:
                found = error
            yield found


def _fetch(
    pipeline: PipelineLog, above: str, only: Collection[str] | None, begun: bool
) -> tuple[_Fetched, dict[str, OrdinaryBatch | None]]:
    """The batches below a folder, which of them are ordinary, and the objects of the others.

    :param begun: whether all are read whole, with what attempts wrote down before they wrote rows.
    """
    found = _Fetched(pipeline.store, above)
    names = {name: found.names[name] for name in sorted(found.names) if pipeline.is_batch(name)}
    names = {name: names[name] for name in names if only is None or name in only}
    ordinary: dict[str, OrdinaryBatch] = {}
    if len(names) > 1 and not begun:
        found.fetch(commit_in(name) for name, held in names.items() if sole_attempts(held) is not None)
        ordinary = ordinary_batches(found, names)
    others = ((folder, name) for folder in names.keys() - ordinary.keys() for name in names[folder])
    found.fetch(f"{folder}/{name}" for folder, name in others if begun or not name.endswith(".begun.json"))
    return found, {folder: ordinary.get(folder) for folder in names}


def _read_whole(found: _Fetched, folder: str) -> BatchRecord | None:
    """``None``: the batch was cleaned away."""
    names = found.names[folder]
    entries = tuple(entry for _, entry in entries_since_clean(found, folder, names))
    if not entries:
        return None
    splits = sorted(BatchRecord(entries, {}).log.plan.splits_with_rows())
    return BatchRecord(entries, {split: attempts_of(found, folder, names, split) for split in splits})


def _read_with_places(found: _Fetched, folder: str) -> BatchRecord | None:
    record = _read_whole(found, folder)
    if record is None:
        return None
    last = {split: attempts[0].number for split, attempts in record.attempts.items() if attempts}
    places = [set_aside_before(found, folder, split, number + 1) for split, number in last.items()]
    return replace(record, set_aside=tuple(chain.from_iterable(places)))
