"""The cases of Flink's and Kafka's own suites that decide offsets, written anew; each names its origin.

What is expected is what this project decided; where that differs from the origin's engine, the docstring says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.errors import DataLoss, NoCommittedOffset
from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    CommittedOffset,
    Subscription,
    TopicPartition,
    TopicPattern,
)
from airflow_kafka_offsets.offsets import GroupOffsets, SpecificOffsets, Timestamp
from airflow_kafka_offsets.plan.cap import flink_owner
from tests.conformance.conftest import Site
from tests.conformance.pipeline import Pipeline, Wrapped, of
from tests.conformance.situations import COMMITTED, at


def tp(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, number)


def all_three(*planned: int) -> dict[int, tuple[int, ...]]:
    return dict.fromkeys(range(3), planned)


@pytest.fixture
def fifty(site: Site, orders: str) -> str:
    """Three partitions of 50 records; the record of offset n is of second n."""
    site.hands.create_topic(orders, 3)
    for number in range(3):
        site.hands.produce(tp(orders, number), [at(second) for second in range(50)])
    return orders


@pytest.fixture
def pipeline(site: Site, group: str, orders: str) -> Pipeline:
    """``pipeline.first`` has no position: the start decides each time."""
    return Pipeline(site.cluster, orders, group)


def commit(site: Site, group: str, topic: str, **offsets: int) -> None:
    commits = {tp(topic, int(name[1:])): CommittedOffset(offset) for name, offset in offsets.items()}
    site.hands.commit_as_somebody_else(group, commits)


# ── FlinkKafkaConsumer: KafkaConsumerTestBase ─────────────────────────────────────────────────────────────────────────


def test_A2_earliest_ignores_commits(site: Site, pipeline: Pipeline, fifty: str, group: str) -> None:
    """KafkaConsumerTestBase.runStartFromEarliestOffsets: commits at 23, 31 and 43."""
    commit(site, group, fifty, p0=23, p1=31, p2=43)
    assert pipeline.first(start="earliest").ranges == all_three(0, 50)


def test_A3_I4_latest_is_committed_at_once_and_reads_the_extra_records_only(
    site: Site, pipeline: Pipeline, fifty: str
) -> None:
    """KafkaConsumerTestBase.runStartFromLatestOffsets and runAutoOffsetRetrievalAndCommitToKafka."""
    assert pipeline.ends_well(start="latest").ranges == all_three(50, 50)
    assert pipeline.committed(*(tp(fifty, n) for n in range(3))) == dict.fromkeys(range(3), 50)
    site.hands.produce(tp(fifty, 1), [at(60)] * 20)
    assert pipeline.next(start="latest").ranges == {0: (50, 50), 1: (50, 70), 2: (50, 50)}


@pytest.mark.parametrize(("otherwise", "start"), [("earliest", 0), ("latest", 50)])
def test_D1_D5_group_offsets_with_one_partition_without_a_commit(
    otherwise: Any, start: int, site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """KafkaConsumerTestBase.runStartFromGroupOffsets: 23, none and 43."""
    commit(site, group, fifty, p0=23, p2=43)
    planned = pipeline.first(start=GroupOffsets(otherwise=otherwise))
    assert planned.ranges == {0: (23, 50), 1: (start, 50), 2: (43, 50)}


def test_C1_C2_specific_offsets_one_missing_and_one_too_many(
    site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """KafkaConsumerTestBase.runStartFromSpecificOffsets: 19, 22, one without (its commit counts), one unknown."""
    commit(site, group, fifty, p0=11, p1=28, p2=40)
    planned = pipeline.first(start=SpecificOffsets({fifty: {"0": 19, "2": 22, "4": 26}}))
    assert planned.ranges == {0: (19, 50), 1: (28, 50), 2: (22, 50)}


def test_B4_a_timestamp_splits_what_was_written_before_from_what_came_after(
    site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """KafkaConsumerTestBase.runStartFromTimestamp."""
    commit(site, group, fifty, p0=23, p1=31, p2=43)
    site.hands.produce(tp(fifty, 0), [at(second) for second in range(100, 110)])
    assert pipeline.first(start=Timestamp(at(100))).ranges == {0: (50, 60), 1: (50, 50), 2: (50, 50)}


def test_I3_after_a_run_the_group_is_past_the_last_record(site: Site, pipeline: Pipeline, fifty: str) -> None:
    """KafkaConsumerTestBase.runCommitOffsetsToKafka: 50 records, 50 is committed."""
    pipeline.ends_well(start="earliest")
    assert pipeline.committed(*(tp(fifty, n) for n in range(3))) == dict.fromkeys(range(3), 50)


# ── FlinkKafkaConsumerBaseTest: restored partitions ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize("change", ["NoChange", "WithRemovedTopic", "WithAddedTopic"])
def test_F4_F5_restored_partitions(change: str, filtered: bool, site: Site, group: str, orders: str) -> None:
    """FlinkKafkaConsumerBaseTest.testSetFilterRestoredParitions… and testDisableFilterRestoredPartitions…, 3 each."""
    a, b = f"{orders}-a", f"{orders}-b"
    for topic in (a, b):
        site.hands.create_topic(topic)
        site.hands.produce(tp(topic), [at(0)] * 9)
    before, after = {
        "NoChange": ([a, b], [a, b]), "WithRemovedTopic": ([a, b], [a]), "WithAddedTopic": ([a], [a, b]),
    }[change]  # fmt: skip
    pipeline = Pipeline(site.cluster, a, group, {"start": "earliest", "filter_restored_partitions": filtered})
    pipeline.ends_well(topics=before, max_records=5 * len(before))
    starts = {key.topic: start for key, (start, _) in pipeline.next(topics=after).by_topic.items()}
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
    assert TopicPattern(f"^{pattern}").matches(topic) is TopicPattern(pattern).matches(topic) is matches


def owners(topic: str, numbers: range, parallelism: int) -> list[int]:
    return [flink_owner(tp(topic, number), parallelism) for number in numbers]


@pytest.mark.parametrize(
    ("topic", "parallelism", "expected"),
    [("ow-orders", 4, [2, 3, 0]), ("ow-clicks", 4, [0, 1, 2])],
)
def test_H1_the_owners_are_those_that_flink_gave(topic: str, parallelism: int, expected: list[int]) -> None:
    """Observed on Flink 1.13.6 and 2.0.1."""
    assert owners(topic, range(3), parallelism) == expected


@pytest.mark.parametrize(("partitions", "consumers"), [(4, 4), (53, 4), (3, 5)], ids=["equal", "multiple", "fewer"])
def test_H2_H3_each_consumer_gets_its_share(partitions: int, consumers: int) -> None:
    """AbstractPartitionDiscovererTest.testPartitionsEqualConsumers…, testMultiplePartitionsPerConsumers…,
    testPartitionsFewerThanConsumers….
    """
    found = owners("test-topic", range(partitions), consumers)
    shares = [found.count(consumer) for consumer in range(consumers)]
    assert sum(shares) == partitions
    assert max(shares) - min(shares) <= 1


def test_G9_H2_growing_partitions_leave_the_others_where_they_are() -> None:
    """AbstractPartitionDiscovererTest.testGrowingPartitions: 23 at first, 50 then, for three consumers."""
    assert owners("test-topic", range(50), 3)[:23] == owners("test-topic", range(23), 3)


def test_F10_H1_H3_shards_read_every_partition_once_and_an_empty_one_holds_nothing_back(
    site: Site, pipeline: Pipeline, fifty: str
) -> None:
    """Three partitions and five pipelines, each of which has its part of the group."""
    read = {}
    for i in range(5):
        part = pipeline.next(start="earliest", shard=(i, 5))
        part.commit()
        assert all(flink_owner(key, 5) == i for key in part.by_topic)
        assert not read.keys() & part.ranges.keys()
        read |= part.ranges
    assert read == all_three(0, 50)
    assert pipeline.committed(*(tp(fifty, n) for n in range(3))) == dict.fromkeys(range(3), 50)


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
        if name not in ("log_start_offsets", "end_offsets", "offsets_for_times", "committed"):
            return found

        def shuffled(*asked: Any, **how: Any) -> dict[TopicPartition, Any]:
            answer = found(*asked, **how)
            return {tp: answer[tp] for tp in sorted(answer, key=lambda tp: (self.ORDER.index(tp.partition), tp.topic))}

        return shuffled


@pytest.mark.parametrize("start", ["earliest", Timestamp(at(0))], ids=["offsets", "times"])
def test_G9_H6_the_order_of_the_answer_does_not_matter_and_the_plan_is_sorted(
    start: Any, memory_site: Site, group: str
) -> None:
    """AbstractPartitionDiscovererTest.testDeterministicAssignmentWithDifferentFetchedPartitionOrdering."""
    for topic in ("orders", "clicks", "orders-2"):
        memory_site.hands.create_topic(topic, 5)
        for number in range(5):
            memory_site.hands.produce(tp(topic, number), [at(0)] * (number + 1))
    straight, turned = (
        Pipeline(cluster, "orders", group, {"topics": "^.*", "start": start, "max_records": 20}).first().by_topic
        for cluster in (memory_site.cluster, Shuffled(memory_site.cluster))
    )
    assert turned == straight
    assert list(turned) == [tp(topic, number) for topic in ("clicks", "orders", "orders-2") for number in range(5)]


# ── KafkaSource: OffsetsInitializerTest, KafkaTableITCase ─────────────────────────────────────────────────────────────


def test_B4_B6_a_timestamp_over_partitions_with_differing_data(site: Site, pipeline: Pipeline, orders: str) -> None:
    """OffsetsInitializerTest.testTimestampOffsetsInitializer and …ForEmptyPartitions."""
    site.hands.create_topic(orders, 4)
    for number in range(3):
        site.hands.produce(tp(orders, number), [at(second) for second in range(number + 1)])
    assert pipeline.first(start=Timestamp(at(1))).ranges == {0: (1, 1), 1: (1, 2), 2: (1, 3), 3: (0, 0)}


def test_C2_one_partition_unspecified_with_a_commit_and_one_without(
    site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """OffsetsInitializerTest.testSpecificOffsetsInitializer."""
    commit(site, group, fifty, p1=7)
    planned = pipeline.first(start=SpecificOffsets({fifty: {"0": 3}}, "earliest"))
    assert planned.ranges == {0: (3, 50), 1: (7, 50), 2: (0, 50)}


def test_C3_C4_without_a_word_only_the_missing_commit_is_an_error(
    site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """OffsetsInitializerTest.testSpecifiedOffsetsInitializerWithoutOffsetResetStrategy; Flink fails with an empty list
    also where all have a commit (0.4), which is not reproduced.
    """
    asked = SpecificOffsets({fifty: {"0": 3}})
    with pytest.raises(NoCommittedOffset) as refused:
        pipeline.first(start=asked)
    assert [line.split(":")[0] for line in refused.value.partitions] == [f"{fifty}-1", f"{fifty}-2"]
    commit(site, group, fifty, p1=7, p2=9)
    assert pipeline.first(start=asked).ranges == {0: (3, 50), 1: (7, 50), 2: (9, 50)}


def test_C7_a_bounded_read_of_deleted_offsets_does_not_hang(site: Site, pipeline: Pipeline, orders: str) -> None:
    """KafkaTableITCase.testKafkaSourceEmptyResultOnDeletedOffsets: Flink ends empty; here the loss is told."""
    site.hands.create_topic(orders)
    site.hands.produce(tp(orders), [at(0)] * 10)
    site.hands.delete_records(tp(orders), 10)
    start = SpecificOffsets({orders: {"0": 3}})
    with pytest.raises(DataLoss, match="7 offsets lost"):
        pipeline.first(start=start)
    assert pipeline.first(start=start, on_data_loss="advance").planned == {0: (10, 10, 7, 0, 0)}


def test_F1_J2_latest_under_read_committed_resumes_before_the_transaction_that_was_open(
    site: Site, pipeline: Pipeline, fifty: str
) -> None:
    """KafkaTableITCase.testLatestOffsetStrategyResume (FLINK-28303): an idle partition's records are not lost."""
    pipeline.connection = dict(COMMITTED)
    transaction = site.hands.begin_transaction()
    transaction.produce(tp(fifty, 2), [at(60)] * 2)
    assert pipeline.ends_well(start="latest").ranges == all_three(50, 50)
    transaction.commit()
    assert pipeline.next(start="latest").ranges == {0: (50, 50), 1: (50, 50), 2: (50, 53)}


