"""Every hour: JSON orders from Kafka → a Delta table with types, a partition a day; bad records go beside it.

Each record is a row of the table, or lies beside it with the reason why it is bad. If more than 5 % are bad, the run
fails and commits nothing. Correct the schema and clear a run: its batch is written again, and each record moves to
where it belongs.

Runs as it stands with a ``kafka`` connection ``kafka_default``, a ``spark`` connection ``spark_default`` and Airflow
variables (or their defaults):

- ``kafka_offsets_json_topic``: the topic (``json-orders``)
- ``kafka_offsets_json_group``: the consumer group (``typed-orders``)
- ``kafka_offsets_table``: where the Delta table goes (``kafka-offsets/typed_orders`` at home); the bad records go into
  another one beside it
- ``kafka_offsets_spark_connect``: a connection to a Spark Connect server (none: the job is submitted)
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import BadRecords, Delta, Json, KafkaSparkBatchOperator, Rows

TABLE = "{{ var.value.get('kafka_offsets_table', '" + str(Path.home() / "kafka-offsets" / "typed_orders") + "') }}"

with DAG(
    "kafka_typed_orders",
    description=__doc__.splitlines()[0],
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    params={"schema": "id BIGINT, amount DECIMAL(10,2), at TIMESTAMP"},
    tags=["kafka", "spark"],
    doc_md=__doc__,
):
    KafkaSparkBatchOperator(
        task_id="orders",
        topics="{{ var.value.get('kafka_offsets_json_topic', 'json-orders') }}",
        group_id="{{ var.value.get('kafka_offsets_json_group', 'typed-orders') }}",
        start="earliest",
        rows=Rows(
            value=Json("{{ params.schema }}"),
            select=["value.*", "CAST(value.at AS DATE) AS day"],
            expect={"id is present": "value.id IS NOT NULL", "amount is positive": "value.amount > 0"},
            bad=BadRecords(Delta(TABLE + "_bad"), limit="5%"),
        ),
        sink=Delta(TABLE, partition_by=["day"], evolve="add"),
        spark_connect="{{ var.value.get('kafka_offsets_spark_connect', '') }}",
    )
