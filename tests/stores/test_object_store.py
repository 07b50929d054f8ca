"""A work store on S3, Google Cloud Storage, Azure or HDFS where something is wrong: network, server, credentials."""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from fsspec.asyn import sync
from fsspec.registry import _registry as fsspecs_own

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.stores.file_systems import for_store
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.stores.object_store import ObjectStore
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.store import MOST_AT_ONCE, Store, list_below
from airflow_kafka_offsets.stores.web_hdfs import WebHdfs
from testbed.azure_server import ACCOUNT, connection_string
from testbed.azure_server import KEY as AZURE_KEY
from testbed.http_proxy import HttpProxy
from testbed.ports import free_ports
from testbed.s3_server import KEY as S3_KEY
from testbed.s3_server import SECRET as S3_SECRET
from tests.stores.kinds import AZURE, BUCKET, GCS, S3, SERVED, Kind

pytestmark = pytest.mark.starts_processes


@pytest.fixture(params=SERVED, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
def uri(kind: Kind, tmp_path: Path) -> str:
    return kind.uri(tmp_path)


@pytest.fixture
def faulty(kind: Kind) -> Iterator[HttpProxy]:
    with HttpProxy(kind.server().endpoint) as made:
        yield made


def through(endpoint: str, uri: str, deadline_s: float = 20, try_s: float = 10, **options: object) -> ObjectStore:
    """The store at ``uri``, as somebody sees it who reaches it by ``endpoint``."""
    location = location_of(uri)
    if location.kind == "webhdfs":
        system: Any = WebHdfs([endpoint.removeprefix("http://")], "airflow", location.root)
    else:
        system = for_store(location.kind, FILE_SYSTEMS[location.kind](endpoint, **options))
    return ObjectStore(system, location, deadline_s, try_s)


def _s3(endpoint: str, **options: object) -> Any:
    import s3fs

    given = {"key": S3_KEY, "secret": S3_SECRET, "client_kwargs": {"region_name": "us-east-1"}, **options}
    return s3fs.S3FileSystem(endpoint_url=endpoint, skip_instance_cache=True, **given)


def _gcs(endpoint: str) -> Any:
    import gcsfs

    return gcsfs.GCSFileSystem(endpoint_url=endpoint, token="anon", skip_instance_cache=True)


def _azure(endpoint: str, key: str = AZURE_KEY) -> Any:
    import adlfs

    return adlfs.AzureBlobFileSystem(connection_string=connection_string(endpoint, key), skip_instance_cache=True)


def asking_once(kind: Kind) -> dict[str, object]:
    """Options of a file system that makes no attempts of its own. S3's are few and soon, and are left to it."""
    return {"config_kwargs": {"retries": {"max_attempts": 0}}} if kind is S3 else {}


FILE_SYSTEMS: dict[str, Callable[..., Any]] = {"s3": _s3, "gs": _gcs, "abfs": _azure}


def verbs(store: Store) -> list[object]:
    return [store.create("a/1.json", b"x"), store.get("a/1.json"), store.list("a"), store.delete("a/1.json")]


def verb_of(method: str, path: str) -> str:
    """Which verb of the store this request is a part of, on whichever server."""
    if method == "GET":
        return "list" if any(mark in path for mark in ("list-type=", "comp=list", "/o?", "op=LISTSTATUS")) else "get"
    return "delete" if method == "DELETE" else "create"


@pytest.mark.parametrize("fault", [409, 429, 500, 503, "cut before"], ids=str)
@pytest.mark.parametrize("verb", ["create", "get", "list", "delete"])
def test_what_passes_in_a_moment_is_asked_again(faulty: HttpProxy, uri: str, fault: int | str, verb: str) -> None:
    faulty.meant = lambda method, path: verb_of(method, path) == verb
    faulty.faults = [fault]
    assert verbs(through(faulty.url, uri)) == [True, b"x", ["1.json"], None]
    assert faulty.done == [fault]


def test_a_request_that_is_never_answered_is_made_again(faulty: HttpProxy, uri: str) -> None:
    faulty.faults = ["hang"]
    assert verbs(through(faulty.url, uri, try_s=1)) == [True, b"x", ["1.json"], None]


def test_an_object_whose_answer_was_lost_is_created(faulty: HttpProxy, uri: str) -> None:
    """The request arrived. Asked again, the server says that there is one: it is its own."""
    faulty.meant = lambda method, path: verb_of(method, path) == "create"
    faulty.faults = ["cut after"]
    store = through(faulty.url, uri)
    assert store.create("1.json", b"mine")
    assert faulty.done == ["cut after"]
    assert store.create("1.json", b"somebody else's") is False
    assert store.get("1.json") == b"mine"


@pytest.mark.parametrize("fault", [503, "cut before"], ids=str)
def test_a_store_that_stays_away_is_unavailable_at_the_deadline(
    faulty: HttpProxy, kind: Kind, uri: str, fault: int | str
) -> None:
    faulty.faults = [fault] * 1000
    store = through(faulty.url, uri, deadline_s=3, **asking_once(kind))
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match=f"Cannot read a/1.json in the work store {uri}") as refused:
        store.get("a/1.json")
    assert refused.value.retriable
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("kind", [GCS, AZURE], ids=["gcs", "azure"], indirect=True)
def test_no_library_asks_again_behind_the_stores_back(faulty: HttpProxy, uri: str) -> None:
    """What it did not get in time would be all that is known, and its pauses are longer than a request may take."""
    faulty.faults = [503] * 1000
    with pytest.raises(StoreUnavailable) as refused:
        through(faulty.url, uri, deadline_s=0).get("a/1.json")
    assert len(faulty.done) == 1
    assert "Timeout" not in str(refused.value)


