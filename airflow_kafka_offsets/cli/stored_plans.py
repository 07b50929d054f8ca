"""``verify`` and ``commit``: what the commit task does with a run's stored plan, by hand."""

from __future__ import annotations

import sys

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.inputs import Options, client_config, stored_plan, work_store
from airflow_kafka_offsets.cli.render import Table, render
from airflow_kafka_offsets.committing import commit_run, parse_commit_mode, parse_fencing
from airflow_kafka_offsets.errors import ReadNotVerified
from airflow_kafka_offsets.offsets.verify import verify_reads
from airflow_kafka_offsets.stores.reads import latest_attempts


def verify(options: Options) -> int:
    """The plan's splits and their proofs, status 0; or everything that is missing, status 1."""
    store = work_store(options)
    plan = stored_plan(options, store)
    attempts = latest_attempts(store, plan, range(plan.splits))
    facts: dict[str, object] = {"plan_id": plan.plan_id, "run": str(plan.run) if plan.run else None}
    try:
        verify_reads(plan, attempts)
    except ReadNotVerified as refused:
        facts["verified"] = False
        problems = [(line,) for line in refused.partitions]
        print(render(Table(("missing",), problems, facts, rows_name="problems"), options.get("output")))
        print(f"kafka-offsets: {refused.remedy}", file=sys.stderr)
        return refused.exit_status
    facts["verified"] = True
    rows = [
        (
            split,
            attempt.attempt,
            sum(read.record_count for read in report.partitions.values()),
            report.proof,
            report.output,
        )
        for split, attempt in sorted(attempts.items())
        if (report := attempt.report) is not None
    ]
    summary = f"plan {plan.plan_id} is verified: exactly its up to {plan.record_count_upper_bound} records were read"
    columns = ("split", "attempt", "records", "proof", "output")
    print(render(Table(columns, rows, facts, summary, rows_name="splits"), options.get("output")))
    return 0


def commit(options: Options) -> int:
    """What the group holds before and after; with a dry run, what it would hold."""
    parse_commit_mode(options.get("commit_mode"))  # a wrong word is said before anything is asked
    parse_fencing(options.get("fencing") or "transaction")
    config = client_config(options)
    store = work_store(options)
    plan = stored_plan(options, store)
    dry_run = not options.get("execute")
    with KafkaCluster(config) as cluster:
        outcome = commit_run(
            plan,
            store,
            cluster,
            commit_mode=options.get("commit_mode"),
            require_report=not options.get("no_require_report"),
            fencing=options.get("fencing") or "transaction",
            dry_run=dry_run,
            is_alive=options.get("is_alive"),
        )
    rows = [
        *((tp.topic, tp.partition, before, after, "write") for tp, (before, after) in outcome.written.items()),
        *((tp.topic, tp.partition, None, None, "keep: a later run has gone on from this plan") for tp in outcome.kept),
    ]
    rows.sort(key=lambda row: row[:2])
    facts = {
        "plan_id": plan.plan_id,
        "group_id": plan.group_id,
        "dry_run": dry_run,
        "not_committed": outcome.not_committed,
    }
    verb = "would be" if dry_run else "is"
    summary = f"plan {plan.plan_id} {verb} committed to group {plan.group_id}"
    if outcome.not_committed:
        summary = f"plan {plan.plan_id}: no offset {verb} committed to the group, because {outcome.not_committed}"
    columns = ("topic", "partition", "before", "after", "what")
    print(render(Table(columns, rows, facts, summary, absent={"before": "none"}), options.get("output")))
    if dry_run:
        print("This was a dry run: nothing was written. --execute commits.", file=sys.stderr)
    return 0
