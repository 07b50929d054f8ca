"""``redo``: which run wrote a committed batch, whether it can be written again, and how."""

from __future__ import annotations

import shlex

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.batches import by_whom, facts_of, name_of
from airflow_kafka_offsets.cli.inputs import Options, batch_asked_for, client_config, me, pipeline_asked_for
from airflow_kafka_offsets.cli.render import Page, Table, say, say_dry_run, show
from airflow_kafka_offsets.errors import NoPosition
from airflow_kafka_offsets.offsets.model import RunKey
from airflow_kafka_offsets.offsets.plan.splits import split_plan
from airflow_kafka_offsets.offsets.request.times import iso
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.redo import Redo, look_at_redo, take_for_redo
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog


def redo(options: Options) -> int:
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
    show(_page(pipeline, found, config.get("bootstrap.servers"), dry_run), options.get("output"))
    refusal = found.refusal()
    if refusal is not None:
        say(f"kafka-offsets: {refusal}")
        return refusal.exit_status
    if found.splits:
        _say_what_now(found, dry_run)
    return 0


def _say_what_now(found: Redo, dry_run: bool) -> None:
    if dry_run:
        say_dry_run("puts on record that you do the batch again, and gives the arguments for Spark")
        return
    key = found.batch.log.plan.batch.key if found.batch.log.plan.batch else ""
    say(
        "The batch is yours now. Submit the pipeline's Spark job once for each split, with these arguments beside its "
        "own. Then "
        f"kafka-offsets commit --batch {key} says whether all of it was written again."
    )


def _page(pipeline: PipelineLog, found: Redo, servers: str | None, dry_run: bool) -> Page:
    plan = found.batch.log.plan
    key = plan.batch.key if plan.batch else ""
    partitions = split_plan(plan)
    rows = [
        (split, sum(p.range.size for p in partitions[split]), f"kafka_batch = '{key}' AND kafka_split = {split}")
        for split in found.splits
    ]
    arguments = {} if dry_run or not found.records.there else found.arguments(servers)
    clear, again = _clear(found) if found.records.there else None, found.batch.log.redone
    facts = {
        "pipeline_id": pipeline.pipeline_id,
        **facts_of(found.batch),
        "run": _run_of(found),
        "records_there": found.records.there,
        "gone": found.records.lines,
        "row_filter": f"kafka_batch = '{key}'",
        "airflow": clear,
        "arguments": {str(split): words for split, words in arguments.items()},
        "dry_run": dry_run,
    }
    lines = [
        f"{name_of(plan)} of pipeline {pipeline.pipeline_id!r}: committed by {by_whom(found.batch.log)}, {facts['at']}",
        f"output: {plan.asked.output or 'not named in the plan'}, where kafka_batch = '{key}'",
        f"records: {'all of them are still in Kafka' if found.records.there else 'gone from Kafka'}",
        *([f"{again.by} is doing it once more since {iso(again.at_ms)}"] if dry_run and again else []),
        *(["It has no records, and no split to start."] if not found.splits else []),
        *([f"in Airflow: {clear}"] if clear and found.splits else []),
    ]
    commands = [f"split {split}: {shlex.join(words)}" for split, words in arguments.items()]
    return Page(
        [Table(("split", "records", "row filter"), rows, "splits")], facts, "\n".join(commands), "\n".join(lines)
    )


def _run_of(found: Redo) -> dict[str, object] | None:
    run = _key(found)
    if run is None:
        return None
    return {"dag_id": run.dag_id, "run_id": run.run_id, "task_id": run.task_id, "map_index": run.map_index}


def _key(found: Redo) -> RunKey | None:
    committed = found.batch.log.committed
    return committed.by.run if committed else None


def _clear(found: Redo) -> str | None:
    """The run that committed a batch does it again when it is cleared; nothing has to be in its conf for that."""
    run = _key(found)
    return None if run is None else f"airflow dags clear {shlex.quote(run.dag_id)} --run-id {shlex.quote(run.run_id)}"
