"""Log, group, Airflow and cluster disagree (docs/log.md, "When log and group disagree"): each row, and what ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.batch.measured_lag import lag_question, look_at_lag
from airflow_kafka_offsets.errors import (
    AnotherAirflow,
    AnotherPipeline,
    BatchGone,
    ClusterChanged,
    ClusterUnavailable,
    GroupMoved,
    NothingToDiscover,
    StoreBehindGroup,
    WorkStoreLost,
)
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata
from airflow_kafka_offsets.plan.consumer_lag import parse_limits
from airflow_kafka_offsets.stores.local import LocalStore
from tests.cluster.memory import InMemoryCluster
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import AIRFLOW, CHECKPOINT, Airflow, Lake, Pipeline, entries
from tests.contract.troubles import Backup, produce

ALL_SIX = {number: list(range(6)) for number in range(3)}
ALL_EIGHT = {number: list(range(8)) for number in range(3)}


def lose(pipeline: Pipeline) -> None:
    """The work store is gone; Airflow's memory is not."""
    pipeline.store = LocalStore(pipeline.store.root.with_name("a new one"))  # type: ignore[attr-defined]
    pipeline.airflow.succeeded = True


def test_the_lag_of_a_lost_store_is_told_by_the_groups_marks(pipeline: Pipeline, cluster: AnyCluster) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    scope = pipeline.request().scope
    description = pipeline.cluster.describe(scope.subscription)

    def records() -> int:
        limits = parse_limits(1, None)
        question = lag_question(scope, limits, pipeline.log)
        return look_at_lag(question, pipeline.cluster, description, pipeline.now_ms).records

    assert records() == 6
    lose(pipeline)
    assert records() == 6


def marks(pipeline: Pipeline) -> set[CommitMetadata | None]:
    partitions = [TopicPartition(pipeline.topic, number) for number in range(3)]
    return {CommitMetadata.of(commit) for commit in pipeline.cluster.committed(pipeline.group, partitions).values()}


# ── the log is lost ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.also_on_a_broker
def test_a_lost_log_is_gone_on_from_by_the_marks(cluster: AnyCluster, pipeline: Pipeline) -> None:
    first = pipeline.run("one")
    produce(cluster, pipeline)
    lose(pipeline)
    run = pipeline.resolve("two", startup_mode="latest-offset")
    assert run.ranges == [(4, 6)] * 3
    assert [w for w in run.plan.warnings if f"goes on from the group's offsets, after {first.batch_key}" in w]
    run.done()
    assert pipeline.lake.offsets() == ALL_SIX
    assert pipeline.held() == pipeline.at() == {0: 6, 1: 6, 2: 6}


def test_numbers_do_not_come_back_after_a_loss(cluster: AnyCluster, pipeline: Pipeline) -> None:
    for name in ("one", "two", "three"):
        pipeline.run(name)
        produce(cluster, pipeline)
    lose(pipeline)
    run = pipeline.run("four")
    assert run.number == 4
    produce(cluster, pipeline)
    assert pipeline.run("five").number == 5, "and no commit after the loss is ahead of the log"


def test_a_lost_log_whose_position_the_group_has_is_written_down_though_nothing_is_new(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    """The group forgets it after a week without members."""
    pipeline.run("one")
    lose(pipeline)
    pipeline.run("two")
    assert pipeline.at() == {0: 4, 1: 4, 2: 4}
    cluster.hands.expire(pipeline.group)
    produce(cluster, pipeline)
    assert pipeline.run("three").ranges == [(4, 6)] * 3


def test_a_partition_that_the_group_has_forgotten_is_not_a_new_one(in_memory: Pipeline) -> None:
    """Its records were to be read: ``new_partition`` skips none of them. What was read of it is read once more."""
    memory = in_memory.cluster
    in_memory.run("one")
    memory.produce(TopicPartition("orders", 1), [1, 2])
    memory.expire(in_memory.group, [TopicPartition("orders", 1)])
    lose(in_memory)
    run = in_memory.run("two", new_partition="latest")
    assert run.ranges == [(4, 4), (0, 6), (4, 4)]
    assert run.plan.partitions[1].skipped == 0


def test_what_somebody_wrote_beside_the_marks_of_a_lost_log_is_not_overwritten(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    lose(pipeline)
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 1): 2})
    with pytest.raises(GroupMoved, match=r"\[1\].*the group is at 2"):
        pipeline.resolve("two")
    assert pipeline.run("two", group_moved="adopt-group").ranges == [(4, 4), (2, 4), (4, 4)]