def test_nobody_listens_there(kind: Kind, uri: str) -> None:
    (port,) = free_ports(1)
    store = through(f"http://127.0.0.1:{port}", uri, deadline_s=2, **asking_once(kind))
    with pytest.raises(StoreUnavailable, match=r"Cannot list batches .*\n?.*(connect|Connect)"):
        store.list("batches")


@pytest.mark.parametrize("kind", [S3, GCS, AZURE], ids=["s3", "gcs", "azure"], indirect=True)
@pytest.mark.parametrize("verb", ["create", "get", "list", "delete"])
def test_a_bucket_that_is_not_there_is_named_and_none_is_made(kind: Kind, uri: str, verb: str) -> None:
    store = through(kind.server().endpoint, uri.replace(BUCKET, "tpying-mistake"))
    with pytest.raises(StoreUnavailable, match="there is no bucket 'tpying-mistake'"):
        getattr(store, verb)(*(["a/1.json", b"x"] if verb == "create" else ["a/1.json"]))
    with pytest.raises(StoreUnavailable, match="there is no bucket"):  # and it was not made by that
        store.get("a/1.json")


def test_a_folder_that_is_not_there_is_empty(kind: Kind, uri: str) -> None:
    store = through(kind.server().endpoint, uri)
    assert (store.list(""), store.list("a/b"), store.get("a/b"), store.delete("a/b")) == ([], [], None, None)


def test_folders_whose_names_begin_alike_are_not_looked_into(faulty: HttpProxy, uri: str) -> None:
    """A list is one request, or a few, however many pipelines there are."""
    store = through(faulty.url, uri)
    for number in range(10):
        store.create(f"a{number or ''}/1.json", b"x")
    faulty.seen.clear()
    assert store.list("a") == ["1.json"]
    assert len(faulty.seen) == 1


