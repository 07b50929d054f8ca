"""Every hour: the changes of several topics → a Delta table for each topic, with one row for each key.

The newest record makes the row of its key. A record whose ``op`` is ``d``, or that has no value, deletes
the key: its row stays, with ``kafka_deleted`` true and its values null, so that an older batch that is done again does
not bring the old values back. Readers leave such rows out: ``WHERE kafka_deleted IS NOT TRUE``.

Runs as it stands with a ``kafka`` connection ``kafka_default``, a ``spark`` connection ``spark_default`` and Airflow
variables (or their defaults):

- ``kafka_offsets_entity_topics``: a regular expression that the whole of a topic's name has to match (``shop[.].*``)
- ``kafka_offsets_entity_group``: the consumer group (``entity-tables``)
- ``kafka_offsets_entities``: the folder of the tables (``kafka-offsets/entities`` at home); the bad records go into a
  folder beside it
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_kafka_offsets import kafka_spark_batch

TABLES = "{{ var.value.get('kafka_offsets_entities', '" + str(Path.home() / "kafka-offsets" / "entities") + "') }}"

with DAG(
    "kafka_entity_tables",
    description=__doc__.splitlines()[0],
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2},
    tags=["kafka", "spark"],
    doc_md=__doc__,
):
    kafka_spark_batch(
        "entities",
        topic_pattern="{{ var.value.get('kafka_offsets_entity_topics', 'shop[.].*') }}",
        group_id="{{ var.value.get('kafka_offsets_entity_group', 'entity-tables') }}",
        startup_mode="earliest-offset",
        key={"format": "string"},
        value={"format": "json", "schema": "op STRING, name STRING"},
        select=["key AS id", "value.name AS name"],
        sink={
            "format": "delta",
            "path": TABLES + "/{topic}",
            "upsert": {"keys": ["id"], "delete_when": "value.op = 'd'"},
        },
        bad_records={"format": "parquet", "path": TABLES + "_bad", "limit": 5},
    )
