"""The work store in a local folder: what the file system can do to it, and what is said then."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.stores.open import open_store
from tests.stores import processes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(root)


# ── what is on the disk ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_object_is_a_file_of_its_name_and_nothing_is_left_beside_it(store: LocalStore, root: Path) -> None:
    """A person finds with ``ls`` and ``cat`` what each run did."""
    store.create("pipelines/p/1.json", b"one")
    store.create("pipelines/p/1.json", b"two")
    assert [(str(path.relative_to(root)), path.read_bytes()) for path in root.rglob("*") if path.is_file()] == [
        ("pipelines/p/1.json", b"one")
    ]


def test_only_a_write_makes_the_folder(store: LocalStore, root: Path) -> None:
    """To ask a store that was mistyped must not bring it into being."""
    assert (store.get("a/1.json"), store.list(""), store.list("a")) == (None, [], [])
    store.delete("a/1.json")
    assert not root.exists()


def test_the_last_delete_leaves_the_stores_own_folder(store: LocalStore, root: Path) -> None:
    store.create("a/b/1.json", b"x")
    store.delete("a/b/1.json")
    assert list(root.iterdir()) == []


def test_a_folder_with_somebodys_file_stays(store: LocalStore, root: Path) -> None:
    store.create("a/1.json", b"x")
    (root / "a" / "notes.txt").write_text("mine")
    store.delete("a/1.json")
    assert store.list("a") == ["notes.txt"]


# ── a process that dies, a disk that is full ──────────────────────────────────────────────────────────────────────────


@pytest.mark.starts_processes
def test_a_process_that_is_killed_while_it_writes_leaves_no_object_and_no_name_taken(
    store: LocalStore, root: Path
) -> None:
    process = processes.start(processes.die_at_the_51st_byte, str(root))
    process.join(processes.TIMEOUT_S)
    assert process.exitcode == -signal.SIGXFSZ
    assert [path.stat().st_size for path in (root / "folder").iterdir()] == [50], "it was cut off in the middle"
    assert (store.get("folder/1.json"), store.list("folder")) == (None, [])
    assert store.create("folder/1.json", b"whole")
    assert (store.get("folder/1.json"), store.list("folder")) == (b"whole", ["1.json"])


@pytest.mark.starts_processes
def test_where_an_object_does_not_fit_nothing_of_it_is_left_and_time_may_heal_it(root: Path) -> None:
    answers = processes.CONTEXT.SimpleQueue()
    process = processes.start(processes.write_with_no_room, str(root), answers)
    error = pickle.loads(answers.get())
    process.join(processes.TIMEOUT_S)
    assert error.message.startswith(f"Cannot write folder/1.json in the work store {root}: OSError")
    assert error.retriable
    assert list((root / "folder").iterdir()) == []


# ── something else in the way ─────────────────────────────────────────────────────────────────────────────────────────

EVERY_VERB: dict[str, Callable[[LocalStore], object]] = {
    "write": lambda store: store.create("folder/1.json", b"x"),
    "read": lambda store: store.get("folder/1.json"),
    "list": lambda store: store.list("folder"),
    "remove": lambda store: store.delete("folder/1.json"),
}


@pytest.mark.parametrize("verb", EVERY_VERB)
@pytest.mark.parametrize("where", [".", "folder"], ids=["the store is a file", "the folder is a file"])
def test_a_file_where_a_folder_should_be_is_said_and_is_nobody_who_was_faster(
    store: LocalStore, root: Path, verb: str, where: str
) -> None:
    (root / where).parent.mkdir(exist_ok=True, parents=True)
    if where == "folder":
        root.mkdir(exist_ok=True)
    (root / where).write_text("not a folder")
    with pytest.raises(StoreUnavailable, match=f"Cannot {verb} folder") as refused:
        EVERY_VERB[verb](store)
    assert "NotADirectoryError" in refused.value.reason
    assert str(root) in refused.value.what


def test_a_file_further_up_is_said_too(store: LocalStore, root: Path) -> None:
    root.mkdir()
    (root / "a").write_text("not a folder")
    with pytest.raises(StoreUnavailable, match=r"Cannot write a/b/c/1\.json"):
        store.create("a/b/c/1.json", b"x")


@pytest.mark.parametrize("verb", ["read", "remove"])
def test_a_folder_where_an_object_should_be_is_said(store: LocalStore, root: Path, verb: str) -> None:
    (root / "folder" / "1.json").mkdir(parents=True)
    with pytest.raises(StoreUnavailable, match=rf"Cannot {verb} folder/1\.json"):
        EVERY_VERB[verb](store)


def test_a_folder_where_an_object_should_be_is_a_name_that_is_taken(store: LocalStore, root: Path) -> None:
    (root / "folder" / "1.json").mkdir(parents=True)
    assert store.create("folder/1.json", b"x") is False


def test_a_store_on_a_disk_that_is_not_mounted_to_be_written_is_said(tmp_path: Path) -> None:
    """``/proc`` takes no files, from nobody."""
    with pytest.raises(StoreUnavailable, match=r"Cannot write a/1\.json in the work store /proc/nothing"):
        LocalStore(Path("/proc/nothing-here")).create("a/1.json", b"x")


# ── addresses ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("address", ["{}", "file://{}", "{}/"], ids=["a path", "a URI", "a slash at its end"])
def test_one_folder_in_every_spelling_is_one_store(root: Path, address: str) -> None:
    open_store(str(root)).create("a/1.json", b"x")
    assert open_store(address.format(root)).get("a/1.json") == b"x"
    assert open_store(address.format(root)).uri == address.format(root), "it is called what people call it"


def test_a_path_may_begin_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    open_store("~/store").create("a/1.json", b"x")
    assert (tmp_path / "store" / "a" / "1.json").exists()


@pytest.mark.parametrize(
    "uri",
    [
        "nosuchkind://bucket",
        "dbfs:/mnt/store",
        "abfss:container@account/path",
        "C:\\store",
        "file://host/store",
        "file:/store",
        "file://store",
    ],
)
def test_what_would_become_a_folder_of_that_name_is_refused(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that every machine makes for itself: each worker would have a log of its own."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidRequest, match="cannot be used: give a folder's path") as refused:
        open_store(uri)
    assert uri in str(refused.value)
    assert os.listdir(tmp_path) == []
