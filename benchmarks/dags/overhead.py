"""DAGs over the same new records, for ``benchmarks.run_overhead``: a bare Spark task, and ``kafka_spark_batch``."""

import os

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_kafka_offsets import Delta, Iceberg, kafka_spark_batch

TOPIC, OUTPUT, JOB, SERVERS = (os.environ[f"OVERHEAD_{name}"] for name in ("TOPIC", "OUTPUT", "JOB", "SERVERS"))
WAYS = {
    "cold_fast": {},
    "cold": {"spark": {"fast_start": False}},
    "warm": {"spark_connect": "spark_connect_default"},
}

for kind in ("delta", "iceberg"):
    with DAG(f"{kind}_bare", schedule=None):
        table = f"delta.`{OUTPUT}/bare`" if kind == "delta" else "lake.bench.bare"
        SparkSubmitOperator(
            task_id="spark",
            application=JOB,
            application_args=[SERVERS, TOPIC, kind, table, "{{ dag_run.conf.starting_offsets }}"],
        )
    for way, more in WAYS.items():
        name = f"{kind}_{way}"
        with DAG(name, schedule=None):
            sink = Delta(f"{OUTPUT}/{name}") if kind == "delta" else Iceberg(f"lake.bench.{name}")
            of_way = {"group_id": name, "sink": sink, **more}
            kafka_spark_batch("orders", topics=[TOPIC], start="earliest", prefix_group_id=False, **of_way)
