"""Batches as a list shows them, each by a listing and its last entry or two: no plan is read where a commit sums it up.

So a page of a list takes as long at 10,000 partitions as at three, and at the ten thousandth batch as at the tenth.
What a line does not say is what the reports say of each partition: a commit has verified that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.kafka_values import Actor
from airflow_kafka_offsets.log.entries import (
    LAST_OF_COMMIT,
    Cleaned,
    Committed,
    SincePlan,
    StoredEntry,
    Summary,
    Taken,
    short_entry_from_dict,
)
from airflow_kafka_offsets.log.pipeline_log import StoredBatch, entry_numbers, look_into
from airflow_kafka_offsets.log.read_reports import deciding_attempts, last_attempts
from airflow_kafka_offsets.log.verify_reads import problems_of_splits
from airflow_kafka_offsets.plan.window_claims import words_of_name
from airflow_kafka_offsets.stores.objects import read_object
from airflow_kafka_offsets.stores.store import Store, ahead

_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class BatchLine(SincePlan):
    """One batch.

    :ivar later: who took it since its plan; or the commit, without the position, and who took it since then.
    :ivar attempts: of each split the last attempt that began, and the last that has reported.
    :ivar whole: how many of its splits are written and verified, or have a report since it is done again.
    """

    folder: str
    summary: Summary
    later: tuple[Taken | Committed, ...]
    attempts: Mapping[int, tuple[int, int]]
    whole: int

    @property
    def redone(self) -> Taken | None:
        """Who does the committed batch again, or did so last; who took it only to leave it, did not."""
        return next((one for one in reversed(self.taken) if one.attempts), None) if self.committed else None

    @property
    def is_being_done_again(self) -> bool:
        """Not of jobs that make no report: nobody knows."""
        return self.redone is not None and bool(self.attempts) and self.whole < self.summary.splits

    @property
    def title(self) -> str:
        """``Batch 7``, or ``Window 2026-11-20T10:00Z to 2026-11-20T11:00Z``."""
        if self.summary.number is not None:
            return f"Batch {self.summary.number}"
        return f"Window {words_of_name(self.name)}"

    @property
    def name(self) -> str:
        """Its number as it is written there, or the window's name."""
        return self.folder.rpartition("/")[2]

    @property
    def began(self) -> tuple[Actor, int]:
        return self.summary.by[0], self.summary.planned_ms


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """A batch that cannot be read."""

    folder: str
    error: StoreDamaged


Line = BatchLine | DamagedLine


def read_lines(store: Store, folders: Iterable[str], commits: Collection[str] = ()) -> list[Line]:
    """The batches that are there, in the order of ``folders``.

    :param commits: batches of the log of which what their commit says is enough, without what came later: half as
        many requests.
    """
    questions = (partial(_read_or_damaged, store, folder, folder in commits) for folder in folders)
    return [line for line in ahead(store, questions, _AT_ONCE) if line is not None]


def line_of(batch: StoredBatch) -> BatchLine:
    """The line of a batch whose plan is known. What is not committed is verified as a commit would do it."""
    log, names, committed = batch.log, batch.store.list(batch.folder), batch.log.committed
    attempts = last_attempts(names)
    if committed is not None:
        later = log.later[log.later.index(committed) :]
        return _committed_line(batch.folder, committed.summary or log.summary, later, attempts)
    problems = problems_of_splits(log.plan, deciding_attempts(batch))
    verified = sum(not lines for lines in problems.values())
    return BatchLine(batch.folder, log.summary, log.later, attempts, verified)


def _read_or_damaged(store: Store, folder: str, by_commit: bool) -> Line | None:
    try:
        return (_read_commit if by_commit else read_line)(store, folder)
    except StoreDamaged as error:
        return DamagedLine(folder, error)


def _read_commit(store: Store, folder: str) -> BatchLine | None:
    """By the second entry, which is the commit of a batch that was neither taken nor planned anew."""
    entry = read_object(store, f"{folder}/2.json", short_entry_from_dict, LAST_OF_COMMIT)
    if isinstance(entry, Committed) and entry.summary is not None:
        return _committed_line(folder, entry.summary, (entry,), {})
    return read_line(store, folder)


def read_line(store: Store, folder: str) -> BatchLine | None:
    """One batch; ``None`` where it is not there.

    :raises StoreDamaged: it cannot be read.
    """
    names = store.list(folder)
    last = _last_entries(store, folder, names)
    if last and isinstance(last[0], Cleaned):
        return None
    committed = last[0] if last else None
    if isinstance(committed, Committed) and committed.summary is not None:
        later = tuple(one for one in last if isinstance(one, Taken | Committed))
        return _committed_line(folder, committed.summary, later, last_attempts(names))
    batch = look_into(store, folder).batch
    return None if batch is None else line_of(batch)


def _last_entries(store: Store, folder: str, names: Sequence[str]) -> list[StoredEntry]:
    """The entries from the last commit on, or the clean; none where a plan comes first, going back."""
    found: list[StoredEntry] = []
    for number in reversed(entry_numbers(names)):
        entry = read_object(store, f"{folder}/{number}.json", short_entry_from_dict, LAST_OF_COMMIT)
        if entry is None:
            return []
        found.insert(0, entry)
        if not isinstance(entry, Taken):
            return found
    return []


def _committed_line(
    folder: str, summary: Summary, later: tuple[Taken | Committed, ...], attempts: Mapping[int, tuple[int, int]]
) -> BatchLine:
    line = BatchLine(folder, summary, later, attempts, 0)
    again = line.redone.attempts if line.redone else {}
    whole = sum(reported > again.get(split, 0) for split, (_, reported) in attempts.items())
    return replace(line, whole=min(whole, summary.splits))
