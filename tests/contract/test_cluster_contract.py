"""What `broker/protocol.py` promises, of the cluster in memory and of a real broker alike.

The laws and tables of the other suites run on the one in memory; this is what keeps it honest.
"""

from __future__ import annotations

import re

import pytest

from airflow_kafka_offsets.broker.partition_errors import epoch_of
from airflow_kafka_offsets.broker.protocol import EndOffset, GroupDescription
from airflow_kafka_offsets.errors import ClusterUnavailable, GroupActive, NothingToDiscover
from airflow_kafka_offsets.kafka_values import CommittedOffset, IsolationLevel, TopicPartition, TopicSettings
from airflow_kafka_offsets.request.subscription import PartitionSet, TopicList, TopicPattern
from tests.contract.conftest import NOW_MS, AnyCluster

pytestmark = pytest.mark.also_on_a_broker

BOTH: tuple[IsolationLevel, ...] = ("read_uncommitted", "read_committed")


def tps(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def ends(cluster: AnyCluster, topic: str, isolation_level: IsolationLevel, *numbers: int) -> list[int]:
    asked = tps(topic, *(numbers or (0,)))
    found = cluster.reader.end_offsets(asked, isolation_level)
    return [found[tp].offset for tp in asked]


def starts(cluster: AnyCluster, topic: str, *numbers: int) -> list[int]:
    asked = tps(topic, *(numbers or (0,)))
    found = cluster.reader.log_start_offsets(asked)
    return [found[tp] for tp in asked]


# Describe and discover


def test_a_described_topic_has_an_id_and_a_leader_for_each_partition(cluster: AnyCluster, orders: str) -> None:
    description = cluster.reader.describe(TopicList((orders,)))
    assert description.cluster_id
    assert description.partitions() == tps(orders, 0, 1, 2)
    assert description.topics[orders].topic_id
    assert description.topics[orders].leaders == {0: 1, 1: 1, 2: 1}
    assert cluster.reader.describe(TopicList((orders,))) == description


def test_discover_finds_the_same_without_ids(cluster: AnyCluster, orders: str) -> None:
    found = cluster.reader.discover(TopicList((orders,)))
    assert found.cluster_id == cluster.reader.describe(TopicList((orders,))).cluster_id
    assert found.partitions() == tps(orders, 0, 1, 2)
    assert found.topics[orders].topic_id is None


def test_a_listed_topic_that_does_not_exist_is_named_and_not_created(cluster: AnyCluster, orders: str) -> None:
    gone = f"{orders}-gone"
    with pytest.raises(NothingToDiscover) as refused:
        cluster.reader.describe(TopicList((orders, gone)))
    assert len(refused.value.partitions) == 1
    assert gone in refused.value.partitions[0]
    assert list(cluster.reader.discover(TopicList((orders, gone))).topics) == [orders]


def test_a_pattern_matches_the_whole_name(cluster: AnyCluster, orders: str) -> None:
    longer = f"{orders}-longer"
    cluster.create_topic(longer)
    pattern = re.escape(orders)
    assert list(cluster.reader.describe(TopicPattern(pattern)).topics) == [orders]
    assert set(cluster.reader.describe(TopicPattern(pattern + ".*")).topics) == {orders, longer}
    with pytest.raises(NothingToDiscover, match="rders"):
        cluster.reader.describe(TopicPattern(pattern[1:]))


def test_a_pattern_without_a_match_is_an_error_to_describe_and_empty_to_discover(cluster: AnyCluster) -> None:
    with pytest.raises(NothingToDiscover, match=r"no-such-topic-\.\*"):
        cluster.reader.describe(TopicPattern("no-such-topic-.*"))
    assert cluster.reader.discover(TopicPattern("no-such-topic-.*")).topics == {}


def test_G4_internal_topics_match_no_pattern_and_are_found_by_their_names(cluster: AnyCluster) -> None:
    internal = "__consumer_offsets"
    assert internal not in cluster.reader.discover(TopicPattern("__.*")).topics
    with pytest.raises(NothingToDiscover):
        cluster.reader.describe(TopicPattern("__consumer.*"))
    assert list(cluster.reader.describe(TopicList((internal,))).topics) == [internal]


def test_of_topics_that_need_not_exist_those_are_described_that_do(cluster: AnyCluster, orders: str) -> None:
    assert list(cluster.reader.describe(TopicList((orders, f"{orders}-gone"), all_exist=False)).topics) == [orders]
    assert cluster.reader.describe(TopicList((f"{orders}-gone",), all_exist=False)).topics == {}


def test_explicit_partitions_are_described_and_no_others(cluster: AnyCluster, orders: str) -> None:
    wanted = PartitionSet(tuple(tps(orders, 0, 2)))
    assert cluster.reader.describe(wanted).partitions() == tps(orders, 0, 2)
    assert cluster.reader.discover(wanted).partitions() == tps(orders, 0, 2)


def test_explicit_partitions_that_do_not_exist_are_named(cluster: AnyCluster, orders: str) -> None:
    with pytest.raises(NothingToDiscover) as refused:
        cluster.reader.describe(PartitionSet(tuple(tps(orders, 0, 3, 9))))
    assert [line.split(" ")[0] for line in refused.value.partitions] == [f"{orders}[3]", f"{orders}[9]"]
    with pytest.raises(NothingToDiscover, match=f"{orders}-gone"):
        cluster.reader.describe(PartitionSet(tuple(tps(f"{orders}-gone", 0))))


def test_a_new_partition_is_seen(cluster: AnyCluster, orders: str) -> None:
    assert len(cluster.reader.describe(TopicList((orders,))).partitions()) == 3
    cluster.hands.add_partitions(orders, 2)
    assert cluster.reader.describe(TopicList((orders,))).partitions() == tps(orders, 0, 1, 2, 3, 4)
    assert ends(cluster, orders, "read_uncommitted", 3, 4) == [0, 0]


def test_a_topic_that_is_made_again_has_another_id_and_the_groups_offsets_are_gone(
    cluster: AnyCluster, orders: str, group: str
) -> None:
    cluster.produce(orders, 5)
    cluster.commit_as_somebody(group, {TopicPartition(orders, 0): 5})
    before = cluster.reader.describe(TopicList((orders,))).topics[orders].topic_id
    cluster.recreate_topic(orders)
    assert cluster.reader.describe(TopicList((orders,))).topics[orders].topic_id != before
    assert cluster.reader.committed(group, tps(orders, 0)) == {}
    assert ends(cluster, orders, "read_uncommitted", 0, 1) == [0, 0]


# The ends of the log


def test_a_partition_that_was_never_written_starts_and_ends_at_0(cluster: AnyCluster, orders: str) -> None:
    assert starts(cluster, orders, 0, 1, 2) == [0, 0, 0]
    assert ends(cluster, orders, "read_uncommitted", 0, 1, 2) == [0, 0, 0]
    assert ends(cluster, orders, "read_committed", 0, 1, 2) == [0, 0, 0]


def test_an_end_is_the_offset_after_the_last_record_and_has_the_leaders_epoch(cluster: AnyCluster, orders: str) -> None:
    assert cluster.produce(orders, 3, partition=1) == [0, 1, 2]
    found = cluster.reader.end_offsets(tps(orders, 0, 1), "read_uncommitted")
    assert found[TopicPartition(orders, 1)] == EndOffset(3, 0)
    assert found[TopicPartition(orders, 0)].offset == 0


def test_deleted_records_move_the_log_start_up(cluster: AnyCluster, orders: str) -> None:
    cluster.produce(orders, 5)
    cluster.delete_records(orders, 3)
    assert (starts(cluster, orders), ends(cluster, orders, "read_uncommitted")) == ([3], [5])
    cluster.delete_records(orders, 5)
    assert (starts(cluster, orders), ends(cluster, orders, "read_uncommitted")) == ([5], [5])


def test_an_open_transaction_holds_the_committed_end_back(cluster: AnyCluster, orders: str) -> None:
    cluster.produce(orders, 2)
    transaction = cluster.begin_transaction()
    assert transaction.produce(TopicPartition(orders, 0), [NOW_MS] * 3) == [2, 3, 4]
    cluster.produce(orders, 1)
    assert ends(cluster, orders, "read_uncommitted") == [6]
    assert ends(cluster, orders, "read_committed") == [2]
    transaction.commit()
    assert [ends(cluster, orders, level) for level in BOTH] == [[7], [7]]  # the end marker takes an offset


def test_an_aborted_transaction_takes_its_offsets(cluster: AnyCluster, orders: str) -> None:
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(orders, 0), [NOW_MS] * 2)
    transaction.produce(TopicPartition(orders, 1), [NOW_MS] * 1)
    assert ends(cluster, orders, "read_committed", 0, 1) == [0, 0]
    transaction.abort()
    assert [ends(cluster, orders, level, 0, 1) for level in BOTH] == [[3, 2], [3, 2]]


