"""Every hour: Debezium's changes of customers → a Delta table of all changes → a table with one row per customer.

The first table has a row per change. Behind the commit, the second one becomes what the first one says: the last row of
each customer, without deleted ones. One task does it all.

Runs as it stands with a ``kafka`` connection ``kafka_default``, a ``spark`` connection ``spark_default`` and Airflow
variables (or their defaults):

- ``kafka_offsets_customers_topic``: the connector's topic (``shop.public.customers``), in JSON
- ``kafka_offsets_customers_group``: the consumer group (``customers-to-lake``)
- ``kafka_offsets_customers``: the folder of both tables (``kafka-offsets/customers`` at home)
- ``kafka_offsets_spark_connect``: a connection to a Spark Connect server (none: the job is submitted)
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_kafka_offsets import Debezium, Delta, Json, KafkaSparkBatchOperator, Merge, Rows

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
    KafkaSparkBatchOperator(
        task_id="customers",
        topics="{{ var.value.get('kafka_offsets_customers_topic', 'shop.public.customers') }}",
        group_id="{{ var.value.get('kafka_offsets_customers_group', 'customers-to-lake') }}",
        start="earliest",
        rows=Rows(
            value=Debezium(Json("id BIGINT, name STRING, city STRING")),
            key=Json("id BIGINT"),
        ),
        sink=Delta(TABLES + "/changes", evolve="add"),
        merge=Merge(TABLES + "/current", keys=["id"]),
        spark_connect="{{ var.value.get('kafka_offsets_spark_connect', '') }}",
    )
