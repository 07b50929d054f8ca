"""A work store on HDFS where something is wrong: lost answers, writers that die, name nodes that go, rights.

What every store does is in ``test_contract`` and ``test_object_store``.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.stores.object_store import ObjectStore
from airflow_kafka_offsets.stores.web_hdfs import WebHdfs
from testbed.hdfs_server import GROUP, HdfsServer
from testbed.http_proxy import HttpProxy
from testbed.java import Java
from testbed.topics import wait_for

pytestmark = pytest.mark.starts_processes
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def hdfs(java: Java) -> Iterator[HdfsServer]:
    with HdfsServer(java, name_nodes=2) as server:
        yield server


@pytest.fixture
def folder(hdfs: HdfsServer, tmp_path: Path) -> str:
    return f"{hdfs.folder}/{tmp_path.name}"


@pytest.fixture
def proxy(hdfs: HdfsServer) -> Iterator[HttpProxy]:
    with HttpProxy(hdfs.endpoint) as made:
        yield made


@pytest.fixture
def store(hdfs: HdfsServer, folder: str) -> ObjectStore:
    return opened(hdfs.addresses, folder)


def opened(name_nodes: list[str], folder: str, user: str = "airflow", deadline_s: float = 20) -> ObjectStore:
    location = location_of(f"webhdfs://{name_nodes[0]}{folder}")
    return ObjectStore(WebHdfs(name_nodes, user, location.root), location, deadline_s, try_s=10)


def through(proxy: HttpProxy, folder: str) -> ObjectStore:
    return opened([proxy.url.removeprefix("http://")], folder)


def asked(hdfs: HdfsServer, method: str, path: str, op: str, user: str = "airflow", **query: Any) -> requests.Response:
    """What HDFS itself answers."""
    found = requests.request(
        method, f"{hdfs.endpoint}/webhdfs/v1{path}", params={"op": op, "user.name": user, **query}, timeout=30
    )
    found.raise_for_status()
    return found


def names(hdfs: HdfsServer, folder: str) -> list[str]:
    """All that is there, hidden or not."""
    listed = asked(hdfs, "GET", folder, "LISTSTATUS").json()["FileStatuses"]["FileStatus"]
    return [status["pathSuffix"] for status in listed]


def half_written(hdfs: HdfsServer, path: str) -> None:
    """As by a process that dies in the middle."""

    def content() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    query = {"op": "CREATE", "user.name": "airflow", "noredirect": "true"}
    to = requests.put(f"{hdfs.endpoint}/webhdfs/v1{path}", params=query, timeout=30).json()["Location"]
    with pytest.raises(KeyboardInterrupt):
        requests.put(to, data=content(), timeout=30)


VERBS: dict[str, Callable[[ObjectStore], object]] = {
    "write": lambda store: store.create("a/2.json", b"x"),
    "read": lambda store: store.get("a/1.json"),
    "list": lambda store: store.list("a"),
    "remove": lambda store: store.delete("a/3.json"),
}


# ── RENAME decides ────────────────────────────────────────────────────────────────────────────────────────────────────


def is_rename(method: str, path: str) -> bool:
    return "op=RENAME" in path


def test_a_rename_whose_answer_was_lost_has_made_the_object(hdfs: HdfsServer, proxy: HttpProxy, folder: str) -> None:
    proxy.meant, proxy.faults = is_rename, ["cut after"]
    assert through(proxy, folder).create("1.json", b"mine")
    assert proxy.done == ["cut after"]
    assert through(proxy, folder).create("1.json", b"another's") is False
    assert through(proxy, folder).get("1.json") == b"mine"
    assert names(hdfs, folder) == ["1.json"], "no draft of either try"


def test_a_rename_that_did_not_arrive_while_another_won(
    hdfs: HdfsServer, proxy: HttpProxy, folder: str, store: ObjectStore
) -> None:
    def another_is_faster(method: str, path: str) -> bool:
        return is_rename(method, path) and store.create("1.json", b"another's")

    proxy.meant, proxy.faults = another_is_faster, ["cut before"]
    assert through(proxy, folder).create("1.json", b"mine") is False
    assert store.get("1.json") == b"another's"
    assert names(hdfs, folder) == ["1.json"]


def test_a_draft_that_somebody_removes_is_written_once_more(hdfs: HdfsServer, proxy: HttpProxy, folder: str) -> None:
    """A rename that finds none looks like a rename whose answer was lost: what is there tells."""
    removed = []

    def remove_it(method: str, path: str) -> bool:
        if is_rename(method, path) and not removed:
            removed.extend(names(hdfs, folder))
            asked(hdfs, "DELETE", f"{folder}/{removed[0]}", "DELETE")
        return False

    proxy.meant, proxy.faults = remove_it, ["never played"]
    assert through(proxy, folder).create("1.json", b"mine")
    assert len(removed) == 1
    assert names(hdfs, folder) == ["1.json"]


def test_a_server_that_takes_no_options_of_a_rename_is_not_believed(
    hdfs: HdfsServer, proxy: HttpProxy, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HttpFS answers 200, also where it has not renamed. Without the option, so does the name node."""
    forward = proxy._forward

    def without_options(request: Any, body: bytes) -> Any:
        request.path = request.path.replace("&renameoptions=NONE", "")
        return forward(request, body)

    monkeypatch.setattr(proxy, "_forward", without_options)
    store = through(proxy, folder)
    assert store.create("1.json", b"mine")
    assert store.create("1.json", b"another's") is False
    assert store.get("1.json") == b"mine"
    assert names(hdfs, folder) == ["1.json"]


