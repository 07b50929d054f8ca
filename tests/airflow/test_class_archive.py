"""The archive of Spark's classes: written once on a worker, and mapped by the runs after it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from airflow_kafka_offsets.hooks.class_archive import ClassArchive, class_archive
from airflow_kafka_offsets.hooks.spark_installation import SparkInstallation, find_spark

WRITES = """#!/bin/sh
echo run >> {log}
draft=${{SPARK_SUBMIT_OPTS#*ArchiveClassesAtExit=}}
echo archive > "${{draft%%\\"*}}"
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}


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


def _archive(spark: SparkInstallation, environ: dict[str, str]) -> ClassArchive:
    archive = class_archive(spark, environ)
    assert archive is not None
    return archive


def test_the_second_run_writes_it_and_the_third_maps_it(
    spark: SparkInstallation, environ: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    for _ in range(2):
        assert _archive(spark, environ).options() == ""
        assert not log.exists()
        _archive(spark, environ).write_once()
    archive = _archive(spark, environ)
    archive.write_once()
    assert log.read_text() == "run\n"
    assert f'"-XX:SharedArchiveFile={archive.file}"' in archive.options()
    assert archive.file.read_text() == "archive\n"
    assert sorted(archive.file.parent.iterdir()) == [archive.file.with_suffix(s) for s in (".jsa", ".seen", ".tried")]


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\nexit 0\n", "no program"])
def test_a_failure_is_logged_and_not_repeated(
    spark: SparkInstallation, environ: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    _submit(tmp_path, text)
    for _ in range(3):
        _archive(spark, environ).write_once()
    assert [r.message for r in caplog.records if "No archive was written" in r.message] == [caplog.records[-1].message]
    assert _archive(spark, environ).options() == ""


def test_another_spark_has_another_archive(spark: SparkInstallation, environ: dict[str, str], tmp_path: Path) -> None:
    before = _archive(spark, environ).file
    ZipFile(tmp_path / "jars" / "connector.jar", "w").close()
    assert _archive(spark, environ).file != before


def test_it_is_not_mapped_where_a_jar_would_hide_a_setting(
    spark: SparkInstallation, environ: dict[str, str], tmp_path: Path
) -> None:
    environ["SPARK_CONF_DIR"] = str(tmp_path / "conf")
    for _ in range(2):
        _archive(spark, environ).write_once()
    (tmp_path / "conf" / "log4j2.properties").touch()
    assert _archive(spark, environ).options() != ""
    (tmp_path / "conf" / "core-default.xml").touch()
    assert _archive(spark, environ).options() == ""


def test_there_is_none_where_others_may_write(spark: SparkInstallation, environ: dict[str, str]) -> None:
    _archive(spark, environ).file.parent.chmod(0o777)
    assert class_archive(spark, environ) is None


def test_there_is_none_without_a_cache_a_java_or_the_jars_of_spark(
    spark: SparkInstallation, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert class_archive(spark, {**environ, "XDG_CACHE_HOME": str(tmp_path / "file")}) is None
    assert class_archive(spark, {**environ, "JAVA_HOME": str(tmp_path)}) is None
    assert class_archive(SparkInstallation(spark.submit), environ) is None


def test_an_archive_that_nobody_has_used_for_a_month_goes(spark: SparkInstallation, environ: dict[str, str]) -> None:
    archive = _archive(spark, environ)
    old, used = (archive.file.with_name(f"{name}.jsa") for name in ("old", "used"))
    for file in (old, used):
        file.touch()
    os.utime(old, (0, 0))
    archive.write_once()
    archive.write_once()
    assert (old.exists(), used.exists()) == (False, True)


@pytest.mark.slow
def test_a_driver_takes_most_classes_of_spark_from_it(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    spark = find_spark("spark-submit", environ)
    for _ in range(2):
        _archive(spark, environ).write_once()
    archive, loaded = _archive(spark, environ), tmp_path / "loaded"
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
