"""A real Kafka cluster behind :mod:`airflow_kafka_offsets.broker.protocol`.

Every answer is checked partition by partition, because the client library's calls succeed without it: a look-up that
nobody answered comes back as offset -1001 without an error (``rd_kafka_ListOffsets_response_merge`` drops it), an
``alter`` returns normally with an error beside each partition. Questions go out in chunks: librdkafka's cost grows with
the square of the partitions in one call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import (
    IsolationLevel as KafkaIsolationLevel,
)
from confluent_kafka import (
    TopicPartition as KafkaTopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_kafka_offsets.broker.connection import (
    NOT_AUTHORIZED,
    TRANSIENT,
    Connection,
    NotYet,
    in_words,
    not_authorized,
)
from airflow_kafka_offsets.broker.protocol import EndOffset, GroupDescription
from airflow_kafka_offsets.errors import ClusterUnavailable, GroupActive, NothingToDiscover, listed
from airflow_kafka_offsets.offsets.model import (
    ClusterDescription,
    CommittedOffset,
    IsolationLevel,
    TopicDescription,
    TopicPartition,
    by_topic,
)
from airflow_kafka_offsets.offsets.spec import PartitionSet, Subscription, TopicList, TopicPattern

T = TypeVar("T")

LOOK_UP_CHUNK = 500
COMMIT_CHUNK = 1000
TOPIC_CHUNK = 200
INTERNAL_TOPICS = {"__consumer_offsets", "__transaction_state", "__share_group_state"}  # Kafka's Topic.INTERNAL_TOPICS
NO_RECORD = -1  # the answer of a timestamp look-up without a match; any other negative offset is no answer at all

_STATES = {
    ConsumerGroupState.UNKNOWN: "Unknown",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
}
_ISOLATION = {
    "read_uncommitted": KafkaIsolationLevel.READ_UNCOMMITTED,
    "read_committed": KafkaIsolationLevel.READ_COMMITTED,
}


class KafkaCluster:
    """``OffsetReader`` and ``OffsetCommitter`` over confluent-kafka's admin client. Use it as a context manager.

    :param config: librdkafka settings, as in the Kafka connection's extra.
    :param deadline_s: how long one question may take with all its retries.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        deadline_s: float = 60.0,
        attempt_s: float = 5.0,
        first_contact_s: float = 10.0,
    ) -> None:
        self._connection = Connection(
            config, deadline_s=deadline_s, attempt_s=attempt_s, first_contact_s=first_contact_s
        )

    def __enter__(self) -> KafkaCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    # ── discovery ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def discover(self, subscription: Subscription) -> ClusterDescription:
        """What there is of the subscription, by one metadata call, without topic ids. What is missing is absent."""

        def look(client: AdminClient) -> ClusterDescription:
            # All topics at once: asked for one by name, a producer-like client could create it (G11).
            metadata = client.list_topics(timeout=self._connection.attempt_s)
            topics = {
                name: TopicDescription(
                    None,
                    {number: p.leader if p.leader >= 0 else None for number, p in topic.partitions.items()},
                    name in INTERNAL_TOPICS,
                )
                for name, topic in metadata.topics.items()
                if topic.error is None and topic.partitions
            }
            return ClusterDescription(str(metadata.cluster_id), _matching(subscription, topics))

        return self._connection.ask("list the topics", look)

    def describe(self, subscription: Subscription) -> ClusterDescription:
        found = self.discover(subscription)
        wanted = {
            *(subscription.topics if isinstance(subscription, TopicList) else ()),
            *(by_topic(subscription.partitions) if isinstance(subscription, PartitionSet) else ()),
            *found.topics,
        }
        if not wanted:
            assert isinstance(subscription, TopicPattern)
            raise NothingToDiscover(
                [f"No topic at {self._connection.address} matches {subscription.pattern!r}"],
                "The pattern must match the whole name; a topic that this client may not describe is not seen. "
                "(PartitionDiscoverySensor waits until one is there.)",
            )
        described = self._describe_topics(sorted(wanted))
        topics = _matching(subscription, described)
        if isinstance(subscription, PartitionSet):
            absent = [
                tp
                for tp in subscription.partitions
                if tp.topic in topics and tp.partition not in topics[tp.topic].leaders
            ]
            if absent:
                raise NothingToDiscover(
                    [f"{tp} does not exist" for tp in absent], "Name partitions that the topic has, or add them to it."
                )
        return ClusterDescription(found.cluster_id, topics)

    def _describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        described: dict[str, TopicDescription] = {}

        def look(client: AdminClient) -> None:
            pending = [name for name in names if name not in described]
            futures: dict[str, Future[Any]] = {}
            for chunk in _chunks(pending, TOPIC_CHUNK):
                futures |= client.describe_topics(TopicCollection(chunk), request_timeout=self._connection.attempt_s)
            missing, waiting = [], []
            for name, future in futures.items():
                try:
                    topic = future.result(self._connection.attempt_s + 1)
                except KafkaException as error:
                    reason = error.args[0]
                    if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        missing.append(name)
                    elif reason.code() in NOT_AUTHORIZED:
                        raise self._denied(f"describe topic {name}", reason, f"Describe on topic {name}") from None
                    elif reason.code() in TRANSIENT:
                        waiting.append(f"{name}: {in_words(reason)}")
                    else:
                        raise self._failed("describe topics", [f"{name}: {in_words(reason)}"]) from None
                    continue
                described[name] = TopicDescription(
                    str(topic.topic_id),
                    {
                        p.id: p.leader.id if p.leader is not None and p.leader.id >= 0 else None
                        for p in topic.partitions
                    },
                    topic.is_internal,
                )
            if missing:
                raise NothingToDiscover(
                    [f"Topic {name} does not exist at {self._connection.address}" for name in sorted(missing)],
                    "Create it, or correct the name. (PartitionDiscoverySensor waits until it is there.)",
                )
            if waiting:
                raise NotYet(listed(sorted(waiting)))

        self._connection.ask("describe the topics", look)
        return described

    # ── offsets ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def log_start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = self._list_offsets(dict.fromkeys(partitions, OffsetSpec.earliest()), "read_uncommitted")
        return {tp: info.offset for tp, info in found.items()}

    def end_offsets(
        self, partitions: Collection[TopicPartition], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, EndOffset]:
        found = self._list_offsets(dict.fromkeys(partitions, OffsetSpec.latest()), isolation_level)
        return {tp: EndOffset(info.offset, _epoch(info.leader_epoch)) for tp, info in found.items()}

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        specs = {tp: OffsetSpec.for_timestamp(time_ms) for tp, time_ms in times_ms.items()}
        found = self._list_offsets(specs, isolation_level, may_be_absent=True)
        return {tp: info.offset for tp, info in found.items() if info.offset != NO_RECORD}

    def _list_offsets(
        self,
        specs: Mapping[TopicPartition, OffsetSpec],
        isolation_level: IsolationLevel,
        *,
        may_be_absent: bool = False,
    ) -> dict[TopicPartition, Any]:
        answers: dict[TopicPartition, Any] = {}

        def look(client: AdminClient) -> None:
            pending = [tp for tp in sorted(specs) if tp not in answers]
            futures: dict[TopicPartition, Future[Any]] = {}
            for chunk in _chunks(pending, LOOK_UP_CHUNK):
                asked = client.list_offsets(
                    {_kafka(tp): specs[tp] for tp in chunk},
                    isolation_level=_ISOLATION[isolation_level],
                    request_timeout=self._connection.attempt_s,
                )
                futures |= {TopicPartition(tp.topic, tp.partition): future for tp, future in asked.items()}
            waiting: dict[TopicPartition, str] = {}
            for tp, future in futures.items():
                info = self._look_up_answer(tp, future, waiting)
                if info is None:
                    continue
                if info.offset < 0 and not (may_be_absent and info.offset == NO_RECORD):
                    waiting[tp] = f"nobody answered (offset {info.offset} without an error)"
                else:
                    answers[tp] = info
            self._wait_for(client, waiting)

        self._connection.ask("look up offsets", look)
        return answers

    def _look_up_answer(self, tp: TopicPartition, future: Future[Any], waiting: dict[TopicPartition, str]) -> Any:
        try:
            return future.result(self._connection.attempt_s + 1)
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() in NOT_AUTHORIZED:
                raise self._denied(f"look up offsets of {tp}", reason, f"Describe on topic {tp.topic}") from None
            if reason.code() not in TRANSIENT:
                raise self._failed("look up offsets", [f"{tp}: {in_words(reason)}"]) from None
            waiting[tp] = in_words(reason)
            return None

    def _wait_for(self, client: AdminClient, waiting: Mapping[TopicPartition, str]) -> None:
        """Another attempt for these partitions; one that nobody leads is named as such."""
        if not waiting:
            return
        try:
            metadata = client.list_topics(timeout=1.0)
        except KafkaException:
            leaderless = set()
        else:
            leaderless = {
                TopicPartition(name, number)
                for name, topic in metadata.topics.items()
                for number, partition in topic.partitions.items()
                if partition.leader < 0
            }
        lines = [f"{tp}: {'it has no leader' if tp in leaderless else waiting[tp]}" for tp in sorted(waiting)]
        raise NotYet(listed(lines))

    # ── the group ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        answers: dict[TopicPartition, CommittedOffset | None] = {}

        def look(client: AdminClient) -> None:
            waiting: dict[TopicPartition, str] = {}
            pending = [tp for tp in sorted(partitions) if tp not in answers]
            for chunk in _chunks(pending, COMMIT_CHUNK):
                asked = ConsumerGroupTopicPartitions(group_id, [_kafka(tp) for tp in chunk])
                future = client.list_consumer_group_offsets(
                    [asked], require_stable=True, request_timeout=self._connection.attempt_s
                )[group_id]
                for found in self._group_answer(group_id, future, "read offsets of", "Describe"):
                    tp = TopicPartition(found.topic, found.partition)
                    if found.error is None:
                        answers[tp] = _committed(found)
                    else:
                        self._sort_out(found.error, tp, waiting, "read committed offsets", "Describe")
            if waiting:
                raise NotYet(listed([f"{tp}: {waiting[tp]}" for tp in sorted(waiting)]))

        self._connection.ask(f"read the offsets of group {group_id!r}", look)
        return {tp: commit for tp, commit in answers.items() if commit is not None}

    def describe_group(self, group_id: str) -> GroupDescription:
        def look(client: AdminClient) -> GroupDescription:
            future = client.describe_consumer_groups([group_id], request_timeout=self._connection.attempt_s)[group_id]
            try:
                group = future.result(self._connection.attempt_s + 1)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                    return GroupDescription("Dead")
                if error.args[0].code() in NOT_AUTHORIZED:
                    right = f"Describe on group {group_id}"
                    raise self._denied(f"describe group {group_id!r}", error.args[0], right) from None
                raise
            members = tuple(f"{member.client_id} at {member.host}" for member in group.members)
            return GroupDescription(_STATES.get(group.state, group.state.name.title()), members)

        return self._connection.ask(f"describe group {group_id!r}", look)

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        written: set[TopicPartition] = set()

        def write(client: AdminClient) -> None:
            waiting: dict[TopicPartition, str] = {}
            pending = [tp for tp in sorted(offsets) if tp not in written]
            for chunk in _chunks(pending, COMMIT_CHUNK):
                asked = ConsumerGroupTopicPartitions(group_id, [_kafka(tp, offsets[tp]) for tp in chunk])
                future = client.alter_consumer_group_offsets([asked], request_timeout=self._connection.attempt_s)[
                    group_id
                ]
                for answer in self._group_answer(group_id, future, "commit to", "Read"):
                    tp = TopicPartition(answer.topic, answer.partition)
                    if answer.error is None:
                        written.add(tp)
                    elif answer.error.code() == KafkaError.UNKNOWN_MEMBER_ID:
                        raise _GroupIsLive
                    else:
                        self._sort_out(answer.error, tp, waiting, "commit", "Read")
            if waiting:
                raise NotYet(listed([f"{tp}: {waiting[tp]}" for tp in sorted(waiting)]))

        try:
            self._connection.ask(f"commit to group {group_id!r}", write)
        except _GroupIsLive:
            group = self.describe_group(group_id)
            raise GroupActive(group_id, group.state, group.members) from None
        finally:
            # A client whose alter failed has crashed the interpreter in the list call that came next.
            self._connection.renew()

    def _group_answer(self, group_id: str, future: Future[Any], verb: str, right: str) -> Iterable[Any]:
        try:
            return future.result(self._connection.attempt_s + 1).topic_partitions or ()
        except KafkaException as error:
            if error.args[0].code() in NOT_AUTHORIZED:
                raise self._denied(
                    f"{verb} group {group_id!r}", error.args[0], f"{right} on group {group_id}"
                ) from None
            if error.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID:
                raise _GroupIsLive from None
            raise

    def _sort_out(
        self, error: KafkaError, tp: TopicPartition, waiting: dict[TopicPartition, str], verb: str, right: str
    ) -> None:
        if error.code() in TRANSIENT:
            waiting[tp] = in_words(error)
        elif error.code() in NOT_AUTHORIZED:
            raise self._denied(f"{verb} of {tp}", error, f"{right} on topic {tp.topic}")
        else:
            raise self._failed(verb, [f"{tp}: {in_words(error)}"])

    # ── errors ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _denied(self, what: str, error: KafkaError, right: str) -> ClusterUnavailable:
        return not_authorized(what, self._connection.address, error, right)

    def _failed(self, what: str, lines: Sequence[str]) -> ClusterUnavailable:
        return ClusterUnavailable(
            f"Cannot {what} at {self._connection.address}", listed(lines), "See the broker's log."
        )


