"""The task group over all that a pattern finds; names come from variables, so that a run's conf is empty."""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_kafka_offsets import kafka_spark_batch

JOB = Path(__file__).resolve().parents[1] / "jobs" / "few_files.py"
OUTPUT = "{{ var.value.large_output }}"

with DAG("large", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False):
    kafka_spark_batch(
        "orders",
        topic_pattern="large-.*",
        group_id="large",
        startup_mode="earliest-offset",
        splits=2,
        application=str(JOB),
        application_args=["--output", OUTPUT],
        output=OUTPUT,
        spark={"conn_id": "spark_standalone"},
    )
