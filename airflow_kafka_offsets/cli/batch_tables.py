"""A stored batch in words: who has done it, its log entry by entry, and whether each of its splits was read."""

from __future__ import annotations

from airflow_kafka_offsets.cli.printing import Column, Table, columns, in_time
from airflow_kafka_offsets.log.entries import Committed, Entry, Planned, Taken
from airflow_kafka_offsets.log.pipeline_log import StoredBatch
from airflow_kafka_offsets.log.read_reports import deciding_attempts
from airflow_kafka_offsets.log.verify_reads import PROVED, Fates, fates_of, problems_of_splits
from airflow_kafka_offsets.plan.plan import Draft, PlannedPartition
from airflow_kafka_offsets.request.times import iso


def facts_of(batch: StoredBatch) -> dict[str, object]:
    """The facts of the whole batch, for JSON."""
    log, plan = batch.log, batch.log.plan
    return {
        "key": plan.batch.key,
        "number": plan.batch.number,
        "after": plan.batch.after,
        "window": plan.asked.window_bounds,
        "plan_id": plan.plan_id,
        "committed": log.committed is not None,
        "by": str(log.by),
        "at": iso(log.at_ms),
        "group_id": plan.asked.group_id,
        "output": plan.asked.output,
        "stored_as": batch.name,
        "record_count_upper_bound": plan.record_count_upper_bound,
        "lost": plan.lost,
        "skipped": plan.skipped,
        "warnings": list(plan.warnings),
    }


_ONCE_MORE = "the same plan once more, which stops its drivers before another one replaces it"


def entries_of(batch: StoredBatch) -> Table:
    """The batch's log from its first plan on; :class:`BatchLog` begins with the current one."""
    rows: list[dict[str, object]] = []
    committed, plan_id = False, None
    for number, entry in batch.entries():
        at_ms = entry.plan.resolved_at_ms if isinstance(entry, Planned) else entry.at_ms
        once_more = isinstance(entry, Planned) and entry.plan.plan_id == plan_id
        what = _ONCE_MORE if once_more else _words(entry, first=number == 1, again=committed)
        plan_id = entry.plan.plan_id if isinstance(entry, Planned) else plan_id
        rows.append({"entry": number, "at": iso(at_ms), "airflow": entry.by.instance, "what": what})
        committed = isinstance(entry, Committed) or (committed and isinstance(entry, Taken))
    return Table([*columns("entry", "at"), Column("airflow", for_people=False), Column("what")], rows, "entries")


def _words(entry: Entry, *, first: bool, again: bool) -> str:
    match entry:
        case Planned(plan=plan):
            count = len(plan.to_read())
            words = (
                f"planned{'' if first else ' anew'} by {entry.by}: up to {plan.record_count_upper_bound} records of "
                f"{count} partition{'s' * (count != 1)}"
            )
            left_out = [f"{plan.lost} lost"] * bool(plan.lost) + [f"{plan.skipped} skipped"] * bool(plan.skipped)
            return "; ".join([", ".join([words, *left_out]), *([plan.reason] if plan.reason else [])])
        case Taken(by=by):
            return f"{'being done once more' if again and entry.attempts else 'taken'} by {by}"
        case Committed(by=by):
            fates = str(Fates(entry.set_aside, entry.left_out))
            return "; ".join(filter(None, (f"committed by {by}", fates)))


def splits_of(batch: StoredBatch) -> Table:
    """Whether each split that was started is verified, by its read reports, and what speaks against it."""
    attempts = deciding_attempts(batch)
    problems = problems_of_splits(batch.log.plan, attempts)
    rows: list[dict[str, object]] = []
    for split, deciding in attempts.items():
        report, fates = deciding[0].report if deciding else None, fates_of({split: deciding})
        rows.append(
            {
                "split": split,
                "attempt": deciding[0].number if deciding else None,
                "verified": not problems[split],
                "rows": sum(read.row_count for read in report.partitions.values()) if report else None,
                "set_aside": fates.set_aside if report else None,
                "left_out": fates.left_out if report else None,
                "proof": PROVED[report.proof] if report else None,
                "output": report.output if report else None,
                "row_definition": report.rows if report else None,
                "problem": "; ".join(problems[split]) or None,
            }
        )
    names = ("split", "attempt", "verified", "rows", "set_aside", "left_out", "proof", "output")
    shown = [*columns(*names), Column("problem", absent=""), Column("row_definition", for_people=False)]
    return Table(shown, rows, "splits")


def is_verified(splits: Table) -> bool:
    return all(row["verified"] for row in splits.rows)


def range_row(p: PlannedPartition) -> dict[str, object]:
    """One partition's range, and the reasons."""
    return {
        "topic": p.topic_partition.topic,
        "partition": p.topic_partition.partition,
        "log_start": p.log_start_offset,
        "committed": p.committed_offset,
        "start": p.start_offset,
        "end": p.end_offset,
        "records": p.size,
        "lost": p.lost,
        "skipped": p.skipped,
        "past_end": p.past_end,
        "held_back": p.held_back,
        "margin_ms": p.margin_ms,
        "start_reason": p.start_reason,
        "end_reason": p.end_reason,
    }


def ranges_of(plan: Draft) -> Table:
    """The plan's partitions, each with its range and the reasons."""
    rows = [range_row(p) for p in plan.partitions]
    shown = [
        *columns("topic", "partition", "log_start"),
        Column("committed", absent=""),
        *columns("start", "end", "records", "lost", "skipped"),
        *(Column(name, for_people=any(row[name] for row in rows)) for name in ("past_end", "held_back")),
        in_time("margin_ms", "time until retention", for_people=any(row["margin_ms"] is not None for row in rows)),
        *columns("start_reason", "end_reason"),
    ]
    return Table(shown, rows)
