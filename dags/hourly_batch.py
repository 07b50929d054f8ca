"""Every hour: what came since the last committed batch → a Delta table; then the position goes to the consumer group.

The first run starts at the log start; each later one where the last committed batch ended. Between Spark and the commit
stands a check, here one that anybody can make fail (the parameter ``reject``). A batch that it rejects is not
committed: the next run does the same batch again, into the same place.

Runs as it stands with a ``kafka`` connection ``kafka_default``, a ``spark`` connection ``spark_default`` and Airflow
variables (or their defaults):

- ``kafka_offsets_topics``: topics to read, separated by commas (``orders``)
- ``kafka_offsets_group``: the consumer group (``hourly-batch``)
- ``kafka_offsets_output``: the folder of the Delta table, which Spark can write (``kafka-offsets/orders`` at home)
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import Delta, kafka_spark_batch

OUTPUT = str(Path.home() / "kafka-offsets" / "orders")


@task
def check(rejected: str) -> None:
    """Stands for yours: row counts, null rates, whatever has to hold before the batch counts."""
    if rejected == "True":
        raise AirflowFailException("This batch was rejected, by the run's parameter 'reject'.")


with DAG(
    "kafka_hourly_batch",
    description=__doc__.splitlines()[0],
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    params={"min_partitions": 1, "reject": False},
    tags=["kafka", "spark"],
    doc_md=__doc__,
):
    kafka_spark_batch(
        "orders",
        topics="{{ var.value.get('kafka_offsets_topics', 'orders') }}",
        group_id="{{ var.value.get('kafka_offsets_group', 'hourly-batch') }}",
        start="earliest",
        sink=Delta("{{ var.value.get('kafka_offsets_output', '" + OUTPUT + "') }}"),
        spark={"conf": {"spark.kafka_offsets.source.minPartitions": "{{ params.min_partitions }}"}},
        before_commit=[check("{{ params.reject }}")],
    )
