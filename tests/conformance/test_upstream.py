"""The cases of Flink's and Kafka's own suites that decide offsets, written anew; each names its origin.

What is expected is what this project decided; where that differs from the origin's engine, the docstring says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import DataLoss, NoCommittedOffset, NothingToDiscover
from airflow_kafka_offsets.kafka_values import ClusterDescription, CommittedOffset, TopicPartition
from airflow_kafka_offsets.plan.missing_topics import new_since
from airflow_kafka_offsets.plan.plan import Draft
from airflow_kafka_offsets.plan.position import Position, SavedOffset
from airflow_kafka_offsets.plan.splits import flink_owner, split_ranges
from airflow_kafka_offsets.request.subscription import Subscription, TopicList, TopicPattern
from airflow_kafka_offsets.stores.local import LocalStore
from tests.conformance.conftest import Site
from tests.conformance.pipeline import Pipeline, Wrapped, of, ranges
from tests.conformance.situations import COMMITTED, EARLIEST, LATEST, at, since, until, until_time


def tp(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, number)


@pytest.fixture
def fifty(site: Site, orders: str) -> str:
    """Three partitions of 50 records; the record of offset n is of second n."""
    site.hands.create_topic(orders, 3)
    for number in range(3):
        site.hands.produce(tp(orders, number), [at(second) for second in range(50)])
    return orders


@pytest.fixture
def pipeline(site: Site, store: LocalStore, group: str, orders: str) -> Pipeline:
    """``pipeline.first`` has no position: the mode decides each time."""
    return Pipeline(site.cluster, store, orders, group, {})


def commit(site: Site, group: str, topic: str, **offsets: int) -> None:
    commits = {tp(topic, int(name[1:])): CommittedOffset(offset) for name, offset in offsets.items()}
    site.hands.commit_as_somebody_else(group, commits)


# ── FlinkKafkaConsumer: KafkaConsumerTestBase ─────────────────────────────────────────────────────────────────────────


def test_A2_earliest_ignores_commits(site: Site, pipeline: Pipeline, fifty: str, group: str) -> None:
    """KafkaConsumerTestBase.runStartFromEarliestOffsets: commits at 23, 31 and 43."""
    commit(site, group, fifty, p0=23, p1=31, p2=43)
    assert ranges(pipeline.first(**EARLIEST)) == dict.fromkeys(range(3), (0, 50))


def test_A3_latest_reads_the_extra_records_only(site: Site, pipeline: Pipeline, fifty: str, group: str) -> None:
    """KafkaConsumerTestBase.runStartFromLatestOffsets."""
    assert ranges(pipeline.ends_well(**LATEST).plan) == dict.fromkeys(range(3), (50, 50))
    site.hands.produce(tp(fifty, 1), [at(60)] * 20)
    assert ranges(pipeline.next(**LATEST).plan) == {0: (50, 50), 1: (50, 70), 2: (50, 50)}


@pytest.mark.parametrize(("reset", "start"), [("earliest", 0), ("latest", 50)])
def test_D1_D5_group_offsets_with_one_partition_without_a_commit(
    reset: str, start: int, site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """KafkaConsumerTestBase.runStartFromGroupOffsets: 23, none and 43."""
    commit(site, group, fifty, p0=23, p2=43)
    planned = pipeline.first(startup_mode="group-offsets", auto_offset_reset=reset)
    assert ranges(planned) == {0: (23, 50), 1: (start, 50), 2: (43, 50)}


def test_C1_C2_specific_offsets_one_missing_and_one_too_many(
    site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """KafkaConsumerTestBase.runStartFromSpecificOffsets: 19, 22, one without (its commit counts), one unknown."""
    commit(site, group, fifty, p0=11, p1=28, p2=40)
    offsets = {fifty: {"0": 19, "2": 22, "4": 26}}
    planned = pipeline.first(startup_mode="specific-offsets", specific_offsets=offsets)
    assert ranges(planned) == {0: (19, 50), 1: (28, 50), 2: (22, 50)}
    assert planned.found.ignored == (tp(fifty, 4),)


def test_B4_a_timestamp_splits_what_was_written_before_from_what_came_after(
    site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """KafkaConsumerTestBase.runStartFromTimestamp."""
    commit(site, group, fifty, p0=23, p1=31, p2=43)
    site.hands.produce(tp(fifty, 0), [at(second) for second in range(100, 110)])
    assert ranges(pipeline.first(**since(at(100)))) == {0: (50, 60), 1: (50, 50), 2: (50, 50)}


def test_I3_after_a_run_the_group_is_past_the_last_record(site: Site, pipeline: Pipeline, fifty: str) -> None:
    """KafkaConsumerTestBase.runCommitOffsetsToKafka: 50 records, 50 is committed."""
    pipeline.ends_well(**EARLIEST)
    assert pipeline.committed(*(tp(fifty, n) for n in range(3))) == dict.fromkeys(range(3), 50)


def test_A3_I4_a_latest_start_is_committed_though_nothing_was_read(site: Site, pipeline: Pipeline, fifty: str) -> None:
    """KafkaConsumerTestBase.runAutoOffsetRetrievalAndCommitToKafka."""
    pipeline.ends_well(**LATEST)
    assert pipeline.committed(*(tp(fifty, n) for n in range(3))) == dict.fromkeys(range(3), 50)


# ── FlinkKafkaConsumerBaseTest: restored partitions ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize("change", ["NoChange", "WithRemovedTopic", "WithAddedTopic"])
def test_F4_F5_restored_partitions(
    change: str, filtered: bool, site: Site, store: LocalStore, group: str, orders: str
) -> None:
    """FlinkKafkaConsumerBaseTest.testSetFilterRestoredParitions… and testDisableFilterRestoredPartitions…, 3 each."""
    a, b = f"{orders}-a", f"{orders}-b"
    for topic in (a, b):
        site.hands.create_topic(topic)
        site.hands.produce(tp(topic), [at(0)] * 9)
    before, after = {
        "NoChange": ([a, b], [a, b]), "WithRemovedTopic": ([a, b], [a]), "WithAddedTopic": ([a], [a, b]),
    }[change]  # fmt: skip
    pipeline = Pipeline(site.cluster, store, a, group, {**EARLIEST, "filter_restored_partitions": filtered})
    pipeline.ends_well(topics=before, max_records_per_partition=5)
    starts = {p.topic_partition.topic: p.start_offset for p in pipeline.next(topics=after).plan.partitions}
    expected = {
        "NoChange": {a: 5, b: 5},
        "WithRemovedTopic": {a: 5} if filtered else {a: 5, b: 5},
        "WithAddedTopic": {a: 5, b: 0},
    }
    assert starts == expected[change]


# ── KafkaTopicsDescriptorTest and AbstractPartitionDiscovererTest ─────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("topic1", "topic1", True),
        ("topic1", "topic2", False),
        ("topic.", "topic1", True),
        ("topic.", "topic", False),
        ("topic[12]", "topic2", True),
        ("topic", "topic1", False),
        ("opic1", "topic1", False),
        ("a|topic1", "topic1", True),
        ("a|topic", "topic1", False),
    ],
)
def test_G2_a_topic_matches_a_pattern(pattern: str, topic: str, matches: bool) -> None:
    """KafkaTopicsDescriptorTest.testIsMatchingTopic, for the pattern; a list matches by equality alone."""
    assert TopicPattern(pattern).matches(topic) is matches


def owners(topic: str, numbers: list[int], parallelism: int) -> list[int]:
    return [flink_owner(tp(topic, number), parallelism) for number in numbers]


@pytest.mark.parametrize(("partitions", "consumers"), [(4, 4), (53, 4), (3, 5)], ids=["equal", "multiple", "fewer"])
def test_H2_H3_each_consumer_gets_its_share(partitions: int, consumers: int) -> None:
    """AbstractPartitionDiscovererTest.testPartitionsEqualConsumers…, testMultiplePartitionsPerConsumers…,
    testPartitionsFewerThanConsumers….
    """
    found = owners("test-topic", list(range(partitions)), consumers)
    shares = [found.count(consumer) for consumer in range(consumers)]
    assert sum(shares) == partitions
    assert max(shares) - min(shares) <= 1


def test_G9_H2_growing_partitions_leave_the_others_where_they_are() -> None:
    """AbstractPartitionDiscovererTest.testGrowingPartitions: 23 at first, 50 then, for three consumers."""
    assert owners("test-topic", list(range(50)), 3)[:23] == owners("test-topic", list(range(23)), 3)


class Shuffled(Wrapped):
    """A cluster that gives the partitions of every answer in another order, and the topics too."""

    ORDER = (4, 2, 0, 3, 1)

    def describe(self, subscription: Subscription) -> ClusterDescription:
        found: ClusterDescription = self.real.describe(subscription)
        topics = {
            name: replace(topic, leaders={number: topic.leaders[number] for number in self.ORDER})
            for name, topic in sorted(found.topics.items(), reverse=True)
        }
        return replace(found, topics=topics)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if name not in ("log_start_offsets", "end_offsets", "offsets_for_times", "newest_timestamps", "committed"):
            return found

        def shuffled(*asked: Any, **how: Any) -> dict[TopicPartition, Any]:
            answer = found(*asked, **how)
            return {tp: answer[tp] for tp in sorted(answer, key=lambda tp: (self.ORDER.index(tp.partition), tp.topic))}

        return shuffled


@pytest.mark.parametrize("split_by", ["flink", "size"])
@pytest.mark.parametrize("mode", [EARLIEST, since(at(0))], ids=["offsets", "times"])
def test_G9_H1_the_order_of_the_answer_does_not_matter(
    mode: dict[str, Any], split_by: str, memory_site: Site, store: LocalStore, group: str
) -> None:
    """AbstractPartitionDiscovererTest.testDeterministicAssignmentWithDifferentFetchedPartitionOrdering."""
    for topic in ("orders", "clicks"):
        memory_site.hands.create_topic(topic, 5)
        for number in range(5):
            memory_site.hands.produce(tp(topic, number), [at(0)] * (number + 1))
    ask = {"topics": ["orders", "clicks"], "splits": 3, "split_by": split_by, **mode}

    def made(cluster: Any) -> Draft:
        return Pipeline(cluster, store, "orders", group, ask).first()

    straight, turned = made(memory_site.cluster), made(Shuffled(memory_site.cluster))
    assert list(Shuffled(memory_site.cluster).describe(TopicList(("clicks", "orders"))).topics) == ["orders", "clicks"]
    assert turned.partitions == straight.partitions
    splits = split_ranges(turned.partitions, turned.split_count, turned.asked.split_by)
    assert splits == split_ranges(straight.partitions, straight.split_count, straight.asked.split_by)
    if split_by == "flink":
        expected = {
            (p.topic_partition.topic, p.topic_partition.partition): flink_owner(p.topic_partition, 3)
            for p in turned.partitions
        }
        found = {
            (p.topic_partition.topic, p.topic_partition.partition): number
            for number, split in enumerate(splits)
            for p in split
        }
        assert found == expected


def test_H6_the_output_is_sorted_by_topic_and_then_by_partition(
    memory_site: Site, store: LocalStore, group: str
) -> None:
    for topic in ("orders", "clicks", "orders-2"):
        memory_site.hands.create_topic(topic, 5)
    pipeline = Pipeline(Shuffled(memory_site.cluster), store, "orders", group, {"topic_pattern": ".*", **EARLIEST})
    assert [p.topic_partition for p in pipeline.first().partitions] == [
        tp(topic, number) for topic in ("clicks", "orders", "orders-2") for number in range(5)
    ]


def test_G8_G9_partitions_whose_numbers_are_not_contiguous_are_found_one_by_one() -> None:
    """AbstractPartitionDiscovererTest.testNonContiguousPartitionIdDiscovery: 1 and 4, then 0 to 4."""

    known = Position("cluster", {tp("orders", 1): SavedOffset(0), tp("orders", 4): SavedOffset(0)})
    assert new_since(known, {"orders": range(5)}) == {"orders": [0, 2, 3]}


# ── KafkaSource: OffsetsInitializerTest, KafkaSubscriberTest, KafkaTableITCase ────────────────────────────────────────


def test_B4_B6_a_timestamp_over_partitions_with_differing_data(site: Site, pipeline: Pipeline, orders: str) -> None:
    """OffsetsInitializerTest.testTimestampOffsetsInitializer and …ForEmptyPartitions."""
    site.hands.create_topic(orders, 4)
    for number in range(3):
        site.hands.produce(tp(orders, number), [at(second) for second in range(number + 1)])
    assert ranges(pipeline.first(**since(at(1)))) == {0: (1, 1), 1: (1, 2), 2: (1, 3), 3: (0, 0)}


def test_C2_one_partition_unspecified_with_a_commit_and_one_without(
    site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """OffsetsInitializerTest.testSpecificOffsetsInitializer."""
    commit(site, group, fifty, p1=7)
    asked = {"startup_mode": "specific-offsets", "specific_offsets": {fifty: {"0": 3}}}
    assert ranges(pipeline.first(**asked, auto_offset_reset="earliest")) == {0: (3, 50), 1: (7, 50), 2: (0, 50)}


def test_C3_C4_without_a_reset_only_the_missing_commit_is_an_error(
    site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """OffsetsInitializerTest.testSpecifiedOffsetsInitializerWithoutOffsetResetStrategy; Flink fails with an empty list
    also where all have a commit (0.4), which is not reproduced.
    """
    asked = {"startup_mode": "specific-offsets", "specific_offsets": {fifty: {"0": 3}}, "auto_offset_reset": "none"}
    with pytest.raises(NoCommittedOffset) as refused:
        pipeline.first(**asked)
    assert [line.split(":")[0] for line in refused.value.partitions] == [f"{fifty}[1]", f"{fifty}[2]"]
    commit(site, group, fifty, p1=7, p2=9)
    assert ranges(pipeline.first(**asked)) == {0: (3, 50), 1: (7, 50), 2: (9, 50)}


def test_G1_a_topic_of_the_list_does_not_exist(site: Site, fifty: str) -> None:
    """KafkaSubscriberTest.testNonExistingTopic."""
    with pytest.raises(NothingToDiscover, match=f"{fifty}-no"):
        site.cluster.describe(TopicList((fifty, f"{fifty}-no")))


def test_C7_a_bounded_read_of_deleted_offsets_does_not_hang(site: Site, pipeline: Pipeline, orders: str) -> None:
    """KafkaTableITCase.testKafkaSourceEmptyResultOnDeletedOffsets: Flink ends empty; here the loss is told."""
    site.hands.create_topic(orders)
    site.hands.produce(tp(orders), [at(0)] * 10)
    site.hands.delete_records(tp(orders), 10)
    asked: dict[str, Any] = {"startup_mode": "specific-offsets", "specific_offsets": {orders: {"0": 3}}}
    with pytest.raises(DataLoss, match="7 offsets are gone"):
        pipeline.first(**asked)
    planned = pipeline.first(**asked, data_loss="advance")
    assert ranges(planned) == {0: (10, 10)}
    assert [p.lost for p in planned.partitions] == [7]


def test_F1_J2_latest_under_read_committed_resumes_before_the_transaction_that_was_open(
    site: Site, pipeline: Pipeline, fifty: str
) -> None:
    """KafkaTableITCase.testLatestOffsetStrategyResume (FLINK-28303): an idle partition's records are not lost."""
    transaction = site.hands.begin_transaction()
    transaction.produce(tp(fifty, 2), [at(60)] * 2)
    assert ranges(pipeline.ends_well(**LATEST, **COMMITTED).plan) == dict.fromkeys(range(3), (50, 50))
    transaction.commit()
    assert ranges(pipeline.next(**LATEST, **COMMITTED).plan) == {0: (50, 50), 1: (50, 50), 2: (50, 53)}


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (lambda topic: {"startup_mode": "specific-offsets", "specific_offsets": {topic: {"0": 2, "1": 2, "2": 2}},
                        **until(), "bounded_offsets": {topic: {"0": 5, "1": 5, "2": 2}}},
         {0: (2, 5), 1: (2, 5), 2: (2, 2)}),
        (lambda topic: {**EARLIEST, **until_time(at(5))}, dict.fromkeys(range(3), (0, 5))),
    ],
    ids=["K1 specific", "K3 timestamp"],
)  # fmt: skip
def test_a_bounded_read(bounds: Any, expected: dict[int, Any], pipeline: Pipeline, fifty: str) -> None:
    """KafkaTableITCase.testKafkaSourceSinkWithBoundedSpecificOffsets and …BoundedTimestamp."""
    assert ranges(pipeline.first(**bounds(fifty))) == expected


