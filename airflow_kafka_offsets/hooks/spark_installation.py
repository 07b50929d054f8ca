# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The Spark on this worker: where ``spark-submit`` is, and what it lacks to start a driver that reads Kafka.

The Spark provider brings ``pyspark-client`` alone, which has no ``spark-submit``; PySpark brings no Java, and Spark no
Kafka source. Each is checked before a driver is submitted, and the error has the command that installs it. Existing
settings stay: variables and packages are added only where nothing sets them.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import airflow_kafka_offsets
from airflow_kafka_offsets.errors import InvalidRequest

JOBS = Path(airflow_kafka_offsets.__file__).with_name("spark") / "jobs"
"""The packaged jobs, as files for ``spark-submit``."""
_CORE_JAR = re.compile(r"spark-core_(\d+\.\d+)-(\d+\.\d+\.\d+\S*)\.jar")
_TABLES = {  # jar, and the Maven coordinate for each line of Spark that it was played on
    "delta": (
        "delta-spark",
        {
            "3.5": "io.delta:delta-spark_{}:3.3.2",
            "4.0": "io.delta:delta-spark_{}:4.0.0",
            "4.2": "io.delta:delta-spark_4.2_{}:4.4.0",
        },
    ),
    "iceberg": (
        "iceberg-spark-runtime",
        {
            "3.5": "org.apache.iceberg:iceberg-spark-runtime-3.5_{}:1.10.0",
            "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_{}:1.10.0",
        },
    ),
}
# Spark keeps what it fetched last of each partition for a next query, five minutes long. No batch has one.
_FETCHED = "spark.kafka.consumer.fetchedData.cache"
SHORT_CACHE = {f"{_FETCHED}.timeout": "10s", f"{_FETCHED}.evictorThreadRunInterval": "5s"}
_DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass(frozen=True, slots=True)
class SparkInstallation:
    """One Spark.

    :ivar submit: its ``spark-submit``.
    :ivar home: the folder that has its ``jars``.
    :ivar version: such as ``4.0.0``, and ``scala`` such as ``2.13``; both and ``home`` are ``None`` where not known.
    """

    submit: Path
    home: Path | None = None
    version: str | None = None
    scala: str | None = None


def find_spark(binary: str, environ: Mapping[str, str]) -> SparkInstallation:
    """Find the Spark whose ``binary`` is on the PATH, or beside this Python (a venv that is not activated).

    :raises InvalidRequest: there is none, it has no Java, or its files are mixed; each with the command that helps.
    """
    path, beside = environ.get("PATH", os.defpath), str(Path(sys.executable).parent)
    found = shutil.which(binary, path=path) or shutil.which(binary, path=beside)
    problems = []
    if found is None:
        problems.append(
            f"There is no {binary} on this worker: the Spark provider brings pyspark-client, which has none. Install "
            "PySpark (pip install 'airflow-kafka-offsets[spark]'), put the bin folder of a Spark on the PATH, or "
            "submit in another way with kafka_spark_batch(submit=…)."
        )
    if java_of(environ) is None:
        problems.append(
            "There is no Java on this worker, and spark-submit needs Java 17 or 21: apt install "
            "openjdk-17-jre-headless, or set JAVA_HOME."
        )
    pyspark, client = _version_of("pyspark"), _version_of("pyspark-client")
    spark = _spark_at(Path(found or binary), environ)
    if pyspark and client and pyspark != client and spark.home == _pyspark_folder():
        problems.append(
            f"pyspark is {pyspark} and pyspark-client is {client}: they share one folder, and one has overwritten "
            "files of the other. pip install --force-reinstall --no-deps "
            f"'pyspark=={client}' 'pyspark-client=={client}'"
        )
    if problems:
        raise InvalidRequest(tuple(problems))
    return spark


def java_of(environ: Mapping[str, str]) -> Path | None:
    """The program that ``spark-submit`` starts as ``java``."""
    home = environ.get("JAVA_HOME")
    found = shutil.which(f"{home}/bin/java" if home else "java", path=environ.get("PATH", os.defpath))
    return Path(found) if found else None


def folder_of_settings(spark: SparkInstallation, environ: Mapping[str, str]) -> Path:
    """Where ``spark-defaults.conf`` is, and other files of settings."""
    return Path(environ.get("SPARK_CONF_DIR") or (spark.home and spark.home / "conf") or "")


