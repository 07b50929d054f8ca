"""The checkpoint location is gone: docs/audit.md's way on, from the table to a pipeline that continues it, exactly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.errors import CheckpointLost
from airflow_kafka_offsets.offsets import SpecificOffsets
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cli.conftest import Audit, Row, Run
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import Pipeline, produce

KAFKA = ("--bootstrap-servers", "memory", "--output", "json")


def rows_of(work: ResolvedBatch) -> Iterator[Row]:
    for tp, planned in work.body.ranges.items():
        for offset in range(planned.start, planned.end):
            yield tp.topic, tp.partition, offset, work.key, None


@pytest.mark.parametrize("group", ["lake", None])
def test_a_pipeline_continues_its_table_behind_the_lost_log(
    cluster: InMemoryCluster, pipeline: Pipeline, run: Run, answer: Audit, group: str | None
) -> None:
    """The lost log ended with a batch whose driver had written a part of its rows."""
    pipeline.parameters = {"group_id": group}
    table: list[Row] = []
    for _ in range(3):
        produce(cluster, 0, 4)
        produce(cluster, 1, 3)
        done = pipeline.whole_run()
        assert isinstance(done, ResolvedBatch)
        table += rows_of(done)
    produce(cluster, 0, 4)
    produce(cluster, 2, 2)
    unfinished = pipeline.work()
    pipeline.begin(unfinished)
    table += [*rows_of(unfinished)][1:4]

    pipeline.store = MemoryStore()
    asked = answer(table, "--batch t.kafka_batch")
    batches = run("audit", asked, *KAFKA, status=1).json["batches"]
    newest = max(row["batch"] for row in batches)
    assert newest == unfinished.key
    table = [row for row in table if row[3] != newest]
    ends = run("audit", answer(table, "--batch t.kafka_batch"), "--ends", "--output", "json").json["offsets"]
    assert ends == {"orders": {"0": 12, "1": 9}}
    start = SpecificOffsets(ends, otherwise="earliest")
    with pytest.raises(CheckpointLost) as refused:
        pipeline.resolve(start=start)
    work = pipeline.run_printed(refused.value, start=start)
    assert isinstance(work, ResolvedBatch)
    pipeline.drive(work)
    pipeline.commit(work)
    produce(cluster, 1, 5)
    last = pipeline.whole_run(start=start)
    assert isinstance(last, ResolvedBatch)
    table += [*rows_of(work), *rows_of(last)]

    ended = run("audit", answer(table, "--batch t.kafka_batch"), *KAFKA).json
    assert (ended["lost"], ended["doubled"]) == (0, 0)
    assert len(table) == 16 + 14 + 2
    assert newest < work.key < last.key
    assert (
        "the table has what the log says"
        in run("audit orders", answer([*rows_of(work), *rows_of(last)], "--batch t.kafka_batch")).out
    )
