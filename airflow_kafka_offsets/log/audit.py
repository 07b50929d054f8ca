"""The audit of a log: each batch against the one before it, and against its reads. It asks nobody.

A batch goes on from where the one before it ended. What lies between that and where it starts has a name: lost,
skipped, read again. What has none is a gap or an overlap. Each finding has who did it, when, and whose decision it was:
a policy, a ``skip``, a ``reset``, a ``restart``, a startup mode. The log has a person's words as they were given. A
policy it does not name: it follows from the plan, because without that policy the run would have been refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Literal, get_args

from airflow_kafka_offsets.json_columns import read_as
from airflow_kafka_offsets.kafka_values import (
    Actor,
    TopicPartition,
    grouped,
    in_same_logs,
    is_another_log,
    topics_made_anew,
)
from airflow_kafka_offsets.log.entries import BatchLog, Committed, Entry, Planned, Taken, log_of
from airflow_kafka_offsets.log.verify_reads import Attempt, problems_of_splits
from airflow_kafka_offsets.plan.plan import BatchName, PlannedPartition
from airflow_kafka_offsets.plan.plan_table import first_few
from airflow_kafka_offsets.plan.position import Position, SavedOffset, position_after
from airflow_kafka_offsets.plan.window_claims import name_of
from airflow_kafka_offsets.request.times import iso

FindingKind = Literal[
    "gap",  # offsets between two batches that nobody has read or counted
    "overlap",  # offsets that an earlier batch has read, and nobody has ordered to read again
    "short",  # the reports speak against the commit
    "lost",
    "skipped",
    "rewind",  # read again, because the position was set back
    "truncated",
    "re-created",
    "set aside",
    "left out",
    "late",
    "planned anew",
    "done twice",
    "unproved",  # committed without a report
    "passed by",
    "not in the log",
]
CHAIN: frozenset[FindingKind] = frozenset(
    {"gap", "overlap", "lost", "skipped", "rewind", "truncated", "re-created", "passed by", "not in the log"}
)
NEEDS_DECISION: frozenset[FindingKind] = frozenset({"gap", "overlap", "short", "lost", "skipped"})
State = Literal["committed", "not committed", "passed by"]


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """All that the log has of one batch.

    :ivar entries: from its first plan on; :ivar attempts: of each split the deciding ones.
    :ivar set_aside: where their bad records may lie: the words of each sink. Only the audit of an output asks for them.
    """

    entries: tuple[Entry, ...]
    attempts: Mapping[int, Sequence[Attempt]]
    set_aside: tuple[Mapping[str, Any], ...] = ()

    @property
    def log(self) -> BatchLog:
        """From its current plan on."""
        at = max(index for index, entry in enumerate(self.entries) if isinstance(entry, Planned))
        return log_of(self.entries[at:], at + 1)

    @property
    def is_merged(self) -> bool:
        """Whether its rows were merged by key: a later batch has taken the place of those of the same keys."""
        reports = [attempt.report for attempts in self.attempts.values() for attempt in attempts]
        return any(report is not None and report.proof == "merged" for report in reports)

    @property
    def plans(self) -> list[Planned]:
        """Without those that are on record once more."""
        plans = [entry for entry in self.entries if isinstance(entry, Planned)]
        return [now for n, now in enumerate(plans) if not n or now.plan.plan_id != plans[n - 1].plan.plan_id]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a reader of the output has to know of a batch.

    :ivar by: who wrote the entry that shows it.
    :ivar what: the partitions, or the reports' words.
    :ivar count: of offsets, an upper bound of records; ``None`` where they are not counted or not known.
    :ivar decision: whose decision it was, in words; ``None`` where nobody's is known.
    """

    kind: FindingKind
    by: Actor
    at_ms: int
    what: str
    count: int | None = None
    decision: str | None = None

    @property
    def undecided(self) -> bool:
        """Whether records are missing, or there twice, and nobody's decision says so."""
        return self.kind in NEEDS_DECISION and self.decision is None


@dataclass(frozen=True, slots=True)
class AuditedBatch:
    """A batch, and what was found.

    :ivar by: who committed it; of one that is not committed, who holds it. ``at_ms``: when that was.
    :ivar read: how many offsets it has read; an upper bound of its records. 0 until it is committed.
    """

    key: str
    name: str
    state: State
    by: Actor
    at_ms: int
    read: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def is_contiguous(self) -> bool:
        """Whether each partition starts where the batch before has ended."""
        return not any(finding.kind in CHAIN for finding in self.findings)


