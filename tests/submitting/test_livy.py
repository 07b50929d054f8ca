"""`LivyOperator` on a real Livy, as docs/submitting.md shows it; and what becomes of a batch whose worker is killed."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from testbed.java import Java
from testbed.leash import Leashed
from testbed.livy import LivyServer
from testbed.topics import wait_for
from tests.submitting.conftest import Orders, ProvidersAirflow


@pytest.fixture(scope="module")
def livy(java: Java, spark_process: Mapping[str, str]) -> Iterator[LivyServer]:
    with LivyServer(java, spark_process) as running:
        yield running


def batches(livy: LivyServer) -> list[dict[str, Any]]:
    """All that were ever submitted to it."""
    with urllib.request.urlopen(f"{livy.endpoint}/batches?size=100", timeout=30) as answer:
        sessions: list[dict[str, Any]] = json.load(answer)["sessions"]
    return sessions


def connection(livy: LivyServer) -> dict[str, str]:
    return {"AIRFLOW_CONN_LIVY_DEFAULT": livy.endpoint.replace("http://", "livy://")}


def test_the_pages_example_waits_deferred_and_a_clear_is_another_batch(
    providers: ProvidersAirflow, orders: Orders, livy: LivyServer
) -> None:
    before = len(batches(livy))

    providers.run(orders.code("Livy"), "clear:orders.spark", env=connection(livy))

    assert [batch["state"] for batch in batches(livy)[before:]] == ["success", "success"]
    assert orders.is_exact()
    assert orders.committed == {0: 100}


def test_after_a_lost_worker_two_batches_run_at_once_and_each_record_is_there_once(
    providers: ProvidersAirflow, orders: Orders, livy: LivyServer
) -> None:
    """Without the triggerer and without `durable` nobody knows of the first Livy batch, which goes on."""
    before = len(batches(livy))
    waits_itself = {"deferrable=True,": "durable=False, retries=1,"}
    code, env = orders.code("Livy", waits_itself), {**providers.environment, **connection(livy)}
    worker = Leashed.start(providers.command(code), env=env, log=orders.folder / "worker.log")
    try:
        wait_for("Livy has the batch", lambda: len(batches(livy)) > before, deadline_s=300)
    finally:
        worker.kill()

    (resumed,) = providers.run(code, "retry-lost", env=connection(livy))

    assert len(batches(livy)) == before + 2
    assert [task["tries"] for task in resumed["tasks"] if task["task_id"] == "orders.spark"] == [2]
    assert orders.is_exact()
    assert orders.committed == {0: 100}
