"""A batch's reads in the work store: each split's attempts, and their reports.

``<split>-<n>-<random>.begun.json`` before a split is read, ``….report.json`` at the end, beside the entries of the
batch's log: so one listing shows the current plan and every attempt. An attempt takes the number above the highest that
it finds. That needs no exclusive creation, which Hadoop's file systems do not have everywhere: two that begin at once
have one number, each finds the other when it looks again, and neither goes on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.log.pipeline_log import StoredBatch, entries_since_clean
from airflow_kafka_offsets.log.verify_reads import Attempt, Proof, ReadReport, require_verified, unverified
from airflow_kafka_offsets.progress_log import Progress
from airflow_kafka_offsets.stores.objects import create_object, read_object
from airflow_kafka_offsets.stores.store import Store, together

_NAME = re.compile(r"(0|[1-9][0-9]{0,4})-([0-9]{6,17})-([a-z0-9]+)\.(begun|report)\.json")


def attempt_numbers(names: Iterable[str], split: int) -> list[tuple[int, str]]:
    """Number and random part of every attempt at a split that has begun, ascending.

    :param names: what the batch's folder holds.
    """
    found = (match for name in names if (match := _NAME.fullmatch(name)))
    return sorted({(int(match[2]), match[3]) for match in found if int(match[1]) == split})


class _Planned(Protocol):
    """A batch, as Airflow's side or a Spark driver knows it."""

    @property
    def store(self) -> Store: ...

    @property
    def plan_object(self) -> str: ...


def has_begun(batch: _Planned) -> bool:
    """Whether a Spark job has begun to read any split of any plan of the batch.

    A window that was cleaned away and planned again is another batch: a late job of the one before does not count.
    """
    folder, _, own = batch.plan_object.rpartition("/")
    names = batch.store.list(folder)
    begun = [name for name in names if _NAME.fullmatch(name)]  # a clean may have taken the one and left the other
    if not begun or own == "1.json":
        return bool(begun)
    entries = entries_since_clean(batch.store, folder, names)
    plans = {entry.plan.plan_id for _, entry in entries if isinstance(entry, Planned)}
    return any(read_object(batch.store, f"{folder}/{name}", _plan_id) in plans for name in begun)


def _plan_id(begun: Mapping[str, Any]) -> str | None:
    return begun.get("plan_id")


def begin_attempt(store: Store, folder: str, split: int, number: int, random: str, value: Mapping[str, Any]) -> None:
    create_object(store, f"{folder}/{_attempt(split, number, random)}.begun.json", {"version": 1, **value})


def set_aside_before(store: Store, folder: str, split: int, number: int) -> list[Mapping[str, Any]]:
    """Where the attempts at a split before this one may have set bad records aside: the words of each sink, once."""
    earlier = [found for found in attempt_numbers(store.list(folder), split) if found[0] < number]
    names = (f"{folder}/{_attempt(split, *found)}.begun.json" for found in earlier)
    words = [read_object(store, name, _set_aside) for name in names]
    return [one for index, one in enumerate(words) if one is not None and one not in words[:index]]


def _set_aside(begun: Mapping[str, Any]) -> Mapping[str, Any] | None:
    words: Mapping[str, Any] | None = begun.get("set_aside")
    return words


def store_report(store: Store, folder: str, random: str, report: ReadReport) -> None:
    create_object(store, f"{folder}/{_attempt(report.split, report.attempt, random)}.report.json", report.to_dict())


def has_reported(names: Iterable[str], split: int, number: int, random: str) -> bool:
    """Whether one attempt has made its report.

    :param names: what the batch's folder holds.
    """
    return f"{_attempt(split, number, random)}.report.json" in names


def report_of(store: Store, folder: str, split: int, number: int, random: str) -> ReadReport | None:
    """The report of one attempt; ``None`` where it has made none."""
    return read_object(store, f"{folder}/{_attempt(split, number, random)}.report.json", ReadReport.from_dict)


def highest_attempts(batch: StoredBatch, splits: Collection[int]) -> dict[int, int]:
    """Of each split the number of its highest attempt so far; splits without one are absent."""
    names = batch.store.list(batch.folder)
    numbers = {split: attempt_numbers(names, split) for split in splits}
    return {split: found[-1][0] for split, found in numbers.items() if found}


def definitions_written(batch: StoredBatch) -> list[str]:
    """The row definitions that the batch's rows were written with: of each split by the newest report of a write."""
    found = filter(None, map(_NAME.fullmatch, batch.store.list(batch.folder)))
    names = sorted((int(name[1]), int(name[2]), name[0]) for name in found if name[4] == "report")
    reports = (partial(read_object, batch.store, f"{batch.folder}/{name[2]}", ReadReport.from_dict) for name in names)
    read = zip(names, together(batch.store, *reports), strict=True)
    newest = {name[0]: report.rows for name, report in read if report is not None and report.wrote}
    return sorted(set(filter(None, newest.values())))


def deciding_attempts(batch: StoredBatch) -> dict[int, list[Attempt]]:
    """Of each split that was started the attempts with the highest number that may have written.

    They decide whether the split is verified.
    """
    names, splits = batch.store.list(batch.folder), sorted(batch.log.plan.splits_with_rows())
    progress = Progress("read the reports", len(splits), "splits")
    decided = {}
    found = together(batch.store, *(partial(attempts_of, batch.store, batch.folder, names, split) for split in splits))
    for split, attempts in zip(splits, found, strict=True):
        decided[split] = attempts
        progress.add()
    return decided


def require_read(
    batch: StoredBatch, newer_than: Mapping[int, int] | None = None, *, read_back: bool = False
) -> Proof | None:
    """How it is proved that every started split holds the current plan's records, by the weakest of them.

    :raises ReadNotVerified: the reports do not show it.
    """
    return require_verified(batch.log.plan, deciding_attempts(batch), newer_than, read_back=read_back)


def is_read(batch: StoredBatch) -> bool:
    return not unverified(batch.log.plan, deciding_attempts(batch))


def attempts_of(store: Store, folder: str, names: Iterable[str], split: int) -> list[Attempt]:
    """The attempts at one split that decide whether it is verified; none where nobody began.

    :param names: what the batch's folder holds.
    """
    deciding: list[Attempt] = []
    for number, random in reversed(attempt_numbers(names, split)):
        if deciding and number < deciding[0].number:
            break
        attempt = Attempt(number, report_of(store, folder, split, number, random))
        if attempt.may_have_written:
            deciding.append(attempt)
    return deciding


def _attempt(split: int, number: int, random: str) -> str:
    return f"{split}-{number:06}-{random}"
