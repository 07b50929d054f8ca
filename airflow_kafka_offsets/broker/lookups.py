# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Where logs start and end, and where a time lies in them: ``ListOffsets``, 500 partitions at a time.

``offsets_for_times`` of a consumer takes -2 and -1 for a log's start and end, as the protocol does. It is several
times as fast as the admin client's ``list_offsets``, which makes a future per partition; only the newest timestamp
needs that.

An offset counts only if its partition has no error and the broker did answer. Where no broker answers, the admin client
gives -1001 without an error (``rd_kafka_ListOffsets_response_merge`` drops it), and the consumer what it was asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from confluent_kafka import IsolationLevel as KafkaIsolationLevel
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_kafka_offsets.broker.connection import Connection, OffsetConsumer
from airflow_kafka_offsets.broker.partition_errors import CHUNK, Refusals, chunks, epoch_of, in_chunks, to_kafka
from airflow_kafka_offsets.errors import clean_text
from airflow_kafka_offsets.kafka_values import EndOffset, IsolationLevel, TopicPartition, by_topic

# Of the protocol: two questions, and the answer of a time without a match.
_LOG_START, _LOG_END, _NO_RECORD = -2, -1, -1
_WHAT = "look up offsets"


def log_start_offsets(connection: Connection, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """These are asked for first. Of many partitions, the consumer learns all leaders at once; else each chunk's are
    asked for.
    """
    if len(partitions) > CHUNK:
        consumer = connection.consumer("read_uncommitted", min(partitions).topic)
        connection.ask(consumer, "list the leaders", lambda client: client.list_topics(timeout=connection.attempt_s))
    found = _look_up(connection, dict.fromkeys(partitions, _LOG_START), "read_uncommitted")
    return {tp: answer.offset for tp, answer in found.items()}


def end_offsets(
    connection: Connection, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
) -> dict[TopicPartition, EndOffset]:
    found = _look_up(connection, dict.fromkeys(partitions, _LOG_END), isolation_level)
    return {tp: EndOffset(answer.offset, epoch_of(answer.leader_epoch)) for tp, answer in found.items()}


def offsets_for_times(
    connection: Connection, times_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
) -> dict[TopicPartition, int]:
    found = _look_up(connection, times_ms, isolation_level, by_time=True)
    return {tp: answer.offset for tp, answer in found.items() if answer.offset != _NO_RECORD}


def newest_timestamps(
    connection: Connection, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
) -> dict[TopicPartition, int]:
    level = KafkaIsolationLevel[isolation_level.upper()]
    answers: dict[TopicPartition, Any] = {}

    def look(client: AdminClient) -> None:
        refusals = Refusals(connection, _WHAT)
        for chunk in chunks([tp for tp in sorted(partitions) if tp not in answers]):
            asked = {to_kafka(tp): OffsetSpec.max_timestamp() for tp in chunk}
            futures = client.list_offsets(asked, isolation_level=level, request_timeout=connection.attempt_s)
            for kafka_tp, future in futures.items():
                tp = TopicPartition(kafka_tp.topic, kafka_tp.partition)
                try:
                    answer = future.result(connection.attempt_s + 1)
                except KafkaException as raised:
                    refusals.add([tp], raised.args[0])
                    continue
                if answer.offset < _NO_RECORD:
                    refusals.waiting[tp] = _no_answer(answer)
                else:
                    answers[tp] = answer
        refusals.settle()

    if partitions:
        connection.ask(connection.admin, _WHAT, look)
    return {tp: answer.timestamp for tp, answer in answers.items() if answer.offset != _NO_RECORD}


def _look_up(
    connection: Connection,
    asked: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel,
    *,
    by_time: bool = False,
) -> dict[TopicPartition, KafkaTopicPartition]:
    """The first attempt asks for all at once. Later ones ask leader by leader: one that hangs, or a partition without a
    leader, makes librdkafka fail the whole call, and would take the others' answers along.
    """
    answers: dict[TopicPartition, KafkaTopicPartition] = {}
    is_first = True

    def ask(client: OffsetConsumer, partitions: Iterable[TopicPartition], refusals: Refusals, cause: str = "") -> None:
        """
        :param cause: what is known about partitions that have no answer.
        """
        left = [tp for tp in partitions if tp not in answers]

        def look_up(chunk: list[TopicPartition]) -> list[KafkaTopicPartition]:
            question = [KafkaTopicPartition(tp.topic, tp.partition, asked[tp]) for tp in chunk]
            return client.offsets_for_times(question, timeout=connection.attempt_s)

        try:
            for chunk, found in in_chunks(left, look_up):
                for tp, answer in zip(chunk, found, strict=True):
                    if answer.error is not None:
                        refusals.add([tp], answer.error, cause)
                    elif _is_answer(answer, asked[tp], by_time=by_time):
                        answers[tp] = answer
                    else:
                        refusals.waiting[tp] = _no_answer(answer) + cause
        except KafkaException as raised:  # the chunks that were not asked yet would wait as long
            refusals.add([tp for tp in left if tp not in answers], raised.args[0], cause)

    def look(client: OffsetConsumer) -> None:
        nonlocal is_first
        refusals = Refusals(connection, _WHAT)
        if is_first:
            is_first = False
            ask(client, sorted(asked), refusals)
        else:
            left = [tp for tp in sorted(asked) if tp not in answers]
            for leader, partitions in _by_leader(client, left, connection.attempt_s, refusals).items():
                ask(client, partitions, refusals, f"; its leader is broker {leader}")
        refusals.settle()

    if asked:
        connection.ask(connection.consumer(isolation_level, min(asked).topic), _WHAT, look)
    return answers


def _by_leader(
    client: OffsetConsumer, partitions: Collection[TopicPartition], timeout_s: float, refusals: Refusals
) -> dict[str, list[TopicPartition]]:
    """The partitions of each leader; those without one, or that do not exist, are in ``refusals``."""
    metadata = client.list_topics(timeout=timeout_s)
    found: dict[str, list[TopicPartition]] = {}
    for name, numbers in by_topic(partitions).items():
        # A topic that this client may not describe is missing in the list; asked for by name, it says so.
        topic = metadata.topics.get(name) or client.list_topics(name, timeout=timeout_s).topics[name]
        for tp in (TopicPartition(name, number) for number in numbers):
            known = topic.partitions.get(tp.partition)
            if known is None:
                error = topic.error or KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "it does not exist")
                refusals.add([tp], error)
            elif known.leader < 0:
                refusals.waiting[tp] = "it has no leader"
            else:
                broker = metadata.brokers.get(known.leader)
                where = f"{known.leader} at {broker.host}:{broker.port}" if broker else f"{known.leader} (not listed)"
                found.setdefault(clean_text(where), []).append(tp)
    return found


def _is_answer(answer: KafkaTopicPartition, asked: int, *, by_time: bool) -> bool:
    if answer.offset < 0:
        return by_time and answer.offset == _NO_RECORD
    return answer.offset != asked or epoch_of(answer.leader_epoch) is not None


def _no_answer(answer: Any) -> str:
    return f"no broker answered (offset {answer.offset} without an error)"
