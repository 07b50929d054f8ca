# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""``audit``: what the log of a pipeline decided, and which offsets a table has, has twice, or lacks.

A table is audited in two steps: ``--table`` prints a query for where the table is, and its answer is compared with
Kafka, or with the log of the pipeline that wrote the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import click

from airflow_kafka_offsets.broker.protocol import SEEKS
from airflow_kafka_offsets.cli.call import CHECKPOINT, CLUSTER, Call, command, option
from airflow_kafka_offsets.cli.printing import Answer, Row, Table, say
from airflow_kafka_offsets.cli.table_audit import Found, Run, Stretch, doubled, gaps, look_up, query, read_answer
from airflow_kafka_offsets.cli.world import read_text
from airflow_kafka_offsets.engine.history import decision_row
from airflow_kafka_offsets.errors import InvalidRequest, counted
from airflow_kafka_offsets.kafka_values import OffsetRange, TopicPartition, grouped, values_by_topic
from airflow_kafka_offsets.log.entries import Batch
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.plan.body import Decision, PlanBody
from airflow_kafka_offsets.times import iso

_WORDS = ("lost", "never_there", "cannot_be_told", "doubled")
_DAYS = "day batches offsets rows bad filtered lost skipped again"
_WHAT = "What to audit? Give PIPELINE, or --table and its columns, or @FILE, the answer of the query."


def audit(call: Call) -> Answer:
    """Decisions and totals of a pipeline; or the offsets of a table.

    For any table, --table prints a query for its offsets; columns are SQL over the table, named t. Save the answer as
    CSV or JSON. audit @FILE asks Kafka about its gaps; audit PIPELINE @FILE compares it with the log. Exit status 1 if
    records are lost or doubled, or if table and log disagree.
    """
    pipeline, file = call["pipeline"], call["file"]
    if file is None and pipeline is not None and pipeline.startswith("@"):
        pipeline, file = None, pipeline
    if (call["table"] is None) == (pipeline is None and file is None):
        raise InvalidRequest((_WHAT,))
    if call["table"] is not None:
        return _query(call)
    if file is None:
        return _decisions(call)
    try:
        found = read_answer(read_text(file.removeprefix("@")))
    except ValueError as error:
        raise InvalidRequest((f"@FILE {error}.",)) from None
    if call["ends"]:
        return _ends(found)
    return _beside_kafka(call, found) if pipeline is None else _beside_the_log(call, found)


def _query(call: Call) -> Answer:
    since = call["since"]
    if since is not None and call["day"] is None:
        raise InvalidRequest(("--since needs --day: the column that says of which day a row is.",))
    columns = {"topic": call["topic"], "part": call["partition"], "off": call["offset"]}
    text = query(call["table"], columns | {"batch": call["batch"], "day": call["day"]}, since and since.date())
    return Answer(text, {"sql": text})


# ── the log of a pipeline ─────────────────────────────────────────────────────────────────────────────────────────────


def _decisions(call: Call) -> Answer:
    log, newest, first = call.log, call.newest(), call["from_batch"]

    def read(batch: Batch) -> tuple[Batch, Sequence[Decision]]:
        return batch, () if batch.is_cleaned else log.body(batch).decisions

    found = list(log.read_each(range(first, newest.number + 1), read))
    stretches = () if newest.is_cleaned else log.first_body(newest).covered
    not_planned = [[iso(one.end_ms), iso(other.start_ms)] for one, other in pairwise(stretches)]
    unfinished = [batch.number for batch, _ in found if not batch.is_committed]
    lines = [f"Pipeline {log.pipeline_id}, {counted(len(found), 'batch')}."]
    if cleaned := sum(batch.is_cleaned for batch, _ in found):
        lines.append(f"Of {counted(cleaned, 'batch')} only totals are left, the rest was cleaned.")
    lines += [f"Batch {number} is not committed." for number in unfinished]
    lines += [f"No window was planned from {start} to {end}." for start, end in not_planned]
    given_up = [{"batch": batch.number, **decision_row(d)} for batch, decisions in found for d in decisions]
    facts = {"pipeline": log.pipeline_id, "batches": len(found), "unfinished": unfinished, "not_planned": not_planned}
    days = Table("days", _days([batch for batch, _ in found]), _DAYS)
    return Answer("\n".join(lines), facts, [Table("given_up", given_up, "batch partition start end kind by"), days])


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