def test_K1_K3_a_bounded_read(pipeline: Pipeline, fifty: str) -> None:
    """KafkaTableITCase.testKafkaSourceSinkWithBoundedSpecificOffsets and …BoundedTimestamp."""
    start, end = ({fifty: {"0": 2, "1": 2, "2": 2}}, {fifty: {"0": 5, "1": 5, "2": 2}})
    planned = pipeline.first(start=SpecificOffsets(start), end=SpecificOffsets(end))
    assert planned.ranges == {0: (2, 5), 1: (2, 5), 2: (2, 2)}
    assert pipeline.first(start="earliest", end=Timestamp(at(5))).ranges == all_three(0, 5)


# ── Kafka: KafkaConsumerTest, SubscriptionStateTest, OffsetFetcherTest, ConsumerCoordinatorTest ───────────────────────


def test_D5_no_offset_and_no_reset_policy(pipeline: Pipeline, fifty: str) -> None:
    """KafkaConsumerTest.testMissingOffsetNoResetPolicy; all partitions are named, as in SubscriptionStateTest."""
    with pytest.raises(NoCommittedOffset) as refused:
        pipeline.first()
    assert len(refused.value.partitions) == 3


@pytest.mark.parametrize("otherwise", ["earliest", "latest", None])
def test_D1_with_a_commit_the_policy_does_not_count(
    otherwise: Any, site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """KafkaConsumerTest.testResetToCommittedOffset; ConsumerCoordinatorTest.testRefreshOffset."""
    commit(site, group, fifty, p0=7, p1=7, p2=7)
    assert pipeline.first(start=GroupOffsets(otherwise=otherwise)).ranges == all_three(7, 50)


def test_E4_a_truncated_position_goes_to_the_divergence_and_not_to_the_reset(
    site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """SubscriptionStateTest.testTruncationDetectionWithResetPolicy and …WithoutResetPolicy."""
    site.hands.commit_as_somebody_else(group, {tp(fifty, n): CommittedOffset(60, 0) for n in range(3)})
    with pytest.raises(DataLoss, match="beyond the end of the log, 50") as refused:
        pipeline.first()
    assert len(refused.value.partitions) == 3
    reset = pipeline.first(start=GroupOffsets(otherwise="earliest"), on_data_loss="reset")
    assert reset.ranges == all_three(50, 50)


@pytest.mark.parametrize(("otherwise", "start"), [("earliest", 10), ("latest", 50)])
def test_E3_E7_out_of_range_is_reset(
    otherwise: Any, start: int, site: Site, pipeline: Pipeline, fifty: str, group: str
) -> None:
    """FetcherTest.testFetchOffsetOutOfRange: below and beyond, under both policies."""
    for number in range(3):
        site.hands.delete_records(tp(fifty, number), 10)
    commit(site, group, fifty, p0=5, p1=60, p2=20)
    planned = pipeline.first(start=GroupOffsets(otherwise=otherwise), on_data_loss="reset")
    assert planned.ranges == {0: (start, 50), 1: (start, 50), 2: (20, 50)}


def test_D2_a_position_at_the_end_is_valid(site: Site, pipeline: Pipeline, fifty: str, group: str) -> None:
    """KafkaConsumerTest.testOffsetIsValidAfterSeek; SubscriptionStateTest: a valid position needs no reset."""
    site.hands.commit_as_somebody_else(group, of(fifty, range(3), 50))
    assert pipeline.first().ranges == all_three(50, 50)