def test_the_oldest_open_transaction_counts(cluster: AnyCluster, orders: str) -> None:
    older, younger = cluster.begin_transaction(), cluster.begin_transaction()
    older.produce(TopicPartition(orders, 0), [NOW_MS] * 1)
    younger.produce(TopicPartition(orders, 0), [NOW_MS] * 1)
    younger.commit()
    assert ends(cluster, orders, "read_committed") == [0]
    older.abort()
    assert ends(cluster, orders, "read_committed") == [4]


def test_an_end_below_deleted_records_is_never_below_the_log_start(cluster: AnyCluster, orders: str) -> None:
    cluster.produce(orders, 4)
    cluster.delete_records(orders, 4)
    for level in BOTH:
        assert ends(cluster, orders, level) == starts(cluster, orders) == [4]


def test_a_partition_without_an_answer_is_an_error_that_names_all_of_them(cluster: AnyCluster, orders: str) -> None:
    asked = [*tps(orders, 0, 7), *tps(f"{orders}-gone", 0)]
    questions = (
        lambda: cluster.impatient.log_start_offsets(asked),
        lambda: cluster.impatient.end_offsets(asked, "read_committed"),
        lambda: cluster.impatient.offsets_for_times(dict.fromkeys(asked, 0), "read_uncommitted"),
        lambda: cluster.impatient.newest_timestamps(asked, "read_uncommitted"),
    )
    for question in questions:
        with pytest.raises(ClusterUnavailable) as unavailable:
            question()
        assert f"{orders}[7]" in str(unavailable.value)
        assert f"{orders}-gone[0]" in str(unavailable.value)
        assert f"{orders}[0]" not in str(unavailable.value)


