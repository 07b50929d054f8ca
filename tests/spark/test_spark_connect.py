"""A job on Spark Connect, whose session has no JVM here: the work store on S3 is reached through fsspec."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.read_reports import deciding_attempts
from airflow_kafka_offsets.stores.open import open_store
from tests.builders import job_arguments
from tests.reads import is_read
from tests.spark.conftest import Plans
from tests.stores.kinds import BUCKET, s3_server

JOB = """
import sys
from pyspark.sql import SparkSession
from airflow_kafka_offsets.spark import for_each_batch

def write(records, batch):
    records.persist()
    folder = f"{sys.argv[1]}/{batch.key}-{batch.split}"
    records.select("topic", "partition", "offset").write.mode("overwrite").parquet(folder)
    return spark.read.parquet(folder)

spark = SparkSession.builder.remote("local[1]").config("spark.jars", sys.argv[2]).getOrCreate()
print(type(spark).__module__, type(for_each_batch(spark, write, sys.argv[3:]).store).__name__)
"""


def test_a_batch_is_read_reported_and_verified_without_a_jvm(
    plans: Plans,
    filled: Callable[..., str],
    spark_environment: Mapping[str, str],
    spark_jars: list[Path],
    tmp_path: Path,
) -> None:
    environment = {**os.environ, **spark_environment, **s3_server().environment}
    store = open_store(f"s3://{BUCKET}/{tmp_path.name}/store")
    stored = Plans(store, plans.broker).batch({(filled(10), 0): (0, 10)})  # type: ignore[arg-type]
    plan_id, servers = stored.log.plan.plan_id, plans.broker.bootstrap_servers
    arguments = job_arguments(stored.plan_object, plan_id, 0, store.driver_uri, servers)
    command = [sys.executable, "-c", JOB, str(tmp_path / "lake"), ",".join(map(str, spark_jars)), *arguments]

    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split()[-2:] == ["pyspark.sql.connect.session", "ObjectStore"]
    found = PipelineLog(store, stored.folder.split("/")[1]).read(stored.name)
    assert found is not None
    assert is_read(found)
    assert [one.report.looked for attempts in deciding_attempts(found).values() for one in attempts if one.report] == [
        False
    ]
