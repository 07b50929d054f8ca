"""Who stamps a topic's records: ``message.timestamp.type``, by one call for all topics.

It needs the right DescribeConfigs, which nothing else here does: a topic that this client may not ask of is absent.
"""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from airflow_kafka_offsets.broker.answers import Refusals
from airflow_kafka_offsets.broker.connection import NOT_AUTHORIZED, Connection
from airflow_kafka_offsets.offsets.model import TimestampType


def timestamp_types(connection: Connection, topics: Collection[str]) -> dict[str, TimestampType]:
    """``CreateTime`` (the producer's) or ``LogAppendTime`` (the broker's); absent without the right to know."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(set(topics))]

    def look(client: AdminClient) -> dict[str, TimestampType]:
        found: dict[str, TimestampType] = {}
        refusals = Refusals("describe the configuration", connection, "DescribeConfigs")
        for resource, future in client.describe_configs(resources, request_timeout=connection.attempt_s).items():
            try:
                config = future.result(connection.attempt_s + 1)
            except KafkaException as error:
                if error.args[0].code() not in NOT_AUTHORIZED:
                    refusals.add(resource.name, error.args[0])
                continue
            stamped = config["message.timestamp.type"].value == "LogAppendTime"
            found[resource.name] = "LogAppendTime" if stamped else "CreateTime"
        refusals.settle()
        return found

    return connection.ask("describe the configuration", look) if resources else {}
