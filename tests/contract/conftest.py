"""The two clusters that every contract test runs on."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_kafka_offsets.stores.objects import WorkStore, open_work_store
from tests.cluster.memory import InMemoryCluster
from tests.cluster.real import RealCluster

AnyCluster = InMemoryCluster | RealCluster


@pytest.fixture(params=["memory", "broker"])
def cluster(request: pytest.FixtureRequest) -> Iterator[AnyCluster]:
    """A cluster in memory and the session's real broker, by the same names."""
    if request.param == "memory":
        yield InMemoryCluster()
        return
    real = RealCluster(request.getfixturevalue("broker"))
    yield real
    real.close()


@pytest.fixture
def orders(cluster: AnyCluster) -> str:
    """A topic of three partitions that nobody else uses."""
    name = f"orders-{uuid.uuid4().hex[:12]}"
    cluster.create_topic(name, 3)
    return name


@pytest.fixture
def store(tmp_path: Path) -> WorkStore:
    return open_work_store(str(tmp_path / "store"))
