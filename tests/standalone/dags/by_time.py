"""DAGs that a real scheduler runs: hourly, backfilled, by hand, after an asset.

Between resolve and commit stands a reader without Spark, because a backfill of a day has 24 of it: it reads exactly
the ranges of its split with a consumer, writes the values into the run's own file, and reports as a Spark job does.
"""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, task
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets import CommitOffsetsOperator, PartitionDiscoverySensor, ResolveStartupOffsetsOperator
from airflow_kafka_offsets.offsets.assign import split_plan
from airflow_kafka_offsets.offsets.job import parse_job_arguments
from airflow_kafka_offsets.offsets.verify import PartitionRead, ReadReport
from airflow_kafka_offsets.stores.objects import open_work_store, safe_name
from airflow_kafka_offsets.stores.reads import begin_read, store_report
from airflow_kafka_offsets.stores.runs import read_stored_plan

TOPIC = "{{ params.topic or var.value.get('by_time_topic', '') }}"
GROUP = TOPIC + "-group"
HOURLY = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
START = datetime.fromisoformat(os.environ["BY_TIME_START"])
OUTPUT = Path(os.environ["BY_TIME_OUTPUT"])
UPSTREAM = Asset("by-time-upstream")


@task
def read(arguments: list[str]) -> None:
    """One split: plan → consumer → file → report."""
    job = parse_job_arguments(arguments)
    store = open_work_store(job.store_uri)
    plan = read_stored_plan(store, job.stored_name, job.plan_id)
    assert plan.run is not None
    output = OUTPUT / plan.run.dag_id / f"{safe_name(plan.run.run_id)}.json"
    attempt = begin_read(store, plan, job.split, str(output))
    consumer = Consumer({"bootstrap.servers": job.bootstrap_servers, "group.id": "reader", "enable.auto.commit": False})
    values: list[str] = []
    reads: dict[object, PartitionRead] = {}
    for planned in split_plan(plan)[job.split]:
        tp = planned.topic_partition
        consumer.assign([KafkaTopicPartition(tp.topic, tp.partition, planned.start_offset)])
        offsets: list[int] = []
        while not offsets or offsets[-1] < planned.end_offset - 1:
            message = consumer.poll(30)
            assert message is not None, f"{tp} ends before {planned.end_offset}"
            assert message.error() is None, message.error()
            offsets.append(message.offset())
            values.append(message.value().decode())
        reads[tp] = PartitionRead(len(offsets), offsets[0], offsets[-1])
    consumer.close()
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(values))
    store_report(store, ReadReport(plan.plan_id, job.split, attempt, "counts", reads, str(output)))


def batch(dag_id: str, schedule: object, *, max_active_runs: int = 1, catchup: bool = False, **resolve: object) -> None:
    with DAG(
        dag_id,
        schedule=schedule,
        start_date=START,
        catchup=catchup,
        is_paused_upon_creation=catchup,
        max_active_runs=max_active_runs,
        params={"topic": "", "from": None, "until": None},
        default_args={"retries": 5, "retry_delay": timedelta(seconds=1)},
    ):
        plan = ResolveStartupOffsetsOperator(task_id="resolve", topics=TOPIC, group_id=GROUP, **resolve)
        commit = CommitOffsetsOperator(task_id="commit", plan=plan.output["plan"])
        read.expand(arguments=plan.output) >> commit


WINDOW = {"startup_mode": "timestamp", "bounded_mode": "timestamp"}
LIVE = {"startup_mode": "earliest-offset", "bounded_mode": "timestamp"}

batch("live_hourly", HOURLY, catchup=True, **LIVE)
batch("windows_hourly", HOURLY, max_active_runs=3, **WINDOW)
batch("windows_without_intervals", "0 * * * *", **WINDOW)
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
