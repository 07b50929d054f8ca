"""What is old goes from the work store, from the oldest on.

What must stay: the last two commits of each log and everything after them; which batch a run took (``runs/``), so that
a cleared run whose batch is gone is told so. A batch's objects are removed from the newest on, so what is left of one
that was cut off half-way is still a log that can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_kafka_offsets.offsets.window.claims import time_claim_of_name
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog, StoredBatch, checkpoint_ids, is_entry, read_batch
from airflow_kafka_offsets.stores.reads import has_begun
from airflow_kafka_offsets.stores.store import Store

KEPT_COMMITS = 2


@dataclass(frozen=True, slots=True)
class Removal:
    """A batch or a window that is old enough to go."""

    pipeline: PipelineLog
    batch: StoredBatch
    names: tuple[str, ...]

    @property
    def kind(self) -> str:
        return "windows" if self.batch.log.plan.window else "batches"


def find_old(store: Store, before_ms: int) -> Iterator[Removal]:
    """What was committed before ``before_ms`` and is not needed any more, pipeline by pipeline."""
    for checkpoint_id in checkpoint_ids(store):
        pipeline = PipelineLog(store, checkpoint_id)
        yield from _old_batches(pipeline, before_ms)
        yield from _old_windows(pipeline, before_ms)


def remove(removal: Removal) -> None:
    store, batch = removal.batch.store, removal.batch
    for name in removal.names[:-1]:
        store.delete(name)
    if batch.log.plan.window:
        name = batch.name.rpartition("/")[2]
        removal.pipeline.unclaim(name)  # while the window is still found, should this be cut off
    for name in removal.names[-1:]:  # none, where another clean was faster
        store.delete(name)


def _old_batches(pipeline: PipelineLog, before_ms: int) -> Iterator[Removal]:
    folder = next(pipeline.oldest_first(), None)
    oldest = read_batch(pipeline.store, folder) if folder is not None else None
    if oldest is None or not _is_old(oldest, before_ms):
        return  # which most pipelines are told by their oldest batch alone
    kept: set[str] = set()
    commits = 0
    for batch in pipeline.newest_first():
        kept.add(batch.folder)
        commits += batch.log.committed is not None
        if commits == KEPT_COMMITS:
            break
    for folder in pipeline.oldest_first():
        found = read_batch(pipeline.store, folder) if folder not in kept else None
        if found is None or not _is_old(found, before_ms):
            return  # younger ones follow
        yield Removal(pipeline, found, _names(found))


def _old_windows(pipeline: PipelineLog, before_ms: int) -> Iterator[Removal]:
    for name in pipeline.windows():
        by_time = time_claim_of_name(name)
        if by_time is not None and by_time.end_ms >= before_ms:
            continue  # its name says enough: no need to read it
        window = pipeline.window(name)
        if window is not None and _is_old(window, before_ms):
            yield Removal(pipeline, window, _names(window))


def _is_old(batch: StoredBatch, before_ms: int) -> bool:
    """By its last entry; a batch that was passed by is as old as its plan.

    A window that is not committed stays if a Spark job has begun it: half of it may be written. One that nobody has
    begun, or of which a clean that was cut off has left just the plan, goes.
    """
    last = batch.log.later[-1].at_ms if batch.log.later else batch.log.plan.resolved_at_ms
    if last >= before_ms:
        return False
    return batch.log.committed is not None or not batch.log.plan.window or not has_begun(batch)


def _names(batch: StoredBatch) -> tuple[str, ...]:
    """Its objects, in the order in which they go: reports first, then the log from its end."""
    store, folder = batch.store, batch.folder
    names = store.list(folder)
    entries = sorted((name for name in names if is_entry(name)), key=lambda name: -int(name.removesuffix(".json")))
    return (*(f"{folder}/{name}" for name in names if not is_entry(name)), *(f"{folder}/{name}" for name in entries))
