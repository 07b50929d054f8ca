"""The command line as a person at a terminal has it, and pipelines to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.stores.local import LocalStore
from testbed.broker import KafkaBroker
from tests.cli.pipeline import Pipeline
from tests.cluster.memory import InMemoryCluster

Said = tuple[int, str, str]
Say = Callable[..., Said]


@pytest.fixture
def says(capfd: pytest.CaptureFixture[str]) -> Say:
    """`says("plan", …)`: exit status, standard output, standard error. What argparse refuses is a status too."""

    def call(*words: str) -> Said:
        capfd.readouterr()
        try:
            status = main(words)
        except SystemExit as refused:
            status = int(str(refused.code))
        return (status, *capfd.readouterr())

    return call


@pytest.fixture
def stored(tmp_path: Path) -> Pipeline:
    """A pipeline for commands that ask no cluster: run `one` has done 4 records of partition 0; 6 more are there."""
    cluster = InMemoryCluster()
    cluster.create_topic("__consumer_offsets")
    cluster.create_topic("orders", 2)
    cluster.produce(TopicPartition("orders", 0), [1] * 4)
    pipeline = Pipeline(cluster, LocalStore(tmp_path / "store"), "orders", "g")
    pipeline.run("one")
    cluster.produce(TopicPartition("orders", 0), [1] * 6)
    return pipeline


@pytest.fixture
def pipeline(broker: KafkaBroker, topic: Callable[..., str], group: str, tmp_path: Path) -> Iterator[Pipeline]:
    """The same on the real broker."""
    name = topic(2)
    broker.produce(name, [(0, None, b"x", None)] * 4)
    with KafkaCluster(broker.client_config) as cluster:
        pipeline = Pipeline(cluster, LocalStore(tmp_path / "store"), name, group)
        pipeline.run("one")
        broker.produce(name, [(0, None, b"x", None)] * 6)
        yield pipeline


@pytest.fixture
def at(broker: KafkaBroker) -> tuple[str, ...]:
    """The option that says which cluster."""
    return ("--bootstrap-servers", broker.bootstrap_servers)


def of(pipeline: Pipeline) -> tuple[str, ...]:
    """The options that name a pipeline: its work store and its checkpoint id."""
    return ("--work-store", pipeline.store.uri, "--pipeline-id", pipeline.pipeline_id)
