"""A work store as a Spark driver sees it: through Spark's file systems, with the credentials that they have.

Nothing has to be installed on a driver for it. These file systems cannot create exclusively everywhere (``s3a`` lets
two writers of one name win), which is why a driver only writes names that are its own. On HDFS others would see half of
what is being written: there it is written under a name of its own, and renamed.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.spark.driver_jvm import hadoop_conf, jvm_of, require_jvm
from airflow_kafka_offsets.stores.location import HDFS, Location, location_of
from airflow_kafka_offsets.stores.open import open_store
from airflow_kafka_offsets.stores.store import DRAFT, LARGEST_OBJECT, Store, all_names, require_inside, unavailable


def open_driver_store(uri: str, spark: SparkSession | None) -> Store:
    """The work store at ``uri``, as this driver can reach it.

    :param spark: by default the active session; a folder needs none.
    :raises InvalidRequest: there is no session yet.
    """
    location = location_of(uri)
    if location.kind == "file":
        return open_store(uri)

    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise InvalidRequest(
            (f"The work store {uri} is read through Spark: make the SparkSession before planned_batch is called.",)
        )
    # A session of Spark Connect has no JVM here: then fsspec, which has to be installed.
    return open_store(uri) if jvm_of(session) is None else HadoopStore(session, location)


class HadoopStore:
    """:class:`~airflow_kafka_offsets.stores.store.Store` through Hadoop's file system for its URI, but for one promise.

    ``create`` writes whatever is there: the name must be the caller's own.

    :raises InvalidRequest: there is no JVM to ask: a session of Spark Connect.
    :raises StoreUnavailable: Spark has no file system for it, or no credentials.
    """

    is_remote = False  # a driver asks little, and one thing after the other

    def __init__(self, spark: SparkSession, location: Location) -> None:
        self._jvm = require_jvm(spark, "The work store is read")
        self._fs = self._jvm.org.apache.hadoop.fs
        conf = hadoop_conf(spark)
        self.uri = self.driver_uri = location.uri
        self._root = _hadoop_uri(location, conf)
        self._renames = self._fs.FileContext.getFileContext(conf) if location.kind in HDFS else None
        self._system = self._ask("open", "", lambda: self._fs.Path(self._root).getFileSystem(conf))

    def create(self, name: str, data: bytes) -> bool:
        self._ask("write", name, lambda: self._write(name, data))
        return True

    def get(self, name: str) -> bytes | None:
        found: bytes | None = self._ask("read", name, lambda: self._read(name))
        return found

    def list(self, folder: str) -> list[str]:
        statuses = self._ask("list", folder, lambda: self._system.listStatus(self._path(folder))) or ()
        names = [(status.getPath().getName(), status.isDirectory()) for status in all_names(statuses, self.uri, folder)]
        return sorted(f"{name}/" if is_folder else name for name, is_folder in names if not name.endswith(DRAFT))

    def delete(self, name: str) -> None:
        self._ask("remove", name, lambda: self._system.delete(self._path(name), False))

    def _path(self, name: str) -> Any:
        # As a URI's part: Hadoop's Path(String) takes no %-escapes as such, and keeps them.
        return self._fs.Path(f"{self._root}/{require_inside(self.uri, 'use', name)}".rstrip("/"))

    def _write(self, name: str, data: bytes) -> None:
        target = self._path(name)
        if self._renames is None:
            self._write_file(target, data)
            return
        draft = self._fs.Path(target.getParent(), f".{uuid.uuid4().hex}{DRAFT}")
        try:
            self._write_file(draft, data)
            self._renames.rename(draft, target, self._overwrite())
        finally:
            self._system.delete(draft, False)

    def _write_file(self, path: Any, data: bytes) -> None:
        builder = self._system.createFile(path).overwrite(True).recursive()
        with closing(builder.opt("fs.s3a.create.performance", "true").build()) as stream:  # no look for what is there
            stream.write(bytearray(data))

    def _overwrite(self) -> Any:
        """Java's array with the one option of a rename that takes the place of what is there."""
        option = getattr(self._fs, "Options$Rename").OVERWRITE
        options = self._jvm.java.lang.reflect.Array.newInstance(option.getClass(), 1)
        self._jvm.java.lang.reflect.Array.set(options, 0, option)
        return options

    def _read(self, name: str) -> bytes:
        with closing(self._system.open(self._path(name))) as stream:
            content: bytes = stream.readNBytes(LARGEST_OBJECT + 1)
        return content

    def _ask(self, verb: str, name: str, question: Any) -> Any:
        """The answer; ``None`` where there is no such object or folder to read."""
        from py4j.protocol import Py4JJavaError

        try:
            return question()
        except Py4JJavaError as error:
            java = error.java_exception
            kind = java.getClass().getSimpleName()
            if kind == "FileNotFoundException" and verb != "write":  # what was to be written is not there then
                return None
            text = next(iter(str(java.getMessage() or "").splitlines()), "")
            if kind == "UnsupportedFileSystemException" or "ClassNotFound" in text:
                raise StoreUnavailable(
                    f"Cannot {verb} the work store {self.uri} on this driver",
                    f"{kind}: {text}",
                    "Spark has no file system for it: give the job its package, for S3 "
                    "packages='org.apache.hadoop:hadoop-aws:<the version of Spark's Hadoop>'.",
                ) from None
            raise unavailable(self.uri, verb, name, f"{kind}: {text}") from None


def _hadoop_uri(location: Location, conf: Any) -> str:
    """The location as Spark names it; ``s3a://`` unless this Spark has something of its own for ``s3://``."""
    if location.kind == "s3" and not conf.get("fs.s3.impl"):
        return f"s3a://{location.root}"
    return location.for_spark()
