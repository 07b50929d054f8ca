"""``redo``: which run wrote a committed batch, whether it can be written again, and how."""

from __future__ import annotations

import shlex

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.batch_tables import by_whom, facts_of, name_of
from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.option_values import batch_asked_for, client_config, me, pipeline_asked_for
from airflow_kafka_offsets.cli.printing import Answer, Table, columns
from airflow_kafka_offsets.errors import NoPosition
from airflow_kafka_offsets.offsets.plan.splits import split_plan
from airflow_kafka_offsets.offsets.request.times import iso
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.redo import look_at_redo, take_for_redo


def redo(options: Options) -> Answer:
    """The batch, and the two ways to write it again: clear its run, or ``--execute`` and submit the Spark jobs.

    1 where its records are gone.
    """
    config = client_config(options)
    pipeline = pipeline_asked_for(options)
    batch = batch_asked_for(options, pipeline)
    if batch is None:
        raise NoPosition(["That run had nothing to do"], "So there is nothing to do again.")
    dry_run = not options.get("execute")
    with KafkaCluster(config) as cluster:
        found = look_at_redo(batch, cluster, me(options))
        if not dry_run and found.splits:
            found = take_for_redo(found, cluster, me(options), now_ms=now_ms())
    plan, log, refusal = found.batch.log.plan, found.batch.log, found.refusal()
    key, run = plan.batch.key if plan.batch else "", log.committed.by.run if log.committed else None
    # The run that committed a batch does it again when it is cleared; nothing has to be in its conf for that.
    cleared = run and not refusal and f"airflow dags clear {shlex.quote(run.dag_id)} --run-id {shlex.quote(run.run_id)}"
    arguments = {} if dry_run or refusal else found.arguments(config.get("bootstrap.servers"))
    partitions, row_filter = split_plan(plan), f"kafka_batch = '{key}'"
    rows = [
        {
            "split": split,
            "records": sum(p.range.size for p in partitions[split]),
            "row_filter": f"{row_filter} AND kafka_split = {split}",
        }
        for split in found.splits
    ]
    facts = {
        "pipeline_id": pipeline.pipeline_id,
        **facts_of(found.batch),
        "run": run and {name: getattr(run, name) for name in ("dag_id", "run_id", "task_id", "map_index")},
        "records_there": refusal is None,
        "gone": found.records.lines,
        "row_filter": row_filter,
        "airflow": cleared or None,
        "arguments": {str(split): words for split, words in arguments.items()},
        "dry_run": dry_run,
    }
    lines = [
        f"{name_of(plan)} of pipeline {pipeline.pipeline_id!r}: committed by {by_whom(log)}, {facts['at']}",
        f"output: {plan.output or 'not named in the plan'}, where {row_filter}",
        f"records: {'gone from Kafka' if refusal else 'all of them are still in Kafka'}",
        *([f"{log.redone.by} is doing it once more since {iso(log.redone.at_ms)}"] if dry_run and log.redone else []),
        *([f"in Airflow: {cleared}"] if cleared and found.splits else []),
        *([] if found.splits else ["It has no records, and no split to start."]),
    ]
    now_yours = (
        "The batch is yours now. Submit the pipeline's Spark job once for each split, with these arguments beside its "
        f"own. Then kafka-offsets commit --batch {key} says whether all of it was written again."
    )
    to_do = bool(found.splits) and refusal is None
    return Answer(
        [Table(columns("split", "records", "row_filter"), rows, "splits")],
        facts,
        "\n".join(f"split {split}: {shlex.join(words)}" for split, words in arguments.items()),
        "\n".join(lines),
        messages=[now_yours] if to_do and not dry_run else [],
        dry_run="puts on record that you do the batch again, and gives the arguments for Spark"
        if to_do and dry_run
        else "",
        errors=[refusal] if refusal else [],
    )
