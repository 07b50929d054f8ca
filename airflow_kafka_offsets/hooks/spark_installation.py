"""The Spark on this worker: where ``spark-submit`` is, and what it lacks to start a driver that reads Kafka.

The Spark provider brings ``pyspark-client`` alone, which has no ``spark-submit``; PySpark brings no Java, and Spark no
Kafka source. Each gap is found before anything is submitted, and named with the command that fills it.

What stays as it is: a setting that somebody has made. Variables are set only where they are absent, and packages are
added only where nothing that is configured names the same package.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_kafka_offsets.errors import InvalidRequest, refuse

CONNECTOR = "spark-sql-kafka-0-10"
_JAR = re.compile(r"spark-core_(\d+\.\d+)-(\d+\.\d+\.\d+\S*)\.jar")
TABLES = {  # by format and Spark's version; a new one is played first: make test-matrix
    "delta": {
        "3.5": "io.delta:delta-spark_{}:3.3.2",
        "4.0": "io.delta:delta-spark_{}:4.0.0",
        "4.2": "io.delta:delta-spark_4.2_{}:4.4.0",
    },
    "iceberg": {
        "3.5": "org.apache.iceberg:iceberg-spark-runtime-3.5_{}:1.10.0",
        "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_{}:1.10.0",
    },
}
_LEAST = {("delta", "3.5"): 3}  # Delta 3.3 was made for 3.5.3; on 3.5.0 Spark does not start with it
_JAR_OF = {"delta": "delta-spark", "iceberg": "iceberg-spark-runtime"}
_POSTGRESQL = "42.7.14"
DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass(frozen=True, slots=True)
class SparkInstallation:
    """One Spark.

    :ivar submit: its ``spark-submit``.
    :ivar home: the folder that has its ``jars``; ``None`` where it is not known.
    :ivar version: such as ``4.0.0``, and ``scala`` such as ``2.13``; empty where they are not known.
    """

    submit: Path
    home: Path | None = None
    version: str = ""
    scala: str = ""

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])


def find_spark(binary: str, environ: Mapping[str, str]) -> SparkInstallation:
    """The Spark whose ``binary`` is on the PATH, or beside this Python (a venv that is not activated).

    :raises InvalidRequest: there is none, it has no Java, or it is not whole; each with the command that helps.
    """
    beside = Path(sys.executable).parent
    found = shutil.which(binary, path=environ.get("PATH", os.defpath)) or shutil.which(binary, path=str(beside))
    problems = []
    if found is None:
        problems.append(
            f"There is no {binary} on this worker: the Spark provider brings pyspark-client, which has none. Install "
            "PySpark: pip install 'airflow-kafka-offsets[spark]'; or put the bin folder of a Spark on the PATH; or "
            "submit in another way, with kafka_spark_batch(submit=…)."
        )
    if java_of(environ) is None:
        problems.append(
            "There is no Java on this worker, and spark-submit needs Java 17 or 21: apt install "
            "openjdk-17-jre-headless, or set JAVA_HOME."
        )
    spark = _spark_of(Path(found or binary), environ)
    pyspark, client = _installed("pyspark"), _installed("pyspark-client")  # not each pyspark has a client
    if spark.home == _folder_of(pyspark) and pyspark and client and pyspark.version != client.version:
        problems.append(
            f"pyspark is {pyspark.version} and pyspark-client is {client.version}: they share one folder, so one has "
            "overwritten files of the other. pip install --force-reinstall --no-deps "
            f"'pyspark=={client.version}' 'pyspark-client=={client.version}'"
        )
    refuse(problems)
    return spark


def variables_for(spark: SparkInstallation, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that the process of ``spark-submit`` lacks: it is found, and the driver runs this very Python."""
    found = {}
    if shutil.which(spark.submit.name, path=environ.get("PATH", os.defpath)) is None:
        found["PATH"] = os.pathsep.join([str(spark.submit.parent), environ.get("PATH", os.defpath)])
    if not environ.keys() & {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}:
        found["PYSPARK_DRIVER_PYTHON"] = sys.executable  # else any python3: without this package, perhaps
    return found


