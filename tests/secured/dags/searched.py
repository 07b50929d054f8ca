"""A batch from a secured Kafka to PostgreSQL, with its work store on S3; what differs comes by the run's conf."""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_kafka_offsets import kafka_spark_batch

JOB = Path(__file__).resolve().parents[1] / "jobs" / "waits.py"

with DAG(
    "searched",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    default_args={"retries": 0},
    params={"topic": "none", "group": "none", "url": "none", "go": "none"},
):
    kafka_spark_batch(
        "orders",
        topics="{{ params.topic }}",
        group_id="{{ params.group }}",
        startup_mode="earliest-offset",
        application=str(JOB),
        application_args=["{{ params.url }}", "{{ params.go }}"],
        output="{{ params.url }}:orders",
        spark={"kafka": "kafka_spark"},
    )
