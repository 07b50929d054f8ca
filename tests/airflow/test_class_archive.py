"""The archive of Spark's classes: written by a command, and mapped by drivers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from airflow_kafka_offsets.hooks.class_archive import ClassArchive, class_archive, main
from airflow_kafka_offsets.hooks.spark_installation import SparkInstallation, find_spark

pytestmark = pytest.mark.long

WRITES = """#!/bin/sh
echo run >> {log}
draft=${{SPARK_SUBMIT_OPTS#*ArchiveClassesAtExit=}}
echo archive > "${{draft%%\\"*}}"
"""


@pytest.fixture
def spark(tmp_path: Path) -> SparkInstallation:
    (tmp_path / "jars").mkdir()
    (tmp_path / "conf").mkdir()
    with ZipFile(tmp_path / "jars" / "spark-core_2.13-4.0.0.jar", "w") as jar:
        for name in ("core-default.xml", "org/apache/spark/log4j2.properties"):
            jar.writestr(name, "")
    return SparkInstallation(_submit(tmp_path, WRITES), tmp_path, "4.0.0", "2.13")


def _submit(folder: Path, text: str) -> Path:
    submit = folder / "spark-submit"
    submit.write_text(text.format(log=folder / "log"))
    submit.chmod(0o755)
    return submit


def _archive(spark: SparkInstallation, environ: Mapping[str, str] = os.environ) -> ClassArchive:
    archive = class_archive(spark, environ)
    assert archive is not None
    return archive


def test_a_task_maps_what_the_command_has_written_and_writes_nothing(
    spark: SparkInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    before = sorted(tmp_path.iterdir())
    assert _archive(spark).options() == ""
    assert sorted(tmp_path.iterdir()) == before

    assert main() == 0
    archive = _archive(spark)
    assert str(archive.file) in capsys.readouterr().out
    assert f'"-XX:SharedArchiveFile={archive.file}"' in archive.options()
    assert archive.file.read_text() == "archive\n"
    assert (tmp_path / "log").read_text() == "run\n"


@pytest.mark.parametrize("text", ["#!/bin/sh\necho no memory >&2\nexit 1\n", "#!/bin/sh\nexit 0\n", "no program"])
def test_a_command_that_fails_says_why_and_leaves_no_archive(
    spark: SparkInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    text: str,
) -> None:  # fmt: skip
    _submit(tmp_path, text)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert main() == 1
    assert "No archive was written" in (said := capsys.readouterr().err)
    assert ("no memory" in said) == ("no memory" in text)
    assert _archive(spark).options() == ""


def test_another_spark_has_another_archive(spark: SparkInstallation, tmp_path: Path) -> None:
    before = _archive(spark).file
    ZipFile(tmp_path / "jars" / "connector.jar", "w").close()
    assert _archive(spark).file != before


def test_it_is_not_mapped_where_a_jar_would_hide_a_setting(spark: SparkInstallation, tmp_path: Path) -> None:
    environ = {**os.environ, "SPARK_CONF_DIR": str(tmp_path / "conf")}
    _archive(spark, environ).write(spark.submit, environ)
    (tmp_path / "conf" / "log4j2.properties").touch()
    assert _archive(spark, environ).options() != ""
    (tmp_path / "conf" / "core-default.xml").touch()
    assert _archive(spark, environ).options() == ""


def test_there_is_none_without_a_java_or_the_jars_of_spark(spark: SparkInstallation, tmp_path: Path) -> None:
    assert class_archive(spark, {**os.environ, "JAVA_HOME": str(tmp_path)}) is None
    assert class_archive(SparkInstallation(spark.submit), os.environ) is None


@pytest.mark.slow
def test_a_driver_takes_most_classes_of_spark_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    found = find_spark("spark-submit", os.environ)
    assert found.home is not None
    for part in found.home.iterdir():  # a Spark of its own, so that others find no archive
        (tmp_path / part.name).symlink_to(part)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{found.submit.parent}:{os.environ['PATH']}")
    assert main() == 0
    spark = find_spark("spark-submit", os.environ)
    archive, loaded = _archive(spark), tmp_path / "loaded"
    job = tmp_path / "job.py"
    job.write_text("from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().range(5).collect()\n")
    subprocess.run(
        [spark.submit, "--master", "local[1]", "--driver-class-path", archive.class_path, job],
        env={**os.environ, "SPARK_SUBMIT_OPTS": f"{archive.options()} -Xlog:class+load:file={loaded}"},
        check=True,
    )
    lines = [line for line in loaded.read_text().splitlines() if " org.apache.spark." in line]
    mapped, from_jars = (sum(source in line for line in lines) for source in ("shared objects file (top)", "file:/"))
    assert mapped > 1000
    assert from_jars < mapped / 10
