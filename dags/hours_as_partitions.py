"""Each hour of orders is a partition of an asset, and another DAG runs once for each hour that is verified.

The first DAG writes the hour's records and commits them; with that the asset ``orders-by-hour`` gets the partition
``2026-11-20T14:00:00`` (UTC). The second one waits for no sensor: Airflow starts it for that partition, whichever hour
is written first. An event with a partition starts only DAGs that are scheduled on partitions.

Needs Airflow 3.3. Connections as in ``hourly_batch.py``, and Airflow variables (or their defaults):

- ``kafka_offsets_topics``: topics to read, separated by commas (``orders``)
- ``kafka_offsets_hours_output``: the folder of the Delta table (``kafka-offsets/orders-by-hour`` at home)
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, Asset, PartitionedAssetTimetable, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import Delta, KafkaSparkBatchOperator, Timestamp

OUTPUT = str(Path.home() / "kafka-offsets" / "orders-by-hour")
hours = Asset("orders-by-hour")

with DAG(
    "kafka_hours_as_partitions",
    description=__doc__.splitlines()[0],
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["kafka", "spark"],
    doc_md=__doc__,
):
    KafkaSparkBatchOperator(
        task_id="orders",
        topics="{{ var.value.get('kafka_offsets_topics', 'orders') }}",
        start=Timestamp(),
        end=Timestamp(),
        sink=Delta("{{ var.value.get('kafka_offsets_hours_output', '" + OUTPUT + "') }}"),
        outlets=[hours],
        partitions=True,
    )

with DAG(
    "kafka_hour_is_complete",
    description="For each hour that is written and verified.",
    schedule=PartitionedAssetTimetable(assets=hours),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["kafka"],
):

    @task
    def report(partition_key: str | None = None) -> str | None:
        """Stands for yours: what reads one hour of the table."""
        return partition_key

    report()