@pytest.mark.parametrize("kind", [S3], ids=["s3"], indirect=True)
@pytest.mark.parametrize(
    ("verb", "fault"),
    [*(("get", fault) for fault in (403, 404, 503, "hang")), ("list", 403), ("list", "cut after"), ("list", "half")],
)
def test_what_many_are_not_told_at_once_is_asked_as_always(
    faulty: HttpProxy, uri: str, verb: str, fault: int | str
) -> None:
    store = through(faulty.url, uri, deadline_s=6, try_s=4)
    names = [f"a/{number}/1.json" for number in range(5)]
    assert all(store.create(name, name.encode()) for name in names)
    faulty.meant = lambda method, path: verb_of(method, path) == verb
    faulty.faults = [fault]
    assert store.list_below("a") == names
    assert store.get_all(names) == [name.encode() for name in names]
    assert faulty.done == [fault]


@pytest.mark.parametrize("kind", [S3], ids=["s3"], indirect=True)
def test_a_listing_below_is_a_request_of_s3_and_so_is_each_of_many_objects(faulty: HttpProxy, uri: str) -> None:
    store = through(faulty.url, uri)
    names = [f"a/{number}/1.json" for number in range(9)]
    assert all(store.create(name, name.encode()) for name in names)
    faulty.seen.clear()
    assert store.get_all(store.list_below("a")) == [name.encode() for name in names]
    assert len(faulty.seen) == 10


def test_of_a_bucket_that_is_not_there_nothing_is_listed_below(kind: Kind) -> None:
    store = through(kind.server().endpoint, kind.uri(Path("x")).replace(BUCKET, "none"), deadline_s=2, try_s=1)
    with pytest.raises(StoreUnavailable):
        list_below(store, "a")
    with pytest.raises(StoreUnavailable):
        store.get_all(["a/1.json"])


@pytest.mark.parametrize("kind", [AZURE], ids=["azure"], indirect=True)
def test_azures_marks_of_folders_are_no_objects(kind: Kind, uri: str) -> None:
    """Hadoop's driver leaves one for each folder, by its name and without a ``/``."""
    store = through(kind.server().endpoint, uri)
    store.create("a/b/1.json", b"x")
    for folder in ("a/b", "a/empty"):
        name = f"{store._location.root.partition('/')[2]}/{folder}"
        client = store._fs.service_client.get_blob_client(BUCKET, name)
        sync(store._fs.loop, client.upload_blob, b"", metadata={"hdi_isfolder": "true"})
    assert store.list("a") == ["b/"]


@pytest.mark.parametrize("kind", [GCS], ids=["gcs"], indirect=True)
def test_googles_mark_of_a_folder_is_no_object(kind: Kind, uri: str) -> None:
    """Google's connector for Hadoop leaves one for a folder that it was asked to make."""
    store = through(kind.server().endpoint, uri)
    store.create("a/1.json", b"x")
    name = quote(f"{store._location.root.partition('/')[2]}/a/", safe="")
    to = f"{kind.server().endpoint}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={name}"
    with urlopen(Request(to, data=b"", method="POST"), timeout=30):
        pass
    assert store.list("a") == ["1.json"]
    assert store.list("") == ["a/"]


def test_an_object_that_is_deleted_while_it_is_looked_at_can_be_created(faulty: HttpProxy, uri: str) -> None:
    """The server says that there is one, and when it is read there is none."""
    other = through(faulty.target, uri)
    other.create("1.json", b"other's")

    def delete_it_first(method: str, path: str) -> bool:
        if verb_of(method, path) == "get":
            other.delete("1.json")
        return False

    faulty.meant, faulty.faults = delete_it_first, ["never played"]
    assert through(faulty.url, uri).create("1.json", b"mine")
    assert other.get("1.json") == b"mine"


@pytest.mark.parametrize("status", [401, 403], ids=str)
def test_a_right_that_is_missing_is_said_at_once_and_shows_no_secret(faulty: HttpProxy, uri: str, status: int) -> None:
    faulty.meant = lambda method, path: verb_of(method, path) == "create"
    faulty.faults = [status] * 10
    with pytest.raises(StoreUnavailable) as refused:
        through(faulty.url, uri).create("a/1.json", b"x")
    assert len(faulty.done) == 1
    assert "the right to read, write and list objects below" in str(refused.value)
    assert not [secret for secret in (S3_SECRET, AZURE_KEY) if secret in str(refused.value)]


