"""The clusters that the rules are tried on: one in memory, and the session's real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from tests.cluster.memory import InMemoryCluster
from tests.cluster.real import RealHands
from tests.conformance.situations import State

FRESH_S = 30.0  # a broker ends a transaction after 60 s; a topic with an open one is made anew before


@dataclass
class Site:
    """A cluster, hands to change it with, and the topics that were made there for the table's states."""

    cluster: Any
    hands: Any
    _made: dict[State, tuple[str, float, object]] = field(default_factory=dict)

    def topic_in(self, state: State) -> str:
        """A topic in that state, which no case may change."""
        name, made_at, _ = self._made.get(state, ("", 0.0, None))
        if not name or time.monotonic() - made_at > FRESH_S:
            name = unique("orders")
            kept_alive = state(self.hands, name)
            self._made[state] = (name, time.monotonic(), kept_alive)
        return name


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def real_site(request: pytest.FixtureRequest) -> Iterator[Site]:
    broker = request.getfixturevalue("broker")
    with KafkaCluster(broker.client_config) as cluster:
        yield Site(cluster, RealHands(broker))


@pytest.fixture
def memory_site() -> Site:
    cluster = InMemoryCluster()
    return Site(cluster, cluster)


@pytest.fixture(params=["memory", "broker"])
def site(request: pytest.FixtureRequest) -> Site:
    """Each of the two."""
    found: Site = request.getfixturevalue(f"{'memory' if request.param == 'memory' else 'real'}_site")
    return found


@pytest.fixture
def group() -> str:
    return unique("group")


@pytest.fixture
def orders() -> str:
    """The name of a topic that no other test uses; the test creates it."""
    return unique("orders")
