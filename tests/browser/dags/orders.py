"""DAGs with a pipeline each. What stands for Spark is ``tests/airflow/reader.py``, which writes and reports."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, task

from airflow_kafka_offsets import kafka_spark_batch
from airflow_kafka_offsets.offsets import Timestamp
from tests.airflow import reader

COMMON: dict[str, Any] = {"schedule": "@hourly", "start_date": datetime(2026, 1, 1, tzinfo=UTC), "catchup": False}


@task
def spark(arguments: list[str], params: Any = None) -> None:
    if params["fails"]:
        raise RuntimeError("the driver was killed, as the run's conf says")
    reader.read_batch(arguments, f"{params['lake']}/orders")


def batch(**pipeline: Any) -> None:
    submit = {"application": "not-started.py", "submit": lambda application, arguments: spark(arguments)}
    kafka_spark_batch("orders", **{"topics": "orders", "sensor": False, "retries": 0, **submit, **pipeline})


PARAMS = {"params": {"fails": False, "lake": "/tmp/lake", "since": "", "until": ""}}

with DAG("orders_to_lake", **PARAMS, **COMMON):
    batch(pipeline_id="orders", group_id="orders-to-lake", start="earliest")

with DAG("orders_that_fail", **PARAMS, **COMMON):
    batch(pipeline_id="orders-that-fail", start="earliest")

with DAG("evil", **PARAMS, **COMMON):
    batch(pipeline_id="<script>alert('pipeline')<", group_id='"><img src=x onerror=alert(1)>', start="earliest")

with DAG("by_hour", **PARAMS, **COMMON):
    window = {"start": Timestamp("{{ params.since }}"), "end": Timestamp("{{ params.until }}")}
    batch(pipeline_id="orders-by-hour", **window)