# Times


def look_up(cluster: AnyCluster, topic: str, time_ms: int, level: IsolationLevel = "read_uncommitted") -> int | None:
    tp = TopicPartition(topic, 0)
    return cluster.reader.offsets_for_times({tp: time_ms}, level).get(tp)


@pytest.mark.parametrize(
    ("after_ms", "offset"),
    [(-1000, 0), (0, 0), (1, 1), (10, 1), (15, 2), (20, 2), (21, None), (10**6, None)],
    ids=lambda value: str(value),
)
def test_B4_B5_the_first_record_at_or_after_the_time(
    cluster: AnyCluster, orders: str, after_ms: int, offset: int | None
) -> None:
    cluster.produce(orders, timestamps_ms=[NOW_MS, NOW_MS + 10, NOW_MS + 20])
    assert look_up(cluster, orders, NOW_MS + after_ms) == offset


def test_B6_no_record_is_absent_also_where_there_is_none_at_all(cluster: AnyCluster, orders: str) -> None:
    cluster.produce(orders, timestamps_ms=[NOW_MS])
    times = dict.fromkeys(tps(orders, 0, 1), NOW_MS + 1)
    assert cluster.reader.offsets_for_times(times, "read_uncommitted") == {}


def test_each_partition_may_be_asked_for_a_time_of_its_own(cluster: AnyCluster, orders: str) -> None:
    for partition in range(2):
        cluster.produce(orders, partition=partition, timestamps_ms=[NOW_MS, NOW_MS + 10])
    first, second = tps(orders, 0, 1)
    assert cluster.reader.offsets_for_times({second: NOW_MS + 5, first: NOW_MS}, "read_committed") == {
        first: 0,
        second: 1,
    }


