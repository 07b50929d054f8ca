"""The log of one batch: plans, who took it, its commit, and that it was cleaned away, as values.

::

    plan ──► taken ──► … ──► commit ──► taken ──► …         a batch of the log: no plan after the commit
      └────► plan (anew, in place) ──► …                    a window: a plan may follow its commit
                                       … ──► cleaned        there is no batch any more; a window begins anew after it

Each entry is an object whose name is created once, so two writers are put in an order, and the later one looks again.
What must stay true: the current plan is the last one; a batch is committed if a commit follows its current plan; the
holder is who wrote the last plan or ``taken``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from airflow_kafka_offsets.json_columns import as_json, read_as, reading, require_version
from airflow_kafka_offsets.kafka_values import Actor, RunKey
from airflow_kafka_offsets.plan.plan import BatchName, Plan, number_of
from airflow_kafka_offsets.plan.plan_json import plan_from_dict, plan_to_dict
from airflow_kafka_offsets.plan.position import Position

VERSION = 1
LAST_OF_COMMIT = "position"
"""The member that comes last in a commit, and is the only one that grows with the partitions."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What the log's committed batches had together.

    :ivar batches: how many are counted: all, unless the log was lost.
    :ivar last_set_aside: the number of the last batch with bad records; ``last_left``: with lost or skipped ones.
    """

    batches: int = 0
    records: int = 0
    lost: int = 0
    skipped: int = 0
    set_aside: int = 0
    left_out: int = 0
    last_set_aside: int | None = None
    last_left: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """What the log knows of the batches up to one of them.

    :ivar definitions: with which rows were written last; empty where none are known.
    """

    definitions: tuple[str, ...] = ()
    totals: Totals = Totals()


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan of the batch.

    :ivar position: the position of the pipeline that it goes on from, of all partitions; ``None`` where there was none,
        and for a window.
    :ivar history: of the batches before this one; of a window it has no totals.
    """

    plan: Plan
    position: Position | None = None
    history: History = field(default_factory=History)

    @property
    def by(self) -> Actor:
        return self.plan.by


@dataclass(frozen=True, slots=True)
class Taken:
    """A run, or a person, starts to work on the batch.

    :ivar attempts: of each split the highest attempt so far, where a committed batch is done again: newer ones count.
        0: there is none.
    :ivar unread: of a window, how many offsets its times gave at that moment that its plan lacks.
    """

    by: Actor
    at_ms: int
    attempts: Mapping[int, int] = field(default_factory=dict)
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """A batch in a line, so that nobody reads a plan of 10,000 partitions for it.

    :ivar plan: its number among the entries; :ivar planned_ms: when it was made.
    :ivar by: who planned it, and who took it until it was committed, each once.
    :ivar splits: how many may have rows in the output.
    :ivar left: what was there at or after its end when it was planned; ``None``: not known.
    :ivar reason: of its plan; ``startup``: the startup request.
    :ivar task: DAG id and task id of the resolve task that asked for it; ``group_id`` and ``output``: what it asked.
    :ivar totals: up to the end of the batch once it is committed; of a window they are of itself alone.
    """

    key: str
    number: int | None
    after: str | None
    plan: int
    planned_ms: int
    by: tuple[Actor, ...]
    records: int
    lost: int
    skipped: int
    late: int
    splits: int
    left: int | None
    reason: str | None
    startup: str
    withdrawn: bool
    task: tuple[str, str] | None
    group_id: str | None
    output: str | None
    totals: Totals


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit.

    :ivar set_aside: how many bad records the reports name; :ivar left_out: how many are no rows by the user's wish.
    :ivar definitions: with which rows were written, by the reports; empty where records were written as they are.
    :ivar reads: the digest of what the reports say was read; ``None`` where nobody has looked at them.
    :ivar summary: of the batch; ``None`` until the commit is on record.
    :ivar position: the whole position after it; ``None`` for a window.
    """

    by: Actor
    at_ms: int
    plan_id: str
    set_aside: int = 0
    left_out: int = 0
    definitions: tuple[str, ...] = ()
    reads: str | None = None
    summary: Summary | None = None
    position: Position | None = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The batch is gone from here on, however much of it is still to be removed."""


Entry = Planned | Taken | Committed
StoredEntry = Entry | Cleaned


