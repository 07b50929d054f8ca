"""What a real registry has of a subject, as a pipeline asks it; and what a person is told where it gives nothing."""

from __future__ import annotations

import json
import logging
import pickle
import socket
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError

from airflow_kafka_offsets.broker.schema_registry import subject_schemas
from airflow_kafka_offsets.errors import InvalidRequest, RegistryUnavailable
from testbed.cache import Say
from testbed.certificates import Authority
from testbed.http_proxy import HttpProxy
from testbed.java import Java
from testbed.ports import free_ports
from testbed.registry_server import RegistryServer
from tests.conftest import unique_name

SECRET = "the registry's secret"
TOKEN = "a-token-that-nobody-sees"
BEARER = {
    "bearer.auth.credentials.source": "STATIC_TOKEN",
    "bearer.auth.token": TOKEN,
    "bearer.auth.logical.cluster": "",
    "bearer.auth.identity.pool.id": "",
}
API = "/apis/ccompat/v7"


class Subject:
    """A subject of one test's own, and how a producer, or a person, changes it."""

    def __init__(self, url: str, name: str) -> None:
        self.client = SchemaRegistryClient({"url": url})
        self.name = name

    def register(self, schema: Any, kind: str = "AVRO", *references: SchemaReference) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self.client.register_schema(self.name, Schema(text, kind, list(references)))

    def delete(self, version: int, *, for_good: bool = False) -> None:
        self.client.delete_version(self.name, version)
        if for_good:
            self.client.delete_version(self.name, version, permanent=True)

    @property
    def reference(self) -> Callable[[str, int], SchemaReference]:
        return lambda name, version: SchemaReference(name, self.name, version)


def order(*fields: tuple[str, Any]) -> dict[str, Any]:
    """An Avro record whose fields all have a default."""
    return {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}, *({"name": n, "type": t, "default": d} for n, (t, d) in fields)],
    }


FIRST, SECOND, THIRD = order(), order(("note", ("string", ""))), order(("paid", ("boolean", False)))


@pytest.fixture
def connection(schema_registry: RegistryServer) -> dict[str, str]:
    return {"url": schema_registry.url}


@pytest.fixture
def new_subject(schema_registry: RegistryServer) -> Callable[[], Subject]:
    return lambda: Subject(schema_registry.url, f"{unique_name('orders')}-value")


@pytest.fixture
def subject(new_subject: Callable[[], Subject]) -> Subject:
    return new_subject()


@pytest.fixture
def proxy(schema_registry: RegistryServer) -> Iterator[HttpProxy]:
    with HttpProxy(schema_registry.endpoint) as running:
        yield running


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


def problem_of(connection: dict[str, str], subject: str, version: int | None = None) -> str:
    with pytest.raises(InvalidRequest) as refused:
        subject_schemas(connection, [subject], version)
    (problem,) = refused.value.problems
    return problem


def unavailable(connection: dict[str, str], subject: str, timeout_s: float = 15.0) -> RegistryUnavailable:
    with pytest.raises(RegistryUnavailable) as refused:
        subject_schemas(connection, [subject], timeout_s=timeout_s)
    assert connection["url"] in str(refused.value)
    assert subject in str(refused.value)
    for secret in (SECRET, TOKEN, b64encode(f"etl:{SECRET}".encode()).decode()):
        assert secret not in str(refused.value) + repr(refused.value)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    return refused.value


def alter(proxy: HttpProxy, monkeypatch: pytest.MonkeyPatch, path: str, old: bytes, new: bytes) -> None:
    """From now on, answers to requests of that path have other words."""
    forward = proxy._forward

    def altered(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        del request.headers["Accept-Encoding"]
        status, headers, content = forward(request, body)
        assert old in content or not request.path.endswith(path)
        return status, headers, content.replace(old, new) if request.path.endswith(path) else content

    monkeypatch.setattr(proxy, "_forward", altered)


def test_two_registries_run_on_one_machine(schema_registry: RegistryServer, java: Java, say: Say) -> None:
    with RegistryServer(java, say) as another:
        for server in (schema_registry, another):
            assert isinstance(SchemaRegistryClient({"url": server.url}).get_subjects(), list)


# ── versions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_newest_version_is_the_readers_and_each_id_has_its_text(
    connection: dict[str, str], subject: Subject
) -> None:
    ids = [subject.register(schema) for schema in (FIRST, SECOND, THIRD)]
    found = subject_schemas(connection, [subject.name])
    assert (found.subject, found.version, found.schema_id, found.kind) == (subject.name, 3, ids[2], "AVRO")
    assert [json.loads(found.texts[known]) for known in ids] == [FIRST, SECOND, THIRD]
    assert found.text == found.texts[ids[2]]


