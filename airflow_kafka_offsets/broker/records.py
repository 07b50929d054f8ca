"""A few records, for a person who looks at them. No group is joined, and nothing is committed.

Records of transactions that are open or were aborted are among them; what a transaction writes at its end is not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets.broker.config import look_up_settings
from airflow_kafka_offsets.broker.connection import Clients, Connection
from airflow_kafka_offsets.broker.lookups import LookUpClient
from airflow_kafka_offsets.broker.partition_errors import Refusals, chunks
from airflow_kafka_offsets.kafka_values import TimestampType, TopicPartition

_WHAT = "read records"
_AT_ONCE = 10  # partitions, so that what is held stays small
_SETTINGS = {
    **look_up_settings("read_uncommitted"),
    "auto.offset.reset": "earliest",  # records that retention removes meanwhile are passed over
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    # A few are read: by default the client fetches 100,000 of each partition ahead, up to 64 MiB.
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 1024,
}


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
        clients = Clients(lambda: connection.make(LookUpClient, {**connection.settings, **_SETTINGS}))
        found: dict[TopicPartition, list[Record]] = {tp: [] for tp in chunk}
        unfinished = {tp: starts[tp] for tp in chunk}
        connection.ask_with(clients, _WHAT, partial(_read, connection, unfinished, count, found))
        yield from found.items()


def _read(
    connection: Connection,
    unfinished: dict[TopicPartition, int],
    count: int,
    found: Mapping[TopicPartition, list[Record]],
    client: LookUpClient,
) -> None:
    """Read on, and take each partition that has its records out of ``unfinished``."""
    refusals = Refusals(_WHAT, connection, "Read")
    client.assign([KafkaTopicPartition(*tp, offset) for tp, offset in unfinished.items()])
    left = set(unfinished)  # without those that had an error in this attempt
    until = time.monotonic() + connection.attempt_s
    while left and (wait_s := until - time.monotonic()) > 0:
        message = client.poll(wait_s)
        if message is None or (topic := message.topic()) is None:  # nothing yet, or an error that is of no partition
            continue
        tp = TopicPartition(topic, message.partition() or 0)
        if tp not in left:  # it has enough
            continue
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            refusals.add(tp, error)
            left.discard(tp)
            continue
        if error is None:
            found[tp].append(_record(tp, message))
            unfinished[tp] = found[tp][-1].offset + 1
        if error is not None or len(found[tp]) == count:
            client.pause([KafkaTopicPartition(*tp)])
            left.discard(tp)
            del unfinished[tp]
    refusals.waiting.update(dict.fromkeys(left, f"no answer within {connection.attempt_s:g} s"))
    refusals.settle()


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
