"""One hour of records a run, by their timestamps: for backfills of hours that are past.

Each run reads the window ``[data_interval_start, data_interval_end)`` of its own hour into its own folder. A window is
a function of the interval alone: runs may go forwards, backwards, side by side and again; no consumer group is read or
moved. Start it with ``airflow backfill create --dag-id kafka_backfill_by_timestamp --from-date … --to-date …``.

``kafka-offsets plan`` shows what a run of one hour would read, before you start it: see ``docs/time.md``.

``CronDataIntervalTimetable`` is what gives a run its hour: a plain cron string makes intervals without length, and is
refused. ``docs/time.md`` has the other timetables that do.
Connections and variables as in ``hourly_batch.py``; the files go to ``kafka_offsets_backfill_output``.
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_kafka_offsets import kafka_spark_batch

OUTPUT = str(Path.home() / "kafka-offsets" / "orders-by-hour")

with DAG(
    "kafka_backfill_by_timestamp",
    description=__doc__.splitlines()[0],
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2},
    tags=["kafka", "spark", "backfill"],
    doc_md=__doc__,
):
    kafka_spark_batch(
        "orders",
        topics="{{ var.value.get('kafka_offsets_topics', 'orders') }}",
        startup_mode="timestamp",
        bounded_mode="timestamp",
        sink={"format": "parquet", "path": "{{ var.value.get('kafka_offsets_backfill_output', '" + OUTPUT + "') }}"},
    )
