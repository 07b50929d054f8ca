"""Objects: compact JSON with a digest, so that one that is torn or altered is an error that names it."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_offsets.errors import StoreDamaged, StoreUnavailable
from airflow_kafka_offsets.stores.objects import create_object, decode, encode, read_object, safe_name
from tests.model.store import MemoryStore

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(st.text(max_size=5), json_values, min_size=1, max_size=3)


# ── the digest ────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(objects)
@example({"x": ',"sha256":"' + "0" * 64 + '"}'})
@example({"x": {"sha256": "0" * 64}})
def test_an_object_is_read_back_as_it_was_written(value: dict[str, Any]) -> None:
    assert decode(encode(value)) == value


def test_an_object_is_JSON_that_anybody_can_read() -> None:
    value = json.loads(encode({"version": 1, "name": "é"}))
    assert (value["version"], value["name"], list(value)[-1]) == (1, "é", "sha256")
    assert encode({"version": 1}).isascii()
    assert b" " not in encode({"version": 1, "x": [1, 2]})


@given(objects, st.data())
def test_an_object_that_is_cut_off_is_found_out(value: dict[str, Any], data: st.DataObject) -> None:
    encoded = encode(value)
    with pytest.raises(ValueError, match="torn, or was altered"):
        decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@given(objects, st.data())
def test_an_object_of_which_a_byte_is_altered_is_found_out(value: dict[str, Any], data: st.DataObject) -> None:
    encoded = bytearray(encode(value))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="torn, or was altered"):
        decode(bytes(encoded))


@pytest.mark.parametrize("extra", [b"\n", b" ", b"x", b"\x00"])
def test_an_object_to_which_something_was_added_is_found_out(extra: bytes) -> None:
    for damaged in (encode({"a": 1}) + extra, extra + encode({"a": 1})):
        with pytest.raises(ValueError, match="torn, or was altered"):
            decode(damaged)


# ── reading one ───────────────────────────────────────────────────────────────────────────────────────────────────────

NAME = "pipelines/p/batches/00000000/0000000007/1.json"


def whole(data: dict[str, Any]) -> int:
    if data["version"] != 1:
        raise ValueError(f"version {data['version']} is not known")
    return int(data["value"])


def test_an_object_is_created_once_and_what_it_says_is_parsed() -> None:
    store = MemoryStore()
    assert read_object(store, NAME, whole) is None
    assert create_object(store, NAME, {"version": 1, "value": 7})
    assert not create_object(store, NAME, {"version": 1, "value": 8})
    assert read_object(store, NAME, whole) == 7


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[:-1], id="cut off"),
        pytest.param(lambda data: data.replace(b"7", b"8", 1), id="altered"),
        pytest.param(lambda data: b"\xff" + data, id="no text"),
        pytest.param(lambda data: b'{"version":1,"value":7}', id="JSON without a digest"),
        pytest.param(lambda data: encode({"version": 2, "value": 7}), id="of a version that is not known"),
        pytest.param(lambda data: encode({"version": 1}), id="a field is missing"),
        pytest.param(lambda data: encode({"version": 1, "value": [7]}), id="a field of another type"),
    ],
)
def test_a_damaged_object_is_an_error_that_names_it_and_says_what_to_do(damage: Any) -> None:
    store = MemoryStore()
    store.create(NAME, damage(encode({"version": 1, "value": 7})))
    with pytest.raises(StoreDamaged) as refused:
        read_object(store, NAME, whole)
    error = refused.value
    assert NAME in error.what
    assert store.uri in error.what
    assert "Restore it from a copy" in error.remedy
    assert not error.retriable, "no time heals it"
    assert isinstance(error, StoreUnavailable)
    assert error.exit_status == 3


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text(), st.text())
@example("a" * 300, "a" * 301)
@example("", "%")
@example("", "-")
@example("a" * 300, safe_name("a" * 300))
@example(".", "%2E")
@example("x.draft", "x%2Edraft")
@example("a/b", "a%2Fb")
def test_different_texts_have_different_names(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) == (one == other)


def test_a_name_is_told_apart_from_the_text_that_it_was_cut_to() -> None:
    name = safe_name("a" * 300)
    assert safe_name(name) != name
    assert safe_name(name.replace("%2D", "-")) != name


@given(st.text())
@example("." * 5)
@example("x.draft")
@example(".draft")
@example("é" * 300)
@example("a" * 195 + ".draft")
def test_a_name_is_one_part_of_a_path_everywhere(text: str) -> None:
    name = safe_name(text)
    assert set(name) <= set(string.ascii_letters + string.digits + "%+=@,_.-~")
    assert 0 < len(name) <= 200
    assert set(name) != {"."}
    assert not name.endswith(".draft"), "what the local store is writing"


def test_a_plain_name_is_itself() -> None:
    for name in ("scheduled__2026-11-20T10", "my-topic.v2", "a+b=c@d,e_f~g"):
        assert safe_name(name) == name
    assert safe_name("g/dag/resolve") == "g%2Fdag%2Fresolve"
