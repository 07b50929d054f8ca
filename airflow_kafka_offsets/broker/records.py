"""A few records, for a person who looks at them, or the time of the first. No group is joined, nothing is committed.

Under ``read_uncommitted``, records of transactions that are open or were aborted are among them; what a transaction
writes at its end never is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets.broker.config import look_up_settings
from airflow_kafka_offsets.broker.connection import Clients, Connection
from airflow_kafka_offsets.broker.lookups import LookUpClient, messages
from airflow_kafka_offsets.broker.partition_errors import Refusals, chunks
from airflow_kafka_offsets.errors import ClusterUnavailable
from airflow_kafka_offsets.kafka_values import IsolationLevel, TimestampType, TopicPartition

_WHAT = "read records"
_AT_ONCE = 10  # partitions, so that what is held stays small
_SETTINGS = {
    "auto.offset.reset": "earliest",  # records that retention removes meanwhile are passed over
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    # A few are read: by default the client fetches 100,000 of each partition ahead, up to 64 MiB.
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 1024,
}
_ONE_BATCH = {"fetch.message.max.bytes": 16 * 1024}  # for one that is larger the client asks again, for more


@dataclass(frozen=True, slots=True)
class Record:
    """One record as Kafka has it.

    :ivar timestamp_ms: ``None`` where the record has none (written before Kafka 0.10), and then there is no type.
    """

    topic_partition: TopicPartition
    offset: int
    timestamp_ms: int | None
    timestamp_type: TimestampType | None
    headers: tuple[tuple[str, bytes | None], ...]
    key: bytes | None
    value: bytes | None


def records_from(
    connection: Connection, starts: Mapping[TopicPartition, int], count: int
) -> Iterator[tuple[TopicPartition, list[Record]]]:
    """Of each partition the first ``count`` records at or after an offset; fewer where the log ends there.

    :raises NotAuthorized: this client may not read a topic.
    :raises ClusterUnavailable: the brokers do not answer.
    """
    for chunk in chunks(sorted(starts), _AT_ONCE):
        # A client for each: one that was assigned other partitions before may still have records of these.
        found: dict[TopicPartition, list[Record]] = {tp: [] for tp in chunk}

        def keep(tp: TopicPartition, message: Message, found: Any = found) -> bool:
            found[tp].append(_record(tp, message))
            return len(found[tp]) == count

        unfinished = {tp: starts[tp] for tp in chunk}
        connection.ask_with(
            _clients(connection, "read_uncommitted"), _WHAT, partial(_read, connection, unfinished, keep)
        )
        yield from found.items()


def first_times(
    connection: Connection, starts: Mapping[TopicPartition, int], isolation_level: IsolationLevel
) -> tuple[dict[TopicPartition, int], str | None]:
    """Of each partition the time of the first record at or after an offset, by one assignment of all.

    It is absent where there is no record, where it has no time, and where nobody has told it before the deadline. The
    second value says why that is so.
    """
    found: dict[TopicPartition, int] = {}

    def keep(tp: TopicPartition, message: Message) -> bool:
        kind, timestamp_ms = message.timestamp()
        if kind != TIMESTAMP_NOT_AVAILABLE:
            found[tp] = timestamp_ms
        return True

    clients = _clients(connection, isolation_level, **_ONE_BATCH)
    try:
        connection.ask_with(clients, _WHAT, partial(_read, connection, dict(starts), keep))
    except ClusterUnavailable as error:
        return found, error.message
    return found, None


def _clients(connection: Connection, isolation_level: IsolationLevel, **more: Any) -> Clients[LookUpClient]:
    settings = {**connection.settings, **look_up_settings(isolation_level), **_SETTINGS, **more}
    return Clients(lambda: connection.make(LookUpClient, settings))


def _read(
    connection: Connection,
    unfinished: dict[TopicPartition, int],
    keep: Callable[[TopicPartition, Message], bool],
    client: LookUpClient,
) -> None:
    """Read on, and take each partition that has its records out of ``unfinished``.

    :param keep: is given each record; whether it was the partition's last one.
    """
    refusals = Refusals(_WHAT, connection, "Read")
    client.assign([KafkaTopicPartition(*tp, offset) for tp, offset in unfinished.items()])
    left = set(unfinished)  # without those that had an error in this attempt
    for tp, message in messages(client, left, connection.attempt_s, refusals):
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            refusals.add(tp, error)
            left.discard(tp)
            continue
        if error is None:
            unfinished[tp] = (message.offset() or 0) + 1
        if error is not None or keep(tp, message):
            client.pause([KafkaTopicPartition(*tp)])
            left.discard(tp)
            del unfinished[tp]


def _record(tp: TopicPartition, message: Message) -> Record:
    kind, timestamp_ms = message.timestamp()
    is_stamped = kind != TIMESTAMP_NOT_AVAILABLE
    by: TimestampType = "CreateTime" if kind == TIMESTAMP_CREATE_TIME else "LogAppendTime"
    return Record(
        tp,
        message.offset() or 0,
        timestamp_ms if is_stamped else None,
        by if is_stamped else None,
        tuple(message.headers() or ()),  # type: ignore[arg-type]  # it gives bytes, and a list; its type has what it takes
        message.key(),
        message.value(),
    )
