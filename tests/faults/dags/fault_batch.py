"""`dags/hourly_batch.py` with everything that a row of the fault matrix chooses taken from the run's conf.

The same task group, wired by the same function, with the same defaults. A row has its own topic, group, output and
work store, so that all rows share one Airflow; and its own copy of the job, so that it can deploy a faulty one first.
"""

from typing import Any

from airflow.sdk import DAG

from airflow_kafka_offsets import kafka_spark_batch

PARAMS = {"topic": "", "group": "", "work_store": "", "output": "", "job": "", "splits": 1, "restart": ""}


def batch(dag_id: str, **more: Any) -> DAG:
    with DAG(
        dag_id,
        schedule=None,
        params=PARAMS,
        default_args={"retries": 3},
        max_active_runs=8,
        render_template_as_native_obj=False,
    ) as dag:
        kafka_spark_batch(
            "orders",
            kafka_config_id="kafka_{{ task.task_id.rpartition('.')[2] }}",  # each its own client.id, which tells their requests apart
            topics="{{ params.topic }}",
            group_id="{{ params.group }}",
            work_store="{{ params.work_store }}",
            startup_mode="earliest-offset",
            splits="{{ params.splits }}",
            sensor={"poke_interval": 1, "timeout": 60},
            application="{{ params.job }}",
            application_args=["--output", "{{ params.output }}"],
            **more,
        )
    return dag


fault_batch = batch("fault_batch")
fault_batch_with_executors = batch("fault_batch_with_executors", spark={"conn_id": "spark_executors"})
fault_batch_advancing = batch("fault_batch_advancing", on_data_loss="advance")
fault_batch_adopting = batch("fault_batch_adopting", on_group_moved="adopt-group")
fault_batch_recreated = batch("fault_batch_recreated", on_recreated="earliest")
fault_batch_committed = batch("fault_batch_committed", isolation_level="read_committed")
