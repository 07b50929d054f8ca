"""`dags/hourly_batch.py` with everything that a row of the fault matrix chooses taken from the run's conf.

The same task group, wired by the same function, with the same defaults. A row has its own topic, group, output and
work store, so that all rows share one Airflow; and its own copy of the job, so that it can deploy a faulty one first.
Runs of the two DAGs with a schedule have no conf: they take the same from Airflow variables, as `hourly_batch` does.
"""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_kafka_offsets import kafka_spark_batch

PARAMS = {"topic": "", "group": "", "work_store": "", "output": "", "job": "", "splits": 1}
HOURLY = CronDataIntervalTimetable("0 * * * *", timezone="UTC")


def of_the_run(name: str) -> str:
    return f"{{{{ params.{name} or var.value.get('fault_{name}', '') }}}}"


def batch(dag_id: str, schedule: CronDataIntervalTimetable | None = None, retries: int = 3, **more: Any) -> DAG:
    with DAG(
        dag_id,
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
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
            checkpoint_id=of_the_run("group"),  # a policy that the author adds does not make another pipeline
            splits="{{ params.splits }}",
            sensor={"poke_interval": 1, "timeout": 60},
            application=of_the_run("job"),
            application_args=["--output", of_the_run("output")],
            **{"startup_mode": "earliest-offset", **more},
        )
    return dag


fault_batch = batch("fault_batch")
fault_batch_once = batch("fault_batch_once", retries=0)
fault_batch_patient = batch("fault_batch_patient", retries=100)
fault_batch_with_executors = batch(
    "fault_batch_with_executors", spark={"conn_id": "spark_executors", "conf": {"spark.executor.memory": "640m"}}
)
fault_batch_advancing = batch("fault_batch_advancing", on_data_loss="advance")
fault_batch_recreated = batch("fault_batch_recreated", on_recreated="earliest")
fault_batch_committed = batch("fault_batch_committed", isolation_level="read_committed")
fault_hourly = batch("fault_hourly", HOURLY)
fault_hourly_windows = batch("fault_hourly_windows", HOURLY, startup_mode="timestamp", bounded_mode="timestamp")
