"""A work store on S3 where the network, the server or the credentials are not what they should be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.stores.object_store import ObjectStore
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.store import Store
from testbed.http_proxy import HttpProxy
from testbed.ports import free_ports
from testbed.s3_server import KEY, SECRET
from tests.stores.kinds import BUCKET, s3_server


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def faulty() -> Iterator[HttpProxy]:
    with HttpProxy(s3_server().endpoint) as made:
        yield made


def through(endpoint: str, uri: str, deadline_s: float = 20, try_s: float = 10, **options: object) -> ObjectStore:
    """The store at ``uri``, as somebody sees it who reaches it by ``endpoint``."""
    import s3fs

    given = {"key": KEY, "secret": SECRET, "client_kwargs": {"region_name": "us-east-1"}, **options}
    system = s3fs.S3FileSystem(endpoint_url=endpoint, skip_instance_cache=True, **given)
    return ObjectStore(system, location_of(uri), deadline_s, try_s)


def verbs(store: Store) -> list[object]:
    return [store.create("a/1.json", b"x"), store.get("a/1.json"), store.list("a"), store.delete("a/1.json")]


@pytest.mark.parametrize("fault", [409, 429, 500, 503, "cut before"], ids=str)
@pytest.mark.parametrize("nth", range(4), ids=["create", "get", "list", "delete"])
def test_what_passes_in_a_moment_is_asked_again(faulty: HttpProxy, uri: str, fault: int | str, nth: int) -> None:
    method, listing = (("PUT", False), ("GET", False), ("GET", True), ("DELETE", False))[nth]
    faulty.meant = lambda asked, path: asked == method and ("list-type" in path) == listing
    faulty.faults = [fault]
    assert verbs(through(faulty.url, uri)) == [True, b"x", ["1.json"], None]
    assert faulty.done == [fault]


def test_a_request_that_is_never_answered_is_made_again(faulty: HttpProxy, uri: str) -> None:
    faulty.faults = ["hang"]
    assert verbs(through(faulty.url, uri, try_s=1)) == [True, b"x", ["1.json"], None]


def test_an_object_whose_answer_was_lost_is_created(faulty: HttpProxy, uri: str) -> None:
    """The request arrived. Asked again, the server says that there is one: it is its own."""
    faulty.meant = lambda method, path: method == "PUT"
    faulty.faults = ["cut after"]
    store = through(faulty.url, uri)
    assert store.create("1.json", b"mine")
    assert faulty.done == ["cut after"]
    assert store.create("1.json", b"somebody else's") is False
    assert store.get("1.json") == b"mine"


@pytest.mark.parametrize("fault", [503, "cut before"], ids=str)
def test_a_store_that_stays_away_is_unavailable_at_the_deadline(faulty: HttpProxy, uri: str, fault: int | str) -> None:
    faulty.faults = [fault] * 1000
    store = through(faulty.url, uri, deadline_s=3, config_kwargs={"retries": {"max_attempts": 0}})
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match=f"Cannot read a/1.json in the work store {uri}") as refused:
        store.get("a/1.json")
    assert refused.value.retriable
    assert time.monotonic() - began < 60


def test_nobody_listens_there(uri: str) -> None:
    (port,) = free_ports(1)
    store = through(f"http://127.0.0.1:{port}", uri, deadline_s=2, config_kwargs={"retries": {"max_attempts": 0}})
    with pytest.raises(StoreUnavailable, match=r"Cannot list batches .*\n?.*(connect|Connect)"):
        store.list("batches")


@pytest.mark.parametrize("verb", ["create", "get", "list", "delete"])
def test_a_bucket_that_is_not_there_is_named_and_none_is_made(verb: str) -> None:
    endpoint = s3_server().endpoint
    store = through(endpoint, "s3://tpying-mistake/kafka-offsets")
    with pytest.raises(StoreUnavailable, match="there is no bucket 'tpying-mistake'"):
        getattr(store, verb)(*(["a/1.json", b"x"] if verb == "create" else ["a/1.json"]))
    with pytest.raises(StoreUnavailable, match="there is no bucket"):  # and it was not made by that
        store.get("a/1.json")


def test_a_folder_that_is_not_there_is_empty(uri: str) -> None:
    store = through(s3_server().endpoint, uri)
    assert (store.list(""), store.list("a/b"), store.get("a/b"), store.delete("a/b")) == ([], [], None, None)


@pytest.mark.parametrize("status", [401, 403], ids=str)
def test_a_right_that_is_missing_is_said_at_once_and_shows_no_secret(faulty: HttpProxy, uri: str, status: int) -> None:
    faulty.faults = [status] * 10
    with pytest.raises(StoreUnavailable) as refused:
        through(faulty.url, uri).create("a/1.json", b"x")
    assert len(faulty.done) == 1
    assert "the right to read, write, list and remove objects below work-stores/" in str(refused.value)
    assert SECRET not in str(refused.value)


def test_credentials_that_are_missing_are_said(uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    endpoint = s3_server().endpoint
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "absent"))
    with pytest.raises(StoreUnavailable, match=r"NoCredentialsError.*\n?.*the credentials of this machine"):
        through(endpoint, uri, key=None, secret=None).get("a/1.json")


@pytest.mark.parametrize(
    ("uri", "root", "connection"),
    [
        ("s3://bucket/teams/a@b/x", "bucket/teams/a@b/x", None),
        ("s3://conn@bucket/x/", "bucket/x", "conn"),
        ("s3a://bucket", "bucket", None),
        ("gs://team@mail@bucket//x", "bucket/x", "team@mail"),
        ("abfs://conn@container/x", "container/x", "conn"),
        ("abfss://container@account.dfs.core.windows.net/x", "container/x", None),
    ],
)
def test_the_connection_is_in_the_authority_alone(uri: str, root: str, connection: str | None) -> None:
    found = location_of(uri)
    assert (found.uri, found.root, found.connection) == (uri, root, connection)


def test_azures_account_is_the_one_that_the_uri_names() -> None:
    assert location_of("abfss://container@account.dfs.core.windows.net/x").account == "account"
    assert location_of("abfs://conn@container/x").account is None


@pytest.mark.parametrize(
    "uri",
    [
        "s3://",
        "s3:///x",
        "s3://conn@/x",
        "s3://bucket/../x",
        "memory://x/y",
        "sftp://host/x",
        "hdfs://host/x",
        "http://h/x",
    ],
)
def test_what_has_no_proof_or_no_bucket_is_refused_by_name(uri: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        open_store(uri)
    assert f"The work store {uri} " in str(refused.value)


def test_a_connection_needs_airflow(uri: str) -> None:
    with pytest.raises(InvalidRequest, match="names the connection 'lake', and there is no Airflow here"):
        open_store("s3://lake@bucket/x")


def test_a_package_that_is_missing_is_named() -> None:
    with pytest.raises(StoreUnavailable, match=r"pip install 'airflow-kafka-offsets\[gcs\]'"):
        open_store("gs://bucket/x")