def test_a_version_that_is_named_is_the_readers_and_newer_ids_are_known_all_the_same(
    connection: dict[str, str], subject: Subject
) -> None:
    ids = [subject.register(schema) for schema in (FIRST, SECOND)]
    found = subject_schemas(connection, [subject.name], version=1)
    assert (found.version, found.schema_id, json.loads(found.text)) == (1, ids[0], FIRST)
    assert sorted(found.texts) == sorted(ids)


def test_the_first_of_several_subjects_is_the_readers_and_the_ids_of_all_are_known(
    connection: dict[str, str], new_subject: Callable[[], Subject]
) -> None:
    orders, refunds = new_subject(), new_subject()
    ids = [orders.register(FIRST), refunds.register(SECOND), refunds.register(THIRD)]
    found = subject_schemas(connection, [orders.name, refunds.name, orders.name])
    assert (found.subject, found.version, found.schema_id) == (orders.name, 1, ids[0])
    assert sorted(found.texts) == sorted(ids)


def test_more_versions_than_are_asked_for_at_once_all_come(connection: dict[str, str], subject: Subject) -> None:
    ids = [subject.register(order((f"note{number}", ("string", "")))) for number in range(30)]
    assert sorted(subject_schemas(connection, [subject.name]).texts) == sorted(ids)


def test_a_version_that_the_registry_refused_is_no_version(connection: dict[str, str], subject: Subject) -> None:
    known = subject.register(FIRST)
    subject.client.set_compatibility(subject.name, "BACKWARD")
    with pytest.raises(SchemaRegistryError, match="409"):
        subject.register({**FIRST, "fields": [{"name": "id", "type": "string"}]})
    assert list(subject_schemas(connection, [subject.name]).texts) == [known]


def test_an_id_of_a_deleted_version_keeps_its_text_so_that_a_batch_done_again_decodes(
    connection: dict[str, str], subject: Subject
) -> None:
    ids = [subject.register(schema) for schema in (FIRST, SECOND, THIRD)]
    before = subject_schemas(connection, [subject.name], version=2)
    subject.delete(1)
    subject.delete(3)
    found = subject_schemas(connection, [subject.name])
    assert found == before, "and the newest that is not deleted is the reader's"
    assert subject_schemas(connection, [subject.name], version=3).schema_id == ids[2]


def test_a_version_that_was_deleted_for_good_is_gone(connection: dict[str, str], subject: Subject) -> None:
    ids = [subject.register(schema) for schema in (FIRST, SECOND)]
    subject.delete(1, for_good=True)
    assert list(subject_schemas(connection, [subject.name]).texts) == [ids[1]]


def test_versions_of_another_kind_than_the_readers_are_left_out(
    subject: Subject, proxy: HttpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apicurio keeps a subject to one kind; Confluent's registry lets it change where nothing has to be compatible."""
    _, avro = subject.register(FIRST), subject.register(SECOND)
    alter(proxy, monkeypatch, "/versions/1?deleted=true", b'"version":1,', b'"version":1,"schemaType":"JSON",')
    assert list(subject_schemas({"url": f"{proxy.url}{API}"}, [subject.name]).texts) == [avro]


def test_a_json_schema_is_given_as_it_is(connection: dict[str, str], subject: Subject) -> None:
    text = '{"type": "object",  "properties": {"id": {"type": "integer"}}}'
    known = subject.register(text, "JSON")
    found = subject_schemas(connection, [subject.name])
    assert (found.kind, found.text, found.texts) == ("JSON", text, {known: text})


def test_protobuf_is_refused_by_name(connection: dict[str, str], subject: Subject) -> None:
    subject.register('syntax = "proto3"; message Order { int64 id = 1; }', "PROTOBUF")
    problem = problem_of(connection, subject.name)
    assert f"{subject.name!r}" in problem
    assert "is of type PROTOBUF: use a job of your own" in problem


# ── references ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_schema_refers_to_is_in_its_text_and_its_deleted_versions_too(
    connection: dict[str, str], new_subject: Callable[[], Subject]
) -> None:
    money, price, orders = new_subject(), new_subject(), new_subject()
    cents = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
    priced = {"type": "record", "name": "Price", "namespace": "shop", "fields": [{"name": "net", "type": "Money"}]}
    money.register(cents)
    price.register(priced, "AVRO", money.reference("shop.Money", 1))
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "price", "type": "shop.Price"}, {"name": "tax", "type": ["null", "shop.Money"]}],
    }
    both = [price.reference("shop.Price", 1), money.reference("shop.Money", 1)]
    known = orders.register(schema, "AVRO", *both)
    orders.register({**schema, "fields": schema["fields"][:1]}, "AVRO", *both[:1])
    orders.delete(1)
    of_price, of_tax = json.loads(subject_schemas(connection, [orders.name]).texts[known])["fields"]
    assert of_price["type"] == {**priced, "fields": [{"name": "net", "type": cents}]}
    assert of_tax["type"] == ["null", "shop.Money"]


