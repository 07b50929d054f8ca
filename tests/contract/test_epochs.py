"""What an earlier leader has left in a log, of the cluster in memory and of a real broker that is started again.

librdkafka's answer is the text of an error, whose code is that of other errors too: with another text each of these
tests on the broker fails.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_kafka_offsets.broker import lookups
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.protocol import EndOffset
from airflow_kafka_offsets.errors import ClusterUnavailable
from airflow_kafka_offsets.kafka_values import TopicPartition
from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.certificates import Authority
from testbed.guarded_broker import guarded_broker
from testbed.java import Java
from tests.cluster.memory import InMemoryCluster
from tests.cluster.real import RealHands
from tests.cluster.rights import allow
from tests.contract.conftest import AnyCluster

PASSWORD = "open-sesame-4711"
OLD, EMPTY, NEW = (TopicPartition("orders", number) for number in range(3))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(
    authority: Authority, java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    """A broker of this file's own, with rights, which is killed and started again."""
    folder = tmp_path_factory.mktemp("epochs")
    with guarded_broker(folder / "kafka", authority, {"alice": PASSWORD}, java=java, say=say) as running:
        yield running


def look(cluster: AnyCluster) -> dict[TopicPartition, EndOffset]:
    return cluster.reader.end_offsets([OLD, EMPTY, NEW], "read_uncommitted")


def led_twice(cluster: AnyCluster, elect: Callable[[], None]) -> dict[TopicPartition, EndOffset]:
    """Four records, another leader, three records; in a second partition none, in a third only the new ones.

    :returns: how it looked before.
    """
    cluster.create_topic("orders", 3)
    cluster.produce("orders", 4)
    before = look(cluster)
    elect()
    for tp in (OLD, NEW):
        cluster.produce("orders", 3, tp.partition)
    return before


@pytest.fixture(scope="module")
def in_memory() -> tuple[AnyCluster, dict[TopicPartition, EndOffset]]:
    found = InMemoryCluster()
    cluster = AnyCluster(found, found, found)
    return cluster, led_twice(cluster, lambda: [found.elect(tp) for tp in (OLD, EMPTY, NEW)] and None)


@pytest.fixture(scope="module")
def started_again(broker: KafkaBroker) -> Iterator[tuple[AnyCluster, dict[TopicPartition, EndOffset]]]:
    def start_again() -> None:
        broker.kill()  # and it leads anew when it is back
        broker.start()

    with KafkaCluster(broker.client_config, deadline_s=20.0) as reader:
        cluster = AnyCluster(reader, reader, RealHands(broker))
        yield cluster, led_twice(cluster, start_again)


@pytest.fixture(params=["in_memory", pytest.param("started_again", marks=pytest.mark.starts_processes)])
def led(request: pytest.FixtureRequest) -> tuple[AnyCluster, dict[TopicPartition, EndOffset]]:
    found: tuple[AnyCluster, dict[TopicPartition, EndOffset]] = request.getfixturevalue(request.param)
    return found


def epochs_of(ends: dict[TopicPartition, EndOffset]) -> dict[TopicPartition, int]:
    return {tp: end.leader_epoch for tp, end in ends.items() if end.leader_epoch is not None}


def test_an_earlier_leader_s_records_end_where_the_next_one_began(
    led: tuple[AnyCluster, dict[TopicPartition, EndOffset]],
) -> None:
    cluster, before = led
    assert cluster.reader.ends_of_epochs(epochs_of(before)) == {OLD: 4, EMPTY: 0, NEW: 0}


def test_those_of_the_leader_of_now_end_where_the_log_does(
    led: tuple[AnyCluster, dict[TopicPartition, EndOffset]],
) -> None:
    cluster, before = led
    now = epochs_of(look(cluster))
    assert all(now[tp] > epoch for tp, epoch in epochs_of(before).items())
    assert cluster.reader.ends_of_epochs(now) == {OLD: 7, EMPTY: 0, NEW: 3}


def test_over_tls_and_sasl_with_the_right_to_describe_alone(
    broker: KafkaBroker, authority: Authority, started_again: tuple[AnyCluster, dict[TopicPartition, EndOffset]]
) -> None:
    """As a plan needs it: nothing is fetched."""
    allow(broker, "User:alice", ResourceType.TOPIC, "orders", AclOperation.DESCRIBE)
    config = {
        "bootstrap.servers": broker.servers_of("SASL_TLS"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.ca),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
    }
    _, before = started_again
    with KafkaCluster(config) as alice:
        assert alice.ends_of_epochs(epochs_of(before)) == {OLD: 4, EMPTY: 0, NEW: 0}


def test_many_partitions_are_asked_for_in_chunks(
    started_again: tuple[AnyCluster, dict[TopicPartition, EndOffset]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, before = started_again
    monkeypatch.setattr(lookups, "LOOK_UP_CHUNK", 1)
    assert cluster.reader.ends_of_epochs(epochs_of(before)) == {OLD: 4, EMPTY: 0, NEW: 0}


def test_an_answer_with_an_unknown_text_is_an_error(
    started_again: tuple[AnyCluster, dict[TopicPartition, EndOffset]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of another version of librdkafka: nothing is taken for "the log is the same"."""
    cluster, before = started_again
    monkeypatch.setattr(lookups, "_ENDS_AT", re.compile("another text"))
    with pytest.raises(ClusterUnavailable, match=r"orders\[0\]: _AUTO_OFFSET_RESET: Partition log truncation") as said:
        cluster.reader.ends_of_epochs(epochs_of(before))
    assert not said.value.retriable


def test_a_broker_that_hangs_is_an_error_in_time(
    broker: KafkaBroker, started_again: tuple[AnyCluster, dict[TopicPartition, EndOffset]]
) -> None:
    _, before = started_again
    with KafkaCluster(broker.client_config, deadline_s=2.0, attempt_s=1.0) as cluster:
        cluster.cluster_id()
        broker.pause()
        try:
            began = time.monotonic()
            with pytest.raises(ClusterUnavailable, match=r"Cannot compare leader epochs") as said:
                cluster.ends_of_epochs(epochs_of(before))
            assert time.monotonic() - began < 8.0
        finally:
            broker.resume()
    assert said.value.retriable
    for tp in before:
        assert f"{tp}: no answer within 1 s" in str(said.value)
