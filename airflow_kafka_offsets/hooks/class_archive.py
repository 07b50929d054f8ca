# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Spark's classes in an archive (class-data sharing, JEP 350): a driver that maps it starts in two thirds of the time.

``python -m airflow_kafka_offsets.hooks.class_archive`` writes it, in some 25 s, when a worker or its image is made. An
archive fits one Java and one Spark. It lies beside Spark's jars: who can write there could replace those, too. A task
maps what is there, and writes nothing.

Spark's launcher puts its folder of settings in front of Spark's jars, and an archive has nothing that comes after such
a folder. So the jars are named once more in front of it, unless one of them has a file that is among the settings, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.spark_installation import (
    JOBS,
    SparkInstallation,
    find_spark,
    folder_of_settings,
    java_of,
    missing_variables,
)

# The first compiler and the serial collector: a small job is over before the second compiler pays.
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SILENT = "-Xlog:cds=off,cds+dynamic=off"  # Java lists there what it leaves out
_WITHIN_S = 900  # it tells of hanging only: beside other work a minute becomes many


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """
    :ivar file: where the archive is, if it was written.
    :ivar jars: the folder of Spark's jars.
    :ivar settings: the folder of its settings.
    """

    file: Path
    jars: Path
    settings: Path

    @property
    def class_path(self) -> str:
        """To be put in front of Spark's own."""
        return f"{self.jars}/*"

    def options(self) -> str:
        """For a JVM that maps the archive; empty: there is none, or a jar would hide a setting."""
        try:
            in_jars = self.file.with_suffix(".txt").read_text().splitlines() if self.file.exists() else []
        except OSError:
            return ""
        if not in_jars or any((self.settings / name).exists() for name in in_jars):
            return ""
        return f'"-XX:SharedArchiveFile={self.file}" {_SILENT}'

    def write(self, submit: Path, environ: Mapping[str, str]) -> None:
        """Run a small Spark job, whose JVM writes the archive.

        :param submit: the ``spark-submit`` of this Spark.
        """
        with tempfile.TemporaryDirectory(dir=self.file.parent) as folder:
            draft, settings = Path(folder, "draft.jsa"), Path(folder, "conf")
            settings.mkdir()
            options = f'{SMALL_JVM} "-XX:ArchiveClassesAtExit={draft}" {_SILENT}'
            job: list[str | Path] = [submit, "--master", "local[1]", "--driver-class-path", self.class_path]
            job += ["--conf", "spark.ui.enabled=false", JOBS / "load_classes.py", f"{folder}/rows"]
            environ = {**environ, "SPARK_CONF_DIR": str(settings), "SPARK_SUBMIT_OPTS": options}
            subprocess.run(job, cwd=folder, env=environ, capture_output=True, timeout=_WITHIN_S, check=True)
            self.file.with_suffix(".txt").write_text("\n".join(_files_in(self.jars)))
            draft.chmod(0o644)
            draft.rename(self.file)


def class_archive(spark: SparkInstallation, environ: Mapping[str, str]) -> ClassArchive | None:
    """The archive for drivers that are started here; ``None``: there can be none."""
    java = java_of(environ)
    if spark.home is None or java is None:
        return None
    jars, release = spark.home / "jars", java.resolve().parent.parent / "release"
    if not release.is_file():
        return None
    states = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars.glob("*.jar"))
    fits = sha256(repr((str(release), release.read_text(), str(jars), states)).encode()).hexdigest()[:16]
    return ClassArchive(spark.home / f"kafka-offsets-{fits}.jsa", jars, folder_of_settings(spark, environ))


def _files_in(jars: Path) -> list[str]:
    """What the jars have outside of folders, and settings might be."""
    names = (name for jar in jars.glob("*.jar") for name in ZipFile(jar).namelist())
    return sorted({name for name in names if "/" not in name and not name.endswith(".class")})


def main() -> int:
    """Write the archive of the Spark and the Java that a task here would find."""
    try:
        spark = find_spark("spark-submit", os.environ)
        archive = class_archive(spark, os.environ)
        if archive is None:
            raise InvalidRequest((f"{spark.submit} has no jars beside it, or its Java has no file `release`.",))
        archive.write(spark.submit, {**os.environ, **missing_variables(spark, os.environ)})
    except (InvalidRequest, OSError, BadZipFile, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace")[-2000:]
        print(f"No archive was written: {error} {said}", file=sys.stderr)
        return 1
    print(f"Spark's classes are in {archive.file} ({archive.file.stat().st_size >> 20} MiB). Drivers here map it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