def packages_for(
    spark: SparkInstallation, formats: Collection[str], configured: Mapping[str, str], jars: str = ""
) -> list[str]:
    """Maven coordinates of what the job needs and nobody has configured: Kafka's source, and what its formats need.

    :param formats: what a job of this package reads and writes; empty for a job of the user's own.
    :param configured: Spark's settings, as :func:`settings_of` finds them.
    :param jars: further jars that are given.
    :raises InvalidRequest: which package of the table format fits this Spark is not known, and none is configured.
    """
    if not spark.version:
        return []
    wanted = {CONNECTOR: f"org.apache.spark:{CONNECTOR}_{spark.scala}:{spark.version}"}
    tables = {_JAR_OF[name]: name for name in sorted(set(formats) & TABLES.keys())}
    for jar, table_format in tables.items():
        wanted[jar] = package_of(table_format, spark.version).format(spark.scala)
    if "jdbc" in formats:
        wanted["postgresql"] = f"org.postgresql:postgresql:{_POSTGRESQL}"
    if "avro" in formats:
        wanted["spark-avro"] = f"org.apache.spark:spark-avro_{spark.scala}:{spark.version}"
    own_jars = " ".join(jar.name for jar in spark.home.glob("jars/*.jar")) if spark.home else ""
    there = " ".join(
        [
            own_jars,
            jars,
            *(configured.get(name, "") for name in ("spark.jars", "spark.jars.packages")),
            *(value for name, value in configured.items() if name.endswith("extraClassPath")),
        ]
    )
    missing = {name: coordinate for name, coordinate in wanted.items() if name not in there}
    if unknown := next((name for name, coordinate in missing.items() if not coordinate), None):
        known = [f"{line}.{_LEAST.get((tables[unknown], line), 0)}" for line in TABLES[tables[unknown]]]
        raise InvalidRequest(
            [
                f"Which {unknown} fits Spark {spark.version} in {spark.home} is not known here; it is from Spark "
                f"{', '.join(known)} on. Install one of these, or give all packages yourself: "
                f"packages='{wanted[CONNECTOR]},…' with the {unknown} that its makers name for Spark {spark.minor}. "
                "If your cluster has them, give packages=''."
            ]
        )
    return list(missing.values())


def package_of(table_format: str, version: str) -> str:
    """The Maven coordinate of a table format for this version of Spark, without Scala's; empty: none is known."""
    found = re.match(r"(\d+\.\d+)\.(\d+)", version)
    if found is None or int(found[2]) < _LEAST.get((table_format, found[1]), 0):
        return ""
    return TABLES[table_format].get(found[1], "")


def settings_for(formats: Collection[str], configured: Mapping[str, str]) -> dict[str, str]:
    """Settings that a table format needs and nobody has made."""
    needed = DELTA_CONF if "delta" in formats else {}
    return {name: value for name, value in needed.items() if name not in configured}


def settings_of(
    spark: SparkInstallation, properties_file: str | None, conf: Mapping[str, object] | None, environ: Mapping[str, str]
) -> dict[str, str]:
    """Spark's settings for a job: those of its file of defaults, or of the file in its place, then the job's own."""
    folder = environ.get("SPARK_CONF_DIR") or (spark.home and str(spark.home / "conf"))
    file = Path(properties_file) if properties_file else Path(folder or "") / "spark-defaults.conf"
    found: dict[str, str] = {}
    if file.is_file():
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if (line := line.strip()) and not line.startswith("#"):
                name, *rest = re.split(r"[\s=:]+", line, maxsplit=1)
                found[name] = rest[0].strip() if rest else ""
    return {**found, **{name: str(value) for name, value in (conf or {}).items()}}


def _spark_of(submit: Path, environ: Mapping[str, str]) -> SparkInstallation:
    homes = [environ.get("SPARK_HOME"), submit.resolve().parent.parent, _folder_of(_installed("pyspark"))]
    for home in (Path(home) for home in homes if home):
        for jar in sorted(home.glob("jars/spark-core_*.jar")):
            if match := _JAR.fullmatch(jar.name):
                return SparkInstallation(submit, home, match[2], match[1])
    return SparkInstallation(submit)


def _installed(distribution: str) -> importlib.metadata.Distribution | None:
    """Not imported, which takes a second."""
    try:
        return importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _folder_of(pyspark: importlib.metadata.Distribution | None) -> Path | None:
    return Path(str(pyspark.locate_file("pyspark"))) if pyspark else None


def java_of(environ: Mapping[str, str]) -> Path | None:
    """The ``java`` that ``spark-submit`` runs; ``None``: there is none."""
    if home := environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        return java if os.access(java, os.X_OK) else None
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    return Path(found) if found else None
