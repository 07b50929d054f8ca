"""The brokers' answers of one attempt, by partition. An error either heals with time, or needs a right, or is final.

confluent-kafka gives an error beside each partition and a call that succeeded. All partitions are looked at before one
error is raised, so that it names every one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets.broker.connection import (
    NOT_AUTHORIZED,
    TRANSIENT,
    Connection,
    NotYet,
    in_words,
    not_authorized,
)
from airflow_kafka_offsets.errors import ClusterUnavailable, listed
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition

T = TypeVar("T")


class Refusals:
    """The partitions (or topics) of one attempt that have no answer.

    :param what: the question in words, for the error.
    :param connection: of the client that asks.
    :param right: the right on the topic that the question needs.
    :param causes: of partitions that wait, why, where the cluster itself has told it in this attempt or one before.
    """

    def __init__(
        self, what: str, connection: Connection, right: str, causes: dict[TopicPartition, str] | None = None
    ) -> None:
        self.causes = {} if causes is None else causes
        self._what = what
        self._connection = connection
        self._right = right
        self._errors: dict[TopicPartition | str, KafkaError] = {}
        self.waiting: dict[TopicPartition | str, str] = {}

    def add(self, of: TopicPartition | str, error: KafkaError) -> None:
        if error.code() in TRANSIENT:
            self.waiting[of] = in_words(error)
        else:
            self._errors[of] = error

    def add_all(self, partitions: Iterable[TopicPartition], error: KafkaError) -> None:
        for tp in partitions:
            self.add(tp, error)

    def raise_final(self) -> None:
        """Raise the errors that waiting does not heal.

        :raises NotAuthorized: all of those are a missing right.
        :raises ClusterUnavailable: with every partition that has no answer.
        """
        if not self._errors:
            return
        denied = {of: error for of, error in self._errors.items() if error.code() in NOT_AUTHORIZED}
        if len(denied) == len(self._errors):
            topics = sorted({of if isinstance(of, str) else of.topic for of in denied})
            which = ", ".join(str(of) for of in sorted(denied, key=str)[:20])
            error = next(iter(denied.values()))
            what = f"{self._what} of {which}"
            raise not_authorized(what, self._connection, error, f"{self._right} on topic {', '.join(topics[:20])}")
        lines = {**self.waiting, **{of: in_words(error) for of, error in self._errors.items()}}
        raise ClusterUnavailable(
            f"Cannot {self._what} at {self._connection.address}", _table(lines), "See the broker's log, then try again."
        )

    def settle(self) -> None:
        """Raise if any partition has no answer.

        :raises NotYet: time may mend them.
        """
        self.raise_final()
        if self.waiting:
            told = {tp: why for tp, why in self.causes.items() if tp in self.waiting}
            for tp, why in told.items():
                self.waiting[tp] = why
            raise NotYet(_table(self.waiting), told)


def _table(lines: Mapping[TopicPartition | str, str]) -> str:
    # TopicPartitions sort by number, names as text; one attempt has either.
    return listed(f"{of}: {lines[of]}" for of in sorted(lines))


def chunks(items: Collection[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def to_kafka(tp: TopicPartition, commit: CommittedOffset | None = None) -> KafkaTopicPartition:
    if commit is None:
        return KafkaTopicPartition(tp.topic, tp.partition)
    epoch = {} if commit.leader_epoch is None else {"leader_epoch": commit.leader_epoch}
    return KafkaTopicPartition(tp.topic, tp.partition, commit.offset, commit.metadata, **epoch)


def epoch_of(value: int | None) -> int | None:
    """``None`` where the broker gives none (-1)."""
    return value if value is not None and value >= 0 else None
