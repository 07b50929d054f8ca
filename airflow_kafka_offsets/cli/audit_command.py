"""``audit``: what the log says of each batch, held against the batch before it and against its reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.local_spark import local_spark
from airflow_kafka_offsets.cli.option_values import find_batch, pipeline_asked_for
from airflow_kafka_offsets.cli.printing import Answer, Column, Table, columns
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import AuditFailed, KafkaOffsetsError, refuse
from airflow_kafka_offsets.log.audit import KIND_NAMES, AuditedBatch, days_of
from airflow_kafka_offsets.log.output_audit import output_to_read
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.whole_log import audit_log
from airflow_kafka_offsets.plan.plan import number_named
from airflow_kafka_offsets.request.offset_maps import mapping
from airflow_kafka_offsets.request.problems import parsed
from airflow_kafka_offsets.request.times import iso, parse_timestamp_ms
from airflow_kafka_offsets.spark.sinks.sink_arguments import problems_of

if TYPE_CHECKING:
    from airflow_kafka_offsets.spark.jobs.audit_output import OutputAudit

Row = dict[str, object]


def audit(options: Options) -> Answer:
    """What was found, and the totals of each day; status 1 where nobody's decision says why records are missing."""
    pipeline = pipeline_asked_for(options)
    from_ms, to_ms = _moment(options, pipeline, "from"), _moment(options, pipeline, "to", until_after_ms=1)
    shown, damaged = audit_log(pipeline, from_ms, to_ms)
    undecided = [f"{b.name}: {f.kind} {f.what}" for b in shown for f in b.findings if f.undecided]
    errors: list[KafkaOffsetsError] = [*damaged]
    if undecided:
        errors.append(
            AuditFailed(
                undecided,
                "Nobody's decision in the log says why. kafka-offsets show --batch shows a batch with its entries. "
                "Commit nothing by hand before that is clear.",
            )
        )
    output = _output(options, pipeline, from_ms, to_ms)
    differs = [one for one in output.findings if one.is_wrong] if output else []
    if differs:
        errors.append(
            AuditFailed(
                [f"{one.place.key}, split {one.place.split}: {one.kind}: {one.what}" for one in differs],
                "The output is not as the reports say. Clear the run of each batch: Spark writes it anew.",
            )
        )
    facts: Row = {
        "pipeline_id": pipeline.pipeline_id,
        "work_store": pipeline.store.uri,
        "from_ms": from_ms,
        "to_ms": to_ms,
        "batches": len(shown),
        "contiguous": sum(batch.is_contiguous for batch in shown),
        "read": sum(batch.read for batch in shown),
        "undecided": len(undecided),
        "damaged": len(damaged),
        "output_rows": output.rows if output else None,
    }
    tables = [_findings(shown), _days(shown), *([_in_output(output)] if output else [])]
    return Answer(tables, facts, _summary(facts, len(differs)), errors=errors)


def _output(options: Options, pipeline: PipelineLog, from_ms: int | None, to_ms: int | None) -> OutputAudit | None:
    """What the output has; ``None`` where it is not asked for."""
    given = options.get("sink")
    if given is None:
        return None
    words = parsed("--sink", lambda: mapping(given, '{"format": "parquet", "path": "/lake/orders"}'))
    refuse(problems_of(words))
    to_read = output_to_read(pipeline, words, from_ms, to_ms)
    spark = local_spark(to_read.formats, "--sink reads the output", "then the log alone is audited", cores="*")
    from airflow_kafka_offsets.spark.jobs.audit_output import audit_output

    return audit_output(spark, pipeline.store, to_read)


def _moment(options: Options, pipeline: PipelineLog, name: str, until_after_ms: int = 0) -> int | None:
    """A time, or that of a batch's commit; ``None``: not given.

    :param until_after_ms: how long after its commit the batch that is named counts.
    """
    value = options.get(name)
    if value is None:
        return None
    if number_named(value):
        return find_batch(pipeline, value).log.at_ms + until_after_ms
    return parsed(f"--{name}", lambda: parse_timestamp_ms(value, now_ms=now_ms()))


def _findings(batches: Sequence[AuditedBatch]) -> Table:
    rows: list[Row] = [
        {
            "batch": batch.name,
            "finding": finding.kind,
            "offsets": finding.count,
            "what": finding.what,
            "decision": finding.decision,
            "undecided": finding.undecided,
            "by": str(finding.by),
            "at": iso(finding.at_ms),
            "airflow": finding.by.instance,
            "key": batch.key,
        }
        for batch in batches
        for finding in batch.findings
    ]
    shown = columns("batch", "finding", "offsets", "what", "decision", "by", "at")
    return Table([*shown, *columns("undecided", "airflow", "key", for_people=False)], rows, "findings")


def _days(batches: Sequence[AuditedBatch]) -> Table:
    """A column for each kind; people see those that there are."""
    days = days_of(batches)
    kinds = [Column(name, for_people=any(day[name] for day in days)) for name in KIND_NAMES.values()]
    return Table([*columns("day", "batches", "contiguous", "read"), *kinds, Column("undecided")], days, "days")


def _in_output(output: OutputAudit) -> Table:
    shown = columns("key", "split", "topic", "partition", "finding", "rows", "what")
    return Table(shown, [one.to_dict() for one in output.findings], "output")


def _summary(facts: Row, wrong_in_output: int) -> str:
    looked = f"{facts['batches']} batches, {facts['contiguous']} of them contiguous: up to {facts['read']} records read"
    wrong = f"{facts['undecided']} findings that nobody has decided" if facts["undecided"] else "all is accounted for"
    damaged = f"; {facts['damaged']} could not be read" if facts["damaged"] else ""
    output = (
        "What the output holds was not looked at"
        if facts["output_rows"] is None
        else f"The output has {facts['output_rows']} rows of them, and {wrong_in_output or 'no'} differences"
    )
    return f"{looked}; {wrong}{damaged}. {output}"
