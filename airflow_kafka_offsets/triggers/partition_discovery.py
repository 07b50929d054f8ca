"""The wait of ``PartitionDiscoverySensor`` in the triggerer: one metadata call a poke."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.model import by_topic
from airflow_kafka_offsets.offsets.plan.discovery import missing_for
from airflow_kafka_offsets.offsets.request.scope import ScopeParameters, parse_scope
from airflow_kafka_offsets.triggers.waiting import WaitingTrigger


class PartitionDiscoveryTrigger(WaitingTrigger):
    """Fires ``{"cluster_id": …, "topics": …}`` once nothing is missing.

    :param scope: the fields of :class:`ScopeParameters`.
    """

    def __init__(
        self, *, kafka_config_id: str, scope: Mapping[str, Any], min_partitions: int, poke_interval: float
    ) -> None:
        super().__init__(poke_interval)
        self.kafka_config_id = kafka_config_id
        self.scope = dict(scope)
        self.min_partitions = min_partitions

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("kafka_config_id", "scope", "min_partitions", "poke_interval")
        return (
            "airflow_kafka_offsets.triggers.partition_discovery.PartitionDiscoveryTrigger",
            {name: getattr(self, name) for name in names},
        )

    def look(self) -> dict[str, Any] | None:
        """``{"cluster_id": …, "topics": {"orders": [0, 1]}}``, or ``None`` while that is too little."""
        if self.min_partitions < 1:
            raise InvalidRequest((f"min_partitions is {self.min_partitions}; it must be at least 1.",))
        subscription = parse_scope(ScopeParameters(**self.scope)).subscription
        with KafkaOffsetsHook(self.kafka_config_id).open_cluster() as cluster:
            found = cluster.discover(subscription)
        missing = missing_for(subscription, found.topics, self.min_partitions)
        if missing:
            self.log.info("Waiting: %s", "; ".join(missing))
            return None
        return {"cluster_id": found.cluster_id, "topics": by_topic(found.partitions())}
