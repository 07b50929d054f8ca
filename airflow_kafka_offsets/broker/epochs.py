"""How far a log has what it had under an earlier leader: ``OffsetForLeaderEpoch`` (KIP-320).

confluent-kafka has no such call. librdkafka asks it by itself after a ``seek`` to an offset with a leader epoch, before
it fetches (after ``assign`` only where the metadata happens to come later). Here it seeks beyond any log. So each
answer is the error that it has for a log that was cut: nothing is fetched, and the right Describe is enough. The offset
is in that error's text alone, and its code is that of other errors, too: a text that is not known is an error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import partial

from confluent_kafka import OFFSET_END, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets.broker.config import look_up_settings
from airflow_kafka_offsets.broker.connection import Clients, Connection, NotYet, in_words
from airflow_kafka_offsets.broker.lookups import LOOK_UP_CHUNK, LookUpClient
from airflow_kafka_offsets.broker.partition_errors import Refusals, chunks
from airflow_kafka_offsets.kafka_values import TopicPartition

_WHAT = "compare leader epochs"
_BEYOND = 2**62
_ENDS_AT = re.compile(r"truncation detected at .*: broker end offset is (\d+) ")
# The log has no epochs, or the broker does not know the question: records of before Kafka 0.11, brokers of before 2.3.
_NOT_KNOWN = re.compile(r"No epoch found|Offset out of range")


def ends_of_epochs(connection: Connection, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offset after the last one of this leader epoch, or of one before it; absent if the broker does not know."""
    settings = {**look_up_settings("read_uncommitted"), "auto.offset.reset": "error", "fetch.wait.max.ms": 10}
    answers: dict[TopicPartition, int | None] = {}

    def look(chunk: list[TopicPartition], client: LookUpClient) -> None:
        refusals = Refusals(_WHAT, connection, "Describe")
        left = {tp for tp in chunk if tp not in answers}
        try:
            client.assign([KafkaTopicPartition(tp.topic, tp.partition, OFFSET_END) for tp in left])
            for tp in left:
                client.seek(KafkaTopicPartition(tp.topic, tp.partition, _BEYOND, leader_epoch=epochs[tp]))
        except KafkaException as raised:
            raise NotYet(in_words(raised.args[0])) from None
        until = time.monotonic() + connection.attempt_s
        while left and (wait_s := until - time.monotonic()) > 0:
            message = client.poll(wait_s)
            error = message.error() if message is not None else None
            if message is None or error is None or message.topic() is None:
                continue
            tp = TopicPartition(str(message.topic()), message.partition() or 0)
            ends_at = _ENDS_AT.search(error.str())
            if error.code() == KafkaError._AUTO_OFFSET_RESET and (ends_at or _NOT_KNOWN.search(error.str())):
                answers[tp] = int(ends_at[1]) if ends_at else None
            else:
                refusals.add(tp, error)
            left.discard(tp)
        refusals.waiting.update(dict.fromkeys(left, f"no answer within {connection.attempt_s:g} s"))
        refusals.settle()

    for chunk in chunks(sorted(epochs), LOOK_UP_CHUNK):
        # A client for each: one that was assigned other partitions before refuses to seek until they have stopped.
        clients = Clients(lambda: connection.make(LookUpClient, {**connection.settings, **settings}))
        connection.ask_with(clients, _WHAT, partial(look, chunk))
    return {tp: end for tp, end in answers.items() if end is not None}
