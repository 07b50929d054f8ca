# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Three questions that a consumer answers only about partitions it is assigned: it never joins a group, nor commits.

**Ends of epochs** (OffsetForLeaderEpoch, KIP-320). confluent-kafka has no such call. librdkafka asks by itself after a
``seek`` to an offset with a leader epoch, before it fetches. Here it seeks beyond any log, so each answer is its error
for a truncated log: nothing is fetched, and the right Describe is enough. The offset is only in that error's text,
and its code is that of other errors, too: an unknown text is an error (docs/architecture.md).

**First times**. A record is fetched for its timestamp.

**Record counts**. Ranges that lie close to each other share a fetch; for others it seeks. Where there are very many,
each partition is read once, from its first range to its last.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from confluent_kafka import OFFSET_END, TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets.broker.connection import Connection, NotYet, OffsetConsumer, in_words
from airflow_kafka_offsets.broker.partition_errors import Refusals, chunks
from airflow_kafka_offsets.broker.protocol import SEEKS
from airflow_kafka_offsets.kafka_values import IsolationLevel, OffsetRange, TopicPartition, grouped
from airflow_kafka_offsets.progress_log import Progress

_BEYOND = 2**62
_ENDS_AT = re.compile(r"truncation detected at .*: broker end offset is (\d+) ")
# The log has no epochs (records from before Kafka 0.11), or the broker does not know the question (before 2.3).
_NOT_KNOWN = re.compile(r"No epoch found|Offset out of range")
_ALL_RECORDS = {
    "auto.offset.reset": "earliest",  # records that retention removes meanwhile are passed over
    "enable.partition.eof": True,
}
_ONE_RECORD = {
    **_ALL_RECORDS,
    # By default the client fetches 100,000 records per partition ahead, up to 64 MiB.
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 1024,
    "fetch.queue.backoff.ms": 10,  # with one message wanted, it would pause for a second behind each fetch
    "fetch.message.max.bytes": 16 * 1024,  # for a larger record the client asks again, for more
}
_CLOSE = 200  # offsets: to read so many takes no longer than to seek


def ends_of_epochs(connection: Connection, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}

    def start(client: OffsetConsumer, chunk: list[TopicPartition]) -> None:
        # After `assign` to the offset itself, the epoch is compared only if the metadata happens to come later.
        client.assign([KafkaTopicPartition(tp.topic, tp.partition, OFFSET_END) for tp in chunk])
        for tp in chunk:
            client.seek(KafkaTopicPartition(tp.topic, tp.partition, _BEYOND, leader_epoch=epochs[tp]))

    def take(_: OffsetConsumer, tp: TopicPartition, message: Message) -> bool:
        error = message.error()
        if error is None or error.code() != KafkaError._AUTO_OFFSET_RESET:
            return False
        ends_at = _ENDS_AT.search(error.str())
        if ends_at:
            found[tp] = int(ends_at[1])
        return bool(ends_at or _NOT_KNOWN.search(error.str()))

    _assign(
        connection, sorted(epochs), "compare leader epochs", "Describe", start, take, {"auto.offset.reset": "error"}
    )
    return found


def first_times(
    connection: Connection, starts: Mapping[TopicPartition, int], isolation_level: IsolationLevel
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}

    def start(client: OffsetConsumer, chunk: list[TopicPartition]) -> None:
        client.assign([KafkaTopicPartition(tp.topic, tp.partition, starts[tp]) for tp in chunk])

    def take(_: OffsetConsumer, tp: TopicPartition, message: Message) -> bool:
        error = message.error()
        kind, timestamp_ms = message.timestamp()
        if error is None and kind != TIMESTAMP_NOT_AVAILABLE:
            found[tp] = timestamp_ms
        return error is None or error.code() == KafkaError._PARTITION_EOF

    settings = {**_ONE_RECORD, "isolation.level": isolation_level}
    _assign(connection, sorted(starts), "read the first records", "Read", start, take, settings)
    return found


