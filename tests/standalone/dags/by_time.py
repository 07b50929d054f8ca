"""DAGs that a real scheduler runs: hourly, backfilled, by hand, after an asset, and two runs at once.

What stands between resolve and commit is `tests/airflow/reader.py`, a reader without Spark, because a backfill of a day
has 24 of it.
"""

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, task

from airflow_kafka_offsets import (
    CommitOffsetsOperator,
    PartitionDiscoverySensor,
    ResolveStartupOffsetsOperator,
    kafka_spark_batch,
)
from tests.airflow.reader import read_split

TOPIC = "{{ params.topic or var.value.get('by_time_topic', '') }}"
GROUP = TOPIC + "-{{ dag.dag_id }}"  # one group is one pipeline's
HOURLY = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
START = datetime.fromisoformat(os.environ["BY_TIME_START"])
DAY = datetime.fromisoformat(os.environ["BY_TIME_DAY"])
OUTPUT = Path(os.environ["BY_TIME_OUTPUT"])
UPSTREAM = Asset("by-time-upstream")


@task
def read(arguments: list[str], go: str) -> None:
    """One split; with ``go``, not before that file is there."""
    while go and not Path(go).exists():
        time.sleep(0.1)
    read_split(arguments)


def batch(
    dag_id: str,
    schedule: object,
    *,
    max_active_runs: int = 1,
    catchup: bool = False,
    start: datetime = START,
    end: datetime | None = None,
    **resolve: object,
) -> None:
    with DAG(
        dag_id,
        schedule=schedule,
        start_date=start,
        end_date=end,
        catchup=catchup,
        is_paused_upon_creation=catchup,
        max_active_runs=max_active_runs,
        params={"topic": "", "from": None, "until": None, "go": ""},
        default_args={"retries": 5, "retry_delay": timedelta(seconds=1)},
    ):
        plan = ResolveStartupOffsetsOperator(
            task_id="resolve", topics=TOPIC, group_id=GROUP, output_name=f"{OUTPUT}/{dag_id}/{TOPIC}", **resolve
        )
        commit = CommitOffsetsOperator(task_id="commit", plan=plan.output["plan"])
        read.partial(go="{{ params.go }}").expand(arguments=plan.output) >> commit


WINDOW = {"startup_mode": "timestamp", "bounded_mode": "timestamp"}
LIVE = {"startup_mode": "earliest-offset", "bounded_mode": "timestamp"}

OVER = {"catchup": True, "end": START + timedelta(hours=3)}  # no run of an hour that ends while a test runs

batch("live_hourly", HOURLY, **OVER, **LIVE)
batch("reprocessed_hourly", HOURLY, **OVER, start=START + timedelta(hours=2), **LIVE)
batch("log_without_a_past", HOURLY, **LIVE)
batch("two_at_once", None, max_active_runs=2, startup_mode="earliest-offset")
batch("windows_hourly", HOURLY, max_active_runs=3, **WINDOW)
batch("windows_without_intervals", None, **WINDOW)
batch(
    "windows_by_hand",
    None,
    startup_timestamp="{{ params['from'] }}",
    bounded_timestamp="{{ params.until }}",
    **WINDOW,
)
batch("after_an_asset", UPSTREAM, startup_mode="earliest-offset")
batch("windows_after_an_asset", UPSTREAM, **WINDOW)

with DAG("produces_the_asset", schedule=None, start_date=START, catchup=False):

    @task(outlets=[UPSTREAM])
    def produce() -> None:
        pass

    produce()

with DAG("waits_in_the_triggerer", schedule=None, start_date=START, catchup=False, params={"topic": ""}):
    PartitionDiscoverySensor(task_id="wait", topics=TOPIC, deferrable=True, poke_interval=0.5, timeout=120)

for runs in (3, 16):
    with DAG(
        f"catching_up_{runs}",
        schedule=HOURLY,
        start_date=DAY,
        end_date=DAY + timedelta(hours=15),
        catchup=True,
        is_paused_upon_creation=True,
        max_active_runs=runs,
        params={"topic": ""},
        default_args={"retries": 0},
    ):
        kafka_spark_batch(
            "orders",
            topics=TOPIC,
            group_id=GROUP,
            output=f"{OUTPUT}/catching_up_{runs}/{TOPIC}",
            submit=lambda arguments: read.partial(go="").expand(arguments=arguments),
            **LIVE,
        )
