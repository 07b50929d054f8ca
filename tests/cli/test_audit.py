"""``audit``: batches join, or a recorded decision says why not. The query of ``--sql``: tests/spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.kafka_values import Actor
from airflow_kafka_offsets.log.entries import Commit
from airflow_kafka_offsets.plan.body import Offset, PlannedRange
from tests.cli.conftest import Run
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, Pipeline, produce, tp


def plan_by_another_tool(
    pipeline: Pipeline, start: int = 10, committed: int = 20, forgotten: int | None = None
) -> None:
    """A batch of orders-0 that does not begin where the last one ended, as no code of ours writes it.

    :param committed: the offset of orders-0 that its commit holds.
    :param forgotten: a partition that its position lacks.
    """
    log = pipeline.log
    newest = log.newest()
    assert newest is not None
    at = Offset(start, 0, newest.plan.topics["orders"].id)
    old = log.body(newest)
    kept = {**old.resume_from, tp(0): at}
    resume_from = {partition: kept[partition] for partition in kept if partition.partition != forgotten}
    body = replace(old, ranges={tp(0): PlannedRange(start, 20, 0)}, resume_from=resume_from)
    plan = replace(newest.plan, number=2, key="0000000002-20261122T022057-k3f9", offsets=20 - start,
                   require_report=False, ranges=log.write_body(2, 1, body))  # fmt: skip
    assert log.append(2, 1, plan)
    position = {**body.position_after(plan.topic_ids), tp(0): at._replace(offset=committed)}
    commit = Commit(by=Actor(), at_ms=1, plan_id=plan.plan_id, ranges=log.write_body(2, 2, position))
    assert log.append(2, 2, commit)


def test_batches_in_sequence_join(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    """Whatever was lost, skipped or read again has a decision."""
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 10)
    cluster.delete_records(tp(0), 12)
    pipeline.work("two", on_data_loss="advance")
    run("skip orders orders-0:15 --execute")
    pipeline.whole_run("two")
    cluster.add_partitions("orders", 1)
    produce(cluster, 3, 4)
    pipeline.whole_run()
    run("reset orders --start earliest --allow-duplicates --execute")
    pipeline.whole_run()
    run("reset orders --start current --execute")
    cluster.recreate_topic("orders")
    produce(cluster, 0, 3)
    pipeline.whole_run(on_data_loss="advance")
    ended = run("audit orders --output json")
    assert ended.json["findings"] == []
    assert (ended.json["begins_at"], ended.json["starts"][0]) == (1, {"partition": "orders-0", "offset": 0})
    assert "The log begins at batch 1. Records before its start offsets" in run("audit orders").out
    later = run("audit orders --from-batch 2 --output json").json
    assert (later["begins_at"], later["starts"][0]["offset"]) == (2, 10)
    assert "The log begins at batch 2. Batches before it were not audited." in run("audit orders --from-batch 2").out
    assert [(d["batch"], d["kind"]) for d in ended.json["given_up"]][:4] == [
        (2, "lost"),
        (2, "skipped"),
        (4, "again"),
        (4, "again"),
    ]
    (day,) = (row for row in ended.json["days"] if row["rows"])
    assert day["rows"] == 10 + 7 + 4 + 12 + 3
    assert "they join, and nothing is missing" in run("audit orders").out


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"start": 13}, "orders-0: offsets 10 to 13 are in no batch, and no decision is recorded"),
        ({"start": 8}, "orders-0: offsets 8 to 10 are read twice, and no decision is recorded"),
        ({"committed": 19}, "orders-0: it reads up to 20, and its commit holds 19"),
        ({"forgotten": 2}, "orders-2: the position 0 after batch 1 is not kept"),
    ],
)
def test_what_no_decision_explains_is_found(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run, wrong: dict[str, int], what: str
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    plan_by_another_tool(pipeline, **wrong)
    ended = run("audit orders --output json", status=1)
    assert ended.json["findings"] == [{"batch": 2, "what": what}]


def test_a_driver_behind_the_commit_is_found(cluster: InMemoryCluster, pipeline: Pipeline, run: Run) -> None:
    produce(cluster, 0, 10)
    work = pipeline.whole_run()
    pipeline.begin(work)  # type: ignore[arg-type]
    assert "attempt 2 has not reported" in run("audit orders", status=1).out


def test_windows_join_in_whatever_order_they_were_planned(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run
) -> None:
    first = cluster.now_ms - 6 * HOUR
    for hour in range(5):
        cluster.produce(tp(0), [first + hour * HOUR + 5] * 3)
    for hour in (3, 0, 1, 4):
        start = first + hour * HOUR
        pipeline.whole_run(want=pipeline.window(start, start + HOUR))
    answer = run("audit orders --output json").json
    assert answer["findings"] == []
    assert len(answer["not_planned"]) == 1
    start = first + 2 * HOUR
    pipeline.whole_run(want=pipeline.window(start, start + HOUR))
    answer = run("audit orders --output json").json
    assert (answer["findings"], answer["not_planned"], answer["batches"]) == ([], [], 5)
    assert answer["starts"][0] == {"partition": "orders-0", "offset": 0}
