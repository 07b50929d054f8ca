"""DAGs that the tests run. What stands for Spark is `tests/airflow/reader.py`, a job that follows the contract.

What differs between tests comes in through the run's conf (``params``).
"""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from airflow.sdk import DAG, Asset, get_parsing_context, task, task_group
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import (
    BadRecords,
    CommitOffsetsOperator,
    Delta,
    Iceberg,
    Json,
    KafkaSparkBatchOperator,
    Merge,
    PartitionDiscoverySensor,
    ResolveStartupOffsetsOperator,
    Rows,
    SpecificOffsets,
    Text,
    Timestamp,
    kafka_spark_batch,
)
from airflow_kafka_offsets.hooks.run import AirflowOf, run_key
from tests.airflow import reader

COMMON: dict[str, Any] = {"start_date": datetime(2026, 1, 1, tzinfo=UTC), "catchup": False}
TOPIC, GROUP, OUTPUT = "{{ params.topic }}", "{{ params.group }}", "{{ params.output }}"
PARAMS = {
    "topic": "none",
    "group": "none",
    "output": "none",
    "reject": False,
    "report": True,
    "first_try_fails": False,
    "schema": "id BIGINT",
}
HOURLY = CronDataIntervalTimetable("0 * * * *", timezone="UTC")


@task
def read(arguments: list[str], output: str, params: Any = None, ti: Any = None) -> None:
    """Stands for Spark, which may end badly once it has written."""
    is_broken = params["first_try_fails"] and ti.try_number == 1
    reader.read_batch(arguments, output, is_reported=params["report"] and not is_broken)
    if is_broken:
        raise RuntimeError("the driver ended badly, as the run's conf says")


@task
def read_options(*words: str) -> None:
    """Stands for a Spark job that knows of no batch."""
    reader.read_options(*words)


@task
def check(rejected: str) -> None:
    """Stands for a quality check that anybody can make fail."""
    if rejected == "skip":
        raise AirflowSkipException("skipped, as the run's conf says")
    if rejected == "True":
        raise AirflowFailException("rejected, as the run's conf says")


@task
def notify() -> None:
    """Comes after the commit."""


class RememberingResolve(ResolveStartupOffsetsOperator):
    """Also pushes which batch Airflow remembers."""

    def execute(self, context: Any) -> Any:
        airflow = AirflowOf(context, self.pipeline_id or "", run_key(context, self.task_id), (), self.job_object)
        planned = airflow.last_planned()
        context["ti"].xcom_push(key="remembered", value=planned and planned.key)
        return super().execute(context)


def batch(dag_id: str, schedule: Any = None, retries: int = 0, **more: Any) -> None:
    if get_parsing_context().dag_id not in (None, dag_id):
        return  # of these DAGs one is enough for a run
    with DAG(dag_id, schedule=schedule, params=PARAMS, default_args={"retries": retries}, **COMMON):
        given = {
            "topics": TOPIC,
            "application": "not-started.py",
            "submit": lambda application, arguments: read(arguments, OUTPUT),
            "before_commit": [check("{{ params.reject }}")],
            "sensor": {"poke_interval": 0.2, "timeout": 60},
            "outlets": [Asset(f"asset-of-{dag_id}")],
        }
        kafka_spark_batch("orders", **{**given, "pipeline_id": TOPIC, **more})


batch("batch", group_id=GROUP, start="earliest")
batch("batch_retried", group_id=GROUP, start="earliest", retries=1)
batch("batch_of_group_offsets", group_id=GROUP)
ELSEWHERE = f"{os.environ['AIRFLOW_HOME']}/elsewhere"
batch("batch_elsewhere", group_id=GROUP, start="earliest", checkpoint_location=ELSEWHERE)
batch("batch_advancing", group_id=GROUP, start="earliest", on_data_loss="advance")
batch("batch_by_spark", retries=1, group_id=GROUP, start="earliest", application=None, submit=None, sink=Delta(OUTPUT))
batch("batch_by_own_job", retries=1, group_id=GROUP, start="earliest", submit=None)
batch(
    "batch_typed",
    retries=1,
    group_id=GROUP,
    start="earliest",
    application=None,
    sink=Delta(OUTPUT),
    rows=Rows(Json("{{ params.schema }}")),
)
# Each row waits as long as a property of the server's JVM says, and says in another one that it has begun to.
WAIT = "CAST(reflect('java.lang.System', 'getProperty', 'tests.wait_ms') AS BIGINT)"
WAITING = "reflect('java.lang.System', 'setProperty', 'tests.waiting', 'true')"


def over_connect(table: type[Delta | Iceberg], separator: str) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "start": "earliest",
        "application": None,
        "spark_connect": "spark_connect_default",
        "rows": Rows(
            Text(),
            select=[
                "CAST(value AS BIGINT) AS id",
                f"{WAITING} AS a",
                f"reflect('java.lang.Thread', 'sleep', {WAIT}) AS b",
            ],
            expect={"is a number": "try_cast(value AS BIGINT) IS NOT NULL"},
            bad=BadRecords(table(f"{OUTPUT}{separator}bad"), limit=1),
        ),
        "sink": table(f"{OUTPUT}{separator}rows"),
        "merge": Merge(f"{OUTPUT}{separator}current", keys=["id"]),
    }


