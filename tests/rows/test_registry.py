"""Schemas of a registry: of a real one what it has, and of a server that misbehaves what is said about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar
from urllib.request import Request, urlopen

import pytest

from airflow_kafka_offsets.errors import InvalidRequest, RegistryUnavailable
from airflow_kafka_offsets.rows.config import Avro, Debezium, Json, Rows
from airflow_kafka_offsets.rows.registry import Registry, registered_schemas, schemas_of
from testbed.registry_server import RegistryServer

JSON_SCHEMA = (
    '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"id": {"type": "string"}}}'
)


def record(name: str, **fields: Any) -> str:
    members = [{"name": field, "type": kind} for field, kind in fields.items()]
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": members})


@pytest.fixture
def registry(schema_registry: RegistryServer) -> Registry:
    return Registry(schema_registry.url, timeout_s=60)


def ask(registry: Registry, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{registry.url}{path}", data, method=method)
    request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)


def register(registry: Registry, subject: str, schema: str, **more: Any) -> int:
    return int(ask(registry, "POST", f"/subjects/{subject}/versions", {"schema": schema, **more})["id"])


def test_the_newest_version_and_the_text_of_every_id_that_is_a_record(registry: Registry) -> None:
    old, new = record("a", id="long"), record("a", id="long", title="string")
    ask(registry, "PUT", "/config", {"compatibility": "NONE"})
    _, *ids = [register(registry, "versions-value", text) for text in ('"long"', old, new)]
    rows = Rows(Avro(registry="lake"), key=Json("id INT"))
    found = schemas_of(rows, ["versions"], lambda connection: {"lake": registry}[connection])
    assert list(found) == ["value"]
    assert found == schemas_of(
        Rows(Debezium(Avro(registry="lake")), key=Json("id INT")), ["versions"], lambda _: registry
    )
    assert json.loads(found["value"].schema) == json.loads(new)
    assert {number: json.loads(text) for number, text in found["value"].by_id.items()} == {
        ids[0]: json.loads(old),
        ids[1]: json.loads(new),
    }
    assert found["value"].origin == "versions-value version 3"


def test_references_are_written_out_once(registry: Registry) -> None:
    """Spark takes one text. The customer is named twice, and its address by both."""
    register(registry, "address", record("address", street="string"))
    address = {"name": "shop.address", "subject": "address", "version": 1}
    register(registry, "customer", record("customer", home="shop.address"), references=[address])
    customer = {"name": "shop.customer", "subject": "customer", "version": 1}
    order = record("order", buyer="shop.customer", payer=["null", "shop.customer"], at="shop.address")
    number = register(registry, "whole-value", order, references=[customer, address])
    found = registered_schemas(registry, ["whole-value"])
    fields = {field["name"]: field["type"] for field in json.loads(found.schema)["fields"]}
    assert fields["buyer"]["fields"][0]["type"]["fields"] == [{"name": "street", "type": "string"}]
    assert (fields["payer"], fields["at"]) == (["null", "shop.customer"], "shop.address")
    assert found.by_id == {number: found.schema}


def test_topics_with_different_schemas_need_a_schema_for_the_rows(registry: Registry) -> None:
    texts = [record("a", id="long"), record("b", id="long")]
    for topic, text in zip(("one", "two"), texts, strict=True):
        register(registry, f"{topic}-value", text)
    with pytest.raises(InvalidRequest, match=r"one-value version 1, two-value version 1 are different schemas"):
        schemas_of(Rows(Avro(registry="lake")), ["one", "two"], lambda _: registry)
    found = schemas_of(Rows(Avro(texts[0], registry="lake")), ["one", "two"], lambda _: registry)
    assert len(found["value"].by_id) == 2


def test_a_subject_that_does_not_exist_is_named(registry: Registry) -> None:
    with pytest.raises(InvalidRequest, match="has no subject 'absent-key'"):
        schemas_of(Rows(key=Avro(registry="lake")), ["absent"], lambda _: registry)


def test_what_is_not_avro_is_left_to_a_job_of_ones_own(registry: Registry) -> None:
    register(registry, "json-value", JSON_SCHEMA, schemaType="JSON")
    with pytest.raises(InvalidRequest, match="json-value version 1 is of type JSON; only Avro is decoded here"):
        schemas_of(Rows(Avro(registry="lake")), ["json"], lambda _: registry)


# ── a server that misbehaves ──────────────────────────────────────────────────────────────────────────────────────────


class Answers(BaseHTTPRequestHandler):
    """Answers what the test has put here: a status and a body; and keeps the headers of requests."""

    status: ClassVar[int] = 200
    body: ClassVar[bytes] = b""
    location: ClassVar[str | None] = None
    logins: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.logins.append(self.headers.get("Authorization"))
        self.send_response(self.status)
        if self.location is not None and "elsewhere" not in self.path:
            self.send_header("Location", self.location)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def answering() -> Iterator[Callable[..., Registry]]:
    """`answering(status, body, **registry)`: a registry that answers so."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def make(status: int, body: bytes, **fields: Any) -> Registry:
        Answers.status, Answers.body, Answers.location, Answers.logins = status, body, None, []
        return Registry(f"http://127.0.0.1:{server.server_address[1]}", **fields)

    yield make
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "retriable"),
    [
        (401, b'{"error_code":401,"message":"Unauthorized geheim"}', False),
        (403, b"geheim", False),
        (404, b"<html>no such page geheim</html>", False),
        (429, b"geheim", True),
        (503, b"geheim", True),
        (200, b"<html>geheim</html>", False),
        (200, b'{"geheim": 1}', False),
        (200, b'["geheim"]', False),
    ],
)
def test_what_the_registry_answers_is_said_without_secrets(
    answering: Callable[..., Registry], status: int, body: bytes, retriable: bool
) -> None:
    registry = answering(status, body, user="me", password="geheim")
    with pytest.raises(RegistryUnavailable) as raised:
        registered_schemas(registry, ["orders-value"])
    assert raised.value.retriable is retriable
    assert registry.url in str(raised.value)
    assert "geheim" not in str(raised.value) + repr(raised.value) + repr(registry)


def test_a_login_is_sent_and_does_not_follow_a_redirect(answering: Callable[..., Registry]) -> None:
    registry = answering(302, b"[]", token="geheim")
    Answers.location = f"{registry.url}/elsewhere"
    with pytest.raises(RegistryUnavailable):
        registry.get("/subjects")
    assert Answers.logins[0] == "Bearer geheim"
    assert set(Answers.logins[1:]) <= {None}


def test_a_registry_that_cannot_be_reached_is_tried_again_later() -> None:
    with pytest.raises(RegistryUnavailable, match="Connection refused") as raised:
        registered_schemas(Registry("http://127.0.0.1:1"), ["orders-value"])
    assert raised.value.retriable


@pytest.mark.parametrize("url", ["registry:8081", "ftp://registry", "http://me:geheim@registry"])
def test_an_address_that_is_none_is_refused_without_its_login(url: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        Registry(url)
    assert "geheim" not in str(raised.value)
