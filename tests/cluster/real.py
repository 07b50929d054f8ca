"""What a test does to a cluster besides asking it, as one protocol: :class:`Hands`, and the hands for a real broker.

:class:`tests.cluster.memory.InMemoryCluster` has the same methods, so that one suite runs on both. Here each method
returns when its effect is a fact that the broker itself states; it speaks through confluent-kafka and not through the
package under test.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Protocol

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)

from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from testbed.topics import DEADLINE_S, Topics, quiet, wait_for


class Transaction(Protocol):
    """An open transaction."""

    def produce(self, tp: TopicPartition, timestamps_ms: Sequence[int]) -> list[int]:
        """A record for each timestamp; returns their offsets."""

    def send_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """A commit to the group as part of the transaction: pending until that ends."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class Hands(Protocol):
    """What others do to the cluster that a test looks at."""

    def create_topic(self, name: str, partitions: int = 1, *, log_append_time: bool = False) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def recreate_topic(self, name: str, partitions: int | None = None) -> None:
        """Delete it, and create one of the same name; with as many partitions, if no number is given."""

    def produce(self, tp: TopicPartition, timestamps_ms: Sequence[int]) -> list[int]: ...

    def delete_records(self, tp: TopicPartition, before: int) -> None: ...

    def compact(self, tp: TopicPartition, timestamps_ms: Sequence[int], superseded: Mapping[int, int]) -> None:
        """A record for each timestamp in an empty log; those at ``superseded`` have the keys of later ones: gone."""

    def begin_transaction(self) -> Transaction: ...

    def commit_as_somebody_else(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None: ...

    def live_member(self, group_id: str, topic: str, client_id: str = "consumer-1") -> AbstractContextManager[None]: ...

    def add_partitions(self, name: str, count: int) -> None:
        """``count`` more."""

    def expire(self, group_id: str) -> None:
        """All offsets of the group are gone."""


class RealTransaction:
    """A transactional producer with an open transaction."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._written: set[TopicPartition] = set()
        settings = {**topics.client_config, "transactional.id": f"transaction-{uuid.uuid4().hex[:12]}"}
        self._producer = Producer(settings, logger=quiet)
        self._producer.init_transactions(DEADLINE_S)
        self._producer.begin_transaction()

    def produce(self, tp: TopicPartition, timestamps_ms: Sequence[int]) -> list[int]:
        self._written.add(tp)
        offsets: list[int] = []
        failed: list[object] = []

        def delivered(error: object, message: object) -> None:
            if error is not None:
                failed.append(error)
            else:
                offsets.append(message.offset())  # type: ignore[attr-defined]

        for timestamp_ms in timestamps_ms:
            self._producer.produce(
                tp.topic, partition=tp.partition, value=b"x", timestamp=timestamp_ms, on_delivery=delivered
            )
        left = self._producer.flush(DEADLINE_S)
        assert not failed, failed
        assert left == 0, f"{left} records were not stored"
        return sorted(offsets)

    def commit(self) -> None:
        self._end(lambda: self._producer.commit_transaction(DEADLINE_S))

    def abort(self) -> None:
        self._end(lambda: self._producer.abort_transaction(DEADLINE_S))

    def send_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """A commit to the group as part of the transaction: pending until that ends."""
        consumer = Consumer({**self._topics.client_config, "group.id": group_id}, logger=quiet)
        try:
            pending = [KafkaTopicPartition(tp.topic, tp.partition, offset) for tp, offset in offsets.items()]
            self._producer.send_offsets_to_transaction(pending, consumer.consumer_group_metadata(), DEADLINE_S)
        finally:
            consumer.close()

    def _end(self, end: object) -> None:
        # The call returns before the markers are in the log: wait for one more offset in each partition.
        before = {tp: end_offset(self._topics, tp) for tp in self._written}
        end()  # type: ignore[operator]
        for tp, offset in before.items():
            wait_for(f"the marker in {tp}", partial(self._is_past, tp, offset))

    def _is_past(self, tp: TopicPartition, offset: int) -> bool:
        return end_offset(self._topics, tp) > offset


class RealHands:
    """:class:`Hands` for the cluster that ``topics`` reaches (a ``KafkaBroker`` is a ``Topics``)."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def create_topic(self, name: str, partitions: int = 1, *, log_append_time: bool = False) -> None:
        config = {"retention.ms": "-1"}  # tests write records of the past: time must not delete them
        if log_append_time:
            config["message.timestamp.type"] = "LogAppendTime"
        self._topics.create_topic(name, partitions, config)

    def delete_topic(self, name: str) -> None:
        self._topics.delete_topic(name)

    def recreate_topic(self, name: str, partitions: int | None = None) -> None:
        count = partitions or len(self._topics.offset_bounds(name))
        self.delete_topic(name)
        self.create_topic(name, count)

    def produce(self, tp: TopicPartition, timestamps_ms: Sequence[int]) -> list[int]:
        return self._topics.produce(tp.topic, [(tp.partition, None, "x", ts) for ts in timestamps_ms])

    def delete_records(self, tp: TopicPartition, before: int) -> None:
        self._topics.delete_records({(tp.topic, tp.partition): before})

    def compact(self, tp: TopicPartition, timestamps_ms: Sequence[int], superseded: Mapping[int, int]) -> None:
        """The cleaner looks every 15 s; the broker is told to hurry. The newest segment is never compacted."""
        self._configure(ConfigResource(ResourceType.BROKER, "1"), {"log.cleaner.backoff.ms": "50"})
        wanted = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
        self._configure(ConfigResource(ResourceType.TOPIC, tp.topic), wanted)
        # A change shows before it is in force. Once a later one shows, it is.
        self._configure(ConfigResource(ResourceType.TOPIC, tp.topic), {"file.delete.delay.ms": "1000"})
        keys = [str(superseded.get(offset, offset)) for offset in range(len(timestamps_ms))]
        for key, timestamp_ms in zip(keys, timestamps_ms, strict=True):
            # A call each: a segment is closed by a batch that is younger than its first one by segment.ms.
            self._topics.produce(tp.topic, [(tp.partition, key, "x", timestamp_ms)])
        wait_for(f"compaction of {tp}", lambda: not superseded.keys() & self._offsets(tp, len(timestamps_ms)), 120)

    def _configure(self, resource: ConfigResource, wanted: Mapping[str, str]) -> None:
        """Returns when the broker shows the change."""
        for name, value in wanted.items():
            resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
        admin = self._topics.admin()
        admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)

        def shows() -> bool:
            found = admin.describe_configs([resource])[resource].result(DEADLINE_S)
            return all(found[name].value == value for name, value in wanted.items())

        wait_for(f"{resource} has {dict(wanted)}", shows)

    def _offsets(self, tp: TopicPartition, count: int) -> set[int]:
        """The offsets that a consumer is given, from the log start to the last of ``count``."""
        settings = {"group.id": "none", "enable.auto.commit": False}
        consumer = Consumer({**self._topics.client_config, **settings}, logger=quiet)
        found: set[int] = set()
        try:
            consumer.assign([KafkaTopicPartition(tp.topic, tp.partition, 0)])
            while count - 1 not in found:
                message = consumer.poll(DEADLINE_S)
                assert message is not None, f"{tp} ends before offset {count - 1}"
                if message.error() is None:
                    found.add(message.offset() or 0)
        finally:
            consumer.close()
        return found

    def begin_transaction(self) -> RealTransaction:
        return RealTransaction(self._topics)

    def commit_as_somebody_else(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        asked = ConsumerGroupTopicPartitions(group_id, [_kafka(tp, commit) for tp, commit in offsets.items()])
        admin = self._topics.admin()
        answer = admin.alter_consumer_group_offsets([asked])[group_id].result(DEADLINE_S)
        for tp in answer.topic_partitions:
            if tp.error is not None:
                raise KafkaException(tp.error)

    @contextmanager
    def live_member(
        self, group_id: str, topic: str, client_id: str = "consumer-1", protocol: str = "classic"
    ) -> Iterator[None]:
        settings = {"group.id": group_id, "client.id": client_id, "enable.auto.commit": False}
        settings["group.protocol"] = protocol
        consumer = Consumer({**self._topics.client_config, **settings}, logger=quiet)
        assigned: list[object] = []
        consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.append(partitions))

        def has_joined() -> bool:
            consumer.poll(0.1)
            return bool(assigned)

        try:
            wait_for(f"a member of group {group_id} is given partitions of {topic}", has_joined)
            yield
        finally:
            consumer.close()
            wait_for(f"group {group_id} is without members", lambda: not self._has_members(group_id))

    def _has_members(self, group_id: str) -> bool:
        admin = self._topics.admin()
        return bool(admin.describe_consumer_groups([group_id])[group_id].result(DEADLINE_S).members)

    def add_partitions(self, name: str, count: int) -> None:
        admin = self._topics.admin()
        total = len(self._topics.offset_bounds(name)) + count
        admin.create_partitions([NewPartitions(name, total)])[name].result(DEADLINE_S)
        wait_for(f"{name} has {total} partitions", lambda: len(self._topics.offset_bounds(name)) == total)

    def expire(self, group_id: str) -> None:
        admin = self._topics.admin()
        admin.delete_consumer_groups([group_id])[group_id].result(DEADLINE_S)


def end_offset(topics: Topics, tp: TopicPartition) -> int:
    """The high watermark, asked without the package under test."""
    admin = topics.admin()
    asked = {KafkaTopicPartition(tp.topic, tp.partition): OffsetSpec.latest()}
    uncommitted = IsolationLevel.READ_UNCOMMITTED
    [future] = admin.list_offsets(asked, isolation_level=uncommitted, request_timeout=DEADLINE_S).values()
    offset: int = future.result(DEADLINE_S).offset
    assert offset >= 0, f"{tp}: no answer"
    return offset


def _kafka(tp: TopicPartition, commit: CommittedOffset) -> KafkaTopicPartition:
    epoch = {} if commit.leader_epoch is None else {"leader_epoch": commit.leader_epoch}
    return KafkaTopicPartition(tp.topic, tp.partition, commit.offset, commit.metadata, **epoch)