@pytest.mark.parametrize("kind", [S3], ids=["s3"], indirect=True)
def test_credentials_that_are_missing_are_said(
    kind: Kind, uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "absent"))
    with pytest.raises(StoreUnavailable, match=r"NoCredentialsError.*\n?.*the credentials of this machine"):
        through(kind.server().endpoint, uri, key=None, secret=None).get("a/1.json")


@pytest.mark.parametrize("kind", [AZURE], ids=["azure"], indirect=True)
def test_azures_wrong_key_is_said_at_once_and_not_shown(kind: Kind, uri: str) -> None:
    """The one server here that checks who asks."""
    wrong = base64.b64encode(b"somebody else's").decode()
    with pytest.raises(StoreUnavailable, match=r"failed to authenticate.*\n?.*the credentials of this machine") as no:
        through(kind.server().endpoint, uri, key=wrong).get("a/1.json")
    assert wrong not in str(no.value)
    assert not no.value.retriable


def test_azures_account_has_to_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
    with pytest.raises(StoreUnavailable, match=r"Cannot open the work store abfs://c/x.*\n?.*account_name"):
        open_store("abfs://c/x")


def test_azures_driver_is_told_the_account_that_only_a_connection_string_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string("http://127.0.0.1:1"))
    assert open_store("abfs://c/x").driver_uri == f"abfss://c@{ACCOUNT}.dfs.core.windows.net/x"


@pytest.mark.parametrize(
    ("uri", "root", "connection"),
    [
        ("s3://bucket/teams/a@b/x", "bucket/teams/a@b/x", None),
        ("s3://conn@bucket/x/", "bucket/x", "conn"),
        ("s3a://bucket", "bucket", None),
        ("gs://team@mail@bucket//x", "bucket/x", "team@mail"),
        ("abfs://conn@container/x", "container/x", "conn"),
        ("abfss://container@account.dfs.core.windows.net/x", "container/x", None),
        ("hdfs://conn@nameservice/a@b/x", "nameservice/a@b/x", "conn"),
        ("hdfs://namenode:8020/x", "namenode:8020/x", None),
        ("webhdfs://conn@namenode:9870/x", "namenode:9870/x", "conn"),
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
        "swebhdfs://host/x",
        "http://h/x",
    ],
)
def test_what_has_no_proof_or_no_bucket_is_refused_by_name(uri: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        open_store(uri)
    assert f"work_store {uri} " in str(refused.value)


@pytest.mark.parametrize("uri", ["hdfs://nn:8020/x/y", "hdfs://conn@nn:8020/x/y"])
def test_where_web_hdfs_is_has_to_be_said(uri: str) -> None:
    with pytest.raises(InvalidRequest, match=r"hdfs://CONNECTION@nn:8020/x/y\. .*webhdfs://nn:9870/x/y"):
        open_store(uri)


def test_a_connection_needs_airflow() -> None:
    with pytest.raises(InvalidRequest, match="names the connection 'lake', and there is no Airflow here"):
        open_store("s3://lake@bucket/x")


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # to import it fails from here on, as where it is not installed
    monkeypatch.delitem(fsspecs_own, "gs", raising=False)  # and no test before has brought it here
    with pytest.raises(StoreUnavailable, match=r"pip install 'airflow-kafka-offsets\[gcs\]'"):
        open_store("gs://bucket/x")


def test_as_many_requests_to_s3_are_under_way_as_an_audit_asks_at_once() -> None:
    """aiobotocore's own limit is ten, which no number of threads changes. Who has set another one keeps it."""
    import s3fs

    for given, found in ({}, MOST_AT_ONCE), ({"max_pool_connections": 20}, 20):
        file_system = s3fs.S3FileSystem(key="k", secret="s", config_kwargs=given, skip_instance_cache=True)
        assert for_store("s3", file_system).config_kwargs["max_pool_connections"] == found
