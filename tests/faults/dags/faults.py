"""The DAGs of the fault matrix: one topic into a Delta table, with one retry.

``python -m tests.faults.dags.faults DAG CONF before|after NAME`` runs one in a worker that kills itself on one line.
The checkpoint location creates a name with ``link``, and Python tells an audit hook of each ``link`` before it happens,
and of the removal of the draft right after it.
"""

import json
import os
import re
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import Delta, KafkaSparkBatchOperator, Merge, Timestamp, kafka_spark_batch
from testbed.topics import wait_for


def tell_of_a_retry(context: Any) -> None:
    """Leave a file beside the output, so that a fault can end before a task is tried again; and let it end."""
    told = Path(f"{context['params']['output']}.{context['ti'].task_id}.retry")
    told.touch()
    wait_for("the fault has ended", lambda: not told.with_suffix(".hold").exists(), 300)


BATCH: dict[str, Any] = {
    "topics": "{{ params.topic }}",
    "pipeline_id": "{{ params.topic }}",
    "sink": Delta("{{ params.output }}"),
}
IN_SEQUENCE = {**BATCH, "group_id": "{{ params.group }}", "start": "earliest"}


def dag(dag_id: str, schedule: CronDataIntervalTimetable | None = None) -> DAG:
    return DAG(
        dag_id,
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        params={"topic": "none", "group": "none", "output": "none"},
        default_args={"retries": 1, "on_retry_callback": tell_of_a_retry},
    )


with dag("faults"):
    kafka_spark_batch("orders", sensor=False, **IN_SEQUENCE)
with dag("faults_of_one_task"):
    KafkaSparkBatchOperator(task_id="orders", **IN_SEQUENCE)
with dag("faults_of_one_task_and_merge"):
    merge = Merge("{{ params.output }}.current", keys=["topic", "partition", "offset"])
    KafkaSparkBatchOperator(task_id="orders", merge=merge, **IN_SEQUENCE)
with dag("faults_of_a_window", CronDataIntervalTimetable("0 * * * *", timezone="UTC")):
    wait = {"idle_timeout": 7200, "poke_interval": 0.2}
    KafkaSparkBatchOperator(task_id="orders", start=Timestamp(), end=Timestamp(), sensor=wait, wait_timeout=1, **BATCH)


def kill_at(when: str, name: str) -> None:
    """Kill this process before or after it creates a name that the regular expression matches."""
    is_linked = False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal is_linked
        is_named = event == "os.link" and re.search(name, os.fspath(arguments[1])) is not None
        if (is_named and when == "before") or (is_linked and event == "os.remove"):
            os.kill(os.getpid(), signal.SIGKILL)
        is_linked = is_linked or is_named

    sys.addaudithook(hook)


if __name__ == "__main__":
    from testbed.dag_runs import load_dag, run_dag

    killed = load_dag(Path(__file__), sys.argv[1])
    kill_at(sys.argv[3], sys.argv[4])
    run_dag(killed, conf=json.loads(sys.argv[2]))
