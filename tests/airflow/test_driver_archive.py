"""Drivers start with an archive of Spark's classes: which one, who makes it, and whether a JVM takes it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_kafka_offsets.hooks import driver_archive as module
from airflow_kafka_offsets.hooks.driver_archive import KEPT, DriverArchive, driver_archive
from airflow_kafka_offsets.hooks.spark_installation import SparkInstallation
from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from testbed.java import Java
from testbed.spark import spark_env


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Of a worker whose Java has an archive of its own classes, as each JDK has."""
    java = tmp_path / "jdk"
    (java / "lib/server").mkdir(parents=True)
    (java / "bin").mkdir()
    (java / "bin/java").touch(0o755)
    (java / "lib/server/classes.jsa").touch()
    (java / "release").write_text('JAVA_RUNTIME_VERSION="17.0.15+6"\nJAVA_VERSION="17.0.15"\n')
    return {"JAVA_HOME": str(java), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def installation(tmp_path: Path) -> SparkInstallation:
    (tmp_path / "spark/jars").mkdir(parents=True)
    (tmp_path / "spark/jars/spark-core_2.13-4.0.0.jar").touch()
    return SparkInstallation(tmp_path / "spark/bin/spark-submit", tmp_path / "spark", "4.0.0", "2.13")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of processes that would have been started."""
    commands: list[list[str]] = []
    monkeypatch.setattr(module.subprocess, "Popen", lambda command, **_: commands.append(command))
    return commands


def found(installation: SparkInstallation, environ: Mapping[str, str], **configured: str) -> DriverArchive:
    archive = driver_archive(installation, environ, configured, None)
    assert archive is not None
    return archive


def test_each_of_two_tasks_of_one_process_uses_the_archive(
    airflow: Path,
    installation: SparkInstallation,
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``DAG.test`` runs all tasks in one process. The program in Spark's place writes down what it was started with."""
    for name, value in {**environ, "SPARK_CONF_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    installation.submit.parent.mkdir()
    installation.submit.write_text(f'#!/bin/sh\necho "$SPARK_SUBMIT_OPTS $*" >> {tmp_path}/started\n')
    installation.submit.chmod(0o755)
    monkeypatch.setenv("PATH", str(installation.submit.parent), prepend=":")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    archive = found(installation, os.environ)
    archive.file.touch()
    before = dict(os.environ)
    for task_id in ("first", "second"):
        SparkSubmitPlanOperator(task_id=task_id, application="own.py", packages="", application_args=[]).execute({})
    first, second = (tmp_path / "started").read_text().splitlines()
    assert first.startswith(archive.options())
    assert f"--driver-class-path {archive.class_path}" in first
    assert second == first.replace("first", "second")
    assert dict(os.environ) == before


def test_the_second_run_makes_the_archive_once(
    installation: SparkInstallation, environ: dict[str, str], started: list[list[str]]
) -> None:
    archive = found(installation, environ)
    assert [archive.make_beside_this_run() for _ in range(4)] == [False, True, False, False]
    assert [command[3] for command in started] == [str(archive.file)]
    assert archive.options() == ""
    archive.file.touch()
    assert archive.options() == f'"-XX:SharedArchiveFile={archive.file}"'


def test_a_process_that_died_while_it_made_the_archive_is_forgotten_after_an_hour(
    installation: SparkInstallation, environ: dict[str, str], started: list[list[str]]
) -> None:
    archive = found(installation, environ)
    assert [archive.make_beside_this_run() for _ in range(2)] == [False, True]
    os.utime(archive.file.with_suffix(".making"), (0, 0))
    assert [archive.make_beside_this_run() for _ in range(3)] == [False, True, False]
    assert len(started) == 2


def test_another_java_another_jar_and_another_class_path_have_another_archive(
    installation: SparkInstallation, environ: dict[str, str]
) -> None:
    files = [found(installation, environ).file]
    files.append(found(installation, environ, **{"spark.driver.extraClassPath": "/opt/own.jar"}).file)
    assert installation.home is not None
    (installation.home / "jars/another.jar").touch()
    files.append(found(installation, environ).file)
    (Path(environ["JAVA_HOME"]) / "release").write_text('JAVA_VERSION="21.0.2"\n')
    files.append(found(installation, environ).file)
    assert len(set(files)) == 4


def test_what_is_in_front_of_sparks_jars_stays_there(installation: SparkInstallation, environ: dict[str, str]) -> None:
    archive = driver_archive(installation, environ, {"spark.driver.extraClassPath": "/opt/a.jar"}, "/opt/own.jar")
    assert archive is not None
    assert archive.class_path == f"/opt/own.jar:{installation.home}/jars/*"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.driver.extraJavaOptions", "-XX:SharedArchiveFile=/opt/own.jsa"),
        ("spark.driver.defaultJavaOptions", "-Xshare:off"),
    ],
)
def test_who_has_set_an_archive_of_their_own_keeps_it(
    installation: SparkInstallation, environ: dict[str, str], name: str, value: str
) -> None:
    assert driver_archive(installation, environ, {name: value}, None) is None


