"""Limits for what is read from a work store, whatever somebody has put there: its own folder, and these sizes.

They hold for writers too, so that nothing is put on record that nobody could read.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from airflow_kafka_offsets.errors import StoreDamaged, StoreUnavailable

T = TypeVar("T")

LARGEST_OBJECT = 64 * 2**20
"""Bytes. A plan has some 200 for each partition, so 250,000 partitions fit, which no cluster has."""
MOST_NAMES = 1_000_000
"""In one folder. A window every five minutes for nine years; a listing of them takes some 100 MB."""


def within_size(data: bytes, store_uri: str, name: str) -> bytes:
    """
    :param data: what was read, up to one byte more than is allowed.
    :raises StoreDamaged: it is larger than anything that this package writes.
    """
    if len(data) > LARGEST_OBJECT:
        raise StoreDamaged(
            f"Cannot use object {name} of the work store {store_uri}",
            f"it has more than {LARGEST_OBJECT} bytes, which nothing has that airflow-kafka-offsets wrote",
            "Remove it, or restore it from a copy, and see who else writes there.",
        )
    return data


def refuse_too_large(data: bytes, store_uri: str, name: str) -> None:
    """:raises StoreUnavailable: nobody would read it again."""
    if len(data) > LARGEST_OBJECT:
        raise StoreUnavailable(
            f"Cannot write {name} in the work store {store_uri}",
            f"it would have {len(data)} bytes, and {LARGEST_OBJECT} are the most",
            "Read fewer partitions in one batch: give some of the topics a pipeline of their own.",
        )


def all_names(names: Iterable[T], store_uri: str, folder: str) -> list[T]:
    """:raises StoreUnavailable: there are more than can be held."""
    found = list(islice(names, MOST_NAMES + 1))
    if len(found) > MOST_NAMES:
        raise StoreUnavailable(
            f"Cannot list {folder or '/'} in the work store {store_uri}",
            f"it has more than {MOST_NAMES} names",
            "Remove what is old (kafka-offsets clean), and see who else writes there.",
        )
    return found


def require_inside(store_uri: str, verb: str, name: str) -> str:
    """``name``; an empty one is the store's own folder.

    :raises StoreUnavailable: it has a part that leads to another folder, or that no file system takes.
    """
    parts = set(name.split("/")) if name else set()
    is_text = name.encode(errors="replace").decode() == name  # half of a pair of UTF-16 is none
    if parts & {"", ".", ".."} or "\0" in name or not is_text:
        raise leads_elsewhere(store_uri, verb, name)
    return name


def leads_elsewhere(store_uri: str, verb: str, name: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"Cannot {verb} {name!r} in the work store {store_uri}",
        "the name, or a symbolic link on the way, leads out of the store's folder",
        "airflow-kafka-offsets makes no such name and no link. Remove the link, and see who else writes there.",
    )
