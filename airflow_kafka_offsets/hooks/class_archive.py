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
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from airflow_kafka_offsets.hooks.spark_installation import JOBS, SparkInstallation, folder_of_settings, java_of

log = logging.getLogger(__name__)

# The first compiler and the serial collector: a small job is over before the second compiler pays.
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SILENT = "-Xlog:cds=off,cds+dynamic=off"  # Java lists there what it leaves out
_UNUSED_S = 30 * 86_400
_WITHIN_S = 300


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """
    :ivar file: where the archive is, or will be.
    :ivar submit: the ``spark-submit`` of the Spark that it is for.
    :ivar jars: the folder of that Spark's jars.
    :ivar settings: the folder of its settings.
    """

    file: Path
    submit: Path
    jars: Path
    settings: Path

    @property
    def class_path(self) -> str:
        """To be put in front of Spark's own."""
        return f"{self.jars}/*"

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
                tried.write_text("\n".join(_files_in(self.jars)))
                log.info("Spark's classes go to %s, once on this worker: later drivers start faster.", self.file)
                self._write()
        except (OSError, BadZipFile, subprocess.SubprocessError) as error:  # the batch is written all the same
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace")[-500:]
            log.warning("No archive was written, and later drivers start as before: %s %s", error, said)

    def _write(self) -> None:
        with tempfile.TemporaryDirectory(dir=self.file.parent) as folder:
            draft, settings = Path(folder, "draft.jsa"), Path(folder, "conf")
            settings.mkdir()
            options = f'{SMALL_JVM} "-XX:ArchiveClassesAtExit={draft}" {_SILENT}'
            job: list[str | Path] = [self.submit, "--master", "local[1]", "--driver-class-path", self.class_path]
            job += ["--conf", "spark.ui.enabled=false", JOBS / "load_classes.py", f"{folder}/rows"]
            environ = {**os.environ, "SPARK_CONF_DIR": str(settings), "SPARK_SUBMIT_OPTS": options}
            subprocess.run(job, cwd=folder, env=environ, capture_output=True, timeout=_WITHIN_S, check=True)
            draft.rename(self.file)
        for other in self.file.parent.glob("*.jsa"):
            if time.time() - other.stat().st_mtime > _UNUSED_S:
                other.unlink(missing_ok=True)


def class_archive(spark: SparkInstallation, environ: Mapping[str, str]) -> ClassArchive | None:
    """The archive for drivers that are started here; ``None``: there can be none."""
    java = java_of(environ)
    if spark.home is None or java is None:
        return None
    jars, release = spark.home / "jars", java.resolve().parent.parent / "release"
    folder = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "airflow-kafka-offsets", "spark-classes")
    if not release.is_file():
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:  # an archive is code that drivers run
        return None
    states = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars.glob("*.jar"))
    fits = sha256(repr((str(release), release.read_text(), str(jars), states)).encode()).hexdigest()[:16]
    return ClassArchive(folder / f"{fits}.jsa", spark.submit, jars, folder_of_settings(spark, environ))


def _files_in(jars: Path) -> list[str]:
    """What the jars have outside of folders, and settings might be."""
    names = (name for jar in jars.glob("*.jar") for name in ZipFile(jar).namelist())
    return sorted({name for name in names if "/" not in name and not name.endswith(".class")})
