"""One hour of records a run, by their timestamps: for each hour of the past and of the future.

Each run reads the window ``[data_interval_start, data_interval_end)`` of its own hour. Runs may go forwards, backwards,
side by side and again: neighbouring windows share a cut, so each record is in the output once. A record that comes late
is in the next window. No consumer group is read or moved. Start it with
``airflow backfill create --dag-id kafka_backfill_by_timestamp --from-date … --to-date …``.

``CronDataIntervalTimetable`` is what gives a run its hour: a plain cron string makes intervals without length, which
are refused. Connections as in ``hourly_batch.py``, and Airflow variables (or their defaults):

- ``kafka_offsets_backfill_topics``: topics to read, separated by commas (``orders``)
- ``kafka_offsets_backfill_output``: the folder of the Delta table (``kafka-offsets/orders-by-hour`` at home)
- ``kafka_offsets_spark_connect``: a connection to a Spark Connect server (none: the job is submitted)
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import Delta, KafkaSparkBatchOperator, Timestamp

OUTPUT = str(Path.home() / "kafka-offsets" / "orders-by-hour")

with DAG(
    "kafka_backfill_by_timestamp",
    description=__doc__.splitlines()[0],
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["kafka", "spark", "backfill"],
    doc_md=__doc__,
):
    KafkaSparkBatchOperator(
        task_id="orders",
        topics="{{ var.value.get('kafka_offsets_backfill_topics', 'orders') }}",
        start=Timestamp(),
        end=Timestamp(),
        sink=Delta("{{ var.value.get('kafka_offsets_backfill_output', '" + OUTPUT + "') }}"),
        spark_connect="{{ var.value.get('kafka_offsets_spark_connect', '') }}",
    )
