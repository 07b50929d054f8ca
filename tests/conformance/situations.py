"""What a case is, and the states of a topic that the cases begin from, made by hands that any cluster has.

A case says what the operator is given (``ask``) and what must come out, for a topic called ``orders``. On the cluster
the topic has a name that no other test uses; names are put in and taken out of texts on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.offsets import Otherwise, SpecificOffsets
from tests.cluster.real import Hands

T = 1_704_103_200_000  # 2024-01-01T10:00Z, long past on every machine: brokers refuse records of the future
NOW = T + 86_400_000


def at(second: int) -> int:
    return T + 1000 * second


class Range(NamedTuple):
    """One partition of the plan, and how many offsets it gives up or reads again."""

    start: int
    end: int
    lost: int = 0
    skipped: int = 0
    again: int = 0


@dataclass(frozen=True)
class Refused:
    """An error: its class and, for each bad partition, words of its line; or words of the whole text."""

    error: type[KafkaOffsetsError]
    lines: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    words: tuple[str, ...] = ()


State = Callable[[Hands, str], object]


@dataclass(frozen=True)
class Case:
    """One row of the table.

    :ivar rules: the ids that it holds, such as ``C7 E7``.
    :ivar state: makes the topic; may return something that has to stay alive, such as an open transaction.
    :ivar then: what each partition of ``orders`` must be, or the refusal.
    :ivar ask: parameters; without ``topics`` it is ``["orders"]``, and there is a group.
    :ivar commits: what the group holds beforehand, by partition.
    :ivar connection: settings of the Kafka connection.
    :ivar says: a word of the request's warnings.
    :ivar because: why a real broker cannot be brought into this state; empty where it can.
    """

    rules: str
    what: str
    state: State
    then: Mapping[int, Range] | Refused
    ask: Mapping[str, Any] = field(default_factory=dict)
    commits: Mapping[int, int | CommittedOffset] = field(default_factory=dict)
    connection: Mapping[str, Any] = field(default_factory=dict)
    says: str = ""
    because: str = ""

    @property
    def id(self) -> str:
        return f"{self.rules} {self.what}"


def specific(otherwise: Otherwise | None = None, **offsets: int) -> SpecificOffsets:
    """``specific(p0=5)``: offset 5 of partition 0 of ``orders``."""
    return SpecificOffsets({"orders": {name[1:]: offset for name, offset in offsets.items()}}, otherwise)


COMMITTED = {"isolation.level": "read_committed"}

# ── states ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def never_written(hands: Hands, topic: str) -> None:
    hands.create_topic(topic)


def log_4_to_10(hands: Hands, topic: str) -> None:
    """Offsets 0 to 3 are deleted, 4 to 9 are there; offset n is of second n."""
    _log_4_to_10(hands, topic, 1)


def four_logs(hands: Hands, topic: str) -> None:
    _log_4_to_10(hands, topic, 4)


def _log_4_to_10(hands: Hands, topic: str, partitions: int) -> None:
    hands.create_topic(topic, partitions)
    for number in range(partitions):
        hands.produce(TopicPartition(topic, number), [at(second) for second in range(10)])
        hands.delete_records(TopicPartition(topic, number), 4)


def emptied(hands: Hands, topic: str) -> None:
    hands.create_topic(topic)
    hands.produce(TopicPartition(topic, 0), [at(second) for second in range(10)])
    hands.delete_records(TopicPartition(topic, 0), 10)


def out_of_order(hands: Hands, topic: str) -> None:
    hands.create_topic(topic)
    hands.produce(TopicPartition(topic, 0), [at(second) for second in (10, 50, 20, 60, 30)])


def appended_by_the_broker(hands: Hands, topic: str) -> None:
    """Producers say seconds 0 to 4; the broker's clock is years later."""
    hands.create_topic(topic, log_append_time=True)
    hands.produce(TopicPartition(topic, 0), [at(second) for second in range(5)])


def without_timestamps(hands: Hands, topic: str) -> None:
    """As in the message formats before 0.10."""
    hands.create_topic(topic)
    hands.produce(TopicPartition(topic, 0), [-1] * 5)


def open_transaction(hands: Hands, topic: str) -> object:
    """0 to 2 are decided; 3 and 4, of seconds 3 and 4, are not. Last stable offset 3, high watermark 5."""
    hands.create_topic(topic)
    hands.produce(TopicPartition(topic, 0), [at(second) for second in range(3)])
    transaction = hands.begin_transaction()
    transaction.produce(TopicPartition(topic, 0), [at(3), at(4)])
    return transaction


def committed_transaction(hands: Hands, topic: str) -> None:
    """0 to 2, then 3 and 4 in a transaction, whose marker is 5."""
    open_transaction(hands, topic).commit()  # type: ignore[attr-defined]


def aborted_transaction(hands: Hands, topic: str) -> None:
    open_transaction(hands, topic).abort()  # type: ignore[attr-defined]


def compacted(hands: Hands, topic: str) -> None:
    """Ten offsets of which 4 and 5 are gone, within the log: 6 and 7 have their keys."""
    hands.create_topic(topic)
    hands.compact(TopicPartition(topic, 0), [at(second) for second in range(10)], {4: 6, 5: 7})


def truncated(hands: Hands, topic: str) -> None:
    """There were 15 records; an unclean election left 10, and epoch 1."""
    hands.create_topic(topic)
    hands.produce(TopicPartition(topic, 0), [at(second) for second in range(15)])
    hands.truncate(TopicPartition(topic, 0), 10)  # type: ignore[attr-defined]


def cut_and_grown(hands: Hands, topic: str) -> None:
    """As ``truncated``, and eight other records since: both ends of the log look unchanged."""
    truncated(hands, topic)
    hands.produce(TopicPartition(topic, 0), [at(second) for second in range(8)])


def leaderless(hands: Hands, topic: str) -> None:
    hands.create_topic(topic, 2)
    hands.elect(TopicPartition(topic, 1), None)  # type: ignore[attr-defined]
