# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The four verbs of a checkpoint location. Nothing else is used.

One mechanism carries everything: a name is created once and never changed. Of two writers of one name exactly one wins,
whichever processes or machines they are. The stores of this room pass one contract suite (``tests/store``).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from airflow_kafka_offsets.errors import StoreUnavailable, clean_text

LARGEST_OBJECT = 64 * 2**20
"""Bytes. The ranges of 250,000 partitions fit. A larger object was not written by this package."""
_AT_ONCE = 64


class Store(Protocol):
    """Objects by name. The parts of a name are joined by ``/``; folders need not be made.

    Every method raises ``StoreUnavailable`` where the store does not answer or refuses. A missing bucket, or a missing
    folder of a local store, is such an error: to read it as an empty store would start a pipeline from the beginning.

    :ivar uri: for people and messages; may name an Airflow connection.
    :ivar driver_uri: where a Spark driver finds the same folder; without a connection.
    :ivar is_remote: whether each call is a request over a network, so that several are made at once.
    """

    uri: str
    driver_uri: str
    is_remote: bool

    def create(self, name: str, data: bytes) -> bool:
        """Write the whole object if the name is free. Return ``False`` if another object has it.

        ``True`` also where exactly these bytes are there: they are what a request wrote whose answer was lost. So
        a caller that must know that it alone wrote the object puts a random value in it.
        """

    def get(self, name: str) -> bytes | None:
        """Return the object, ``None`` if there is none. What another process created is seen at once."""

    def list(self, folder: str) -> list[str]:
        """Return the names of objects and folders in ``folder``, sorted; none where it is absent.

        A folder's name ends with ``/``. One whose objects were all deleted may still be listed.
        """

    def delete(self, name: str) -> None:
        """Remove the object. Where there is none, nothing happens."""


def together(store: Store, *calls: Callable[[], Any]) -> list[Any]:
    """Return the answers of independent calls, in their order. A remote store is asked by several threads at once.

    The first error, in the order of the calls, is raised.
    """
    if not store.is_remote or len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(min(len(calls), _AT_ONCE)) as pool:
        return list(pool.map(lambda call: call(), calls))


def require_inside(store: Store, verb: str, name: str) -> str:
    """Return ``name``; an empty one is the store's own folder.

    :raises StoreUnavailable: a part of it leads elsewhere. Names are also read from objects, so they are checked here.
    """
    parts = name.split("/") if name else []
    if {"", ".", ".."} & set(parts) or not name.isprintable():
        raise unavailable(store, verb, name, "the name leads out of the folder", retriable=False)
    return name


def require_size(store: Store, verb: str, name: str, size: int) -> None:
    """:raises StoreUnavailable: the object is larger than anything that this package writes."""
    if size > LARGEST_OBJECT:
        reason = f"it has {size:,} bytes, and {LARGEST_OBJECT:,} are the most. Plan fewer partitions in one pipeline"
        raise unavailable(store, verb, name, reason, retriable=False)


def unavailable(store: Store, verb: str, name: str, reason: str, *, retriable: bool = True) -> StoreUnavailable:
    return StoreUnavailable(
        f"Cannot {verb} {clean_text(name) or 'the folder'} in the checkpoint location {store.uri}",
        reason,
        "Check that it exists and that this machine may read, write and list it. All workers and Spark drivers must "
        "reach the same place.",
        retriable=retriable,
    )
