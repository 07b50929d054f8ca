"""DAGs of an Airflow with a scheduler and a triggerer; what differs between tests is in its environment."""

import os
from datetime import UTC, datetime
from typing import Any

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import DAG, Asset, AssetWatcher, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import KafkaLagTrigger, PartitionDiscoverySensor, Timestamp, kafka_spark_batch
from tests.airflow.reader import read_batch

COMMON: dict[str, Any] = {"start_date": datetime(2026, 1, 1, tzinfo=UTC), "catchup": False}
PREFIX, OUTPUT = (os.environ[f"TEST_{name}"] for name in ("PREFIX", "OUTPUT"))
LAG, HOURS, AWAITED, CHECKED = (f"{PREFIX}-{name}" for name in ("lag", "hours", "awaited", "checked"))


@task
def read(arguments: list[str], output: str) -> None:
    """Stands for Spark."""
    read_batch(arguments, output)


@task
def check(is_skipped: str) -> None:
    """Stands for a quality check."""
    if is_skipped == "True":
        raise AirflowSkipException("skipped, as the run's conf says")


def batch(name: str, topic: str, **more: Any) -> None:
    output = f"{OUTPUT}/{name}"
    kafka_spark_batch(
        name, topics=topic, application="none.py", submit=lambda _, arguments: read(arguments, output), **more
    )


lag = KafkaLagTrigger(topics=LAG, group_id=f"{LAG}-group", min_records=3, poke_interval=0.5)
with DAG("lag_driven", schedule=[Asset("backlog", watchers=[AssetWatcher(name="lag", trigger=lag)])], **COMMON):
    batch("lag", LAG, group_id=f"{LAG}-group", start="earliest")

# It has ended, so that the scheduler makes no run for the hour that it is: windows before it would be fitted to it.
HOURLY = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
with DAG("hours", schedule=HOURLY, end_date=datetime(2026, 3, 3, tzinfo=UTC), max_active_runs=4, **COMMON):
    batch("hours", HOURS, start=Timestamp(), end=Timestamp())

with DAG("awaited", schedule=None, **COMMON):
    # On a busy machine Airflow fails a task that goes on before its scheduler has heard that it was deferred.
    PartitionDiscoverySensor(task_id="wait", topics=AWAITED, poke_interval=0.5, retries=2)

with DAG("checked", schedule=None, **COMMON):
    is_skipped = check("{{ dag_run.conf.get('is_skipped', False) }}")
    batch("checked", CHECKED, start="earliest", before_commit=[is_skipped], retries=0)
