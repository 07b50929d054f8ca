"""Objects carry their digest, and names are made of anything that people call their things."""

from __future__ import annotations

import json
import pickle
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import StoreDamaged
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.objects import create_object, decode, encode, read_object, safe_name

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
MEMBERS = st.dictionaries(st.text().filter(lambda name: name != "sha256"), VALUES, min_size=1, max_size=5)


@given(MEMBERS)
def test_what_is_encoded_is_decoded(value: dict[str, object]) -> None:
    assert decode(encode(value)) == value


@given(MEMBERS)
def test_an_object_is_one_line_of_json_whose_last_member_is_the_digest(value: dict[str, object]) -> None:
    data = encode(value)
    assert [*json.loads(data)] == [*value, "sha256"]
    assert b"\n" not in data


@given(MEMBERS, st.data())
def test_a_torn_object_is_never_taken_for_a_whole_one(value: dict[str, object], draw: st.DataObject) -> None:
    data = encode(value)
    with pytest.raises(ValueError, match="torn or was altered"):
        decode(data[: draw.draw(st.integers(0, len(data) - 1))])


@given(MEMBERS, st.data())
def test_an_altered_object_is_never_taken_for_the_one_that_was_written(
    value: dict[str, object], draw: st.DataObject
) -> None:
    data = bytearray(encode(value))
    data[draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="torn or was altered"):
        decode(bytes(data))


@pytest.mark.parametrize("value", [{}, {"a": 1, "sha256": "x"}, {"a": float("nan")}], ids=str)
def test_what_no_reader_would_read_again_is_not_written(value: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"not the members|not JSON compliant"):
        encode(value)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version":1}', b"\xff", encode({"a": 1})[:-1]], ids=repr)
def test_a_damaged_object_is_named(data: bytes) -> None:
    store = MemoryStore()
    assert read_object(store, "p/batches/1.json") is None
    store.create("p/batches/1.json", data)
    with pytest.raises(
        StoreDamaged, match=r"Cannot use object p/batches/1\.json of the checkpoint location"
    ) as refused:
        read_object(store, "p/batches/1.json")
    assert not pickle.loads(pickle.dumps(refused.value)).retriable


def test_an_object_is_created_once_and_read_back() -> None:
    store = MemoryStore()
    assert create_object(store, "a/1.json", {"version": 1})
    assert create_object(store, "a/1.json", {"version": 2}) is False
    assert read_object(store, "a/1.json") == {"version": 1}


@given(st.text(), st.text())
@example("a" * 300, "a" * 301)
@example("", "%")
@example("", "-")
@example("a" * 300, safe_name("a" * 300))
@example(".", "%2E")
@example("a/b", "a%2Fb")
def test_different_texts_have_different_names(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) == (one == other)


@given(st.text())
@example("." * 5)
@example("é" * 300)
@example("\ud800")
def test_a_name_is_one_part_of_a_path_everywhere(text: str) -> None:
    name = safe_name(text)
    assert set(name) <= set(string.ascii_letters + string.digits + "%+=@,_.-~")
    assert 0 < len(name) <= 200
    assert set(name) != {"."}


def test_a_plain_name_is_itself() -> None:
    for name in ("scheduled__2026-11-20T10", "my-topic.v2", "a+b=c@d,e_f~g"):
        assert safe_name(name) == name
    assert safe_name("orders/0-of-4") == "orders%2F0-of-4"
