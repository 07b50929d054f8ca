"""A local work store with other things in it: links, pipes, odd names, large files. No reader leaves its folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import StoreDamaged, StoreUnavailable
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, pipeline_ids
from airflow_kafka_offsets.stores import store as stores
from airflow_kafka_offsets.stores.local import LocalStore
from airflow_kafka_offsets.stores.objects import create_object, read_object
from tests.fuzz.strange import fuzzed, texts
from tests.stores.builders import begin, run

SECRET = b"of somebody else"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "1.json").write_bytes(SECRET)
    return folder


@pytest.fixture
def store(tmp_path: Path, outside: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    begin(PipelineLog(store, "p"), 1)
    (store.root / "linked").symlink_to(outside)
    (store.root / "circle").symlink_to(store.root / "circle")
    (store.root / "file.json").symlink_to(outside / "1.json")
    return store


VERBS: dict[str, Any] = {
    "create": lambda store, name: store.create(name, b"x"),
    "get": lambda store, name: store.get(name),
    "list": lambda store, name: store.list(name),
    "delete": lambda store, name: store.delete(name),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "name",
    ["../outside/1.json", "pipelines/../../outside/1.json", "/etc/passwd", "linked/1.json", "file.json", "circle/x",
     "pipelines//p", "./x", "..", "a\0b", "linked/new/1.json"],
)  # fmt: skip
def test_no_verb_leaves_the_folder(store: LocalStore, outside: Path, verb: str, name: str) -> None:
    with pytest.raises(StoreUnavailable) as refused:
        VERBS[verb](store, name)
    assert SECRET.decode() not in str(refused.value)
    assert [path.name for path in outside.iterdir()] == ["1.json"]


def test_the_folder_itself_may_be_a_link(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "other-name").symlink_to(store.root)
    assert pipeline_ids(LocalStore(tmp_path / "other-name")) == ["p"]


@fuzzed()
@given(st.sampled_from(sorted(VERBS)), texts | st.lists(texts, max_size=3).map("/".join))
def test_a_name_is_in_the_folder_or_refused(tmp_path_factory: pytest.TempPathFactory, verb: str, name: str) -> None:
    folder = tmp_path_factory.mktemp("names")
    store = LocalStore(folder / "store")
    with suppress(StoreUnavailable):
        VERBS[verb](store, name)
    assert [path.name for path in folder.iterdir()] in ([], ["store"])


def test_a_pipe_is_not_waited_for(store: LocalStore) -> None:
    os.mkfifo(store.root / "pipe.json")
    with pytest.raises(StoreUnavailable, match="it is no file"):
        store.get("pipe.json")


@pytest.mark.parametrize(
    "folder", ["../../../outside", "/etc", "batches", "batches/00000000/0000000001/..", "windows/x"]
)
def test_what_a_run_took_is_a_batch_of_its_own_pipeline(store: LocalStore, folder: str) -> None:
    log = PipelineLog(store, "p")
    create_object(store, log._run(run(1)), {"version": 1, "folder": folder, "key": None, "output": None})
    with pytest.raises(StoreDamaged, match="is not the folder of a batch"):
        log.batch_of_run(run(1))
    assert log.read(folder) is None


def test_a_folder_that_leads_to_another_name_is_no_pipeline(store: LocalStore) -> None:
    """Its batches would be looked for elsewhere, and be another pipeline's."""
    pipelines = store.root / "pipelines"
    for name in ("a b", "%70", "..%2F..%2Foutside%2D", "é", os.fsdecode(b"\xff"), "x%2Dx"):
        (pipelines / name).mkdir()
    copied = pipelines / "x%2Dx" / "batches" / "00000000" / "0000000001"
    copied.mkdir(parents=True)
    (copied / "1.json").write_bytes((pipelines / "p/batches/00000000/0000000001/1.json").read_bytes())
    assert pipeline_ids(store) == ["p"]


@pytest.mark.parametrize("name", ["٢.json", "02.json", "2.json.bak", "1e3.json", "2.JSON", "-2.json", ".2.json"])
def test_what_is_no_entry_beside_a_batchs_log_is_left_alone(store: LocalStore, name: str) -> None:
    newest = PipelineLog(store, "p").newest()
    assert newest is not None
    (store.root / newest.folder / name).write_bytes(b"of a person")
    assert PipelineLog(store, "p").newest() == newest


def test_an_object_that_is_too_large_is_neither_read_nor_written(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (store.root / "huge.json").open("wb") as file:
        file.truncate(2**40)  # no block of it is on the disk
    with pytest.raises(StoreDamaged, match="more than 67108864 bytes"):
        read_object(store, "huge.json", dict)
    monkeypatch.setattr(stores, "LARGEST_OBJECT", 100)
    with pytest.raises(StoreUnavailable, match="100 are the most"):
        create_object(store, "new.json", {"version": 1, "x": "x" * 100})
    assert not (store.root / "new.json").exists()