def test_the_time_of_the_first_record_is_that_of_one_that_is_read(cluster: AnyCluster, orders: str) -> None:
    cluster.produce(orders, timestamps_ms=[NOW_MS, NOW_MS + 7])
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(orders, 1), [NOW_MS + 1])
    transaction.abort()
    first, second = tps(orders, 0, 1)
    assert cluster.reader.first_times({first: 1, second: 0}, "read_committed") == ({first: NOW_MS + 7}, None)
    assert cluster.reader.first_times({second: 0}, "read_uncommitted") == ({second: NOW_MS + 1}, None)


@pytest.mark.parametrize(("after_ms", "offset"), [(25, 1), (55, 3), (0, 0), (61, None)])
def test_B7_out_of_order_it_is_the_first_offset_and_not_the_first_time(
    cluster: AnyCluster, orders: str, after_ms: int, offset: int | None
) -> None:
    cluster.produce(orders, timestamps_ms=[NOW_MS + t for t in (10, 50, 20, 60, 30)])
    assert look_up(cluster, orders, NOW_MS + after_ms) == offset


def test_B8_a_time_of_deleted_records_gives_the_log_start(cluster: AnyCluster, orders: str) -> None:
    cluster.produce(orders, timestamps_ms=[NOW_MS, NOW_MS + 10, NOW_MS + 20])
    cluster.delete_records(orders, 2)
    assert look_up(cluster, orders, NOW_MS) == 2
    cluster.delete_records(orders, 3)
    assert look_up(cluster, orders, NOW_MS) is None


def test_B9_with_the_brokers_times_the_producers_do_not_count(cluster: AnyCluster, group: str) -> None:
    name = f"append-time-{group}"
    cluster.create_topic(name, log_append_time=True)
    cluster.produce(name, timestamps_ms=[1000, 2000, 3000])
    assert look_up(cluster, name, 2500) == 0


def test_B12_a_record_in_an_open_transaction_is_no_match_for_a_committed_reader(
    cluster: AnyCluster, orders: str
) -> None:
    cluster.produce(orders, timestamps_ms=[1000])
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(orders, 0), [NOW_MS] * 2)
    assert look_up(cluster, orders, 2000, "read_uncommitted") == 1
    assert look_up(cluster, orders, 2000, "read_committed") is None
    assert look_up(cluster, orders, 500, "read_committed") == 0
    transaction.commit()
    assert look_up(cluster, orders, 2000, "read_committed") == 1


# The newest timestamps, and who stamps the records


def newest(cluster: AnyCluster, topic: str, level: IsolationLevel = "read_uncommitted") -> dict[int, int]:
    found = cluster.reader.newest_timestamps(tps(topic, 0, 1, 2), level)
    return {tp.partition: timestamp_ms for tp, timestamp_ms in found.items()}


@pytest.mark.parametrize("level", BOTH)
def test_the_newest_timestamp_is_the_highest_of_each_partition_and_absent_where_there_is_no_record(
    cluster: AnyCluster, orders: str, level: IsolationLevel
) -> None:
    cluster.produce(orders, timestamps_ms=[NOW_MS + t for t in (10, 50, 20)])
    cluster.produce(orders, partition=2, timestamps_ms=[NOW_MS])
    assert newest(cluster, orders, level) == {0: NOW_MS + 50, 2: NOW_MS}
    cluster.produce(orders, partition=2, timestamps_ms=[NOW_MS + 60])
    assert newest(cluster, orders, level) == {0: NOW_MS + 50, 2: NOW_MS + 60}


