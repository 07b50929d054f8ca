"""A consumer group's offsets: read, and written without being a member.

Both go through a consumer that never joins, 500 partitions at a time: librdkafka's cost grows with
the square of the partitions in one call. Each partition's answer is checked. The broker refuses a commit by
UNKNOWN_MEMBER_ID while the group has members.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, NoReturn, TypeVar

from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from airflow_kafka_offsets.broker.config import group_settings, refuse_name
from airflow_kafka_offsets.broker.connection import (
    NOT_AUTHORIZED,
    TRANSIENT,
    Clients,
    Connection,
    in_words,
    not_authorized,
)
from airflow_kafka_offsets.broker.partition_errors import Refusals, chunks, epoch_of, to_kafka
from airflow_kafka_offsets.broker.protocol import GroupDescription
from airflow_kafka_offsets.errors import ClusterUnavailable, GroupActive
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition, by_topic
from airflow_kafka_offsets.progress_log import Progress

T = TypeVar("T")

GROUP_CHUNK = 500

# Errors of the group or its coordinator, and so of every partition.
_OF_A_TOPIC = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, KafkaError.TOPIC_AUTHORIZATION_FAILED}
_OF_THE_GROUP = (TRANSIENT | NOT_AUTHORIZED) - _OF_A_TOPIC

_STATES = {
    ConsumerGroupState.UNKNOWN: "Unknown",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
}


def describe_group(connection: Connection, group_id: str) -> GroupDescription:
    refuse_name(group_id)

    def look(client: AdminClient) -> GroupDescription:
        future = client.describe_consumer_groups([group_id], request_timeout=connection.attempt_s)[group_id]
        try:
            group = future.result(connection.attempt_s + 1)
        except KafkaException as raised:
            error = raised.args[0]
            if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
                return GroupDescription("Dead")
            _raise_denied(connection, group_id, error, "describe", "Describe")
            if error.code() in TRANSIENT:
                raise
            what = f"Cannot describe group {group_id!r} at {connection.address}"
            raise ClusterUnavailable(what, in_words(error), "See the broker's log, then try again.") from None
        members = tuple(map(_member, group.members))
        return GroupDescription(_STATES.get(group.state, group.state.name.title()), members)

    return connection.ask(f"describe group {group_id!r}", look)


def _member(member: Any) -> str:
    static = f", static member {member.group_instance_id}" if member.group_instance_id else ""
    return f"{member.client_id} at {member.host}{static}"


# ── read ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_committed_offsets(
    connection: Connection, group_id: str, partitions: Collection[TopicPartition], *, stable: bool = True
) -> dict[TopicPartition, CommittedOffset]:
    """What the group holds of these partitions; absent where nothing.

    :param stable: whether a pending transactional commit is waited for, or passed over.
    """
    answers: dict[TopicPartition, CommittedOffset | None] = {}
    progress = Progress(f"read the offsets of group {group_id!r}", len(partitions))

    def look(client: GroupClient) -> None:
        refusals = Refusals(f"read offsets of group {group_id!r}", connection, "Describe")
        reading = _Reading(client, answers, refusals)
        for chunk in chunks([tp for tp in sorted(partitions) if tp not in answers], GROUP_CHUNK):
            before = len(answers)
            try:
                reading.take(chunk)
            except KafkaException as raised:
                _raise_denied(connection, group_id, raised.args[0], "read offsets of", "Describe")
                if isinstance(raised, GroupRefused) or raised.args[0].code() in TRANSIENT:
                    reading.take_what_is_stable(chunk, raised.args[0])
                    break  # the other chunks would have the same answer, and to wait for each takes time
                reading.take_by_topic(chunk)
            progress.add(len(answers) - before)
        refusals.settle()

    if partitions:
        _ask(connection, group_id, f"read the offsets of group {group_id!r}", look, stable=stable)
    return {tp: commit for tp, commit in answers.items() if commit is not None}


def read_group(connection: Connection, group_id: str) -> dict[TopicPartition, CommittedOffset]:
    """All offsets that the group holds, for the topics that this client may describe.

    To ask a group for "all that it holds" is possible for the admin client alone. A topic that was deleted is in no
    group any more (``GroupCoordinator.onPartitionsDeleted``), so the topics that there are make up everything.
    """
    refuse_name(group_id)

    def look(client: AdminClient) -> list[TopicPartition]:
        topics = client.list_topics(timeout=connection.attempt_s).topics
        return [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]

    return read_committed_offsets(connection, group_id, connection.ask("list the topics", look))


@dataclass(frozen=True, slots=True)
class _Reading:
    """One attempt to read: what was answered, and what was refused."""

    client: GroupClient
    answers: dict[TopicPartition, CommittedOffset | None]
    refusals: Refusals

    def take(self, partitions: Collection[TopicPartition]) -> None:
        for tp, found in zip(partitions, fetch(self.client, partitions), strict=True):
            if found.error is None:
                self.answers[tp] = _committed(found)
            else:
                self.refusals.add(tp, found.error)

    def take_by_topic(self, partitions: Collection[TopicPartition]) -> None:
        """One error for all of them hides which one it is."""
        for topic, numbers in by_topic(partitions).items():
            self._take_or_refuse([TopicPartition(topic, number) for number in numbers])

    def take_what_is_stable(self, partitions: Collection[TopicPartition], error: KafkaError) -> None:
        """One offset that is not stable keeps the answer for all of them back."""
        unstable = self.client.reasons.refused(partitions)
        for tp, code in unstable.items():
            self.refusals.waiting[tp] = code
        others = [tp for tp in partitions if tp not in unstable]
        if unstable:
            self._take_or_refuse(others)
        else:
            self.refusals.add_all(others, error)

    def _take_or_refuse(self, partitions: Collection[TopicPartition]) -> None:
        try:
            self.take(partitions)
        except KafkaException as raised:
            self.refusals.add_all(partitions, raised.args[0])


def _committed(found: Any) -> CommittedOffset | None:
    if found.offset < 0:  # -1001, librdkafka's "no offset stored"
        return None
    return CommittedOffset(found.offset, epoch_of(found.leader_epoch), _metadata_of(found))


def _metadata_of(found: Any) -> str:
    """Commit metadata as text. Metadata of other clients that is no text counts as empty.

    confluent-kafka writes a NUL behind the metadata, and reads up to the first one; other clients read it, too. Where
    one wrote none, librdkafka's copy has no end (``rd_kafka_topic_partition_copy``), and whatever comes after it in
    memory is read along: it is compared with our metadata, and must never be shown.
    """
    try:
        return found.metadata or ""
    except UnicodeDecodeError:
        return ""


# ── write ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_offsets(connection: Connection, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
    """Commit these offsets. A retry looks first, and does not write again what the group has.

    :raises GroupActive: the group has members.
    :raises ClusterUnavailable: with every partition that was not written; some may have been.
    """
    written: set[TopicPartition] = set()
    progress = Progress(f"commit to group {group_id!r}", len(offsets))
    begun = False

    def left() -> list[TopicPartition]:
        return [tp for tp in sorted(offsets) if tp not in written]

    def write(client: GroupClient) -> None:
        nonlocal begun
        refusals = Refusals(f"commit to group {group_id!r}", connection, "Read")
        writing = _Writing(client, offsets, written, refusals)
        try:
            if begun:
                writing.look(left())
            else:
                fetch(client, left()[:1])  # a commit that has to look for the coordinator first cannot be called off
            begun = True
            for chunk in chunks(left(), GROUP_CHUNK):
                before = len(written)
                writing.write(chunk)
                progress.add(len(written) - before)
        except KafkaException as raised:
            _raise_denied(connection, group_id, raised.args[0], "commit to", "Read")
            refusals.add_all(left(), raised.args[0])
        refusals.settle()

    if offsets:
        try:
            _ask(connection, group_id, f"commit to group {group_id!r}", write, stable=False)
        except _GroupIsLive:
            _raise_active(connection, group_id)


@dataclass(frozen=True, slots=True)
class _Writing:
    """One attempt to write: what the group has, and what was refused."""

    client: GroupClient
    offsets: Mapping[TopicPartition, CommittedOffset]
    written: set[TopicPartition]
    refusals: Refusals

    def look(self, partitions: Collection[TopicPartition]) -> None:
        """Which of them does the group have as they are to be written?"""
        for chunk in chunks(partitions, GROUP_CHUNK):
            for found in fetch(self.client, chunk):
                tp = TopicPartition(found.topic, found.partition)
                if found.error is None and _committed(found) == self.offsets[tp]:
                    self.written.add(tp)

    def write(self, chunk: Collection[TopicPartition]) -> None:
        """
        :raises KafkaException: an error of the group, and so of every chunk.
        """
        last, partitions = send(self.client, {tp: self.offsets[tp] for tp in chunk})
        errors = {TopicPartition(found.topic, found.partition): found.error or last for found in partitions}
        refused = {tp: error for tp, error in errors.items() if error is not None}
        for error in refused.values():
            if error.code() == KafkaError.UNKNOWN_MEMBER_ID:
                raise _GroupIsLive
            if error.code() in _OF_THE_GROUP:
                raise KafkaException(error)
        self.written.update(errors.keys() - refused.keys())
        self.look(refused)  # librdkafka gives the last one's error to all, also to those that were written
        for tp, error in refused.items():
            if tp not in self.written:
                self.refusals.add(tp, error)


def _raise_active(connection: Connection, group_id: str) -> NoReturn:
    try:
        group = describe_group(connection, group_id)
    except ClusterUnavailable:  # who they are is worth a question, and not another error
        group = GroupDescription("in use")
    raise GroupActive(group_id, group.state, group.members) from None


class _GroupIsLive(Exception):
    """The broker refused a commit because the group has members."""


# ── both ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _ask(connection: Connection, group_id: str, what: str, question: Callable[[GroupClient], T], *, stable: bool) -> T:
    clients = group_clients(connection, group_id, stable=stable)
    try:
        return connection.ask_with(clients, what, question)
    finally:
        clients.drop()


def _raise_denied(connection: Connection, group_id: str, error: KafkaError, verb: str, right: str) -> None:
    if error.code() in NOT_AUTHORIZED & _OF_THE_GROUP:
        what, which = f"{verb} group {group_id!r}", f"{right} on group {group_id}"
        raise not_authorized(what, connection, error, which) from None


# ── the consumer: how a group is asked without ending the process ─────────────────────────────────────────────────────
# The admin client's calls are not used: ``list_consumer_group_offsets`` on a broker whose group coordinator is not
# there yet is a SIGSEGV (confluentinc/librdkafka#5040). What a consumer does instead (librdkafka 2.16, all measured):
#
# - A missing right on the group is an event of ``poll``. ``committed`` itself says "timed out", and a commit waits.
# - A coordinator that loads, and an offset that is not stable, make ``committed`` say "timed out" too. The lines of
#   ``debug`` say which it is (docs/private-parts.md). They cost 25 ms for 250 partitions: only a client that is made
#   because the one before it had no answer writes them.
# - ``on_commit`` gives every partition the error of the last one that was refused, also those that were written.
# - A commit that finds no coordinator, or whose coordinator hangs, cannot be called off: it may be sent for as long as
#   the client is there. Hence the time-outs in ``group_settings``, and no ``close()`` (see ``connection``).


# A refusal of the coordinator is asked for after this time, so that nobody waits until the deadline for it.
_FIRST_LOOK_S = 1.0
# poll() does not return when it has called on_commit, but when its time is over: short times first.
_FIRST_POLL_S, _LONGEST_POLL_S = 0.001, 0.02

CommitAnswer = tuple[KafkaError | None, list[KafkaTopicPartition]]


class GroupClient(Consumer):
    """The consumer, its answers, and how long it waits. It has no methods: their frames would keep it alive."""

    patience_s: float
    commit_answers: list[CommitAnswer]
    reasons: Reasons


class GroupRefused(KafkaException):
    """No coordinator was found, and time does not mend it: no partition of the group has an answer."""


class Reasons(logging.Handler):
    """What the lines of ``debug`` say of an answer that ``committed`` does not give."""

    _PARTITION = re.compile(r"OffsetFetchResponse: (\S+) \[(\d+)\] .*: (\w+)$")
    _ANSWER = re.compile(r"(?:FindCoordinator response error: |OffsetFetch for .* returned )([A-Z]\w+: .*)$")

    def __init__(self) -> None:
        super().__init__()
        self._codes: dict[TopicPartition, str] = {}
        self.answer: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if found := self._PARTITION.search(line):
            self._codes[TopicPartition(found[1], int(found[2]))] = found[3]
        elif found := self._ANSWER.search(line):
            self.answer = found[1]

    def refused(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """The partitions whose last answer was an error, with the error's name."""
        codes = {tp: self._codes.get(tp, "NO_ERROR") for tp in partitions}
        return {tp: code for tp, code in codes.items() if code != "NO_ERROR"}


