"""A checkpoint location in an object store where something is wrong: network, server, bucket, credentials, a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.store.open import open_store
from airflow_kafka_offsets.store.protocol import Store
from testbed.http_proxy import HttpProxy
from testbed.ports import free_ports
from testbed.s3_server import SECRET, environment_of
from tests.store.kinds import BUCKET, S3, SERVED, Kind, Place, s3_options, server_of, versitygw

pytestmark = pytest.mark.starts_processes
VERBS: dict[str, Callable[[Store], object]] = {
    "write": lambda store: store.create("a/1.json", b"x"),
    "read": lambda store: store.get("a/1.json"),
    "list": lambda store: store.list("a"),
    "remove": lambda store: store.delete("a/1.json"),
}
SOON: dict[str, Any] = {"max_retries": 2, "retry_timeout": timedelta(seconds=3)}


@pytest.fixture(params=SERVED)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
def faulty(kind: Kind) -> Iterator[HttpProxy]:
    with HttpProxy(server_of(kind.server).endpoint) as proxy:
        yield proxy


@pytest.fixture
def store(kind: Kind, faulty: HttpProxy, tmp_path: Path) -> Store:
    """Through the proxy."""
    return kind.through(faulty.url, tmp_path).open()


def verb_of(method: str, path: str) -> str:
    """Which verb of the store a request is a part of, on whichever server."""
    if method == "DELETE" or (method == "POST" and ("delete" in path or "comp=batch" in path)):
        return "remove"
    if method == "GET":
        return "list" if any(mark in path for mark in ("list-type=", "comp=list", "/o?")) else "read"
    return "write"


@pytest.mark.parametrize("fault", [429, 500, 503, "cut before", "reset"], ids=str)
@pytest.mark.parametrize("verb", VERBS)
def test_what_passes_in_a_moment_is_asked_again(faulty: HttpProxy, store: Store, fault: int | str, verb: str) -> None:
    faulty.meant = lambda method, path: verb_of(method, path) == verb
    faulty.faults = [fault]
    assert [call(store) for call in VERBS.values()] == [True, b"x", ["1.json"], None]
    assert faulty.done == [fault]


def test_a_create_whose_answer_was_lost_has_won(faulty: HttpProxy, store: Store) -> None:
    """The request arrived. Asked again, the server says that the object exists: it is this writer's own."""
    faulty.faults = ["cut after"]
    assert store.create("1.json", b"mine")
    assert faulty.done == ["cut after"]
    faulty.faults = ["cut after"]
    assert store.create("1.json", b"somebody else's") is False
    assert store.get("1.json") == b"mine"


def test_a_conflict_that_leaves_no_object_is_tried_again(faulty: HttpProxy, store: Store) -> None:
    """S3 answers 409 to one of two writes at one moment, or to both."""
    faulty.faults, faulty.meant = [409], lambda method, path: verb_of(method, path) == "write"
    assert store.create("1.json", b"mine")
    assert store.get("1.json") == b"mine"
    faulty.faults = [409]
    assert store.create("1.json", b"somebody else's") is False


def test_a_store_that_contradicts_itself_is_unavailable(faulty: HttpProxy, kind: Kind, tmp_path: Path) -> None:
    faulty.faults, faulty.meant = [409] * 1000, lambda method, path: verb_of(method, path) == "write"
    store = kind.through(faulty.url, tmp_path, retry_config=SOON).open()
    with pytest.raises(StoreUnavailable, match="Cannot write 1") as refused:
        store.create("1.json", b"x")
    assert refused.value.retriable


@pytest.mark.clouds
def test_a_store_that_ignores_the_condition_is_refused(tmp_path: Path) -> None:
    """Of two writers both would win there: two runs would plan the same batch."""
    store = Kind("without", partial(versitygw, False), "s3://{}", s3_options).place(tmp_path).open()
    with pytest.raises(StoreUnavailable, match="ignores the header If-None-Match") as refused:
        store.create("a/1.json", b"x")
    assert not refused.value.retriable


@pytest.mark.parametrize("fault", [503, "reset"], ids=str)
@pytest.mark.parametrize("verb", VERBS)
def test_a_store_that_stays_away_is_unavailable_and_may_come_back(
    faulty: HttpProxy, kind: Kind, tmp_path: Path, fault: int | str, verb: str
) -> None:
    faulty.faults = [fault] * 1000
    place = kind.through(faulty.url, tmp_path, retry_config=SOON)
    with pytest.raises(StoreUnavailable, match=f"Cannot {verb} .* in the checkpoint location {place.uri}") as refused:
        VERBS[verb](place.open())
    assert refused.value.retriable
    assert "Debug source" not in str(refused.value)
    assert len(faulty.done) <= 4, "it is asked again by obstore, or by the store, and never by both"
    faulty.disarm()
    VERBS[verb](place.open())