def test_the_newest_timestamp_is_told_after_its_record_was_deleted(cluster: AnyCluster, orders: str) -> None:
    cluster.produce(orders, timestamps_ms=[NOW_MS, NOW_MS + 10, NOW_MS + 5])
    cluster.delete_records(orders, 3)
    assert newest(cluster, orders) == {0: NOW_MS + 10}


def test_a_newest_timestamp_in_an_open_transaction_is_absent_for_a_committed_reader(
    cluster: AnyCluster, orders: str
) -> None:
    cluster.produce(orders, timestamps_ms=[1000])
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(orders, 0), [NOW_MS])
    assert newest(cluster, orders) == {0: NOW_MS}
    assert newest(cluster, orders, "read_committed") == {}
    transaction.abort()
    found = newest(cluster, orders, "read_committed")
    assert found == newest(cluster, orders)
    assert found[0] >= NOW_MS, "the record's own, or that of the marker"


def test_an_older_timestamp_in_an_open_transaction_hides_nothing(cluster: AnyCluster, orders: str) -> None:
    cluster.produce(orders, timestamps_ms=[NOW_MS])
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(orders, 0), [1000])
    assert newest(cluster, orders, "read_committed") == {0: NOW_MS}
    transaction.commit()


def test_B9_with_the_brokers_times_the_newest_is_the_brokers(cluster: AnyCluster, group: str) -> None:
    name = f"append-time-{group}"
    cluster.create_topic(name, log_append_time=True)
    cluster.produce(name, timestamps_ms=[1000])
    assert cluster.reader.newest_timestamps(tps(name, 0), "read_uncommitted")[TopicPartition(name, 0)] > 10**12


def test_who_stamps_a_topics_records_and_how_long_they_stay_is_told_for_all_topics_at_once(
    cluster: AnyCluster, orders: str, group: str
) -> None:
    name = f"append-time-{group}"
    cluster.create_topic(name, log_append_time=True, retention_ms=86_400_000)
    assert cluster.reader.topic_settings([orders, name]) == {
        orders: TopicSettings("CreateTime"),
        name: TopicSettings("LogAppendTime", 86_400_000),
    }
    assert cluster.reader.topic_settings([]) == {}


# The group


def test_a_group_that_does_not_exist_holds_nothing_and_is_dead(cluster: AnyCluster, orders: str, group: str) -> None:
    assert cluster.reader.committed(group, tps(orders, 0, 1)) == {}
    assert cluster.reader.describe_group(group) == GroupDescription("Dead")


def test_what_was_committed_is_read_with_metadata_and_epoch(cluster: AnyCluster, orders: str, group: str) -> None:
    commits = {
        TopicPartition(orders, 0): CommittedOffset(5, 0, '{"plan":"abc"}'),
        TopicPartition(orders, 1): CommittedOffset(0, None, ""),
        TopicPartition(orders, 2): CommittedOffset(7, 3, "größer → ✓"),
    }
    cluster.reader.commit_offsets(group, commits)
    assert cluster.reader.committed(group, list(commits)) == commits
    assert cluster.reader.describe_group(group) == GroupDescription("Empty")


def test_an_epoch_that_a_broker_does_not_tell_is_none() -> None:
    assert [epoch_of(told) for told in (None, -1, 0, 7)] == [None, None, 0, 7]


def test_what_somebody_else_committed_is_read(cluster: AnyCluster, orders: str, group: str) -> None:
    first, second = tps(orders, 0, 1)
    cluster.commit_as_somebody(group, {first: 4}, leader_epoch=2, metadata="by hand")
    cluster.commit_as_somebody(group, {second: 9})
    assert cluster.reader.committed(group, [first, second]) == {
        first: CommittedOffset(4, 2, "by hand"),
        second: CommittedOffset(9),
    }


