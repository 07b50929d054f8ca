"""A work store that has seen much, and the cluster beside it: made once for each release, and kept.

``python -m tests.golden.worked`` writes ``tests/golden/<version>/``. A folder that is there is never written again:
later versions have to read what that version wrote.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.kafka_values import Actor, CommittedOffset, TopicPartition
from airflow_kafka_offsets.log.output_claims import claim_output, release_output
from airflow_kafka_offsets.log.read_reports import begin
from airflow_kafka_offsets.request.policies import Skip
from airflow_kafka_offsets.stores.local import LocalStore
from tests.cli.pipeline import Pipeline
from tests.cluster.memory import InMemoryCluster
from tests.engine import (
    PlanReference,
    Reset,
    commit_batch,
    find_old,
    redo,
    remove,
    reset_position,
    skip_batch,
)
from tests.golden.telling import told

HERE = Path(__file__).parent
HOUR = 3_600_000
NOW = 1_795_168_800_000  # 2026-11-20T10:00Z
TOPIC = "orders"


def of(store: LocalStore, cluster: InMemoryCluster, at_ms: int = NOW) -> Pipeline:
    parameters = {"startup_mode": "earliest-offset", "output_name": "/lake/orders", "splits": 2}
    return Pipeline(cluster, store, TOPIC, "g/é", parameters=parameters, at_ms=at_ms)


def work(folder: Path) -> None:
    """Five batches and three windows, one cleaned away, in ``folder``/store, the cluster in ``folder``/cluster.json."""
    cluster, store = InMemoryCluster(now_ms=NOW), LocalStore(folder / "store")
    cluster.create_topic(TOPIC, 2)
    pipeline = of(store, cluster)

    def arrive(*counts: int) -> None:
        for number, count in enumerate(counts):
            cluster.produce(TopicPartition(TOPIC, number), [NOW - HOUR] * count)

    arrive(4, 2)
    pipeline.run("first")
    arrive(3, 0)
    pipeline.read(pipeline.plan("fails before its commit"))
    second = pipeline.plan("takes it over")  # a "taken"
    skip_batch(
        pipeline.log, Skip(pipeline.newest_key, ((TopicPartition(TOPIC, 0), 4),), "bad"), now_ms=NOW, dry_run=False
    )
    again = pipeline.plan("takes it over")
    pipeline.read(again)
    pipeline.commit("takes it over", again)
    assert second.batch is not None
    arrive(0, 5)
    reset = Reset("latest-offset", "after the migration", (), (), False)
    reset_position(pipeline.log, cluster, Actor(None, None), reset, now_ms=NOW, dry_run=False)
    arrive(6, 1)
    pipeline.run("fourth")
    fourth = pipeline.log.newest()
    assert fourth is not None
    person = Actor(None, None)
    redo(fourth, cluster, person, now_ms=NOW + 1)
    for split in (0, 1):
        attempt = begin(store, fourth.plan_object, fourth.log.plan, split, fourth.log.plan.asked.output)
        if split == 0:
            attempt.report_nothing_written()
    arrive(2, 2)
    fifth = pipeline.plan("is at work")
    assert fifth.batch is not None
    begin(store, fifth.batch.plan_object, fifth.batch.log.plan, 0, fifth.batch.log.plan.asked.output)
    _windows(pipeline, cluster)
    claim_output(store, "/lake/released", "somebody", "log")
    release_output(store, "/lake/released")
    nothing = Pipeline(cluster, store, TOPIC, "idle", at_ms=NOW, parameters={"startup_mode": "latest-offset"})
    nothing.run("nothing to do")
    commit_batch(PlanReference(None), nothing.log, cluster, person, now_ms=NOW)
    (folder / "cluster.json").write_text(json.dumps(_cluster_told(cluster), indent=1, sort_keys=True) + "\n")


def _windows(pipeline: Pipeline, cluster: InMemoryCluster) -> None:
    """Two hours; a record of the first one comes when that is done, before any of the second."""
    cluster.create_topic("clicks")
    clicks, t0 = TopicPartition("clicks", 0), NOW - 3 * HOUR
    windows = Pipeline(
        cluster, pipeline.store, "clicks", "g/é", "windows", at_ms=NOW, parameters={"output_name": "/lake/clicks"}
    )
    by_time: dict[str, Any] = {"startup_mode": "timestamp", "bounded_mode": "timestamp"}
    cluster.produce(clicks, [t0, t0 + 1])
    windows.run("hour 0", **by_time, startup_timestamp=t0 - HOUR, bounded_timestamp=t0)
    [old] = [removal for removal in find_old(pipeline.store, NOW + 1) if removal.kind == "windows"]
    assert remove(old)
    windows.run("hour 1", **by_time, startup_timestamp=t0, bounded_timestamp=t0 + HOUR)
    cluster.produce(clicks, [t0 + 2, t0 + HOUR, t0 + HOUR + 1, NOW])
    windows.run("hour 2", **by_time, startup_timestamp=t0 + HOUR, bounded_timestamp=t0 + 2 * HOUR)


def _cluster_told(cluster: InMemoryCluster) -> dict[str, Any]:
    return {
        "cluster_id": cluster.cluster_id,
        "topics": {
            name: {"topic_id": topic.topic_id, "ends": [log.high_watermark for log in topic.logs.values()]}
            for name, topic in cluster.topics.items()
        },
        "groups": {
            group: [[tp.topic, tp.partition, c.offset, c.leader_epoch, c.metadata] for tp, c in rows.items()]
            for group, rows in cluster.groups.items()
        },
    }


def cluster_of(told_of: dict[str, Any]) -> InMemoryCluster:
    """The cluster that ``cluster.json`` tells of."""
    cluster = InMemoryCluster(told_of["cluster_id"], NOW)
    for name, topic in told_of["topics"].items():
        cluster.create_topic(name, len(topic["ends"]))
        cluster.topics[name].topic_id = topic["topic_id"]
        for number, end in enumerate(topic["ends"]):
            cluster.produce(TopicPartition(name, number), [NOW - HOUR] * end)
    for group, rows in told_of["groups"].items():
        cluster.groups[group] = {TopicPartition(t, p): CommittedOffset(*held) for t, p, *held in rows}
    return cluster


if __name__ == "__main__":
    from importlib.metadata import version

    made = HERE / version("airflow-kafka-offsets")
    if made.exists():
        sys.exit(f"{made} is there: it is what that version wrote, and stays.")
    work(made)
    (made / "expected.json").write_text(json.dumps(told(made / "store"), separators=(",", ":"), sort_keys=True) + "\n")