@dataclass(frozen=True, slots=True)
class OrdinaryBatch:
    """A committed batch in which nothing is found, and nothing between it and the one before.

    :ivar ended: the position after it, as the log has it.
    """

    audited: AuditedBatch
    batch: BatchName
    ended: Mapping[str, Any]

    @property
    def position(self) -> Position:
        found: Position = read_as(Position, self.ended)
        return found


def audit_batches(records: Iterable[BatchRecord | OrdinaryBatch]) -> Iterator[AuditedBatch]:
    """The batches of a log, the oldest first."""
    last: BatchLog | OrdinaryBatch | None = None
    passed: set[str] = set()
    for record, following in pairwise(chain(records, [None])):
        if isinstance(record, OrdinaryBatch):
            last = record
            yield record.audited
        elif record is not None:
            log = record.log
            if following is not None and not log.committed:
                passed.add(log.plan.batch.key)
                yield _passed_by(log)
            else:
                yield _audited(record, log, [*_since(last, log, passed), *_starts(record)])
                passed.clear()
            last = log if log.committed else last


def audit_windows(records: Iterable[BatchRecord]) -> Iterator[AuditedBatch]:
    """Windows stand alone: each is held against its own plans and reads, and against windows with the same offsets."""
    read: dict[tuple[TopicPartition, str | None], list[tuple[int, int, str]]] = defaultdict(list)
    for record in records:
        log = record.log
        plan, by, at_ms = log.plan, log.by, log.at_ms
        findings = [*_starts(record)]
        if late := sum(p.late for p in plan.partitions):
            findings.append(Finding("late", by, at_ms, "records of before it", late))
        if log.unread:
            what = "its times gave these when a run last did it, and its plan lacks them: re_plan reads them"
            findings.append(Finding("gap", by, at_ms, what, log.unread))
        for p in plan.to_read() if log.committed else ():
            there = read[p.topic_partition, plan.found.topic_ids.get(p.topic_partition.topic)]
            for start, end, other in there:
                twice = min(end, p.end_offset) - max(start, p.start_offset)
                if twice > 0:
                    findings.append(Finding("overlap", by, at_ms, f"{p.topic_partition}: {other} has these", twice))
            there.append((p.start_offset, p.end_offset, plan.batch.key))
        yield _audited(record, log, findings)


def days_of(batches: Iterable[AuditedBatch]) -> list[dict[str, object]]:
    """What was done on each day, UTC, by the times of commits; ascending.

    Of each kind of finding the offsets; where none are counted, how often it was found.
    """
    by_day = grouped((iso(batch.at_ms)[:10], batch) for batch in batches)
    return [_total(day, by_day[day]) for day in sorted(by_day)]


def _total(day: str, batches: Sequence[AuditedBatch]) -> dict[str, object]:
    found = [finding for batch in batches for finding in batch.findings]
    counts = dict.fromkeys(KIND_NAMES.values(), 0)
    for finding in found:
        counts[KIND_NAMES[finding.kind]] += 1 if finding.count is None else finding.count
    return {
        "day": day,
        "batches": len(batches),
        "contiguous": sum(batch.is_contiguous for batch in batches),
        "read": sum(batch.read for batch in batches),
        "undecided": sum(finding.undecided for finding in found),
        **counts,
    }


# ── one batch ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _audited(record: BatchRecord, log: BatchLog, findings: Iterable[Finding]) -> AuditedBatch:
    read = log.plan.record_count_upper_bound if log.committed else 0
    state: State = "committed" if log.committed else "not committed"
    found = (*findings, *_commit(log), *_reads(log, record.attempts), *_history(record))
    return AuditedBatch(log.plan.batch.key, name_of(log.plan), state, log.by, log.at_ms, read, found)


def _passed_by(log: BatchLog) -> AuditedBatch:
    found = Finding("passed by", log.by, log.at_ms, "it is not committed in this log, and a later batch is there")
    return AuditedBatch(log.plan.batch.key, name_of(log.plan), "passed by", log.by, log.at_ms, findings=(found,))


# ── against the batch before ──────────────────────────────────────────────────────────────────────────────────────────


def _since(last: BatchLog | OrdinaryBatch | None, log: BatchLog, passed: set[str]) -> Iterator[Finding]:
    """Where the batch goes on, against where the last one that is committed has ended."""
    plan, at = log.plan, log.planned.position
    ended = last.position if last else None
    if last is None or ended is None:
        return
    number, before = plan.batch.number or 0, last.batch
    absent = number - (before.number or 0) - 1 - len(passed)
    if absent > 0:
        what = f"{absent} of the numbers between {before} and {plan.batch}"
        yield Finding("not in the log", plan.by, plan.resolved_at_ms, what)
    # Without the policy, nothing goes on after a batch that the log knows, and does not know as committed.
    decision = "policy group_moved=adopt-group" if plan.batch.after in passed else None
    words = "" if plan.batch.after == before.key else f", after {plan.batch.after}"
    yield from _differences(ended, at, plan.by, plan.resolved_at_ms, decision, f"{before} ended{words}")


