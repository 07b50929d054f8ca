"""Rules I, and what happens between a plan and its commit (E11, G10, K2, K15 to K18, N2), end to end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.broker.config import admin_settings
from airflow_kafka_offsets.errors import (
    ClusterChanged,
    ClusterUnavailable,
    DataLoss,
    GroupActive,
    GroupMoved,
    InvalidRequest,
    NoPosition,
    NothingToDiscover,
    ReadNotVerified,
    TopicRecreated,
)
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata
from airflow_kafka_offsets.request.policies import Skip
from airflow_kafka_offsets.request.subscription import TopicList
from airflow_kafka_offsets.stores.local import LocalStore
from tests.builders import altered
from tests.cluster.commits import Interrupted
from tests.cluster.memory import InMemoryCluster
from tests.conformance.conftest import Site
from tests.conformance.pipeline import Pipeline, of, ranges
from tests.conformance.situations import (
    COMMITTED,
    EARLIEST,
    LATEST,
    NOW,
    at,
    committed_transaction,
    since,
    until_time,
)
from tests.contract.pipeline import AIRFLOW, Run, entries
from tests.engine import skip_window
from tests.stores.builders import as_it_is_now


def tp(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, number)


@pytest.fixture
def written(site: Site, orders: str) -> str:
    """Ten records in partition 0, and a partition that was never written."""
    site.hands.create_topic(orders, 2)
    site.hands.produce(tp(orders), [at(second) for second in range(10)])
    return orders


@pytest.fixture
def pipeline(site: Site, store: LocalStore, group: str, orders: str) -> Pipeline:
    return Pipeline(site.cluster, store, orders, group, dict(EARLIEST))


def commit(run: Run, cluster: Any = None) -> None:
    """The commit task of ``run``, which may have another cluster to speak to; its reads are not looked at."""
    if cluster is not None:
        run = replace(run, pipeline=replace(run.pipeline, cluster=cluster))
    run.commit(require_report=False)


# ── what is committed ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_I3_I4_the_end_is_committed_of_every_partition_also_at_0(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.ends_well()
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == pipeline.at() == {0: 10, 1: 0}


@pytest.mark.parametrize("isolation", [{}, COMMITTED], ids=["uncommitted", "committed"])
def test_I9_J3_the_end_is_committed_past_a_transactions_marker(
    isolation: dict[str, str], site: Site, pipeline: Pipeline, orders: str
) -> None:
    committed_transaction(site.hands, orders)
    pipeline.ends_well(**isolation)
    assert pipeline.committed(tp(orders)) == {0: 6}, "the lag is 0"


def test_I10_a_commit_carries_the_epoch_and_names_pipeline_airflow_and_batch(
    site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    run = pipeline.ends_well()
    [found] = [c for t, c in site.cluster.committed(group, [tp(written)]).items()]
    assert found.leader_epoch == run.plan.partitions[0].leader_epoch == 0
    assert CommitMetadata.of(found) == CommitMetadata("billing", AIRFLOW, run.batch_key)


def test_I6_F11_nothing_is_committed_before_the_reads_are_verified(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    run = pipeline.next()
    with pytest.raises(ReadNotVerified, match="split 0: no Spark job has begun"):
        run.commit()
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}
    assert entries(run.batch) == ["plan"]
    assert pipeline.next().plan == run.plan


def test_I7_without_a_group_the_position_is_committed_in_the_log_alone(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.group = None
    run = pipeline.next()
    assert (ranges(run.plan), run.plan.asked.group_follows) == ({0: (0, 10), 1: (0, 0)}, False)
    assert run.commit(require_report=False).written == {}
    site.hands.produce(tp(written), [at(20)])
    assert ranges(pipeline.next().plan) == {0: (10, 11), 1: (0, 0)}


# ── the mode ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("mode", "group_follows"), [("on-success", True), ("checkpoint-only", False), (None, True)])
def test_I1_a_commit_mode(
    mode: str | None, group_follows: bool, memory_site: Site, store: LocalStore, group: str
) -> None:
    memory_site.hands.create_topic("orders")
    pipeline = Pipeline(memory_site.cluster, store, "orders", group, dict(EARLIEST))
    assert pipeline.next(**({"commit_mode": mode} if mode else {})).plan.asked.group_follows is group_follows


@pytest.mark.parametrize("mode", ["KAFKA_PERIODIC", "periodic"])
def test_I1_asking_for_a_periodic_commit_gets_the_reason_why_there_is_none(mode: str, pipeline: Pipeline) -> None:
    with pytest.raises(InvalidRequest, match="a batch has no periodic commit"):
        pipeline.request(commit_mode=mode)


@pytest.mark.parametrize("mode", ["sometimes", "never"])
def test_I1_an_unknown_mode_is_refused(mode: str, pipeline: Pipeline) -> None:
    with pytest.raises(InvalidRequest, match=f"'{mode}'; use one of on-success, checkpoint-only\\.\nPage: "):
        pipeline.request(commit_mode=mode)


def test_I1_checkpoint_only_leaves_the_group_alone_and_goes_on(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.parameters["commit_mode"] = "checkpoint-only"
    pipeline.ends_well(max_records=4)
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}
    assert ranges(pipeline.next().plan) == {0: (4, 10), 1: (0, 0)}


def test_I2_auto_commit_never_reaches_a_client() -> None:
    config = {"bootstrap.servers": "h:1", "enable.auto.commit": True, "auto.commit.interval.ms": 5, "group.id": "g"}
    assert admin_settings(config) == {"bootstrap.servers": "h:1"}


# ── somebody else ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_I11_K7_the_first_batch_takes_a_group_over_that_is_further_and_says_so(
    site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    site.hands.commit_as_somebody_else(group, of(written, [0], 8))
    run = pipeline.ends_well(max_records_per_partition=5)
    assert [w for w in run.plan.warnings if "(" + str(tp(written)) + ": at 8, the plan ends at 5)" in w]
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 5, 1: 0}


@pytest.mark.parametrize("moved_to", [3, 10], ids=["in between", "to the end"])
def test_I11_what_somebody_else_wrote_meanwhile_is_not_overwritten_and_nothing_is_committed(
    moved_to: int, site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    run = pipeline.next()
    site.hands.commit_as_somebody_else(group, of(written, [0], moved_to))
    with pytest.raises(GroupMoved, match=rf"\[0\]: the position is unknown .* the group is at {moved_to}, by somebody"):
        commit(run)
    assert entries(run.batch) == ["plan"]
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: moved_to}
    assert ranges(pipeline.next(group_moved="keep-checkpoint").plan) == {0: (0, 10), 1: (0, 0)}


def test_I11_of_two_runs_that_plan_at_one_time_both_have_one_batch_and_one_commit(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    first, second = pipeline.next(), pipeline.next()
    assert first.plan == second.plan
    commit(second)  # without reports it is the one that has the batch
    commit(first)
    assert entries(first.batch) == ["plan", "taken", "commit"]
    site.hands.produce(tp(written), [at(20)])
    assert ranges(pipeline.next().plan) == {0: (10, 11), 1: (0, 0)}


def test_I11_D13_a_group_with_a_member_is_neither_joined_nor_committed_to(
    site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    run = pipeline.next()
    with site.hands.live_member(group, written):
        assert ranges(pipeline.first(startup_mode="group-offsets", auto_offset_reset="earliest"))[0] == (0, 10)
        commit(run)
        site.hands.produce(tp(written), [at(20)])
        with pytest.raises(GroupActive, match="live members"):
            pipeline.next()
        found = site.cluster.describe_group(group)
        assert (found.state, len(found.members)) == ("Stable", 1), "planning joined nothing"
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}


def test_I4_I11_where_nothing_is_new_the_group_is_written_all_the_same_which_renews_its_expiry(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.ends_well()
    empty = pipeline.next()
    assert empty.assignment.batch is None
    assert dict(empty.commit().written) == {tp(written, 0): (10, 10), tp(written, 1): (0, 0)}


@pytest.mark.parametrize("arrived", [True, False])
def test_I5_a_commit_whose_answer_is_lost_fails_and_a_retry_is_safe(
    arrived: bool, site: Site, pipeline: Pipeline, written: str
) -> None:
    def lose() -> None:
        raise ClusterUnavailable("Cannot commit", "no answer", "Retry.", retriable=True)

    moment = {"after_commit" if arrived else "before_commit": lose}
    run = pipeline.next()
    with pytest.raises(ClusterUnavailable):
        commit(run, Interrupted(site.cluster, **moment))
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == ({0: 10, 1: 0} if arrived else {})
    commit(run)
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 10, 1: 0}
    assert entries(run.batch) == ["plan", "commit"]


def test_I5_a_commit_that_landed_in_the_log_and_was_never_retried_is_gone_on_from(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    """The worker died between the log and the group."""

    def die() -> None:
        raise KeyboardInterrupt

    run = pipeline.next(max_records=4)
    with pytest.raises(KeyboardInterrupt):
        commit(run, Interrupted(site.cluster, before_commit=die))
    assert pipeline.committed(tp(written, 0)) == {}
    assert ranges(pipeline.ends_well().plan) == {0: (4, 10), 1: (0, 0)}
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 10, 1: 0}


def test_I8_the_group_has_the_position_when_the_task_ends(site: Site, pipeline: Pipeline, written: str) -> None:
    """Not up to ten seconds later: it is asked at once, by another client."""
    run = pipeline.next()
    seen: list[dict[int, int]] = []
    commit(
        run,
        Interrupted(site.cluster, after_commit=lambda: seen.append(pipeline.committed(tp(written, 0), tp(written, 1)))),
    )
    assert seen == [{0: 10, 1: 0}]


# ── between plan and commit ───────────────────────────────────────────────────────────────────────────────────────────


def test_G10_a_topic_that_is_deleted_after_it_was_read_is_committed_in_the_log_alone(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    if isinstance(site.cluster, InMemoryCluster):
        site.cluster.create_topic("__consumer_offsets")  # a broker makes it for the first group
    run = pipeline.next()
    site.hands.delete_topic(written)
    assert run.commit(require_report=False).written == {}
    assert entries(run.batch) == ["plan", "commit"]


def test_E6_G10_a_topic_that_is_made_again_after_the_plan_is_not_committed_to(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    """Its records were read and are committed in the log; the group gets no offset of another log."""
    run = pipeline.next().spark()
    site.hands.recreate_topic(written)
    assert run.commit().written == {}
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}
    with pytest.raises(TopicRecreated, match=run.plan.found.topic_ids[written] or "no id"):
        pipeline.next()


def test_G11_asking_for_a_topic_does_not_create_it(site: Site, pipeline: Pipeline, orders: str) -> None:
    for _ in range(2):
        with pytest.raises(NothingToDiscover, match=orders):
            pipeline.next()
    with pytest.raises(NothingToDiscover, match=orders):
        site.cluster.describe(TopicList((orders,)))


@pytest.mark.parametrize("mode", [EARLIEST, LATEST], ids=["earliest", "latest"])
def test_A3_B11_K2_K15_a_retry_has_the_same_plan_and_what_came_later_is_the_next_runs(
    mode: dict[str, str], site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.parameters = dict(mode)
    first = pipeline.next()
    site.hands.produce(tp(written), [at(1), at(2)])  # also records that are older than what is there
    again = pipeline.resolve("run-1")
    assert again.plan == first.plan
    commit(again)
    assert ranges(pipeline.next().plan) == {0: (10, 12), 1: (0, 0)}


def test_E11_B16_what_is_deleted_after_the_plan_shows_in_it_and_stops_the_retry(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.parameters = {"startup_mode": "timestamp", "startup_timestamp": at(2)}
    first = pipeline.next()
    assert [p.log_start_offset for p in first.plan.partitions] == [0, 0]
    site.hands.delete_records(tp(written), 6)
    for name in ("run-1", "run-2"):
        with pytest.raises(DataLoss, match=r"start offset 2 is below log start offset 6 .4 offsets are gone"):
            pipeline.resolve(name)


def test_K17_a_partition_that_is_added_later_is_the_next_runs(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.parameters = dict(LATEST)
    first = pipeline.next()
    site.hands.add_partitions(written, 1)
    site.hands.produce(tp(written, 2), [at(0)] * 3)
    assert pipeline.resolve("run-1").plan == first.plan
    commit(first)
    assert ranges(pipeline.next().plan) == {0: (10, 10), 1: (0, 0), 2: (0, 3)}


def test_K18_C6_a_log_that_was_cut_below_the_position_is_said(memory_site: Site, store: LocalStore, group: str) -> None:
    """Only in memory: one broker never loses the end of its log."""
    cluster = memory_site.cluster
    assert isinstance(cluster, InMemoryCluster)
    cluster.create_topic("orders")
    cluster.produce(tp("orders"), [at(0)] * 15)
    pipeline = Pipeline(cluster, store, "orders", group, dict(EARLIEST))
    pipeline.ends_well()
    cluster.truncate(tp("orders"), 10)
    with pytest.raises(DataLoss, match=r"from offset 10 on, the log is another one .* read up to 15"):
        pipeline.next()
    second = pipeline.ends_well(data_loss="advance").plan
    assert ranges(second) == {0: (10, 10)}
    assert [p.continuity for p in second.partitions] == ["truncated"]
    assert pipeline.committed(tp("orders")) == {0: 10}, "the policy that the user named moves the group back"


def test_K18_a_log_that_was_cut_below_the_end_of_a_plan_stops_its_retry(
    memory_site: Site, store: LocalStore, group: str
) -> None:
    cluster = memory_site.cluster
    assert isinstance(cluster, InMemoryCluster)
    cluster.create_topic("orders")
    cluster.produce(tp("orders"), [at(0)] * 15)
    pipeline = Pipeline(cluster, store, "orders", group, dict(EARLIEST))
    pipeline.next()
    cluster.truncate(tp("orders"), 10)
    with pytest.raises(DataLoss, match="end offset 15 is beyond the end of the log, 10"):
        pipeline.resolve("run-1")


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "unfinished"])
def test_a_name_that_leads_out_of_the_windows_makes_no_batch_of_the_log_empty(
    committed: bool, memory_site: Site, store: LocalStore, group: str
) -> None:
    """A committed batch is never planned anew, and an unfinished one only by its key."""
    memory_site.hands.create_topic("orders")
    memory_site.hands.produce(tp("orders"), [at(0)] * 10)
    pipeline = Pipeline(memory_site.cluster, store, "orders", group, dict(EARLIEST))
    run = pipeline.ends_well() if committed else pipeline.next()
    pipeline.resolve("window", **since(at(0)), **until_time(at(1)), output_name="windows")
    assert pipeline.log.windows(), "on a disk a way leads through a folder that is there"
    for dry_run in (True, False):
        with pytest.raises(NoPosition, match="has no window"):
            skip_window(pipeline.log, Skip(f"../{run.batch.name}"), now_ms=NOW, dry_run=dry_run)
    assert entries(run.batch) == (["plan", "commit"] if committed else ["plan"])
    assert as_it_is_now(run.batch).log.plan == run.plan


# ── two clusters ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_N2_topics_of_one_name_in_two_clusters_stay_apart(store: LocalStore, group: str) -> None:
    """Another cluster behind the same address is never taken for the first one, nor for a first run."""
    one, other = InMemoryCluster("one"), InMemoryCluster("other")
    for cluster in (one, other):
        cluster.create_topic("orders")
        cluster.produce(tp("orders"), [at(0)] * 10)
        next(iter(cluster.topics.values())).topic_id = "the same"
    pipeline = Pipeline(one, store, "orders", group, dict(EARLIEST))
    first = pipeline.ends_well(max_records=4)
    assert pipeline.position.cluster_id == first.plan.found.cluster_id == "one"
    pipeline.cluster = other
    with pytest.raises(ClusterChanged, match="has read cluster one, and the connection leads to cluster other"):
        pipeline.next()
    elsewhere = pipeline.next(max_records=4, cluster_changed="earliest")
    assert ranges(elsewhere.plan) == {0: (0, 4)}, "the first cluster's position is not this one's"
    assert altered(first.plan, cluster_id="other").plan_id != first.plan.plan_id
    with pytest.raises(ClusterUnavailable, match="was read from cluster other, and this connection leads to"):
        commit(elsewhere, one)


def test_N2_a_cluster_that_has_none_of_the_topics_is_told_from_topics_that_were_deleted(
    store: LocalStore, group: str
) -> None:
    one, other = InMemoryCluster("one"), InMemoryCluster("other")
    one.create_topic("orders")
    other.create_topic("__consumer_offsets")
    run = Pipeline(one, store, "orders", group, dict(EARLIEST)).next()
    with pytest.raises(ClusterUnavailable, match="was read from cluster one, and this connection leads to other"):
        commit(run, other)
