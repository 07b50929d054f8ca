"""A consumer group's offsets: read, and written without being a member and without a fence.

``alter_consumer_group_offsets`` returns normally with an error beside each partition (NOT_COORDINATOR on a broker that
has just started), and the broker refuses it by UNKNOWN_MEMBER_ID while the group has members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from airflow_kafka_offsets.broker.answers import Refusals, chunks, epoch_of, to_kafka
from airflow_kafka_offsets.broker.connection import NOT_AUTHORIZED, Connection, not_authorized
from airflow_kafka_offsets.broker.protocol import GroupDescription
from airflow_kafka_offsets.errors import GroupActive
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition

COMMIT_CHUNK = 1000

_STATES = {
    ConsumerGroupState.UNKNOWN: "Unknown",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
}


def read_committed_offsets(
    connection: Connection, group_id: str, partitions: Collection[TopicPartition], *, stable: bool = True
) -> dict[TopicPartition, CommittedOffset]:
    answers: dict[TopicPartition, CommittedOffset | None] = {}

    def look(client: AdminClient) -> None:
        refusals = Refusals(f"read offsets of group {group_id!r}", connection.address, "Describe")
        pending = [tp for tp in sorted(partitions) if tp not in answers]
        for chunk in chunks(pending, COMMIT_CHUNK):
            asked = ConsumerGroupTopicPartitions(group_id, [to_kafka(tp) for tp in chunk])
            future = client.list_consumer_group_offsets(
                [asked], require_stable=stable, request_timeout=connection.attempt_s
            )[group_id]
            error, partitions_found = _answer(connection, group_id, future, "read offsets of", "Describe")
            if error is not None:
                refusals.add_all([tp for tp in pending if tp not in answers], error)
                break  # a client that has given up waiting for a coordinator is not asked again
            for found in partitions_found:
                tp = TopicPartition(found.topic, found.partition)
                if found.error is None:
                    answers[tp] = _committed(found)
                else:
                    refusals.add(tp, found.error)
        refusals.settle()

    if partitions:
        connection.ask(f"read the offsets of group {group_id!r}", look)
    return {tp: commit for tp, commit in answers.items() if commit is not None}


def read_group(connection: Connection, group_id: str) -> dict[TopicPartition, CommittedOffset]:
    """Everything that the group holds, of all topics that this client may describe."""

    def look(client: AdminClient) -> dict[TopicPartition, CommittedOffset]:
        refusals = Refusals(f"read offsets of group {group_id!r}", connection.address, "Describe")
        future = client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group_id)], require_stable=True, request_timeout=connection.attempt_s
        )[group_id]
        error, partitions_found = _answer(connection, group_id, future, "read offsets of", "Describe")
        if error is not None:
            refusals.add(group_id, error)
        commits = {}
        for found in partitions_found:
            tp = TopicPartition(found.topic, found.partition)
            if found.error is not None:
                refusals.add(tp, found.error)
            elif (commit := _committed(found)) is not None:
                commits[tp] = commit
        refusals.settle()
        return commits

    return connection.ask(f"read the offsets of group {group_id!r}", look)


def describe_group(connection: Connection, group_id: str) -> GroupDescription:
    def look(client: AdminClient) -> GroupDescription:
        future = client.describe_consumer_groups([group_id], request_timeout=connection.attempt_s)[group_id]
        try:
            group = future.result(connection.attempt_s + 1)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return GroupDescription("Dead")
            _raise_denied(connection, group_id, error.args[0], "describe", "Describe")
            raise
        members = tuple(f"{member.client_id} at {member.host}" for member in group.members)
        return GroupDescription(_STATES.get(group.state, group.state.name.title()), members)

    return connection.ask(f"describe group {group_id!r}", look)


def write_offsets(connection: Connection, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
    written: set[TopicPartition] = set()

    def write(client: AdminClient) -> None:
        refusals = Refusals(f"commit to group {group_id!r}", connection.address, "Read")
        pending = [tp for tp in sorted(offsets) if tp not in written]
        for chunk in chunks(pending, COMMIT_CHUNK):
            asked = ConsumerGroupTopicPartitions(group_id, [to_kafka(tp, offsets[tp]) for tp in chunk])
            future = client.alter_consumer_group_offsets([asked], request_timeout=connection.attempt_s)[group_id]
            error, partitions_found = _answer(connection, group_id, future, "commit to", "Read")
            if error is not None:
                refusals.add_all([tp for tp in pending if tp not in written], error)
                break
            for answer in partitions_found:
                tp = TopicPartition(answer.topic, answer.partition)
                if answer.error is None:
                    written.add(tp)
                elif answer.error.code() == KafkaError.UNKNOWN_MEMBER_ID:
                    raise _GroupIsLive
                elif answer.error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:  # it comes beside each partition
                    _raise_denied(connection, group_id, answer.error, "commit to", "Read")
                else:
                    refusals.add(tp, answer.error)
        refusals.settle()

    if not offsets:
        return
    try:
        connection.ask(f"commit to group {group_id!r}", write)
    except _GroupIsLive:
        group = describe_group(connection, group_id)
        raise GroupActive(group_id, group.state, group.members) from None
    finally:
        # A client whose alter failed has crashed the interpreter in the list call that came next.
        connection.renew()


def _answer(
    connection: Connection, group_id: str, future: Future[Any], verb: str, right: str
) -> tuple[KafkaError | None, Iterable[Any]]:
    """The error of the whole call, or its partitions."""
    try:
        return None, future.result(connection.attempt_s + 1).topic_partitions or ()
    except KafkaException as error:
        _raise_denied(connection, group_id, error.args[0], verb, right)
        if error.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID:
            raise _GroupIsLive from None
        return error.args[0], ()


def _raise_denied(connection: Connection, group_id: str, error: KafkaError, verb: str, right: str) -> None:
    if error.code() in NOT_AUTHORIZED:
        what, which = f"{verb} group {group_id!r}", f"{right} on group {group_id}"
        raise not_authorized(what, connection.address, error, which) from None


def _committed(found: Any) -> CommittedOffset | None:
    if found.offset < 0:  # -1001, librdkafka's "no offset stored"
        return None
    # confluent-kafka writes a trailing NUL behind the metadata; other clients read it.
    return CommittedOffset(found.offset, epoch_of(found.leader_epoch), (found.metadata or "").rstrip("\0"))


class PlainCommit:
    """A commit without a fence: what was sent is written at once, and not atomically, when it is committed."""

    def __init__(self, connection: Connection, group_id: str) -> None:
        self._connection = connection
        self._group_id = group_id
        self._sent: Mapping[TopicPartition, CommittedOffset] = {}

    def __enter__(self) -> PlainCommit:
        return self

    def __exit__(self, *_: object) -> None:
        self._sent = {}

    def send(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self._sent = offsets

    def commit(self) -> None:
        write_offsets(self._connection, self._group_id, self._sent)


class _GroupIsLive(Exception):
    """The broker refused a commit because the group has members."""
