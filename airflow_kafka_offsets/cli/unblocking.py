"""``unblock``: step over records that can never be read."""

from __future__ import annotations

import sys

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.inputs import Options, client_config, required, text_or_file, work_store
from airflow_kafka_offsets.cli.render import Table, render
from airflow_kafka_offsets.offsets.unblock import parse_unblock
from airflow_kafka_offsets.unblocking import Unblocked
from airflow_kafka_offsets.unblocking import unblock as step_over


def unblock(options: Options) -> int:
    """Position → the offset to go on from, and what is given up, per partition."""
    required(options, "checkpoint_id", "to")
    request = parse_unblock(
        text_or_file(options, "to") or "",
        checkpoint_id=options["checkpoint_id"],
        group_id=options.get("group_id"),
        on_group_moved=options.get("on_group_moved") or "fail",
    )
    config = client_config(options)
    store = work_store(options)
    dry_run = not options.get("execute")
    with KafkaCluster(config) as cluster:
        done = step_over(
            request,
            store,
            cluster,
            commit_mode=options.get("commit_mode"),
            fencing=options.get("fencing") or "transaction",
            dry_run=dry_run,
            is_alive=options.get("is_alive"),
        )
    if done.repaired_from:
        will = "will be" if dry_run else "was"
        print(
            f"The commit of plan {done.repaired_from} had landed without its checkpoint, which {will} written first.",
            file=sys.stderr,
        )
    print(render(_table(done, dry_run, options["checkpoint_id"]), options.get("output")))
    if dry_run and done.plan:
        print("This was a dry run: nothing was written. --execute moves the position.", file=sys.stderr)
    return 0


def _table(done: Unblocked, dry_run: bool, checkpoint_id: str) -> Table:
    steps = {p.topic_partition: p for p in done.plan.partitions} if done.plan else {}
    written = done.outcome.written if done.outcome else {}
    rows = []
    for tp, position in sorted(done.positions.items()):
        step = steps.get(tp)
        before, after = written.get(tp, (step.base_offset if step else None, None))
        to, lost, skipped = (step.end_offset, step.lost, step.skipped) if step else (position, 0, 0)
        rows.append((tp.topic, tp.partition, position, to, skipped, lost, before, after))
    columns = ("topic", "partition", "position", "to", "skipped", "lost", "group before", "group after")
    facts = {
        "plan_id": done.plan.plan_id if done.plan else None,
        "checkpoint_id": checkpoint_id,
        "group_id": done.plan.group_id if done.plan else None,
        "dry_run": dry_run,
        "not_committed": done.outcome.not_committed if done.outcome else None,
    }
    given_up = sum(p.skipped + p.lost for p in steps.values())
    verb = "would be" if dry_run else "were"
    summary = f"up to {given_up} records {verb} given up" if done.plan else "the position is there already"
    return Table(columns, rows, facts, summary)
