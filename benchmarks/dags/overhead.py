"""DAGs over the same new records, for ``benchmarks.run_overhead``: a bare Spark task, and ``kafka_spark_batch``."""

import os

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_kafka_offsets import Files, kafka_spark_batch

TOPIC, OUTPUT, JOB, SERVERS = (os.environ[f"OVERHEAD_{name}"] for name in ("TOPIC", "OUTPUT", "JOB", "SERVERS"))

with DAG("bare", schedule=None):
    SparkSubmitOperator(
        task_id="spark",
        application=JOB,
        application_args=[SERVERS, TOPIC, f"{OUTPUT}/bare", "{{ dag_run.conf.starting_offsets }}"],
    )

for name, spark in {"cold_fast": {}, "cold": {"fast_start": False}}.items():
    with DAG(name, schedule=None):
        kafka_spark_batch(
            "orders",
            topics=[TOPIC],
            group_id=name,
            start="earliest",
            sink=Files(f"{OUTPUT}/{name}"),
            spark=spark,
            prefix_group_id=False,
        )
