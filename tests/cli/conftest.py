"""The command line in this process, over a pipeline in memory: ``World`` is all that is replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_kafka_offsets.cli.call import World
from airflow_kafka_offsets.cli.main import main
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline


@dataclass(frozen=True)
class Ended:
    """What a call of the command line left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ended]
ONE_OF_MANY = re.compile(
    r"(?<![\w,.:-])1 (different |unread )?(records|rows|offsets|gaps|partitions|batches|pipelines|objects)"
)


@pytest.fixture
def cluster() -> InMemoryCluster:
    cluster = InMemoryCluster()
    cluster.create_topic(TOPIC, 3)
    return cluster


@pytest.fixture
def pipeline(cluster: InMemoryCluster) -> Pipeline:
    return Pipeline(cluster)


@pytest.fixture
def run(cluster: InMemoryCluster, pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> Run:
    """``run("show", "orders")``; words are split at spaces. A command that takes a cluster gets the one in memory."""
    world = World(lambda _: cluster, lambda _: pipeline.store, lambda: cluster.now_ms)

    def call(command: str, *words: str, status: int = 0) -> Ended:
        capsys.readouterr()
        name, *more = command.split(" ")
        servers = ["--bootstrap-servers", "memory"] if name in ("plan", "lag", "reset", "skip") else []
        ended = Ended(main([name, *more, *words, *servers], world), *capsys.readouterr())
        assert ended.status == status, ended
        assert not ONE_OF_MANY.search(ended.out + ended.err), ended
        return ended

    return call