class SincePlan(ABC):
    """Who has a batch, as the entries after its plan say: of a batch that is known whole, and of one in a line."""

    __slots__ = ()
    later: tuple[Taken | Committed, ...]

    @property
    @abstractmethod
    def began(self) -> tuple[Actor, int]:
        """Who planned it, and when."""

    @property
    def committed(self) -> Committed | None:
        return next((entry for entry in self.later if isinstance(entry, Committed)), None)

    @property
    def taken(self) -> list[Taken]:
        """Who took it, since its plan, or of a committed batch that is known in a line, since its commit."""
        return [entry for entry in self.later if isinstance(entry, Taken)]

    @property
    def held(self) -> tuple[Actor, int]:
        """Who holds the batch, and since when: the writer of the last plan or ``taken``."""
        return next(((entry.by, entry.at_ms) for entry in reversed(self.taken)), self.began)

    @property
    def last_instance(self) -> str | None:
        """The Airflow whose batch it is: the last that an entry names. A person without Airflow works for that one."""
        named = (entry.by.instance for entry in reversed(self.later) if entry.by.instance is not None)
        return next(named, self.began[0].instance)

    @property
    def unread(self) -> int:
        """The most that a run found its window to lack."""
        return max((entry.unread for entry in self.taken), default=0)


@dataclass(frozen=True, slots=True)
class BatchLog(SincePlan):
    """A batch's log from its current plan on.

    :ivar planned: the current plan.
    :ivar plan_number: the number of its entry; 1 is the batch's first plan.
    :ivar later: the entries after it.
    """

    planned: Planned
    plan_number: int = 1
    later: tuple[Taken | Committed, ...] = ()

    @property
    def plan(self) -> Plan:
        return self.planned.plan

    @property
    def batch(self) -> BatchName:
        return self.plan.batch

    @property
    def next_number(self) -> int:
        return self.plan_number + len(self.later) + 1

    @property
    def began(self) -> tuple[Actor, int]:
        return self.plan.by, self.plan.resolved_at_ms

    @property
    def position(self) -> Position | None:
        """Where the pipeline goes on: after the batch once it is committed, and until then where the batch began."""
        return self.committed.position if self.committed else self.planned.position

    @property
    def position_after(self) -> str | None:
        """The key of the batch that the position is after: of this one once it is committed, else of the one before."""
        return self.batch.key if self.committed else self.batch.after

    @property
    def history(self) -> History:
        """Up to the end of this batch, once it is committed; until then up to where it began."""
        before, committed, plan = self.planned.history, self.committed, self.plan
        if committed is None:
            return before
        so_far, number = before.totals, plan.batch.number
        totals = Totals(
            so_far.batches + 1,
            so_far.records + plan.record_count_upper_bound,
            so_far.lost + plan.lost,
            so_far.skipped + plan.skipped,
            so_far.set_aside + committed.set_aside,
            so_far.left_out + committed.left_out,
            number if committed.set_aside else so_far.last_set_aside,
            number if plan.lost or plan.skipped else so_far.last_left,
        )
        return History(committed.definitions or before.definitions, totals)

    @property
    def summary(self) -> Summary:
        """The batch in a line, as it is now."""
        plan, batch, committed = self.plan, self.plan.batch, self.committed
        before = self.later[: self.later.index(committed)] if committed else self.later
        known = [p.past_end for p in plan.partitions if p.past_end is not None]
        return Summary(
            key=batch.key,
            number=batch.number,
            after=batch.after,
            plan=self.plan_number,
            planned_ms=plan.resolved_at_ms,
            by=tuple(dict.fromkeys((plan.by, *(entry.by for entry in before)))),
            records=plan.record_count_upper_bound,
            lost=plan.lost,
            skipped=plan.skipped,
            late=sum(p.late for p in plan.partitions),
            splits=len(plan.splits_with_rows()),
            left=sum(known) if known else None,
            reason=plan.reason,
            startup=plan.asked.startup,
            withdrawn=plan.withdrawn,
            task=plan.asked.task,
            group_id=plan.asked.group_id,
            output=plan.asked.output,
            totals=self.history.totals,
        )

    @property
    def holder(self) -> Actor:
        """Who holds the batch."""
        return self.held[0]

    @property
    def by(self) -> Actor:
        """Who committed the batch; if nobody has, who holds it."""
        return self.committed.by if self.committed else self.holder

    @property
    def at_ms(self) -> int:
        """When that was."""
        return self.committed.at_ms if self.committed else self.held[1]

    @property
    def redone(self) -> Taken | None:
        """The last ``taken`` after the commit, if the committed batch is done again by it.

        Who takes it only to leave it, or to have the pipeline, ends what somebody else began.
        """
        last = self.later[-1] if self.committed else None
        return last if isinstance(last, Taken) and last.attempts else None

    def with_entry(self, entry: Entry) -> BatchLog:
        if isinstance(entry, Planned):
            return BatchLog(entry, self.next_number)
        return BatchLog(self.planned, self.plan_number, (*self.later, entry))


