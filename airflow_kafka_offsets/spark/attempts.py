# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
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

    def report(self, **members: Any) -> None:
        self.put("report", **members)

    def put(self, kind: str, **more: Any) -> None:
        value = {"version": 1, "plan_id": self.plan.plan_id, "job": self.job, "output": self.output, **more}
        self.store.put(f"{self.folder}/{self.number}-{self.random}.{kind}.json", encode(value))


def begin(
    store: Store,
    folder: str,
    names: Sequence[str],
    entry: int,
    plan: Plan,
    job: str | None,
    output: str | None,
    spark_ui: str | None,
) -> Attempt:
    """Begin the next attempt. From then on the batch only verifies with the report of this attempt or of a later one.

    :param names: what was in the folder before the plan was read. The look behind the begin finds what has come since:
        an attempt has no lower number than this one, and an entry a higher one than the plan.
    :param spark_ui: where this driver shows its pages.
    :raises LateAttempt: the plan was replaced or committed, or another driver began at the same moment.
    :raises OtherOutput: the pipeline's identity names another output; nothing was begun.
    """
    _require_current(plan, read_entries(store, folder, names, entry))
    if output is not None and plan.output not in (None, output):
        raise OtherOutput(
            f"Batch {plan.number} of pipeline {plan.pipeline} would change its output",
            f"This job writes {output}, and the pipeline writes {plan.output}",
            f"Write {plan.output} again; or acknowledge the change: {plan.conf(acknowledge={'output': output})}",
        )
    number = 1 + max((b.number for b in _begun(names)), default=0)
    attempt = Attempt(store, folder, entry, plan, job, output, number, secrets.token_hex(4))
    attempt.put("begun", spark_ui=spark_ui)
    attempt.look()
    log.info("Attempt %d at batch %d of pipeline %s has begun.", number, plan.number, plan.pipeline)
    return attempt


def _begun(names: Sequence[str]) -> list[_Begun]:
    return [_Begun(int(m[1]), m[2], m[0]) for m in map(_BEGUN.fullmatch, names) if m]


def read_begun(store: Store, folder: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """What earlier attempts have said when they began."""
    return [read_object(store, f"{folder}/{begun.name}") for begun in _begun(names)]


def has_begun(names: Sequence[str]) -> bool:
    """Whether any attempt has begun."""
    return bool(_begun(names))


def begun_since(commit: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether an attempt has begun behind the one that was committed: then the rows may be its."""
    return any(begun.number > commit["attempt"] for begun in _begun(names))


def reported_rows(store: Store, folder: str, names: Sequence[str]) -> int:
    """How many rows the last report has."""
    reports = {int(name.partition("-")[0]): name for name in names if name.endswith(".report.json")}
    counts = read_object(store, f"{folder}/{reports[max(reports)]}")["counts"] if reports else {}
    return sum(sum(of_topic["rows"]) for of_topic in counts.values())


def last_commit(store: Store, folder: str, names: Sequence[str]) -> Mapping[str, Any]:
    """The last commit of the batch; empty: it has none."""
    entries = read_entries(store, folder, names, above=1).values()  # the first is a plan
    return ({}, *(entry for entry in entries if entry["entry"] == "commit"))[-1]


def reported_counts(store: Store, folder: str, names: Sequence[str], attempt: int) -> Any:
    """What an attempt has counted: columns by topic.

    :raises StoreUnavailable: the report is gone.
    """
    start = f"{attempt}-"
    report = next((n for n in names if n.startswith(start) and n.endswith(".report.json")), f"{start}….report.json")
    return read_object(store, f"{folder}/{report}")["counts"]


def entries_of(store: Store, pipeline: str, number: int) -> tuple[str, Entries]:
    """The folder of another batch, and its entries; none: there is no such batch.

    :param pipeline: its folder.
    """
    folder = f"{pipeline}/batches/{number // 100:08}/{number:010}"
    return folder, read_entries(store, folder, store.list(folder))


def read_entries(store: Store, folder: str, names: Sequence[str], above: int = 0) -> Entries:
    """The entries of a batch by their numbers, in order."""
    numbers = sorted(int(m[1]) for m in map(_ENTRY.fullmatch, names) if m)
    return {k: read_object(store, f"{folder}/{k}.json") for k in numbers if k > above}


def _require_current(plan: Plan, later: Entries) -> None:
    """:raises LateAttempt: there is another plan since, or the last entry is a commit.

    A run that continues the batch appends the same plan, with its own name.
    """
    causes = [f"Entry {k} is a newer plan" for k, e in later.items() if e.get("plan_id", plan.plan_id) != plan.plan_id]
    if later and later[max(later)]["entry"] == "commit":
        causes.append(f"Entry {max(later)} has committed the batch")
    if causes:
        what = f"A job for plan {plan.plan_id} of batch {plan.number} of pipeline {plan.pipeline} stops"
        raise LateAttempt(what, causes[-1], "To write the batch again, clear the run from its resolve task on")
