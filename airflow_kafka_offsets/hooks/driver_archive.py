"""A driver's JVM that starts in half the time: it maps Spark's classes from an archive (class-data sharing, JEP 350).

An archive fits one Java and one Spark. A JVM ignores one that does not fit, says so in one line, and starts as slowly
as without. The first run on a worker leaves a note, the second one starts a process of low priority that makes the
archive beside the run, and the runs after that use it. So a pod that runs one task and goes makes none.

Spark's launcher puts its folder of settings before Spark's jars, and a JVM takes no archive of what comes after a
folder that is not empty. So the jars are named once more, in front of that folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from airflow_kafka_offsets.hooks.spark_installation import SparkInstallation, java_of
from airflow_kafka_offsets.spark import jobs

OLDEST_JAVA = 13
KEPT = 4  # archives of a folder; each has about 160 MB
STALE_S = 3600  # a process that makes an archive has ended before
_OTHER_ARCHIVE = re.compile(r"-XX:SharedArchiveFile|-Xshare:off|-XX:ArchiveClassesAtExit")
_WARM_UP = Path(jobs.__file__).with_name("load_classes.py")


@dataclass(frozen=True, slots=True)
class DriverArchive:
    """The archive of one Java, one Spark and one class path; it may not be there yet.

    :ivar file: where it lies, or will lie.
    :ivar java_home: the Java that made it, and that may use it.
    :ivar spark: as found on this worker.
    :ivar class_path: what stands before Spark's folder of settings: ``spark.driver.extraClassPath``.
    """

    file: Path
    java_home: Path
    spark: SparkInstallation
    class_path: str

    def options(self) -> str:
        """For the JVM; empty as long as the archive is not there."""
        try:
            os.utime(self.file)  # the archives that were used last are kept
        except OSError:
            return ""
        return f'"-XX:SharedArchiveFile={self.file}"'

    def make_beside_this_run(self) -> bool:
        """Start a process that makes the archive, if a run was here before and nobody makes it. Returns at once."""
        note, making = self.file.with_suffix(".note"), self.file.with_suffix(".making")
        with contextlib.suppress(OSError):
            if time.time() - making.stat().st_mtime < STALE_S:
                return False
            making.unlink()
        try:
            note.rename(making)  # one of several runs does it
        except OSError:
            note.touch()
            return False
        making.touch()
        words = (self.file, self.java_home, self.spark.submit, self.spark.home, self.class_path)
        subprocess.Popen(
            [sys.executable, "-m", __name__, *map(str, words)],
            start_new_session=True,  # the end of this task is not its end
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in ("HOME", "LANG", "PATH", "PYTHONPATH") if name in os.environ},
        )
        return True


def driver_archive(
    spark: SparkInstallation, environ: Mapping[str, str], configured: Mapping[str, str], class_path: str | None
) -> DriverArchive | None:
    """The archive for a driver that is started here; ``None`` where there can be none, or somebody has their own.

    :param configured: Spark's settings.
    :param class_path: the driver's, where it is given apart from the settings.
    """
    settings = [configured.get(f"spark.driver.{name}JavaOptions", "") for name in ("default", "extra")]
    named = " ".join([environ.get("SPARK_SUBMIT_OPTS", ""), *settings])
    java_home = _java_home(environ)
    folder = _own_folder(environ)
    if spark.home is None or java_home is None or folder is None or _OTHER_ARCHIVE.search(named):
        return None
    jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in spark.home.glob("jars/*.jar"))
    before = class_path or configured.get("spark.driver.extraClassPath", "")
    path = ":".join(filter(None, [before, f"{spark.home}/jars/*"]))
    identity = repr((str(java_home), (java_home / "release").read_text(), path, jars))
    return DriverArchive(folder / f"{sha256(identity.encode()).hexdigest()[:16]}.jsa", java_home, spark, path)


def _java_home(environ: Mapping[str, str]) -> Path | None:
    """Of a Java that can have such an archive, and has the one of its own classes, on which it is built."""
    java = java_of(environ)
    home = java and java.resolve().parent.parent
    if not home or not all((home / name).is_file() for name in ("release", "lib/server/classes.jsa")):
        return None
    version = re.search(r'^JAVA_VERSION="(\d+)', (home / "release").read_text(), re.MULTILINE)
    return home if version and int(version[1]) >= OLDEST_JAVA else None


def _own_folder(environ: Mapping[str, str]) -> Path | None:
    """A folder that nobody else can write to: who writes an archive writes code that the driver runs."""
    cache = environ.get("XDG_CACHE_HOME") or (Path(environ["HOME"]) / ".cache" if environ.get("HOME") else None)
    if not cache:
        return None
    folder = Path(cache) / "airflow-kafka-offsets" / "driver-archives"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return None
    return folder if found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def make(file: Path, java_home: Path, submit: Path, spark_home: Path, class_path: str) -> None:
    """Start a driver that loads what most drivers load, and let its JVM write the archive when it ends."""
    os.nice(19)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix="making-", ignore_cleanup_errors=True) as folder:
        archive, conf = Path(folder) / "archive.jsa", Path(folder) / "conf"
        conf.mkdir()
        done = subprocess.run(
            [
                str(submit),
                *("--master", "local[1]", "--driver-class-path", class_path),
                *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
                *("--conf", "spark.driver.bindAddress=127.0.0.1"),
                str(_WARM_UP),
                str(Path(folder) / "rows"),
            ],
            cwd=folder,
            env={
                **os.environ,
                "JAVA_HOME": str(java_home),
                "SPARK_HOME": str(spark_home),
                "SPARK_CONF_DIR": str(conf),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={archive} -XX:TieredStopAtLevel=1",
            },
            stdin=subprocess.DEVNULL,
            timeout=STALE_S / 2,
            check=False,
        )
        if done.returncode == 0 and archive.is_file():
            archive.replace(file)
    file.with_suffix(".making").unlink(missing_ok=True)
    archives = sorted(file.parent.glob("*.jsa"), key=lambda one: one.stat().st_mtime)
    for old in archives[:-KEPT]:
        old.unlink(missing_ok=True)


if __name__ == "__main__":
    _FILE, _JAVA, _SUBMIT, _SPARK = map(Path, sys.argv[1:5])
    make(_FILE, _JAVA, _SUBMIT, _SPARK, class_path=sys.argv[5])
