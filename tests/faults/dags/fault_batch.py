"""`dags/hourly_batch.py` with everything that a row of the fault matrix chooses taken from the run's conf.

The same task group, wired by the same function, with the same defaults. A row has its own topic, group, output and
work store, so that all rows share one Airflow; and its own copy of the job, so that it can deploy a faulty one first.
Runs of the DAGs with a schedule have no conf: they take the same from Airflow variables, as `hourly_batch` does.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, task
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets import kafka_spark_batch

PARAMS = {
    "topic": "",
    "group": "",
    "work_store": "",
    "output": "",
    "job": "",
    "splits": 1,
    "reject": False,
    "since": "now-1h",
    "until": "now",
    "expectation": "",
    "limit": "100%",
    "plan": "",
    "checkpoint": "",
}
HOURLY = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
DAILY = CronDataIntervalTimetable("0 0 * * *", timezone="UTC")
TODAY = datetime.fromisoformat(os.environ["FAULTS_TODAY"])


def of_the_run(name: str) -> str:
    return f"{{{{ params.{name} or var.value.get('fault_{name}', '') }}}}"


def written_in_the_dag(dag_id: str) -> str:
    """A path that is no template: `Scene.write_into_dag` has changed the DAG, for each process that parses it since."""
    changed = Path(os.environ["FAULTS_DAG_PATHS"], dag_id)
    return changed.read_text() if changed.exists() else "/no/row/has/named/a/path"


@task
def check(rejected: str) -> None:
    """A quality check between Spark and the commit."""
    if rejected == "True":
        raise AirflowFailException("This batch was rejected, by the run's parameter 'reject'.")


def batch(
    dag_id: str,
    schedule: CronDataIntervalTimetable | None = None,
    retries: int = 3,
    checked: bool = False,
    since: datetime | None = None,
    output: str | None = None,
    **more: Any,
) -> DAG:
    """:param since: where runs begin that the schedule catches up with; by default it has one run, of the last
    interval.

    :param output: by default each run names it.
    """
    output = output or of_the_run("output")
    with DAG(
        dag_id,
        schedule=schedule,
        start_date=since or datetime(2026, 1, 1, tzinfo=UTC),
        catchup=since is not None,
        is_paused_upon_creation=schedule is not None,
        max_active_runs=8 if schedule is None else 1,
        params=PARAMS,
        default_args={"retries": retries},
    ) as dag:
        kafka_spark_batch(
            "orders",
            # Each task with a client.id of its own, by which its requests are told apart.
            kafka_config_id="kafka_{{ task.task_id.rpartition('.')[2] }}",
            topics=of_the_run("topic"),
            group_id=of_the_run("group"),
            work_store=of_the_run("work_store"),
            pipeline_id=of_the_run("group"),  # all these DAGs do the batches of one pipeline
            splits="{{ params.splits }}",
            sensor={"poke_interval": 1, "timeout": 60},
            output=output,
            application=of_the_run("job"),
            application_args=["--output", output],
            asset=Asset("fault-orders"),
            before_commit=[check("{{ params.reject }}")] if checked else [],
            **{"startup_mode": "earliest-offset", **more},
        )
    return dag


fault_batch = batch("fault_batch")
fault_batch_once = batch("fault_batch_once", retries=0)
fault_batch_checked = batch("fault_batch_checked", retries=0, checked=True)
fault_path = batch("fault_path", retries=0, checked=True, output=written_in_the_dag("fault_path"))
fault_path_copied = batch("fault_path_copied", retries=0, output=written_in_the_dag("fault_path_copied"))
fault_batch_with_executors = batch(
    "fault_batch_with_executors", spark={"conn_id": "spark_executors", "conf": {"spark.executor.memory": "640m"}}
)
fault_given_plan = batch("fault_given_plan", startup_mode="group-offsets", from_plan="@{{ params.plan }}")
fault_from_checkpoint = batch(
    "fault_from_checkpoint", startup_mode="specific-offsets", specific_offsets="@{{ params.checkpoint }}"
)
fault_hourly = batch("fault_hourly", HOURLY)
fault_hourly_windows = batch("fault_hourly_windows", HOURLY, startup_mode="timestamp", bounded_mode="timestamp")
fault_until = batch(
    "fault_until", retries=0, bounded_mode="timestamp", bounded_timestamp="{{ params.until }}", wait_for_window=False
)
fault_window = batch(
    "fault_window",
    retries=0,
    startup_mode="timestamp",
    startup_timestamp="{{ params.since }}",
    bounded_mode="timestamp",
    bounded_timestamp="{{ params.until }}",
    wait_for_window=False,
)
TYPED = {
    "value": {"format": "string"},
    "expect": {"the number is expected": of_the_run("expectation")},
    "bad_records": {"format": "parquet", "path": of_the_run("output") + "-bad", "limit": "{{ params.limit }}"},
}
fault_typed = batch("fault_typed", **TYPED)
fault_typed_once = batch("fault_typed_once", retries=0, **TYPED)
AVRO = {
    **TYPED,
    "value": {"format": "avro", "registry": "fault_registry"},
    "select": ["CAST(value.number AS STRING) AS value", "to_json(value) AS decoded"],
}
fault_avro = batch("fault_avro", **AVRO)
fault_avro_once = batch("fault_avro_once", retries=0, **AVRO)
fault_daily = batch(
    "fault_daily", DAILY, since=TODAY - timedelta(days=3), bounded_mode="timestamp", wait_for_window=False
)
