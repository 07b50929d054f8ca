"""Which batches a merge takes, on logs that the engine has written, in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from airflow_kafka_offsets.spark.commits import reached, read_commits, unmerged
from airflow_kafka_offsets.spark.errors import LateAttempt, OtherOutput
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline, tp

OUTPUT = "delta:/lake/orders"
STRAY = "0000000002-20200101T000000-aaaa"


class CountingStore(MemoryStore):
    requests = 0

    def get(self, name: str) -> bytes | None:
        self.requests += 1
        return super().get(name)


@pytest.fixture
def pipeline() -> Pipeline:
    cluster = InMemoryCluster()
    cluster.create_topic(TOPIC, 1)
    return Pipeline(cluster, store=CountingStore(), output=OUTPUT)


def runs(pipeline: Pipeline, *numbers: int) -> None:
    """Whole runs; one that was there before is cleared."""
    for number in numbers:
        pipeline.cluster.produce(tp(0), [0])
        pipeline.whole_run(f"run{number}")


def todo(pipeline: Pipeline, own: int, after: int, output: str = OUTPUT, more: Sequence[str] = ()) -> list[str]:
    """`<batch>/<entry of its commit>` of what a merge task takes, if all batches up to `after` were merged."""
    newest = pipeline.log.newest()
    assert newest is not None
    keys = [pipeline.log.existing(number).plan.key for number in range(after + 1, newest.number + 1)]
    found = unmerged(pipeline.store, "orders", own, after, [*more, *keys], output)
    return [f"{batch.number}/{batch.entry}" for batch in found]


def test_all_that_was_committed_since_in_order_and_nothing_twice(pipeline: Pipeline) -> None:
    runs(pipeline, 1, 2, 3)
    assert todo(pipeline, 3, 0) == todo(pipeline, 1, 0) == ["1/2", "2/2", "3/2"]
    assert todo(pipeline, 3, 2) == ["3/2"]
    assert todo(pipeline, 3, 3) == todo(pipeline, 1, 3) == []


def test_a_reprocessed_batch_is_taken_again_by_its_own_run(pipeline: Pipeline) -> None:
    runs(pipeline, 1, 2, 3)
    runs(pipeline, 1)
    assert todo(pipeline, 1, 3) == ["1/4"]
    assert todo(pipeline, 1, 2) == ["1/4", "3/2"]
    assert todo(pipeline, 3, 2) == ["3/2"]
    assert todo(pipeline, 2, 0) == ["1/4", "2/2", "3/2"]


def test_what_is_being_written_ends_a_merge_and_fails_one_behind_it(pipeline: Pipeline) -> None:
    runs(pipeline, 1, 2, 3)
    pipeline.cluster.produce(tp(0), [0])
    pipeline.drive(pipeline.work("run4"))
    assert todo(pipeline, 3, 0) == ["1/2", "2/2", "3/2"]
    pipeline.drive(pipeline.work("run2"))  # cleared
    assert todo(pipeline, 1, 0) == ["1/2"]
    for own in (2, 3):
        with pytest.raises(LateAttempt, match=r"merge batch 2.*writing it again"):
            todo(pipeline, own, 0)
    assert todo(pipeline, 3, 2) == ["3/2"]  # its own run merges it when it has ended
    runs(pipeline, 2)
    assert todo(pipeline, 2, 3) == ["2/5"]  # the second claim is of the second clear
    pipeline.work("run2")
    with pytest.raises(LateAttempt, match="merge batch 2"):
        todo(pipeline, 2, 3)


def test_rows_in_another_table_are_left_to_the_run_that_wrote_them(pipeline: Pipeline) -> None:
    runs(pipeline, 1, 2)
    with pytest.raises(OtherOutput, match=rf"batch 1.*rows are in {OUTPUT}, and this run's sink is delta:/new"):
        todo(pipeline, 2, 0, "delta:/new")


def test_rows_of_another_log_are_not_merged_and_no_reason_to_go_on(pipeline: Pipeline) -> None:
    runs(pipeline, 1, 2)
    assert todo(pipeline, 2, 0, more=[STRAY, "0000000009-20200101T000000-aaaa", "x"]) == ["1/2", "2/2"]
    store, newest = pipeline.store, pipeline.log.existing(2).plan.key
    assert [reached(store, "orders", key, "t") for key in (None, newest)] == [0, 2]
    for other in (STRAY, "", "0000000003-20261122022f"):
        with pytest.raises(OtherOutput, match="UPDATE t SET kafka_batch = NULL"):
            reached(store, "orders", other, "t")


def test_a_merge_asks_no_more_of_a_long_log(pipeline: Pipeline) -> None:
    asked = []
    for newest in (3, 40):
        first = 1 if newest == 3 else 4
        runs(pipeline, *range(first, newest + 1))
        assert isinstance(pipeline.store, CountingStore)
        pipeline.store.requests = -2  # the key of the newest, for `written`
        assert todo(pipeline, newest, newest - 1) == [f"{newest}/2"]
        asked.append(pipeline.store.requests)
    assert asked[0] == asked[1]
    assert read_commits(pipeline.store, "orders", 41) is None
