"""What a run asks of its checkpoint location does not grow with the pipeline's history.

On a server of S3, with the driver's requests: `benchmarks/store_requests.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from airflow_kafka_offsets.store.memory import MemoryStore
from tests.cluster.memory import InMemoryCluster
from tests.engine.pipeline import HOUR, Pipeline, tp


class CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.asked = Counter[str]()

    def __getattribute__(self, name: str) -> Any:
        if name in ("create", "get", "list", "delete"):
            self.asked[name] += 1
        return super().__getattribute__(name)


@pytest.mark.parametrize("kind", ["sequence", "window"])
def test_a_run_asks_the_same_at_batch_150_as_at_batch_10(
    cluster: InMemoryCluster, pipeline: Pipeline, kind: str
) -> None:
    pipeline.store = store = CountingStore()
    asked, begin_ms = {}, cluster.now_ms // HOUR * HOUR
    for number in range(1, 151):
        cluster.now_ms = begin_ms + number * HOUR
        cluster.produce(tp(0), [cluster.now_ms - 1])
        before = store.asked.copy()
        pipeline.whole_run(want=pipeline.window(cluster.now_ms - HOUR, cluster.now_ms) if kind == "window" else None)
        asked[number] = store.asked - before
    assert asked[150] == asked[10]
    assert asked[10].total() <= {"sequence": 29, "window": 25}[kind]
