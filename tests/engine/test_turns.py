"""What a turn says of its decision, and how often a run looks again."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.engine.commit import commit
from airflow_kafka_offsets.errors import GroupMoved, StoreUnavailable
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import Pipeline, produce, tp


def test_each_decision_has_a_line_in_the_log(
    cluster: InMemoryCluster, pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="airflow_kafka_offsets.engine.turn")

    def said() -> list[str]:
        lines = caplog.messages
        caplog.clear()
        return lines

    produce(cluster, 0, 10)
    pipeline.work("a")
    assert said() == ["Batch 1 of pipeline orders: 10 offsets of 1 partition."]
    pipeline.work("b")
    assert said()[0] == "Batch 1 of pipeline orders is taken over from run dag/a/orders."
    cluster.delete_records(tp(0), 4)
    pipeline.work("b", on_data_loss="advance")
    again = ["Batch 1 of pipeline orders is planned again: its records are gone (expired).",
             "Batch 1 of pipeline orders: 6 offsets of 1 partition, 4 lost."]  # fmt: skip
    assert said() == again
    pipeline.parameters["on_data_loss"] = "advance"
    pipeline.act("c", after=1, reset={"start": "current"})
    assert "Batch 1 of pipeline orders is planned again: the identity has changed." in said()
    pipeline.whole_run("c")
    said()
    pipeline.work("c")
    assert said()[0] == "Batch 1 of pipeline orders is committed, and is rewritten."
    pipeline.resolve("a")
    assert said() == ["Batch 1 of pipeline orders was committed by run dag/c/orders; nothing is written."]
    pipeline.resolve("d")
    assert said() == ["Pipeline orders: there is nothing new to read."]


def test_a_run_that_is_never_first_names_the_store(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    class NeverFirst(MemoryStore):
        def create(self, name: str, data: bytes) -> bool:
            return "/batches/" not in name and super().create(name, data)

    pipeline.store = NeverFirst()
    produce(cluster, 0, 10)
    with pytest.raises(StoreUnavailable, match="another writer appended first, 50 times"):
        pipeline.resolve()


def test_a_refusal_says_what_would_hold_back_the_run_of_its_conf(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    """From resolve, and from the commit."""
    held = "End the run before it."
    pipeline.airflow.held = held
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 10)
    work = pipeline.work()
    pipeline.drive(work)
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(3)})
    with pytest.raises(GroupMoved, match=held):
        pipeline.resolve()
    with pytest.raises(GroupMoved, match=held):
        commit(work.given(), pipeline.log, cluster, held)
