"""The cluster of a test, behind one vocabulary: in memory, and with the mark ``also_on_a_broker`` on a broker as well.

``test_cluster_contract`` shows that the two answer alike, so a use case is tried in memory. The mark is for what a
broker has to show itself: each thing that it does for the use cases is done there once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.stores.local import LocalStore
from testbed.broker import KafkaBroker
from tests.cluster.memory import InMemoryCluster
from tests.cluster.real import Hands, RealHands, Transaction
from tests.contract.pipeline import Pipeline

NOW_MS = 1_795_168_800_000


@dataclass
class AnyCluster:
    """A cluster to ask and to do things to.

    :ivar reader: what is asked.
    :ivar impatient: the same cluster with a deadline of a second, for questions that have no answer.
    """

    reader: InMemoryCluster | KafkaCluster
    impatient: InMemoryCluster | KafkaCluster
    hands: Hands

    def create_topic(
        self, name: str, partitions: int = 1, *, log_append_time: bool = False, retention_ms: int | None = None
    ) -> None:
        self.hands.create_topic(name, partitions, log_append_time=log_append_time, retention_ms=retention_ms)

    def produce(
        self, topic: str, count: int = 1, partition: int = 0, timestamps_ms: Sequence[int] | None = None
    ) -> list[int]:
        times = timestamps_ms if timestamps_ms is not None else [NOW_MS] * count
        return self.hands.produce(TopicPartition(topic, partition), times)

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        self.hands.delete_records(TopicPartition(topic, partition), before)

    def recreate_topic(self, topic: str) -> None:
        self.hands.recreate_topic(topic)

    def begin_transaction(self) -> Transaction:
        return self.hands.begin_transaction()

    def live_member(self, group_id: str, topic: str) -> AbstractContextManager[None]:
        return self.hands.live_member(group_id, topic)

    def commit_as_somebody(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        leader_epoch: int | None = None,
        metadata: str = "",
    ) -> None:
        commits = {tp: CommittedOffset(offset, leader_epoch, metadata) for tp, offset in offsets.items()}
        self.hands.commit_as_somebody_else(group_id, commits)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cluster" in metafunc.fixturenames:
        is_marked = metafunc.definition.get_closest_marker("also_on_a_broker")
        metafunc.parametrize("cluster", ["memory", "broker"] if is_marked else ["memory"], indirect=True)


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[AnyCluster]:
    """A cluster in memory or the session's real broker, by the same names."""
    if request.param == "memory":
        yield request.getfixturevalue("memory")
        return
    broker: KafkaBroker = request.getfixturevalue("broker")
    with (
        KafkaCluster(broker.client_config, deadline_s=20.0) as reader,
        KafkaCluster(broker.client_config, deadline_s=1.0, attempt_s=1.0) as impatient,
    ):
        yield AnyCluster(reader, impatient, RealHands(broker))


@pytest.fixture
def orders(cluster: AnyCluster) -> str:
    """A topic of three partitions that nobody else uses."""
    name = f"orders-{uuid.uuid4().hex[:12]}"
    cluster.create_topic(name, 3)
    return name


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def pipeline(cluster: AnyCluster, store: LocalStore, orders: str, group: str) -> Pipeline:
    """Three partitions of four records."""
    for partition in range(3):
        cluster.produce(orders, 4, partition)
    return Pipeline(cluster.reader, store, orders, group)


def _in_memory() -> AnyCluster:
    found = InMemoryCluster()
    found.create_topic("__consumer_offsets")
    return AnyCluster(found, found, found)


@pytest.fixture
def memory() -> AnyCluster:
    """The cluster in memory, for what the work store alone decides."""
    return _in_memory()


@pytest.fixture
def memory_anew() -> Callable[[], AnyCluster]:
    """Makes such clusters."""
    return _in_memory


@pytest.fixture
def in_memory(memory: AnyCluster, store: LocalStore, group: str) -> Pipeline:
    """``pipeline`` on the cluster in memory."""
    memory.create_topic("orders", 3)
    for partition in range(3):
        memory.produce("orders", 4, partition)
    return Pipeline(memory.reader, store, "orders", group)
