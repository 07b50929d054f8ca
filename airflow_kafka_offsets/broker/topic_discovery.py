"""Which topics and partitions there are: one metadata call lists all topics, then the matching ones are described.

The list has no topic ids. The description has them, and the client library makes several objects for each partition of
it: in small chunks they are gone before Python's search for cycles looks at them, which takes longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, assert_never

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from airflow_kafka_offsets.broker.connection import NOT_AUTHORIZED, Connection
from airflow_kafka_offsets.broker.lookups import LookUps
from airflow_kafka_offsets.broker.partition_errors import Refusals
from airflow_kafka_offsets.errors import NothingToDiscover
from airflow_kafka_offsets.kafka_values import ClusterDescription, TopicDescription, TopicSettings, by_topic
from airflow_kafka_offsets.progress_log import Progress
from airflow_kafka_offsets.request.subscription import PartitionSet, Subscription, TopicList, TopicPattern

DESCRIBE_CHUNK = 500  # partitions
_WHAT = "describe the topics"

_ZERO_UUID = "A" * 22  # the UUID of zeros, in base 64


def discover(look_ups: LookUps, subscription: Subscription) -> ClusterDescription:
    """The subscription's topics and partitions that exist, without topic ids. One metadata call.

    A topic that this client may not describe is not in the list: one that the subscription names, and that is not
    there, is asked for by its name.

    :raises NotAuthorized: it may not be described.
    """
    found = _listed(look_ups, subscription)
    _describe_topics(look_ups, dict.fromkeys(set(subscription.named) - set(found.topics), 1))
    return found


def _listed(look_ups: LookUps, subscription: Subscription) -> ClusterDescription:
    metadata = look_ups.list_topics()
    topics = {
        name: TopicDescription(
            None, {number: p.leader if p.leader >= 0 else None for number, p in topic.partitions.items()}
        )
        for name, topic in metadata.topics.items()
        if topic.error is None and topic.partitions
    }
    return ClusterDescription(str(metadata.cluster_id), _matching(subscription, topics))


def describe(look_ups: LookUps, subscription: Subscription) -> ClusterDescription:
    """The topics and partitions of the subscription, with topic ids.

    :raises NothingToDiscover: something that it names is missing, or nothing matches it.
    """
    found = _listed(look_ups, subscription)
    named = set(subscription.named)
    sizes = {**dict.fromkeys(named, 1), **{name: len(topic.leaders) for name, topic in found.topics.items()}}
    topics = _matching(subscription, _describe_topics(look_ups, sizes))
    _require(look_ups.address, subscription, named, topics)
    return ClusterDescription(found.cluster_id, topics)


def _require(address: str, subscription: Subscription, named: set[str], topics: Mapping[str, TopicDescription]) -> None:
    missing = sorted(named - set(topics))
    if missing:
        raise NothingToDiscover(
            [f"Topic {name} does not exist at {address}" for name in missing],
            "Create it, or correct the name. (PartitionDiscoverySensor waits until it is there.)",
        )
    if isinstance(subscription, TopicPattern) and not topics:
        raise NothingToDiscover(
            [f"No topic at {address} matches {subscription.pattern!r}"],
            "The pattern must match the whole name; a topic that this client may not describe is not seen. "
            "(PartitionDiscoverySensor waits until one is there.)",
        )
    if isinstance(subscription, PartitionSet):
        absent = [tp for tp in sorted(subscription.partitions) if tp.partition not in topics[tp.topic].leaders]
        if absent:
            raise NothingToDiscover(
                [f"{tp} does not exist" for tp in absent], "Name partitions that the topic has, or add them to it."
            )


def _describe_topics(connection: Connection, sizes: Mapping[str, int]) -> dict[str, TopicDescription]:
    """The topics that exist. A topic that was deleted since it was listed is left out.

    :param sizes: about how many partitions each has.
    """
    answers: dict[str, TopicDescription | None] = {}
    progress = Progress(_WHAT, len(sizes), "topics")

    def look(client: AdminClient) -> None:
        refusals = Refusals(_WHAT, connection, "Describe")
        for chunk in _in_chunks({name: sizes[name] for name in sorted(sizes) if name not in answers}):
            before = len(answers)
            futures = client.describe_topics(TopicCollection(chunk), request_timeout=connection.attempt_s)
            for name in chunk:
                try:
                    answers[name] = _described(futures[name].result(connection.attempt_s + 1))
                except TimeoutError:
                    refusals.waiting[name] = f"no answer within {connection.attempt_s:g} s"
                except KafkaException as error:
                    if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        answers[name] = None
                    else:
                        refusals.add(name, error.args[0])
            progress.add(len(answers) - before)
            if refusals.waiting:
                break  # nobody would answer the others
        refusals.settle()

    if sizes:
        connection.ask(_WHAT, look)
    return {name: topic for name, topic in answers.items() if topic is not None}


def _in_chunks(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """The names, as many at a time as have ``DESCRIBE_CHUNK`` partitions, or one."""
    chunk: list[str] = []
    room = DESCRIBE_CHUNK
    for name, size in sizes.items():
        if chunk and size > room:
            yield chunk
            chunk, room = [], DESCRIBE_CHUNK
        chunk.append(name)
        room -= size
    if chunk:
        yield chunk


def _described(topic: Any) -> TopicDescription:
    leaders = {p.id: p.leader.id if p.leader is not None and p.leader.id >= 0 else None for p in topic.partitions}
    return TopicDescription(_id_of(topic.topic_id), leaders)


def _matching(subscription: Subscription, topics: Mapping[str, TopicDescription]) -> dict[str, TopicDescription]:
    match subscription:
        case TopicList(names):
            return {name: topics[name] for name in names if name in topics}
        case TopicPattern():
            return {name: topic for name, topic in topics.items() if subscription.matches(name)}
        case PartitionSet(partitions):
            return {
                name: TopicDescription(
                    topics[name].topic_id,
                    {n: topics[name].leaders[n] for n in numbers if n in topics[name].leaders},
                )
                for name, numbers in by_topic(partitions).items()
                if name in topics
            }
        case _ as never:
            assert_never(never)


def _id_of(topic_id: object) -> str | None:
    """As Kafka's own tools write it; ``None`` where the cluster has no ids.

    An upgrade that brings ids makes no other topic of it.

    librdkafka writes an id in plain base 64, Java's client, which Spark has, in the one for URLs.
    """
    text = str(topic_id).replace("+", "-").replace("/", "_").rstrip("=")
    return None if text == _ZERO_UUID else text


# ── who stamps a topic's records, and how long they stay ──────────────────────────────────────────────────────────────
# It needs the right DescribeConfigs, which nothing else here does: a topic that this client may not ask of is absent.


def topic_settings(connection: Connection, topics: Collection[str]) -> dict[str, TopicSettings]:
    """:class:`TopicSettings` of each topic. A topic whose configuration this client may not read is left out."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(set(topics))]

    def look(client: AdminClient) -> dict[str, TopicSettings]:
        found: dict[str, TopicSettings] = {}
        refusals = Refusals("describe the configuration", connection, "DescribeConfigs")
        for resource, future in client.describe_configs(resources, request_timeout=connection.attempt_s).items():
            try:
                config = future.result(connection.attempt_s + 1)
            except KafkaException as error:
                if error.args[0].code() not in NOT_AUTHORIZED:
                    refusals.add(resource.name, error.args[0])
                continue
            found[resource.name] = _settings({name: entry.value for name, entry in config.items()})
        refusals.settle()
        return found

    return connection.ask("describe the configuration", look) if resources else {}


def _settings(config: Mapping[str, str]) -> TopicSettings:
    """``retention.*`` delete where ``cleanup.policy`` has ``delete``; -1 is without a limit (``LogConfig``)."""
    deletes = "delete" in config["cleanup.policy"].split(",")

    def limit(name: str) -> int | None:
        value = int(config[name])
        return value if deletes and value >= 0 else None

    stamped_by_broker = config["message.timestamp.type"] == "LogAppendTime"
    return TopicSettings(
        "LogAppendTime" if stamped_by_broker else "CreateTime", limit("retention.ms"), limit("retention.bytes")
    )
