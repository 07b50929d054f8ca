"""A work store in memory: the four verbs on a dict, a copy of it, and that copy put back.

Files would be synced to a disk, which takes most of the time; what the local store promises has a suite of its own.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from typing import Any

from airflow_kafka_offsets.stores.objects import read_object
from airflow_kafka_offsets.stores.store import Store


class MemoryStore:
    """:class:`~airflow_kafka_offsets.stores.store.Store`, of one process."""

    uri = driver_uri = "memory"
    is_remote = False

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self._children: dict[str, list[str]] = {}

    def create(self, name: str, data: bytes) -> bool:
        if name in self.objects:
            return self.objects[name] == data
        self.objects[name] = data
        child = name
        while True:
            folder, _, last = child.rstrip("/").rpartition("/")
            last += "/" if child.endswith("/") else ""
            children = self._children.setdefault(folder, [])
            if last in children:
                return True
            insort(children, last)
            if not folder:
                return True
            child = f"{folder}/"

    def get(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def list_below(self, folder: str) -> list[str]:
        return sorted(name for name in self.objects if name.startswith(f"{folder}/"))

    def get_all(self, names: Sequence[str]) -> list[bytes | None]:
        return [self.get(name) for name in names]

    def list(self, folder: str) -> list[str]:
        return [*self._children.get(folder, [])]

    def delete(self, name: str) -> None:
        if self.objects.pop(name, None) is not None:
            self.replace(self.objects)

    def replace(self, objects: dict[str, bytes]) -> None:
        """Be the store that holds just these objects."""
        self.objects, self._children = {}, {}
        for name, data in objects.items():
            self.create(name, data)


class ReadOnce:
    """``read_object``, which understands the same bytes only once: what objects hold are frozen values."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, Any], Any] = {}

    def __call__(self, store: Store, name: str, parse: Callable[[dict[str, Any]], Any]) -> Any:
        data = store.get(name)
        if data is None:
            return None
        key = (data, parse)
        if key not in self._known:
            self._known[key] = read_object(_One(data), name, parse)
        return self._known[key]


class _One(MemoryStore):
    """Whatever is asked for is this object."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data

    def get(self, name: str) -> bytes | None:
        return self._data
