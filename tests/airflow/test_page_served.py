"""The page as Airflow's API server gives it, with both logins: who may read it, and what a real run has left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi.routing import APIRoute

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.names import PAGE
from airflow_kafka_offsets.page import pipelines
from airflow_kafka_offsets.page.plugin import KafkaOffsetsPlugin
from airflow_kafka_offsets.page.routes import page
from testbed.dag_runs import RunResult
from tests.airflow.conftest import Orders
from tests.airflow.fixtures import AIRFLOW_HOME
from tests.airflow.page_server import PageServer, page_server

pytestmark = pytest.mark.long

ROUTES = sorted(route.path for route in page.routes if isinstance(route, APIRoute))


@pytest.fixture(scope="module", params=[pytest.param("simple", marks=pytest.mark.slow), "fab"])
def server(request: pytest.FixtureRequest, airflow_database: None) -> Iterator[PageServer]:
    with page_server(request.param) as running:
        yield running


RIGHTS_BY_DAG = pytest.mark.parametrize("server", ["fab"], indirect=True)  # the simple login knows none


def get(
    server: PageServer, person: str | None, path: str = "/dags/{dag_id}", dag_id: str = "alpha", **more: Any
) -> Any:
    address = f"{PAGE}{path.format(dag_id=dag_id, batch=1)}"
    return server.client(person).get(address, params={"pipeline": "orders"} | more)


def test_the_page_only_reads() -> None:
    assert ROUTES == ["/dags/{dag_id}", "/dags/{dag_id}/batches/{batch}", "/dags/{dag_id}/spark"]
    assert {method for route in page.routes if isinstance(route, APIRoute) for method in route.methods} == {"GET"}


@pytest.mark.parametrize("path", ROUTES)
def test_who_is_not_logged_in_sees_nothing(server: PageServer, path: str) -> None:
    answer = get(server, None, path)
    assert (answer.status_code, "Log in to Airflow" in answer.text) == (401, True)
    client = server.client(None)
    client.cookies.set("_token", "made.up.token")
    address = f"{PAGE}{path.format(dag_id='alpha', batch=1)}?pipeline=orders"
    assert client.get(address).status_code in {401, 403}


@pytest.mark.parametrize("path", ROUTES)
def test_who_may_read_the_dag_is_answered(server: PageServer, path: str) -> None:
    answer = get(server, "reader", path)
    assert (answer.status_code, "is known to have read a batch of this pipeline" in answer.text) == (404, True)
    assert answer.headers["cache-control"] == "no-store"


@RIGHTS_BY_DAG
@pytest.mark.parametrize("path", ROUTES)
def test_who_may_read_another_dag_is_refused(server: PageServer, path: str) -> None:
    assert get(server, "other", path).status_code == 403
    assert get(server, "reader", path, dag_id="beta").status_code == 403
    in_the_query = f"{PAGE}{path.format(dag_id='beta', batch=1)}?pipeline=orders&dag_id=alpha"
    assert server.client("reader").get(in_the_query).status_code == 403


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("dag_id", ["~", "%7E"])
def test_any_dag_is_no_dag(server: PageServer, path: str, dag_id: str) -> None:
    """For Airflow ``~`` asks whether the person may read any DAG at all."""
    for person in server.people:
        answer = get(server, person, path, dag_id=dag_id)
        assert (answer.status_code, "There is no DAG ~." in answer.text) == (404, True)


@pytest.mark.parametrize("address", ["/dags/alpha", "/dags/alpha?number=0", "/nowhere", "/static/page.css"])
def test_every_answer_forbids_foreign_scripts_and_frames(server: PageServer, address: str) -> None:
    client = server.client("reader")
    first, second = (client.get(f"{PAGE}{address}").headers for _ in range(2))
    policy = first["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'nonce-")
    assert "form-action 'none'" in policy
    assert "frame-ancestors 'self'" in policy
    assert "unsafe" not in policy
    assert policy != second["content-security-policy"], "a nonce is used once"
    assert first["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(("path", "wrong"), [("/dags/alpha?number=0", "number"), ("/dags/alpha/batches/x", "batch")])
def test_an_address_that_cannot_be_read_is_said(server: PageServer, path: str, wrong: str) -> None:
    answer = server.client("reader").get(f"{PAGE}{path}")
    assert (answer.status_code, f"{wrong}: Input should be" in answer.text) == (422, True)


def test_there_is_no_list_of_the_routes(server: PageServer) -> None:
    for address in ("/openapi.json", "/docs", "/redoc"):
        assert server.client("reader").get(f"{PAGE}{address}").status_code == 404


def test_the_plugin_is_installed_with_a_tab_for_the_dag_the_run_and_the_task(server: PageServer) -> None:
    from airflow.plugins_manager import get_plugin_info

    (plugin,) = (one for one in get_plugin_info() if one["name"] == KafkaOffsetsPlugin.name)
    assert [view["destination"] for view in plugin["external_views"]] == ["dag", "dag_run", "task_instance"]


# ── a real run ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def done(orders: Orders) -> Orders:
    """A batch of five records, and two that have come since."""
    orders.produce(5)
    assert orders.run().state == "success"
    orders.produce(2)
    return orders


def test_a_run_is_shown_to_the_readers_of_its_dag_and_under_no_other(server: PageServer, done: Orders) -> None:
    shown = get(server, "reader", dag_id="batch", pipeline=done.topic).text
    assert "The newest batch is committed." in shown
    assert 'id="figure-unread"><b>2</b>' in shown or "Kafka has not answered yet" in shown
    batch = get(server, "reader", "/dags/{dag_id}/batches/{batch}", "batch", pipeline=done.topic).text
    assert f"{done.topic}-0" in batch
    run = (
        shown.partition('data-airflow href="/dags/batch/runs/')[2]
        .partition('"')[0]
        .replace("%2B", "+")
        .replace("%3A", ":")
    )
    assert "Batch 1 of" in get(server, "reader", dag_id="batch", pipeline="", run=run, task="orders.commit").text
    below = server.client("reader", "/airflow").get(f"{PAGE}/dags/batch?pipeline={done.topic}").text
    assert f'href="/airflow{PAGE}/static/page.css"' in below


def test_a_run_that_was_refused_is_named_with_the_command_and_who_decided_is_shown(
    server: PageServer, done: Orders, said: Any
) -> None:
    with KafkaCluster(done.broker.client_config) as cluster:
        cluster.commit_offsets(done.group, {TopicPartition(done.topic, 0): CommittedOffset(1)})
    refused = done.run()
    assert refused.state == "failed"
    shown = get(server, "reader", dag_id="batch", pipeline=done.topic).text
    assert f"Run {refused.run_id} has failed before it had a batch" in shown
    assert f"kafka-offsets plan {done.topic} --kafka-config-id kafka_default" in shown
    assert done.run_printed(said()).state == "success"
    shown = get(server, "reader", dag_id="batch", pipeline=done.topic).text
    assert "has failed" not in shown
    assert "&#34;acknowledge&#34;: {&#34;group&#34;:" in shown


def test_a_forged_xcom_shows_nothing_and_makes_no_object(server: PageServer, done: Orders, orders: Orders) -> None:
    """One of DAG batch_retried is a copy of DAG batch's; one of DAG batch asks for an object of Airflow's."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select, update

    other = replace(orders, dag_id="batch_retried", topic=orders.topic, group=f"{orders.group}-2")
    assert other.run().state == "success"
    evil = {"__classname__": "airflow.sdk.definitions.connection.Connection", "__version__": 1, "__data__": {}}
    with create_session() as session:
        newest = select(XComModel).where(XComModel.key == "plan").order_by(XComModel.dag_run_id.desc())
        copied, forged = (
            session.scalars(newest.where(XComModel.dag_id == dag_id)).first() for dag_id in ("batch", "batch_retried")
        )
        forged.value = copied.value
        session.execute(
            update(XComModel)
            .where(XComModel.dag_run_id == copied.dag_run_id, XComModel.key == "summary")
            .values(key="plan", value=json.dumps(evil))
            .where(XComModel.task_id == "orders.commit")
        )
    answer = get(server, "reader", dag_id="batch_retried", pipeline=done.topic)
    assert (answer.status_code, "is another DAG" in answer.text, "committed" in answer.text) == (404, True, False)
    assert "The newest batch is committed." in get(server, "reader", dag_id="batch", pipeline=done.topic).text


