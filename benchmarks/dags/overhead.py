"""Two DAGs that do the same: a bare Spark task, and ``kafka_spark_batch``. For ``benchmarks/run_overhead.py``."""

import json
import os
import time
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_kafka_offsets import kafka_spark_batch

TOPIC, OUTPUT, MARKS = (os.environ[f"OVERHEAD_{name}"] for name in ("TOPIC", "OUTPUT", "MARKS"))


def mark(what: str) -> Any:
    """A callback that notes when it was called."""

    def note(context: Any) -> None:
        ti = context["ti"]
        with open(MARKS, "a") as marks:
            print(json.dumps([ti.run_id, ti.task_id, what, time.time()]), file=marks)

    return note


marked = {"on_execute_callback": mark("begins"), "on_success_callback": mark("succeeds")}

with DAG("overhead_bare", schedule=None, default_args=marked):
    SparkSubmitOperator(
        task_id="spark",
        application=os.environ["OVERHEAD_JOB"],
        application_args=[os.environ["OVERHEAD_SERVERS"], TOPIC, f"{OUTPUT}/bare"],
    )

with DAG("overhead_batch", schedule=None, default_args=marked):
    kafka_spark_batch(
        "orders",
        topics=TOPIC,
        group_id="overhead",
        startup_mode="earliest-offset",
        sink={"format": "parquet", "path": f"{OUTPUT}/batch"},
        prefix_group_id=False,
    )
