"""Every hour: changes of customers from Kafka → a Delta table of all changes → a table with one row per customer.

The first table has a row per record. Behind the commit, the last row of each key is merged into the second one. A
record without a value, or whose ``op`` is ``d``, deletes its key: the row stays, with ``kafka_deleted`` true and its
values null, so readers add ``WHERE NOT kafka_deleted``.

Runs as it stands with a ``kafka`` connection ``kafka_default``, a ``spark`` connection ``spark_default`` and Airflow
variables (or their defaults):

- ``kafka_offsets_customers_topic``: the topic (``customers``); the records of a customer have its id as their key
- ``kafka_offsets_customers_group``: the consumer group (``customers-to-lake``)
- ``kafka_offsets_customers``: the folder of both tables (``kafka-offsets/customers`` at home)
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import Delta, Json, Merge, Rows, Text, kafka_spark_batch

TABLES = "{{ var.value.get('kafka_offsets_customers', '" + str(Path.home() / "kafka-offsets" / "customers") + "') }}"

with DAG(
    "kafka_entity_tables",
    description=__doc__.splitlines()[0],
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["kafka", "spark"],
    doc_md=__doc__,
):
    kafka_spark_batch(
        "customers",
        topics="{{ var.value.get('kafka_offsets_customers_topic', 'customers') }}",
        group_id="{{ var.value.get('kafka_offsets_customers_group', 'customers-to-lake') }}",
        start="earliest",
        rows=Rows(
            key=Text(),
            value=Json("op STRING, name STRING, city STRING"),
            select=["key AS id", "value.name", "value.city", "value IS NULL OR value.op = 'd' AS is_deleted"],
            expect={"id is present": "key IS NOT NULL"},
        ),
        sink=Delta(TABLES + "/changes", evolve="add"),
        merge=Merge(TABLES + "/current", keys=["id"], delete_when="is_deleted"),
    )
