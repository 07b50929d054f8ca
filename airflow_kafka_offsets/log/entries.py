"""The entries of a batch, and what they say: ``plan``, ``claim``, ``commit``. An entry is a small object, the header.

A batch begins with a plan. A later plan replaces it whole, under the same key. A claim says which run continues, or
that attempts so far do not count. A commit ends it; a claim after that reopens it for one more commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, assert_never

from airflow_kafka_offsets.json_columns import as_json, read_as
from airflow_kafka_offsets.kafka_values import Actor, IsolationLevel, RunKey

Step = Literal["plan next", "wait", "do", "do again", "leave"]
KEY = re.compile(r"([0-9]{10})-[0-9]{8}T[0-9]{6}-[a-z0-9]{4}")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a batch reads.

    :ivar kind: ``reset``: a batch that a person set the position with; it decides no kind of the pipeline.
    :ivar window: ``[start, end)`` in milliseconds, by window.
    :ivar offsets: how many offsets the job has to account for.
    :ivar output: the output that the last batch had; ``None``: not known yet, or by window.
    :ivar unfinished: by window, the earlier batches that were not committed when this one was first planned.
    :ivar acknowledged: the highest attempt that there was when a person wrote this entry; later attempts alone verify.
    """

    pipeline: str
    number: int
    key: str
    plan_id: str
    by: Actor
    at_ms: int
    asked: str
    kind: Literal["sequence", "window", "reset"]
    isolation_level: IsolationLevel
    require_report: bool
    cluster_id: str
    topics: Mapping[str, Topic]
    offsets: int
    partitions: int
    ranges: BodyName
    window: tuple[int, int] | None = None
    group_id: str | None = None
    output: str | None = None
    unfinished: tuple[int, ...] = ()
    acknowledged: int = 0
    given_up: Mapping[str, int] = field(default_factory=dict)

    @property
    def after(self) -> int:
        return self.acknowledged

    @property
    def topic_ids(self) -> dict[str, str | None]:
        return {name: topic.id for name, topic in self.topics.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who continues with the batch.

    :ivar after: only a later attempt verifies.
    :ivar acknowledged: as of :class:`Plan`: 0 for a run's own claim, which acknowledges nothing.
    :ivar ranges: what the group held when a person acknowledged it.
    """

    by: Actor
    at_ms: int
    after: int = 0
    acknowledged: int = 0
    ranges: BodyName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The batch is in the output.

    :ivar ranges: the position after it; ``None`` by window.
    """

    by: Actor
    at_ms: int
    plan_id: str
    output: str | None = None
    attempt: int = 0
    rows: int = 0
    bad: int = 0
    filtered: int = 0
    ranges: BodyName | None = None


Entry = Plan | Claim | Commit


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
    def plan(self) -> Plan:
        """The current plan."""
        return next(e for e in reversed(self.entries) if isinstance(e, Plan))

    @property
    def plan_entry(self) -> int:
        """The number of the current plan's entry."""
        return max(k for k, e in enumerate(self.entries, 1) if isinstance(e, Plan))

    @property
    def first_plan(self) -> Plan:
        first = self.entries[0]
        assert isinstance(first, Plan)
        return first

    @property
    def commits(self) -> tuple[Commit, ...]:
        return tuple(e for e in self.entries if isinstance(e, Commit))

    @property
    def is_committed(self) -> bool:
        return bool(self.commits)

    @property
    def is_closed(self) -> bool:
        """Whether it is committed, and nobody reprocesses it."""
        return isinstance(self.entries[-1], Commit)

    @property
    def is_cleaned(self) -> bool:
        return self.plan.ranges.name not in self.bodies

    @property
    def owner(self) -> Actor:
        """The last plan or claim names it."""
        return next(e.by for e in reversed(self.entries) if not isinstance(e, Commit))

    @property
    def after(self) -> int:
        """Only attempts above this one verify."""
        return max(e.after for e in self.entries if not isinstance(e, Commit))

    @property
    def acknowledged(self) -> int:
        """The highest attempt that a person knows of: outputs of attempts up to it are acknowledged."""
        return max(e.acknowledged for e in self.entries if not isinstance(e, Commit))

    @property
    def output(self) -> str | None:
        """The output of the last commit, else the one that the plan expects."""
        return self.commits[-1].output if self.commits else self.plan.output

    @property
    def highest_attempt(self) -> int:
        return max((a.number for a in self.attempts), default=0)

    def __str__(self) -> str:
        return f"Batch {self.number} of pipeline {self.plan.pipeline}"


def next_step(me: Actor, batch: Batch | None, *, is_mine: bool, is_running: Callable[[RunKey], bool]) -> Step:
    """What a run does with a batch (STATE.md, rules 1, 3 and 4).

    :param batch: the one that this run is bound to, else the newest; ``None``: there is none.
    :param is_mine: whether the run is bound to it.
    """
    if batch is None or (batch.is_committed and not is_mine):
        return "plan next"
    if batch.is_committed:
        return "do again" if batch.commits[0].by == me else "leave"
    owner = batch.owner
    is_other = owner.run is not None and owner != me
    return "wait" if is_other and owner.run is not None and is_running(owner.run) else "do"


# ── the key of a batch: 0000000007-20261122T022057-k3f9 ───────────────────────────────────────────────────────────────
# Padded, so that keys compare as text. The number tells batches of one log apart, the rest those of two logs.


def new_key(number: int, at_ms: int, random: str) -> str:
    """:param random: four characters of a to z and 0 to 9."""
    return f"{number:010}-{datetime.fromtimestamp(at_ms // 1000, UTC):%Y%m%dT%H%M%S}-{random}"


def number_of(key: str) -> int:
    """The number in a batch's key; 0 for anything else."""
    match = KEY.fullmatch(key)
    return int(match[1]) if match else 0


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

_KINDS: Mapping[str, type[Plan | Claim | Commit]] = {"plan": Plan, "claim": Claim, "commit": Commit}


def entry_to_dict(entry: Entry) -> dict[str, Any]:
    match entry:
        case Plan():
            kind = "plan"
        case Claim():
            kind = "claim"
        case Commit():
            kind = "commit"
        case _ as never:
            assert_never(never)
    return {"version": 1, "entry": kind, **as_json(entry)}


def entry_from_dict(data: Mapping[str, Any]) -> Entry:
    """:raises ValueError, LookupError, TypeError: it is no entry."""
    if data["version"] != 1:
        raise ValueError(f"version {data['version']!r} is not known")
    entry: Entry = read_as(_KINDS[data["entry"]], data)
    return entry
