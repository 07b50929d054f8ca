"""What ``broker/protocol.py`` promises of consumer groups, of the cluster in memory and of a real broker alike."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import ClusterUnavailable, GroupActive
from airflow_kafka_offsets.kafka_values import CommittedOffset, GroupDescription, TopicPartition
from tests.contract.conftest import AnyCluster
from tests.contract.test_cluster_contract import NOW_MS, tps


def test_a_commit_is_read_back_with_metadata_and_epoch_and_leaves_other_partitions_and_groups(
    cluster: AnyCluster, orders: str, group: str
) -> None:
    asked = first, second, third = tps(orders, 0, 1, 2)
    assert cluster.ask.committed(group, asked) == {}
    assert cluster.ask.describe_group(group) == GroupDescription("Dead")
    commits = {first: CommittedOffset(5, 0, '{"plan":"abc"}'), second: CommittedOffset(0)}
    cluster.ask.commit_offsets(group, commits)
    assert cluster.ask.committed(group, asked) == commits
    assert cluster.ask.committed(group, [third, second]) == {second: CommittedOffset(0)}
    assert cluster.ask.describe_group(group) == GroupDescription("Empty")
    cluster.ask.commit_offsets(group, {first: CommittedOffset(2), third: CommittedOffset(10**12, 3, "größer → ✓")})
    assert cluster.ask.committed(group, asked) == {
        first: CommittedOffset(2),
        second: CommittedOffset(0),
        third: CommittedOffset(10**12, 3, "größer → ✓"),
    }
    assert cluster.ask.committed(f"{group}-other", asked) == {}


def test_a_commit_of_another_client_is_read_until_the_group_is_deleted(
    cluster: AnyCluster, orders: str, group: str
) -> None:
    tp = TopicPartition(orders, 0)
    cluster.hands.commit_as_somebody_else(group, {tp: CommittedOffset(4, 2, "by hand")})
    assert cluster.ask.committed(group, [tp]) == {tp: CommittedOffset(4, 2, "by hand")}
    cluster.hands.expire(group)
    assert cluster.ask.committed(group, [tp]) == {}
    assert cluster.ask.describe_group(group) == GroupDescription("Dead")


def test_D13_a_commit_to_a_group_with_a_member_is_refused_and_nothing_is_written(
    cluster: AnyCluster, orders: str, group: str
) -> None:
    first, second = tps(orders, 0, 1)
    before = CommittedOffset(4, None, "before")
    cluster.hands.commit_as_somebody_else(group, {first: before})
    assert cluster.ask.describe_group(group).is_empty
    with cluster.hands.live_member(group, orders):
        live = cluster.ask.describe_group(group)
        assert (live.state, live.is_empty, len(live.members)) == ("Stable", False, 1)
        with pytest.raises(GroupActive) as refused:
            cluster.ask.commit_offsets(group, dict.fromkeys((first, second), CommittedOffset(9)))
        assert (refused.value.group_id, refused.value.members) == (group, live.members)
    assert cluster.ask.committed(group, [first, second]) == {first: before}
    assert cluster.ask.describe_group(group).is_empty
    cluster.ask.commit_offsets(group, {first: CommittedOffset(9)})
    assert cluster.ask.committed(group, [first]) == {first: CommittedOffset(9)}


def test_partitions_that_cannot_be_committed_are_all_named_and_the_others_are_written(
    cluster: AnyCluster, orders: str, group: str
) -> None:
    good, missing, gone = TopicPartition(orders, 0), TopicPartition(orders, 8), TopicPartition(f"{orders}-gone", 0)
    with pytest.raises(ClusterUnavailable) as unavailable:
        cluster.impatient.commit_offsets(group, dict.fromkeys((good, missing, gone), CommittedOffset(1)))
    assert f"{missing}:" in unavailable.value.reason
    assert f"{gone}:" in unavailable.value.reason
    assert f"{good}:" not in unavailable.value.reason
    assert cluster.ask.committed(group, [good]) == {good: CommittedOffset(1)}


def test_metadata_that_is_too_long_is_an_error_of_its_partition(cluster: AnyCluster, orders: str, group: str) -> None:
    fits, too_long, wide = tps(orders, 0, 1, 2)
    commits = {
        fits: CommittedOffset(1, None, "x" * 4095),
        too_long: CommittedOffset(2, None, "ü" * 4096),
        wide: CommittedOffset(3, None, "ü" * 4095),  # the broker counts characters, not bytes
    }
    with pytest.raises(ClusterUnavailable, match="OFFSET_METADATA_TOO_LARGE") as unavailable:
        cluster.ask.commit_offsets(group, commits)
    assert f"{too_long}:" in unavailable.value.reason
    assert f"{fits}:" not in unavailable.value.reason
    assert cluster.ask.committed(group, list(commits)) == {fits: commits[fits], wide: commits[wide]}


def test_a_pending_transactional_commit_is_awaited_and_its_partition_is_named(
    cluster: AnyCluster, orders: str, group: str
) -> None:
    pending, other = tps(orders, 0, 1)
    cluster.hands.commit_as_somebody_else(group, {pending: CommittedOffset(1), other: CommittedOffset(2)})
    transaction = cluster.hands.begin_transaction()
    transaction.produce(pending, [NOW_MS])
    transaction.send_offsets(group, {pending: 5})
    with pytest.raises(ClusterUnavailable, match="UNSTABLE_OFFSET_COMMIT") as unavailable:
        cluster.impatient.committed(group, [pending, other])
    assert f"{pending}:" in unavailable.value.reason
    assert f"{other}:" not in unavailable.value.reason
    transaction.commit()
    assert cluster.ask.committed(group, [pending])[pending].offset == 5


def test_an_aborted_transactional_commit_never_counts(cluster: AnyCluster, orders: str, group: str) -> None:
    tp = TopicPartition(orders, 0)
    cluster.hands.commit_as_somebody_else(group, {tp: CommittedOffset(1)})
    transaction = cluster.hands.begin_transaction()
    transaction.produce(tp, [NOW_MS])
    transaction.send_offsets(group, {tp: 5})
    transaction.abort()
    assert cluster.ask.committed(group, [tp]) == {tp: CommittedOffset(1)}
