"""The kinds of store that pass the contract suite, and where a test's own one is: a new kind is one more line here."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.open import open_store
from airflow_kafka_offsets.store.protocol import Store
from testbed import azure_server, gcs_server, s3_server
from testbed.http_server import HttpServer
from testbed.s3_files import S3Files

BUCKET = "checkpoints"


@dataclass(frozen=True)
class Place:
    """Where a store is, and obstore's options for it. Each ``open`` is as another process would open it."""

    uri: str
    options: dict[str, Any] = field(default_factory=dict)

    def open(self) -> Store:
        return open_store(self.uri, (lambda _: self.options) if self.options else None)


@dataclass(frozen=True)
class InMemory:
    store: MemoryStore = field(default_factory=MemoryStore)

    def open(self) -> Store:
        return self.store


@dataclass(frozen=True)
class Kind:
    """:ivar server: makes the server that keeps it; ``None``: no server does.
    :ivar uri: of a folder in a bucket.
    :ivar options: of obstore's store, for the server's endpoint or a proxy's before it.
    """

    name: str
    server: Callable[[], HttpServer] | None = None
    uri: str = ""
    options: Callable[[str], dict[str, Any]] = lambda endpoint: {}

    def place(self, folder: Path, bucket: str = BUCKET, **more: Any) -> Place | InMemory:
        if self.name == "memory":
            return InMemory()
        if self.server is None:
            (folder / "store").mkdir(exist_ok=True)
            return Place(f"{self.uri}{folder}/store")
        return self.through(server_of(self.server).endpoint, folder, bucket, **more)

    def through(self, endpoint: str, folder: Path, bucket: str = BUCKET, **more: Any) -> Place:
        """The same place, as somebody sees it who reaches the server by ``endpoint``."""
        return Place(f"{self.uri.format(bucket)}/{folder.name}/store", {**self.options(endpoint), **more})


@cache
def server_of(kind: Callable[[], HttpServer]) -> HttpServer:
    """One server for all tests of this process; it ends with it. A folder of its own is enough for a test."""
    server = kind().__enter__()
    server.create_bucket(BUCKET)
    return server


def versitygw(metadata: bool = True) -> S3Files:
    folder = Path(tempfile.mkdtemp(prefix="versitygw-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return S3Files(folder / "buckets", metadata=metadata)


def s3_options(endpoint: str) -> dict[str, Any]:
    keys = {"access_key_id": s3_server.KEY, "secret_access_key": s3_server.SECRET}
    return {"endpoint": endpoint, "region": "us-east-1", **keys}


def _gcs_options(endpoint: str) -> dict[str, Any]:
    return {"service_account_key": gcs_server.service_account_key(endpoint)}


def _azure_options(endpoint: str) -> dict[str, Any]:
    return {"account_key": azure_server.KEY, "endpoint": f"{endpoint}/{azure_server.ACCOUNT}"}


def _param(kind: Kind, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(kind, id=kind.name, marks=marks)


S3 = Kind("s3", s3_server.S3Server, "s3://{}", s3_options)
AZURE = f"abfss://{{}}@{azure_server.ACCOUNT}.dfs.core.windows.net"
SERVED = [
    _param(S3, pytest.mark.starts_processes),
    _param(Kind("versitygw", versitygw, "s3://{}", s3_options), pytest.mark.clouds),
    _param(Kind("google", gcs_server.GcsServer, "gs://{}", _gcs_options), pytest.mark.clouds),
    _param(Kind("azure", azure_server.AzureServer, AZURE, _azure_options), pytest.mark.clouds),
]
SHARED = [_param(Kind("folder")), *SERVED]
KINDS = [_param(Kind("memory")), *SHARED]
