# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The entries of a batch: ``plan`` and ``commit``. An entry is a small object, the header.

A batch begins with a plan, and a commit ends it. A later plan replaces the one before whole; its ``plan_id`` is new
unless it only says that another run continues. So a report is valid for one plan id, and nothing else is compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from airflow_kafka_offsets.json_columns import as_json, read_as
from airflow_kafka_offsets.kafka_values import IsolationLevel, RunKey

Step = Literal["plan next", "wait", "do", "do again", "leave"]
Kind = Literal["sequence", "window"]
Proof = Literal["receipt", "read back", "trusted"]
_KEY = re.compile(r"([0-9]{10})(-[0-9]+of[0-9]+)?-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class BodyName:
    """The object with the per-partition half of an entry, and its digest."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it was when it was planned: its id, and how many partitions it had.

    :ivar partitions: ``None`` where it was not asked for: single partitions are subscribed to.
    """

    id: str | None
    partitions: int | None


@dataclass(frozen=True, slots=True)
class Before:
    """The committed batch before another one.

    :ivar identity: the number of the identity that it was planned under.
    :ivar ranges: the position after it, an object of that batch.
    """

    key: str
    identity: int
    ranges: BodyName


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a batch reads.

    :ivar key: made by the first plan of a batch and kept by later ones.
    :ivar identity: the number of the pipeline's identity that it was planned under; ``log``: the id of this log.
    :ivar adopted: other logs whose table this pipeline took over, each with its highest key.
    :ivar bases: what was added to numbers of batches in keys; the last one is current.
    :ivar before: in sequence, the batch before it, at whose position it resumes; ``None``: it is the first.
    :ivar window: ``[start, end)`` in milliseconds, by window.
    :ivar offsets: how many offsets the job has to account for.
    :ivar output: the output of the identity; ``None``: the job is the user's own, or the output is templated.
    :ivar expects: the key of the newest committed batch with rows, which the output must have; ``None``: none.
    :ivar newest: in sequence, whether this is the newest batch: then the output has no key behind its own.
    :ivar unfinished: by window, the earlier batches that were not committed when this one was first planned.
    :ivar given_up: offsets by kind of decision.
    :ivar from_outputs: the records are gone from Kafka: the job reads the batch's own outputs.
    """

    pipeline: str
    number: int
    key: str
    plan_id: str
    by: RunKey
    at_ms: int
    asked: str
    kind: Kind
    identity: int
    log: str
    adopted: Mapping[str, str] = field(default_factory=dict)
    bases: tuple[int, ...] = (0,)
    isolation_level: IsolationLevel
    require_report: bool
    cluster_id: str
    topics: Mapping[str, Topic]
    offsets: int
    partitions: int
    ranges: BodyName
    before: Before | None = None
    window: tuple[int, int] | None = None
    group_id: str | None = None
    output: str | None = None
    expects: str | None = None
    newest: bool = False
    unfinished: tuple[int, ...] = ()
    given_up: Mapping[str, int] = field(default_factory=dict)
    from_outputs: bool = False

    @property
    def topic_ids(self) -> dict[str, str | None]:
        return {name: topic.id for name, topic in self.topics.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The batch is in the output.

    :ivar snapshot: the snapshot (Iceberg) or version (Delta) of the table that has the rows; ``None``: not known.
    :ivar proof: what shows that the rows are there; ``None``: there were none to write.
    :ivar ranges: the position after it; ``None`` by window.
    """

    by: RunKey
    at_ms: int
    plan_id: str
    output: str | None = None
    attempt: int = 0
    rows: int = 0
    bad: int = 0
    filtered: int = 0
    snapshot: str | None = None
    proof: Proof | None = None
    ranges: BodyName | None = None


Entry = Plan | Commit


class Attempt(NamedTuple):
    """A Spark driver at this batch: ``begun`` is there, and ``report`` if it has ended well."""

    number: int
    random: str
    is_reported: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as it was at one look: all entries, and which attempts and bodies there are.

    :ivar bodies: names of the per-partition objects that are there; ``clean`` removes them.
    """

    number: int
    entries: tuple[Entry, ...]
    attempts: tuple[Attempt, ...] = ()
    bodies: frozenset[str] = frozenset()

    @property
    def plans(self) -> tuple[Plan, ...]:
        return tuple(e for e in self.entries if isinstance(e, Plan))

    @property
    def plan(self) -> Plan:
        """The current plan."""
        return self.plans[-1]

    @property
    def first_plan(self) -> Plan:
        return self.plans[0]

    @property
    def plan_entry(self) -> int:
        """The number of the current plan's entry."""
        return max(k for k, e in enumerate(self.entries, 1) if isinstance(e, Plan))

    @property
    def commits(self) -> tuple[Commit, ...]:
        return tuple(e for e in self.entries if isinstance(e, Commit))

    @property
    def is_committed(self) -> bool:
        return bool(self.commits)

    @property
    def is_closed(self) -> bool:
        """Whether it is committed, and no run is rewriting it."""
        return isinstance(self.entries[-1], Commit)

    @property
    def is_cleaned(self) -> bool:
        return self.plan.ranges.name not in self.bodies

    @property
    def output(self) -> str | None:
        """The output of the last commit, else the plan's."""
        return self.commits[-1].output if self.commits else self.plan.output

    @property
    def has_records(self) -> bool:
        """Whether one of its plans had any. Only a batch without needs no job: a driver may have written them."""
        return any(plan.offsets for plan in self.plans)

    @property
    def highest_attempt(self) -> int:
        return max((a.number for a in self.attempts), default=0)

    def __str__(self) -> str:
        return f"Batch {self.number} of pipeline {self.plan.pipeline}"


def next_step(run: RunKey, batch: Batch | None, *, is_bound: bool, is_running: Callable[[RunKey], bool]) -> Step:
    """What a run does with a batch (STATE.md, rules 1, 3 and 4).

    :param batch: the one that this run is bound to, else the newest; ``None``: there is none.
    """
    if batch is None or (batch.is_committed and not is_bound):
        return "plan next"
    if batch.is_committed:
        return "do again" if batch.commits[0].by == run else "leave"
    return "wait" if batch.plan.by != run and is_running(batch.plan.by) else "do"


# ── the key of a batch: 0000000007-4f1c9a2b7d30, of a shard 0000000007-0of4-4f1c9a2b7d30 ──────────────────────────────
# The digits are the number plus the identity's base, first, so that keys sort as text.


def new_key(digits: int, shard: tuple[int, int] | None, random: str) -> str:
    """:param random: twelve hexadecimal digits; they tell batches of two logs apart."""
    return f"{digits:010}{shard_part(shard)}{random}"


def digits_of(key: str) -> int:
    """The digits of a batch's key; 0 for anything else."""
    match = _KEY.fullmatch(key)
    return int(match[1]) if match else 0


def highest(keys: Iterable[str]) -> int:
    """The highest digits of these keys; 0 without any."""
    return max(map(digits_of, keys), default=0)


def shard_part(shard: tuple[int, int] | None) -> str:
    """What a shard's keys have between digits and random bits: ``-0of4-``; of a pipeline without shards ``-``."""
    return "-{}of{}-".format(*shard) if shard else "-"


def shard_in(key: str) -> str:
    """The :func:`shard_part` of a key."""
    return key[10:-12]


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

_KINDS: Mapping[str, type[Plan | Commit]] = {"plan": Plan, "commit": Commit}


def entry_to_dict(entry: Entry) -> dict[str, Any]:
    return {"version": 1, "entry": type(entry).__name__.lower(), **as_json(entry)}


def entry_from_dict(data: Mapping[str, Any]) -> Entry:
    """:raises ValueError, LookupError, TypeError: it is no entry."""
    entry: Entry = read_as(_KINDS[data["entry"]], data)
    return entry
