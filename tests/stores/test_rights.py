"""Airflow's rights on S3 as docs/stores.md tells them: with all of them it works, and without any one that is said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_kafka_offsets.errors import StoreUnavailable
from airflow_kafka_offsets.stores.location import location_of
from airflow_kafka_offsets.stores.object_store import ObjectStore
from tests.stores.guarded import FOLDER, NEEDED, Guarded, guarded_server

pytestmark = pytest.mark.starts_processes


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with guarded_server() as server:
        yield server


def store_with(server: Guarded, *rights: str) -> ObjectStore:
    import s3fs

    key, secret = server.new_user(*rights)
    where = {"endpoint_url": server.endpoint, "client_kwargs": {"region_name": "us-east-1"}}
    system = s3fs.S3FileSystem(key=key, secret=secret, skip_instance_cache=True, **where)
    return ObjectStore(system, location_of(f"s3://{FOLDER}"), deadline_s=5)


def test_with_three_rights_all_works_but_clean_which_needs_a_fourth(guarded: Guarded) -> None:
    store = store_with(guarded, *NEEDED)
    assert store.get("a/1.json") is None
    assert store.create("a/1.json", b"x")
    assert store.create("a/1.json", b"y") is False
    assert (store.get("a/1.json"), store.list("a"), store.list("b")) == (b"x", ["1.json"], [])
    with pytest.raises(StoreUnavailable, match="the right to read, write, list and remove objects below"):
        store.delete("a/1.json")
    store_with(guarded, *NEEDED, "s3:DeleteObject").delete("a/1.json")
    assert store.list("a") == []


@pytest.mark.parametrize(("missing", "verb"), zip(NEEDED, ("get", "create", "list"), strict=True))
def test_one_right_less_is_refused_and_said(guarded: Guarded, missing: str, verb: str) -> None:
    store = store_with(guarded, *(right for right in NEEDED if right != missing))
    arguments = {"get": ("a/1.json",), "create": ("a/2.json", b"x"), "list": ("a",)}[verb]
    with pytest.raises(StoreUnavailable, match=rf"{FOLDER}.*\n?.*(Forbidden|Access ?Denied)") as refused:
        getattr(store, verb)(*arguments)
    assert "the right to read, write and list objects below" in str(refused.value), "clean alone removes"
