"""What the page asks of a checkpoint location far away: the same for 10,000 batches as for 100."""

from __future__ import annotations

from collections.abc import Callable

from airflow_kafka_offsets.page import unread
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.objects import decode, encode
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import TOPIC, Pipeline, tp
from tests.page.conftest import Html

PARTITIONS = 1_000


class DistantStore:
    """Objects of a store in memory, whose requests are counted."""

    is_remote = True

    def __init__(self) -> None:
        self.uri = self.driver_uri = "s3://lake/kafka_offsets"
        self.folders: dict[str, dict[str, bytes]] = {}
        self.asked = 0

    def put(self, name: str, data: bytes) -> None:
        folder, _, own = name.rpartition("/")
        self.folders.setdefault(folder, {})[own] = data
        while folder:
            parent, _, own = folder.rpartition("/")
            self.folders.setdefault(parent, {}).setdefault(f"{own}/", b"")
            folder = parent

    def get(self, name: str) -> bytes | None:
        self.asked += 1
        folder, _, own = name.rpartition("/")
        return self.folders.get(folder, {}).get(own)

    def list(self, folder: str) -> list[str]:
        self.asked += 1
        return sorted(self.folders.get(folder, {}))

    def create(self, name: str, data: bytes) -> bool:
        raise AssertionError(f"the page writes {name}")

    def delete(self, name: str) -> None:
        raise AssertionError(f"the page deletes {name}")


def far_away(pipeline: Pipeline, batches: int) -> DistantStore:
    """One real batch, and as many copies of it as there are others."""
    assert isinstance(pipeline.store, MemoryStore)
    folder, store = pipeline.log.folder(1), DistantStore()
    own = {name.rpartition("/")[2]: data for name, data in pipeline.store.objects.items() if name.startswith(folder)}
    headers = {name: decode(data) for name, data in own.items() if "-" not in name}
    for number in range(1, batches + 1):
        key = f"{number:010}{headers['1.json']['key'][10:]}"
        for name, data in own.items():
            is_plan = name == "1.json"
            data = encode({**headers[name], "number": number, "key": key}) if is_plan else data
            store.put(f"{pipeline.log.folder(number)}/{name}", data)
    for name, data in pipeline.store.objects.items():
        if "/pipeline/" in name:
            store.put(name, data)
    return store


def test_the_page_asks_the_same_of_10_000_batches_as_of_100(
    cluster: InMemoryCluster, pipeline: Pipeline, page: Callable[..., Html]
) -> None:
    cluster.add_partitions(TOPIC, PARTITIONS - 3)
    cluster.produce(tp(0), [cluster.now_ms])
    pipeline.whole_run()
    stores = {batches: far_away(pipeline, batches) for batches in (100, 10_000)}
    asked: dict[int, list[int]] = {}
    for batches, store in stores.items():
        pipeline.store = store
        for views in ([], [batches]):
            unread._asked.clear()
            before = store.asked
            assert f"{batches}" in page(*views)
            asked.setdefault(batches, []).append(store.asked - before)
    assert asked[100] == asked[10_000]
    assert max(asked[100]) < 160, asked  # a listing and two headers of each of 50 batches
