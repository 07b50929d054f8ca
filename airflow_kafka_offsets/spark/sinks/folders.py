"""Folders as Hadoop's file systems have them, asked through the driver's JVM.

Their ``rename`` has two traps, so :meth:`Folders.move` looks first, and looks at the answer: onto a folder that exists
it moves *into* that one and says true on a local disk; on S3 it moves nothing and says false.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.errors import LateAttempt
from airflow_kafka_offsets.spark.store import hadoop_conf, require_jvm

_RENAMING = {"file", "hdfs", "viewfs"}


class Folders:
    """The file system of one path.

    :ivar renames: whether it renames a folder in one step; an object store copies file by file.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm = require_jvm(spark, f"Cannot write files to {path}")
        self._path = jvm.org.apache.hadoop.fs.Path
        system = self._path(path).getFileSystem(hadoop_conf(spark))
        if system.getClass().getSimpleName() == "LocalFileSystem":
            system = system.getRawFileSystem()  # the other one leaves a file with a checksum beside each file
        self._system = system
        self.scheme: str = system.getUri().getScheme()
        self.renames = self.scheme in _RENAMING

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._path(path)))

    def find(self, pattern: str) -> list[str]:
        """The paths that match, sorted."""
        return sorted(status.getPath().toString() for status in self._system.globStatus(self._path(pattern)) or ())

    def visible(self, pattern: str) -> list[str]:
        """As :meth:`find`; nothing where this job has no right to look."""
        from py4j.protocol import Py4JJavaError

        try:
            return self.find(pattern)
        except Py4JJavaError:
            return []

    def parents(self, path: str) -> Iterator[str]:
        """The folders around it, of a local one the real ones: a link leads elsewhere."""
        own = self._path(path)
        if self.scheme == "file":
            own = self._path(f"file://{os.path.realpath(own.toUri().getPath())}")
        while (own := own.getParent()) is not None:
            yield own.toString().rstrip("/")

    def move(self, source: str, target: str) -> None:
        """:raises LateAttempt: the target exists, or the source does not: another driver has moved it."""
        moved = (
            not self.exists(target) and self.exists(source) and self._system.rename(*map(self._path, (source, target)))
        )
        if not moved:
            cause = f"Another driver has written {target} or removed {source} meanwhile"
            raise LateAttempt(f"Cannot move {source} to {target}", cause, "The newest attempt writes the batch")

    def make(self, path: str) -> None:
        """Make the folder, if there is none."""
        self._system.mkdirs(self._path(path))

    def remove(self, path: str) -> None:
        """Remove the folder and all in it, if it exists."""
        self._system.delete(self._path(path), True)

    def read(self, path: str) -> bytes | None:
        """The file; ``None``: there is none."""
        if not self.exists(path):
            return None
        with closing(self._system.open(self._path(path))) as stream:
            return bytes(stream.readAllBytes())

    def create(self, path: str, data: bytes) -> None:
        """Write a file, if there is none."""
        from py4j.protocol import Py4JJavaError

        try:
            stream: Any = self._system.create(self._path(path), False)
        except Py4JJavaError:
            if self.exists(path):
                return
            raise
        with closing(stream):
            stream.write(bytearray(data))
