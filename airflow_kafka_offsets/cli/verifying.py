"""``verify`` and ``commit``: what the commit task does with a batch, by hand."""

from __future__ import annotations

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.batches import facts_of, is_verified, name_of, splits_of
from airflow_kafka_offsets.cli.inputs import Options, batch_asked_for, client_config, me, pipeline_asked_for
from airflow_kafka_offsets.cli.render import Page, Table, say, say_dry_run, show
from airflow_kafka_offsets.errors import ReadNotVerified
from airflow_kafka_offsets.pipeline.clock import now_ms
from airflow_kafka_offsets.pipeline.commit import CommitOutcome, Handed, commit_batch
from airflow_kafka_offsets.stores.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.stores.reads import require_read


def verify(options: Options) -> int:
    """The batch's splits and their proofs; status 1 where one is not verified."""
    pipeline = pipeline_asked_for(options)
    batch = batch_asked_for(options, pipeline)
    if batch is None:
        facts: dict[str, object] = {"pipeline_id": pipeline.pipeline_id, "key": None, "verified": True}
        summary = "That run had nothing to do, so there is nothing to verify."
        show(Page([Table(("split",), [], "splits")], facts, summary), options.get("output"))
        return 0
    splits, plan = splits_of(batch), batch.log.plan
    whole = is_verified(splits)
    facts = {"pipeline_id": pipeline.pipeline_id, **facts_of(batch), "verified": whole}
    summary = f"{name_of(plan)}, plan {plan.plan_id}, is {'verified' if whole else 'not verified'}" + (
        f": its reports say that exactly its up to {plan.record_count_upper_bound} records were read. What "
        f"{plan.asked.output or 'its output'} holds now was not looked at"
        if whole
        else ""
    )
    show(Page([splits], facts, summary), options.get("output"))
    if not whole:
        say(
            f"kafka-offsets: The reports do not show that {name_of(plan)} was read. Clear its run from the Spark task "
            "on: Spark writes the output anew and reports again."
        )
        return ReadNotVerified.exit_status
    _say_redo(batch)
    return 0


def _say_redo(batch: StoredBatch) -> None:
    """Verified is what an earlier run has written; whether it was written again since is another question."""
    again = batch.log.redone
    if again is None:
        return
    try:
        require_read(batch, again.attempts)
    except ReadNotVerified as refused:
        lines = "\n".join(refused.partitions)
        say(f"{again.by} is doing it once more, and that is not verified (yet):\n{lines}")


def commit(options: Options) -> int:
    """What the group holds before and after; with a dry run, what it would hold."""
    config = client_config(options)
    pipeline = pipeline_asked_for(options)
    batch = batch_asked_for(options, pipeline)
    dry_run = not options.get("execute")
    handed = Handed(batch.name, batch.log.plan.plan_id) if batch else Handed(None)
    with KafkaCluster(config) as cluster:
        outcome = commit_batch(
            handed,
            pipeline,
            cluster,
            me(options),
            now_ms=now_ms(),
            require_report=not options.get("no_require_report"),
            dry_run=dry_run,
        )
    show(_page(pipeline, batch, outcome, dry_run), options.get("output"))
    if dry_run:
        say_dry_run("commits")
    return 0


def _page(pipeline: PipelineLog, batch: StoredBatch | None, outcome: CommitOutcome, dry_run: bool) -> Page:
    rows = [(tp.topic, tp.partition, before, after) for tp, (before, after) in sorted(outcome.written.items())]
    table = Table(("topic", "partition", "before", "after"), rows, absent={"before": "none"})
    before = batch.log.committed if batch else None
    now = batch if dry_run else outcome.batch
    left_alone = outcome.group.left_alone
    facts = {
        "pipeline_id": pipeline.pipeline_id,
        **(facts_of(now) if now else {"key": None}),
        "dry_run": dry_run,
        "committed_before": before is not None,
        "group_left_alone": left_alone,
    }
    if batch is None:
        done = "That run had nothing to do"
    elif before:
        done = f"{name_of(batch.log.plan)} was committed before, by {before.by}"
    else:
        done = f"{name_of(batch.log.plan)} {'would be' if dry_run else 'is'} committed"
    follows = f"the group {'would follow' if dry_run else 'follows'} in {len(rows)} partitions"
    return Page([table], facts, f"{done}; {f'the group is left alone: {left_alone}' if left_alone else follows}")
