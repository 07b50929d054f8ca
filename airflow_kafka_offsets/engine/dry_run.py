"""A store and a cluster that keep their writes to themselves: a dry run is the same turn over them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Self

from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import GroupActive
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.store.memory import MemoryStore
from airflow_kafka_offsets.store.protocol import Store


class DryStore:
    """What is created is seen by this object alone, and what is deleted is gone for it alone."""

    def __init__(self, store: Store) -> None:
        self.store, self.uri, self.driver_uri, self.is_remote = store, store.uri, store.driver_uri, store.is_remote
        self.created = MemoryStore()
        self.deleted: set[str] = set()

    def create(self, name: str, data: bytes) -> bool:
        there = self.get(name)
        return self.created.create(name, data) if there is None else there == data

    def get(self, name: str) -> bytes | None:
        if name in self.deleted:
            return None
        own = self.created.get(name)
        return self.store.get(name) if own is None else own

    def list(self, folder: str) -> list[str]:
        before = f"{folder}/" if folder else ""
        names = {*self.store.list(folder), *self.created.list(folder)}
        return sorted(name for name in names if before + name not in self.deleted)

    def delete(self, name: str) -> None:
        self.created.delete(name)
        self.deleted.add(name)


class DryCluster:
    """A commit to a group is refused where the cluster would refuse it, and is otherwise seen by this object alone."""

    def __init__(self, kafka: Cluster) -> None:
        self.kafka = kafka
        self.written: dict[tuple[str, TopicPartition], CommittedOffset] = {}
        self.describe = kafka.describe
        self.log_start_offsets = kafka.log_start_offsets
        self.end_offsets = kafka.end_offsets
        self.ends_of_epochs = kafka.ends_of_epochs
        self.offsets_for_times = kafka.offsets_for_times
        self.first_times = kafka.first_times
        self.newest_timestamps = kafka.newest_timestamps
        self.describe_group = kafka.describe_group

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The cluster behind it is closed by who opened it."""

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        own = {tp: self.written[group_id, tp] for tp in partitions if (group_id, tp) in self.written}
        return {**self.kafka.committed(group_id, partitions), **own}

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        group = self.kafka.describe_group(group_id)
        if not group.is_empty:
            raise GroupActive(group_id, group.state, group.members)
        self.written.update({(group_id, tp): offset for tp, offset in offsets.items()})