# ── a table beside Kafka ──────────────────────────────────────────────────────────────────────────────────────────────


def _beside_kafka(call: Call, found: Found) -> Answer:
    missing, surplus = list(gaps(found.runs)), list(doubled(found.runs))
    if len(missing) > SEEKS:
        of_partition = grouped((gap.tp, gap) for gap in missing).values()
        records = sum(of_tp[-1].end_offset - of_tp[0].start_offset for of_tp in of_partition)
        say(f"{len(missing):,} gaps: each partition is read from its first one to its last, up to "
            f"{counted(records, 'record')}.")  # fmt: skip
    rows = [_stretch_row(stretch, doubled=stretch.size) for stretch in surplus]
    if missing:
        with call.cluster() as kafka:
            rows += [_stretch_row(gap, **counts) for gap, counts in look_up(kafka, missing, found.runs)]
    by_day = grouped(((row["partition"], row["day"]), row) for row in rows)
    days = [{"partition": tp, "day": day, **_totals(of_day)} for (tp, day), of_day in by_day.items()]
    totals, size = _totals(rows), sum(run.end_offset - run.start_offset for run in found.runs)
    words = ", ".join(f"{totals[word]:,} {word.replace('_', ' ')}" for word in _WORDS)
    text = f"{counted(size, 'offset')} in {counted(len({run.tp for run in found.runs}), 'partition')}: {words}."
    tables = [
        Table("days", days, f"partition day {' '.join(_WORDS)}"),
        Table("stretches", rows if call["output"] == "json" else [r for r in rows if r["lost"] or r["doubled"]],
              f"partition start end day {' '.join(_WORDS)}"),
        Table("batches", _batches(found) if found.has_batches else [], "batch partition start end rows"),
    ]  # fmt: skip
    notes = [f"{counted(found.unplaced, 'row')} without topic, partition or offset."] if found.unplaced else []
    return Answer(text, totals, tables, notes, exit_status=1 if totals["lost"] or totals["doubled"] else 0)


def _stretch_row(stretch: Stretch, **counts: int) -> Row:
    ends = {"start": stretch.start_offset, "end": stretch.end_offset, "day": stretch.day}
    return {"partition": str(stretch.tp), **ends, **dict.fromkeys(_WORDS, 0), **counts}


def _totals(rows: Sequence[Row]) -> dict[str, int]:
    return {word: sum(row[word] for row in rows) for word in _WORDS}


def _batches(found: Found) -> list[Row]:
    """Which batches the table has, from which to which offset."""
    return [
        {
            "batch": batch,
            "partition": str(tp),
            "start": min(run.start_offset for run in runs),
            "end": max(run.end_offset for run in runs),
            "rows": sum(run.rows for run in runs),
        }
        for (batch, tp), runs in sorted(grouped(((run.batch or "", run.tp), run) for run in found.runs).items())
    ]


def _ends(found: Found) -> Answer:
    """Where a pipeline starts that continues the table."""
    ends: dict[TopicPartition, int] = {}
    for run in found.runs:
        ends[run.tp] = max(run.end_offset, ends.get(run.tp, 0))
    offsets, start = values_by_topic(ends), {str(tp): ends[tp] for tp in sorted(ends)}
    specific = f'start=SpecificOffsets({json.dumps(offsets)}, otherwise="earliest")'
    return Answer(f'{specific}\n"reset": {json.dumps({"start": start})}', {"offsets": offsets, "start": start})


# ── a table beside the log of its pipeline ────────────────────────────────────────────────────────────────────────────


