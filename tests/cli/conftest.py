"""The command line as a person at a terminal has it, and a pipeline on the real broker to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.stores.objects import open_work_store
from testbed.broker import KafkaBroker
from tests.contract.pipeline import Pipeline

Said = tuple[int, str, str]
Say = Callable[..., Said]


@pytest.fixture
def says(capfd: pytest.CaptureFixture[str]) -> Say:
    """`says("plan", …)`: exit status, standard output, standard error."""

    def call(*words: str) -> Said:
        capfd.readouterr()
        status = main(words)
        return (status, *capfd.readouterr())

    return call


@pytest.fixture
def pipeline(broker: KafkaBroker, topic: Callable[..., str], group: str, tmp_path: Path) -> Iterator[Pipeline]:
    """Run `one` has read and committed 4 records of partition 0; there are 6 more, and none in partition 1."""
    name = topic(2)
    broker.produce(name, [(0, None, b"x", None)] * 4)
    with KafkaCluster(broker.client_config) as cluster:
        pipeline = Pipeline(cluster, open_work_store(str(tmp_path / "store")), name, group)
        pipeline.run("one")
        broker.produce(name, [(0, None, b"x", None)] * 6)
        yield pipeline


@pytest.fixture
def at(broker: KafkaBroker, pipeline: Pipeline) -> tuple[str, ...]:
    """The options that say where: the broker and the pipeline's work store."""
    return ("--bootstrap-servers", broker.bootstrap_servers, "--work-store", pipeline.store.uri)
