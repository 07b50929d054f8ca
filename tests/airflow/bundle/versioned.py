"""The DAGs of a Git bundle. What its first commit lacks, a later one corrects: where a group without offsets starts."""

import os
from datetime import UTC, datetime
from typing import Any

from airflow import __version__
from airflow.sdk import DAG

from airflow_kafka_offsets import GroupOffsets, KafkaSparkBatchOperator

TOPIC, START = os.environ["TEST_TOPIC"], GroupOffsets()
REST: dict[str, dict[str, Any]] = {
    "orders_to_lake": {},
    "always_newest": {} if __version__ < "3.2" else {"rerun_with_latest_version": True},
}

for dag_id, rest in REST.items():
    with DAG(dag_id, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), **rest):
        KafkaSparkBatchOperator(
            task_id="orders", topics=TOPIC, group_id=dag_id, start=START, application="job.py", retries=0
        )