def test_a_java_that_can_have_none_is_left_alone(installation: SparkInstallation, environ: dict[str, str]) -> None:
    java = Path(environ["JAVA_HOME"])
    (java / "release").write_text('JAVA_VERSION="1.8.0_402"\n')
    assert driver_archive(installation, environ, {}, None) is None
    (java / "release").write_text('JAVA_VERSION="17.0.15"\n')
    (java / "lib/server/classes.jsa").unlink()
    assert driver_archive(installation, environ, {}, None) is None


def test_a_folder_that_others_may_write_to_is_not_used(
    installation: SparkInstallation, environ: dict[str, str]
) -> None:
    """Who writes an archive writes the code of the driver."""
    found(installation, environ).file.parent.chmod(0o770)
    assert driver_archive(installation, environ, {}, None) is None


@pytest.mark.slow
def test_a_jvm_takes_the_archive_and_does_without_one_that_does_not_fit(
    java: Java, spark_settings: Mapping[str, str], tmp_path: Path
) -> None:
    """Java's own log names where each class came from. A folder of settings that is not empty is on the class path."""
    environ = {**os.environ, **spark_env(java), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    home = Path(environ["SPARK_HOME"])
    archive = driver_archive(SparkInstallation(home / "bin/spark-submit", home, "4.0.0", "2.13"), environ, {}, None)
    assert archive is not None
    for number in range(KEPT):
        (archive.file.parent / f"older-{number}.jsa").touch()
        os.utime(archive.file.parent / f"older-{number}.jsa", (number, number))
    words = (archive.file, archive.java_home, archive.spark.submit, archive.spark.home, archive.class_path)
    subprocess.run([sys.executable, "-m", module.__name__, *map(str, words)], env=environ, check=True)
    assert archive.options()
    assert len(list(archive.file.parent.glob("*.jsa"))) == KEPT
    assert not list(archive.file.parent.glob("making-*"))

    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/spark-defaults.conf").write_text("spark.ui.enabled false\nspark.driver.host 127.0.0.1\n")
    (tmp_path / "job.py").write_text(
        "from pyspark.sql import SparkSession\nprint('rows', SparkSession.builder.getOrCreate().range(7).count())\n"
    )

    def classes(options: str, class_path: str) -> tuple[int, int, str]:
        """Of Spark: from the archive, and from its jars; and what the driver printed."""
        log = tmp_path / "classes.log"
        log.unlink(missing_ok=True)
        done = subprocess.run(
            [str(archive.spark.submit), "--driver-class-path", class_path, str(tmp_path / "job.py")],
            env={
                **environ,
                "SPARK_CONF_DIR": str(tmp_path / "conf"),
                "SPARK_SUBMIT_OPTS": f"{options} -Xlog:class+load:file={log}",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        lines = [line for line in log.read_text().splitlines() if " org.apache.spark." in line]
        sources = Counter(line.partition(" source: ")[2].split(":")[0] for line in lines)
        return sources["shared objects file (top)"], sources["file"], done.stdout

    shared, parsed, output = classes(archive.options(), archive.class_path)
    assert "rows 7" in output
    assert shared > 50 * parsed > 0

    shared, parsed, output = classes(archive.options(), f"{tmp_path / 'conf'}")
    assert "rows 7" in output
    assert "Unable to use shared archive" in output
    assert shared == 0
    assert parsed > 1000
