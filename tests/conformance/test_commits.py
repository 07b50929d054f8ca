"""Rules I, and what happens between a plan and its commit (E11, G10, K2, K15 to K18, N2), end to end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.broker.config import admin_settings
from airflow_kafka_offsets.committing import commit_run, parse_commit_mode
from airflow_kafka_offsets.errors import (
    ClusterUnavailable,
    CommitConflict,
    DataLoss,
    GroupActive,
    InvalidRequest,
    NothingToDiscover,
    ReadNotVerified,
    TopicRecreated,
)
from airflow_kafka_offsets.offsets.commits import CommitMark, pipeline_mark
from airflow_kafka_offsets.offsets.model import TopicPartition
from airflow_kafka_offsets.offsets.spec import TopicList
from airflow_kafka_offsets.stores.objects import WorkStore
from tests.cluster.commits import Interrupted
from tests.cluster.memory import InMemoryCluster
from tests.conformance.conftest import Site
from tests.conformance.pipeline import Pipeline, of, ranges
from tests.conformance.situations import COMMITTED, EARLIEST, LATEST, at, committed_transaction


def tp(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, number)


@pytest.fixture
def written(site: Site, orders: str) -> str:
    """Ten records in partition 0, and a partition that was never written."""
    site.hands.create_topic(orders, 2)
    site.hands.produce(tp(orders), [at(second) for second in range(10)])
    return orders


@pytest.fixture
def pipeline(site: Site, store: WorkStore, group: str, orders: str) -> Pipeline:
    return Pipeline(site.cluster, store, group, {"topics": [orders], **EARLIEST})


# ── what is committed ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_I3_I4_the_end_is_committed_of_every_partition_also_at_0(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.run()
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 10, 1: 0}


@pytest.mark.parametrize("isolation", [{}, COMMITTED], ids=["uncommitted", "committed"])
def test_I9_J3_the_end_is_committed_past_a_transactions_marker(
    isolation: dict[str, str], site: Site, pipeline: Pipeline, orders: str
) -> None:
    committed_transaction(site.hands, orders)
    pipeline.run(**isolation)
    assert pipeline.committed(tp(orders)) == {0: 6}, "the lag is 0"


def test_I10_a_commit_carries_the_epoch_and_names_run_plan_and_parent(
    site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    plan = pipeline.run()
    [found] = [c for t, c in site.cluster.committed(group, [tp(written)]).items()]
    assert found.leader_epoch == plan.partitions[0].leader_epoch == 0
    pipeline_of_mark = pipeline_mark(plan.checkpoint_id)
    assert CommitMark.of(found) == CommitMark(plan.plan_id, "billing/run-1/resolve", plan.parent, pipeline_of_mark)
    assert plan.parent is not None


def test_I6_nothing_is_committed_before_the_reads_are_verified(
    site: Site, pipeline: Pipeline, written: str, store: WorkStore
) -> None:
    plan = pipeline.plan()
    with pytest.raises(ReadNotVerified, match="split 0: no Spark job has begun"):
        commit_run(plan, store, site.cluster)
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}
    assert ranges(pipeline.plan()) == ranges(plan)


def test_I7_a_plan_without_a_group_is_made_and_not_committed(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.group = None
    plan = pipeline.plan()
    assert ranges(plan) == {0: (0, 10), 1: (0, 0)}
    with pytest.raises(InvalidRequest, match="no consumer group to commit to"):
        pipeline.commit(plan)


# ── the mode ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["on-success", "checkpoint-only", "never", None])
def test_I1_a_commit_mode(mode: str | None) -> None:
    assert parse_commit_mode(mode) == mode


@pytest.mark.parametrize("mode", ["KAFKA_PERIODIC", "periodic"])
def test_I1_asking_for_a_periodic_commit_gets_the_reason_why_there_is_none(mode: str) -> None:
    with pytest.raises(InvalidRequest, match="a batch has no periodic commit"):
        parse_commit_mode(mode)


def test_I1_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'sometimes'; use one of on-success, checkpoint-only, never"):
        parse_commit_mode("sometimes")


def test_I1_checkpoint_only_leaves_the_group_alone_and_goes_on(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.run("checkpoint-only", max_records=4)
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}
    assert ranges(pipeline.plan()) == {0: (4, 10), 1: (0, 0)}


def test_I1_never_moves_neither_group_nor_checkpoint(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.run("never", max_records=4)
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}
    assert ranges(pipeline.plan()) == {0: (0, 10), 1: (0, 0)}


def test_I2_auto_commit_never_reaches_a_client() -> None:
    config = {"bootstrap.servers": "h:1", "enable.auto.commit": True, "auto.commit.interval.ms": 5, "group.id": "g"}
    assert admin_settings(config) == {"bootstrap.servers": "h:1"}


# ── somebody else ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("moved_to", [3, 10], ids=["in between", "to the end"])
def test_I11_what_somebody_else_moved_meanwhile_is_a_conflict_and_nothing_is_written(
    moved_to: int, site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    plan = pipeline.plan()
    site.hands.commit_as_somebody_else(group, of(written, [0], moved_to))
    with pytest.raises(CommitConflict, match=rf"\[0\]: the group was at no commit .* ends at 10.* is at {moved_to}"):
        pipeline.commit(plan)
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: moved_to}
    assert ranges(pipeline.plan(on_group_moved="keep-checkpoint")) == {0: (0, 10), 1: (0, 0)}


def test_I11_of_two_plans_made_at_one_time_one_is_committed(site: Site, pipeline: Pipeline, written: str) -> None:
    first, second = pipeline.plan(), pipeline.plan()
    pipeline.commit(first)
    with pytest.raises(CommitConflict):
        pipeline.commit(second)
    pipeline.commit(first)
    assert ranges(pipeline.plan()) == {0: (10, 10), 1: (0, 0)}


def test_I11_D13_a_group_with_a_member_is_planned_for_and_not_committed_to(
    site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    def never() -> None:
        raise AssertionError("it is refused before it is tried")

    with site.hands.live_member(group, written):
        plan = pipeline.plan()
        with pytest.raises(GroupActive, match="live members"):
            pipeline.commit(plan, cluster=Interrupted(site.cluster, before_commit=never))
        assert site.cluster.describe_group(group).state == "Stable", "planning joined nothing"
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}


def test_I11_of_two_plans_that_leave_the_group_alone_one_is_kept(site: Site, pipeline: Pipeline, written: str) -> None:
    first, second = pipeline.plan(max_records=4), pipeline.plan()
    pipeline.commit(first, "checkpoint-only")
    with pytest.raises(CommitConflict, match="the newest is of run billing/run-1/resolve"):
        pipeline.commit(second, "checkpoint-only")
    assert ranges(pipeline.plan()) == {0: (4, 10), 1: (0, 0)}


def test_row_2_an_empty_plan_that_is_committed_again_renews_the_expiry(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.run()
    empty = pipeline.run()
    pipeline.run()
    assert dict(pipeline.commit(empty).written) == {tp(written, 0): (10, 10), tp(written, 1): (0, 0)}


@pytest.mark.parametrize("arrived", [True, False])
def test_I5_a_commit_whose_answer_is_lost_fails_and_a_retry_is_safe(
    arrived: bool, site: Site, pipeline: Pipeline, written: str
) -> None:
    def lose() -> None:
        raise ClusterUnavailable("Cannot commit", "no answer", "Retry.", retriable=True)

    moment = {"after_commit" if arrived else "before_commit": lose}
    plan = pipeline.plan()
    with pytest.raises(ClusterUnavailable):
        pipeline.commit(plan, cluster=Interrupted(site.cluster, **moment))
    pipeline.commit(plan)
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 10, 1: 0}
    assert ranges(pipeline.plan()) == {0: (10, 10), 1: (0, 0)}


def test_I5_a_commit_that_landed_and_was_never_retried_is_gone_on_from(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    """The worker died between the commit and its checkpoint."""

    def die() -> None:
        raise KeyboardInterrupt

    plan = pipeline.plan(max_records=4)
    with pytest.raises(KeyboardInterrupt):
        pipeline.commit(plan, cluster=Interrupted(site.cluster, after_commit=die))
    assert ranges(pipeline.plan()) == {0: (4, 10), 1: (0, 0)}


def test_I8_a_commit_that_was_overwritten_at_once_is_found_by_reading_back(
    site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    def overwrite() -> None:
        site.hands.commit_as_somebody_else(group, of(written, [0], 2))

    plan = pipeline.plan()
    with pytest.raises(CommitConflict, match=r"\[0\]: 10 was written, and the group holds 2"):
        pipeline.commit(plan, cluster=Interrupted(site.cluster, after_commit=overwrite))


def test_I11_a_group_that_moves_while_its_commit_is_prepared_is_a_conflict(
    site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    def move() -> None:
        site.hands.commit_as_somebody_else(group, of(written, [0], 2))

    plan = pipeline.plan()
    with pytest.raises(CommitConflict, match="moved from no commit to 2 while this commit was prepared"):
        pipeline.commit(plan, cluster=Interrupted(site.cluster, before_second_look=move))
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 2}


# ── between plan and commit ───────────────────────────────────────────────────────────────────────────────────────────


def test_G10_a_topic_that_is_deleted_after_the_plan_is_not_committed_to(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    plan = pipeline.plan()
    site.hands.delete_topic(written)
    with pytest.raises(TopicRecreated, match="the topic's id is gone"):
        pipeline.commit(plan)


def test_E6_G10_a_topic_that_is_made_again_after_the_plan_is_not_committed_to(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    plan = pipeline.plan()
    site.hands.recreate_topic(written)
    with pytest.raises(TopicRecreated, match="the plan was made for"):
        pipeline.commit(plan)
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}


def test_G11_asking_for_a_topic_does_not_create_it(site: Site, pipeline: Pipeline, orders: str) -> None:
    for _ in range(2):
        with pytest.raises(NothingToDiscover, match=orders):
            pipeline.plan()
    with pytest.raises(NothingToDiscover, match=orders):
        site.cluster.describe(TopicList((orders,)))


@pytest.mark.parametrize("mode", [EARLIEST, LATEST], ids=["earliest", "latest"])
def test_A3_B11_K2_K15_a_replay_is_the_same_plan_and_what_came_later_is_the_next_runs(
    mode: dict[str, str], site: Site, pipeline: Pipeline, written: str
) -> None:
    first = pipeline.plan(**mode)
    site.hands.produce(tp(written), [at(1), at(2)])  # also records that are older than what is there
    again = pipeline.replay(1, **mode)
    assert again == first
    assert again.plan_id == first.plan_id
    pipeline.commit(again)
    assert ranges(pipeline.plan(**mode)) == {0: (10, 12), 1: (0, 0)}


def test_E11_B16_what_is_deleted_after_the_plan_shows_in_it_and_in_the_next(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    first = pipeline.plan(startup_mode="timestamp", startup_timestamp=at(2))
    assert [p.log_start_offset for p in first.partitions] == [0, 0]
    site.hands.delete_records(tp(written), 6)
    with pytest.raises(DataLoss, match=r"start offset 2 .* is below log start offset 6 .4 offsets are gone"):
        pipeline.plan(startup_mode="timestamp", startup_timestamp=at(2))


def test_K17_a_partition_that_is_added_later_is_the_next_runs(memory_site: Site, store: WorkStore, group: str) -> None:
    cluster = memory_site.cluster
    assert isinstance(cluster, InMemoryCluster)
    cluster.create_topic("orders")
    pipeline = Pipeline(cluster, store, group, {"topics": ["orders"], **LATEST})
    first = pipeline.plan()
    cluster.add_partitions("orders", 1)
    cluster.produce(tp("orders", 1), [at(0)] * 3)
    assert ranges(pipeline.replay(1)) == ranges(first) == {0: (0, 0)}
    pipeline.commit(first)
    assert ranges(pipeline.plan()) == {0: (0, 0), 1: (0, 3)}


def test_K18_C6_a_log_that_was_cut_below_the_position_is_said(memory_site: Site, store: WorkStore, group: str) -> None:
    """Only in memory: one broker never loses the end of its log."""
    cluster = memory_site.cluster
    assert isinstance(cluster, InMemoryCluster)
    cluster.create_topic("orders")
    cluster.produce(tp("orders"), [at(0)] * 15)
    pipeline = Pipeline(cluster, store, group, {"topics": ["orders"], **EARLIEST})
    pipeline.run()
    cluster.truncate(tp("orders"), 10)
    with pytest.raises(DataLoss, match=r"start offset 15 .* is beyond the end of the log, 10"):
        pipeline.plan()
    second = pipeline.run(on_data_loss="advance")
    assert ranges(second) == {0: (0, 10)}
    assert [p.continuity for p in second.partitions] == ["truncated"]
    assert pipeline.committed(tp("orders")) == {0: 10}, "the policy that the user named moves the group back"


# ── two clusters ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_N2_topics_of_one_name_in_two_clusters_stay_apart(store: WorkStore, group: str) -> None:
    one, other = InMemoryCluster("one"), InMemoryCluster("other")
    for cluster in (one, other):
        cluster.create_topic("orders")
        cluster.produce(tp("orders"), [at(0)] * 10)
        next(iter(cluster.topics.values())).topic_id = "the same"
    pipeline = Pipeline(one, store, group, {"topics": ["orders"], **EARLIEST})
    first = pipeline.run(max_records=4)
    elsewhere = Pipeline(other, store, group, pipeline.ask, runs=10).plan(max_records=4)
    assert (first.cluster_id, elsewhere.cluster_id) == ("one", "other")
    assert ranges(elsewhere) == {0: (0, 4)}, "the first cluster's checkpoint is not this one's"
    assert replace(first, cluster_id="other").plan_id != first.plan_id
    with pytest.raises(InvalidRequest, match="made on cluster other, and this connection leads to cluster one"):
        pipeline.commit(elsewhere)


def test_N2_a_cluster_that_has_none_of_the_topics_is_told_from_topics_that_were_deleted(
    store: WorkStore, group: str
) -> None:
    one, other = InMemoryCluster("one"), InMemoryCluster("other")
    one.create_topic("orders")
    other.create_topic("__consumer_offsets", internal=True)
    plan = Pipeline(one, store, group, {"topics": ["orders"], **EARLIEST}).plan()
    with pytest.raises(InvalidRequest, match="made on cluster one, and this connection leads to cluster other"):
        Pipeline(other, store, group, {}).commit(plan)
