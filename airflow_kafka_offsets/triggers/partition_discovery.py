"""The wait of ``PartitionDiscoverySensor`` in the triggerer: one metadata call a poke."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.discovery import missing_for
from airflow_kafka_offsets.offsets.model import by_topic
from airflow_kafka_offsets.offsets.parse import parse_subscription, subscription_of
from airflow_kafka_offsets.triggers.waiting import WaitingTrigger


class PartitionDiscoveryTrigger(WaitingTrigger):
    """Fires ``{"cluster_id": …, "topics": …}`` once nothing is missing."""

    def __init__(
        self,
        *,
        kafka_config_id: str,
        topics: Sequence[str] | str | None,
        topic_pattern: str | None,
        partitions: Mapping[str, Sequence[int]] | str | None,
        include_internal_topics: bool,
        min_partitions: int,
        poke_interval: float,
    ) -> None:
        super().__init__(poke_interval)
        self.kafka_config_id = kafka_config_id
        self.topics = topics
        self.topic_pattern = topic_pattern
        self.partitions = partitions
        self.include_internal_topics = include_internal_topics
        self.min_partitions = min_partitions

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "airflow_kafka_offsets.triggers.partition_discovery.PartitionDiscoveryTrigger",
            {
                "kafka_config_id": self.kafka_config_id,
                **subscription_of(self),
                "min_partitions": self.min_partitions,
                "poke_interval": self.poke_interval,
            },
        )

    def look(self) -> dict[str, Any] | None:
        """``{"cluster_id": …, "topics": {"orders": [0, 1]}}``, or ``None`` while that is too little."""
        if self.min_partitions < 1:
            raise InvalidRequest((f"min_partitions is {self.min_partitions}; it must be at least 1.",))
        subscription = parse_subscription(**subscription_of(self))
        with KafkaOffsetsHook(self.kafka_config_id).open_cluster() as cluster:
            found = cluster.discover(subscription)
        missing = missing_for(subscription, found.topics, self.min_partitions)
        if missing:
            self.log.info("Waiting: %s", "; ".join(missing))
            return None
        return {"cluster_id": found.cluster_id, "topics": by_topic(found.partitions())}