SOON = {"execution_timeout": timedelta(seconds=40)}
batch("batch_into_delta", retries=1, submit=None, **over_connect(Delta, "/"))
batch("batch_into_iceberg", retries=1, submit=None, **over_connect(Iceberg, "."))
batch("batch_timed_out", submit=None, **SOON, **over_connect(Delta, "/"))

batch("hours", schedule=HOURLY, start=Timestamp(), end=Timestamp(), sensor=False)
batch("hours_awaited", schedule=HOURLY, start=Timestamp(), end=Timestamp(), sensor={"idle_timeout": 1, "timeout": 60})
batch("windows_without_intervals", schedule=None, start=Timestamp(), end=Timestamp(), sensor=False)

with DAG("batch_mapped", schedule=None, params=PARAMS, default_args={"retries": 0}, **COMMON):
    OF_INDEX = f"{TOPIC}-{{{{ ti.map_index }}}}"

    @task_group
    def per_topic(rejected: str) -> None:
        kafka_spark_batch(
            "orders",
            topics=OF_INDEX,
            pipeline_id=OF_INDEX,
            start="earliest",
            application="not-started.py",
            submit=lambda application, arguments: read(arguments, OUTPUT),
            before_commit=[check(rejected)],
            sensor=False,
        )

    per_topic.expand(rejected=["False", "skip"])

ARGUMENTS = [OUTPUT, "{{ params.first_try_fails }}", "{{ ti.try_number }}"]


def one_task(dag_id: str, schedule: Any = None, **more: Any) -> None:
    with DAG(dag_id, schedule=schedule, params=PARAMS, **COMMON):
        given = {"task_id": "orders", "topics": TOPIC, "pipeline_id": TOPIC, "outlets": [Asset(f"asset-of-{dag_id}")]}
        by_reader = {"application": reader.JOB, "spark": {"application_args": ARGUMENTS}}
        KafkaSparkBatchOperator(**{**given, **by_reader, **more})


one_task("one", group_id=GROUP, start="earliest")
one_task("one_not_retried", group_id=GROUP, start="earliest", retries=0)
one_task("one_into_delta", retries=1, spark=None, **over_connect(Delta, "/"))
one_task("one_timed_out", retries=0, spark=None, **SOON, **over_connect(Delta, "/"))
one_task(
    "one_hours",
    schedule=HOURLY,
    start=Timestamp(),
    end=Timestamp(),
    sensor={"idle_timeout": 7200, "poke_interval": 0.2},
    wait_timeout=1,
)
one_task(
    "one_hours_templated", schedule=HOURLY, start=Timestamp(), end=Timestamp(), application=None, spark=None,
    sink=Delta(OUTPUT + "/{{ data_interval_start.hour }}"), retries=0,
)  # fmt: skip
with DAG("one_mapped", schedule=None, params=PARAMS, default_args={"retries": 0}, **COMMON):
    by_reader = {"start": "earliest", "application": reader.JOB, "spark": {"application_args": ARGUMENTS}}
    KafkaSparkBatchOperator.partial(
        task_id="orders", topics=TOPIC, pipeline_id=TOPIC, group_id=GROUP, max_active_tis_per_dagrun=1, **by_reader
    ).expand(shard=[(0, 2), (1, 2)])
    KafkaSparkBatchOperator.partial(task_id="topics", pipeline_id="{{ task.topics }}", **by_reader).expand(
        topics=[f"{TOPIC}-b", f"{TOPIC}-c"]
    )

with DAG("old_job", schedule=None, params=PARAMS, default_args={"retries": 0}, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, start="earliest", require_report=False, pipeline_id=TOPIC
    )
    out = resolve.output
    words = [out[key] for key in ("assign", "starting_offsets", "ending_offsets", "batch_key")]
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"])
    resolve >> read_options(*words, OUTPUT) >> check("{{ params.reject }}") >> commit >> notify()

with DAG("remembering", schedule=None, params=PARAMS, default_args={"retries": 0}, **COMMON):
    remembering = RememberingResolve(task_id="resolve", topics=TOPIC, start="earliest", pipeline_id=TOPIC)
    read(remembering.output, OUTPUT) >> CommitOffsetsOperator(task_id="commit", plan=remembering.output["plan"])

with DAG("offsets_from_a_task", schedule=None, params=PARAMS, default_args={"retries": 0}, **COMMON):

    @task
    def where(topic: str) -> dict[str, dict[str, int]]:
        """The offsets at which another tool has stopped."""
        return {topic: {"0": 3}}

    start = SpecificOffsets(where(TOPIC), otherwise="earliest")
    ResolveStartupOffsetsOperator(task_id="resolve", topics=TOPIC, start=start, pipeline_id=TOPIC)

with DAG("partitions_awaited", schedule=None, params=PARAMS, **COMMON):
    PartitionDiscoverySensor(task_id="wait", topics=TOPIC, min_partitions=2, poke_interval=0.2, timeout=60)

for kind, is_deferred in {"deferred": True, "here": False}.items():
    with DAG(f"awaited_{kind}", schedule=None, params=PARAMS, default_args={"retries": 1}, **COMMON):
        PartitionDiscoverySensor(
            task_id="wait", topics=TOPIC, poke_interval=0.1, timeout=0.5, deferrable=is_deferred, retry_delay=0
        )
