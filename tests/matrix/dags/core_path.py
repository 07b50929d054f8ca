"""What every row of the matrix runs: Spark batches, a backfill of windows, each sensor, two runs at once.

It is parsed by each Airflow of the matrix, in an environment that has the wheel and nothing of the tests.
"""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Asset, AssetWatcher, Variable, task

from airflow_kafka_offsets import (
    CommitOffsetsOperator,
    OffsetLagSensor,
    ResolveStartupOffsetsOperator,
    kafka_spark_batch,
)
from airflow_kafka_offsets.triggers.lag_event import KafkaLagEventTrigger

try:
    from airflow.sdk import CronDataIntervalTimetable
except ImportError:  # before Airflow 3.2
    from airflow.timetables.interval import CronDataIntervalTimetable

TOPIC, GROUP, OUTPUT = "{{ params.topic }}", "{{ params.group }}", "{{ params.output }}"
COMMON = {
    "start_date": datetime(2026, 1, 1, tzinfo=UTC),
    "catchup": False,
    "params": {"topic": "none", "group": "none", "output": "none", "go": ""},
    "default_args": {"retries": 2, "retry_delay": timedelta(seconds=1)},
}
QUICK = {"poke_interval": 0.5, "timeout": 180}


@task
def gate(go: str) -> None:
    """Stands between the read and the commit; with `go`, not before that file is there."""
    while go and not Path(go).exists():
        time.sleep(0.1)


with DAG("batch", schedule=None, **COMMON):
    kafka_spark_batch(
        "orders",
        topics=TOPIC,
        group_id=GROUP,
        startup_mode="earliest-offset",
        sink={"format": "parquet", "path": OUTPUT},
        sensor={"min_partitions": 2, **QUICK},
    )

with DAG("typed", schedule=None, **COMMON):
    kafka_spark_batch(
        "orders",
        topics=TOPIC,
        group_id=GROUP,
        startup_mode="earliest-offset",
        value={"format": "json", "schema": "n BIGINT NOT NULL, at TIMESTAMP, due DATE"},
        select=["value.*", "CAST(value.at AS DATE) AS day"],
        where="value.n <> 3",
        expect={"n is positive": "value.n > 0"},
        sink={"format": "parquet", "path": OUTPUT},
        bad_records={"format": "parquet", "path": f"{OUTPUT}-bad", "limit": 6},
        sensor=None,
    )

# One for each table format.
for table_format, sink in {
    "delta": {"format": "delta", "path": OUTPUT},
    "iceberg": {"format": "iceberg", "table": f"lake.db.`{TOPIC}`"},
}.items():
    with DAG(table_format, schedule=None, **COMMON):
        kafka_spark_batch(
            "orders", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset", sink=sink, sensor=None
        )

# It has ended: what runs is a backfill, and no schedule.
HOURLY = {
    "schedule": CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    "end_date": datetime(2026, 11, 21, tzinfo=UTC),
}
with DAG("windows", **HOURLY, **COMMON):
    kafka_spark_batch(
        "orders",
        topics=TOPIC,
        startup_mode="timestamp",
        bounded_mode="timestamp",
        sink={"format": "parquet", "path": OUTPUT},
        idle_timeout=1,
        sensor=QUICK,
        wait_for_window=QUICK,
    )

with DAG("by_hand", schedule=None, max_active_runs=2, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset"
    )
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"], require_report=False)
    resolve >> gate("{{ params.go }}") >> commit

with DAG("lag", schedule=None, **COMMON):
    deferred = OffsetLagSensor(task_id="deferred", topics=TOPIC, group_id=GROUP, min_records=3, **QUICK)
    poked = OffsetLagSensor(task_id="poked", topics=TOPIC, group_id=GROUP, deferrable=False, **QUICK)
    deferred >> poked

# Of a topic of its own, whose name is known when the DAG is parsed.
watched = Variable.get("matrix_watched", default="none")
backlog = Asset(
    f"kafka://matrix/{watched}",
    watchers=[
        AssetWatcher(
            name="backlog",
            trigger=KafkaLagEventTrigger(topics=watched, group_id=watched, min_records=3, poke_interval=0.5),
        )
    ],
)
with DAG("watched", schedule=[backlog], **COMMON):
    gate("")
