"""Rules I, and what happens between a plan and its commit (E11, G10, K2, K15 to K18, N2), end to end."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.engine.marks import Mark, mark_of
from airflow_kafka_offsets.engine.work import NoBatch, ResolvedBatch
from airflow_kafka_offsets.errors import (
    ClusterChanged,
    ClusterUnavailable,
    DataLoss,
    GroupActive,
    GroupMoved,
    ReadNotVerified,
)
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.offsets import GroupOffsets, Timestamp
from tests.cluster.commits import Interrupted
from tests.cluster.memory import InMemoryCluster
from tests.conformance.conftest import Site
from tests.conformance.pipeline import Pipeline, of
from tests.conformance.situations import COMMITTED, Range, at, committed_transaction

EARLIEST, LATEST = {"start": "earliest"}, {"start": "latest"}


def tp(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, number)


@pytest.fixture
def written(site: Site, orders: str) -> str:
    """Ten records in partition 0, and a partition that was never written."""
    site.hands.create_topic(orders, 2)
    site.hands.produce(tp(orders), [at(second) for second in range(10)])
    return orders


@pytest.fixture
def pipeline(site: Site, group: str, orders: str) -> Pipeline:
    return Pipeline(site.cluster, orders, group, dict(EARLIEST))


# ── what is committed ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_I3_I4_the_end_is_committed_of_every_partition_also_at_0(site: Site, pipeline: Pipeline, written: str) -> None:
    pipeline.ends_well()
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == pipeline.at == {0: 10, 1: 0}


@pytest.mark.parametrize("isolation", [{}, COMMITTED], ids=["uncommitted", "committed"])
def test_I9_J3_the_end_is_committed_past_a_transactions_marker(
    isolation: dict[str, str], site: Site, pipeline: Pipeline, orders: str
) -> None:
    committed_transaction(site.hands, orders)
    pipeline.connection = isolation
    pipeline.ends_well()
    assert pipeline.committed(tp(orders)) == {0: 6}, "the lag is 0"


def test_I10_a_commit_carries_the_epoch_and_names_pipeline_batch_and_topic(
    site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    run = pipeline.ends_well()
    [found] = site.cluster.committed(group, [tp(written)]).values()
    assert isinstance(run.work, ResolvedBatch)
    plan = run.work.batch.plan
    mark = Mark("billing", plan.key, plan.topic_ids[written], plan.cluster_id)
    assert (found.leader_epoch, mark_of(found.metadata)) == (0, mark)


def test_I6_F11_nothing_is_committed_before_the_read_is_verified(site: Site, pipeline: Pipeline, written: str) -> None:
    run = pipeline.next(require_report=True)
    with pytest.raises(ReadNotVerified, match="no Spark job has begun"):
        run.commit()
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}
    assert run.entries == ["plan"]
    assert pipeline.next().body == run.body


def test_I1_I7_without_a_group_the_position_is_committed_in_the_log_alone(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.group = None
    assert pipeline.ends_well().ranges == {0: (0, 10), 1: (0, 0)}
    site.hands.produce(tp(written), [at(20)])
    assert pipeline.next().ranges == {0: (10, 11), 1: (0, 0)}


# ── somebody else ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_I11_K7_the_first_batch_takes_over_a_group_that_is_further(
    site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    site.hands.commit_as_somebody_else(group, of(written, [0], 8))
    pipeline.ends_well(max_records=5)
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 5, 1: 0}


@pytest.mark.parametrize("moved_to", [3, 12], ids=["back", "ahead"])
def test_I11_a_concurrent_commit_of_another_client_is_not_overwritten_and_the_commit_stands(
    moved_to: int, site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    pipeline.ends_well()
    site.hands.produce(tp(written), [at(20)] * 5)
    run = pipeline.next()
    site.hands.commit_as_somebody_else(group, of(written, [0], moved_to))
    with pytest.raises(GroupMoved, match=rf"{written}-0: .*{moved_to}"):
        run.commit()
    assert run.entries == ["plan", "commit"]
    assert pipeline.committed(tp(written, 0)) == {0: moved_to}


def test_I11_of_two_runs_that_plan_at_one_time_both_have_one_batch_and_one_commit(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    first, second = pipeline.next(), pipeline.next()
    assert first.body == second.body
    second.commit()
    first.commit()
    assert first.entries == ["plan", "plan", "commit"]
    site.hands.produce(tp(written), [at(20)])
    assert pipeline.next().ranges == {0: (10, 11), 1: (0, 0)}


def test_I11_D13_a_group_with_a_member_is_neither_joined_nor_committed_to(
    site: Site, pipeline: Pipeline, written: str, group: str
) -> None:
    with site.hands.live_member(group, written):
        run = pipeline.next(start=GroupOffsets(otherwise="earliest"))
        assert run.ranges[0] == (0, 10)
        with pytest.raises(GroupActive, match="live members"):
            run.commit()
        assert run.entries == ["plan", "commit"], "the commit stands"
        found = site.cluster.describe_group(group)
        assert (found.state, len(found.members)) == ("Stable", 1), "planning joined nothing"
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {}
    run.commit()
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 10, 1: 0}


def test_I4_I11_where_nothing_is_new_the_group_is_written_all_the_same_which_renews_its_expiry(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.ends_well()
    site.hands.expire(pipeline.group)
    assert isinstance(pipeline.next().work, NoBatch)
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 10, 1: 0}


@pytest.mark.parametrize("arrived", [True, False])
def test_I5_a_commit_whose_answer_is_lost_fails_and_a_retry_is_safe(
    arrived: bool, site: Site, pipeline: Pipeline, written: str
) -> None:
    def lose() -> None:
        raise ClusterUnavailable("Cannot commit", "no answer", "Retry.", retriable=True)

    moment: dict[str, Any] = {"after_commit" if arrived else "before_commit": lose}
    run = pipeline.next()
    with pytest.raises(ClusterUnavailable):
        run.commit(Interrupted(site.cluster, **moment))
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == ({0: 10, 1: 0} if arrived else {})
    run.commit()
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 10, 1: 0}
    assert run.entries == ["plan", "commit"]


def test_I5_I8_a_commit_that_landed_in_the_log_and_was_never_retried_is_resumed_from(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    """The worker died between the log and the group."""

    def die() -> None:
        raise KeyboardInterrupt

    run = pipeline.next(max_records=4)
    with pytest.raises(KeyboardInterrupt):
        run.commit(Interrupted(site.cluster, before_commit=die))
    assert pipeline.committed(tp(written, 0)) == {}
    assert pipeline.ends_well().ranges == {0: (4, 10), 1: (0, 0)}
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 10, 1: 0}


# ── between plan and commit ───────────────────────────────────────────────────────────────────────────────────────────


def test_E6_G10_a_topic_that_is_re_created_after_the_plan_is_not_committed(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    """Spark may have read the one topic or the other: a report knows offsets only."""
    run = pipeline.next(require_report=True).spark()
    site.hands.recreate_topic(written)
    with pytest.raises(DataLoss, match="nothing was committed"):
        run.commit()
    assert run.entries == ["plan"]


def test_E11_records_that_are_deleted_after_they_were_read_are_committed_without_another_read(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.next(require_report=True).spark()
    site.hands.delete_records(tp(written), 6)
    again = pipeline.resolve("run-1", require_report=True)
    assert isinstance(again.work, ResolvedBatch)
    assert not again.work.starts_job
    again.commit()
    assert pipeline.committed(tp(written, 0), tp(written, 1)) == {0: 10, 1: 0}


@pytest.mark.parametrize("start", ["earliest", Timestamp(at(0))], ids=["earliest", "time"])
def test_A3_B11_K2_K15_a_retry_has_the_same_plan_and_what_came_later_is_the_next_runs(
    start: Any, site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.parameters = {"start": start}
    first = pipeline.next()
    site.hands.produce(tp(written), [at(1), at(2)])  # also records that are older than what is there
    again = pipeline.resolve("run-1")
    assert again.body == first.body
    again.commit()
    assert pipeline.next().ranges == {0: (10, 12), 1: (0, 0)}


def test_E11_B16_what_is_deleted_after_the_plan_stops_the_retry_or_is_counted(
    site: Site, pipeline: Pipeline, written: str
) -> None:
    pipeline.parameters = {"start": Timestamp(at(2))}
    first = pipeline.next()
    site.hands.delete_records(tp(written), 6)
    for name in ("run-1", "run-2"):
        with pytest.raises(DataLoss, match=r"start offset 2 is below log start offset 6 .4 offsets lost"):
            pipeline.resolve(name)
    again = pipeline.resolve("run-1", on_data_loss="advance")
    assert again.planned == {0: Range(6, 10, lost=4), 1: Range(0, 0)}
    assert isinstance(again.work, ResolvedBatch)
    assert isinstance(first.work, ResolvedBatch)
    assert again.work.key == first.work.key


def test_K17_a_partition_that_is_added_later_is_the_next_runs(site: Site, pipeline: Pipeline, written: str) -> None:
    first = pipeline.next()
    site.hands.add_partitions(written, 1)
    site.hands.produce(tp(written, 2), [at(0)] * 3)
    again = pipeline.resolve("run-1")
    assert again.body == first.body
    again.commit()
    assert pipeline.next().ranges == {0: (10, 10), 1: (0, 0), 2: (0, 3)}


@pytest.fixture
def fifteen(group: str) -> Pipeline:
    """Only in memory: one broker never loses the end of its log."""
    cluster = InMemoryCluster()
    cluster.create_topic("orders")
    cluster.produce(tp("orders"), [at(0)] * 15)
    return Pipeline(cluster, "orders", group, dict(EARLIEST))


@pytest.mark.parametrize("grown", [0, 8])
def test_K18_C6_a_log_that_was_cut_below_the_position_is_data_loss(grown: int, fifteen: Pipeline) -> None:
    fifteen.ends_well()
    fifteen.cluster.truncate(tp("orders"), 10)
    fifteen.cluster.produce(tp("orders"), [at(1)] * grown)
    with pytest.raises(DataLoss, match="the log was truncated"):
        fifteen.next()
    assert fifteen.ends_well(on_data_loss="advance").planned == {0: Range(10, 10 + grown, again=5)}
    assert fifteen.committed(tp("orders")) == {0: 10 + grown}, "the group follows, also back"


@pytest.mark.parametrize("grown", [0, 8])
def test_K18_a_log_that_was_cut_below_the_end_of_a_plan_stops_its_commit(grown: int, fifteen: Pipeline) -> None:
    run = fifteen.next()
    fifteen.cluster.truncate(tp("orders"), 10)
    fifteen.cluster.produce(tp("orders"), [at(1)] * grown)
    with pytest.raises(DataLoss, match="its log truncated"):
        run.commit()
    assert run.entries == ["plan"]


# ── two clusters ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_N2_topics_of_one_name_in_two_clusters_stay_apart(group: str) -> None:
    """Another cluster behind the same address is never taken for the first one, nor for a first run."""
    one, other = InMemoryCluster("one"), InMemoryCluster("other")
    for cluster in (one, other):
        cluster.create_topic("orders")
        cluster.produce(tp("orders"), [at(0)] * 10)
        next(iter(cluster.topics.values())).topic_id = "the same"
    pipeline = Pipeline(one, "orders", group, dict(EARLIEST))
    pipeline.ends_well(max_records=4)
    unfinished = pipeline.next()
    pipeline.cluster = other
    with pytest.raises(ClusterChanged, match=r"cluster one(.|\n)*cluster other"):
        pipeline.next()
    with pytest.raises(ClusterChanged, match="planned on cluster one, and the connection leads to cluster other"):
        unfinished.commit()
    assert unfinished.entries == ["plan"]
