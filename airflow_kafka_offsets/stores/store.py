"""The four verbs of a work store. Nothing else is asked of it.

One mechanism carries everything: a name is created once and never changed. So of two writers of one name exactly one
wins, whatever runs twice, wherever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Protocol

from airflow_kafka_offsets.errors import StoreUnavailable

_AT_ONCE = 16
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

        Of one that is larger than ``limits.LARGEST_OBJECT``, only that much and one byte more.
        """

    def list(self, folder: str) -> list[str]:
        """The names of objects and folders in ``folder``, sorted; none where it is absent.

        A folder's name ends with ``/``. More than ``limits.MOST_NAMES`` are refused.
        """

    def delete(self, name: str) -> None:
        """Remove the object; nothing happens where there is none."""


def together(store: Store, *questions: Callable[[], Any]) -> Iterator[Any]:
    """The answers to questions that do not depend on each other; what one raises comes in place of its answer."""
    if not store.is_remote:
        yield from (ask() for ask in questions)
    else:
        yield from ahead(questions, _AT_ONCE)


def ahead(questions: Iterable[Callable[[], Any]], at_once: int) -> Iterator[Any]:
    """The answers in the order of the questions, however many there are: no more than twice ``at_once`` are held."""
    left = iter(questions)
    with ThreadPoolExecutor(at_once) as pool:
        asked = deque(pool.submit(ask) for ask in islice(left, 2 * at_once))
        while asked:
            yield asked.popleft().result()
            asked.extend(pool.submit(ask) for ask in islice(left, 1))


def unavailable(store_uri: str, verb: str, name: str, reason: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"Cannot {verb} {name or '/'} in the work store {store_uri}",
        reason,
        "Check that the work store exists, has room, and can be read and written from here. It must be the same place "
        "for all workers and for the Spark driver: a local folder works on one machine only.",
        retriable=True,
    )
