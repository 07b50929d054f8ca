"""The job in the package, and that of `dags/jobs`, as a cluster runs them: `spark-submit`, this package as a zip, and
nothing else.
"""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from airflow_kafka_offsets.errors import DataLoss
from airflow_kafka_offsets.operators.submit import PACKAGED_JOB
from airflow_kafka_offsets.spark.sinks.sink_arguments import sink_arguments
from testbed.jars import delta_jars, iceberg_jars
from testbed.java import Java
from testbed.spark_cluster import QUICK
from tests.spark.conftest import Plans, attempts, proofs, require_read

ROOT = Path(__file__).parents[2]
OWN_JOB = ROOT / "dags" / "jobs" / "orders_by_day.py"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # of 50, for a table of some files
}

Submit = Callable[..., tuple[int, str]]


@pytest.fixture
def submit(
    spark_environment: Mapping[str, str], spark_settings: Mapping[str, str], spark_jars: list[Path], tmp_path: Path
) -> Submit:
    """`submit(job, *arguments, jars=[], conf={})`: a driver in a process of its own; its status and its words.

    No Airflow, no Kafka client: Python runs without site-packages (`-S`), PySpark comes from Spark's own folder.
    """
    python = tmp_path / "python-alone"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    package = tmp_path / "airflow_kafka_offsets.zip"
    with zipfile.ZipFile(package, "w") as archive:
        for file in (ROOT / "airflow_kafka_offsets").rglob("*.py"):
            archive.write(file, file.relative_to(ROOT))

    def run(
        job: Path, *arguments: object, jars: list[Path] | None = None, conf: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        quick = {"spark.driver.extraJavaOptions": QUICK, "spark.sql.shuffle.partitions": "1"}
        all_jars = spark_jars if jars is None else jars
        settings = {**spark_settings, **quick, **(conf or {}), "spark.jars": ",".join(map(str, all_jars))}
        options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        done = subprocess.run(
            ["spark-submit", *options, "--py-files", str(package), str(job), *map(str, arguments)],
            env={
                **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                **spark_environment,
                "PYSPARK_PYTHON": str(python),
                "PYSPARK_DRIVER_PYTHON": str(python),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_files_have_a_folder_for_each_split_of_the_batch(
    submit: Submit, plans: Plans, filled: Callable[..., str], tmp_path: Path
) -> None:
    topic = filled(1_000, partitions=2)
    batch = plans.batch({(topic, 0): (10, 400), (topic, 1): (0, 500)})
    sink = sink_arguments({"format": "parquet", "path": str(tmp_path / "out"), "options": {"compression": "gzip"}})
    conf = {"spark.kafka_offsets.source.minPartitions": "4"}
    status, words = submit(PACKAGED_JOB, *sink, *plans.arguments(batch), conf=conf)
    assert status == 0, words[-5_000:]
    require_read(batch)
    assert proofs(batch) == ["rows"]
    assert batch.log.plan.batch is not None
    folder = tmp_path / "out" / f"kafka_batch={batch.log.plan.batch.key}" / "kafka_split=0"
    table = ds.dataset(str(folder)).to_table()
    assert {"key", "value", "topic", "partition", "offset", "timestamp"} <= set(table.column_names)
    assert table.num_rows == 390 + 500
    assert len(list(folder.glob("part-*.gz.parquet"))) >= 4


def test_a_job_of_ones_own_has_columns_and_folders_of_its_own(
    submit: Submit, plans: Plans, filled: Callable[..., str], tmp_path: Path
) -> None:
    batch = plans.batch({(filled(100), 0): (0, 100)})
    status, words = submit(OWN_JOB, "--output", tmp_path / "out", *plans.arguments(batch))
    assert status == 0, words[-5_000:]
    require_read(batch)
    assert proofs(batch) == ["rows"]
    table = ds.dataset(str(tmp_path / "out"), partitioning="hive").to_table()
    assert table.num_rows == 100
    assert set(table.column_names) == {"body", "topic", "partition", "offset", "day", "kafka_batch", "kafka_split"}


def test_a_delta_table_is_written_and_read_back(
    submit: Submit, plans: Plans, filled: Callable[..., str], spark_jars: list[Path], java: Java, tmp_path: Path
) -> None:
    batch = plans.batch({(filled(100), 0): (0, 100)})
    delta = {"jars": [*spark_jars, *delta_jars(java)], "conf": DELTA}
    sink = sink_arguments({"format": "delta", "path": str(tmp_path / "orders"), "partition_by": ["topic"]})
    status, words = submit(PACKAGED_JOB, *sink, *plans.arguments(batch), **delta)
    assert status == 0, words[-5_000:]
    assert proofs(batch) == ["rows"]
    require_read(batch)


def test_an_iceberg_table_is_written_and_read_back(
    submit: Submit, plans: Plans, filled: Callable[..., str], spark_jars: list[Path], java: Java, tmp_path: Path
) -> None:
    catalog = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(tmp_path / "lake"),
    }
    batch = plans.batch({(filled(100), 0): (0, 100)})
    iceberg = {"jars": [*spark_jars, *iceberg_jars(java)], "conf": catalog}
    sink = sink_arguments({"format": "iceberg", "table": "lake.db.orders"})
    status, words = submit(PACKAGED_JOB, *sink, *plans.arguments(batch), **iceberg)
    assert status == 0, words[-5_000:]
    assert proofs(batch) == ["rows"]
    require_read(batch)


def test_without_the_connector_the_driver_s_log_ends_with_a_sentence_that_names_its_package(
    submit: Submit, plans: Plans, filled: Callable[..., str], tmp_path: Path
) -> None:
    batch = plans.batch({(filled(10), 0): (0, 10)})
    status, words = submit(OWN_JOB, "--output", tmp_path / "out", *plans.arguments(batch), jars=[])
    assert status == 1
    said = [line for line in words.splitlines() if "Spark has no Kafka source" in line]
    assert said == [
        "airflow_kafka_offsets.errors.InvalidRequest: AKO-001 InvalidRequest: Spark has no Kafka source: name its "
        "package, of Spark's own version and Scala's, such as "
        'packages="org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0" of SparkSubmitOperator.'
    ]
    assert "During handling" not in words
    assert "\tat " not in words  # Java's traces
    assert attempts(batch) == []


def test_records_that_are_gone_are_said_in_the_driver_s_log(
    submit: Submit, plans: Plans, filled: Callable[..., str], tmp_path: Path
) -> None:
    topic = filled(10)
    batch = plans.batch({(topic, 0): (0, 10)})
    plans.broker.delete_records({(topic, 0): 4})
    status, words = submit(OWN_JOB, "--output", tmp_path / "out", *plans.arguments(batch))
    assert status == 1
    sentence = f"{topic}[0]: start offset 0 is below log start offset 4 (4 offsets are gone)"
    error = f"airflow_kafka_offsets.errors.DataLoss: {DataLoss.code} DataLoss"
    assert f"\n{error}: {sentence}\nbatch 1 cannot be read any more." in words
    assert words.count(sentence) == 1
    assert "\tat " not in words
    assert attempts(batch) == []
    assert not (tmp_path / "out").exists()
