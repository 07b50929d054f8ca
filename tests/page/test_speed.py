"""10,000 batches of 10,000 partitions, with the log 50 ms away: the page takes less than a second of the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_offsets.page import unread
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.objects import decode, encode
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline, tp
from tests.page.conftest import Html

PARTITIONS, BATCHES, AWAY_S = 10_000, 10_000, 0.05


class DistantStore:
    """Objects of a store in memory; each request takes as long as one to a bucket in another data centre."""

    is_remote = True

    def __init__(self) -> None:
        self.uri = self.driver_uri = "s3://lake/kafka_offsets"
        self.folders: dict[str, dict[str, bytes]] = {}
        self.away_s = 0.0

    def put(self, name: str, data: bytes) -> None:
        folder, _, own = name.rpartition("/")
        self.folders.setdefault(folder, {})[own] = data
        while folder:
            parent, _, own = folder.rpartition("/")
            self.folders.setdefault(parent, {}).setdefault(f"{own}/", b"")
            folder = parent

    def get(self, name: str) -> bytes | None:
        time.sleep(self.away_s)
        folder, _, own = name.rpartition("/")
        return self.folders.get(folder, {}).get(own)

    def list(self, folder: str) -> list[str]:
        time.sleep(self.away_s)
        return sorted(self.folders.get(folder, {}))

    def create(self, name: str, data: bytes) -> bool:
        raise AssertionError(f"the page writes {name}")

    def delete(self, name: str) -> None:
        raise AssertionError(f"the page deletes {name}")


@pytest.fixture
def far_away(pipeline: Pipeline, cluster: InMemoryCluster) -> DistantStore:
    """One real batch, and as many copies of it as there are others."""
    cluster.add_partitions(TOPIC, PARTITIONS - 3)
    for number in range(PARTITIONS):
        cluster.produce(tp(number), [cluster.now_ms])
    pipeline.whole_run()
    assert isinstance(pipeline.store, MemoryStore)
    folder, store = pipeline.log.folder(1), DistantStore()
    own = {name.rpartition("/")[2]: data for name, data in pipeline.store.objects.items() if name.startswith(folder)}
    headers = {name: decode(data) for name, data in own.items() if "-" not in name}
    for number in range(1, BATCHES + 1):
        key = f"{number:010}{headers['1.json']['key'][10:]}"
        for name, data in own.items():
            is_plan = name == "1.json"
            data = encode({**headers[name], "number": number, "key": key}) if is_plan else data
            store.put(f"{pipeline.log.folder(number)}/{name}", data)
    pipeline.store = store
    cluster.produce(tp(0), [cluster.now_ms] * 7)
    return store


@pytest.mark.slow
def test_the_page_takes_less_than_a_second(
    far_away: DistantStore, page: Callable[..., Html], monkeypatch: pytest.MonkeyPatch
) -> None:
    far_away.away_s = AWAY_S

    def took(*asked: Any, **more: Any) -> float:
        began = time.monotonic()
        shown = page(*asked, **more)
        seconds = time.monotonic() - began
        assert f"{BATCHES}" in shown
        return seconds

    best = {
        "the pipeline, with Kafka": min(took() for _ in range(3) if not unread._asked.clear()),
        "older batches": min(took(number=100) for _ in range(3)),
        "a batch": min(took(BATCHES) for _ in range(3)),
        "a batch by size": min(took(BATCHES, order="offsets") for _ in range(3)),
    }
    print(best)
    assert max(best.values()) < 1, best
