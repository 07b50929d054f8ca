"""Spark's classes in an archive (class-data sharing, JEP 350): a driver that maps it starts in two thirds of the time.

An archive fits one Java and one Spark. The first run on a worker leaves a note; the second one starts a small Spark job
when its own is done, whose JVM writes the archive; the runs after it map it. So a pod that runs one task and goes
writes none. The run's own JVM does not write it: Java ends a process whose archive fails, and a written batch would
look as if it had failed.

Spark's launcher puts its folder of settings in front of Spark's jars, and an archive has nothing that comes after such
a folder. So the jars are named once more in front of it, unless one of them has a file that is among the settings, too.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import airflow_kafka_offsets
from airflow_kafka_offsets.hooks.spark_installation import SparkInstallation

log = logging.getLogger(__name__)

_JOB = Path(airflow_kafka_offsets.__file__).with_name("spark") / "jobs" / "load_classes.py"
_SILENT = "-Xlog:cds=off,cds+dynamic=off"  # Java lists there what it leaves out
_UNUSED_S = 30 * 86_400
_WITHIN_S = 300


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """
    :ivar file: where the archive is, or will be.
    :ivar spark: what it is for.
    :ivar class_path: to be put in front of Spark's own.
    :ivar settings: the folder of Spark's settings.
    """

    file: Path
    spark: SparkInstallation
    class_path: str
    settings: Path

    @property
    def options(self) -> str:
        """For a JVM that maps the archive; empty: there is none yet, or a jar would hide a setting."""
        try:
            os.utime(self.file)
            in_jars = self.file.with_suffix(".tried").read_text().splitlines()
        except OSError:
            return ""
        if any((self.settings / name).exists() for name in in_jars):
            return ""
        return f'"-XX:SharedArchiveFile={self.file}" {_SILENT}'

    def write_once(self) -> None:
        """Write the archive, if a run was here before and none has tried. It takes some 25 s."""
        seen, tried = self.file.with_suffix(".seen"), self.file.with_suffix(".tried")
        try:
            if not seen.exists():
                seen.touch()
            elif not tried.exists():
                tried.write_text("\n".join(_files_in(Path(self.class_path).parent)))
                log.info("Spark's classes go to %s, once on this worker: later drivers start faster.", self.file)
                self._write()
        except (OSError, BadZipFile, subprocess.SubprocessError) as error:  # the batch is written all the same
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace")[-500:]
            log.warning("No archive was written, and later drivers start as before: %s %s", error, said)

    def _write(self) -> None:
        with tempfile.TemporaryDirectory(dir=self.file.parent) as folder:
            draft, settings = Path(folder, "draft.jsa"), Path(folder, "conf")
            settings.mkdir()
            options = f'-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "-XX:ArchiveClassesAtExit={draft}" {_SILENT}'
            job: list[str | Path] = [self.spark.submit, "--master", "local[1]", "--driver-class-path", self.class_path]
            job += ["--conf", "spark.ui.enabled=false", _JOB, f"{folder}/rows"]
            environ = {**os.environ, "SPARK_CONF_DIR": str(settings), "SPARK_SUBMIT_OPTS": options}
            subprocess.run(job, cwd=folder, env=environ, capture_output=True, timeout=_WITHIN_S, check=True)
            draft.rename(self.file)
        for other in self.file.parent.glob("*.jsa"):
            if time.time() - other.stat().st_mtime > _UNUSED_S:
                other.unlink(missing_ok=True)


def class_archive(spark: SparkInstallation, environ: Mapping[str, str]) -> ClassArchive | None:
    """The archive for drivers that are started here; ``None``: there can be none."""
    java = Path(environ["JAVA_HOME"], "bin", "java") if environ.get("JAVA_HOME") else shutil.which("java")
    release = Path(java or "").resolve().parent.parent / "release"
    settings = Path(environ.get("SPARK_CONF_DIR") or f"{spark.home}/conf")
    folder = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "airflow-kafka-offsets", "spark-classes")
    if spark.home is None or not release.is_file():
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:  # an archive is code that drivers run
        return None
    jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in spark.home.glob("jars/*.jar"))
    fits = sha256(repr((str(release), release.read_text(), str(spark.home), jars)).encode()).hexdigest()[:16]
    return ClassArchive(folder / f"{fits}.jsa", spark, f"{spark.home}/jars/*", settings)


def _files_in(jars: Path) -> list[str]:
    """What the jars have outside of folders, and settings might be."""
    names = (name for jar in jars.glob("*.jar") for name in ZipFile(jar).namelist())
    return sorted({name for name in names if "/" not in name and not name.endswith(".class")})
