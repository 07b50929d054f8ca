"""A local folder: what the file system can do to it, and what is said then."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.store.local import LocalStore
from airflow_kafka_offsets.store.open import open_store
from tests.store import processes

VERBS: dict[str, Callable[[LocalStore], object]] = {
    "write": lambda store: store.create("folder/1.json", b"x"),
    "read": lambda store: store.get("folder/1.json"),
    "list": lambda store: store.list("folder"),
    "remove": lambda store: store.delete("folder/1.json"),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(root)


def test_an_object_is_a_file_of_its_name_and_nothing_is_left_beside_it(store: LocalStore, root: Path) -> None:
    store.create("orders/batches/1.json", b"one")
    store.create("orders/batches/1.json", b"two")
    assert [(str(path.relative_to(root)), path.read_bytes()) for path in root.rglob("*") if path.is_file()] == [
        ("orders/batches/1.json", b"one")
    ]


@pytest.mark.parametrize("address", ["{}", "file://{}", "{}/"])
def test_one_folder_in_every_spelling_is_one_store(root: Path, address: str) -> None:
    open_store(str(root)).create("a/1.json", b"x")
    assert open_store(address.format(root)).get("a/1.json") == b"x"
    assert open_store(address.format(root)).uri == address.format(root), "messages name it as it was given"


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_that_does_not_exist_is_no_empty_one(tmp_path: Path, verb: str) -> None:
    """The disk may not be mounted on this machine: its pipelines would start from the beginning."""
    with pytest.raises(StoreUnavailable, match=f"mkdir -p {tmp_path}/lost"):
        VERBS[verb](LocalStore(tmp_path / "lost"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("link", ["folder", "folder/1.json"])
def test_a_link_that_leads_out_of_the_folder_is_not_followed(
    store: LocalStore, root: Path, tmp_path: Path, verb: str, link: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "1.json").write_bytes(b"theirs")
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(outside / "1.json" if link.endswith("json") else outside)
    if verb == "list" and link.endswith("json"):
        assert store.list("folder") == ["1.json"]
        return
    with pytest.raises(StoreUnavailable, match="a symbolic link leads out of the folder"):
        VERBS[verb](store)
    assert (outside / "1.json").read_bytes() == b"theirs"


def test_the_folder_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert LocalStore(tmp_path / "link").create("a/1.json", b"x")
    assert LocalStore(root).get("a/1.json") == b"x"


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_where_a_folder_should_be_is_an_error(store: LocalStore, root: Path, verb: str) -> None:
    (root / "folder").write_text("not a folder")
    with pytest.raises(StoreUnavailable, match=f"Cannot {verb} folder.*(NotADirectory|FileExists)Error") as refused:
        VERBS[verb](store)
    assert refused.value.retriable


@pytest.mark.parametrize("verb", ["write", "read", "remove"])
def test_a_folder_where_an_object_should_be_is_an_error(store: LocalStore, root: Path, verb: str) -> None:
    (root / "folder" / "1.json").mkdir(parents=True)
    with pytest.raises(StoreUnavailable, match=rf"Cannot {verb} folder/1\.json"):
        VERBS[verb](store)


def die_at_the_51st_byte(root: str) -> None:
    """Killed by the kernel in the middle of a write."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))
    open_store(root).create("folder/1.json", b"x" * 200)


@pytest.mark.starts_processes
def test_a_process_that_is_killed_while_it_writes_takes_no_name(store: LocalStore, root: Path) -> None:
    process = processes.start(die_at_the_51st_byte, str(root))
    process.join(processes.TIMEOUT_S)
    assert process.exitcode == -signal.SIGXFSZ
    assert [path.stat().st_size for path in (root / "folder").iterdir()] == [50], "it was cut off in the middle"
    assert (store.get("folder/1.json"), store.list("folder")) == (None, [])
    assert store.create("folder/1.json", b"whole")
    assert store.list("folder") == ["1.json"]


def test_what_does_not_fit_on_the_disk_leaves_nothing(store: LocalStore, root: Path) -> None:
    """The kernel refuses the 51st byte, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, before[1]))
    try:
        with pytest.raises(StoreUnavailable, match="File too large"):
            store.create("folder/1.json", b"x" * 200)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert list((root / "folder").iterdir()) == []
