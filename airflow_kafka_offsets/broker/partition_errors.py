# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""The answers of one attempt, by partition. An error either heals with time, or needs a right, or is final.

confluent-kafka gives an error beside each partition and a call that succeeded. All partitions are looked at before one
error is raised, so that it names every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets.broker.connection import NOT_AUTHORIZED, SEE_LOG, TRANSIENT, Connection, NotYet, in_words
from airflow_kafka_offsets.errors import ClusterUnavailable, listed
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition

T = TypeVar("T")
A = TypeVar("A")
CHUNK = 500  # partitions per call: librdkafka's cost grows with the square of them (rd_kafka_topic_partition_list_find)
_CHUNKS_AT_ONCE = 4  # while the broker answers some, another is read


class Refusals:
    """The partitions (or topics) of one attempt that have no answer.

    :param what: the question in words, for the error.
    :param right: the right on the topic that the question needs.
    :ivar waiting: those whose answer time may change, and why they have none.
    """

    def __init__(self, connection: Connection, what: str, right: str = "Describe") -> None:
        self._connection = connection
        self._what = what
        self._right = right
        self._final: dict[TopicPartition | str, KafkaError] = {}
        self.waiting: dict[TopicPartition | str, str] = {}

    def add(self, asked: Iterable[TopicPartition | str], error: KafkaError, cause: str = "") -> None:
        for key in asked:
            if error.code() in TRANSIENT:
                self.waiting[key] = in_words(error) + cause
            else:
                self._final[key] = error

    def settle(self) -> None:
        """Raise one error, if any partition has no answer.

        :raises NotAuthorized: a right is missing.
        :raises ClusterUnavailable: errors that waiting does not heal.
        :raises NotYet: a retry may succeed.
        """
        denied = {key: error for key, error in self._final.items() if error.code() in NOT_AUTHORIZED}
        if denied and len(denied) == len(self._final):
            topics = sorted({key if isinstance(key, str) else key.topic for key in denied})
            right = f"{self._right} on topic {', '.join(topics[:20])}"
            what = f"{self._what} of {', '.join(topics[:20])}"
            raise self._connection.not_authorized(what, next(iter(denied.values())), right)
        if self._final:
            reasons = {**self.waiting, **{key: in_words(error) for key, error in self._final.items()}}
            raise ClusterUnavailable(f"Cannot {self._what} at {self._connection.address}", _table(reasons), SEE_LOG)
        if self.waiting:
            raise NotYet(_table(self.waiting), {k: why for k, why in self.waiting.items() if not isinstance(k, str)})


def _table(reasons: Mapping[TopicPartition | str, str]) -> str:
    # TopicPartitions sort by number, names as text; one attempt has either.
    return listed(f"{key}: {reasons[key]}" for key in sorted(reasons))


def chunks(items: Collection[T], size: int = CHUNK) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def in_chunks(items: Collection[T], ask: Callable[[list[T]], A], size: int = CHUNK) -> Iterator[tuple[list[T], A]]:
    """Each chunk and its answer. Several are asked at once; behind one that raises, no other is begun."""
    asking = list(chunks(items, size))
    with ThreadPoolExecutor(_CHUNKS_AT_ONCE) as pool:
        yield from zip(asking, pool.map(ask, asking), strict=True)


def to_kafka(tp: TopicPartition, commit: CommittedOffset | None = None) -> KafkaTopicPartition:
    if commit is None:
        return KafkaTopicPartition(tp.topic, tp.partition)
    epoch = {} if commit.leader_epoch is None else {"leader_epoch": commit.leader_epoch}
    return KafkaTopicPartition(tp.topic, tp.partition, commit.offset, commit.metadata, **epoch)


def epoch_of(value: int | None) -> int | None:
    """``None`` where the broker gives none (-1)."""
    return value if value is not None and value >= 0 else None
