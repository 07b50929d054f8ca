"""DAGs that the tests run: the operators without Spark, and the task group with jobs of several kinds of bad manners.

What stands for Spark is mostly `tests/airflow/reader.py`, which reads, writes and reports as a driver does.

What differs between tests comes in through the run's conf (``params``).
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    BaseNotifier,
    CronDataIntervalTimetable,
    CronPartitionTimetable,
    CronTriggerTimetable,
    get_parsing_context,
    task,
    task_group,
)
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_kafka_offsets import (
    BatchCommittedSensor,
    CommitOffsetsOperator,
    GroupEmptySensor,
    OffsetLagSensor,
    PartitionDiscoverySensor,
    ResolveStartupOffsetsOperator,
    WindowCompleteSensor,
    kafka_spark_batch,
)
from tests.airflow.reader import read_ranges, read_split

COMMON = {"start_date": datetime(2026, 1, 1, tzinfo=UTC), "catchup": False}
TOPIC, GROUP = "{{ params.topic }}", "{{ params.group }}"
NAMES = {"topic": "none", "group": "none"}


@task
def succeed() -> None:
    """Stands for a quality check, or a merge."""


@task
def read(arguments: list[str]) -> None:
    """Stands for Spark."""
    read_split(arguments)


@task
def read_splits(arguments: list[list[str]]) -> None:
    """Stands for a task that submits a Spark job for each split: docs/many-topics.md."""
    for of_split in arguments:
        read_split(of_split)


@task
def read_by_offsets(arguments: list[str]) -> None:
    """Stands for a Spark job that knows of no batch: it gets a path and three options of Spark's source."""
    read_ranges(*arguments)


@task
def check(rejected: str) -> None:
    """Stands for a quality check that anybody can make fail."""
    if rejected == "True":
        raise AirflowFailException("rejected, as the run's conf says")


BATCH = {
    **NAMES,
    "kafka": "kafka_default",
    "output": "none",
    "startup_mode": "earliest-offset",
    "splits": 1,
    "max_records": 1_000_000,
    "overlap_timeout": "PT12H",
    "reject": False,
}


def batch(dag_id: str, retries: int = 0, **more: Any) -> None:
    if get_parsing_context().dag_id not in (None, dag_id):
        return  # of these DAGs one is enough for a run
    with DAG(dag_id, schedule=None, params=BATCH, default_args={"retries": retries}, **COMMON):
        kafka_spark_batch(
            "orders",
            kafka_config_id="{{ params.kafka }}",
            group_id=GROUP,
            before_commit=[check("{{ params.reject }}")],
            sensor={"poke_interval": 0.2, "timeout": 60},
            **{
                "submit": lambda arguments: read.expand(arguments=arguments),
                "startup_mode": "{{ params.startup_mode }}",
                "splits": "{{ params.splits }}",
                "overlap_timeout": "{{ params.overlap_timeout }}",
                **({} if "topic_pattern" in more else {"topics": TOPIC}),
                **({} if "sink" in more else {"output": "{{ params.output }}"}),
                **more,
            },
        )


batch("batch")
batch("batch_retried", retries=1)
batch(
    "batch_of_an_old_job",
    submit=lambda arguments: read_by_offsets.expand(arguments=arguments),
    application_args=[
        "{{ params.output }}/{batch_key}-{split}.json",
        "{assign}",
        "{starting_offsets}",
        "{ending_offsets}",
    ],
    require_report=False,
)
batch("batch_marked", retries=1)  # whose resolve task a person marks: a success without XComs is any pipeline's
batch("batch_of_nobody_else")
batch("batch_of_a_pattern", topic_pattern=TOPIC + ".*")
batch("batch_into_sink_of_the_day", sink={"format": "parquet", "path": "{{ params.output }}/{{ ds }}"})
batch("batch_into_output_of_the_day", output="{{ params.output }}/{{ ds }}")
JSON = {"format": "json", "schema": "{{ dag_run.conf.schema }}"}
VERSION = {"format": "avro", "registry": "registry", "version": "{{ dag_run.conf.version }}"}
batch("batch_typed", value=JSON)
batch("batch_of_registry", value=VERSION)


def fail(context: Any) -> None:
    """Somebody who cannot be called."""
    raise AirflowFailException("no signal")