def test_a_request_that_is_never_answered_ends(faulty: HttpProxy, kind: Kind, tmp_path: Path) -> None:
    store = kind.through(faulty.url, tmp_path, retry_config=SOON, client_options={"timeout": "500ms"}).open()
    assert store.create("a/1.json", b"x")
    faulty.faults = ["hang"]
    assert store.get("a/1.json") == b"x", "a read is asked again"
    faulty.faults, began = ["hang"] * 1000, time.monotonic()
    with pytest.raises(StoreUnavailable) as refused:
        store.create("a/2.json", b"x")
    assert refused.value.retriable
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("verb", VERBS)
def test_a_missing_bucket_is_named_and_none_is_made(kind: Kind, tmp_path: Path, verb: str) -> None:
    """To read it as an empty store would plan batch 1 again."""
    for _ in range(2):
        store = kind.place(tmp_path, bucket="tpying-mistake").open()
        with pytest.raises(StoreUnavailable, match="container does not exist, and is not created") as said:
            VERBS[verb](store)
        assert not said.value.retriable
        assert "tpying-mistake" in said.value.what


def test_a_missing_folder_is_an_empty_one(kind: Kind, tmp_path: Path) -> None:
    store = kind.place(tmp_path).open()
    assert (store.get("a/b"), store.list(""), store.list("a/b"), store.delete("a/b")) == (None, [], [], None)


@pytest.mark.parametrize("verb", VERBS)
def test_a_missing_right_is_final_and_says_what_the_store_said(faulty: HttpProxy, store: Store, verb: str) -> None:
    VERBS["write"](store)
    faulty.faults = [403] * 1000
    with pytest.raises(StoreUnavailable, match=f"Cannot {verb} .*403 Forbidden") as refused:
        VERBS[verb](store)
    assert not refused.value.retriable


def messages(place: Place) -> str:
    """What is said to somebody who tries every verb."""
    said = []
    for verb in VERBS.values():
        try:
            verb(place.open())
        except StoreUnavailable as error:
            said.append(f"{error!r} {error} {error.__cause__} {error.__context__}")
    return "\n".join(said)


def test_no_secret_is_in_a_message(kind: Kind, tmp_path: Path) -> None:
    """Of a store that refuses, of one that nobody serves, and of credentials that cannot be read."""
    (port,) = free_ports(1)
    closed, secret = f"http://127.0.0.1:{port}", "aGlkZGVuLWhpZGRlbi1oaWRkZW4="
    wrong: dict[str, list[dict[str, Any]]] = {
        "s3": [{"secret_access_key": secret}],
        "gs": [{"service_account_key": f'{{"private_key": "{secret}"'}],
        "ab": [{"account_key": secret}, {"account_key": f"?{secret}"}, {"sas_key": f"sv=2021-12-02&sig={secret}"}],
    }
    for options in wrong[kind.uri[:2]]:
        nobody = kind.through(closed, tmp_path, retry_config=SOON, **options)
        refusing = kind.place(tmp_path, **options)
        if "sas_key" in options:
            del nobody.options["account_key"], refusing.options["account_key"]
        assert messages(nobody)
        assert secret not in messages(nobody) + messages(refusing)


FORK = """
import os, sys
from tests.store.kinds import Place, s3_options
store = Place(sys.argv[1], s3_options(sys.argv[2])).open()
if sys.argv[3] == "used":
    store.create("a/1.json", b"x")
child = os.fork()
if not child:
    try:
        store.create("a/2.json", b"y")
        print("created", flush=True)
    except Exception as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(store.list("a"))
"""


@pytest.mark.parametrize(
    ("state", "said"),
    [("used", "this process was forked after its parent had used a checkpoint location"), ("unused", "created")],
)
def test_a_forked_child_is_refused_instead_of_hanging(tmp_path: Path, state: str, said: str) -> None:
    """developmentseed/obstore#441: the child's first request would hang, and the parent's next one as well."""
    arguments = [S3.uri.format(BUCKET) + f"/{tmp_path.name}", server_of(S3.server).endpoint, state]
    done = subprocess.run([sys.executable, "-c", FORK, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert ("['1.json']" if state == "used" else "['2.json']") in done.stdout


def test_the_environments_credentials_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    seen = []

    class Listening(HttpProxy):
        def send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
            seen.append({name.lower(): value for name, value in headers.items()}["authorization"])
            return super().send(method, path, headers, body)

    with Listening(server_of(S3.server).endpoint) as proxy:
        for name, value in environment_of(proxy.url).items():
            monkeypatch.setenv(name, value)
        store = open_store(f"s3://{BUCKET}/{tmp_path.name}")
        assert store.create("a/1.json", b"x")
    assert (store.uri, store.is_remote) == (store.driver_uri, True)
    assert "Credential=testbed/" in seen[0]
    assert SECRET not in repr(vars(store))
