"""DAGs over the same new records, for ``benchmarks.run_overhead``: a bare Spark task, and ``kafka_spark_batch``."""

import os

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_kafka_offsets import Delta, Files, kafka_spark_batch

TOPIC, OUTPUT, JOB, SERVERS = (os.environ[f"OVERHEAD_{name}"] for name in ("TOPIC", "OUTPUT", "JOB", "SERVERS"))

with DAG("bare", schedule=None):
    SparkSubmitOperator(
        task_id="spark",
        application=JOB,
        application_args=[SERVERS, TOPIC, f"{OUTPUT}/bare", "{{ dag_run.conf.starting_offsets }}"],
    )

ways = {
    "cold_fast": {"sink": Files(f"{OUTPUT}/cold_fast")},
    "cold": {"sink": Files(f"{OUTPUT}/cold"), "spark": {"fast_start": False}},
    "warm": {"sink": Delta(f"{OUTPUT}/warm"), "spark_connect": "spark_connect_default"},
}
for name, more in ways.items():
    with DAG(name, schedule=None):
        kafka_spark_batch("orders", topics=[TOPIC], group_id=name, start="earliest", prefix_group_id=False, **more)
