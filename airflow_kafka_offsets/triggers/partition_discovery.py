"""The wait of ``PartitionDiscoverySensor`` in the triggerer: one metadata call a poke, in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_kafka_offsets.errors import InvalidRequest, KafkaOffsetsError, UnavailableError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.discovery import missing_for
from airflow_kafka_offsets.offsets.model import by_topic
from airflow_kafka_offsets.offsets.parse import parse_subscription


class PartitionDiscoveryTrigger(BaseTrigger):
    """Fires ``{"cluster_id": …, "topics": …}`` once nothing is missing, or ``{"error": …}`` where waiting cannot help.

    A cluster that does not answer for a while is waited for: a broker's restart must not fail a sensor.
    """

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
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow
        self.kafka_config_id = kafka_config_id
        self.topics = topics
        self.topic_pattern = topic_pattern
        self.partitions = partitions
        self.include_internal_topics = include_internal_topics
        self.min_partitions = min_partitions
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "airflow_kafka_offsets.triggers.partition_discovery.PartitionDiscoveryTrigger",
            {
                "kafka_config_id": self.kafka_config_id,
                "topics": self.topics,
                "topic_pattern": self.topic_pattern,
                "partitions": self.partitions,
                "include_internal_topics": self.include_internal_topics,
                "min_partitions": self.min_partitions,
                "poke_interval": self.poke_interval,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            try:  # not in the thread that all triggers share by default: a cluster that is down would hold them all up
                found = await sync_to_async(self.look, thread_sensitive=False)()
            except UnavailableError as error:
                if not error.retriable:
                    yield TriggerEvent({"error": str(error)})
                    return
                self.log.warning("Waiting: %s", error)
            except KafkaOffsetsError as error:
                yield TriggerEvent({"error": str(error)})
                return
            else:
                if found is not None:
                    yield TriggerEvent(found)
                    return
            await asyncio.sleep(self.poke_interval)

    def look(self) -> dict[str, Any] | None:
        """One poke: ``{"cluster_id": …, "topics": {"orders": [0, 1]}}``, or ``None`` while that is too little.

        :raises InvalidRequest: the request is wrong, whatever the cluster holds.
        :raises ClusterUnavailable: the cluster could not be asked.
        """
        if self.min_partitions < 1:
            raise InvalidRequest((f"min_partitions is {self.min_partitions}; it must be at least 1.",))
        subscription = parse_subscription(
            self.topics, self.topic_pattern, self.partitions, self.include_internal_topics
        )
        with KafkaOffsetsHook(self.kafka_config_id).open_cluster() as cluster:
            found = cluster.discover(subscription)
        missing = missing_for(subscription, found.topics, self.min_partitions)
        if missing:
            self.log.info("Waiting: %s", "; ".join(missing))
            return None
        return {"cluster_id": found.cluster_id, "topics": by_topic(found.partitions())}