def group_clients(connection: Connection, group_id: str, *, stable: bool) -> Clients[GroupClient]:
    """Clients for one question to the group's coordinator.

    :param stable: whether a pending transactional commit is waited for.
    """
    refuse_name(group_id)
    # Half of the deadline at most: a second client can say why the first one had no answer.
    patience_s = min(connection.attempt_s, connection.deadline_s / 2)
    settings = {**connection.settings, **group_settings(group_id, stable=stable, patience_s=patience_s)}
    debug = chain([{}], repeat({"debug": "cgrp,topic"}))

    def make() -> GroupClient:
        answers: list[CommitAnswer] = []
        reasons = Reasons()
        heard = {"on_commit": lambda error, partitions: answers.append((error, partitions))}
        client = connection.make(GroupClient, {**settings, **heard, **next(debug)}, reasons)
        client.patience_s, client.commit_answers, client.reasons = patience_s, answers, reasons
        return client

    return Clients(make)


def fetch(client: GroupClient, partitions: Collection[TopicPartition]) -> list[KafkaTopicPartition]:
    """What the group holds, an answer for each partition.

    :raises GroupRefused: a missing right on the group, in most cases.
    :raises KafkaException: one error for all of them, with the reason in its text.
    """
    asked = [to_kafka(tp) for tp in partitions]
    first_s = min(_FIRST_LOOK_S, client.patience_s / 2)
    for wait_s in (first_s, client.patience_s - first_s):
        try:
            found: list[KafkaTopicPartition] = client.committed(asked, wait_s)
            return found
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TIMED_OUT:
                raise
        _raise_refusals(client)
    reason = client.reasons.answer
    raise _timed_out(f"the coordinator answers {reason}" if reason else f"no answer within {client.patience_s:g} s")


def send(client: GroupClient, commits: Mapping[TopicPartition, CommittedOffset]) -> CommitAnswer:
    """Commit, to a coordinator that ``fetch`` has found.

    :returns: the error of the last partition that was refused, and all partitions. Where there is such an error, every
        partition has one, also those that were written.
    :raises KafkaException: no answer; whether they were written is not known.
    """
    client.commit(offsets=[to_kafka(tp, commit) for tp, commit in commits.items()], asynchronous=True)
    end, poll_s = time.monotonic() + client.patience_s, _FIRST_POLL_S
    while not client.commit_answers:
        _raise_refusals(client, poll_s)
        poll_s = min(2 * poll_s, _LONGEST_POLL_S)
        if time.monotonic() >= end and not client.commit_answers:
            raise _timed_out(f"no answer to the commit within {client.patience_s:g} s")
    return client.commit_answers.pop()


def _raise_refusals(client: GroupClient, wait_s: float = 0.0) -> None:
    """What the coordinator look-up was refused with (``rd_kafka_cgrp_handle_FindCoordinator``)."""
    while (event := client.poll(wait_s)) is not None:
        error = event.error()
        if error is not None and error.code() not in TRANSIENT:
            raise GroupRefused(error)


def _timed_out(text: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, text))
