"""What the model (``tests/model``) found, each as the plain steps that lead there. Over both clusters."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.stores.objects import WorkStore
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline, ranges


@pytest.fixture
def pipeline(cluster: AnyCluster, store: WorkStore, orders: str, group: str) -> Pipeline:
    for partition in range(3):
        cluster.produce(orders, 4, partition)
    return Pipeline(cluster.reader, store, orders, group)


def test_a_new_topic_is_read_by_each_of_two_pipelines_on_one_group(cluster: AnyCluster, pipeline: Pipeline) -> None:
    """What the other one has committed of it, this one has not read."""
    new = f"{pipeline.topic}-new"
    pipeline.run("one")
    cluster.create_topic(new)
    cluster.produce(new, 2)
    pipeline.run("other", topics=[new], checkpoint_id="other")
    assert ranges(pipeline.run("two", topics=[pipeline.topic, new]))[-1] == (0, 2)
