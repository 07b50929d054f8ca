"""What `spark-submit` needs on this machine: its environment, and settings that fit one small computer.

The program is the one inside the venv's PySpark. Only addresses of this machine are used, so that no name is looked up.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from testbed.java import Java
from testbed.s3_server import KEY, SECRET

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # of JVMs that live for seconds

# Of processes that submit jobs of seconds: half of the processor time. What is measured goes without.
SHORT_JOBS = {"SPARK_SUBMIT_OPTS": QUICK, "SPARK_LAUNCHER_OPTS": QUICK}

# For queries over a few rows: to compile them, and to adapt them to the size of what is there, takes longer than to run
# them. What is compiled and adapted is the same plan.
SMALL_QUERIES = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}

# On a busy machine the first answer of a broker takes longer than Spark's driver waits by default. What is refused is
# said at once.
PATIENT = {"spark.kafka_offsets.source.kafka.request.timeout.ms": "120000"}


def spark_env(java: Java, python: Path | None = None) -> dict[str, str]:
    """Variables to add to a process that runs `spark-submit`; `spark-submit` and `java` are then found on the PATH.

    :param python: the interpreter in whose venv PySpark is; by default this one's.
    """
    if python is None:
        import pyspark

        python, home = Path(sys.executable), Path(pyspark.__file__).parent
    else:
        (home,) = python.parents[1].glob("lib/python3*/site-packages/pyspark")
    return {
        "JAVA_HOME": str(java.home),
        "PATH": os.pathsep.join([str(python.parent), java.env["PATH"]]),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # The driver and its Python workers run this very interpreter, whatever else is called python3 here.
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
    }


def write_class_archive(environment: Mapping[str, str]) -> None:
    """The archive of Spark's classes that a worker's image has, beside the jars of this PySpark."""
    command = [sys.executable, "-m", "airflow_kafka_offsets.hooks.class_archive"]
    subprocess.run(command, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)


def s3a_conf(endpoint: str) -> dict[str, str]:
    """Settings for a Spark that reads and writes S3 on the testbed's server."""
    settings = {
        "endpoint": endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "access.key": KEY,
        "secret.key": SECRET,
    }
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}


def spark_conf(jars: Iterable[Path]) -> dict[str, str]:
    """Settings for a local Spark that reads Kafka; `jars` are those of `testbed.jars.spark_jars`, and of tables."""
    return {
        "spark.master": "local[2]",
        "spark.jars": ",".join(str(jar) for jar in jars),
        # Both: with bindAddress alone the executor cannot fetch the jars from the driver.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.databricks.delta.snapshotPartitions": "1",  # a small table's log is read with one task
        "spark.sql.session.timeZone": "UTC",
    }
