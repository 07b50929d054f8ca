"""The four verbs of a work store, and their limits. Nothing else is asked of it.

One mechanism carries everything: a name is created once and never changed. So of two writers of one name exactly one
wins, whatever runs twice, wherever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from typing import Any, Protocol, TypeVar, runtime_checkable

from airflow_kafka_offsets.errors import StoreDamaged, StoreUnavailable

T = TypeVar("T")
_AT_ONCE = 16
MOST_AT_ONCE = 256
"""Requests of one store that are under way at a time."""
MANY = 40
"""Of these, what one who asks for many may have."""
DRAFT = ".draft"
"""What a name ends with that is being written, where a store has to do so. No object's does (``objects.safe_name``)."""


class Store(Protocol):
    """Objects by name. Names have ``/`` between their parts; folders need not be made.

    Every method raises ``StoreUnavailable``, which says why, where the store cannot be asked.

    :ivar uri: what people call it, for messages.
    :ivar driver_uri: what a Spark driver finds it by; without a connection, which only Airflow has.
    :ivar is_remote: whether a question takes a request over a network, and may be asked with others at once.
    """

    uri: str
    driver_uri: str
    is_remote: bool

    def create(self, name: str, data: bytes) -> bool:
        """Write the whole object if there is none of this name; ``False`` if there is another one.

        ``True`` also where just these bytes are there: they may be what a request wrote whose answer was lost.
        """

    def get(self, name: str) -> bytes | None:
        """The object; ``None`` where there is none. What another process has created is seen at once.

        Of one that is larger than ``LARGEST_OBJECT``, only that much and one byte more.
        """

    def list(self, folder: str) -> list[str]:
        """The names of objects and folders in ``folder``, sorted; none where it is absent.

        A folder's name ends with ``/``. More than ``MOST_NAMES`` are refused.
        """

    def delete(self, name: str) -> None:
        """Remove the object; nothing happens where there is none."""


def together(store: Store, *questions: Callable[[], Any]) -> Iterator[Any]:
    """The answers to questions that do not depend on each other; what one raises comes in place of its answer."""
    return ahead(store, questions, _AT_ONCE)


def ahead(store: Store, questions: Iterable[Callable[[], T]], at_once: int) -> Iterator[T]:
    """The answers in the order of the questions, however many there are: no more than twice ``at_once`` are held."""
    if not store.is_remote:
        yield from (ask() for ask in questions)
        return
    left = iter(questions)
    with ThreadPoolExecutor(at_once) as pool:
        asked = deque(pool.submit(ask) for ask in islice(left, 2 * at_once))
        while asked:
            yield asked.popleft().result()
            asked.extend(pool.submit(ask) for ask in islice(left, 1))


@runtime_checkable
class ManyAtOnce(Protocol):
    """A store that is asked for many objects by few questions."""

    def list_below(self, folder: str) -> list[str]:
        """The names of all objects in the folder and in its folders, sorted. More than ``MOST_NAMES`` are refused."""

    def get_all(self, names: Sequence[str]) -> list[bytes | None]:
        """As ``get`` of each name."""


def list_below(store: Store, folder: str) -> list[str]:
    """The names of all objects in the folder and in its folders, sorted."""
    return store.list_below(folder) if isinstance(store, ManyAtOnce) else list_each(store, folder)


def list_each(store: Store, folder: str) -> list[str]:
    """The same, by a listing of each folder."""
    names = [f"{folder}/{name}" for name in store.list(folder)]
    folders = (partial(list_each, store, name[:-1]) for name in names if name.endswith("/"))
    below = chain.from_iterable(ahead(store, folders, MANY))
    return sorted([*(name for name in names if not name.endswith("/")), *below])


def get_all(store: Store, names: Sequence[str]) -> list[bytes | None]:
    """The objects of these names, in their order."""
    return store.get_all(names) if isinstance(store, ManyAtOnce) else get_each(store, names)


def get_each(store: Store, names: Sequence[str]) -> list[bytes | None]:
    """The same, by a question for each."""
    return list(ahead(store, (partial(store.get, name) for name in names), MANY))


def unavailable(store_uri: str, verb: str, name: str, reason: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"Cannot {verb} {name or '/'} in the work store {store_uri}",
        reason,
        "Check that the work store exists, has room, and can be read and written from here. It must be the same place "
        "for all workers and for the Spark driver: a local folder works on one machine only.",
        retriable=True,
    )


# ── limits for what is read, whatever somebody has put there: the own folder, and these sizes ─────────────────────────
# They hold for writers too, so that nothing is put on record that nobody could read.


LARGEST_OBJECT = 64 * 2**20
"""Bytes. A plan has some 200 for each partition, so 250,000 partitions fit, which no cluster has."""
MOST_NAMES = 1_000_000
"""In one folder. A window every five minutes for nine years; a listing of them takes some 100 MB."""


def within_size(data: bytes, store_uri: str, name: str) -> None:
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