# ── what a run has to do ──────────────────────────────────────────────────────────────────────────────────────────────


Step = Literal[
    "plan next",  # no batch is unfinished
    "do",  # this unfinished batch
    "do again",  # this committed batch once more, into the same place
    "leave",  # this run's batch, which another one has committed
    "wait",  # the holder is another run, which is running
]


def next_step(me: Actor, log: BatchLog | None, *, own: bool, again: bool, is_running: Callable[[RunKey], bool]) -> Step:
    """What ``me`` has to do with the batch whose log this is (docs/log.md, rules 1 to 3).

    :param log: of the run's own batch, where it has one, else of the newest; ``None`` where there is none.
    :param own: whether this run took the batch before.
    :param again: whether a committed batch is done once more whoever has committed it.
    :param is_running: whether a DAG run is running; a queued one is not.
    """
    if log is None:
        return "plan next"
    if log.committed is None:
        return "wait" if _is_held(me, log.holder, is_running) else "do"
    if not own:
        return "plan next"
    return "do again" if again or log.committed.by.run == me.run else "leave"


def _is_held(me: Actor, holder: Actor, is_running: Callable[[RunKey], bool]) -> bool:
    """Tasks of one DAG run never wait for each other, and nobody waits for a person."""
    if holder.run is None or (me.run is not None and holder.run.is_same_dag_run(me.run)):
        return False
    return is_running(holder.run)


# ── as objects ────────────────────────────────────────────────────────────────────────────────────────────────────────


_KINDS: Mapping[type, str] = {Planned: "plan", Taken: "taken", Committed: "commit", Cleaned: "cleaned"}


def entry_to_dict(entry: StoredEntry) -> dict[str, Any]:
    if isinstance(entry, Planned):
        found = {"plan": plan_to_dict(entry.plan), **as_json(entry.history), "position": as_json(entry.position)}
    else:
        found = as_json(entry)
    return {"version": VERSION, "entry": _KINDS[type(entry)], **found}


def entry_from_dict(data: Mapping[str, Any]) -> StoredEntry:
    """:raises ValueError: it is no entry of a version that is known."""
    found = short_entry_from_dict(data)
    with reading("an entry of a batch's log"):
        if found is not None and not isinstance(found, Committed):
            return found
        position = read_as(Position | None, data[LAST_OF_COMMIT])
        if found is not None:
            return replace(found, position=position)
        return Planned(_named(plan_from_dict(data["plan"])), position, read_as(History, data))


def short_entry_from_dict(data: Mapping[str, Any]) -> Taken | Committed | Cleaned | None:
    """The entry without what takes long to read at 10,000 partitions: ``None`` for a plan, a commit has no position.

    :param data: its members, of a commit those before ``LAST_OF_COMMIT``.
    :raises ValueError: it is no entry of a version that is known.
    """
    require_version(data, VERSION, "log entry")
    with reading("an entry of a batch's log"):
        kind = next((kind for kind, name in _KINDS.items() if name == data["entry"]), None)
        if kind is None:
            raise ValueError(f"entry {data['entry']!r} is not known")
        found: Taken | Committed | Cleaned | None = (
            None if kind is Planned else read_as(kind, {**data, LAST_OF_COMMIT: None})
        )
    return found


def log_of(entries: Sequence[StoredEntry], first_number: int) -> BatchLog:
    """The log that these entries make, the first of which is the current plan."""
    planned, *later = entries
    if not isinstance(planned, Planned) or any(isinstance(entry, Planned | Cleaned) for entry in later):
        raise ValueError("a batch's log begins with its current plan")
    return BatchLog(planned, first_number, tuple(later))  # type: ignore[arg-type]  # just looked at


def _named(plan: Plan) -> Plan:
    """:raises ValueError: the names of its batch and of the one before are none that a log gives."""
    batch = plan.batch
    if number_of(batch.key) != (batch.number or 0) or batch.number == 0:
        raise ValueError(f"its batch is {batch!r}, which is no batch of a log and no window")
    if batch.after is not None and not number_of(batch.after):
        raise ValueError(f"it goes on after {batch.after!r}, which is not the key of a batch")
    return plan
