"""What a work store has to do, whichever it is: one suite for all kinds (``kinds.py``).

One mechanism carries everything that is built on it: a name is created once, whole, and never changed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.stores.objects import safe_name
from airflow_kafka_offsets.stores.store import Store, get_all, list_below
from tests.stores import processes
from tests.stores.kinds import KINDS, SHARED, Kind

Open = Callable[[], Store]
LIMITED = ("airflow_kafka_offsets.stores.local", "airflow_kafka_offsets.stores.object_store")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
def reopen(kind: Kind, tmp_path: Path) -> Open:
    return kind.open(tmp_path)


@pytest.fixture
def store(reopen: Open) -> Store:
    return reopen()


@pytest.fixture(params=SHARED, ids=lambda kind: kind.name)
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    return request.param.open(tmp_path)


# ── create and get ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_object_is_read_back_as_it_was_created(store: Store) -> None:
    assert store.get("a/b/1.json") is None
    assert store.create("a/b/1.json", b"one")
    assert store.get("a/b/1.json") == b"one"


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\r\n", bytes(range(256)), b"x" * 2_000_000], ids=["empty", "NUL", "CRLF", "bytes", "large"]
)
def test_any_bytes_are_an_object(store: Store, data: bytes) -> None:
    assert store.create("a/1.json", data)
    assert store.get("a/1.json") == data


def test_of_an_object_that_is_too_large_no_more_is_read_than_shows_it(
    shared: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in LIMITED:
        monkeypatch.setattr(f"{module}.LARGEST_OBJECT", 1_000)
    store = shared()
    assert store.create("a/1.json", b"x" * 100_000)
    assert store.get("a/1.json") == b"x" * 1_001
    assert get_all(store, ["a/1.json"]) == [b"x" * 1_001]


def test_a_folder_with_too_many_names_is_refused(shared: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_kafka_offsets.stores.store.MOST_NAMES", 2)
    store = shared()
    for number in range(3):
        store.create(f"many/{number}", b"")
    with pytest.raises(StoreUnavailable, match="more than 2 names"):
        store.list("many")


def test_a_name_is_created_once_and_keeps_what_the_first_wrote(store: Store) -> None:
    assert store.create("a/1.json", b"first")
    assert store.create("a/1.json", b"second") is False
    assert store.create("a/1.json", b"first"), "it is there as it was to be: an answer may have been lost"
    assert store.get("a/1.json") == b"first"


def test_names_beside_one_another_are_different_objects(store: Store) -> None:
    names = ["a", "b/a", "b/b", "b/c/a", "B", "b.json", "b/1.json", "b/10.json", "b/1"]
    for name in names:
        assert store.create(name, name.encode())
    assert {name: store.get(name) for name in names} == {name: name.encode() for name in names}


def test_what_another_client_creates_is_seen_at_once_also_where_it_was_looked_for_before(reopen: Open) -> None:
    """A cache of what is not there would hide a commit for ever."""
    mine, others = reopen(), reopen()
    assert (mine.get("a/1.json"), mine.list("a"), mine.list("")) == (None, [], [])
    others.create("a/1.json", b"x")
    assert (mine.get("a/1.json"), mine.list("a"), mine.list("")) == (b"x", ["1.json"], ["a/"])
    assert mine.create("a/1.json", b"y") is False
    others.create("a/2.json", b"x")
    assert mine.list("a") == ["1.json", "2.json"]
    others.delete("a/1.json")
    assert (mine.get("a/1.json"), mine.list("a")) == (None, ["2.json"])


# ── list ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_absent_lists_nothing(store: Store) -> None:
    assert store.list("") == []
    assert store.list("a") == []
    store.create("a/1.json", b"x")
    assert store.list("a/b") == []
    assert store.list("a/1") == []


def test_a_folder_lists_its_objects_and_its_folders_and_nothing_below(store: Store) -> None:
    for name in ("a/1.json", "a/b/2.json", "a/b/c/3.json", "a/d/4.json", "ab/5.json", "e.json"):
        store.create(name, b"x")
    assert store.list("") == ["a/", "ab/", "e.json"]
    assert store.list("a") == ["1.json", "b/", "d/"]
    assert store.list("a/b") == ["2.json", "c/"]


def test_names_are_sorted_as_text(store: Store) -> None:
    for name in ("f/10.json", "f/9.json", "f/1.json", "f/B", "f/a", "f/é", "f/0000000002/1", "f/0000000010/1"):
        store.create(name, b"x")
    assert store.list("f") == ["0000000002/", "0000000010/", "1.json", "10.json", "9.json", "B", "a", "é"]


def test_a_list_has_every_name_however_many_there_are(store: Store) -> None:
    """A page of an object store has a thousand."""
    for number in range(1_100):
        store.create(f"f/{number:04}", b"")
    names = [f"{number:04}" for number in range(1_100)]
    assert store.list("f") == names
    assert list_below(store, "f") == [f"f/{name}" for name in names]


def test_a_listing_below_a_folder_has_all_objects_in_it_and_in_its_folders(store: Store) -> None:
    names = ["a/1.json", "a/b/2.json", "a/b/c/3.json", f"a/d/{safe_name('é <&>+%20')}"]
    for name in (*names, "ab/5.json", "e.json"):
        store.create(name, b"x")
    assert list_below(store, "a") == sorted(names)
    assert list_below(store, "a/b") == names[1:3]
    assert list_below(store, "none") == []


def test_many_objects_are_read_as_each_of_them(store: Store) -> None:
    objects = {"a/1.json": b"one", "a/none": None, f"a/{safe_name('é <&>+%20')}": b"", "b": bytes(range(256))}
    for name, data in objects.items():
        assert data is None or store.create(name, data)
    assert get_all(store, list(objects)) == list(objects.values())
    assert get_all(store, []) == []


# ── delete ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_deleted_object_is_gone_and_its_name_is_free(store: Store) -> None:
    store.create("a/1.json", b"x")
    store.create("a/2.json", b"y")
    store.delete("a/1.json")
    assert (store.get("a/1.json"), store.get("a/2.json"), store.list("a")) == (None, b"y", ["2.json"])
    assert store.create("a/1.json", b"z")


def test_to_delete_what_is_not_there_is_no_error(store: Store) -> None:
    store.delete("a/b/1.json")
    store.create("a/2.json", b"x")
    store.delete("a/1.json")
    store.delete("a/2.json")
    store.delete("a/2.json")
    assert store.list("") == []


def test_a_folder_whose_last_object_is_deleted_is_listed_no_more(store: Store) -> None:
    store.create("a/b/c/1.json", b"x")
    store.create("a/b/c/2.json", b"x")
    store.create("a/d/1.json", b"x")
    store.delete("a/b/c/1.json")
    assert store.list("a/b") == ["c/"]
    store.delete("a/b/c/2.json")
    assert store.list("a") == ["d/"]
    store.delete("a/d/1.json")
    assert store.list("") == []
    assert store.create("a/b/c/1.json", b"again")


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

# Of a DAG, run, task, topic, group or pipeline: anything that Airflow, Kafka or a person allows, and more.
NAMES = st.text(max_size=300) | st.sampled_from(
    ["", ".", "..", "...", "/", "a/b", "scheduled__2026-11-20T10:00:00+00:00", "x.draft", ".draft", "é" * 100,
     "a" * 400, "C:\\x", "con", "a b", "%2F", "*", "?", "\n", "-", "~", "#", "{{x}}", "\U0001f600", "e\u0301", "\u00e9"]
)  # fmt: skip


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, min_size=1, max_size=4))
@example(names=["x.draft", ".draft"])
@example(names=["e\u0301", "\u00e9"])
@example(names=["", ".", "..", "/"])
def test_whatever_people_call_their_things_a_name_is_made_of_it(
    tmp_path_factory: pytest.TempPathFactory, kind: Kind, names: list[str]
) -> None:
    store = kind.open(tmp_path_factory.mktemp("names"))()
    parts = [safe_name(name) for name in names]
    path = "/".join(parts)
    assert store.create(f"{path}/1.json", b"x")
    assert store.get(f"{path}/1.json") == b"x"
    for depth, part in enumerate(parts):
        assert store.list("/".join(parts[:depth])) == [f"{part}/"]
    flat = sorted({f"{part}.json" for part in parts})
    for name in flat:
        assert store.create(f"flat/{name}", b"y")
    assert store.list("flat") == flat


# ── others at the same time ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.starts_processes
def test_of_two_processes_that_create_one_name_exactly_one_wins_50_times_of_50(shared: Open) -> None:
    barrier, answers = processes.CONTEXT.Barrier(2), processes.CONTEXT.SimpleQueue()
    uri = shared().uri
    both = [processes.start(processes.create_each, uri, barrier, answers, who, 50) for who in (1, 2)]
    won = dict(answers.get() for _ in both)
    for process in both:
        process.join(processes.TIMEOUT_S)
    assert sorted(won[1] + won[2]) == list(range(50)), "one winner of each, and never two"
    store = shared()
    for who, numbers in won.items():
        assert all(store.get(f"races/{number % 7}/{number}.json") == b"%d" % who for number in numbers)


@pytest.mark.starts_processes
def test_an_object_that_is_being_written_is_absent_or_whole(shared: Open) -> None:
    store, count = shared(), 8
    barrier = processes.CONTEXT.Barrier(2)
    writer = processes.start(processes.create_large, store.uri, barrier, count)
    looked = 0
    for number in range(count):
        barrier.wait(processes.TIMEOUT_S)
        data = None
        while data is None:
            looked += 1
            assert set(store.list("folder")) <= {f"{n}.json" for n in range(count)}, "nothing but objects is listed"
            data = store.get(f"folder/{number}.json")
        assert data == bytes([number]) * processes.LARGE
    writer.join(processes.TIMEOUT_S)
    assert writer.exitcode == 0
    assert looked > count, "it was looked for while it was written"


@pytest.mark.starts_processes
def test_a_folder_that_others_empty_meanwhile_is_still_written_to(shared: Open) -> None:
    """``clean`` removes folders that are empty; a run that writes its first object there must not fail."""
    barrier, answers = processes.CONTEXT.Barrier(2), processes.CONTEXT.SimpleQueue()
    store = shared()
    rounds = 30 if store.is_remote else 300  # an object store has no folder that could be missing
    both = [processes.start(processes.come_and_go, store.uri, barrier, answers, who, rounds) for who in (1, 2)]
    assert [answers.get() for _ in both] == [None, None]
    for process in both:
        process.join(processes.TIMEOUT_S)
    assert store.list("") == []