def record_counts(
    connection: Connection, ranges: Collection[tuple[TopicPartition, OffsetRange]]
) -> dict[tuple[TopicPartition, OffsetRange], int]:
    found = dict.fromkeys(ranges, 0)
    ordered = sorted(ranges, key=lambda named: named[1].start_offset, reverse=True)
    left = grouped(ordered)  # of each partition, the next one to read is the last
    is_sought = len(found) <= SEEKS
    progress = Progress("look into gaps", len(found))

    def start(client: OffsetConsumer, chunk: list[TopicPartition]) -> None:
        found.update({(tp, left[tp][-1]): 0 for tp in chunk})  # an attempt before may have read a part of it
        client.assign([KafkaTopicPartition(tp.topic, tp.partition, left[tp][-1].start_offset) for tp in chunk])

    def take(client: OffsetConsumer, tp: TopicPartition, message: Message) -> bool:
        if (error := message.error()) is not None:
            return error.code() == KafkaError._PARTITION_EOF
        offset, of_tp, before = message.offset() or 0, left[tp], len(left[tp])
        while of_tp and of_tp[-1].end_offset <= offset:
            of_tp.pop()
        if of_tp and of_tp[-1].start_offset <= offset:
            found[tp, of_tp[-1]] += 1
            if of_tp[-1].end_offset == offset + 1:
                of_tp.pop()
        progress.add(before - len(of_tp))
        if of_tp and is_sought and of_tp[-1].start_offset > offset + _CLOSE:
            client.seek(KafkaTopicPartition(tp.topic, tp.partition, of_tp[-1].start_offset))
        return not of_tp

    few = {**_ONE_RECORD, "fetch.message.max.bytes": 128 * 1024} if is_sought else _ALL_RECORDS
    _assign(
        connection,
        sorted(left),
        "count records",
        "Read",
        start,
        take,
        {**few, "isolation.level": "read_committed"},
        shows_progress=False,
    )
    return found


def _assign(
    connection: Connection,
    partitions: list[TopicPartition],
    what: str,
    right: str,
    start: Callable[[OffsetConsumer, list[TopicPartition]], None],
    take: Callable[[OffsetConsumer, TopicPartition, Message], bool],
    settings: Mapping[str, Any],
    *,
    shows_progress: bool = True,
) -> None:
    """Ask about each partition until ``take`` accepts a message of it.

    :param start: assigns the partitions.
    :param take: whether the message is the answer; another error than that is refused.
    """
    progress = Progress(what, len(partitions))
    for chunk in chunks(partitions):
        left = set(chunk)  # over all attempts

        def look(client: OffsetConsumer, left: set[TopicPartition] = left) -> None:
            refusals = Refusals(connection, what, right)
            open_ones = set(left)
            try:
                start(client, sorted(left))
            except KafkaException as raised:  # a seek is refused until the assignment has been carried out
                raise NotYet(in_words(raised.args[0])) from None
            end = time.monotonic() + connection.attempt_s
            while open_ones and (wait_s := end - time.monotonic()) > 0:
                message = client.poll(wait_s)
                if message is None or (topic := message.topic()) is None:  # an error that is of no partition
                    continue
                tp = TopicPartition(topic, message.partition() or 0)
                if tp not in open_ones:
                    continue
                end = time.monotonic() + connection.attempt_s
                if take(client, tp, message):
                    left.discard(tp)
                elif (error := message.error()) is not None:
                    refusals.add([tp], error)
                else:
                    continue
                client.pause([KafkaTopicPartition(tp.topic, tp.partition)])
                open_ones.discard(tp)
            refusals.waiting.update(dict.fromkeys(open_ones, f"no answer within {connection.attempt_s:g} s"))
            refusals.settle()

        # A client per chunk: one that was assigned other partitions before refuses to seek until they have stopped, and
        # one that knows the partitions' leaders begins to fetch before the seek, and then does not answer.
        connection.ask(connection.new_consumer(settings), what, look)
        progress.add(len(chunk) * shows_progress)