class Note(BaseNotifier):
    """Stands for a mail: it writes what it is told below the output."""

    template_fields = ("text",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.text = name, "batch {{ kafka_offsets.batch }} of {{ dag.dag_id }}"

    def notify(self, context: Any) -> None:
        with Path(f"{context['params']['output']}.{self.name}").open("a") as file:
            file.write(json.dumps({"text": self.text, **context["kafka_offsets"]}) + "\n")


batch(
    "batch_that_calls",
    value={"format": "json", "schema": "id BIGINT"},
    bad_records={"format": "parquet", "path": "{{ params.output }}_bad", "limit": 5},
    on_loss=[fail, Note("lost")],
    on_bad_records=Note("bad"),
)
batch(
    "batch_by_spark",
    submit=None,
    sink={"format": "parquet", "path": "{{ params.output }}"},
    value={"format": "json", "schema": "id BIGINT, at TIMESTAMP"},
    bad_records={"format": "parquet", "path": "{{ params.output }}-bad", "limit": 10},
)
batch("batch_by_its_own_name", pipeline_id="lake/{{ params.group }}")
WINDOW = {"startup_mode": "timestamp", "startup_timestamp": "{{ dag_run.conf.start }}", "wait_for_window": False}
batch("windows_by_hand", bounded_mode="timestamp", bounded_timestamp="{{ dag_run.conf.end }}", **WINDOW)

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
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"], require_report=False)
    resolve >> succeed() >> commit

with DAG("skips_by_default", schedule=None, params=NAMES, default_args={"retries": 0}, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", kafka_config_id="skips_by_default", topics=TOPIC, group_id=GROUP
    )
    commit = CommitOffsetsOperator(
        task_id="commit", kafka_config_id="skips_by_default", plan=resolve.output["plan"], require_report=False
    )
    resolve >> succeed() >> commit

with DAG("unreported", schedule=None, params=BATCH, default_args={"retries": 0}, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset"
    )
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"], require_report=False)
    resolve >> check("{{ params.reject }}") >> commit

with DAG("commit_retried", schedule=None, params=NAMES, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset"
    )
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"], require_report=False)
    again = CommitOffsetsOperator(task_id="again", plan=resolve.output["plan"], require_report=False)
    resolve >> succeed() >> commit >> again


with DAG("resolve_skipped", schedule=None, params=NAMES, **COMMON):

    @task
    def not_today() -> None:
        raise AirflowSkipException("not today")

    not_today() >> kafka_spark_batch("orders", topics=TOPIC, group_id=GROUP, application="not-started.py")

with DAG("read_skipped", schedule=None, params=NAMES, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset"
    )
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"], require_report=False)
    resolve >> not_today() >> check("False") >> commit

with DAG("read_skipped_late", schedule=None, params=NAMES, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset"
    )
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"], require_report=False)
    resolve >> check("False") >> not_today() >> commit

with DAG("read_not_chosen", schedule=None, params={**NAMES, "chosen": "commit"}, **COMMON):

    @task.branch
    def choose(_: Any, chosen: str) -> str:
        return chosen

    @task
    def read_otherwise(arguments: list[list[str]]) -> None:
        """Stands for a larger cluster."""

    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset"
    )
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"], require_report=False)
    chooses = choose(resolve.output, "{{ params.chosen }}")
    chooses >> [read_splits(resolve.output), read_otherwise(resolve.output), succeed()] >> commit
    chooses >> commit

with DAG("read_not_waited_for", schedule=None, params=NAMES, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset"
    )
    CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"], require_report=False)
    resolve >> succeed()

with DAG("check_skipped", schedule=None, params=NAMES, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset"
    )
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"], require_report=False)
    read = check("False")
    resolve >> read >> not_today() >> commit
    read >> commit

with DAG("job_of_bad_manners", schedule=None, params={**NAMES, "job": "exits_0_at_once", "splits": 1}, **COMMON):
    kafka_spark_batch(
        "orders",
        topics=TOPIC,
        group_id=GROUP,
        startup_mode="earliest-offset",
        splits="{{ params.splits }}",
        application=str(Path(__file__).parent.parent / "jobs" / "{{ params.job }}.py"),
        before_commit=[succeed()],
    )

