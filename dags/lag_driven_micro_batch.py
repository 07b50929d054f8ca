"""When enough has piled up: the unread records of a consumer group → a Delta table, and then their position.

A watcher in the triggerer looks every few seconds how far the group is behind, without being a member of it. At so many
unread records, or when one of them has waited for so long, it starts a run, which reads all that is there. As long as
that run has not committed, the same backlog starts no other. There is no schedule: with nothing to read, nothing runs.
When a batch is committed, the asset ``orders-micro-batch`` gets an event with its key, which other DAGs can be
scheduled on; it is not the asset that starts this DAG, or the DAG would start itself for ever.

Connections and variables as in ``hourly_batch.py``, and:

- ``kafka_offsets_micro_batch_group``: the consumer group (``micro-batch``)
- ``kafka_offsets_micro_batch_output``: the folder of the Delta table (``kafka-offsets/orders-micro-batch`` at home)
- ``kafka_offsets_min_records``: how many unread records start a run (``10000``)
- ``kafka_offsets_max_age``: how many seconds a record waits at most (``300``)
- ``kafka_offsets_poke_interval``: seconds between two looks (``10``)

A watcher's trigger takes no templates, so its variables are read when the file is parsed.
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, Asset, AssetWatcher, Variable

from airflow_kafka_offsets import Delta, KafkaLagTrigger, KafkaSparkBatchOperator

OUTPUT = str(Path.home() / "kafka-offsets" / "orders-micro-batch")
TOPICS = Variable.get("kafka_offsets_topics", default="orders")
GROUP = Variable.get("kafka_offsets_micro_batch_group", default="micro-batch")

lag = KafkaLagTrigger(
    topics=TOPICS,
    group_id=GROUP,
    min_records=int(Variable.get("kafka_offsets_min_records", default="10000")),
    max_age=float(Variable.get("kafka_offsets_max_age", default="300")),
    poke_interval=float(Variable.get("kafka_offsets_poke_interval", default="10")),
)
backlog = Asset("orders-backlog", watchers=[AssetWatcher(name="lag", trigger=lag)])

with DAG(
    "kafka_lag_driven_micro_batch",
    description=__doc__.splitlines()[0],
    schedule=[backlog],
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["kafka", "spark", "event-driven"],
    doc_md=__doc__,
):
    KafkaSparkBatchOperator(
        task_id="orders",
        topics=TOPICS,
        group_id=GROUP,
        start="earliest",
        sink=Delta("{{ var.value.get('kafka_offsets_micro_batch_output', '" + OUTPUT + "') }}"),
        outlets=[Asset("orders-micro-batch")],
    )
