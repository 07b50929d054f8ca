"""What happens to runs: workers that die, and things that happen at a moment of the test's choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.stores.store import Store
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline


class Killed(BaseException):
    """The process is gone: nothing of it may catch this."""


def die(*_: object, **__: object) -> None:
    raise Killed


def produce(cluster: AnyCluster, pipeline: Pipeline, count: int = 2) -> None:
    """``count`` records in each of the three partitions."""
    for partition in range(3):
        cluster.produce(pipeline.topic, count, partition)


@dataclass
class Meanwhile:
    """A cluster where something happens, once, when ``name`` is asked."""

    cluster: Any
    name: str
    happens: Callable[[], Any] | None

    def __getattr__(self, name: str) -> Any:
        if name == self.name and self.happens:
            happens, self.happens = self.happens, None
            happens()
        return getattr(self.cluster, name)


@dataclass
class EventfulStore:
    """A work store where something happens, once, right before an object is created whose name has ``part`` in it.

    :ivar after: it happens right after the creation.
    """

    store: Store
    part: str
    happens: Callable[[], Any] | None
    after: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def create(self, name: str, data: bytes) -> bool:
        found = self.part in name
        if found and not self.after:
            self._happen()
        created = self.store.create(name, data)
        if found and self.after:
            self._happen()
        return created

    def _happen(self) -> None:
        happens, self.happens = self.happens, None
        if happens:
            happens()


def names(store: Store, folder: str = "") -> list[str]:
    """Every object of a work store."""
    found: list[str] = []
    for name in store.list(folder):
        path = f"{folder}/{name}".lstrip("/")
        found += names(store, path.rstrip("/")) if name.endswith("/") else [path]
    return found


@dataclass
class Backup:
    """A copy of the work store as it is now."""

    store: Store

    def __post_init__(self) -> None:
        self.objects = {name: self.store.get(name) for name in names(self.store)}

    def restore(self) -> None:
        """The copy in place of what is there."""
        for name in names(self.store):
            self.store.delete(name)
        for name, data in self.objects.items():
            assert data is not None
            self.store.create(name, data)
