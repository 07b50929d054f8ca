"""When enough has piled up: the unread records of a consumer group → Parquet, then the group's offsets.

A watcher in the triggerer looks every few seconds how far the group is behind, without being a member of it. At so many
unread records, or when one of them has waited for so long, it starts a run, which reads all that is there. As long as
that run has not committed, the same backlog starts no other. There is no schedule: with nothing to read, nothing runs.
When the records are read and committed, the asset ``orders-micro-batch`` gets an event with their offsets, which other
DAGs can be scheduled on; it is not the asset that starts this DAG, or the DAG would start itself for ever.

Connections and variables as in ``hourly_batch.py``, and:

- ``kafka_offsets_micro_batch_group``: the consumer group (``micro-batch``)
- ``kafka_offsets_micro_batch_output``: where the Parquet files go (``kafka-offsets/orders-micro-batch`` at home)
- ``kafka_offsets_min_records``: how many unread records start a run (``10000``)
- ``kafka_offsets_max_age``: how long a record waits at most, an ISO 8601 duration (``PT5M``)
- ``kafka_offsets_poke_interval``: seconds between two looks (``10``)
- ``kafka_offsets_server``: what the topic's asset is named after, as the Kafka provider names it (``localhost:9092``)

A watcher's trigger takes no templates, so its variables are read when the file is parsed.
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.kafka.assets.kafka import create_asset
from airflow.sdk import DAG, Asset, AssetWatcher, Variable

from airflow_kafka_offsets import kafka_spark_batch
from airflow_kafka_offsets.triggers.lag_event import KafkaLagEventTrigger

OUTPUT = str(Path.home() / "kafka-offsets" / "orders-micro-batch")
TOPICS = Variable.get("kafka_offsets_topics", default="orders")
GROUP = Variable.get("kafka_offsets_micro_batch_group", default="micro-batch")

# Its name is its uri: Airflow deactivates one of two assets that share only one of the two.
backlog = create_asset(server=Variable.get("kafka_offsets_server", default="localhost:9092"), topic=TOPICS)
backlog.watchers = [
    AssetWatcher(
        name="backlog",
        trigger=KafkaLagEventTrigger(
            topics=TOPICS,
            group_id=GROUP,
            min_records=Variable.get("kafka_offsets_min_records", default="10000"),
            max_age=Variable.get("kafka_offsets_max_age", default="PT5M"),
            poke_interval=float(Variable.get("kafka_offsets_poke_interval", default="10")),
        ),
    )
]

with DAG(
    "kafka_lag_driven_micro_batch",
    description=__doc__.splitlines()[0],
    schedule=[backlog],
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2},
    tags=["kafka", "spark", "event-driven"],
    doc_md=__doc__,
):
    kafka_spark_batch(
        "orders",
        topics=TOPICS,
        group_id=GROUP,
        startup_mode="earliest-offset",
        sink={"format": "parquet", "path": "{{ var.value.get('kafka_offsets_micro_batch_output', '" + OUTPUT + "') }}"},
        asset=Asset("orders-micro-batch"),
    )
