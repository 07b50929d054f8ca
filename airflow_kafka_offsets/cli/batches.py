"""A stored batch in words: who has done it, its log entry by entry, and whether each of its splits was read."""

from __future__ import annotations

import re

from airflow_kafka_offsets.cli.render import Table
from airflow_kafka_offsets.offsets.batch.log import BatchLog, Committed, Entry, Planned, Taken
from airflow_kafka_offsets.offsets.plan.plan import Plan
from airflow_kafka_offsets.offsets.reads.verify import PROVED, unverified
from airflow_kafka_offsets.offsets.request.times import iso
from airflow_kafka_offsets.offsets.window.claims import claim_of
from airflow_kafka_offsets.stores.pipeline_log import StoredBatch
from airflow_kafka_offsets.stores.reads import deciding_attempts


def name_of(plan: Plan) -> str:
    """``batch 7``, or ``window 2026-11-20T10:00Z to 2026-11-20T11:00Z``."""
    return str(claim_of(plan) if plan.asked.window else plan.batch)


def by_whom(log: BatchLog) -> str:
    """Who committed the batch; if nobody has, who holds it."""
    return str(log.committed.by if log.committed else log.holder)


def since_when(log: BatchLog) -> int:
    """When that was, in epoch milliseconds."""
    if log.committed:
        return log.committed.at_ms
    taken = [entry.at_ms for entry in log.later if isinstance(entry, Taken)]
    return taken[-1] if taken else log.plan.resolved_at_ms


def facts_of(batch: StoredBatch) -> dict[str, object]:
    """The facts of the whole batch, for JSON."""
    log, plan = batch.log, batch.log.plan
    return {
        "key": plan.batch.key if plan.batch else None,
        "number": plan.batch.number if plan.batch else None,
        "after": plan.batch.after if plan.batch else None,
        "window": plan.asked.window_bounds,
        "plan_id": plan.plan_id,
        "committed": log.committed is not None,
        "by": by_whom(log),
        "at": iso(since_when(log)),
        "group_id": plan.asked.group_id,
        "output": plan.asked.output,
        "stored_as": batch.name,
        "record_count_upper_bound": plan.record_count_upper_bound,
        "lost": plan.lost,
        "skipped": plan.skipped,
        "warnings": list(plan.warnings),
    }


def entries_of(batch: StoredBatch) -> Table:
    """The batch's log from its first plan on; :class:`BatchLog` begins with the current one."""
    rows: list[tuple[object, ...]] = []
    committed = False
    for number, entry in batch.entries():
        rows.append((number, iso(_at(entry)), entry.by.instance, _words(entry, first=number == 1, again=committed)))
        committed = isinstance(entry, Committed) or (committed and isinstance(entry, Taken))
    return Table(("entry", "at", "airflow", "what"), rows, "entries", hidden=("airflow",))


def _at(entry: Entry) -> int:
    return entry.plan.resolved_at_ms if isinstance(entry, Planned) else entry.at_ms


def _words(entry: Entry, *, first: bool, again: bool) -> str:
    match entry:
        case Planned(plan=plan):
            count = len(plan.to_read())
            words = (
                f"planned{'' if first else ' anew'} by {entry.by}: up to {plan.record_count_upper_bound} records of "
                f"{count} partition{'s' * (count != 1)}"
            )
            told = [f"{plan.lost} lost"] * bool(plan.lost) + [f"{plan.skipped} skipped"] * bool(plan.skipped)
            return "; ".join([", ".join([words, *told]), *([plan.reason] if plan.reason else [])])
        case Taken(by=by):
            return f"{'being done once more' if again else 'taken'} by {by}"
        case Committed(by=by):
            return f"committed by {by}"


def splits_of(batch: StoredBatch) -> Table:
    """Whether each split that was started is verified, by its read reports, and what speaks against it."""
    plan = batch.log.plan
    attempts = deciding_attempts(batch)
    problems = unverified(plan, attempts)
    rows: list[tuple[object, ...]] = []
    for split, deciding in attempts.items():
        said = [problem[found.end() :] for problem in problems if (found := re.match(rf"split {split}[:,] ", problem))]
        report = deciding[0].report if deciding else None
        rows.append(
            (
                split,
                deciding[0].number if deciding else None,
                not said,
                sum(read.row_count for read in report.partitions.values()) if report else None,
                PROVED[report.proof] if report else None,
                report.output if report else None,
                "; ".join(said) or None,
            )
        )
    columns = ("split", "attempt", "verified", "rows", "proof", "output", "problem")
    return Table(columns, rows, "splits", absent={"problem": ""})


def is_verified(splits: Table) -> bool:
    return all(row["verified"] for row in splits.to_dicts())


def ranges_of(plan: Plan) -> Table:
    """The plan's partitions, each with its range and the reasons."""
    columns = "topic,partition,log start,committed,start,end,records,lost,skipped,start reason,end reason"
    rows = [
        (
            p.topic_partition.topic,
            p.topic_partition.partition,
            p.log_start_offset,
            p.committed_offset,
            p.start_offset,
            p.end_offset,
            p.range.size,
            p.lost,
            p.skipped,
            p.start_reason,
            p.end_reason,
        )
        for p in plan.partitions
    ]
    return Table(columns.split(","), rows, absent={"committed": ""})
