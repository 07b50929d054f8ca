"""DAGs that do the same: ``kafka_spark_batch``, and a bare Spark task with a batch read or a stream's.

For ``benchmarks/run_overhead.py``.
"""

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

STARTS = "{{ dag_run.conf.starting_offsets }}"

for name, job, more in (("bare", "read_topic.py", [STARTS]), ("stream", "available_now.py", [])):
    with DAG(f"overhead_{name}", schedule=None, default_args=marked):
        SparkSubmitOperator(
            task_id="spark",
            application=f"{os.environ['OVERHEAD_JOBS']}/{job}",
            application_args=[os.environ["OVERHEAD_SERVERS"], TOPIC, f"{OUTPUT}/{name}", *more],
        )

SMALL = os.environ["OVERHEAD_SMALL_TOPICS"].split()
for name, topics, folder, spark in (
    ("batch", TOPIC, "", {}),
    ("batch_without_fast_start", TOPIC, "", {"fast_start": False}),
    ("one_topic", SMALL[0], "/{topic}", {}),
    ("ten_topics", SMALL, "/{topic}", {}),
):
    with DAG(f"overhead_{name}", schedule=None, default_args=marked):
        kafka_spark_batch(
            "orders",
            topics=topics,
            group_id=name,
            startup_mode="earliest-offset",
            sink={"format": "parquet", "path": f"{OUTPUT}/{name}{folder}"},
            spark=spark,
            prefix_group_id=False,
        )