# ── Kafka: KafkaConsumerTest, SubscriptionStateTest, OffsetFetcherTest, ConsumerCoordinatorTest ───────────────────────


def test_D5_no_offset_and_no_reset_policy(site: Site, pipeline: Pipeline, fifty: str) -> None:
    """KafkaConsumerTest.testMissingOffsetNoResetPolicy; all partitions are named, as in SubscriptionStateTest."""
    with pytest.raises(NoCommittedOffset) as refused:
        pipeline.first(auto_offset_reset="none")
    assert len(refused.value.partitions) == 3


@pytest.mark.parametrize(("reset", "start"), [("earliest", 0), ("latest", 50)])
def test_D5_without_an_offset_the_policy_decides(reset: str, start: int, pipeline: Pipeline, fifty: str) -> None:
    """KafkaConsumerTest.testResetUsingAutoResetPolicy; OffsetFetcherTest.testResetOffsetsBeginning/End…"""
    assert ranges(pipeline.first(auto_offset_reset=reset)) == dict.fromkeys(range(3), (start, 50))


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_D1_with_a_commit_the_policy_does_not_count(
    reset: str, site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """KafkaConsumerTest.testResetToCommittedOffset; ConsumerCoordinatorTest.testRefreshOffset."""
    commit(site, group, fifty, p0=7, p1=7, p2=7)
    assert ranges(pipeline.first(auto_offset_reset=reset)) == dict.fromkeys(range(3), (7, 50))


def test_E4_a_truncated_position_goes_to_the_divergence_and_not_to_the_reset(
    site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """SubscriptionStateTest.testTruncationDetectionWithResetPolicy and …WithoutResetPolicy."""
    site.hands.commit_as_somebody_else(group, {tp(fifty, n): CommittedOffset(60, 0) for n in range(3)})
    asked = {"startup_mode": "group-offsets", "data_loss": "reset"}
    assert ranges(pipeline.first(**asked, auto_offset_reset="earliest")) == dict.fromkeys(range(3), (50, 50))
    with pytest.raises(DataLoss, match="and auto_offset_reset is none") as refused:
        pipeline.first(**asked, auto_offset_reset="none")
    assert len(refused.value.partitions) == 3


def test_E3_E7_out_of_range_is_reset(site: Site, pipeline: Pipeline, fifty: str, group: str) -> None:
    """FetcherTest.testFetchOffsetOutOfRange: below and beyond, under both policies."""
    for number in range(3):
        site.hands.delete_records(tp(fifty, number), 10)
    commit(site, group, fifty, p0=5, p1=60, p2=20)
    asked = {"startup_mode": "group-offsets", "data_loss": "reset"}
    assert ranges(pipeline.first(**asked, auto_offset_reset="earliest")) == {0: (10, 50), 1: (10, 50), 2: (20, 50)}
    assert ranges(pipeline.first(**asked, auto_offset_reset="latest")) == {0: (50, 50), 1: (50, 50), 2: (20, 50)}


def test_D2_a_position_at_the_end_is_valid(site: Site, pipeline: Pipeline, fifty: str, group: str) -> None:
    """KafkaConsumerTest.testOffsetIsValidAfterSeek; SubscriptionStateTest: a valid position needs no reset."""
    site.hands.commit_as_somebody_else(group, of(fifty, range(3), 50))
    assert ranges(pipeline.first(auto_offset_reset="none")) == dict.fromkeys(range(3), (50, 50))
