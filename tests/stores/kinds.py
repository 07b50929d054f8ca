"""The kinds of work store that keep the contract, and how a test makes one: a new kind is one more line here."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.store import Store
from testbed.azure_server import AzureServer
from testbed.gcs_server import GcsServer
from testbed.hdfs_server import HdfsServer
from testbed.http_server import HttpServer
from testbed.java import find_java
from testbed.s3_server import S3Server
from tests.model.store import MemoryStore

BUCKET = "work-stores"
Server = TypeVar("Server", bound=HttpServer)


@dataclass(frozen=True)
class Kind:
    """:ivar uri: where a test's own store is; ``None``: it is in this process alone, and nobody else can open it.
    :ivar server: the server that holds it, if one does.
    :ivar needs_option: its server needs Go, npm or Java: with ``--clouds`` (`make test-system`), and only then.
    """

    name: str
    uri: Callable[[Path], str] | None
    server: Callable[[], HttpServer | HdfsServer] | None = None
    needs_option: bool = False

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
    return _started(S3Server())


@cache
def gcs_server() -> GcsServer:
    return _started(GcsServer())


@cache
def azure_server() -> AzureServer:
    return _started(AzureServer())


@cache
def hdfs_server() -> HdfsServer:
    server = HdfsServer(find_java()).__enter__()
    atexit.register(server.close)  # it has a folder
    return server


def _started(server: Server) -> Server:
    server.__enter__()
    server.create_bucket(BUCKET)
    os.environ.update(server.environment)  # also for the processes that a test starts
    return server


def _served(name: str, scheme: str, server: Callable[[], HttpServer], needs_option: bool = False) -> Kind:
    def uri(folder: Path) -> str:
        server()
        return f"{scheme}://{BUCKET}/{folder.name}/store"

    return Kind(name, uri, server, needs_option)


def _hdfs_uri(folder: Path) -> str:
    server = hdfs_server()
    return f"webhdfs://{server.addresses[0]}{server.folder}/{folder.name}/store"


LOCAL = Kind("local", lambda folder: str(folder / "store"))
LOCAL_URI = Kind("local, by URI", lambda folder: f"file://{folder}/store")
MEMORY = Kind("memory", None)
S3 = _served("s3", "s3", s3_server)
GCS = _served("gcs", "gs", gcs_server, needs_option=True)
AZURE = _served("azure", "abfs", azure_server, needs_option=True)
HDFS = Kind("hdfs", _hdfs_uri, hdfs_server, needs_option=True)

KINDS = [LOCAL, LOCAL_URI, MEMORY, S3, GCS, AZURE, HDFS]
SHARED = [kind for kind in KINDS if kind.uri is not None]
SERVED = [kind for kind in KINDS if kind.server is not None]