class _GroupIsLive(Exception):
    """The broker refused a commit because the group has members."""


def _matching(subscription: Subscription, topics: Mapping[str, TopicDescription]) -> dict[str, TopicDescription]:
    match subscription:
        case TopicList(names):
            return {name: topics[name] for name in names if name in topics}
        case TopicPattern(_, include_internal):
            return {
                name: topic
                for name, topic in topics.items()
                if subscription.matches(name) and (include_internal or not topic.internal)
            }
        case PartitionSet(partitions):
            return {
                name: TopicDescription(
                    topics[name].topic_id,
                    {n: topics[name].leaders[n] for n in numbers if n in topics[name].leaders},
                    topics[name].internal,
                )
                for name, numbers in by_topic(partitions).items()
                if name in topics
            }


def _chunks(items: Collection[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _kafka(tp: TopicPartition, commit: CommittedOffset | None = None) -> KafkaTopicPartition:
    if commit is None:
        return KafkaTopicPartition(tp.topic, tp.partition)
    epoch = {} if commit.leader_epoch is None else {"leader_epoch": commit.leader_epoch}
    return KafkaTopicPartition(tp.topic, tp.partition, commit.offset, commit.metadata, **epoch)


def _committed(found: Any) -> CommittedOffset | None:
    if found.offset < 0:  # -1001, librdkafka's "no offset stored"
        return None
    # confluent-kafka writes a trailing NUL behind the metadata; other clients read it.
    return CommittedOffset(found.offset, _epoch(found.leader_epoch), (found.metadata or "").rstrip("\0"))


def _epoch(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None
