"""DAGs of one task. ``spark3-submit`` stands for Spark: it runs `tests/airflow/jobs/reader_job.py`."""

import os
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG

from airflow_kafka_offsets import KafkaSparkBatchOperator, Timestamp
from tests.airflow.reader import JOB

RETRIES = 1  # a test changes it


def one_task(dag_id: str, retries: int = 1, **more: Any) -> None:
    output = f"{os.environ['TEST_OUTPUT']}/{dag_id}"
    arguments = [output, "{{ dag_run.conf.get('first_try_fails', False) }}", "{{ ti.try_number }}"]
    with DAG(dag_id, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        KafkaSparkBatchOperator(
            task_id="orders",
            topics=f"{os.environ['TEST_PREFIX']}-{dag_id}",
            application=JOB,
            spark={"spark_binary": "spark3-submit", "application_args": arguments},
            retries=retries,
            **more,
        )


one_task("marked", start="earliest")
one_task("at_once", start="earliest", retries=50)
one_task("changed", start="earliest", retries=RETRIES)
waiting = {"idle_timeout": 7200, "poke_interval": 0.5}
one_task("timed_out", start=Timestamp(), end=Timestamp(), sensor=waiting, wait_timeout=10)
