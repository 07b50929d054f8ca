"""Who gets an answer from the page, with both logins: each route asks Airflow for the DAG of its path.

What the routes would show stands in ``page_examples``, so that a right that is missing cannot be taken for a pipeline
that is not there. The rights, the cookie and the check are Airflow's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi.routing import APIRoute

from airflow_kafka_offsets.hooks.page_link import PAGE_PREFIX
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.page import page_access, page_routes
from airflow_kafka_offsets.page.dag_pipelines import NextRun, PagePipeline, PipelineName
from airflow_kafka_offsets.page.page_access import SignedOrder, sign
from airflow_kafka_offsets.stores.open import open_store
from tests.airflow import page_examples as example
from tests.airflow.page_server import PageServer, page_server

QUERY = "pipeline=orders&batch=7&action=reset"
ROUTES = sorted(
    (method, route.path) for route in page_routes.page.routes if isinstance(route, APIRoute) for method in route.methods
)
READING = [path for method, path in ROUTES if method == "GET" and not path.endswith("/act")]
EDITING = [(method, path) for method, path in ROUTES if path.endswith("/act")]

RIGHTS_BY_DAG = pytest.mark.parametrize("server", ["fab"], indirect=True)  # the simple login knows none


@pytest.fixture(scope="module", params=["simple", "fab"])
def server(request: pytest.FixtureRequest, airflow_database: None) -> Iterator[PageServer]:
    with page_server(request.param) as running:
        yield running


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[tuple[Any, ...]]:
    """What was done; and every question of the routes has an answer."""
    acts: list[tuple[Any, ...]] = []

    def opened(dag_id: str, pipeline_id: str, plans: Any = None) -> PagePipeline:
        log = PipelineLog(open_store(str(tmp_path)), pipeline_id)
        return PagePipeline(dag_id, "resolve", log, None, lambda: NextRun(None, "none"))

    def act(pipeline: PagePipeline, *order: Any, execute: bool) -> Any:
        acts.extend([(pipeline.dag_id, pipeline.log.pipeline_id, *order)] * execute)
        return example.answer()

    monkeypatch.setattr(page_routes, "pipelines_of_dag", lambda dag_id, plans=None: [PipelineName("orders", "resolve")])
    monkeypatch.setattr(page_routes, "open_pipeline", opened)
    monkeypatch.setattr(page_routes, "pipeline_view", lambda *asked: example.pipeline())
    monkeypatch.setattr(page_routes, "partitions_view", lambda *asked: example.partitions())
    monkeypatch.setattr(page_routes, "windows_view", lambda *asked: example.windows())
    monkeypatch.setattr(page_routes, "act", act)
    return acts


def ask(server: PageServer, person: str | None, method: str, path: str, dag_id: str = "alpha", **more: Any) -> Any:
    address = f"{PAGE_PREFIX}{path.format(dag_id=dag_id)}?{QUERY}"
    return server.client(person).request(method, address, **more)


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.usefixtures("done")
def test_who_is_not_logged_in_sees_nothing(server: PageServer, method: str, path: str) -> None:
    answer = ask(server, None, method, path)
    assert answer.status_code == 401
    assert "Log in to Airflow" in answer.text

    client = server.client(None)
    client.cookies.set("_token", "made.up.token")
    assert client.request(method, f"{PAGE_PREFIX}{path.format(dag_id='alpha')}?{QUERY}").status_code in {401, 403}


@pytest.mark.parametrize("path", READING)
@pytest.mark.usefixtures("done")
def test_who_may_read_the_dag_sees_its_page(server: PageServer, path: str) -> None:
    answer = ask(server, "reader", "GET", path)
    assert answer.status_code == 200
    assert "words" in answer.text
    assert ask(server, "reader", "GET", path, dag_id="alpha").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(("method", "path"), EDITING)
def test_who_may_only_read_cannot_even_look_at_an_action(
    server: PageServer, done: list[Any], method: str, path: str
) -> None:
    assert ask(server, "reader", method, path).status_code == 403
    assert not done


@pytest.mark.usefixtures("done")
def test_actions_are_offered_to_who_may_edit(server: PageServer) -> None:
    assert "/act?" not in ask(server, "reader", "GET", "/dags/{dag_id}").text
    assert "/act?" in ask(server, "editor", "GET", "/dags/{dag_id}").text


@RIGHTS_BY_DAG
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_user_of_another_dag_is_refused(server: PageServer, done: list[Any], method: str, path: str) -> None:
    assert ask(server, "other", method, path).status_code == 403
    assert ask(server, "editor", method, path, dag_id="beta").status_code == 403
    assert not done


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("dag_id", ["~", "%7E"])
@pytest.mark.usefixtures("done")
def test_any_dag_is_no_dag(server: PageServer, method: str, path: str, dag_id: str) -> None:
    """For Airflow ``~`` asks whether the user may read any DAG at all."""
    for person in server.people:
        assert ask(server, person, method, path, dag_id=dag_id).status_code in {403, 404}


@RIGHTS_BY_DAG
@pytest.mark.parametrize("path", READING)
@pytest.mark.usefixtures("done")
def test_a_dag_in_the_query_is_not_the_one_that_is_asked_for(server: PageServer, path: str) -> None:
    address = f"{PAGE_PREFIX}{path.format(dag_id='beta')}?{QUERY}&dag_id=alpha"
    assert server.client("reader").get(address).status_code == 403


# ── what writes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def order_of(server: PageServer, **changes: Any) -> str:
    """What the form of `editor` holds after a look."""
    form = ask(server, "editor", "GET", "/dags/{dag_id}/act").text
    assert 'name="order"' not in form, "before the look there is nothing to confirm"
    filled_in = f"{QUERY}&look=true&where=to_latest&reason=because"
    looked = server.client("editor").get(f"{PAGE_PREFIX}/dags/alpha/act?{filled_in}").text
    token = looked.partition('name="order" value="')[2].partition('"')[0]
    assert token
    order = SignedOrder(server.user_id("editor"), "alpha", "orders", "reset", {}, None)
    return sign(replace(order, **changes)) if changes else token


def confirm(server: PageServer, person: str, token: str, dag_id: str = "alpha") -> Any:
    return ask(server, person, "POST", "/dags/{dag_id}/act", dag_id=dag_id, data={"order": token})


def test_what_was_shown_is_done_in_the_name_of_who_confirms_it(server: PageServer, done: list[Any]) -> None:
    answer = confirm(server, "editor", order_of(server))
    assert answer.status_code == 200
    assert done == [("alpha", "orders", "reset", {"to_latest": "yes", "reason": "because"}, "editor")]


def test_the_cookie_alone_writes_nothing(server: PageServer, done: list[Any]) -> None:
    for form in ({}, {"order": ""}, {"order": "made.up"}, {"action": "reset", "where": "to_latest"}):
        assert ask(server, "editor", "POST", "/dags/{dag_id}/act", data=form).status_code == 403
    token = order_of(server)
    for changed in (token[:-1], token[1:], "e30" + token[token.index(".") :]):
        assert confirm(server, "editor", changed).status_code == 403
    assert not done


def test_an_order_is_good_for_its_user_its_dag_and_ten_minutes(
    server: PageServer, done: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert confirm(server, "editor", order_of(server, user="somebody")).status_code == 403
    assert confirm(server, "editor", order_of(server, dag_id="beta")).status_code == 403
    token = order_of(server)
    monkeypatch.setattr(page_access, "ORDER_LASTS_S", -1)
    assert "older than ten minutes" in confirm(server, "editor", token).text
    assert not done


def test_a_pipeline_that_has_moved_on_since_the_look_is_looked_at_again(server: PageServer, done: list[Any]) -> None:
    answer = confirm(server, "editor", order_of(server, seen="batches/00000000/0000000007/2.json"))
    assert answer.status_code == 409
    assert "has moved on" in answer.text
    assert not done


# ── what every answer has ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("address", ["/dags/alpha", "/dags/alpha?number=0", "/nowhere", "/static/page.css"])
@pytest.mark.usefixtures("done")
def test_every_answer_forbids_foreign_scripts_and_frames(server: PageServer, address: str) -> None:
    client = server.client("reader")
    first, second = (client.get(f"{PAGE_PREFIX}{address}").headers for _ in range(2))
    policy = first["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'nonce-")
    assert "unsafe" not in policy
    assert "frame-ancestors 'self'" in policy
    assert policy != second["content-security-policy"], "a nonce is used once"
    assert first["x-content-type-options"] == "nosniff"


@pytest.mark.usefixtures("done")
def test_the_page_can_be_had_as_json_with_the_same_rights(server: PageServer) -> None:
    for path in READING:
        address = f"{PAGE_PREFIX}{path.format(dag_id='alpha')}?{QUERY}&json=true"
        assert server.client("reader").get(address).json()["looked_at_ms"] == example.NOON
        assert server.client(None).get(address).status_code == 401


@pytest.mark.parametrize("address", ["?number=0", "?order=sideways", "/windows?pipeline=orders&month=2026-13"])
@pytest.mark.usefixtures("done")
def test_an_address_that_cannot_be_read_is_said(server: PageServer, address: str) -> None:
    answer = server.client("reader").get(f"{PAGE_PREFIX}/dags/alpha{address}")
    assert answer.status_code == 422
    assert "This address cannot be read." in answer.text


def test_there_is_no_list_of_the_routes(server: PageServer) -> None:
    for address in ("/openapi.json", "/docs", "/redoc"):
        assert server.client("editor").get(f"{PAGE_PREFIX}{address}").status_code == 404
