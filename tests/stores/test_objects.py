"""Write-once objects on a real file system: what counts, who wins, and what is said when nothing can be written."""

import multiprocessing
import pickle
import resource
import string
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import Barrier as ThreadBarrier

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.stores.objects import WorkStore, decode, encode, open_work_store, safe_name

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
objects = st.dictionaries(st.text().filter(lambda name: name != "sha256"), json_values, min_size=1)


@pytest.fixture
def store(tmp_path: Path) -> WorkStore:
    return open_work_store(str(tmp_path / "store"))


# The digest


@given(objects)
def test_an_object_round_trips(value: dict[str, object]) -> None:
    assert decode(encode(value)) == value


@given(objects, st.data())
def test_an_object_that_is_cut_off_was_never_written(value: dict[str, object], data: st.DataObject) -> None:
    encoded = encode(value)
    length = data.draw(st.integers(0, len(encoded) - 1))
    assert decode(encoded[:length]) is None


@given(objects, st.data())
def test_an_object_of_which_a_byte_is_altered_is_ignored(value: dict[str, object], data: st.DataObject) -> None:
    encoded = bytearray(encode(value))
    position = data.draw(st.integers(0, len(encoded) - 1))
    encoded[position] ^= data.draw(st.integers(1, 255))
    assert decode(bytes(encoded)) is None


# Names


@given(st.text(), st.text())
@example("a" * 300, "a" * 301)
@example("", "%")
@example("a" * 300, safe_name("a" * 300))
@example(".", "%2E")
def test_different_texts_have_different_names(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) == (one == other)


def test_a_name_is_told_apart_from_the_text_that_it_was_cut_to() -> None:
    name = safe_name("a" * 300)
    assert safe_name(name) != name
    assert safe_name(name.replace("%2D", "-")) != name


@given(st.text())
def test_a_name_is_one_path_component_everywhere(text: str) -> None:
    name = safe_name(text)
    assert set(name) <= set(string.ascii_letters + string.digits + "%+=@,_.-~")
    assert 0 < len(name) <= 200
    assert name not in {".", ".."}


# Series


def test_a_series_is_numbered_in_the_order_of_writing(store: WorkStore) -> None:
    for value in "abc":
        store.append("folder", "item", {"value": value})
    assert [(o.number, o.value["value"]) for o in store.series("folder", "item")] == [(1, "a"), (2, "b"), (3, "c")]
    assert store.series("folder", "other") == []
    assert store.series("nowhere", "item") == []


def test_ten_comes_after_nine(store: WorkStore) -> None:
    for number in range(12):
        store.append("folder", "item", {"value": number})
    assert store.numbers("folder", "item") == list(range(1, 13))


