# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The checkpoint location as a driver sees it: get, put and list, by the Hadoop file systems that Spark has.

Nothing has to be installed on a driver for it, and it uses Spark's own credentials. A driver only writes names that are
its own, so nothing has to be created exclusively (``s3a`` cannot). Over Spark Connect the JVM is elsewhere: then the
store is handed in.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from typing import Any, Protocol

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.errors import InvalidJob, StoreUnavailable

_OBJECT_STORES = {"s3a", "s3", "s3n", "gs"}  # abfs shows a file while it is written, and renames at once
DRAFT = ".draft"


class Store(Protocol):
    """The checkpoint location. Names are relative to it, without a slash at the start."""

    def get(self, name: str) -> bytes | None:
        """The object; ``None``: there is none."""

    def put(self, name: str, data: bytes) -> None:
        """Write the object. Readers see all of it or nothing."""

    def list(self, folder: str) -> list[str]:
        """Names in the folder, without its own; ``[]``: there is no such folder."""


def jvm_of(spark: SparkSession | None) -> Any:
    """The driver's JVM; ``None`` over Spark Connect."""
    return getattr(spark, "_jvm", None)


@lru_cache(maxsize=4)
def major_version(spark: SparkSession) -> int:
    """Of Spark. Over Spark Connect it is a request."""
    return int(spark.version.partition(".")[0])


def settings_of(spark: SparkSession) -> dict[str, str]:
    """All settings of the session that are not Spark's own. Over Spark Connect it is a request, as one setting is."""
    if major_version(spark) >= 4:
        return dict(spark.conf.getAll)
    every = spark._jsparkSession.conf().getAll().iterator()
    found = {}
    while every.hasNext():
        pair = every.next()
        found[pair._1()] = pair._2()
    return found


def require_jvm(spark: SparkSession, what: str) -> Any:
    """:raises InvalidJob: there is no JVM; ``what`` needs it."""
    if (jvm := jvm_of(spark)) is None:
        raise InvalidJob(what, "It needs the JVM of the driver, and a session of Spark Connect has none", "Use a table")
    return jvm


def hadoop_conf(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().newHadoopConf()


class HadoopStore:
    """:class:`Store` by Hadoop's file system for the location's scheme.

    An object is read and written in one request each, where the file system can: it does not ask for the size of an
    object that was listed (objects never change), nor whether a name that is about to be written is a folder.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm = require_jvm(spark, f"Cannot open the checkpoint location {root}")
        conf = hadoop_conf(spark)
        self._path = jvm.org.apache.hadoop.fs.Path
        self.root = f"file://{root}" if root.startswith("/") else root
        if root.startswith("s3://") and not conf.get("fs.s3.impl"):
            self.root = f"s3a{root.removeprefix('s3')}"
        system = self._ask("open", "", lambda: self._path(self.root).getFileSystem(conf))
        scheme, uri = system.getScheme(), system.getUri()
        if scheme == "file":  # Spark's own leaves files with checksums beside the objects
            system = jvm.org.apache.hadoop.fs.RawLocalFileSystem()
            system.initialize(uri, conf)
        self._system, self._is_atomic = system, scheme in _OBJECT_STORES
        self._listed: dict[str, Any] = {}

    def get(self, name: str) -> bytes | None:
        def read() -> bytes:
            if (status := self._listed.get(name)) is None:
                opened = self._system.open(self._path(f"{self.root}/{name}"))
            else:  # by its own path: Hadoop 3.3 refuses another spelling
                opened = self._system.openFile(status.getPath()).withFileStatus(status).build().get()
            with closing(opened) as stream:
                return bytes(stream.readAllBytes())

        data: bytes | None = self._ask("read", name, read)
        return data

    def put(self, name: str, data: bytes) -> None:
        path = self._path(f"{self.root}/{name}")
        draft = path if self._is_atomic else self._path(path.getParent(), f".{uuid.uuid4().hex}{DRAFT}")

        def write() -> bool:
            builder = self._system.createFile(draft).overwrite(True).recursive()
            with closing(builder.opt("fs.s3a.create.performance", "true").build()) as stream:
                stream.write(bytearray(data))
            return self._is_atomic or bool(self._system.rename(draft, path))

        if not self._ask("write", name, write):
            cause = f"The file system did not rename {draft.toString()}"
            raise StoreUnavailable(f"Cannot write {name} in the checkpoint location {self.root}", cause, "Try again")

    def list(self, folder: str) -> list[str]:
        statuses = self._ask("list", folder, lambda: self._system.listStatus(self._path(f"{self.root}/{folder}")))
        listed = {status.getPath().getName(): status for status in statuses or ()}
        self._listed |= {f"{folder}/{name}": status for name, status in listed.items()}
        return sorted(name for name in listed if not name.endswith(DRAFT))

    def _ask(self, verb: str, name: str, question: Callable[[], Any]) -> Any:
        """The answer; ``None``: there is no such object or folder."""
        from py4j.protocol import Py4JJavaError

        try:
            return question()
        except Py4JJavaError as error:
            java = error.java_exception
            kind = java.getClass().getSimpleName()
            if kind == "FileNotFoundException" and verb in ("read", "list"):
                return None
            reason = f"{kind}: {java.getMessage()}".splitlines()[0]
        what = f"Cannot {verb} {name} in the checkpoint location {self.root}".replace("  ", " ")
        raise StoreUnavailable(what, reason, "Give the job Hadoop's file system for it and the rights to use it")
