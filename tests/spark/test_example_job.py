"""`dags/jobs/kafka_to_parquet.py` as a cluster runs it: `spark-submit`, this package as a zip, and nothing else."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.dataset as ds

from airflow_kafka_offsets.offsets.verify import verify_reads
from airflow_kafka_offsets.spark import plan_job
from tests.spark.conftest import StoredPlans

ROOT = Path(__file__).parents[2]


def test_the_example_job_runs_where_only_pyspark_and_this_package_are(
    plans: StoredPlans,
    filled: Callable[..., str],
    spark_environment: Mapping[str, str],
    spark_settings: Mapping[str, str],
    tmp_path: Path,
) -> None:
    """No Airflow, no Kafka client: Python runs without site-packages (`-S`), PySpark comes from Spark's own folder."""
    topic = filled(1_000, partitions=2)
    arguments = plans.arguments({(topic, 0): (10, 400), (topic, 1): (0, 500)})
    python = tmp_path / "python-alone"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    package = tmp_path / "airflow_kafka_offsets.zip"
    with zipfile.ZipFile(package, "w") as archive:
        for file in (ROOT / "airflow_kafka_offsets").rglob("*.py"):
            archive.write(file, file.relative_to(ROOT))

    settings = [word for name, value in spark_settings.items() for word in ("--conf", f"{name}={value}")]
    job = [str(ROOT / "dags" / "jobs" / "kafka_to_parquet.py"), "--output", str(tmp_path / "out"), *arguments]
    run = subprocess.run(
        ["spark-submit", "--master", "local[2]", *settings, "--py-files", str(package), *job, "--min-partitions", "4"],
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
    assert run.returncode == 0, run.stderr[-5_000:]

    plan = plan_job(arguments).plan
    verify_reads(plan, plans.attempts(plan))
    (output,) = (tmp_path / "out").glob("run=*/split=0")
    table = ds.dataset(str(output)).to_table()
    assert table.column_names == ["key", "value", "topic", "partition", "offset", "timestamp"]
    assert table.num_rows == 390 + 500
    assert len(list(output.glob("part-*.parquet"))) >= 4
