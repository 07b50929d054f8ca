"""A store and a cluster that keep their writes to themselves: a dry run is the same turn over them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import GroupActive
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.protocol import Store


class DryStore:
    """What is created is seen by this object alone. Nothing of the store behind it is deleted."""

    def __init__(self, store: Store) -> None:
        self.store, self.uri, self.driver_uri, self.is_remote = store, store.uri, store.driver_uri, store.is_remote
        self.own = MemoryStore()

    def create(self, name: str, data: bytes) -> bool:
        there = self.get(name)
        return self.own.create(name, data) if there is None else there == data

    def get(self, name: str) -> bytes | None:
        own = self.own.get(name)
        return self.store.get(name) if own is None else own

    def list(self, folder: str) -> list[str]:
        return sorted({*self.store.list(folder), *self.own.list(folder)})

    def delete(self, name: str) -> None:
        self.own.delete(name)


def dry_cluster(kafka: Cluster) -> Cluster:
    """The same cluster. A commit to a group is refused where Kafka would, else it is seen by this object alone."""
    return cast(Cluster, _DryCluster(kafka))


class _DryCluster:
    def __init__(self, kafka: Cluster) -> None:
        self.kafka = kafka
        self.own: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    def __getattr__(self, question: str) -> Any:
        return getattr(self.kafka, question)

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        own = {tp: offset for tp, offset in self.own.get(group_id, {}).items() if tp in partitions}
        return {**self.kafka.committed(group_id, partitions), **own}

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        group = self.kafka.describe_group(group_id)
        if not group.is_empty:
            raise GroupActive(group_id, group.state, group.members)
        self.own.setdefault(group_id, {}).update(offsets)
