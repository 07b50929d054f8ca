"""What OpenLineage's listener sends of a real run, through its file transport: each event fits the schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.conftest import Orders
from tests.lineage.valid_events import problems

pytestmark = pytest.mark.long


@pytest.fixture
def events(airflow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Airflow's OpenLineage, switched on while the test runs: its settings are read once, and then kept."""
    from airflow.providers.openlineage import conf
    from airflow.providers.openlineage.plugins.listener import OpenLineageListener
    from airflow.sdk.listener import get_listener_manager

    file = tmp_path / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT", "120")  # of a busy machine
    caches = [found for found in vars(conf).values() if hasattr(found, "cache_clear")]
    for cache in caches:
        cache.cache_clear()
    listener, manager = OpenLineageListener(), get_listener_manager()
    manager.add_listener(listener)
    yield file
    manager.pm.unregister(listener)
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


def test_resolve_and_commit_of_a_run_tell_what_is_read_and_written(orders: Orders, events: Path) -> None:
    orders.produce(5)
    assert orders.run().state == "success"
    sent = [json.loads(line) for line in events.read_text().splitlines()]
    assert [problem for event in sent for problem in problems(event)] == []
    told: dict[tuple[str, str], Any] = {
        (event["job"]["name"].rpartition(".")[2], event["eventType"]): event for event in sent
    }
    (read,) = told["resolve", "COMPLETE"]["inputs"]
    assert (read["namespace"], read["name"]) == (f"kafka://{orders.broker.bootstrap_servers}", orders.topic)
    facet = read["inputFacets"]["kafkaOffsets_ranges"]
    assert facet["ranges"] == [{"partition": 0, "startOffset": 0, "endOffset": 5}]
    assert told["resolve", "COMPLETE"]["outputs"] == []
    assert told["commit", "START"]["inputs"][0]["inputFacets"]["kafkaOffsets_ranges"]["batch"] == facet["batch"]
    (output,) = (one for one in told["commit", "COMPLETE"]["outputs"] if one["namespace"] == "file")
    assert (output["name"], output["outputFacets"]["outputStatistics"]["rowCount"]) == (str(orders.output), 5)
    assert told["commit", "COMPLETE"]["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 5
