"""Removes old batches and windows from the work store, the oldest first.

What must stay: the last two commits of each log and everything after them; which batch a run took (``runs/``), so that
a cleared run whose batch is gone says so; and of a window the last entry of its log, so that no number of that log
comes back to a run that slept. Who cleans first writes ``cleaned`` as the next entry. Of that and whoever does the
batch again one is later, and finds the other; and who looks from then on finds no batch, however far the rest has gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_kafka_offsets.log.pipeline_log import (
    Found,
    PipelineLog,
    StoredBatch,
    is_entry,
    look_into,
    pipeline_ids,
)
from airflow_kafka_offsets.log.read_reports import has_begun
from airflow_kafka_offsets.plan.window_claims import time_claim_of_name
from airflow_kafka_offsets.stores.store import Store

KEPT_COMMITS = 2


@dataclass(frozen=True, slots=True)
class Removal:
    """A batch or a window that is old enough to go.

    :ivar kind: ``"batches"`` or ``"windows"``.
    :ivar batch: ``None``: a clean that was cut off has left no plan.
    :ivar names: its objects, in the order in which they go.
    """

    pipeline: PipelineLog
    kind: str
    folder: str
    batch: StoredBatch | None
    names: tuple[str, ...]


def find_old(store: Store, before_ms: int) -> Iterator[Removal]:
    """The batches and windows of each pipeline that were committed before ``before_ms`` and are not needed any more."""
    for pipeline_id in pipeline_ids(store):
        pipeline = PipelineLog(store, pipeline_id)
        yield from _old_batches(pipeline, before_ms)
        yield from _old_windows(pipeline, before_ms)


def remove(removal: Removal) -> bool:
    """Remove it. ``False``: somebody started to work on it since it was found, so it stays."""
    names = removal.names
    if removal.batch is not None:
        if not removal.batch.close():
            return False
        if not removal.batch.log.plan.asked.window:
            names = (*names, removal.batch.next_object)
    for name in names:
        removal.pipeline.store.delete(name)
    return True


def _old_batches(pipeline: PipelineLog, before_ms: int) -> Iterator[Removal]:
    folder = next(pipeline.folders(), None)
    if folder is None or not _may_go(look_into(pipeline.store, folder).batch, before_ms):
        return  # for most pipelines their oldest batch alone says so
    stays_from = ""
    commits = 0
    for batch in pipeline.newest_first():
        stays_from = batch.folder
        commits += batch.log.committed is not None
        if commits == KEPT_COMMITS:
            break
    for folder in pipeline.folders():
        if folder >= stays_from:  # by order: another clean may have removed that very batch, long after this look
            return
        found = look_into(pipeline.store, folder)
        if not _may_go(found.batch, before_ms):
            return  # younger ones follow
        yield Removal(pipeline, "batches", folder, found.batch, tuple(_names(folder, found)))


def _old_windows(pipeline: PipelineLog, before_ms: int) -> Iterator[Removal]:
    for name in pipeline.windows():
        by_time = time_claim_of_name(name)
        if by_time is not None and by_time.end_ms >= before_ms:
            continue  # its name says enough: no need to read it
        folder = pipeline.folder_of_window(name)
        found = look_into(pipeline.store, folder)
        if _may_go(found.batch, before_ms):
            last = None if found.batch else f"{folder}/{found.next_number - 1}.json"  # by an earlier clean
            names = (name for name in _names(folder, found) if name != last)
            claims = pipeline.claims_before(name, found.next_number)
            yield Removal(pipeline, "windows", folder, found.batch, (*names, *claims))


def _may_go(batch: StoredBatch | None, before_ms: int) -> bool:
    """Whether it is old. A batch that was passed by is as old as its plan.

    A window that is not committed stays if a Spark job has begun it: half of it may be written.
    """
    if batch is None:
        return True
    later = batch.log.later
    if (later[-1].at_ms if later else batch.log.plan.resolved_at_ms) >= before_ms:
        return False
    return (
        batch.log.committed is not None
        or not batch.log.plan.asked.window
        or not has_begun(batch.store, batch.plan_object)
    )


def _names(folder: str, found: Found) -> list[str]:
    """The names in its folder: first the reads, then the entries, of which the last says that it was cleaned."""
    names = sorted(found.names, key=lambda name: int(name.removesuffix(".json")) if is_entry(name) else 0)
    return [f"{folder}/{name}" for name in names]
