"""Folders of an output, through the file systems that Spark has itself: what Spark can write, this can list and rename.

Only names and states of files pass here, never their content, apart from a list of folders of some lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folders:
    """The file system that a path lies on.

    :raises InvalidRequest: there is no JVM to ask: a session of Spark Connect.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm = java_of(spark, "Files are put in their place")
        self._fs = jvm.org.apache.hadoop.fs
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._system = self._fs.Path(path).getFileSystem(conf)

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
        stream = self._system.create(self._fs.Path(path), True)
        try:
            stream.write(bytearray("".join(f"{line}\n" for line in lines).encode()))
        finally:
            stream.close()

    def read_lines(self, path: str) -> list[str]:
        stream = self._system.open(self._fs.Path(path))
        try:
            content: bytes = stream.readAllBytes()
        finally:
            stream.close()
        # Not splitlines(): names of folders may hold what it takes for the end of a line, such as U+2028.
        return content.decode().split("\n")[:-1]


def scheme_of(spark: SparkSession, path: str) -> str:
    """Of the file system that a path lies on, such as ``s3a``; empty where there is no JVM to ask for the default."""
    scheme, slashes, _ = path.partition("://")
    if not slashes and (jvm := getattr(spark, "_jvm", None)) is not None:
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        own = jvm.org.apache.hadoop.fs.Path(path or "/").toUri().getScheme()
        scheme = own or jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(conf).getScheme()
        return str(scheme).lower()
    return scheme.lower() if slashes else ""


def java_of(spark: SparkSession, what: str) -> Any:
    """The JVM of a session.

    :raises InvalidRequest: it is one of Spark Connect, whose JVM is elsewhere.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise InvalidRequest(
            [f"{what} through the driver's JVM, which Spark Connect has not. Write to Delta or Iceberg."]
        )
    return jvm