def test_a_commit_replaces_its_partitions_and_leaves_the_others(cluster: AnyCluster, orders: str, group: str) -> None:
    first, second = tps(orders, 0, 1)
    cluster.reader.commit_offsets(group, {first: CommittedOffset(5, 1, "old"), second: CommittedOffset(6)})
    cluster.reader.commit_offsets(group, {first: CommittedOffset(2)})
    assert cluster.reader.committed(group, [first, second]) == {first: CommittedOffset(2), second: CommittedOffset(6)}


def test_only_the_partitions_that_were_asked_for_are_answered(cluster: AnyCluster, orders: str, group: str) -> None:
    first, second, third = tps(orders, 0, 1, 2)
    cluster.commit_as_somebody(group, {first: 1, second: 2})
    assert cluster.reader.committed(group, [third, second]) == {second: CommittedOffset(2)}


def test_an_offset_past_the_end_is_taken_as_it_is(cluster: AnyCluster, orders: str, group: str) -> None:
    tp = TopicPartition(orders, 0)
    cluster.reader.commit_offsets(group, {tp: CommittedOffset(10**12)})
    assert cluster.reader.committed(group, [tp]) == {tp: CommittedOffset(10**12)}


def test_groups_do_not_know_of_each_other(cluster: AnyCluster, orders: str, group: str) -> None:
    tp = TopicPartition(orders, 0)
    cluster.reader.commit_offsets(group, {tp: CommittedOffset(1)})
    cluster.reader.commit_offsets(f"{group}-other", {tp: CommittedOffset(2)})
    assert cluster.reader.committed(group, [tp]) == {tp: CommittedOffset(1)}


def test_the_offsets_of_a_forgotten_group_are_absent(cluster: AnyCluster, orders: str, group: str) -> None:
    tp = TopicPartition(orders, 0)
    cluster.commit_as_somebody(group, {tp: 3})
    cluster.hands.expire(group)
    assert cluster.reader.committed(group, [tp]) == {}
    assert cluster.reader.describe_group(group).state == "Dead"


def test_D13_a_group_is_empty_where_it_has_no_live_member(cluster: AnyCluster, orders: str, group: str) -> None:
    """One that Kafka does not know, one with offsets alone, and one whose member has left."""
    assert cluster.reader.describe_group(group).is_empty
    cluster.commit_as_somebody(group, {TopicPartition(orders, 0): 4})
    assert cluster.reader.describe_group(group).is_empty
    with cluster.live_member(group, orders):
        assert not cluster.reader.describe_group(group).is_empty
    assert cluster.reader.describe_group(group).is_empty


def test_a_commit_to_a_group_with_a_member_is_refused_and_nothing_is_written(
    cluster: AnyCluster, orders: str, group: str
) -> None:
    first, second = tps(orders, 0, 1)
    cluster.commit_as_somebody(group, {first: 4}, metadata="before")
    with cluster.live_member(group, orders):
        live = cluster.reader.describe_group(group)
        assert live.state == "Stable"
        assert len(live.members) == 1
        with pytest.raises(GroupActive) as refused:
            cluster.reader.commit_offsets(group, {first: CommittedOffset(9), second: CommittedOffset(9)})
        assert refused.value.group_id == group
        assert refused.value.members == live.members
    assert cluster.reader.committed(group, [first, second]) == {first: CommittedOffset(4, None, "before")}
    assert cluster.reader.describe_group(group) == GroupDescription("Empty")
    cluster.reader.commit_offsets(group, {first: CommittedOffset(9)})
    assert cluster.reader.committed(group, [first]) == {first: CommittedOffset(9)}


def test_partitions_that_cannot_be_committed_are_all_named_and_the_others_are_written(
    cluster: AnyCluster, orders: str, group: str
) -> None:
    good, missing, gone = TopicPartition(orders, 0), TopicPartition(orders, 8), TopicPartition(f"{orders}-gone", 0)
    with pytest.raises(ClusterUnavailable) as unavailable:
        cluster.impatient.commit_offsets(group, dict.fromkeys((good, missing, gone), CommittedOffset(1)))
    assert str(missing) in str(unavailable.value)
    assert str(gone) in str(unavailable.value)
    assert str(good) not in str(unavailable.value)
    assert cluster.reader.committed(group, [good]) == {good: CommittedOffset(1)}


