"""A topic of three partitions in memory, and a pipeline that reads it."""

import pytest

from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline


@pytest.fixture
def cluster() -> InMemoryCluster:
    cluster = InMemoryCluster()
    cluster.create_topic(TOPIC, 3)
    return cluster


@pytest.fixture
def pipeline(cluster: InMemoryCluster) -> Pipeline:
    return Pipeline(cluster)