def _differences(
    ended: Position, at: Position | None, by: Actor, at_ms: int, decision: str | None, where: str
) -> Iterator[Finding]:
    """One finding for all partitions that lie further, and one for all that lie back."""
    found: dict[FindingKind, dict[TopicPartition, int | None]] = {"gap": {}, "overlap": {}}
    for tp, saved in ended.offsets.items() if at is None or at.cluster_id == ended.cluster_id else ():
        other = at.offsets.get(tp) if at else None
        if at and is_another_log(ended.topic_ids.get(tp.topic), at.topic_ids.get(tp.topic)):
            continue
        if other is None:
            found["gap"][tp] = None
        elif other.offset != saved.offset:
            moved = other.offset - saved.offset
            found["gap" if moved > 0 else "overlap"][tp] = abs(moved)
    for kind, partitions in found.items():
        if partitions:
            counted = None if None in partitions.values() else sum(filter(None, partitions.values()))
            yield Finding(kind, by, at_ms, f"{_words(partitions)} since {where}", counted, decision)


def _words(partitions: Mapping[TopicPartition, int | None]) -> str:
    shown = [f"{tp}: {'all' if partitions[tp] is None else partitions[tp]}" for tp in sorted(partitions)]
    return first_few(shown, 5, "partitions")


# ── between the position and the start ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Step:
    """Offsets of one partition that one plan of the batch has added to those of the plans before."""

    entry: Planned
    count: int
    decision: str | None
    reason: str


def _starts(record: BatchRecord) -> Iterator[Finding]:
    """What lies between the position and the start of each partition, by the plan that first had it."""
    plans = record.plans
    steps: dict[tuple[FindingKind, TopicPartition], list[_Step]] = {}
    came_from: dict[TopicPartition, int] = {}
    for entry in plans:
        saved = _offsets_now(entry)
        for p in entry.plan.partitions:
            at = saved[p.topic_partition].offset if p.topic_partition in saved else None
            if not steps and not p.lost and not p.skipped and at in (None, p.start_offset):
                came_from[p.topic_partition] = p.position
                continue  # most partitions of most batches
            for kind, count in _measured(p, at).items():
                of_it = steps.get((kind, p.topic_partition), [])
                known = sum(step.count for step in of_it)
                if count < known:  # it was planned by new look-ups
                    of_it, known = [], 0
                if count > known:
                    decision = _decision(kind, entry, p, at, came_from.get(p.topic_partition), entry is plans[0])
                    of_it = [*of_it, _Step(entry, count - known, decision, p.start_reason)]
                if of_it or (kind, p.topic_partition) in steps:
                    steps[kind, p.topic_partition] = of_it
            came_from[p.topic_partition] = p.position
    yield from _anew(plans[-1])
    left = {p.topic_partition for p in plans[-1].plan.partitions}
    merged = grouped(
        ((kind, step.entry.plan.plan_id, step.decision), (tp, step))
        for (kind, tp), of_it in steps.items()
        if tp in left
        for step in of_it
    )
    for (kind, _, decision), found in merged.items():
        plan = found[0][1].entry.plan
        counts: dict[TopicPartition, int | None] = {tp: step.count for tp, step in found}
        what = f"{_words(counts)} ({found[0][1].reason})"
        final = "overlap" if kind == "rewind" and decision is None else kind
        yield Finding(final, plan.by, plan.resolved_at_ms, what, sum(step.count for _, step in found), decision)


def _offsets_now(entry: Planned) -> dict[TopicPartition, SavedOffset]:
    """The position that the plan goes on from, in the logs that it reads."""
    position = entry.position
    return in_same_logs(position.offsets, position, entry.plan.found) if position else {}


def _measured(p: PlannedPartition, at: int | None) -> dict[FindingKind, int]:
    """How many offsets of each kind lie between the position and what is read."""
    found: dict[FindingKind, int] = {"lost": p.lost, "skipped": p.skipped, "rewind": 0, "gap": 0, "truncated": 0}
    if at is None:
        return found
    uncounted = p.start_offset - at - (p.lost + p.skipped - p.gap)
    if p.continuity == "truncated":
        found["truncated"] = abs(uncounted)
    elif uncounted:
        found["gap" if uncounted > 0 else "rewind"] = abs(uncounted)
    return found


