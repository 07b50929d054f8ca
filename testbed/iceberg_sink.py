"""Iceberg's own sink for Kafka Connect: JSON records into a table of a Hadoop catalog, with their place in Kafka."""

from pathlib import Path

from testbed.broker import KafkaBroker
from testbed.cache import Say, silent
from testbed.connect import Connect
from testbed.jars import iceberg_sink_jars
from testbed.java import Java

CONTROL = "control-iceberg"
"""A topic that it needs. Its workers tell each other there what they have written."""


class IcebergSink(Connect):
    """Appends a topic's records to a table, which it creates. It goes on where one of the same name has committed.

    :param table: as the catalog calls it: `db.orders`. Its columns `_kafka_metadata_…` are topic, partition and offset.
    """

    def __init__(
        self, java: Java, broker: KafkaBroker, name: str, topic: str, table: str, warehouse: Path, say: Say = silent
    ) -> None:
        settings = {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": "1",
            "topics": topic,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "consumer.override.auto.offset.reset": "earliest",
            "consumer.override.session.timeout.ms": "6000",  # a killed one is missed soon
            "iceberg.catalog.type": "hadoop",
            "iceberg.catalog.warehouse": str(warehouse),
            "iceberg.tables": table,
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.topic": CONTROL,
            "iceberg.control.commit.interval-ms": "1000",
            "transforms": "place",
            "transforms.place.type": "org.apache.iceberg.connect.transforms.KafkaMetadataTransform",
        }
        super().__init__(java, broker, name, iceberg_sink_jars(java, say), settings, say)
