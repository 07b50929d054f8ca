"""``checkpoint``: where a pipeline goes on, and how it came there."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.inputs import Options, client_config, required, work_store
from airflow_kafka_offsets.cli.render import Table, render
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.checkpoint import Checkpoint, applied_restarts
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain


def checkpoint(options: Options) -> int:
    """The newest checkpoint, or the last few, newest first."""
    required(options, "checkpoint_id")
    count = options.get("history")
    if count is not None and count < 1:
        raise InvalidRequest((f"--history is {count}; give a number of at least 1.",))
    store = work_store(options)
    cluster_id = options.get("cluster_id") or _ask_cluster_id(options)
    chain = CheckpointChain(store, cluster_id, options["checkpoint_id"])
    newest = chain.required()
    table = _one(newest) if count is None else _history(newest, islice(chain.newest_first(), count))
    print(render(table, options.get("output")))
    return 0


def _ask_cluster_id(options: Options) -> str:
    with KafkaCluster(client_config(options)) as cluster:
        return cluster.cluster_id()


def _one(newest: Checkpoint) -> Table:
    rows = [
        (tp.topic, newest.topic_ids.get(tp.topic), tp.partition, kept.offset, kept.group_offset, kept.leader_epoch)
        for tp, kept in sorted(newest.offsets.items())
    ]
    columns = ("topic", "topic id", "partition", "offset", "group", "leader epoch")
    facts = _facts(newest)
    summary = "\n".join(
        f"{name.replace('_', ' ')}: {', '.join(value) or '-' if isinstance(value, tuple) else value}"
        for name, value in facts.items()
        if value is not None
    )
    return Table(columns, rows, facts, summary, absent={"group": "none"})


def _history(newest: Checkpoint, found: Iterable[Checkpoint]) -> Table:
    columns = ("sequence", "id", "parent", "plan", "run", "startup", "restarts", "partitions", "offsets")
    rows = []
    for each in found:
        restarts = ", ".join(applied_restarts(each))
        whence = (each.sequence, each.id, each.parent, each.plan_id, each.run, each.startup, restarts)
        rows.append((*whence, len(each.offsets), _sum(each)))
    return Table(columns, rows, {"checkpoint_id": newest.checkpoint_id}, rows_name="checkpoints")


def _sum(checkpoint: Checkpoint) -> int:
    """All offsets together: what has grown from one checkpoint to the next was read or stepped over."""
    return sum(kept.offset for kept in checkpoint.offsets.values())


def _facts(found: Checkpoint) -> dict[str, object]:
    return {
        "sequence": found.sequence,
        "id": found.id,
        "parent": found.parent,
        "plan": found.plan_id,
        "run": found.run,
        "startup": found.startup,
        "restarts": applied_restarts(found),
        "subscription": found.subscription,
        "group_id": found.group_id,
        "checkpoint_id": found.checkpoint_id,
        "cluster_id": found.cluster_id,
    }
