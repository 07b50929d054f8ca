"""The JVM of a Spark driver, through Py4J. No other file touches PySpark's private parts (docs/private-parts.md).

PySpark has no public way to Hadoop's file systems, to Kafka's Java client or to the plan of a frame. A session of Spark
Connect has no JVM here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def jvm_of(spark: SparkSession | None) -> Any:
    """``None`` where there is none."""
    return getattr(spark, "_jvm", None)


def require_jvm(spark: SparkSession, what: str) -> Any:
    """The JVM of a session.

    :raises InvalidRequest: it is one of Spark Connect, whose JVM is elsewhere.
    """
    jvm = jvm_of(spark)
    if jvm is None:
        raise InvalidRequest(
            [f"{what} through the driver's JVM, which Spark Connect has not. Write to Delta or Iceberg."]
        )
    return jvm


def hadoop_conf(spark: SparkSession) -> Any:
    """Hadoop's settings of a session that has a JVM."""
    return spark._jsparkSession.sessionState().newHadoopConf()


def query_execution(frame: DataFrame) -> Any:
    """The plans of a frame; ``None`` where there is no JVM."""
    java = getattr(frame, "_jdf", None)
    return None if java is None else java.queryExecution()


@contextmanager
def with_settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Give settings of a session that has a JVM another value while the block runs."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


# ── folders of an output, through the file systems that Spark has itself ──────────────────────────────────────────────


class Folders:
    """The file system that a path lies on: what Spark can write, this can list and rename.

    Only names and states of files pass here, never their content, apart from a list of folders of some lines.

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
