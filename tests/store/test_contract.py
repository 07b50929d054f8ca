"""What a checkpoint location has to do, whichever it is: one suite for all kinds (``kinds.py``)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.store.objects import safe_name
from airflow_kafka_offsets.store.protocol import Store, together
from tests.store import processes
from tests.store.kinds import KINDS, SHARED, InMemory, Kind, Place


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
def place(kind: Kind, tmp_path: Path) -> Place | InMemory:
    return kind.place(tmp_path)


@pytest.fixture
def store(place: Place | InMemory) -> Store:
    return place.open()


@pytest.fixture(params=SHARED)
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return request.param.place(tmp_path)


# ── create and get ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("data", [b"", b"\x00", b"\r\n", bytes(range(256)), b"x" * 2_000_000], ids=len)
def test_an_object_is_read_back_as_it_was_created(store: Store, data: bytes) -> None:
    assert store.get("a/b/1.json") is None
    assert store.create("a/b/1.json", data)
    assert store.get("a/b/1.json") == data


def test_a_name_is_created_once_and_keeps_what_the_first_wrote(store: Store) -> None:
    assert store.create("a/1.json", b"first")
    assert store.create("a/1.json", b"second") is False
    assert store.create("a/1.json", b"first"), "exactly these bytes are there: an answer may have been lost"
    assert store.get("a/1.json") == b"first"


def test_names_beside_one_another_are_different_objects(store: Store) -> None:
    names = ["a", "b/a", "b/b", "b/c/a", "B", "b.json", "b/1.json", "b/10.json", "b/1"]
    for name in names:
        assert store.create(name, name.encode())
    assert {name: store.get(name) for name in names} == {name: name.encode() for name in names}


def test_what_another_client_creates_is_seen_at_once_also_where_it_was_looked_for_before(
    place: Place | InMemory,
) -> None:
    mine, others = place.open(), place.open()
    assert (mine.get("a/1.json"), mine.list("a"), mine.list("")) == (None, [], [])
    others.create("a/1.json", b"x")
    assert (mine.get("a/1.json"), mine.list("a"), mine.list("")) == (b"x", ["1.json"], ["a/"])
    assert mine.create("a/1.json", b"y") is False


def test_an_object_that_is_too_large_is_neither_written_nor_read(
    shared: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = shared.open()
    assert store.create("a/1.json", b"x" * 1_001)
    monkeypatch.setattr("airflow_kafka_offsets.store.protocol.LARGEST_OBJECT", 1_000)
    with pytest.raises(StoreUnavailable, match=r"Cannot read a/1\.json in .*1,001 bytes, and 1,000 are the most"):
        store.get("a/1.json")
    with pytest.raises(StoreUnavailable, match=r"Cannot write a/2\.json in .*1,001 bytes, and 1,000 are the most"):
        store.create("a/2.json", b"x" * 1_001)


# ── list and delete ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_lists_its_objects_and_folders_sorted_and_nothing_below(store: Store) -> None:
    assert store.list("") == store.list("a") == []
    for name in ("a/1.json", "a/b/2.json", "a/b/c/3.json", "a/d/4.json", "ab/5.json", "e.json"):
        store.create(name, b"x")
    assert store.list("") == ["a/", "ab/", "e.json"]
    assert store.list("a") == ["1.json", "b/", "d/"]
    assert store.list("a/b") == ["2.json", "c/"]
    assert store.list("a/1") == store.list("a/x") == []


def test_names_are_sorted_as_text(store: Store) -> None:
    for name in ("f/10.json", "f/9.json", "f/1.json", "f/B", "f/a", "f/é", "f/0000000002/1", "f/0000000010/1"):
        store.create(name, b"x")
    assert store.list("f") == ["0000000002/", "0000000010/", "1.json", "10.json", "9.json", "B", "a", "é"]


def test_a_list_has_every_name_however_many_there_are(store: Store) -> None:
    """A page of an object store has a thousand. A few at once: small servers drop some of hundreds of connections."""
    names = [f"{number:04}" for number in range(1_100)]
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(lambda name: store.create(f"f/{name}", b""), names))
    assert store.list("f") == names


def test_a_deleted_object_is_gone_and_to_delete_what_is_absent_is_no_error(store: Store) -> None:
    store.delete("a/b/1.json")
    store.create("a/1.json", b"x")
    store.create("a/2.json", b"y")
    store.delete("a/1.json")
    store.delete("a/1.json")
    assert (store.get("a/1.json"), store.get("a/2.json"), store.list("a")) == (None, b"y", ["2.json"])
    assert store.create("a/1.json", b"z")


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

NAMES = st.text(max_size=300) | st.sampled_from(
    ["", ".", "..", "/", "a/b", "scheduled__2026-11-20T10:00:00+00:00", "x.draft", ".draft", "a" * 400, "C:\\x", "a b",
     "%2F", "*", "?", "\n", "~", "#", "{{x}}", "\U0001f600", "e\u0301", "\u00e9"]
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, min_size=1, max_size=3))
@example(names=["x.draft", ".draft"])
@example(names=["e\u0301", "\u00e9"])
@example(names=["", ".", ".."])
def test_whatever_a_pipeline_or_run_is_called_its_safe_name_is_one_part_of_a_name(
    tmp_path_factory: pytest.TempPathFactory, kind: Kind, names: list[str]
) -> None:
    store = kind.place(tmp_path_factory.mktemp("names")).open()
    parts = [safe_name(name) for name in names]
    assert store.create(f"{'/'.join(parts)}/1.json", b"x")
    assert store.get(f"{'/'.join(parts)}/1.json") == b"x"
    for depth, part in enumerate(parts):
        assert store.list("/".join(parts[:depth])) == [f"{part}/"]


@pytest.mark.parametrize("verb", ["create", "get", "list", "delete"])
def test_a_name_that_leads_elsewhere_is_refused(store: Store, verb: str) -> None:
    for name in ("../1", "a/../../1", "a//1", "/etc/hosts", "a/./1", "a/\0"):
        with pytest.raises(StoreUnavailable, match="leads out of the folder"):
            getattr(store, verb)(name, *([b"x"] if verb == "create" else []))


# ── others at the same time ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.starts_processes
def test_of_two_processes_that_create_one_name_exactly_one_wins_50_times_of_50(shared: Place) -> None:
    barrier, answers = processes.CONTEXT.Barrier(2), processes.CONTEXT.Queue()
    both = [processes.start(processes.create_each, shared, barrier, answers, who, 50) for who in (1, 2)]
    won = dict(answers.get(timeout=processes.TIMEOUT_S) for _ in both)
    for process in both:
        process.join(processes.TIMEOUT_S)
    assert sorted(won[1] + won[2]) == list(range(50)), "one winner of each, and never two"
    store = shared.open()
    for who, numbers in won.items():
        assert all(store.get(f"races/{number % 7}/{number}.json") == b"%d" % who for number in numbers)


def test_of_eight_threads_that_create_one_name_exactly_one_wins(store: Store) -> None:
    store.list("")
    if not store.is_remote:
        store.is_remote = True  # so that `together` uses threads
    barrier = Barrier(8)

    def create(who: int) -> bool:
        barrier.wait(processes.TIMEOUT_S)
        return store.create("races/1.json", b"%d" % who)

    won = together(store, *(lambda who=who: create(who) for who in range(8)))  # type: ignore[misc]
    assert sorted(won) == [False] * 7 + [True]
    assert store.get("races/1.json") == b"%d" % won.index(True)


@pytest.mark.starts_processes
def test_an_object_that_is_being_written_is_absent_or_whole(shared: Place) -> None:
    store, count = shared.open(), 8
    barrier = processes.CONTEXT.Barrier(2)
    writer = processes.start(processes.create_large, shared, barrier, count)
    for number in range(count):
        barrier.wait(processes.TIMEOUT_S)
        data = None
        while data is None:
            assert set(store.list("folder")) <= {f"{n}.json" for n in range(count)}, "nothing but objects is listed"
            data = store.get(f"folder/{number}.json")
        assert data == bytes([number]) * processes.LARGE
    writer.join(processes.TIMEOUT_S)
    assert writer.exitcode == 0


def test_answers_come_in_the_order_of_the_calls_and_the_first_error_is_raised(store: Store) -> None:
    for number in range(20):
        store.create(f"a/{number}", b"%d" % number)
    assert together(store, *(lambda n=n: store.get(f"a/{n}") for n in range(20))) == [  # type: ignore[misc]
        b"%d" % number for number in range(20)
    ]
    with pytest.raises(StoreUnavailable, match=r"read a/\.\./b"):
        together(store, lambda: store.get("a/1"), lambda: store.get("a/../b"), lambda: store.get("../c"))
