"""Crashes, zombies and clears that a review found. Over both clusters."""

from __future__ import annotations

from tempfile import TemporaryDirectory

import pytest

from airflow_kafka_offsets.errors import (
    CommitConflict,
    DataLoss,
    InvalidRequest,
    NothingToDiscover,
    PlanReplaced,
    PlanSuperseded,
    ReadNotVerified,
    StoreUnavailable,
)
from airflow_kafka_offsets.offsets.assign import started_splits
from airflow_kafka_offsets.offsets.commits import mark_of
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets.plan import OffsetPlan
from airflow_kafka_offsets.stores import runs
from airflow_kafka_offsets.stores.checkpoints import CheckpointChain
from airflow_kafka_offsets.stores.objects import open_work_store
from airflow_kafka_offsets.stores.reads import begin_read
from airflow_kafka_offsets.stores.runs import store_plan
from tests.cluster.commits import commit
from tests.cluster.memory import InMemoryCluster
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline, ranges
from tests.contract.troubles import Killed, die


def land_first(cluster: AnyCluster, pipeline: Pipeline, plan: OffsetPlan) -> None:
    """Of the plan's commit, its first partition arrives; the worker dies."""
    p = plan.partitions[0]
    commit(
        cluster.reader, pipeline.group, {p.topic_partition: CommittedOffset(p.end_offset, None, mark_of(plan).encode())}
    )


