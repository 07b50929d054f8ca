"""Rules L and D16: which questions a request needs, and answers that give no offset (faults: ``tests/broker``)."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import ClusterUnavailable, NotAuthorized
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicList, TopicPartition
from airflow_kafka_offsets.offsets import GroupOffsets, SpecificOffsets
from testbed.broker import KafkaBroker
from testbed.topics import DEADLINE_S
from tests.conformance.conftest import Site
from tests.conformance.pipeline import Pipeline, Wrapped
from tests.conformance.situations import at

ORDERS = TopicPartition("orders", 0)


class NoGroupRight(Wrapped):
    def committed(self, *_: object, **__: object) -> dict[TopicPartition, CommittedOffset]:
        raise NotAuthorized("Not allowed to read the group", "GROUP_AUTHORIZATION_FAILED", "Describe on group g")


@pytest.fixture
def without_right(memory_site: Site) -> Pipeline:
    """A pipeline without a group, whose client may not read any."""
    memory_site.hands.create_topic("orders")
    memory_site.hands.produce(ORDERS, [at(0)] * 3)
    return Pipeline(NoGroupRight(memory_site.cluster), "orders", None)


@pytest.mark.parametrize("start", ["earliest", SpecificOffsets({"orders": {"0": 0}})], ids=["earliest", "offsets"])
def test_L3_without_a_group_no_right_on_groups_is_needed(start: Any, without_right: Pipeline) -> None:
    assert without_right.ends_well(start=start).ranges == {0: (0, 3)}


@pytest.mark.parametrize(
    "needing",
    [
        {"start": GroupOffsets("g", "earliest")},
        {"start": "earliest", "end": GroupOffsets("g")},
        {"start": "earliest", "group_id": "g"},
    ],
    ids=["starts there", "ends there", "is to follow"],
)
def test_L3_a_group_that_is_needed_is_refused_before_spark_works(
    needing: dict[str, Any], without_right: Pipeline
) -> None:
    with pytest.raises(NotAuthorized):
        without_right.next(**needing)
    assert without_right.log.newest() is None


def test_L4_an_unknown_partition_is_an_error_that_names_it(site: Site, orders: str) -> None:
    """In memory at once; a broker is asked until the deadline, because a new partition is unknown for a moment."""
    site.hands.create_topic(orders)
    cluster: Any = site.cluster
    if isinstance(cluster, KafkaCluster):
        cluster = KafkaCluster({"bootstrap.servers": cluster.address}, deadline_s=1.0)
    with pytest.raises(ClusterUnavailable, match=rf"{orders}-7"):
        cluster.log_start_offsets([TopicPartition(orders, 0), TopicPartition(orders, 7)])


def test_L1_no_broker_at_the_address() -> None:
    nobody = KafkaCluster({"bootstrap.servers": "127.0.0.1:1"}, deadline_s=1.0)
    with pytest.raises(ClusterUnavailable, match=r"127\.0\.0\.1:1"):
        nobody.describe(TopicList(("orders",)))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_D16_the_commits_of_both_group_protocols_are_read(
    protocol: str, broker: KafkaBroker, real_site: Site, orders: str, group: str
) -> None:
    real_site.hands.create_topic(orders)
    real_site.hands.produce(TopicPartition(orders, 0), [at(0)] * 5)
    settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    consumer = Consumer({**broker.client_config, **settings, "enable.auto.commit": False})
    try:
        consumer.subscribe([orders])
        assert consumer.consume(1, DEADLINE_S)
        consumer.commit(offsets=[KafkaTopicPartition(orders, 0, 3)], asynchronous=False)
    finally:
        consumer.close()
    assert Pipeline(real_site.cluster, orders, None).next(start=GroupOffsets(group)).ranges == {0: (3, 5)}
