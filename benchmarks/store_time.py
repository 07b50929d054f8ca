"""How long a run waits for its work store: the time in which at least one question to it is open."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from airflow_kafka_offsets.stores.store import Store

T = TypeVar("T")


class StoreTime:
    """A store, and a clock that runs while it is asked; questions that are open at once count once.

    :ivar seconds: what the clock shows, once the last question is answered.
    """

    def __init__(self, store: Store) -> None:
        self.uri, self.driver_uri, self.is_remote = store.uri, store.driver_uri, store.is_remote
        self.seconds = 0.0
        self._store, self._lock, self._open, self._since = store, threading.Lock(), 0, 0.0

    def create(self, name: str, data: bytes) -> bool:
        return self._timed(lambda: self._store.create(name, data))

    def get(self, name: str) -> bytes | None:
        return self._timed(lambda: self._store.get(name))

    def list(self, folder: str) -> list[str]:
        return self._timed(lambda: self._store.list(folder))

    def delete(self, name: str) -> None:
        self._timed(lambda: self._store.delete(name))

    def _timed(self, ask: Callable[[], T]) -> T:
        with self._lock:
            if not self._open:
                self._since = time.perf_counter()
            self._open += 1
        try:
            return ask()
        finally:
            with self._lock:
                self._open -= 1
                if not self._open:
                    self.seconds += time.perf_counter() - self._since
