"""What differs from the identity is refused, and the printed conf ends exactly that: once, whatever is retried."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from airflow_kafka_offsets.errors import (
    ActRefused,
    CheckpointBehind,
    CheckpointLost,
    ClusterChanged,
    DataLoss,
    GroupMoved,
    OtherPipeline,
    OutputChanged,
    PlanReplaced,
)
from airflow_kafka_offsets.kafka_values import CommittedOffset
from airflow_kafka_offsets.offsets import SpecificOffsets
from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import (
    HOUR,
    TOPIC,
    Pipeline,
    committed,
    conf_of,
    copy_of,
    printed_confs,
    produce,
    ranges_of,
    refused,
    tp,
)

# ── each difference ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_moved_group_is_refused_until_it_is_acknowledged(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 5)
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(3)})
    error = refused(pipeline)
    assert isinstance(error, GroupMoved)
    assert "group 'lake' holds 3, the position is 10" in str(error)
    work = pipeline.whole_run("b", conf=printed_confs(error)[0])
    assert (ranges_of(work)[0], committed(cluster)[0]) == ((10, 15), 15)


def test_the_groups_offsets_can_be_taken_instead(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.commit_as_somebody_else("lake", {tp(0): CommittedOffset(3)})
    work = pipeline.whole_run("b", conf=printed_confs(refused(pipeline))[1])
    assert ranges_of(work)[0] == (3, 10)
    assert [d[1:4] for d in work.body.decisions] == [(3, 10, "again")]


def test_another_cluster_is_refused_and_a_migrated_one_acknowledged(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.cluster_id = "another"
    cluster.recreate_topic(TOPIC)  # with other ids
    produce(cluster, 0, 12)
    error = refused(pipeline)
    assert isinstance(error, ClusterChanged)
    assert "It has read cluster memory, and the connection leads to cluster another." in str(error)
    assert ranges_of(pipeline.whole_run("b", conf=printed_confs(error)[0]))[0] == (10, 12)


def test_a_new_cluster_can_be_read_from_its_beginning(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.cluster_id = "another"
    assert ranges_of(pipeline.whole_run("b", conf=printed_confs(refused(pipeline))[1]))[0] == (0, 10)


@pytest.mark.parametrize("begun", [False, True])
def test_an_output_that_moves_on_purpose_is_acknowledged(
    cluster: InMemoryCluster, pipeline: Pipeline, begun: bool
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    produce(cluster, 0, 5)
    if begun:
        pipeline.drive(pipeline.work("old"))
    pipeline.output = "delta:/lake/moved"
    error = refused(pipeline)
    assert isinstance(error, OutputChanged)
    work = pipeline.work("b", conf=printed_confs(error)[0])
    pipeline.drive(work)
    assert (pipeline.commit(work).output, ranges_of(work)[0], work.batch.plan.expects) == (
        "delta:/lake/moved",
        (10, 15),
        None,
    )
    pipeline.output = "delta:/lake/orders"
    assert isinstance(refused(pipeline), OutputChanged)


def test_an_act_that_comes_between_spark_and_the_commit_stops_the_commit(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    work = pipeline.work("a")
    pipeline.drive(work)
    pipeline.output = "delta:/lake/moved"
    pipeline.resolve("b", conf=printed_confs(refused(pipeline))[0])
    with pytest.raises(PlanReplaced):
        pipeline.commit(work)


def test_an_act_for_the_output_accepts_no_other_cluster(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    pipeline.output = "delta:/lake/moved"
    conf = printed_confs(refused(pipeline))[0]
    cluster.cluster_id = "staging"
    error = refused(pipeline, run="b", conf=conf)
    assert isinstance(error, ActRefused)
    assert pipeline.log.identity().number == 1
    assert printed_confs(error)[0]["acknowledge"] == {"output": "delta:/lake/moved", "cluster": "staging"}


def test_a_vanished_topic_of_a_pattern_is_data_loss(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.parameters["topics"] = "^orders.*"
    cluster.create_topic("orders-7")
    cluster.produce(tp(0, "orders-7"), [cluster.now_ms] * 10)
    pipeline.whole_run(max_records=4)
    cluster.delete_topic("orders-7")
    error = refused(pipeline)
    assert isinstance(error, DataLoss)
    assert "orders-7-0: the topic was deleted; unread records from offset 4 on are gone" in str(error)
    work = pipeline.whole_run("b", conf=printed_confs(error)[0])
    assert [d[:4] for d in pipeline.log.body(pipeline.log.newest()).decisions] == [(tp(0, "orders-7"), 4, 10, "lost")]
    assert isinstance(work, NoBatch)
    assert isinstance(pipeline.resolve("c"), NoBatch)


def test_a_listed_topic_that_ended_is_no_longer_missed(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.parameters["topics"] = [TOPIC, "payments"]
    cluster.create_topic("payments")
    pipeline.whole_run()
    cluster.delete_topic("payments")
    pipeline.run_printed(refused(pipeline), "b")
    produce(cluster, 0, 3)
    assert ranges_of(pipeline.whole_run("c"))[0] == (0, 3)


@pytest.mark.parametrize("group", ["lake", None])
def test_a_lost_log_is_begun_again_behind_the_batches_that_are_known(
    cluster: InMemoryCluster, pipeline: Pipeline, group: str | None
) -> None:
    pipeline.parameters["group_id"] = group
    produce(cluster, 0, 10)
    pipeline.whole_run()
    pipeline.store = MemoryStore()
    error = refused(pipeline)
    assert isinstance(error, CheckpointLost)
    assert isinstance(refused(pipeline, run="x", conf=conf_of(0, reset={"start": "earliest"})), CheckpointLost)
    work = pipeline.resolve("b", conf=printed_confs(error)[0])
    start = 10 if group else 0  # without a group nobody knows where it was: its rows are to be deleted
    if isinstance(work, ResolvedBatch):
        assert ranges_of(work)[0] == (start, 10)
    assert pipeline.log.identity().bases == (0, 1)
    assert pipeline.log.newest().plan.key.startswith("0000000002-")


def test_a_renamed_pipeline_with_the_same_group_is_refused(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    pipeline.remembers, pipeline.airflow.planned = False, None
    error = refused(pipeline, pipeline_id="renamed")
    assert isinstance(error, CheckpointLost)
    work = pipeline.resolve("b", conf=printed_confs(error)[0], pipeline_id="renamed")
    assert isinstance(work, NoBatch)  # it resumes where the group is
    produce(cluster, 0, 2)
    assert ranges_of(pipeline.whole_run(pipeline_id="renamed"))[0] == (10, 12)


@pytest.mark.parametrize("group", ["lake", None])
def test_an_older_copy_of_the_log_is_refused_with_a_group_and_without(
    cluster: InMemoryCluster, pipeline: Pipeline, group: str | None
) -> None:
    pipeline.parameters["group_id"] = group
    produce(cluster, 0, 4)
    pipeline.whole_run()
    copy = copy_of(pipeline.store)
    produce(cluster, 0, 10)
    lost = pipeline.whole_run()
    pipeline.store = copy
    error = refused(pipeline)
    assert isinstance(error, CheckpointBehind)
    assert lost.key in str(error)
    work = pipeline.work("b", conf=printed_confs(error)[0])
    assert ranges_of(work)[0] == (4, 14)
    assert work.key > lost.key  # what is left of the lost batch sorts before it


def test_the_other_kind_of_pipeline_is_another_pipeline(cluster: InMemoryCluster, pipeline: Pipeline) -> None:
    pipeline.whole_run()
    with pytest.raises(OtherPipeline, match="another pipeline_id"):
        pipeline.resolve(want=pipeline.window(cluster.now_ms - HOUR, cluster.now_ms))


def test_another_number_of_shards_is_another_pipeline_that_starts_at_the_positions_of_all(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    for partition in range(3):
        produce(cluster, partition, 4 + partition)
    pipeline.parameters["group_id"], pipeline.remembers = None, False
    for i in range(2):
        pipeline.whole_run(shard=(i, 2))
    error = refused(pipeline)
    assert isinstance(error, OtherPipeline)
    assert 'start=SpecificOffsets({"orders": {"0": 4, "1": 5, "2": 6}})' in str(error)
    produce(cluster, 0, 1)
    start = SpecificOffsets('{"orders": {"0": 4, "1": 5, "2": 6}}')
    assert ranges_of(pipeline.whole_run(pipeline_id="new", start=start)) == {0: (4, 5), 1: (5, 5), 2: (6, 6)}


def test_lost_records_are_given_up_of_just_the_partitions_that_lost_them(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    produce(cluster, 1, 10)
    pipeline.whole_run()
    for partition in (0, 1):
        produce(cluster, partition, 10)
    cluster.delete_records(tp(0), 15)
    error = refused(pipeline)
    [conf] = printed_confs(error)
    assert conf["reset"] == {"start": {"orders-0": 15}}
    work = pipeline.whole_run("b", conf=conf)
    assert ranges_of(work) == {0: (15, 20), 1: (10, 20), 2: (0, 0)}
    assert [d[1:4] for d in work.body.decisions] == [(10, 15, "skipped")]


def test_nothing_of_a_re_created_topic_that_was_read_is_reported_as_lost(
    cluster: InMemoryCluster, pipeline: Pipeline
) -> None:
    produce(cluster, 0, 10)
    pipeline.whole_run()
    cluster.recreate_topic(TOPIC)
    produce(cluster, 0, 2)
    work = pipeline.whole_run("b", conf=printed_confs(refused(pipeline))[0])
    assert (ranges_of(work)[0], work.batch.plan.given_up["lost"]) == ((0, 2), 0)
