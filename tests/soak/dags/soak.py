"""Every minute a batch from a secured Kafka to S3. Up to three runs are there at once: they wait for each other."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, CronTriggerTimetable

from airflow_kafka_offsets import kafka_spark_batch

OVER = Path(os.environ["SOAK_OVER"]).exists()  # to pause the DAG would stop the runs that there are

with DAG(
    "soak",
    schedule=None if OVER else CronTriggerTimetable("* * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=3,
    is_paused_upon_creation=True,
    default_args={"retries": 10, "retry_delay": timedelta(seconds=2)},
):
    kafka_spark_batch(
        "orders",
        topics=os.environ["SOAK_TOPIC"],
        group_id=os.environ["SOAK_GROUP"],
        startup_mode="earliest-offset",
        sink={"format": "parquet", "path": os.environ["SOAK_OUTPUT"]},
        spark={"kafka": "kafka_spark"},
        sensor={"poke_interval": 5},
    )
