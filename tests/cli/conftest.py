"""The command line in this process, over a pipeline in memory: ``World`` is all that is replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
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
Row = tuple[str | None, int | None, int | None, str | None, str | None]
"""Topic, partition, offset, batch and day."""
Audit = Callable[..., str]
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
        servers = ["--bootstrap-servers", "memory"] if name in ("plan", "lag") else []
        ended = Ended(main([name, *more, *words, *servers], world), *capsys.readouterr())
        assert ended.status == status, ended
        assert not ONE_OF_MANY.search(ended.out + ended.err), ended
        return ended

    return call


def answer_of(sql: str, rows: Iterable[Row], file: Path) -> str:
    """What DuckDB answers over a table ``lake``, in a file, as the command takes it."""
    with duckdb.connect() as database:
        database.execute('CREATE TABLE lake (topic TEXT, "partition" INT, "offset" BIGINT, kafka_batch TEXT, day DATE)')
        database.executemany("INSERT INTO lake VALUES (?, ?, ?, ?, ?)", [*rows, (None,) * 5])
        database.execute("DELETE FROM lake WHERE topic IS NULL AND day IS NULL AND kafka_batch IS NULL")
        database.execute(f"COPY ({sql.rstrip().rstrip(';')}) TO '{file}'")
    return f"@{file}"


@pytest.fixture
def answer(run: Run, tmp_path: Path) -> Audit:
    """``answer(rows, "--day t.day")``: the printed query, run; the name of a file with what it answered."""

    def ask(rows: Iterable[Row], options: str = "", form: str = "csv") -> str:
        sql = run("audit --table lake", *options.split()).out
        return answer_of(sql, rows, tmp_path / f"answer.{form}")

    return ask