def _decision(
    kind: FindingKind, entry: Planned, p: PlannedPartition, at: int | None, came_from: int | None, is_first: bool
) -> str | None:
    """Whose decision it was that a plan goes on elsewhere than where the position is.

    :param came_from: the offset that the plan before went on from; ``None``: this plan is the first with the partition.
    """
    plan, reason = entry.plan, entry.plan.reason or ""
    if plan.by.run is None and reason.startswith("reset "):
        return reason
    if kind == "skipped" and reason.startswith("skip"):
        return reason
    if kind == "skipped" and p.skips:  # it was planned anew since
        return f"skip: {p.skips[-1].reason}"
    if plan.restarted and (is_first or reason.startswith("restart ")):
        return f"restart {plan.restarts[-1]}"
    before = at if came_from is None else came_from
    if before is not None and p.position != before:
        return "policy group_moved=adopt-group"
    if kind in ("gap", "rewind"):
        return None
    if before is None and kind == "skipped":
        return f"startup mode {plan.asked.startup or plan.asked.startup_mode}"
    if before is None and entry.position is not None and p.position == p.start_offset:
        return None  # a new partition, of which Kafka has deleted records before anybody saw it
    return "policy data_loss"


def _anew(entry: Planned) -> Iterator[Finding]:
    """Other logs under the same names. What the old ones still had, nobody knows."""
    plan, position = entry.plan, entry.position
    if position is None:
        return
    by, at_ms, restart = plan.by, plan.resolved_at_ms, f"restart {plan.restarts[-1]}" if plan.restarted else None
    if position.cluster_id != plan.found.cluster_id:
        what = f"cluster {plan.found.cluster_id} in the place of {position.cluster_id}"
        yield Finding("re-created", by, at_ms, what, decision=restart or "policy cluster_changed")
    elif anew := topics_made_anew(position.topic_ids, plan.found.topic_ids):
        what = f"{', '.join(sorted(anew))}: what the old log still had is not known"
        yield Finding("re-created", by, at_ms, what, decision=restart or "policy topic_recreated=earliest")


# ── commit, reads, and what was done more than once ───────────────────────────────────────────────────────────────────


def _commit(log: BatchLog) -> Iterator[Finding]:
    """The commit against its plan."""
    committed, plan = log.committed, log.plan
    if committed is None:
        return
    if committed.plan_id != plan.plan_id:
        what = f"it was committed by plan {committed.plan_id}, and its plan is {plan.plan_id}"
        yield Finding("short", committed.by, committed.at_ms, what)
    if not plan.asked.window:
        ended = position_after(plan, log.planned.position)
        where = f"the plan of {plan.batch} ends, by its commit"
        yield from _differences(ended, committed.position, committed.by, committed.at_ms, None, where)
    if committed.set_aside:
        what, count = "bad records are in an output of their own", committed.set_aside
        yield Finding("set aside", committed.by, committed.at_ms, what, count, "bad_records")
    if committed.left_out:
        what, count = "they are no rows, by the row definition", committed.left_out
        yield Finding("left out", committed.by, committed.at_ms, what, count, "where")


def _reads(log: BatchLog, attempts: Mapping[int, Sequence[Attempt]]) -> Iterator[Finding]:
    """The reports against the plan."""
    committed = log.committed
    if committed is None:
        return
    unseen = {split for split in log.plan.splits_with_rows() if not attempts.get(split)}
    if unseen:
        what = f"no Spark job has reported split {', '.join(map(str, sorted(unseen)[:5]))}"
        yield Finding("unproved", committed.by, committed.at_ms, what, decision="require_report=False")
    problems = problems_of_splits(log.plan, attempts)
    against = [line for split, lines in problems.items() if split not in unseen for line in lines]
    if against:
        yield Finding("short", committed.by, committed.at_ms, "; ".join(against[:5]))


def _history(record: BatchRecord) -> Iterator[Finding]:
    """What was planned anew in place, and done once more after its commit."""
    for entry in record.plans[1:]:
        plan = entry.plan
        yield Finding("planned anew", plan.by, plan.resolved_at_ms, plan.reason or "no reason", decision=plan.reason)
    was_committed = False
    for one in record.entries:
        if isinstance(one, Committed):
            was_committed = True
        elif isinstance(one, Taken) and was_committed and one.attempts:
            yield Finding("done twice", one.by, one.at_ms, "into the same place, under the same key")


KIND_NAMES: Mapping[FindingKind, str] = {
    kind: kind.replace(" ", "_").replace("-", "_") for kind in get_args(FindingKind)
}