def test_a_text_that_is_no_avro_schema_is_named_with_its_version(
    subject: Subject, proxy: HttpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apicurio takes none; another registry, or a mode of it, may."""
    subject.register(FIRST)
    alter(proxy, monkeypatch, "/versions/1?deleted=true", b'\\"long\\"', b'\\"lang\\"')
    error = unavailable({"url": f"{proxy.url}{API}"}, subject.name)
    assert "has a version 1 that is no Avro schema: it names the type 'lang'" in error.message
    assert not error.retriable


# ── what is not there, and who may not ────────────────────────────────────────────────────────────────────────────────


def test_a_subject_that_is_not_there_is_named_with_what_to_do(connection: dict[str, str], subject: Subject) -> None:
    problem = problem_of(connection, subject.name)
    assert problem.startswith(f"Subject {subject.name!r} in the schema registry at {connection['url']} is not there")
    assert "name the subject of the records (by default their topic with -value or -key)" in problem


def test_a_version_that_is_not_there_is_named_beside_those_that_are(
    connection: dict[str, str], subject: Subject
) -> None:
    for schema in (FIRST, SECOND):
        subject.register(schema)
    problem = problem_of(connection, subject.name, version=3)
    assert problem.startswith(f"Subject {subject.name!r}")
    assert problem.endswith("has no version 3: use one of 1, 2, or leave it out.")


def test_a_subject_whose_versions_are_all_deleted_has_no_newest(connection: dict[str, str], subject: Subject) -> None:
    subject.register(FIRST)
    subject.client.delete_subject(subject.name)
    assert problem_of(connection, subject.name).endswith(
        "has deleted versions alone: register one, or name another subject."
    )


def test_a_deleted_subject_beside_the_readers_is_an_error_and_no_missing_ids(
    connection: dict[str, str], new_subject: Callable[[], Subject]
) -> None:
    """Apicurio still lists its versions, and does not give them."""
    orders, refunds = new_subject(), new_subject()
    orders.register(FIRST)
    refunds.register(SECOND)
    refunds.client.delete_subject(refunds.name)
    with pytest.raises(
        RegistryUnavailable, match=f"{refunds.name}.*40401.*\nTry again; then restore that subject, or leave it out"
    ):
        subject_schemas(connection, [orders.name, refunds.name])


def test_a_login_is_sent_and_is_in_no_message(subject: Subject, proxy: HttpProxy) -> None:
    known = subject.register(FIRST)
    proxy.authorization = f"Basic {b64encode(f'etl:{SECRET}'.encode()).decode()}"
    url = f"{proxy.url}{API}"
    found = subject_schemas({"url": url, "basic.auth.user.info": f"etl:{SECRET}"}, [subject.name])
    assert found.schema_id == known
    for login in ({}, {"basic.auth.user.info": f"etl:{SECRET}?"}, BEARER):
        error = unavailable({"url": url, **login}, subject.name)
        assert error.message.startswith(f"Not allowed to list the versions of subject {subject.name!r}")
        assert error.message.endswith("\nCheck the login and password of its connection, or the token in its extra.")
        assert not error.retriable


def test_a_token_is_sent_and_is_in_no_message(subject: Subject, proxy: HttpProxy) -> None:
    known = subject.register(FIRST)
    proxy.authorization = f"Bearer {TOKEN}"
    url = f"{proxy.url}{API}"
    assert subject_schemas({"url": url, **BEARER}, [subject.name]).schema_id == known
    assert "401" in unavailable({"url": url, **BEARER, "bearer.auth.token": f"{TOKEN}?"}, subject.name).message
    broken = unavailable({"url": url, **BEARER, "bearer.auth.token": f"a {TOKEN}\n{TOKEN}"}, subject.name)
    assert "Illegal header value" in broken.message


def test_a_right_that_is_missing_is_no_missing_subject(subject: Subject, proxy: HttpProxy) -> None:
    subject.register(FIRST)
    proxy.faults, proxy.meant = [403], lambda method, path: path.endswith("/versions/1?deleted=true")
    error = unavailable({"url": f"{proxy.url}{API}"}, subject.name)
    assert error.message.startswith(f"Not allowed to read the schemas of subject {subject.name!r}")
    assert error.message.endswith("\nGive the login of its connection, or its token, the right to read that subject.")


def test_tls_needs_the_authority_that_has_signed(
    subject: Subject, schema_registry: RegistryServer, authority: Authority
) -> None:
    known = subject.register(FIRST)
    with HttpProxy(schema_registry.endpoint, certificate=authority.sign("registry").both) as proxy:
        url = f"{proxy.url}{API}"
        assert subject_schemas({"url": url, "ssl.ca.location": str(authority.ca)}, [subject.name]).schema_id == known
        error = unavailable({"url": url}, subject.name)
    assert "CERTIFICATE_VERIFY_FAILED" in error.message
    assert "ssl.*" in error.remedy


def test_a_clients_certificate_is_shown_where_it_is_asked_for(
    subject: Subject, schema_registry: RegistryServer, authority: Authority
) -> None:
    known = subject.register(FIRST)
    own, server = authority.sign("etl"), authority.sign("registry").both
    with HttpProxy(schema_registry.endpoint, certificate=server, clients=authority.ca) as proxy:
        connection = {"url": f"{proxy.url}{API}", "ssl.ca.location": str(authority.ca)}
        files = {"ssl.certificate.location": str(own.certificate), "ssl.key.location": str(own.key)}
        assert subject_schemas({**connection, **files}, [subject.name]).schema_id == known
        unavailable(connection, subject.name)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ssl.ca.location": "/not/there.pem"},
        {"ssl.key.location": "/not/there.pem"},
        {"url": "ftp://registry"},
        {"basic.auth.user.info": SECRET},
    ],
)
def test_settings_that_the_client_does_not_take_are_a_wrong_request(wrong: dict[str, str]) -> None:
    problem = problem_of({"url": "http://127.0.0.1:1", **wrong}, "orders-value")
    assert problem.endswith("Check the address in its connection, and the files that its ssl.* settings name.")
    assert SECRET not in problem


# ── no answer ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def timed(connection: dict[str, str], timeout_s: float = 15.0) -> tuple[RegistryUnavailable, float]:
    start = time.monotonic()
    error = unavailable(connection, "orders-value", timeout_s)
    assert error.retriable
    return error, time.monotonic() - start


def test_where_nobody_listens_it_is_said_at_once() -> None:
    error, took_s = timed({"url": f"http://127.0.0.1:{free_ports(1)[0]}", "basic.auth.user.info": f"etl:{SECRET}"})
    assert "refused" in error.message
    assert took_s < 5


def test_a_name_that_does_not_exist_is_said_within_the_deadline() -> None:
    _, took_s = timed({"url": "http://registry.invalid:8081"})
    assert took_s < 15.5


def test_a_server_that_accepts_and_never_answers_is_left_before_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error, took_s = timed({"url": f"http://127.0.0.1:{silent.getsockname()[1]}"}, timeout_s=3)
    assert "timed out" in error.message.lower()
    assert took_s < 5


def test_an_answer_that_trickles_is_left_at_the_deadline(subject: Subject, proxy: HttpProxy) -> None:
    """Each request has its answer in time, and all together have not."""
    for number in range(20):
        subject.register(order((f"note{number}", ("string", ""))))
    proxy.delay_s = 0.5
    start = time.monotonic()
    error = unavailable({"url": f"{proxy.url}{API}"}, subject.name, timeout_s=1.8)
    assert time.monotonic() - start < 5
    assert "no answer within 1.8 s" in error.message


def test_a_server_that_is_busy_once_is_asked_again(subject: Subject, proxy: HttpProxy) -> None:
    known = subject.register(FIRST)
    proxy.faults = [503]
    assert subject_schemas({"url": f"{proxy.url}{API}"}, [subject.name]).schema_id == known
    assert proxy.done == [503]


def test_a_server_that_stays_busy_may_be_asked_later(subject: Subject, proxy: HttpProxy) -> None:
    proxy.faults = [503, 503]
    error = unavailable({"url": f"{proxy.url}{API}"}, subject.name)
    assert "503" in error.message
    assert error.retriable


@pytest.mark.parametrize("path", ["", "/apis/ccompat", "/health"])
def test_an_address_that_leads_to_no_registry_says_so(schema_registry: RegistryServer, path: str) -> None:
    error = unavailable({"url": f"{schema_registry.endpoint}{path}"}, "orders-value")
    assert "Check the address and its path" in error.remedy
    assert not error.retriable


def test_without_its_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(RegistryUnavailable, match=r"pip install 'airflow-kafka-offsets\[schemaregistry\]'"):
        subject_schemas({"url": "http://registry:8081"}, ["orders-value"])


def test_requests_are_no_lines_of_a_tasks_log(
    connection: dict[str, str], subject: Subject, caplog: pytest.LogCaptureFixture
) -> None:
    subject.register(FIRST)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        subject_schemas({**connection, "basic.auth.user.info": f"etl:{SECRET}"}, [subject.name])
    assert caplog.records == []