def missing_variables(spark: SparkInstallation, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that ``spark-submit`` lacks: a PATH that finds it, and this Python as the driver's."""
    path, missing = environ.get("PATH", os.defpath), {}
    if shutil.which(spark.submit.name, path=path) is None:
        missing["PATH"] = os.pathsep.join([str(spark.submit.parent), path])
    if not environ.keys() & {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}:
        missing["PYSPARK_DRIVER_PYTHON"] = sys.executable  # else any python3: without this package, perhaps
    return missing


def missing_packages(
    spark: SparkInstallation, formats: Collection[str], configured: Mapping[str, str], jars: str
) -> list[str]:
    """Maven coordinates of what the job needs and no setting has: Spark's Kafka source, tables, Avro.

    :param formats: what the packaged job reads and writes; empty for a job of the user's own.
    :param configured: Spark's settings, as :func:`settings_of` finds them.
    :param jars: further jars that are given.
    :raises InvalidRequest: which package of a table format fits this Spark is not known, and none is configured.
    """
    if spark.home is None or spark.version is None:
        return []
    kafka = "spark-sql-kafka-0-10"
    wanted: dict[str, str | None] = {kafka: f"org.apache.spark:{kafka}_{spark.scala}:{spark.version}"}
    if "avro" in formats:
        wanted["spark-avro"] = f"org.apache.spark:spark-avro_{spark.scala}:{spark.version}"
    for table in sorted(set(formats) & _TABLES.keys()):
        jar, by_line = _TABLES[table]
        wanted[jar] = by_line.get(".".join(spark.version.split(".")[:2]), "").format(spark.scala) or None
    settings = [value for name, value in configured.items() if name.startswith("spark.jars") or "ClassPath" in name]
    there = " ".join([jars, *settings, *(jar.name for jar in spark.home.glob("jars/*.jar"))])
    missing = {name: coordinate for name, coordinate in wanted.items() if name not in there}
    unknown = [name for name, coordinate in missing.items() if coordinate is None]
    if unknown:
        raise InvalidRequest(
            (
                f"Which {' and '.join(unknown)} fits Spark {spark.version} in {spark.home} is not known here. Give all "
                f"packages yourself: spark={{'packages': '{wanted[kafka]},…'}}, or '' if the cluster has them.",
            )
        )
    return [coordinate for coordinate in missing.values() if coordinate]


def missing_settings(formats: Collection[str], configured: Mapping[str, str]) -> dict[str, str]:
    """Settings that a batch, or a table format, needs and that are missing."""
    wanted = SHORT_CACHE | (_DELTA_SETTINGS if "delta" in formats else {})
    return {name: value for name, value in wanted.items() if name not in configured}


def settings_of(
    spark: SparkInstallation, properties_file: str | None, conf: Mapping[str, object], environ: Mapping[str, str]
) -> dict[str, str]:
    """Read Spark's settings for a job: its file of defaults, or the file in its place, then the job's own."""
    file = Path(properties_file) if properties_file else folder_of_settings(spark, environ) / "spark-defaults.conf"
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
    settings = dict[str, str]()
    for line in map(str.strip, lines):
        if line and not line.startswith("#"):
            name, *value = re.split(r"[\s=:]+", line, maxsplit=1)
            settings[name] = value[0].strip() if value else ""
    return {**settings, **{name: str(value) for name, value in conf.items()}}


def _spark_at(submit: Path, environ: Mapping[str, str]) -> SparkInstallation:
    homes = [environ.get("SPARK_HOME"), submit.resolve().parent.parent, _pyspark_folder()]
    for home in [Path(home) for home in homes if home]:
        for jar in sorted(home.glob("jars/spark-core_*.jar")):
            if match := _CORE_JAR.fullmatch(jar.name):
                return SparkInstallation(submit, home, match[2], match[1])
    return SparkInstallation(submit)


def _version_of(name: str) -> str | None:
    """Of an installed distribution. PySpark is not imported: that takes a second."""
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return None


def _pyspark_folder() -> Path | None:
    return Path(str(distribution("pyspark").locate_file("pyspark"))) if _version_of("pyspark") else None