def test_1_a_second_re_plan_without_news_keeps_the_successor(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.plan("one")
    cluster.produce(pipeline.topic, 2)
    successor = pipeline.plan("one", splits=3, re_plan=True)
    assert pipeline.plan("one", splits=3, re_plan=True) == successor


def test_2_a_restart_of_one_run_does_not_wake_the_word_that_was_applied(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.parameters = {"startup_mode": "earliest-offset", "restart": "2026-11-20"}
    pipeline.run("one")
    pipeline.run("by hand", restart="run by hand")
    cluster.produce(pipeline.topic, 1)
    assert ranges(pipeline.run("two"))[0] == (4, 5)


@pytest.mark.parametrize("mode", ["checkpoint-only", "on-success"])
def test_3_a_commit_killed_before_its_checkpoint_is_no_commit_once_another_run_went_on(
    cluster: AnyCluster, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    plan = pipeline.plan("a")
    pipeline.read(plan)
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointChain, "append", die)
        with pytest.raises(Killed):
            pipeline.commit(plan, commit_mode=mode)
    if mode == "on-success":
        cluster.hands.expire(pipeline.group)
    other = pipeline.plan("b")
    assert ranges(other) == ranges(plan)
    pipeline.read(other)
    pipeline.commit(other, commit_mode=mode)
    with pytest.raises(PlanSuperseded):
        pipeline.plan("a")
    with pytest.raises(CommitConflict):
        pipeline.commit(plan, commit_mode=mode)


def test_4_reports_from_before_another_plan_overwrote_them_do_not_count(pipeline: Pipeline) -> None:
    first = pipeline.plan("one", max_records=4)
    pipeline.read(first)
    begin_read(pipeline.store, pipeline.plan("one", re_plan=True), 0, None)
    again = pipeline.plan("one", max_records=4, re_plan=True)
    assert again.plan_id == first.plan_id
    with pytest.raises(ReadNotVerified):
        pipeline.commit(again)


def test_5_a_replaced_plan_is_not_committed(cluster: AnyCluster, pipeline: Pipeline) -> None:
    old = pipeline.plan("one")
    pipeline.read(old)
    cluster.produce(pipeline.topic, 2)
    begin_read(pipeline.store, pipeline.plan("one", re_plan=True), 0, None)
    with pytest.raises(PlanReplaced, match="was replaced"):
        pipeline.commit(old)


def test_6_a_plan_whose_pointer_was_not_written_is_found_all_the_same(
    cluster: AnyCluster, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(runs, "remember_plan", die)
        with pytest.raises(Killed):
            pipeline.plan("a")
    land_first(cluster, pipeline, pipeline.plan("a"))
    assert ranges(pipeline.plan("b")) == [(4, 4)] * 3


def test_7_one_output_has_one_owner(cluster: AnyCluster, pipeline: Pipeline) -> None:
    begin_read(pipeline.store, pipeline.plan("one"), 0, "lake/run=one/split=0")
    with pytest.raises(InvalidRequest, match="output of dag/one/resolve"):
        begin_read(pipeline.store, pipeline.plan("two"), 0, "lake/run=one/split=0")


def test_8_a_successor_of_a_successor_still_overwrites_all_splits(cluster: AnyCluster, pipeline: Pipeline) -> None:
    begin_read(pipeline.store, pipeline.plan("one", splits=3), 2, None)
    cluster.produce(pipeline.topic, 1)
    pipeline.plan("one", splits=3, re_plan=True)
    cluster.delete_records(pipeline.topic, 4, partition=2)
    assert started_splits(pipeline.plan("one", on_data_loss="advance")) == [0, 1, 2]


def test_9_a_superseded_successor_names_what_the_plan_before_it_wrote(cluster: AnyCluster, pipeline: Pipeline) -> None:
    begin_read(pipeline.store, pipeline.plan("old"), 0, "lake/run=old/split=0")
    cluster.produce(pipeline.topic, 1)
    pipeline.plan("old", re_plan=True)
    pipeline.run("new")
    with pytest.raises(PlanSuperseded) as error:
        pipeline.plan("old")
    assert error.value.outputs == ["split 0: lake/run=old/split=0"]


def test_10_the_retry_of_a_commit_that_landed_in_part_is_in_nobodys_way(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("zero")
    for partition in range(3):
        cluster.produce(pipeline.topic, 2, partition)
    a = pipeline.plan("a")
    pipeline.read(a)
    land_first(cluster, pipeline, a)
    b = pipeline.plan("b")
    pipeline.commit(a)
    pipeline.commit(b)
    assert ranges(pipeline.run("c")) == [(6, 6)] * 3


def test_11_a_plan_that_outlived_its_work_store_is_superseded_too(
    cluster: AnyCluster, pipeline: Pipeline, tmp_path: object
) -> None:
    old = pipeline.plan("old")
    for name in ("b", "c"):
        pipeline.run(name)
        cluster.produce(pipeline.topic, 1)
    pipeline.store = open_work_store(f"{tmp_path}/another")
    assert old.run is not None
    store_plan(pipeline.store, old.run, old)
    with pytest.raises(PlanSuperseded):
        pipeline.plan("old")
    pipeline.read(old)
    with pytest.raises(StoreUnavailable):
        pipeline.commit(old, commit_mode="checkpoint-only")


def test_12_a_window_that_was_read_does_not_lose_what_its_output_holds(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.parameters = {
        "startup_mode": "timestamp",
        "startup_timestamp": 1,
        "bounded_mode": "timestamp",
        "bounded_timestamp": 1_795_168_800_001,
    }
    pipeline.run("window")
    cluster.delete_records(pipeline.topic, 3)
    with pytest.raises(DataLoss, match="leave it as it is"):
        pipeline.plan("window", on_data_loss="advance")


def test_13_a_plan_of_a_newer_version_is_refused(pipeline: Pipeline) -> None:
    pipeline.store.create("plans/dag/one/resolve/-1/plan.1.json", {"version": 2})
    with pytest.raises(StoreUnavailable, match="version 2"):
        pipeline.plan("one")


def test_14_a_deleted_topic_that_is_read_on_names_the_way_out(cluster: AnyCluster, pipeline: Pipeline) -> None:
    other = f"{pipeline.topic}-u"
    cluster.create_topic(other)
    pipeline.run("one", topics=[pipeline.topic, other])
    cluster.hands.delete_topic(other)
    with pytest.raises(NothingToDiscover, match="filter_restored_partitions"):
        pipeline.plan("two", filter_restored_partitions=False)


def test_15_a_log_that_was_cut_stops_a_replay() -> None:
    """Only in memory: one broker cannot lose an election."""
    memory = InMemoryCluster()
    memory.create_topic("orders")
    memory.produce(TopicPartition("orders", 0), [1] * 4)
    with TemporaryDirectory() as folder:
        pipeline = Pipeline(memory, open_work_store(folder), "orders", "g")
        pipeline.plan("one")
        memory.truncate(TopicPartition("orders", 0), 2)
        with pytest.raises(DataLoss, match="ends at 4, beyond the end of the log, 2"):
            pipeline.plan("one")
