"""``audit``: whether the batches of a log join, what was given up and by whose decision, totals by day.

``--sql`` prints the Spark SQL that compares an output with the log: offsets missing, there twice, or of no batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

import click

from airflow_kafka_offsets.cli.call import CHECKPOINT, PIPELINE, Call, command, option
from airflow_kafka_offsets.cli.printing import Answer, Row, Table
from airflow_kafka_offsets.engine.audit import Audited, findings, read_log
from airflow_kafka_offsets.engine.history import decision_row
from airflow_kafka_offsets.errors import counted
from airflow_kafka_offsets.kafka_values import OffsetRange, grouped
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.times import iso

_DAYS = "day batches offsets rows bad filtered lost skipped again"


def audit(call: Call) -> Answer:
    """Whether the batches join, and what was given up.

    Exit status 1 where records are in no batch or in two, or a committed batch does not verify, and no recorded
    decision says so. The output itself is not read: --sql prints the query that compares it with the log.
    """
    log, newest, first = call.log, call.newest(), call["from_batch"]
    if call["sql"] is not None:
        text = _sql(log.pipeline_id, read_log(log, newest, first), call["sql"])
        return Answer(text, {"pipeline": log.pipeline_id, "sql": text})
    audited: list[Audited] = []

    def noted() -> Iterator[Audited]:
        for one in read_log(log, newest, first):
            audited.append(one.without_partitions)
            yield one

    wrong: list[Row] = [finding._asdict() for finding in sorted(findings(noted()), key=attrgetter("batch"))]
    given_up = [{"batch": one.batch.number, **decision_row(d)} for one in audited for d in one.body.decisions]
    stretches = () if newest.is_cleaned else log.first_body(newest).covered
    begin = next((one.batch for one in audited if not one.batch.is_cleaned), newest)
    starts = stretches[0].start_cut if stretches else log.body(begin).resume_from
    facts = {
        "pipeline": log.pipeline_id,
        "batches": len(audited),
        "begins_at": begin.number,
        "starts": [{"partition": str(tp), "offset": at.offset} for tp, at in sorted(starts.items())],
        "unfinished": [one.batch.number for one in audited if not one.batch.is_committed],
        "not_planned": [[iso(one.end_ms), iso(other.start_ms)] for one, other in pairwise(stretches)],
    }
    tables = [
        Table("findings", wrong, "batch what"),
        Table("given_up", given_up, "batch partition start end kind by"),
        Table("days", _days([one.batch for one in audited]), _DAYS),
    ]
    return Answer(_in_words(facts, len(wrong), first), facts, tables, exit_status=1 if wrong else 0)


def _in_words(facts: Row, wrong: int, first: int) -> str:
    found = f"{counted(wrong, 'finding')} without a recorded decision" if wrong else "they join, and nothing is missing"
    lines = [f"Pipeline {facts['pipeline']}, {counted(facts['batches'], 'batch')}: {found}."]
    if facts["begins_at"] > first:
        before = "Of earlier ones only totals are left, the rest was cleaned."
    elif first > 1:
        before = "Batches before it were not audited."
    else:
        before = "Records before its start offsets, which --output json lists, are in no batch."
    lines.append(f"The log begins at batch {facts['begins_at']}. {before}")
    lines += [f"Batch {number} is not committed." for number in facts["unfinished"]]
    return "\n".join(lines + [f"No window was planned from {start} to {end}." for start, end in facts["not_planned"]])


def _days(batches: Sequence[Batch]) -> list[Row]:
    """Totals by the day (UTC) of the last commit."""
    by_day = grouped((iso(batch.commits[-1].at_ms)[:10], batch) for batch in batches if batch.commits)
    return [
        {
            "day": day,
            "batches": len(of_day),
            "offsets": sum(batch.plan.offsets for batch in of_day),
            **{name: sum(getattr(b.commits[-1], name) for b in of_day) for name in ("rows", "bad", "filtered")},
            **{kind: sum(b.plan.given_up.get(kind, 0) for b in of_day) for kind in ("lost", "skipped", "again")},
        }
        for day, of_day in sorted(by_day.items())
    ]


# ── --sql ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_SQL = """\
-- {table} beside the log of pipeline {pipeline}, from batch {first} on. No row in the answer: they agree.
-- A batch without a report counts as if each planned offset were a row.
WITH log_ranges AS (
  SELECT * FROM VALUES
{ranges}
  AS (kafka_batch, topic, `partition`, first, next)
), log_rows AS (
  SELECT * FROM VALUES
{rows}
  AS (kafka_batch, topic, `partition`, expected)
), output_rows AS (
  SELECT kafka_batch, topic, `partition`, `offset`, count(*) AS times FROM {table}
  WHERE kafka_batch >= '{first}'{unfinished} GROUP BY kafka_batch, topic, `partition`, `offset`
), planned_rows AS (
  SELECT o.* FROM output_rows o LEFT SEMI JOIN log_ranges r ON o.kafka_batch = r.kafka_batch AND o.topic = r.topic
    AND o.`partition` = r.`partition` AND o.`offset` >= r.first AND o.`offset` < r.next
)
SELECT 'missing' AS finding, l.kafka_batch, l.topic, l.`partition`, l.expected - count(p.`offset`) AS offsets
FROM log_rows l LEFT JOIN planned_rows p ON l.kafka_batch = p.kafka_batch AND l.topic = p.topic
  AND l.`partition` = p.`partition`
