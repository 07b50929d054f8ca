"""The parts one by one: a sensor, resolve, the Spark provider's own ``SparkSubmitOperator``, and commit.

The sensor waits until the topics are there. Resolve hands the batch's arguments over as an XCom; Spark reads exactly
those offsets, with a job that reports what it wrote; commit verifies the report. What this package's own tasks do for
Spark is done by you here: the worker's ``spark-defaults.conf`` has Spark's Kafka source and, if Kafka wants them,
credentials.

Runs as it stands with a ``kafka`` connection ``kafka_default``, a ``spark`` connection ``spark_default`` and Airflow
variables (or their defaults):

- ``kafka_offsets_topics``: topics to read, separated by commas (``orders``)
- ``kafka_offsets_parts_group``: the consumer group (``orders-by-parts``)
- ``kafka_offsets_parts_output``: a folder that Spark can write (``kafka-offsets/orders-by-day`` at home)
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import CommitOffsetsOperator, PartitionDiscoverySensor, ResolveStartupOffsetsOperator

TOPICS = "{{ var.value.get('kafka_offsets_topics', 'orders') }}"
OUTPUT = str(Path.home() / "kafka-offsets" / "orders-by-day")

with DAG(
    "kafka_sensor_resolve_spark_commit",
    description=__doc__.splitlines()[0],
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    # In a cluster mode, a clear would find the finished driver and submit nothing. Older Spark providers never do.
    default_args={"retries": 2, "durable": False},
    tags=["kafka", "spark"],
    doc_md=__doc__,
):
    wait = PartitionDiscoverySensor(task_id="wait", topics=TOPICS)
    resolve = ResolveStartupOffsetsOperator(
        task_id="resolve",
        topics=TOPICS,
        group_id="{{ var.value.get('kafka_offsets_parts_group', 'orders-by-parts') }}",
        start="earliest",
    )
    spark = SparkSubmitOperator(
        task_id="spark",
        application=str(Path(__file__).resolve().parent / "jobs" / "orders_by_day.py"),
        application_args=resolve.output,
        conf={"spark.orders_by_day.output": "{{ var.value.get('kafka_offsets_parts_output', '" + OUTPUT + "') }}"},
    )
    commit = CommitOffsetsOperator(task_id="commit", plan=resolve.output["plan"])
    wait >> resolve >> spark >> commit
