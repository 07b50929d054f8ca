"""DAGs whose Spark runs in cluster deploy mode, where a driver outlives who submitted it.

One is wired by hand with the provider's own operator, as many DAGs are; the other is `kafka_spark_batch`.
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, task

from airflow_kafka_offsets import CommitOffsetsOperator, ResolveStartupOffsetsOperator, kafka_spark_batch
from testbed.spark_cluster import python_application

ROOT = Path(__file__).resolve().parents[3]
APPLICATION, JAVA_CLASS, PROGRAM = python_application(ROOT / "tests/airflow/jobs/waits_before_it_writes.py", ROOT)

COMMON = {
    "schedule": None,
    "start_date": datetime(2026, 1, 1, tzinfo=UTC),
    "catchup": False,
    "params": {"topic": "none", "group": "none", "output": "none", "go": "/", "hold": False},
}
OUTPUT = "{{ params.output }}"
RESOLVE = {
    "topics": "{{ params.topic }}",
    "group_id": "{{ params.group }}",
    "startup_mode": "earliest-offset",
    "application_args": [*PROGRAM, "--output", OUTPUT, "--go", "{{ params.go }}"],
}
SPARK = {"conn_id": "spark_standalone", "java_class": JAVA_CLASS}


@task
def check(params: dict | None = None) -> None:
    """Stands before the commit: with `hold` the run ends here, Spark done and nothing committed."""
    assert params is not None
    if params["hold"]:
        raise RuntimeError("held, as the run's conf says")


with DAG("standalone_by_hand", **COMMON):
    resolve = ResolveStartupOffsetsOperator(task_id="resolve", output_name=OUTPUT, **RESOLVE)
    read = SparkSubmitOperator.partial(task_id="spark", application=APPLICATION, **SPARK).expand(
        application_args=resolve.output
    )
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"])
    read >> check() >> commit

with DAG("standalone_batch", default_args={"retries": 1}, **COMMON):
    kafka_spark_batch("orders", application=APPLICATION, spark=SPARK, before_commit=[check()], output=OUTPUT, **RESOLVE)
