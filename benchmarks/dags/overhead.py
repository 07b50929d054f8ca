"""DAGs over the same new records, for ``benchmarks.run_overhead``: a bare Spark task, the task group, and one task."""

import os
from itertools import product

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_kafka_offsets import Delta, Iceberg, KafkaSparkBatchOperator, kafka_spark_batch

TOPIC, OUTPUT, JOB, SERVERS = (os.environ[f"OVERHEAD_{name}"] for name in ("TOPIC", "OUTPUT", "JOB", "SERVERS"))
WAYS = {"cold": {}, "warm": {"spark_connect": "spark_connect_default"}}
FORMS = {"group": kafka_spark_batch, "one": lambda name, **given: KafkaSparkBatchOperator(task_id=name, **given)}

for kind in ("delta", "iceberg"):
    with DAG(f"{kind}_bare", schedule=None):
        table = f"delta.`{OUTPUT}/bare`" if kind == "delta" else "lake.bench.bare"
        SparkSubmitOperator(
            task_id="spark",
            application=JOB,
            application_args=[SERVERS, TOPIC, kind, table, "{{ dag_run.conf.starting_offsets }}"],
        )
    for (way, more), (form, batch) in product(WAYS.items(), FORMS.items()):
        name = f"{kind}_{way}_{form}"
        with DAG(name, schedule=None):
            sink = Delta(f"{OUTPUT}/{name}") if kind == "delta" else Iceberg(f"lake.bench.{name}")
            batch("orders", topics=[TOPIC], group_id=name, start="earliest", sink=sink, **more)
