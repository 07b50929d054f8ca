"""The kinds of work store that keep the contract, and how a test makes one: a new kind is one more line here."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.store import Store
from testbed.s3_server import S3Server
from tests.model.store import MemoryStore

BUCKET = "work-stores"


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


@cache
def s3_server() -> S3Server:
    """One server for all tests of this process; it ends with it. A folder of its own is enough for a test."""
    server = S3Server()
    server.__enter__()
    server.create_bucket(BUCKET)
    os.environ.update(server.environment)  # also for the processes that a test starts
    return server


def _s3_uri(folder: Path) -> str:
    s3_server()
    return f"s3://{BUCKET}/{folder.name}/store"


LOCAL = Kind("local", lambda folder: str(folder / "store"))
LOCAL_URI = Kind("local, by URI", lambda folder: f"file://{folder}/store")
MEMORY = Kind("memory", None)
S3 = Kind("s3", _s3_uri)

KINDS = [LOCAL, LOCAL_URI, MEMORY, S3]
SHARED = [kind for kind in KINDS if kind.uri is not None]
