"""What the work store keeps of a batch's reads: each split's attempts, and their reports.

``…/reads/<split>/<n>-<random>.begun.json`` before a split is read, ``….report.json`` at the end. An attempt takes the
number above the highest that it finds. That needs no exclusive creation, which Hadoop's file systems do not have
everywhere: two that begin at once have one number, each finds the other when it looks again, and neither goes on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from airflow_kafka_offsets.offsets.plan.splits import splits_to_start
from airflow_kafka_offsets.offsets.reads.verify import Attempt, ReadReport, require_verified, unverified
from airflow_kafka_offsets.stores.objects import create_object, read_object
from airflow_kafka_offsets.stores.pipeline_log import StoredBatch
from airflow_kafka_offsets.stores.store import Store

_NAME = re.compile(r"(\d+)-([a-z0-9]+)\.(begun|report)\.json")


def attempt_numbers(store: Store, folder: str, split: int) -> list[tuple[int, str]]:
    """Number and random part of every attempt at a split that has begun, ascending."""
    found = {(int(m[1]), m[2]) for name in store.list(f"{folder}/reads/{split}") if (m := _NAME.fullmatch(name))}
    return sorted(found)


def has_begun(batch: StoredBatch) -> bool:
    """Whether a Spark job has begun to read any split of any plan of the batch."""
    return bool(batch.store.list(f"{batch.folder}/reads"))


def begin_attempt(store: Store, folder: str, split: int, number: int, random: str, value: Mapping[str, Any]) -> bool:
    name = f"{folder}/reads/{split}/{number:06}-{random}.begun.json"
    return create_object(store, name, {"version": 1, **value})


def store_report(store: Store, folder: str, random: str, report: ReadReport) -> bool:
    name = f"{folder}/reads/{report.split}/{report.attempt:06}-{random}.report.json"
    return create_object(store, name, report.to_dict())


def report_of(store: Store, folder: str, split: int, number: int, random: str) -> ReadReport | None:
    """The report of one attempt; ``None`` where it has made none."""
    return read_object(store, f"{folder}/reads/{split}/{number:06}-{random}.report.json", ReadReport.from_dict)


def highest_attempts(batch: StoredBatch, splits: Collection[int]) -> dict[int, int]:
    """Of each split the number of its highest attempt so far; splits without one are absent."""
    numbers = {split: attempt_numbers(batch.store, batch.folder, split) for split in splits}
    return {split: found[-1][0] for split, found in numbers.items() if found}


def deciding_attempts(store: Store, folder: str, split: int) -> list[Attempt]:
    """The attempts with the highest number that may have written: those that decide whether the split is verified."""
    deciding: list[Attempt] = []
    for number, random in reversed(attempt_numbers(store, folder, split)):
        if deciding and number < deciding[0].number:
            break
        attempt = Attempt(number, report_of(store, folder, split, number, random))
        if attempt.may_have_written:
            deciding.append(attempt)
    return deciding


def require_read(batch: StoredBatch, newer_than: Mapping[int, int] | None = None) -> None:
    """:raises ReadNotVerified: the reports do not show that every started split holds the current plan's records."""
    require_verified(batch.log.plan, _deciding(batch), newer_than)


def is_read(batch: StoredBatch) -> bool:
    return not unverified(batch.log.plan, _deciding(batch))


def _deciding(batch: StoredBatch) -> dict[int, list[Attempt]]:
    return {split: deciding_attempts(batch.store, batch.folder, split) for split in splits_to_start(batch.log.plan)}