GROUP BY l.kafka_batch, l.topic, l.`partition`, l.expected HAVING count(p.`offset`) < l.expected
UNION ALL
SELECT 'there twice', max(kafka_batch), topic, `partition`, count(*) FROM (
  SELECT max(kafka_batch) AS kafka_batch, topic, `partition`, `offset` FROM output_rows
  GROUP BY topic, `partition`, `offset` HAVING sum(times) > 1
) GROUP BY topic, `partition`
UNION ALL
SELECT 'of no batch', o.kafka_batch, o.topic, o.`partition`, count(*) FROM output_rows o LEFT ANTI JOIN planned_rows p
  ON o.kafka_batch = p.kafka_batch AND o.topic = p.topic AND o.`partition` = p.`partition` AND o.`offset` = p.`offset`
GROUP BY o.kafka_batch, o.topic, o.`partition`
ORDER BY finding, kafka_batch, topic, `partition`;"""
_NO_RANGE, _NO_ROW = "    ('', '', -1, 0L, 0L)", "    ('', '', -1, 0L)"


def _sql(pipeline: str, audited: Iterable[Audited], table: str) -> str:
    """
    :param table: as Spark reads it: ``lake.orders``, ``delta.`/lake/orders```.
    """
    keys, unfinished, ranges, rows = list[str](), list[str](), list[str](), list[str]()
    for one in audited:
        if one.batch.is_cleaned:
            continue
        keys.append(one.batch.plan.key)
        if one.batch.is_committed:
            ranges += _ranges(one)
            rows += _rows(one)
        else:
            unfinished.append(one.batch.plan.key)
    return _SQL.format(
        table=table,
        pipeline=pipeline,
        first=keys[0] if keys else "~",
        ranges=",\n".join(ranges) or _NO_RANGE,
        rows=",\n".join(rows) or _NO_ROW,
        unfinished="".join(f" AND kafka_batch <> '{key}'" for key in unfinished),
    )


def _ranges(one: Audited) -> Iterator[str]:
    for tp, planned in sorted(one.body.ranges.items()):
        for part in OffsetRange(planned.start, planned.end).without(one.body.skips.get(tp, ())):
            where = f"'{one.batch.plan.key}', '{tp.topic}', {tp.partition}"
            yield f"    ({where}, {part.start_offset}L, {part.end_offset}L)"


def _rows(one: Audited) -> Iterator[str]:
    """How many rows of each partition are in the output: as reported, without bad and filtered records."""
    report = one.verdict.report if one.verdict else None
    for tp in sorted(one.body.ranges):
        rows = one.body.planned(tp) if report is None else report.counts[tp].rows if tp in report.counts else 0
        if rows:
            yield f"    ('{one.batch.plan.key}', '{tp.topic}', {tp.partition}, {rows}L)"


audit_command = command(
    audit,
    "audit orders --sql lake.orders",
    PIPELINE,
    option("--sql", "Print the Spark SQL that compares this output with the log.", metavar="TABLE"),
    option("--from-batch", "Leave earlier batches out.", type=click.IntRange(1), default=1, metavar="N"),
    CHECKPOINT,
)
