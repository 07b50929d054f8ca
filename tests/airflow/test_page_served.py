"""The page of a real pipeline, as the API server gives it: what it shows, whose it is, an action from look to log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_kafka_offsets.hooks.page_link import PAGE_PREFIX
from tests.airflow.conftest import STORE, Orders
from tests.airflow.page_server import PageServer, page_server

DAG = f"{PAGE_PREFIX}/dags/batch"


@pytest.fixture(scope="module")
def server(airflow: Any) -> Iterator[PageServer]:
    with page_server("simple") as running:
        yield running


@pytest.fixture
def done(orders: Orders) -> Orders:
    """A batch of five records, and two that have come since."""
    orders.produce(5)
    assert orders.run().state == "success"
    orders.produce(2)
    return orders


def test_a_pipeline_is_shown_to_the_readers_of_its_dag_and_under_no_other(server: PageServer, done: Orders) -> None:
    client, name = server.client("reader"), {"pipeline": done.log.pipeline_id}
    assert "Every batch is committed." in client.get(DAG, params=name).text
    assert client.get(DAG, params={**name, "json": "true"}).json()["pipeline_id"] == done.log.pipeline_id
    (row,) = client.get(f"{DAG}/partitions", params={**name, "batch": "1", "json": "true"}).json()["partitions"]["rows"]
    assert (row["start"], row["end"]) == (0, 5)
    for place in ("", "/partitions", "/windows"):
        answer = client.get(f"{PAGE_PREFIX}/dags/another{place}", params={**name, "batch": "1"})
        assert (answer.status_code, done.topic in answer.text) == (404, False)


def test_the_page_of_a_run_shows_its_batch(server: PageServer, done: Orders) -> None:
    run = done.newest.log.plan.by.run
    assert run is not None
    about = {"pipeline": done.log.pipeline_id, "run": run.run_id, "task": "orders.commit"}
    assert "this run" in server.client("reader").get(DAG, params=about).text
    of_airflow_3_1 = {**about, "run": run.run_id.replace("+", " ")}
    assert "this run" in server.client("reader").get(DAG, params=of_airflow_3_1).text
    assert "this run" not in server.client("reader").get(DAG, params={**about, "run": "another"}).text


def test_a_store_that_does_not_answer_leaves_a_page_that_says_so(server: PageServer, done: Orders) -> None:
    root = STORE / done.log.root / "batches"
    away = root.with_name("away")
    root.rename(away)
    root.write_text("no folder")
    try:
        answer = server.client("reader").get(DAG, params={"pipeline": done.log.pipeline_id})
    finally:
        root.unlink()
        away.rename(root)
    assert answer.status_code == 200
    assert 'class="unknowns"' in answer.text


def test_an_action_is_looked_at_then_done_once_and_the_log_names_the_person(server: PageServer, done: Orders) -> None:
    client, name = server.client("editor"), done.log.pipeline_id
    form = {"pipeline": name, "action": "reset", "look": "true", "where": "to_earliest", "reason": "<b>why</b>"}

    def order(**more: str) -> str:
        looked = client.get(f"{DAG}/act", params={**form, **more}).text
        return looked.partition('name="order" value="')[2].partition('"')[0]

    refused = client.post(f"{DAG}/act", data={"order": order()})
    assert (refused.status_code, "ResetRefused" in refused.text) == (409, True)
    confirmed = order(allow_duplicates="yes")
    assert done.newest.log.plan.batch is not None
    assert done.newest.log.plan.batch.number == 1, "neither a look nor a refusal writes"

    answer = client.post(f"{DAG}/act", data={"order": confirmed})
    assert answer.status_code == 200, answer.text
    by = done.newest.log.plan.by
    assert (done.newest.log.plan.batch.number, by.run, by.person) == (2, None, "editor")
    again = client.post(f"{DAG}/act", data={"order": confirmed})
    assert (again.status_code, "has moved on" in again.text) == (409, True)
    assert done.newest.log.plan.batch.number == 2
    shown = client.get(DAG, params={"pipeline": name}).text
    assert "&lt;b&gt;why&lt;/b&gt;" in shown
    assert "<b>why" not in shown
