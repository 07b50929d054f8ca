"""Folders of an output, through the file systems that Spark has itself: what Spark can write, this can list and rename.

Only names and states of files pass here, never their content, apart from a list of folders of some lines.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from airflow_kafka_offsets.spark.driver_jvm import hadoop_conf, jvm_of, require_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folders:
    """The file system that a path lies on.

    :raises InvalidRequest: there is no JVM to ask: a session of Spark Connect.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._fs = require_jvm(spark, "Files are put in their place").org.apache.hadoop.fs
        self._system = self._fs.Path(path).getFileSystem(hadoop_conf(spark))

    def found(self, pattern: str) -> list[str]:
        """The files and folders that match, sorted; none where there is nothing."""
        statuses = self._system.globStatus(self._fs.Path(pattern))  # null where a path without wildcard is absent
        return sorted(status.getPath().toString() for status in statuses or ())

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._fs.Path(path)))

    def move(self, source: str, target: str) -> None:
        """Rename a folder to a name that is free.

        :raises OSError: the file system did not; what is where is as it was, where a rename is one step.
        """
        to = self._fs.Path(target)
        self._system.mkdirs(to.getParent())
        # Hadoop would move it *into* a folder of that name.
        if self._system.exists(to) or not self._system.rename(self._fs.Path(source), to):
            raise OSError(f"could not rename {source} to {target}")

    def remove(self, path: str) -> None:
        """With all that is in it; no error where it is gone."""
        self._system.delete(self._fs.Path(path), True)

    def write_lines(self, path: str, lines: list[str]) -> None:
        """A small file of lines without line feed. Until this returns it may be there without all of them."""
        with closing(self._system.create(self._fs.Path(path), True)) as stream:
            stream.write(bytearray("".join(f"{line}\n" for line in lines).encode()))

    def read_lines(self, path: str) -> list[str]:
        with closing(self._system.open(self._fs.Path(path))) as stream:
            content: bytes = stream.readAllBytes()
        # Not splitlines(): names of folders may hold what it takes for the end of a line, such as U+2028.
        return content.decode().split("\n")[:-1]


def scheme_of(spark: SparkSession, path: str) -> str:
    """Of the file system that a path lies on, such as ``s3a``; empty where there is no JVM to ask for the default."""
    scheme, slashes, _ = path.partition("://")
    if slashes:
        return scheme.lower()
    jvm = jvm_of(spark)
    if jvm is None:
        return ""
    fs = jvm.org.apache.hadoop.fs
    own = fs.Path(path or "/").toUri().getScheme() or fs.FileSystem.getDefaultUri(hadoop_conf(spark)).getScheme()
    return str(own).lower()
