"""What ``broker/protocol.py`` promises, of the cluster in memory and of a real broker alike.

Laws, tables and the model run on the one in memory; this suite keeps it honest.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from airflow_kafka_offsets.broker import assignments
from airflow_kafka_offsets.errors import ClusterUnavailable, NothingToDiscover
from airflow_kafka_offsets.kafka_values import (
    CommittedOffset,
    EndOffset,
    GroupDescription,
    IsolationLevel,
    OffsetRange,
    PartitionSet,
    TopicList,
    TopicPartition,
    TopicPattern,
)
from tests.contract.conftest import AnyCluster

NOW_MS = 1_795_168_800_000
BOTH: tuple[IsolationLevel, ...] = ("read_uncommitted", "read_committed")


def tps(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def produce(cluster: AnyCluster, tp: TopicPartition, *after_ms: int) -> list[int]:
    return cluster.hands.produce(tp, [NOW_MS + ms for ms in after_ms])


def bounds(cluster: AnyCluster, tp: TopicPartition) -> tuple[int, int, int]:
    """Log start, last stable offset and high watermark."""
    committed, uncommitted = (cluster.ask.end_offsets([tp], level)[tp].offset for level in reversed(BOTH))
    return cluster.ask.log_start_offsets([tp])[tp], committed, uncommitted


# ── topics ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_described_topic_has_an_id_and_a_leader_for_each_partition(cluster: AnyCluster, orders: str) -> None:
    description = cluster.ask.describe(TopicList((orders,)))
    assert description.cluster_id
    assert description.partitions == tuple(tps(orders, 0, 1, 2))
    assert description.topics[orders].topic_id
    assert description.topics[orders].leaders == {0: 1, 1: 1, 2: 1}
    assert cluster.ask.describe(TopicList((orders,))) == description


def test_G1_a_listed_topic_that_does_not_exist_is_named_and_not_created_G11(cluster: AnyCluster, orders: str) -> None:
    gone = f"{orders}-gone"
    for _ in range(2):
        with pytest.raises(NothingToDiscover) as refused:
            cluster.ask.describe(TopicList((orders, gone)))
        assert len(refused.value.partitions) == 1
        assert gone in refused.value.partitions[0]
    assert list(cluster.ask.describe(TopicList((orders, gone), all_exist=False)).topics) == [orders]


def test_G2_G3_a_pattern_matches_the_whole_name_or_nothing(cluster: AnyCluster, orders: str) -> None:
    longer = f"{orders}-longer"
    cluster.hands.create_topic(longer)
    assert list(cluster.ask.describe(TopicPattern(re.escape(orders))).topics) == [orders]
    assert set(cluster.ask.describe(TopicPattern(re.escape(orders) + ".*")).topics) == {orders, longer}
    with pytest.raises(NothingToDiscover, match="rders"):
        cluster.ask.describe(TopicPattern(re.escape(orders)[1:]))


def test_G4_internal_topics_match_no_pattern_and_are_found_by_name(cluster: AnyCluster) -> None:
    with pytest.raises(NothingToDiscover):
        cluster.ask.describe(TopicPattern("__consumer.*"))
    assert list(cluster.ask.describe(TopicList(("__consumer_offsets",))).topics) == ["__consumer_offsets"]


def test_G7_listed_partitions_are_described_and_no_others_and_missing_ones_are_named(
    cluster: AnyCluster, orders: str
) -> None:
    assert cluster.ask.describe(PartitionSet(tuple(tps(orders, 0, 2)))).partitions == tuple(tps(orders, 0, 2))
    with pytest.raises(NothingToDiscover) as refused:
        cluster.ask.describe(PartitionSet(tuple(tps(orders, 0, 3, 9))))
    assert [line.split(" ")[0] for line in refused.value.partitions] == [f"{orders}-3", f"{orders}-9"]
    with pytest.raises(NothingToDiscover, match=f"{orders}-gone"):
        cluster.ask.describe(PartitionSet(tuple(tps(f"{orders}-gone", 0))))


def test_G9_new_partitions_are_seen(cluster: AnyCluster, orders: str) -> None:
    cluster.hands.add_partitions(orders, 2)
    assert cluster.ask.describe(TopicList((orders,))).partitions == tuple(tps(orders, 0, 1, 2, 3, 4))
    assert bounds(cluster, TopicPartition(orders, 4)) == (0, 0, 0)


def test_a_re_created_topic_has_another_id_and_the_groups_offsets_are_gone(
    cluster: AnyCluster, orders: str, group: str
) -> None:
    tp = TopicPartition(orders, 0)
    produce(cluster, tp, 0, 0)
    cluster.hands.commit_as_somebody_else(group, {tp: CommittedOffset(2)})
    before = cluster.ask.describe(TopicList((orders,))).topic_ids[orders]
    cluster.hands.recreate_topic(orders)
    assert cluster.ask.describe(TopicList((orders,))).topic_ids[orders] != before
    assert cluster.ask.committed(group, [tp]) == {}
    assert bounds(cluster, tp) == (0, 0, 0)


# ── the ends of logs ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_end_is_the_offset_after_the_last_record_and_has_the_leaders_epoch(cluster: AnyCluster, orders: str) -> None:
    empty, written = tps(orders, 0, 1)
    assert produce(cluster, written, 0, 0, 0) == [0, 1, 2]
    ends = cluster.ask.end_offsets([written, empty], "read_uncommitted")
    assert ends[written] == EndOffset(3, 0)
    assert ends[empty].offset == 0
    assert cluster.ask.ends_of_epochs({written: 0}) == {written: 3}


def test_deleted_records_move_the_log_start(cluster: AnyCluster, orders: str) -> None:
    tp = TopicPartition(orders, 0)
    produce(cluster, tp, 0, 0, 0, 0, 0)
    for before in (3, 5):
        cluster.hands.delete_records(tp, before)
        assert bounds(cluster, tp) == (before, 5, 5)


def test_J2_J3_an_open_transaction_holds_the_committed_end_back_and_its_end_takes_an_offset(
    cluster: AnyCluster, orders: str
) -> None:
    tp, other = tps(orders, 0, 1)
    produce(cluster, tp, 0, 0)
    older, younger = cluster.hands.begin_transaction(), cluster.hands.begin_transaction()
    assert older.produce(tp, [NOW_MS] * 3) == [2, 3, 4]
    younger.produce(tp, [NOW_MS])
    older.produce(other, [NOW_MS])
    assert bounds(cluster, tp) == (0, 2, 6)
    younger.commit()
    assert bounds(cluster, tp) == (0, 2, 7)
    older.abort()
    assert bounds(cluster, tp) == (0, 8, 8)
    assert bounds(cluster, other) == (0, 2, 2)


def test_partitions_without_an_answer_are_all_named_and_no_others(cluster: AnyCluster, orders: str) -> None:
    asked = [*tps(orders, 0, 7), *tps(f"{orders}-gone", 0)]
    questions: list[Callable[[], object]] = [
        lambda: cluster.impatient.log_start_offsets(asked),
        lambda: cluster.impatient.end_offsets(asked, "read_committed"),
        lambda: cluster.impatient.offsets_for_times(dict.fromkeys(asked, 0), "read_uncommitted"),
        lambda: cluster.impatient.newest_timestamps(asked, "read_uncommitted"),
    ]
    for question in questions:
        with pytest.raises(ClusterUnavailable) as unavailable:
            question()
        assert f"{orders}-7:" in unavailable.value.reason
        assert f"{orders}-gone-0:" in unavailable.value.reason
        assert f"{orders}-0:" not in unavailable.value.reason


# ── times ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("after_ms", "offset"), [(-1, 0), (0, 0), (10, 0), (11, 1), (25, 1), (50, 1), (55, 3), (60, 3), (61, None)]
)
def test_B4_B7_a_time_gives_the_first_offset_with_that_time_or_a_later_one(
    cluster: AnyCluster, orders: str, after_ms: int, offset: int | None
) -> None:
    """Also where records are out of order: it is the first offset, not the first time."""
    tp = TopicPartition(orders, 0)
    produce(cluster, tp, 10, 50, 20, 60, 30)
    assert cluster.ask.offsets_for_times({tp: NOW_MS + after_ms}, "read_uncommitted").get(tp) == offset


def test_B6_a_time_without_a_record_is_absent_and_each_partition_has_its_own_time(
    cluster: AnyCluster, orders: str
) -> None:
    first, second, empty = tps(orders, 0, 1, 2)
    produce(cluster, first, 0, 10)
    produce(cluster, second, 0, 10)
    times = {empty: 0, second: NOW_MS + 5, first: NOW_MS}
    assert cluster.ask.offsets_for_times(times, "read_committed") == {first: 0, second: 1}
    assert cluster.ask.offsets_for_times(dict.fromkeys(times, NOW_MS + 11), "read_committed") == {}


def test_B8_a_time_of_deleted_records_gives_the_log_start(cluster: AnyCluster, orders: str) -> None:
    tp = TopicPartition(orders, 0)
    produce(cluster, tp, 0, 10, 20)
    cluster.hands.delete_records(tp, 2)
    assert cluster.ask.offsets_for_times({tp: NOW_MS}, "read_uncommitted") == {tp: 2}
    cluster.hands.delete_records(tp, 3)
    assert cluster.ask.offsets_for_times({tp: NOW_MS}, "read_uncommitted") == {}


def test_B9_where_the_broker_sets_times_the_producers_do_not_count(cluster: AnyCluster, group: str) -> None:
    tp = TopicPartition(f"append-time-{group}", 0)
    cluster.hands.create_topic(tp.topic, log_append_time=True)
    cluster.hands.produce(tp, [1000, 2000])
    assert cluster.ask.offsets_for_times({tp: 1500}, "read_uncommitted") == {tp: 0}
    assert cluster.ask.newest_timestamps([tp], "read_uncommitted")[tp] > 10**12


def test_B12_a_record_of_an_open_transaction_is_no_match_for_a_committed_reader(
    cluster: AnyCluster, orders: str
) -> None:
    tp = TopicPartition(orders, 0)
    produce(cluster, tp, 0)
    transaction = cluster.hands.begin_transaction()
    transaction.produce(tp, [NOW_MS + 10])
    assert [cluster.ask.offsets_for_times({tp: NOW_MS + 5}, level) for level in BOTH] == [{tp: 1}, {}]
    assert [cluster.ask.newest_timestamps([tp], level) for level in BOTH] == [{tp: NOW_MS + 10}, {}]
    transaction.commit()
    assert [cluster.ask.offsets_for_times({tp: NOW_MS + 5}, level) for level in BOTH] == [{tp: 1}, {tp: 1}]


def test_the_newest_timestamp_is_the_highest_also_of_a_deleted_record(cluster: AnyCluster, orders: str) -> None:
    tp, empty = tps(orders, 0, 1)
    produce(cluster, tp, 10, 50, 20)
    for _ in range(2):
        for level in BOTH:
            assert cluster.ask.newest_timestamps([empty, tp], level) == {tp: NOW_MS + 50}
        cluster.hands.delete_records(tp, 3)


def test_a_first_time_is_that_of_a_record_that_is_read(cluster: AnyCluster, orders: str) -> None:
    first, second, empty = tps(orders, 0, 1, 2)
    produce(cluster, first, 0, 7)
    transaction = cluster.hands.begin_transaction()
    transaction.produce(second, [NOW_MS + 1])
    transaction.abort()
    starts = {first: 1, second: 0, empty: 0}
    assert cluster.ask.first_times(starts, "read_committed") == {first: NOW_MS + 7}
    assert cluster.ask.first_times(starts, "read_uncommitted") == {first: NOW_MS + 7, second: NOW_MS + 1}
    assert cluster.ask.first_times({first: 2}, "read_committed") == {}


# ── records in ranges ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_records_are_counted_in_each_range_as_a_committed_reader_is_given_them(
    cluster: AnyCluster, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Close ranges share a fetch, far ones are sought, and of very many a partition is read once: one answer."""
    plain, mixed, cut = tps(orders, 0, 1, 2)
    produce(cluster, plain, *range(5000))
    produce(cluster, mixed, 0, 1)
    for ends in ("commit", "abort"):
        transaction = cluster.hands.begin_transaction()
        transaction.produce(mixed, [NOW_MS, NOW_MS])
        getattr(transaction, ends)()
    cluster.hands.begin_transaction().produce(mixed, [NOW_MS])
    produce(cluster, mixed, 2)
    produce(cluster, cut, *range(10))
    cluster.hands.delete_records(cut, 4)
    expected = {
        (plain, OffsetRange(4990, 5000)): 10,
        (plain, OffsetRange(5, 6)): 1,
        (plain, OffsetRange(7, 17)): 10,
        (plain, OffsetRange(2000, 3500)): 1500,
        (mixed, OffsetRange(1, 4)): 3,
        (mixed, OffsetRange(4, 5)): 0,  # the marker
        (mixed, OffsetRange(5, 8)): 0,  # what was aborted
        (mixed, OffsetRange(8, 10)): 0,  # what is open, and lies behind it
        (cut, OffsetRange(2, 6)): 2,
    }
    assert cluster.ask.record_counts(expected) == expected
    monkeypatch.setattr(assignments, "SEEKS", 3)
    assert cluster.ask.record_counts(expected) == expected
    with pytest.raises(ClusterUnavailable, match=f"{orders}-7:"):
        cluster.impatient.record_counts([(TopicPartition(orders, 7), OffsetRange(0, 1))])


def test_compacted_records_are_not_counted(cluster: AnyCluster, orders: str) -> None:
    tp = TopicPartition(orders, 0)
    cluster.hands.compact(tp, [NOW_MS + 1000 * n for n in range(10)], {0: 5, 1: 6, 3: 7})
    counted = cluster.ask.record_counts([(tp, OffsetRange(0, 2)), (tp, OffsetRange(2, 5))])
    assert counted == {(tp, OffsetRange(0, 2)): 0, (tp, OffsetRange(2, 5)): 2}


def test_nothing_asked_is_nothing_answered(cluster: AnyCluster, group: str) -> None:
    ask = cluster.ask
    answers: list[object] = [
        ask.describe(TopicList(())).topics,
        ask.log_start_offsets([]),
        ask.end_offsets([], "read_committed"),
        ask.offsets_for_times({}, "read_committed"),
        ask.newest_timestamps([], "read_committed"),
        ask.ends_of_epochs({}),
        ask.first_times({}, "read_committed"),
        ask.record_counts([]),
        ask.committed(group, []),
    ]
    assert answers == [{}] * len(answers)
    ask.commit_offsets(group, {})
    assert ask.describe_group(group) == GroupDescription("Dead")