def test_an_object_is_created_once(store: WorkStore) -> None:
    assert store.create("folder/item.1.json", {"value": 1})
    assert not store.create("folder/item.1.json", {"value": 2})
    assert store.read("folder/item.1.json") == {"value": 1}


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[:-1], id="cut off"),
        pytest.param(lambda data: data.replace(b"1", b"2", 1), id="altered"),
        pytest.param(lambda data: b"\xff" + data, id="no text"),
    ],
)
def test_a_damaged_object_does_not_count_and_keeps_its_number(
    store: WorkStore, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    first = store.append("folder", "item", {"value": 1})
    path = Path(store.uri) / first.name
    path.write_bytes(damage(path.read_bytes()))

    assert store.series("folder", "item") == []
    assert first.name in caplog.text
    assert store.numbers("folder", "item") == [1]
    assert store.first("folder", "item", {"value": 3}).number == 2
    assert store.append("folder", "item", {"value": 4}).number == 3
    assert [o.value["value"] for o in store.series("folder", "item")] == [3, 4]


# Races


def _first(uri: str, barrier: Barrier, results: "multiprocessing.SimpleQueue[object]", name: int) -> None:
    store = open_work_store(uri)
    barrier.wait()
    results.put(store.first("folder", "plan", {"by": name}).value["by"])


def test_of_many_processes_that_write_first_all_get_one_winner(store: WorkStore) -> None:
    context = multiprocessing.get_context("spawn")
    writers = 4
    barrier, results = context.Barrier(writers), context.SimpleQueue()
    processes = [
        context.Process(target=_first, args=(store.uri, barrier, results, number)) for number in range(writers)
    ]
    for process in processes:
        process.start()
    answers = {results.get() for _ in processes}
    for process in processes:
        process.join(30)
    assert len(answers) == 1
    assert [o.value["by"] for o in store.series("folder", "plan")] == list(answers)


@pytest.mark.parametrize("damaged", [False, True], ids=["", "after a half-written one"])
def test_of_many_threads_that_write_first_all_get_one_winner(store: WorkStore, damaged: bool) -> None:
    writers = 8
    with ThreadPoolExecutor(writers) as pool:
        for folder in map(str, range(30)):
            if damaged:
                (Path(store.uri) / folder).mkdir(parents=True)
                (Path(store.uri) / folder / "plan.1.json").write_bytes(b"{")
            barrier = ThreadBarrier(writers)

            def write(number: int, folder: str = folder, barrier: ThreadBarrier = barrier) -> object:
                barrier.wait()
                return store.first(folder, "plan", {"by": number}).value["by"]

            assert len(set(pool.map(write, range(writers)))) == 1
            assert len(store.series(folder, "plan")) == 1


def test_of_many_threads_that_append_each_has_a_number_of_its_own(store: WorkStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda n: store.append("folder", "item", {"n": n}).number, range(100)))
    assert sorted(numbers) == list(range(1, 101))
    assert len(store.series("folder", "item")) == 100


# What cannot be written or read


def _write_with_no_room(uri: str, results: "multiprocessing.SimpleQueue[object]") -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))
    try:
        open_work_store(uri).append("folder", "item", {"value": "x" * 200})
    except StoreUnavailable as error:
        results.put(pickle.dumps(error))
    else:
        results.put(None)


def test_where_an_object_does_not_fit_nothing_of_it_is_left(store: WorkStore) -> None:
    """The kernel refuses the 51st byte, as on a full disk."""
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    process = context.Process(target=_write_with_no_room, args=(store.uri, results))
    process.start()
    error = pickle.loads(results.get())
    process.join(30)
    assert store.uri in str(error)
    assert error.retriable
    assert list((Path(store.uri) / "folder").iterdir()) == []


def test_a_file_where_the_store_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = open_work_store(str(tmp_path / "file"))
    for use in (
        lambda: store.append("folder", "item", {"value": 1}),
        lambda: store.create("folder/item.1.json", {"value": 1}),
        lambda: store.first("folder", "item", {"value": 1}),
        lambda: store.read("folder/item.1.json"),
        lambda: store.series("folder", "item"),
    ):
        with pytest.raises(StoreUnavailable, match="file"):
            use()


def test_a_file_where_a_folder_should_be_is_not_taken_for_a_faster_writer(store: WorkStore) -> None:
    Path(store.uri).mkdir()
    (Path(store.uri) / "folder").write_text("not a folder")
    with pytest.raises(StoreUnavailable, match="Cannot write folder/item"):
        store.create("folder/item.1.json", {"value": 1})


def test_a_folder_where_an_object_should_be_is_named(store: WorkStore) -> None:
    (Path(store.uri) / "folder" / "item.1.json").mkdir(parents=True)
    with pytest.raises(StoreUnavailable, match="Cannot read folder/item"):
        store.series("folder", "item")


# Addresses


def test_a_file_uri_is_a_local_path(tmp_path: Path) -> None:
    open_work_store(str(tmp_path)).append("folder", "item", {"value": 1})
    assert len(open_work_store(f"file://{tmp_path}").series("folder", "item")) == 1


def test_a_store_of_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(StoreUnavailable, match="nosuchkind://bucket"):
        open_work_store("nosuchkind://bucket/path").append("folder", "item", {"value": 1})