# ── writers that die ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_writer_left_half_is_no_object_and_goes_with_the_last_of_its_folder(
    hdfs: HdfsServer, folder: str, store: ObjectStore
) -> None:
    store.create("a/1.json", b"x")
    half_written(hdfs, f"{folder}/a/.0123.draft")
    assert store.list("a") == ["1.json"]
    store.delete("a/1.json")
    assert names(hdfs, f"{folder}/a") == [".0123.draft"], "its writer may be at work"
    long_ago = asked(hdfs, "GET", f"{folder}/a/.0123.draft", "GETFILESTATUS").json()["FileStatus"]["modificationTime"]
    asked(hdfs, "PUT", f"{folder}/a/.0123.draft", "SETTIMES", modificationtime=long_ago - DAY_MS)
    store.delete("a/1.json")
    assert names(hdfs, folder) == []


def test_a_folder_with_somebodys_file_stays(hdfs: HdfsServer, folder: str, store: ObjectStore) -> None:
    store.create("a/1.json", b"x")
    store.create("a/notes.txt", b"mine")
    store.delete("a/1.json")
    assert store.list("a") == ["notes.txt"]


# ── rights ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_in_a_folder_of_their_group_airflow_and_spark_write_and_nobody_else(hdfs: HdfsServer, folder: str) -> None:
    """As docs/stores.md tells. The folders below take mode and group from the one above."""
    superuser = getpass.getuser()
    asked(hdfs, "PUT", folder, "MKDIRS", superuser)
    asked(hdfs, "PUT", folder, "SETOWNER", superuser, owner="airflow", group=GROUP)
    asked(hdfs, "PUT", folder, "SETPERMISSION", superuser, permission="770")
    airflow, spark, other = (opened(hdfs.addresses, folder, user) for user in ("airflow", "spark", "mallory"))
    assert airflow.create("a/b/1.json", b"plan")
    assert spark.get("a/b/1.json") == b"plan"
    assert spark.create("a/b/2.json", b"report")
    assert airflow.get("a/b/2.json") == b"report"
    airflow.delete("a/b/2.json")
    for verb, ask in VERBS.items():
        with pytest.raises(StoreUnavailable, match=rf"Cannot {verb} .*\n?.*Permission denied: user=mallory") as refused:
            ask(other)
        assert not refused.value.retriable


# ── name nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def require_unavailable(name_nodes: list[str], folder: str, verb: str, why: str) -> None:
    with pytest.raises(StoreUnavailable, match=rf"Cannot {verb} a.*\n?.*({why})") as refused:
        VERBS[verb](opened(name_nodes, folder, deadline_s=1))
    assert refused.value.retriable


def test_a_name_node_that_writes_nothing_yet_is_waited_for(hdfs: HdfsServer, folder: str, store: ObjectStore) -> None:
    store.create("a/1.json", b"x")
    hdfs.safe_mode(True)
    try:
        require_unavailable(hdfs.addresses, folder, "write", "SafeModeException")
        assert store.get("a/1.json") == b"x"
    finally:
        hdfs.safe_mode(False)
    assert store.create("a/2.json", b"x")


def test_what_answers_and_is_no_web_hdfs_is_no_empty_store(proxy: HttpProxy, folder: str) -> None:
    """The name node's port for RPC, another server: a 404 of theirs must not read as a lost log."""
    proxy.faults = [404] * 100
    for verb, ask in VERBS.items():
        with pytest.raises(StoreUnavailable, match=rf"Cannot {verb} a.*\n?.*there is no WebHDFS") as refused:
            ask(through(proxy, folder))
        assert not refused.value.retriable


def test_a_name_node_that_goes_away_is_waited_for_and_another_takes_over(hdfs: HdfsServer, folder: str) -> None:
    first, second = hdfs.addresses
    store = opened([first, second], folder)
    assert store.create("a/1.json", b"x")
    for verb in VERBS:
        require_unavailable([second], folder, verb, "StandbyException|not supported in state standby")
    hdfs.give_over()
    assert (store.create("a/1.json", b"y"), store.get("a/1.json"), store.list("a")) == (False, b"x", ["1.json"])
    hdfs.stop_name_node(0)
    assert opened([first, second], folder).create("a/1.json", b"y") is False, "nobody listens at the first"
    hdfs.stop_name_node(1)
    for verb in VERBS:
        require_unavailable([first, second], folder, verb, "Connection refused")
    hdfs.start_name_node(1)
    wait_for("the second name node leaves its safe mode", lambda: store.create("a/2.json", b"x"))
    assert store.list("a") == ["1.json", "2.json"]
