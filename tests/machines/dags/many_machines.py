"""DAGs of many machines: hourly with catching up, a day's windows, one by hand, and stores that one machine has."""

import os
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_kafka_offsets import PartitionDiscoverySensor, ResolveStartupOffsetsOperator, kafka_spark_batch

TOPIC = "{{ params.topic or var.value.get('machines_topic', '') }}"
OUTPUT = "s3a://" + os.environ["MACHINES_BUCKET"] + "/{{ dag.dag_id }}/" + TOPIC
START = datetime.fromisoformat(os.environ["MACHINES_START"])
HOURLY = CronDataIntervalTimetable("0 * * * *", timezone="UTC")


def batch(dag_id: str, schedule: Any = None, *, max_active_runs: int = 2, **more: Any) -> None:
    with DAG(
        dag_id,
        schedule=schedule,
        start_date=START,
        end_date=datetime.fromisoformat(os.environ["MACHINES_END"]),
        catchup=dag_id == "hourly",
        is_paused_upon_creation=schedule is not None,
        max_active_runs=max_active_runs,
        params={"topic": ""},
        default_args={"retries": 4, "retry_delay": timedelta(seconds=1)},
    ):
        kafka_spark_batch(
            "orders",
            topics=TOPIC,
            group_id=TOPIC + "-{{ dag.dag_id }}",
            sensor={"poke_interval": 1, "timeout": 300, "deferrable": True},
            sink={"format": "parquet", "path": OUTPUT},
            **more,
        )


batch("hourly", HOURLY, max_active_runs=1, startup_mode="earliest-offset", bounded_mode="timestamp")
batch("windows", HOURLY, startup_mode="timestamp", bounded_mode="timestamp")
batch("by_hand", startup_mode="earliest-offset")


def store_of_one_machine(dag_id: str, work_store: str | None, **where: Any) -> None:
    """:param where: the queue or executor of its task."""
    with DAG(dag_id, schedule=None, start_date=START, catchup=False, params={"topic": ""}):
        ResolveStartupOffsetsOperator(
            task_id="resolve",
            topics=TOPIC,
            group_id=TOPIC,
            startup_mode="earliest-offset",
            work_store=work_store,
            retries=3,
            **where,
        )


store_of_one_machine("in_each_home", "~/kafka_offsets")
store_of_one_machine("on_the_schedulers_machine", "/srv/kafka_offsets", executor="LocalExecutor")
store_of_one_machine("on_a_bare_worker", None, queue="bare")

with DAG("waits", schedule=None, start_date=START, catchup=False, params={"topic": ""}):
    PartitionDiscoverySensor(task_id="wait", topics=TOPIC, deferrable=True, poke_interval=0.5, timeout=300)
