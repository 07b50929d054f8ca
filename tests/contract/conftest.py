"""The cluster of a test: in memory, and the session's real broker, by the same names."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.protocol import Cluster
from tests.cluster.memory import InMemoryCluster
from tests.cluster.real import Hands, RealHands


@dataclass
class AnyCluster:
    """A cluster to ask, and what others do to it.

    :ivar impatient: the same cluster with a short deadline, for questions that have no answer.
    """

    ask: Cluster
    impatient: Cluster
    hands: Hands


@pytest.fixture(params=["memory", "broker"])
def cluster(request: pytest.FixtureRequest) -> Iterator[AnyCluster]:
    if request.param == "memory":
        memory = InMemoryCluster()
        memory.create_topic("__consumer_offsets")
        yield AnyCluster(memory, memory, memory)
        return
    broker = request.getfixturevalue("broker")
    with (
        KafkaCluster(broker.client_config, deadline_s=20.0) as patient,
        KafkaCluster(broker.client_config, deadline_s=3.0, attempt_s=0.5) as impatient,
    ):
        yield AnyCluster(patient, impatient, RealHands(broker))


@pytest.fixture
def orders(cluster: AnyCluster) -> str:
    """A topic of three partitions that no other test uses."""
    name = f"orders-{uuid.uuid4().hex[:12]}"
    cluster.hands.create_topic(name, 3)
    return name
