"""The Kafka hook, imported when it is first asked for: a DAG file that is parsed asks no cluster.

The hook brings the Kafka provider and confluent-kafka, of which the operators, sensors and triggers need nothing before
they run. Whoever parses DAG files imports those classes again and again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook


def kafka_hook(kafka_config_id: str) -> KafkaOffsetsHook:
    """The hook of that connection, which is not looked at yet."""
    from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook

    return KafkaOffsetsHook(kafka_config_id)