with DAG("windows", schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"), params=NAMES, **COMMON):
    window = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="timestamp", bounded_mode="timestamp"
    )
    CommitOffsetsOperator(task_id="commit", plan=window.output["plan"])

SCHEDULES = {
    "windows_without_a_schedule": None,
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

with DAG("plan_given", schedule=None, params={**NAMES, "file": "none"}, **COMMON):
    ResolveStartupOffsetsOperator(task_id="resolve", topics=TOPIC, group_id=GROUP, from_plan="@{{ params.file }}")

with DAG("commit_awaited", schedule=None, params={**NAMES, "end": 0}, **COMMON):
    BatchCommittedSensor(
        task_id="wait",
        pipeline_id=f"{GROUP}/checkpoint_only/resolve",
        end="{{ params.end }}",
        poke_interval=0.2,
    )
    GroupEmptySensor(task_id="empty", group_id=GROUP, poke_interval=0.2)

with DAG("checkpoint_only", schedule=None, params=NAMES, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset", commit_mode="checkpoint-only"
    )
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"], require_report=False)
    resolve >> succeed() >> commit

with DAG("commit_published", schedule=None, params=NAMES, **COMMON):
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="earliest-offset"
    )
    commit = CommitOffsetsOperator(
        task_id="commit", plan=resolve.output["plan"], require_report=False, asset=Asset("committed-orders")
    )
    resolve >> succeed() >> commit

with DAG("window_published", schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"), params=NAMES, **COMMON):
    window = ResolveStartupOffsetsOperator(
        task_id="resolve", topics=TOPIC, group_id=GROUP, startup_mode="timestamp", bounded_mode="timestamp"
    )
    published = {"plan": window.output["plan"], "require_report": False, "asset": Asset("committed-orders")}
    commit = CommitOffsetsOperator(task_id="commit", partitioned_asset=True, **published)
    window >> succeed() >> commit

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
    WindowCompleteSensor(task_id="wait", idle_timeout="{{ 'soon' }}", **AWAITED)

# ── mapped ────────────────────────────────────────────────────────────────────────────────────────────────────────────

EARLIEST = {"startup_mode": "earliest-offset", "group_id": GROUP}
NATIVE = {"render_template_as_native_obj": True, "default_args": {"retries": 0}}


@task
def listed(items: Any) -> list[Any]:
    """Airflow maps over what a task returns, and over nothing else."""
    return list(items)


with DAG("mapped", schedule=None, params={**NAMES, "topics": ["none"], "output": "none"}, **NATIVE, **COMMON):

    @task_group
    def one_topic(topic: str) -> None:
        resolve = ResolveStartupOffsetsOperator(
            task_id="resolve",
            topics=topic,
            pipeline_id="{{ params.group }}/{{ task.topics }}",
            output_name="{{ params.output }}/{{ task.topics }}",
            **EARLIEST,
        )
        read_splits(resolve.output) >> CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"])

    one_topic.expand(topic=listed("{{ params.topics }}"))

with DAG("mapped_without_a_name", schedule=None, params=NAMES, **NATIVE, **COMMON):
    ResolveStartupOffsetsOperator.partial(task_id="resolve", **EARLIEST).expand(topics=[TOPIC])

with DAG("mapped_by_index", schedule=None, params=NAMES, **NATIVE, **COMMON):
    ResolveStartupOffsetsOperator.partial(
        task_id="resolve", pipeline_id="{{ params.group }}/{{ ti.map_index }}", **EARLIEST
    ).expand(topics=[TOPIC])

with DAG("mapped_commit", schedule=None, params=NAMES, **NATIVE, **COMMON):
    resolve = ResolveStartupOffsetsOperator.partial(
        task_id="resolve", pipeline_id="{{ params.group }}/{{ task.topics }}", **EARLIEST
    ).expand(topics=[TOPIC + "-a", TOPIC + "-b"])
    plans = listed(resolve.output["plan"])
    CommitOffsetsOperator.partial(task_id="commit", require_report=False).expand(plan=plans)

with DAG("native", schedule=None, params=NAMES, **NATIVE, **COMMON):
    ResolveStartupOffsetsOperator(task_id="resolve", topics=TOPIC, **EARLIEST)
