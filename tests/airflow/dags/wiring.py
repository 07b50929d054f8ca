"""DAGs that the tests run: the operators without Spark, and the task group with jobs of several kinds of bad manners.

What differs between tests comes in through the run's conf (``params``).
"""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import (
    DAG,
    Asset,
    CronDataIntervalTimetable,
    CronPartitionTimetable,
    CronTriggerTimetable,
    task,
)
from airflow.sdk.exceptions import AirflowSkipException
from confluent_kafka import Producer

from airflow_kafka_offsets import (
    CommitOffsetsOperator,
    KafkaOffsetsHook,
    OffsetLagSensor,
    PartitionDiscoverySensor,
    ResolveStartupOffsetsOperator,
    WindowCompleteSensor,
    kafka_spark_batch,
)

COMMON = {"start_date": datetime(2026, 1, 1, tzinfo=UTC), "catchup": False}
TOPIC, GROUP = "{{ params.topic }}", "{{ params.group }}"
NAMES = {"topic": "none", "group": "none"}


@task
def succeed() -> None:
    """Stands for a quality check, or a merge."""


with DAG(
    "resolve_and_commit",
    schedule=None,
    params={**NAMES, "startup_mode": "earliest-offset", "max_records": 1_000_000},
    default_args={"retries": 0},
    **COMMON,
):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve",
        topics=TOPIC,
        group_id=GROUP,
        startup_mode="{{ params.startup_mode }}",
        max_records="{{ params.max_records }}",
    )
    CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"], require_report=False)

with DAG("commit_retried", schedule=None, params=NAMES, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset"
    )
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"], require_report=False)
    again = CommitOffsetsOperator(task_id="again", plan=resolve.output["plan"], require_report=False)
    commit >> again


class LosesItsWorkStore(ResolveStartupOffsetsOperator):
    """Its first try plans, and then everything in the work store is gone and more records come."""

    def execute(self, context):
        arguments = super().execute(context)
        if context["ti"].try_number == 1:
            shutil.rmtree(self.work_store)
            config = KafkaOffsetsHook(self.kafka_config_id).client_config
            producer = Producer({"bootstrap.servers": config["bootstrap.servers"]})
            producer.produce(self.topics, b"late")
            producer.flush(30)
            raise RuntimeError("the first try fails after it has planned")
        return arguments


with DAG("work_store_lost", schedule=None, params=NAMES, default_args={"retries": 1}, **COMMON):
    LosesItsWorkStore(
        task_id="resolve",
        topics=TOPIC,
        group_id=GROUP,
        startup_mode="earliest-offset",
        work_store=os.path.join(os.environ["AIRFLOW_HOME"], "lost-work-store"),
    )

with DAG("resolve_skipped", schedule=None, params=NAMES, **COMMON):

    @task
    def not_today() -> None:
        raise AirflowSkipException("not today")

    batch = kafka_spark_batch("orders", topics=TOPIC, group_id=GROUP, application="not-started.py")
    not_today() >> batch

with DAG("job_of_bad_manners", schedule=None, params={**NAMES, "job": "exits_0_at_once"}, **COMMON):
    kafka_spark_batch(
        "orders",
        topics=TOPIC,
        group_id=GROUP,
        startup_mode="earliest-offset",
        application=str(Path(__file__).parent.parent / "jobs" / "{{ params.job }}.py"),
        before_commit=[succeed()],
    )

with DAG("windows", schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"), params=NAMES, **COMMON):
    window = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="timestamp", bounded_mode="timestamp"
    )
    CommitOffsetsOperator(task_id="commit", plan=window.output["plan"])

SCHEDULES = {
    "windows_of_a_cron_string": "0 * * * *",
    "windows_of_a_trigger": CronTriggerTimetable("0 * * * *", timezone="UTC", interval=timedelta(hours=1)),
    "windows_of_partitions": CronPartitionTimetable("0 0 * * *", timezone="Europe/Berlin", run_offset=-1),
    "windows_of_assets": [Asset("window-of-run")],
}
for name, schedule in SCHEDULES.items():
    with DAG(name, schedule=schedule, params=NAMES, **COMMON):
        ResolveStartupOffsetsOperator(
            task_id="resolve",
            topics=TOPIC,
            group_id=GROUP,
            startup_mode="timestamp",
            bounded_mode="timestamp",
            partition_width="P1D",
        )

with DAG("windows_of_the_conf", schedule=None, params=NAMES, **COMMON):
    ResolveStartupOffsetsOperator(
        task_id="resolve",
        topics=TOPIC,
        group_id=GROUP,
        startup_mode="timestamp",
        startup_timestamp="{{ dag_run.conf.start }}",
        bounded_mode="timestamp",
        bounded_timestamp="{{ dag_run.conf.end | tojson if dag_run.conf.end is mapping else dag_run.conf.end }}",
    )

with DAG(
    "partitions_awaited",
    schedule=None,
    params={**NAMES, "min_partitions": 1},
    render_template_as_native_obj=True,
    **COMMON,
):
    PartitionDiscoverySensor(task_id="wait", topics=TOPIC, min_partitions=2, deferrable=True, poke_interval=0.2)

with DAG("pattern_awaited", schedule=None, params=NAMES, **COMMON):
    PartitionDiscoverySensor(
        task_id="wait", topic_pattern="{{ params.topic }}.*", deferrable=False, poke_interval=0.2, timeout=30
    )

with DAG("lag_awaited", schedule=None, params={**NAMES, "min_records": 1}, **COMMON):
    waiting = {"topics": TOPIC, "group_id": GROUP, "min_records": "{{ params.min_records }}", "poke_interval": 0.2}
    deferred = OffsetLagSensor(task_id="deferred", deferrable=True, **waiting)
    deferred >> OffsetLagSensor(task_id="poked", deferrable=False, timeout=30, **waiting)

with DAG("checkpoint_only", schedule=None, params=NAMES, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset"
    )
    CommitOffsetsOperator(
        task_id="commit", plan=resolve.output["plan"], commit_mode="checkpoint-only", require_report=False
    )

with DAG("commit_published", schedule=None, params=NAMES, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset"
    )
    CommitOffsetsOperator(
        task_id="commit", plan=resolve.output["plan"], require_report=False, asset=Asset("committed-orders")
    )

with DAG("window_published", schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"), params=NAMES, **COMMON):
    window = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="timestamp", bounded_mode="timestamp"
    )
    CommitOffsetsOperator(
        task_id="commit", plan=window.output["plan"], require_report=False, asset=Asset("committed-orders")
    )

AWAITED = {"topics": TOPIC, "poke_interval": 0.2, "timeout": 120}
with DAG(
    "window_awaited",
    schedule=None,
    params={**NAMES, "kafka": "kafka_default", "end": 0, "idle_timeout": "PT1H"},
    **COMMON,
):
    for task_id, deferrable in (("poked", False), ("deferred", True)):
        WindowCompleteSensor(
            task_id=task_id,
            kafka_config_id="{{ params.kafka }}",
            end="{{ params.end }}",
            idle_timeout="{{ params.idle_timeout }}",
            deferrable=deferrable,
            **AWAITED,
        )

with DAG(
    "window_of_the_run_awaited", schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"), params=NAMES, **COMMON
):
    WindowCompleteSensor(task_id="wait", **AWAITED)

with DAG("no_window_to_await", schedule=None, params=NAMES, **COMMON):
    WindowCompleteSensor(task_id="wait", idle_timeout="soon", **AWAITED)
