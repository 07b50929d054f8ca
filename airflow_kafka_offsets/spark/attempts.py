"""Attempts at a batch, each a Spark driver with a number::

    list attempts → begun <highest + 1>-<random> → look → … → look → report

A driver cannot be stopped from outside, so it looks whether it still has its place. Every name is written by one driver
alone. Verified is only a report of the highest attempt, if exactly one attempt has that number.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from airflow_kafka_offsets.spark.errors import LateAttempt, OtherOutput
from airflow_kafka_offsets.spark.objects import encode, read_object
from airflow_kafka_offsets.spark.plan import Plan
from airflow_kafka_offsets.spark.store import Store

log = logging.getLogger(__name__)

_ENTRY = re.compile(r"([1-9][0-9]*)\.json")
_BEGUN = re.compile(r"([1-9][0-9]*)-([0-9a-z]+)\.begun\.json")


Entries = Mapping[int, Mapping[str, Any]]


class _Begun(NamedTuple):
    number: int
    random: str
    name: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """This driver's attempt.

    :ivar folder: the folder of the batch.
    :ivar entry: the entry of the plan that this driver was given.
    :ivar job: the digest of the job object; ``None`` without one.
    :ivar output: what this attempt writes; ``None`` if that has no name.
    """

    store: Store
    folder: str
    entry: int
    plan: Plan
    job: str | None
    output: str | None
    number: int
    random: str

    def look(self) -> None:
        """:raises LateAttempt: this driver has lost its place."""
        names = self.store.list(self.folder)
        _require_current(self.plan, read_entries(self.store, self.folder, names, self.entry))
        others = [b.number for b in _begun(names) if b.number >= self.number and b.random != self.random]
        if others:
            what = f"Attempt {self.number} at batch {self.plan.number} of pipeline {self.plan.pipeline} stops"
            raise LateAttempt(what, f"Attempt {max(others)} has begun since", "Let that one end, or clear the task")

    def report(self, counts: Mapping[str, Any]) -> None:
        self.put("report", {"counts": counts})

    def put(self, kind: str, more: Mapping[str, Any]) -> None:
        value = {"version": 1, "plan_id": self.plan.plan_id, "job": self.job, "output": self.output, **more}
        self.store.put(f"{self.folder}/{self.number}-{self.random}.{kind}.json", encode(value))


def begin(
    store: Store, folder: str, names: Sequence[str], entry: int, plan: Plan, job: str | None, output: str | None
) -> Attempt:
    """Begin the next attempt. From then on the batch only verifies with the report of this attempt or of a later one.

    :param names: what was in the folder before the plan was read. The look behind the begin finds what has come since:
        an attempt has no lower number than this one, and an entry a higher one than the plan.
    :raises LateAttempt: the plan was replaced or committed, or another driver began at the same moment.
    :raises OtherOutput: the pipeline's output is another one; nothing was begun.
    """
    _require_current(plan, read_entries(store, folder, names, entry))
    if output is not None and plan.output not in (None, output):
        raise OtherOutput(
            f"Batch {plan.number} of pipeline {plan.pipeline} would change its output",
            f"This job writes {output}, and the pipeline's output is {plan.output}",
            "Clear the run from its resolve task on: it says what to do",
        )
    number = 1 + max((b.number for b in _begun(names)), default=0)
    attempt = Attempt(store, folder, entry, plan, job, output, number, secrets.token_hex(4))
    attempt.put("begun", {})
    attempt.look()
    log.info("Attempt %d at batch %d of pipeline %s has begun.", number, plan.number, plan.pipeline)
    return attempt


def _begun(names: Sequence[str]) -> list[_Begun]:
    return [_Begun(int(m[1]), m[2], m[0]) for m in map(_BEGUN.fullmatch, names) if m]


def read_entries(store: Store, folder: str, names: Sequence[str], above: int = 0) -> Entries:
    """The entries of a batch by their numbers, in order."""
    numbers = sorted(int(m[1]) for m in map(_ENTRY.fullmatch, names) if m)
    return {k: read_object(store, f"{folder}/{k}.json") for k in numbers if k > above}


def _require_current(plan: Plan, later: Entries) -> None:
    """:raises LateAttempt: there is a newer plan, or the last entry is a commit."""
    causes = [
        f"Entry {k} is a newer plan"
        for k, entry in later.items()
        if entry["entry"] == "plan" and entry["plan_id"] != plan.plan_id
    ]
    if later and later[max(later)]["entry"] == "commit":
        causes.append(f"Entry {max(later)} has committed the batch")
    if causes:
        what = f"A job for plan {plan.plan_id} of batch {plan.number} of pipeline {plan.pipeline} stops"
        raise LateAttempt(what, causes[-1], "To write the batch again, clear the run from its resolve task on")