def _beside_the_log(call: Call, found: Found) -> Answer:
    if not found.has_batches:
        problem = "The answer has no column batch: ask with --batch t.kafka_batch, to compare the table with a log."
        raise InvalidRequest((problem,))
    log, first = call.log, call["from_batch"]
    runs = grouped((run.batch, run) for run in found.runs)
    findings = [{"finding": "no key", "offsets": sum(run.rows for run in runs.pop(None, []))}]
    findings += [{"finding": "no offset", "offsets": found.unplaced}]

    def read(batch: Batch) -> tuple[Batch, PlanBody | None, Mapping[TopicPartition, int] | None]:
        if batch.number < first or batch.is_cleaned or not batch.is_committed:
            return batch, None, None
        return batch, log.body(batch), _reported(log, batch)

    compared = 0
    for batch, body, rows in log.read_each(range(1, call.newest().number + 1), read):
        of_batch = runs.pop(batch.plan.key, [])
        if body is not None:
            compared += 1
            findings += ({"batch": batch.plan.key, **row} for row in _compare(body, rows, of_batch))
    adopted = max(call.newest().plan.adopted.values(), default="")  # of the log that this one continues
    for key, of_key in sorted((str(key), of_key) for key, of_key in runs.items() if str(key) > adopted):
        by_tp = grouped((str(run.tp), run.rows) for run in of_key).items()
        findings += ({"finding": "of another log", "batch": key, "partition": tp, "offsets": sum(n)} for tp, n in by_tp)
    findings = [finding for finding in findings if finding["offsets"]]
    text = f"Pipeline {log.pipeline_id}, {counted(compared, 'batch')}: "
    text += f"{counted(len(findings), 'finding')}." if findings else "the table has what the log says."
    table = Table("findings", findings, "finding batch partition offsets")
    return Answer(text, {"pipeline": log.pipeline_id, "batches": compared}, [table], exit_status=1 if findings else 0)


def _reported(log: PipelineLog, batch: Batch) -> Mapping[TopicPartition, int] | None:
    """The rows that the last attempt has counted. ``None``: the pipeline asks for no report."""
    if not batch.plan.require_report:
        return None
    reports = [log.report(batch, attempt) for attempt in batch.attempts[-1:]]
    return {tp: counts.rows for report in reports for tp, counts in report.counts.items()}


def _compare(body: PlanBody, rows: Mapping[TopicPartition, int] | None, found: Sequence[Run]) -> Iterator[Row]:
    """What a table has of a committed batch beside its plan and its report.

    :param rows: as reported, without bad and filtered records; ``None``: each planned offset is a row.
    """
    by_tp = grouped((run.tp, run) for run in found)
    for tp in sorted(body.ranges.keys() | by_tp.keys()):
        of_tp = by_tp.get(tp, [])
        there = [OffsetRange(run.start_offset, run.end_offset) for run in of_tp]
        planned = body.ranges.get(tp)
        parts = OffsetRange(planned.start, planned.end).without(body.skips.get(tp, ())) if planned else []
        absent = sum(left.size for part in parts for left in part.without(there))
        inside = sum(part.size for part in parts) - absent
        expected = body.planned(tp) if rows is None and planned else (rows or {}).get(tp, 0)
        outside = sum(left.size for one in there for left in one.without(parts))
        surplus = sum(stretch.size for stretch in doubled(of_tp))
        for finding, count in (("missing", expected - inside), ("doubled", surplus), ("of no batch", outside)):
            if count > 0:
                yield {"finding": finding, "partition": str(tp), "offsets": count}


audit_command = command(
    audit,
    "audit --table lake.x --topic \"'orders'\" --partition t.kafka.partition --offset t.kafka.offset --day t.ts",
    click.Argument(["pipeline"], required=False),
    click.Argument(["file"], required=False, metavar="[@FILE]"),
    option("--table", "Print the query over this table, for Spark, DuckDB and Trino.", metavar="TABLE"),
    option("--topic", "With --table: column or constant.", metavar="SQL", default="t.topic", show_default=True),
    option("--partition", "With --table: column.", metavar="SQL", default="t.partition", show_default=True),
    option("--offset", "With --table: column.", metavar="SQL", default="t.offset", show_default=True),
    option("--batch", "With --table: the batch, such as t.kafka_batch.", metavar="SQL"),
    option("--day", "With --table: a date or a timestamp; findings by day.", metavar="SQL"),
    option("--since", "With --day: exclude earlier days.", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE"),
    option("--ends", "Print the start of a pipeline that continues the table.", is_flag=True),
    option("--from-batch", "Exclude earlier batches of PIPELINE.", type=click.IntRange(1), default=1, metavar="N"),
    *CLUSTER,
    CHECKPOINT,
)
