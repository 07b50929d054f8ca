"""A real Kafka cluster behind :mod:`airflow_kafka_offsets.broker.protocol`.

Every answer is checked partition by partition, because the client library's calls succeed without it, and questions go
out in chunks: see ``topic_discovery``, ``lookups`` and ``group_offsets``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from airflow_kafka_offsets.broker.connection import Connection
from airflow_kafka_offsets.broker.group_offsets import describe_group, read_committed_offsets, read_group, write_offsets
from airflow_kafka_offsets.broker.lookups import LookUps, ends_of_epochs
from airflow_kafka_offsets.broker.protocol import GroupDescription
from airflow_kafka_offsets.broker.records import Record, first_times, records_from
from airflow_kafka_offsets.broker.topic_discovery import describe, discover, topic_settings
from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    CommittedOffset,
    IsolationLevel,
    TopicPartition,
    TopicSettings,
)
from airflow_kafka_offsets.request.subscription import Subscription


class KafkaCluster(LookUps):
    """``OffsetReader`` and ``OffsetCommitter`` over confluent-kafka's clients. Use it as a context manager.

    :param config: librdkafka settings, as in the Kafka connection's extra.
    :param deadline_s: how long one question may take with all its retries.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        deadline_s: float = 60.0,
        attempt_s: float = 5.0,
        first_contact_s: float = 10.0,
    ) -> None:
        super().__init__(
            Connection(config, deadline_s=deadline_s, attempt_s=attempt_s, first_contact_s=first_contact_s)
        )

    def __enter__(self) -> KafkaCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        super().close()
        self._connection.close()

    def discover(self, subscription: Subscription) -> ClusterDescription:
        """The topics and partitions of the subscription that exist, without topic ids. One metadata call.

        :raises NotAuthorized: the subscription names a topic that this client may not describe.
        """
        return discover(self._connection, self, subscription)

    def cluster_id(self) -> str:
        return self._connection.cluster_id()

    def describe(self, subscription: Subscription) -> ClusterDescription:
        return describe(self._connection, self, subscription)

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return ends_of_epochs(self._connection, epochs)

    def topic_settings(self, topics: Collection[str]) -> dict[str, TopicSettings]:
        return topic_settings(self._connection, topics)

    def records_from(
        self, starts: Mapping[TopicPartition, int], count: int
    ) -> Iterator[tuple[TopicPartition, list[Record]]]:
        """Of each partition the first ``count`` records at or after an offset, for a person who looks at them."""
        return records_from(self._connection, starts, count)

    def first_times(
        self, starts: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> tuple[dict[TopicPartition, int], str | None]:
        """Of each partition the time of the first record at or after an offset; and why not of all, where it is so."""
        return first_times(self._connection, starts, isolation_level)

    def committed(
        self, group_id: str, partitions: Collection[TopicPartition], *, stable: bool = True
    ) -> dict[TopicPartition, CommittedOffset]:
        return read_committed_offsets(self._connection, group_id, partitions, stable=stable)

    def all_committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """All offsets that the group holds, for the topics that this client may describe."""
        return read_group(self._connection, group_id)

    def describe_group(self, group_id: str) -> GroupDescription:
        return describe_group(self._connection, group_id)

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        write_offsets(self._connection, group_id, offsets)
