"""What OpenLineage's listener sends of real runs, through its file transport: each event held against the schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from testbed.dag_runs import RunResult
from tests.airflow.conftest import Orders
from tests.lineage.valid_events import problems

SECRET = "hunter2-which-no-event-may-have"


@dataclass
class Told:
    """The events of a file, in the order in which they were sent."""

    file: Path

    def events(self, run: RunResult, task_id: str) -> dict[str, Mapping[str, Any]]:
        """Of one task of a run, by their type; the first of a mapped one."""
        found: dict[str, Mapping[str, Any]] = {}
        for event in self.all():
            facet = event["run"]["facets"].get("airflow", {})
            if (facet.get("dagRun", {}).get("run_id"), facet.get("task", {}).get("task_id")) == (run.run_id, task_id):
                found.setdefault(event["eventType"], event)
        return found

    def all(self) -> list[Mapping[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]


@pytest.fixture
def told(airflow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
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
    yield Told(file)
    manager.pm.unregister(listener)
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


def test_each_task_of_a_run_tells_what_it_reads_and_writes(
    orders: Orders, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {**orders.broker.client_config, "sasl.password": SECRET}  # no use without SASL
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TOLD", json.dumps({"conn_type": "kafka", "extra": json.dumps(connection)}))
    orders = replace(orders, dag_id="batch_by_spark")
    good = [json.dumps({"id": n, "at": "2026-11-20T10:00:00Z"}) for n in range(5)]
    values = [*good, "no JSON"]
    orders.broker.produce_many(orders.topic, len(values), value=lambda n: values[n].encode())
    run = orders.run(kafka="kafka_told")
    assert run.state == "success"

    topic = {"namespace": f"kafka://{orders.broker.bootstrap_servers}", "name": orders.topic}
    for task in ("wait_for_partitions", "resolve", "spark", "commit"):
        events = told.events(run, f"orders.{task}")
        assert events.keys() == {"START", "COMPLETE"}, task
        for event in events.values():
            (read,) = event["inputs"]
            assert {name: read[name] for name in topic} == topic, (task, event["eventType"])
        if task in ("spark", "commit"):
            for event in events.values():
                batch = event["run"]["facets"]["kafkaOffsets_batch"]
                assert (batch["batch"], batch["number"]) == (orders.key, 1)
    waited = told.events(run, "orders.wait_for_partitions")["COMPLETE"]
    assert (waited["inputs"][0].get("inputFacets", {}), waited["outputs"]) == ({}, [])
    resolved = told.events(run, "orders.resolve")["COMPLETE"]
    assert resolved["inputs"][0]["inputFacets"]["kafkaOffsets_ranges"]["ranges"] == [
        {"partition": 0, "startOffset": 0, "endOffset": 6}
    ]
    assert resolved["outputs"] == []

    for task in ("spark", "commit"):
        done = told.events(run, f"orders.{task}")["COMPLETE"]
        facets = done["inputs"][0]["inputFacets"]
        assert facets["inputStatistics"]["rowCount"] == 6
        assert {name: facets["kafkaOffsets_ranges"][name] for name in ("rows", "setAside", "leftOut")} == {
            "rows": 5,
            "setAside": 1,
            "leftOut": 0,
        }
        written = {output["name"]: output for output in done["outputs"]}
        assert written.keys() == {str(orders.output), f"{orders.output}-bad"}
        counts = {name: output["outputFacets"]["outputStatistics"]["rowCount"] for name, output in written.items()}
        assert counts == {str(orders.output): 5, f"{orders.output}-bad": 1}
        fields = {f["name"]: f["type"] for f in written[str(orders.output)]["facets"]["schema"]["fields"]}
        assert fields.items() >= {("id", "bigint"), ("at", "timestamp"), ("offset", "bigint")}
        assert {output["namespace"] for output in done["outputs"]} == {"file"}
    batch = told.events(run, "orders.commit")["COMPLETE"]["run"]["facets"]["kafkaOffsets_batch"]
    assert (batch["committed"], batch["proof"]) == (True, "rows")
    assert "committed" not in told.events(run, "orders.commit")["START"]["run"]["facets"]["kafkaOffsets_batch"]
    assert [found for event in told.all() for found in problems(event)] == []
    assert SECRET not in told.file.read_text()


def test_a_task_that_fails_tells_it(orders: Orders, told: Told) -> None:
    orders.produce(3)
    refused = orders.run(startup_mode="group-offsets")  # a first run, and nobody says where it starts
    events = told.events(refused, "orders.resolve")
    assert events.keys() == {"START", "FAIL"}
    assert [read["name"] for read in events["FAIL"]["inputs"]] == [orders.topic]
    assert "earliest" in events["FAIL"]["run"]["facets"]["errorMessage"]["message"]
    assert problems(events["FAIL"]) == []