def change_plan(run: RunResult, value: Any) -> None:
    """What the database has as the run's XCom ``plan``; ``None``: it was purged."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete, update

    is_plan = (XComModel.run_id == run.run_id) & (XComModel.key == "plan")
    with create_session() as session:
        changed = delete(XComModel) if value is None else update(XComModel).values(value=value)
        assert session.execute(changed.where(is_plan)).rowcount == 1


def test_the_tab_of_a_run_shows_its_batch_however_old_it_is(
    server: PageServer, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    for _ in range(3):
        orders.produce(1)
        runs.append(orders.run())
    monkeypatch.setattr(pipelines, "_MOST", 1)  # runs of the DAG that are looked at; else this needs 501
    for number, run in enumerate(runs, 1):
        of_run = get(server, "reader", dag_id="batch", pipeline="", run=run.run_id, task="orders.spark").text
        assert f"Batch {number} of {orders.topic}" in " ".join(of_run.split())


@pytest.mark.parametrize("value", [None, "s3://aws_default@bucket/xcoms/plan.json"], ids=["purged", "object store"])
def test_a_batch_whose_xcom_is_elsewhere_is_not_known(server: PageServer, orders: Orders, value: str | None) -> None:
    orders.produce(1)
    run = orders.run()
    change_plan(run, value)
    of_run = get(server, "reader", dag_id="batch", pipeline=orders.topic, run=run.run_id)
    assert (of_run.status_code, "No run of this DAG is known to have read a batch" in of_run.text) == (404, True)
    orders.produce(1)
    assert orders.run().state == "success"
    of_run = get(server, "reader", dag_id="batch", pipeline=orders.topic, run=run.run_id)
    assert "The batch of this run is not known: it has none so far, or its XCom was purged or lies" in of_run.text
    assert "Batch 2 was committed" in of_run.text
    of_dag = get(server, "reader", pipeline="")
    assert (of_dag.status_code, "What this DAG has read is not known." in of_dag.text) == (200, True)


def test_only_locations_and_connections_that_airflow_or_the_dag_names_are_opened(
    server: PageServer, done: Orders, orders: Orders, xcom: Any
) -> None:
    """A task that has copied its log and altered it, or that names another connection, is not followed."""
    (AIRFLOW_HOME / "elsewhere").mkdir(exist_ok=True)
    elsewhere = replace(orders, dag_id="batch_elsewhere", topic=orders.topic, group=f"{orders.group}-2")
    assert elsewhere.run().state == "success"
    assert "committed" in get(server, "reader", dag_id="batch_elsewhere", pipeline=done.topic).text
    run = done.run()
    plan = xcom("batch", run, "orders.resolve", "plan")
    for forged in ({"checkpoint_location": str(AIRFLOW_HOME / "elsewhere")}, {"kafka_config_id": "spark_default"}):
        change_plan(run, {**plan, **forged})
        answer = get(server, "reader", dag_id="batch", pipeline=done.topic)
        assert (answer.status_code, "The page opens only what is configured" in answer.text) == (404, True)
    change_plan(run, plan)
    assert "Batch 2 was committed" in get(server, "reader", dag_id="batch", pipeline=done.topic).text


def test_a_store_that_does_not_answer_is_said(server: PageServer, done: Orders) -> None:
    from tests.airflow.conftest import STORE

    root = STORE / done.topic / "batches"
    away = root.with_name("away")
    root.rename(away)
    root.write_text("no folder")
    try:
        answer = get(server, "reader", dag_id="batch", pipeline=done.topic)
    finally:
        root.unlink()
        away.rename(root)
    assert (answer.status_code, "AKO-503" in answer.text) == (503, True)
    assert "\nPage: kafka-offsets explain AKO-503" in answer.text
