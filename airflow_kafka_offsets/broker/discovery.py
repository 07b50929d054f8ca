# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Which topics and partitions exist: one metadata call lists all topics, then the matching ones are described.

The list has no topic ids. The description has them. It is asked for in chunks, all at once: the broker answers one
while another is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from airflow_kafka_offsets.broker.connection import Connection
from airflow_kafka_offsets.broker.partition_errors import CHUNK, Refusals
from airflow_kafka_offsets.errors import NothingToDiscover
from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    PartitionSet,
    Subscription,
    TopicDescription,
    TopicList,
    TopicPattern,
    by_topic,
)

_WHAT = "describe the topics"
_ZERO_UUID = "A" * 22  # the UUID of zeros, in base 64


def describe(connection: Connection, subscription: Subscription) -> ClusterDescription:
    """Describe the subscription's topics; see ``Cluster.describe``."""
    # No topic is named: an admin client that names one in a metadata call may create it (G11).
    listed = connection.ask(
        connection.admin, "list the topics", lambda client: client.list_topics(timeout=connection.attempt_s)
    )
    sizes = {name: len(topic.partitions) for name, topic in listed.topics.items() if topic.partitions}
    names = _names(subscription, sizes)
    topics = _describe(connection, {name: sizes.get(name, 1) for name in names})
    missing = [f"Topic {name} does not exist" for name in names if name not in topics]
    match subscription:
        case TopicList(all_exist=False):
            missing = []
        case TopicPattern(pattern):
            missing = [] if topics else [f"No topic has a name that matches {pattern!r} as a whole"]
        case PartitionSet(partitions) if not missing:
            missing = [f"{tp} does not exist" for tp in partitions if tp.partition not in topics[tp.topic].leaders]
            topics = {
                name: TopicDescription(topic.topic_id, {n: leader for n, leader in topic.leaders.items() if n in kept})
                for name, topic in topics.items()
                for kept in [by_topic(partitions)[name]]
            }
    if missing:
        raise NothingToDiscover(
            [f"{line} at {connection.address}." for line in sorted(missing)],
            "Create it or correct the name. A topic that this client may not describe is not listed. "
            "PartitionDiscoverySensor waits until it exists.",
        )
    return ClusterDescription(str(listed.cluster_id), topics)


def _names(subscription: Subscription, listed: Collection[str]) -> list[str]:
    match subscription:
        case TopicList(names):
            return list(dict.fromkeys(names))
        case TopicPattern():
            return sorted(filter(subscription.matches, listed))
        case PartitionSet(partitions):
            return list(by_topic(partitions))


def _describe(connection: Connection, sizes: Mapping[str, int]) -> dict[str, TopicDescription]:
    """The topics that exist.

    :param sizes: how many partitions each has, as far as it is known.
    """
    answers: dict[str, TopicDescription | None] = {}

    def look(client: AdminClient) -> None:
        refusals = Refusals(connection, _WHAT)
        futures: dict[str, Future[Any]] = {}
        for names in _chunks({name: size for name, size in sizes.items() if name not in answers}):
            futures |= client.describe_topics(TopicCollection(names), request_timeout=connection.attempt_s)
        for name, future in futures.items():
            try:
                answers[name] = _described(future.result(connection.attempt_s + 1))
            except KafkaException as raised:
                if raised.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    answers[name] = None
                else:
                    refusals.add([name], raised.args[0])
        refusals.settle()

    if sizes:
        connection.ask(connection.admin, _WHAT, look)
    return {name: answer for name in sizes if (answer := answers[name]) is not None}


def _chunks(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """The names, as many at a time as have ``CHUNK`` partitions, or one."""
    names: list[str] = []
    for name, size in sizes.items():
        if names and sum(sizes[n] for n in names) + size > CHUNK:
            yield names
            names = []
        names.append(name)
    yield names


def _described(topic: Any) -> TopicDescription:
    """The id as Java writes it: librdkafka uses plain base 64, Java, and so Spark, the one for URLs."""
    topic_id = str(topic.topic_id).replace("+", "-").replace("/", "_").rstrip("=")
    leaders = {p.id: p.leader.id if p.leader is not None and p.leader.id >= 0 else None for p in topic.partitions}
    return TopicDescription(None if topic_id == _ZERO_UUID else topic_id, leaders)
