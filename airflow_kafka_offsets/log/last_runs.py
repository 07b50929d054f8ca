"""The last runs of a pipeline, and what the log knows of each: also of those that failed, or found nothing to do.

A run that failed before it took a batch has left nothing here: only Airflow knows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from urllib.parse import unquote

from airflow_kafka_offsets.kafka_values import RunKey, grouped
from airflow_kafka_offsets.log.entries import Committed, Entry, Planned, Taken
from airflow_kafka_offsets.log.pipeline_log import BatchOfRun, PipelineLog, StoredBatch
from airflow_kafka_offsets.plan.window_claims import name_of
from airflow_kafka_offsets.request.times import parse_timestamp_ms
from airflow_kafka_offsets.stores.store import together

_WORDS = {Planned: "planned it", Taken: "took it", Committed: "committed it"}
_TIME_IN_ID = re.compile(r"__(\d{4}-\d\d-\d\dT[^_]+)")


@dataclass(frozen=True, slots=True)
class RunInLog:
    """What the log knows of one run of the resolve task.

    :ivar batch: the batch or window in words; ``None`` where it has none. ``key``: its key.
    :ivar what: what it did, in words.
    :ivar at_ms: when it last wrote to the batch's log; ``None`` where it did not.
    """

    run: RunKey
    batch: str | None
    key: str | None
    what: str
    at_ms: int | None = None

    @property
    def order(self) -> tuple[int, str]:
        """By its last entry, else by the time in its id."""
        return (self.at_ms or time_of_id(self.run.run_id) or 0, self.run.run_id)


def time_of_id(run_id: str) -> int | None:
    """The time in the id of a run, as Airflow makes them: ``scheduled__2026-11-20T10:00:00+00:00``."""
    found = _TIME_IN_ID.search(run_id)
    try:
        return parse_timestamp_ms(found[1]) if found else None
    except ValueError:
        return None


def last_runs(pipeline: PipelineLog, count: int) -> list[RunInLog]:
    """The last ``count`` runs that the log knows, the newest first."""
    found: dict[RunKey, RunInLog] = {}
    batches: dict[str, StoredBatch | None] = {batch.name: batch for batch in islice(pipeline.newest_first(), count)}
    taken = dict(_taken(pipeline, count))
    left = sorted({one.folder for one in taken.values() if one.folder} - batches.keys())
    batches |= zip(left, together(pipeline.store, *(partial(pipeline.read, name) for name in left)), strict=True)
    for batch in filter(None, batches.values()):
        for run, wrote in _writers(batch).items():
            found[run] = _with_batch(run, batch, wrote)
    for run, one in taken.items():
        if run in found:
            continue
        known = batches.get(one.folder) if one.folder else None
        if known is not None:
            found[run] = _with_batch(run, known, [])
        else:
            what = "its batch was cleaned away" if one.folder else "had nothing to do"
            found[run] = RunInLog(run, None, one.key, what)
    return sorted(found.values(), key=lambda one: one.order, reverse=True)[:count]


def _taken(pipeline: PipelineLog, count: int) -> Iterator[tuple[RunKey, BatchOfRun]]:
    """The last runs of each DAG by the times in their ids, and the last of those whose ids have none."""
    store, root = pipeline.store, f"{pipeline.root}/runs"
    folders = []
    for dag in store.list(root):
        runs = sorted(store.list(f"{root}/{dag[:-1]}"), key=lambda name: (time_of_id(unquote(name)) or 0, name))
        dated = [name for name in runs if time_of_id(unquote(name)) is not None]
        others = [name for name in runs if time_of_id(unquote(name)) is None]
        folders += [f"{dag}{name[:-1]}" for name in (*dated[-count:], *others[-count:])]
    tasks = together(store, *(partial(store.list, f"{root}/{folder}") for folder in folders))
    below = [f"{folder}/{task[:-1]}" for folder, names in zip(folders, tasks, strict=True) for task in names]
    maps = together(store, *(partial(store.list, f"{root}/{folder}") for folder in below))
    keys = [_run_of(folder, name) for folder, names in zip(below, maps, strict=True) for name in names]
    read = together(store, *(partial(pipeline.batch_of_run, run) for run in keys))
    yield from ((run, one) for run, one in zip(keys, read, strict=True) if one is not None)


def _run_of(folder: str, name: str) -> RunKey:
    dag, run, task = map(unquote, folder.split("/"))
    index = name.removesuffix(".json")
    return RunKey(dag, run, task, int(index) if re.fullmatch(r"-1|\d{1,9}", index) else -1)


def _writers(batch: StoredBatch) -> dict[RunKey, list[Entry]]:
    """Of each run the entries of the batch's log that it wrote."""
    return grouped((entry.by.run, entry) for _, entry in batch.entries() if entry.by.run is not None)


def _with_batch(run: RunKey, batch: StoredBatch, wrote: list[Entry]) -> RunInLog:
    log, plan = batch.log, batch.log.plan
    done = [word for kind, word in _WORDS.items() if any(isinstance(entry, kind) for entry in wrote)]
    if not any(isinstance(entry, Committed) for entry in wrote):
        by = log.committed.by if log.committed else None
        done.append(f"left it to {by}, who committed it" if by else "did not commit it")
    at_ms = max((e.plan.resolved_at_ms if isinstance(e, Planned) else e.at_ms for e in wrote), default=None)
    return RunInLog(run, name_of(plan), plan.batch.key, ", ".join(done), at_ms)
