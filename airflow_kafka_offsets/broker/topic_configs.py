"""Who stamps a topic's records, and how long they stay: one DescribeConfigs call for all topics.

It needs the right DescribeConfigs, which nothing else here does: a topic that this client may not ask of is absent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from airflow_kafka_offsets.broker.connection import NOT_AUTHORIZED, Connection
from airflow_kafka_offsets.broker.partition_errors import Refusals
from airflow_kafka_offsets.kafka_values import TopicSettings


def topic_settings(connection: Connection, topics: Collection[str]) -> dict[str, TopicSettings]:
    """:class:`TopicSettings` of each topic. A topic whose configuration this client may not read is left out."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(set(topics))]

    def look(client: AdminClient) -> dict[str, TopicSettings]:
        found: dict[str, TopicSettings] = {}
        refusals = Refusals("describe the configuration", connection, "DescribeConfigs")
        for resource, future in client.describe_configs(resources, request_timeout=connection.attempt_s).items():
            try:
                config = future.result(connection.attempt_s + 1)
            except KafkaException as error:
                if error.args[0].code() not in NOT_AUTHORIZED:
                    refusals.add(resource.name, error.args[0])
                continue
            found[resource.name] = _settings({name: entry.value for name, entry in config.items()})
        refusals.settle()
        return found

    return connection.ask("describe the configuration", look) if resources else {}


def _settings(config: Mapping[str, str]) -> TopicSettings:
    """``retention.*`` delete where ``cleanup.policy`` has ``delete``; -1 is without a limit (``LogConfig``)."""
    deletes = "delete" in config["cleanup.policy"].split(",")

    def limit(name: str) -> int | None:
        value = int(config[name])
        return value if deletes and value >= 0 else None

    stamped_by_broker = config["message.timestamp.type"] == "LogAppendTime"
    return TopicSettings(
        "LogAppendTime" if stamped_by_broker else "CreateTime", limit("retention.ms"), limit("retention.bytes")
    )