def test_metadata_that_is_too_long_is_an_error_of_each_such_partition(
    cluster: AnyCluster, orders: str, group: str
) -> None:
    cluster.hands.add_partitions(orders, 1)
    fits, too_long, too_wide, fits_too = tps(orders, 0, 1, 2, 3)
    commits = {
        fits: CommittedOffset(1, None, "x" * 4095),
        too_long: CommittedOffset(2, None, "x" * 4096),
        too_wide: CommittedOffset(3, None, "ü" * 4096),
        fits_too: CommittedOffset(4, None, "ü" * 4095),  # the broker counts characters, not bytes
    }
    with pytest.raises(ClusterUnavailable, match="OFFSET_METADATA_TOO_LARGE") as unavailable:
        cluster.reader.commit_offsets(group, commits)
    assert str(too_long) in str(unavailable.value)
    assert str(too_wide) in str(unavailable.value)
    assert str(fits) not in str(unavailable.value)
    assert cluster.reader.committed(group, list(commits)) == {fits: commits[fits], fits_too: commits[fits_too]}


def test_a_pending_transactional_commit_is_waited_for(cluster: AnyCluster, orders: str, group: str) -> None:
    pending, other = tps(orders, 0, 1)
    cluster.commit_as_somebody(group, {pending: 1, other: 2})
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(orders, 0), [NOW_MS] * 1)
    transaction.send_offsets(group, {pending: 5})
    with pytest.raises(ClusterUnavailable, match=re.escape(str(pending))) as unavailable:
        cluster.impatient.committed(group, [pending, other])
    assert str(other) not in str(unavailable.value)
    assert cluster.reader.committed(group, [other]) == {other: CommittedOffset(2)}
    transaction.commit()
    assert cluster.reader.committed(group, [pending])[pending].offset == 5


def test_an_aborted_transactional_commit_was_never_there(cluster: AnyCluster, orders: str, group: str) -> None:
    tp = TopicPartition(orders, 0)
    cluster.commit_as_somebody(group, {tp: 1})
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(orders, 0), [NOW_MS] * 1)
    transaction.send_offsets(group, {tp: 5})
    transaction.abort()
    assert cluster.reader.committed(group, [tp]) == {tp: CommittedOffset(1)}


# Of all


def test_nothing_asked_is_nothing_answered(cluster: AnyCluster, group: str) -> None:
    assert cluster.reader.log_start_offsets([]) == {}
    assert cluster.reader.end_offsets([], "read_committed") == {}
    assert cluster.reader.offsets_for_times({}, "read_committed") == {}
    assert cluster.reader.committed(group, []) == {}
    assert cluster.reader.describe(TopicList(())).topics == {}
    cluster.reader.commit_offsets(group, {})
    assert cluster.reader.describe_group(group) == GroupDescription("Dead")


def test_the_order_of_the_question_does_not_matter(cluster: AnyCluster, orders: str, group: str) -> None:
    for number in range(3):
        cluster.produce(orders, number + 1, partition=number)
    asked = tps(orders, 0, 1, 2)
    turned = asked[::-1]
    cluster.commit_as_somebody(group, {tp: tp.partition for tp in turned})
    assert cluster.reader.log_start_offsets(turned) == cluster.reader.log_start_offsets(asked)
    for level in BOTH:
        assert cluster.reader.end_offsets(set(turned), level) == cluster.reader.end_offsets(asked, level)
    assert cluster.reader.committed(group, turned) == cluster.reader.committed(group, asked)
    assert [commit.offset for _, commit in sorted(cluster.reader.committed(group, turned).items())] == [0, 1, 2]
