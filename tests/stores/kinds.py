"""The kinds of work store that keep the contract, and how a test makes one: a new kind is one more line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.store import Store
from tests.model.store import MemoryStore


@dataclass(frozen=True)
class Kind:
    """:ivar uri: where a test's own store is; ``None``: it is in this process alone, and nobody else can open it."""

    name: str
    uri: Callable[[Path], str] | None

    def open(self, folder: Path) -> Callable[[], Store]:
        """Opens the store that is in ``folder``; every call as another process would, with nothing remembered."""
        if self.uri is None:
            store = MemoryStore()
            return lambda: store
        uri = self.uri(folder)
        return lambda: open_store(uri)


LOCAL = Kind("local", lambda folder: str(folder / "store"))
LOCAL_URI = Kind("local, by URI", lambda folder: f"file://{folder}/store")
MEMORY = Kind("memory", None)

KINDS = [LOCAL, LOCAL_URI, MEMORY]
SHARED = [kind for kind in KINDS if kind.uri is not None]