def test_keep_checkpoint_signs_no_place_that_the_pipeline_is_not_at(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Else the loss of the log right after it would skip what lies between."""
    pipeline.run("one")
    produce(cluster, pipeline)
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 1): 6})
    pipeline.resolve("two", group_moved="keep-checkpoint")
    assert pipeline.held() == {0: 4, 1: 4, 2: 4}
    lose(pipeline)
    assert pipeline.run("three").ranges == [(4, 6)] * 3


def test_log_and_marks_are_lost_and_airflow_knows_better(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """Never the startup mode in silence: here it would skip."""
    pipeline.parameters = {"startup_mode": "latest-offset"}
    pipeline.run("one")
    lose(pipeline)
    cluster.hands.expire(pipeline.group)
    produce(cluster, pipeline)
    with pytest.raises(WorkStoreLost) as refused:
        pipeline.resolve("two")
    for fact in (CHECKPOINT, pipeline.store.uri, "task resolve has succeeded", '{"kafka_offsets": {"restart": true}}'):
        assert fact in str(refused.value)
    assert pipeline.log.newest() is None
    assert pipeline.run("two", restart="after the loss").ranges == [(6, 6)] * 3
    produce(cluster, pipeline)
    assert pipeline.run("three").ranges == [(6, 8)] * 3


def test_a_checkpoint_only_pipeline_has_no_marks_to_go_on_from(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.parameters["commit_mode"] = "checkpoint-only"
    pipeline.run("one")
    lose(pipeline)
    with pytest.raises(WorkStoreLost):
        pipeline.resolve("two")


@pytest.mark.parametrize("mirrors", [True, False])
def test_the_restart_word_of_the_dag_is_no_order_to_a_log_that_was_lost(
    cluster: AnyCluster, pipeline: Pipeline, mirrors: bool
) -> None:
    """It stands there in every run, and was applied long ago: all was read once more, and each run was green."""
    pipeline.parameters |= {"restart": "2026-11-20", "commit_mode": "on-success" if mirrors else "checkpoint-only"}
    assert pipeline.run("one").plan.restarts == ("2026-11-20",)
    produce(cluster, pipeline)
    lose(pipeline)
    if mirrors:
        run = pipeline.run("two")
        assert run.ranges == [(4, 6)] * 3
        assert [words for words in run.plan.warnings if "restart '2026-11-20' counts as applied" in words]
    else:
        with pytest.raises(WorkStoreLost):
            pipeline.resolve("two")
        pipeline.lake.rows.clear()
        assert pipeline.run("two", restart="run two").ranges == [(0, 6)] * 3, "the word of a run is an order"
    produce(cluster, pipeline)
    assert pipeline.run("three").ranges == [(6, 8)] * 3, "nor is it one to the runs after the loss"
    assert pipeline.lake.offsets() == ALL_EIGHT
    pipeline.parameters["restart"] = "2026-12-01"
    assert pipeline.resolve("four").ranges == [(0, 8)] * 3, "a new word is"


def test_nor_to_one_that_was_restored_from_an_older_copy(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    backup = Backup(pipeline.store)
    pipeline.parameters["restart"] = "2026-11-20"
    pipeline.run("two")
    backup.restore()
    produce(cluster, pipeline)
    with pytest.raises(StoreBehindGroup):
        pipeline.resolve("three")
    assert pipeline.run("three", group_moved="adopt-group").ranges == [(4, 6)] * 3
    assert pipeline.run("four").assignment.batch is None


def test_a_first_run_that_failed_before_has_lost_nothing(in_memory: Pipeline) -> None:
    in_memory.resolve("one")
    in_memory.airflow.succeeded = True  # its resolve task has
    assert in_memory.run("two").number == 1


# ── another pipeline ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_renamed_dag_is_told_the_name_that_its_position_has(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    renamed = replace(pipeline, pipeline_id="renamed")
    with pytest.raises(AnotherPipeline) as refused:
        renamed.resolve("two")
    assert (refused.value.other, len(refused.value.writers)) == (CHECKPOINT, 3)
    assert f"pipeline_id='{CHECKPOINT}'" in str(refused.value)
    assert renamed.log.newest() is None
    assert replace(renamed, pipeline_id=refused.value.other).run("two").ranges == [(4, 6)] * 3
    assert pipeline.lake.offsets() == ALL_SIX


def test_a_restart_does_not_take_another_pipelines_group(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    with pytest.raises(AnotherPipeline):
        pipeline.resolve("two", pipeline_id="renamed", restart="w")


def test_another_pipeline_that_does_not_mirror_may_read_beside_it(cluster: AnyCluster, pipeline: Pipeline) -> None:
    pipeline.run("one")
    before = marks(pipeline)
    audit = replace(pipeline, pipeline_id="audit", lake=Lake())
    audit.run("two", commit_mode="checkpoint-only")
    assert audit.lake.offsets() == pipeline.lake.offsets()
    assert marks(pipeline) == before


def test_two_pipelines_share_a_group_where_they_read_different_partitions(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    one = replace(pipeline, parameters={**pipeline.parameters, "topics": None, "partitions": {pipeline.topic: [0]}})
    two = replace(one, pipeline_id="two", parameters={**one.parameters, "partitions": {pipeline.topic: [1, 2]}})
    for number in range(2):
        one.run(f"one-{number}")
        two.run(f"two-{number}")
        produce(cluster, pipeline)
    assert pipeline.held() == {0: 6, 1: 6, 2: 6}
    assert pipeline.lake.offsets() == ALL_SIX


def test_what_another_pipeline_took_over_is_its_and_the_first_one_is_stopped(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    pipeline.run("one")
    cluster.hands.expire(pipeline.group)
    replace(pipeline, pipeline_id="other", lake=Lake()).run("two", max_records=1)
    with pytest.raises(GroupMoved, match=f"by pipeline 'other' of Airflow {AIRFLOW}"):
        pipeline.resolve("three")


# ── the store is an older copy ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def restored(cluster: AnyCluster, pipeline: Pipeline) -> Pipeline:
    """Batch 1 is in the store; batch 2, [4, 6), was committed after the backup."""
    pipeline.run("one")
    backup = Backup(pipeline.store)
    produce(cluster, pipeline)
    pipeline.run("two")
    backup.restore()
    return pipeline


def test_a_work_store_that_was_restored_from_yesterday_is_refused_and_named(restored: Pipeline) -> None:
    with pytest.raises(StoreBehindGroup) as refused:
        restored.resolve("three")
    assert (refused.value.newest, refused.value.in_group) == (1, 2)
    assert restored.store.uri in str(refused.value)
    assert restored.newest.log.plan.batch.number == 1  # type: ignore[union-attr]
    assert restored.held() == {0: 6, 1: 6, 2: 6}


def test_adopt_group_then_reads_nothing_twice(cluster: AnyCluster, restored: Pipeline) -> None:
    produce(cluster, restored)
    run = restored.run("three", group_moved="adopt-group")
    assert (run.number, run.ranges) == (3, [(6, 8)] * 3)
    assert restored.lake.offsets() == ALL_EIGHT
    assert restored.run("four").assignment.batch is None
    assert restored.held() == restored.at() == {0: 8, 1: 8, 2: 8}


def test_adopt_group_is_written_down_though_nothing_is_new(cluster: AnyCluster, restored: Pipeline) -> None:
    """Else the commit would set the group back to the older log, and the next run read the rest once more."""
    restored.run("three", group_moved="adopt-group")
    assert restored.held() == restored.at() == {0: 6, 1: 6, 2: 6}
    produce(cluster, restored)
    restored.run("four")
    assert restored.lake.offsets() == ALL_EIGHT


def test_adopt_group_keeps_what_the_log_knows_of_topics_that_the_group_tells_nothing_of(
    cluster: AnyCluster, pipeline: Pipeline
) -> None:
    other = f"{pipeline.topic}-other"
    cluster.create_topic(other)
    cluster.produce(other, 3)
    pipeline.run("one", topics=[pipeline.topic, other])
    backup = Backup(pipeline.store)
    produce(cluster, pipeline)
    pipeline.run("two")
    backup.restore()
    pipeline.run("three", group_moved="adopt-group")
    assert pipeline.position.offsets[TopicPartition(other, 0)].offset == 3
    assert pipeline.at() == {0: 6, 1: 6, 2: 6}


def test_keep_checkpoint_then_reads_again_what_the_lost_batches_read(restored: Pipeline) -> None:
    run = restored.run("three", group_moved="keep-checkpoint")
    assert (run.number, run.ranges) == (3, [(4, 6)] * 3)
    assert len(restored.lake.keys) == 3, "the lost batch's rows lie beside: its key is named before Spark writes"
    assert restored.held() == {0: 6, 1: 6, 2: 6}
    assert restored.run("four").assignment.batch is None


@pytest.mark.parametrize("nothing_new", [True, False])
def test_a_batch_that_only_the_group_knows_as_committed_is_passed_by(
    cluster: AnyCluster, pipeline: Pipeline, nothing_new: bool
) -> None:
    """The backup was made between its plan and its commit."""
    pipeline.run("one")
    produce(cluster, pipeline)
    failed = pipeline.resolve("two")
    backup = Backup(pipeline.store)
    failed.done()
    backup.restore()
    if not nothing_new:
        produce(cluster, pipeline)
    with pytest.raises(StoreBehindGroup):
        pipeline.resolve("three")
    run = pipeline.resolve("three", group_moved="adopt-group")
    assert (run.number, run.plan.batch.after if run.plan.batch else "") == (3, failed.batch_key)
    with pytest.raises(BatchGone, match="passed by when the group was adopted"):
        pipeline.resolve("two", group_moved="adopt-group")
    run.done()
    assert pipeline.lake.offsets() == (ALL_SIX if nothing_new else ALL_EIGHT)
    assert pipeline.held() == pipeline.at()


def test_while_that_is_unfinished_the_group_is_left_where_it_is(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """A commit task of an older run is tried once more meanwhile."""
    pipeline.run("one")
    empty = pipeline.resolve("empty")
    produce(cluster, pipeline)
    failed = pipeline.resolve("two")
    backup = Backup(pipeline.store)
    failed.done()
    backup.restore()
    produce(cluster, pipeline)
    run = pipeline.resolve("three", group_moved="adopt-group")
    empty.commit()
    assert pipeline.held() == {0: 6, 1: 6, 2: 6}
    run.done()
    assert pipeline.lake.offsets() == ALL_EIGHT


# ── somebody's ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("policy", "ranges"),
    [("adopt-group", [(2, 6), (4, 6), (4, 6)]), ("keep-checkpoint", [(4, 6)] * 3)],
)
def test_a_log_and_a_group_that_somebody_moved(
    cluster: AnyCluster, pipeline: Pipeline, policy: str, ranges: list[tuple[int, int]]
) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    cluster.commit_as_somebody(pipeline.group, {TopicPartition(pipeline.topic, 0): 2})
    with pytest.raises(GroupMoved):
        pipeline.resolve("two")
    assert pipeline.run("two", group_moved=policy).ranges == ranges
    assert pipeline.held() == {0: 6, 1: 6, 2: 6}
    assert pipeline.run("three").assignment.batch is None


def test_a_backup_of_airflows_database_changes_nothing(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """The runs of a day come back as not run: each finds its own batch in the work store."""
    keys = []
    for name in ("one", "two"):
        keys.append(pipeline.run(name).batch_key)
        produce(cluster, pipeline)
    for name in ("one", "two", "three"):
        keys.append(pipeline.run(name).batch_key)
    assert keys[2:4] == keys[:2]
    assert pipeline.lake.offsets() == ALL_EIGHT


# ── another Airflow ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def staging(pipeline: Pipeline) -> Pipeline:
    """A copy of the DAG, elsewhere, with the store and the group of production."""
    return replace(pipeline, airflow=Airflow("https://staging.example"))


def test_another_airflow_on_the_same_store_does_no_batch_of_it(pipeline: Pipeline, staging: Pipeline) -> None:
    run = pipeline.resolve("one")
    with pytest.raises(AnotherAirflow) as refused:
        staging.resolve("two")
    assert (refused.value.mine, refused.value.other) == ("https://staging.example", AIRFLOW)
    assert f"its work store {pipeline.store.uri}" in str(refused.value)
    assert entries(run.batch) == ["plan"]
    run.done()
    with pytest.raises(AnotherAirflow):
        staging.resolve("two")


def test_another_airflow_on_the_same_group_with_a_store_of_its_own(
    pipeline: Pipeline, staging: Pipeline, tmp_path: Any
) -> None:
    pipeline.run("one")
    staging.store = LocalStore(tmp_path / "staging")
    with pytest.raises(AnotherAirflow, match=f"the offsets in group '{pipeline.group}'"):
        staging.resolve("two")
    assert marks(pipeline) == {CommitMetadata(CHECKPOINT, AIRFLOW, pipeline.newest.log.plan.batch.key)}  # type: ignore[union-attr]


def test_an_airflow_that_takes_over_says_so_once_and_the_old_one_is_stopped(
    cluster: AnyCluster, pipeline: Pipeline, staging: Pipeline
) -> None:
    pipeline.run("one")
    produce(cluster, pipeline)
    run = staging.resolve("two", another_airflow="take-over")
    assert run.ranges == [(4, 6)] * 3
    assert {mark.instance if mark else None for mark in marks(pipeline)} == {"https://staging.example"}, "before Spark"
    run.done()
    produce(cluster, pipeline)
    assert staging.run("three").ranges == [(6, 8)] * 3
    with pytest.raises(AnotherAirflow):
        pipeline.resolve("four")


def test_a_take_over_is_written_down_though_nothing_is_new(pipeline: Pipeline, staging: Pipeline) -> None:
    pipeline.run("one")
    staging.run("two", another_airflow="take-over")
    staging.run("three")
    with pytest.raises(AnotherAirflow):
        pipeline.resolve("four")


def test_an_unfinished_batch_is_taken_over_too(pipeline: Pipeline, staging: Pipeline) -> None:
    failed = pipeline.resolve("one").spark()
    run = staging.run("two", another_airflow="take-over")
    assert run.batch_key == failed.batch_key
    assert staging.resolve("two").sentence == "does batch 1 once more: it committed it before, and was started again"
    with pytest.raises(AnotherAirflow):
        pipeline.resolve("one")


def test_a_take_over_is_written_down_though_the_run_leaves_its_batch(pipeline: Pipeline, staging: Pipeline) -> None:
    failed = pipeline.resolve("one").spark()
    pipeline.run("two")
    left = staging.resolve("one", another_airflow="take-over")
    assert left.splits == ()
    assert not left.commit().by_this
    with pytest.raises(AnotherAirflow):
        failed.commit()


def test_the_airflow_that_a_batch_was_taken_from_does_not_commit_it_late(
    cluster: AnyCluster, pipeline: Pipeline, staging: Pipeline
) -> None:
    """Its reads are verified; but what the other Airflow is at by now is not its to say."""
    late = pipeline.resolve("one").spark()
    taken = staging.resolve("two", another_airflow="take-over")
    for dry_run in (True, False):
        with pytest.raises(AnotherAirflow) as refused:
            late.commit(dry_run=dry_run)
    assert (refused.value.mine, refused.value.other) == (AIRFLOW, "https://staging.example")
    assert entries(late.batch) == ["plan", "taken"]
    assert pipeline.held() == {}
    taken.done()
    assert pipeline.held() == pipeline.at() == {0: 4, 1: 4, 2: 4}


# ── another cluster behind the address ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def moved(in_memory: Pipeline, memory: AnyCluster) -> Pipeline:
    """The cluster was replaced by another one with the same topic: only in memory, for a broker has one id."""
    in_memory.run("one")
    in_memory.cluster = another_cluster(6)
    return in_memory


def test_another_cluster_is_not_taken_for_a_first_run(moved: Pipeline) -> None:
    """With ``latest-offset`` all that is there would be skipped; with the old offsets some of it."""
    for mode in ("latest-offset", "earliest-offset"):
        with pytest.raises(ClusterChanged) as refused:
            moved.resolve("two", startup_mode=mode)
        assert (refused.value.was, refused.value.now) == ("memory", "another")
    assert moved.newest.log.plan.batch.number == 1  # type: ignore[union-attr]


def test_earliest_reads_the_new_cluster_from_its_log_starts(moved: Pipeline) -> None:
    run = moved.run("two", startup_mode="latest-offset", cluster_changed="earliest")
    assert run.ranges == [(0, 6)] * 3
    assert (moved.position.cluster_id, moved.held()) == ("another", {0: 6, 1: 6, 2: 6})
    assert moved.run("three").assignment.batch is None, "and from then on it is the cluster"


def test_offsets_of_the_old_cluster_are_no_position_in_the_new_one(in_memory: Pipeline, memory: AnyCluster) -> None:
    memory.create_topic("other")
    memory.produce("other", 5)
    in_memory.run("one", topics=["orders", "other"])
    in_memory.cluster = another_cluster(1)
    in_memory.run("two", cluster_changed="earliest")
    assert {tp.topic for tp in in_memory.position.offsets} == {"orders"}
    in_memory.cluster.create_topic("other")
    in_memory.cluster.produce(TopicPartition("other", 0), [1] * 9)
    assert in_memory.run("three", topics=["orders", "other"]).ranges[-1] == (0, 9)


def test_adopt_group_goes_on_from_the_offsets_that_a_mirroring_tool_has_translated(moved: Pipeline) -> None:
    moved.cluster.commit_as_somebody_else(
        moved.group, {TopicPartition("orders", number): CommittedOffset(number) for number in range(2)}
    )
    run = moved.run("two", cluster_changed="adopt-group")
    assert run.ranges == [(0, 6), (1, 6), (0, 6)]
    assert [p.start_reason for p in run.plan.partitions] == [
        "cluster changed → group adopted", "cluster changed → group adopted", "new partition → log start",
    ]  # fmt: skip
    assert moved.held() == {0: 6, 1: 6, 2: 6}
    assert moved.run("three").assignment.batch is None


def test_another_cluster_that_ends_where_the_first_one_did_is_recorded(in_memory: Pipeline) -> None:
    in_memory.run("one")
    in_memory.cluster = another_cluster(4)
    offsets = {TopicPartition("orders", number): CommittedOffset(4) for number in range(3)}
    in_memory.cluster.commit_as_somebody_else(in_memory.group, offsets)
    assert in_memory.run("two", cluster_changed="adopt-group").ranges == [(4, 4)] * 3
    assert in_memory.run("three").assignment.batch is None


def test_a_restart_wins_over_another_cluster(moved: Pipeline) -> None:
    run = moved.run("two", startup_mode="latest-offset", restart="new cluster")
    assert run.ranges == [(6, 6)] * 3
    assert [(p.lost, p.skipped) for p in run.plan.partitions] == [(0, 6)] * 3
    assert moved.position.cluster_id == "another"
    assert moved.run("three").assignment.batch is None


def test_an_unfinished_batch_of_the_other_cluster_is_planned_anew_on_this_one(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    in_memory.run("one")
    produce(memory, in_memory)
    failed = in_memory.resolve("failed").spark()
    failed.job().begin()
    in_memory.cluster = another_cluster(3)
    with pytest.raises(ClusterChanged):
        in_memory.resolve("two")
    run = in_memory.resolve("two", cluster_changed="earliest")
    assert (run.batch_key, run.ranges) == (failed.batch_key, [(0, 3)] * 3)
    run.done()
    assert in_memory.held() == in_memory.at() == {0: 3, 1: 3, 2: 3}


def test_one_that_is_verified_is_finished_in_the_log(in_memory: Pipeline, memory: AnyCluster) -> None:
    """What is written is good, whatever became of the cluster; its group is not there to be written."""
    in_memory.run("one")
    produce(memory, in_memory)
    in_memory.resolve("failed").spark()
    in_memory.cluster = another_cluster(3)
    run = in_memory.resolve("two", cluster_changed="earliest")
    assert run.splits == ()
    with pytest.raises(ClusterUnavailable, match="Use the connection that the batch was planned with"):
        run.commit()
    assert entries(run.batch) == ["plan", "taken", "commit"]
    assert in_memory.run("three", cluster_changed="earliest").ranges == [(0, 3)] * 3


def without_topic_ids(cluster: Any) -> InMemoryCluster:
    """As a broker before 2.8, or a service that gives topics no ids: one log does not look unlike another."""
    assert isinstance(cluster, InMemoryCluster)
    for topic in cluster.topics.values():
        topic.topic_id = None  # type: ignore[assignment]
    return cluster


def test_without_topic_ids_an_unfinished_batch_is_not_read_from_another_cluster(
    in_memory: Pipeline, memory: AnyCluster
) -> None:
    """Which has records at its offsets, too."""
    without_topic_ids(in_memory.cluster)
    in_memory.run("one")
    produce(memory, in_memory)
    failed = in_memory.resolve("failed")
    assert failed.ranges == [(4, 6)] * 3
    in_memory.cluster = without_topic_ids(another_cluster(8))
    with pytest.raises(ClusterChanged):
        in_memory.resolve("two")
    assert entries(failed.batch) == ["plan"]
    run = in_memory.resolve("two", cluster_changed="earliest")
    assert (run.batch_key, run.ranges) == (failed.batch_key, [(0, 8)] * 3)


def test_without_topic_ids_a_committed_batch_is_not_done_again_on_another_cluster(in_memory: Pipeline) -> None:
    """Its key would have other records, all green."""
    without_topic_ids(in_memory.cluster)
    run = in_memory.run("one")
    in_memory.cluster = without_topic_ids(another_cluster(8))
    again = in_memory.resolve("one", cluster_changed="earliest")
    assert (again.batch_key, again.splits) == (run.batch_key, ())
    assert "its records are gone from Kafka" in again.sentence
    assert entries(run.batch) == ["plan", "commit"]


def test_without_topic_ids_another_cluster_that_ends_where_the_first_one_did_is_recorded(in_memory: Pipeline) -> None:
    without_topic_ids(in_memory.cluster)
    in_memory.run("one")
    in_memory.cluster = without_topic_ids(another_cluster(4))
    offsets = {TopicPartition("orders", number): CommittedOffset(4) for number in range(3)}
    in_memory.cluster.commit_as_somebody_else(in_memory.group, offsets)
    assert in_memory.run("two", cluster_changed="adopt-group").ranges == [(4, 4)] * 3
    assert in_memory.position.cluster_id == "another"
    assert in_memory.run("three").assignment.batch is None


def another_cluster(records: int) -> InMemoryCluster:
    other = InMemoryCluster("another")
    other.create_topic("__consumer_offsets")
    other.create_topic("orders", 3)
    for number in range(3):
        other.produce(TopicPartition("orders", number), [1] * records)
    return other


def test_an_empty_cluster_without_the_topics_is_said(in_memory: Pipeline) -> None:
    in_memory.run("one")
    in_memory.cluster = InMemoryCluster("another")
    in_memory.cluster.create_topic("__consumer_offsets")
    with pytest.raises(NothingToDiscover, match="Topic orders does not exist"):
        in_memory.resolve("two")
