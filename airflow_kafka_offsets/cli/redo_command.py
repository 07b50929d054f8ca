"""``redo``: which run wrote a committed batch, whether it can be written again, and how."""

from __future__ import annotations

import shlex

from airflow_kafka_offsets.batch.airflow_state import NoAirflow
from airflow_kafka_offsets.batch.engine import decided, redo_batch
from airflow_kafka_offsets.batch.look_ups import World
from airflow_kafka_offsets.batch.orders import Redo
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.batch_tables import facts_of
from airflow_kafka_offsets.cli.commands import Options
from airflow_kafka_offsets.cli.option_values import batch_asked_for, client_config, me, pipeline_asked_for
from airflow_kafka_offsets.cli.printing import Answer, Table, columns
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import DataLoss, NoPosition
from airflow_kafka_offsets.plan.job_arguments import job_arguments
from airflow_kafka_offsets.plan.window_claims import name_of
from airflow_kafka_offsets.request.times import iso


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
    order, splits, refusal = Redo(batch, me(options), now_ms()), sorted(batch.log.plan.splits_with_rows()), None
    with KafkaCluster(config) as cluster:
        world = World(pipeline, cluster, NoAirflow())
        try:
            if dry_run or not splits:
                decided(order, world)
            else:
                batch = redo_batch(order, world)
        except DataLoss as gone:
            if not dry_run:
                raise
            refusal = gone
    plan, log = batch.log.plan, batch.log
    key, run = plan.batch.key, log.committed.by.run if log.committed else None
    # The run that committed a batch does it again when it is cleared; nothing has to be in its conf for that.
    cleared = run and not refusal and f"airflow dags clear {shlex.quote(run.dag_id)} --run-id {shlex.quote(run.run_id)}"
    servers, row_filter = config.get("bootstrap.servers"), f"kafka_batch = '{key}'"
    arguments = {
        split: job_arguments(batch.plan_object, plan.plan_id, split, batch.store.driver_uri, servers)
        for split in ([] if dry_run or refusal else splits)
    }
    rows = [
        {
            "split": split,
            "records": sum(p.size for p in plan.splits[split]),
            "row_filter": f"{row_filter} AND kafka_split = {split}",
        }
        for split in splits
    ]
    facts = {
        "pipeline_id": pipeline.pipeline_id,
        **facts_of(batch),
        "run": run and {name: getattr(run, name) for name in ("dag_id", "run_id", "task_id", "map_index")},
        "records_there": refusal is None,
        "gone": list(refusal.partitions) if refusal else [],
        "row_filter": row_filter,
        "airflow": cleared or None,
        "arguments": {str(split): words for split, words in arguments.items()},
        "dry_run": dry_run,
    }
    lines = [
        f"{name_of(plan)} of pipeline {pipeline.pipeline_id!r}: committed by {log.by}, {facts['at']}",
        f"output: {plan.asked.output or 'not named in the plan'}, where {row_filter}",
        f"records: {'gone from Kafka' if refusal else 'all of them are still in Kafka'}",
        *([f"{log.redone.by} is doing it once more since {iso(log.redone.at_ms)}"] if dry_run and log.redone else []),
        *([f"in Airflow: {cleared}"] if cleared and splits else []),
        *([] if splits else ["It has no records, and no split to start."]),
    ]
    now_yours = (
        "The batch is yours now. Submit the pipeline's Spark job once for each split, with these arguments beside its "
        f"own. Then kafka-offsets commit --batch {key} says whether all of it was written again."
    )
    to_do = bool(splits) and refusal is None
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
