# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""A consumer group's offsets: read, and written without being a member, 500 partitions at a time.

Both go through a consumer that never joins. The admin client's ``list_consumer_group_offsets`` on a broker whose group
coordinator is not there yet is a SIGSEGV (confluentinc/librdkafka#5040). What a consumer does instead (librdkafka 2.16,
measured):

- a missing right on the group is an event of ``poll``; ``committed`` itself says "timed out", and a commit waits;
- a coordinator that loads, and one offset with a pending transactional commit (``UNSTABLE_OFFSET_COMMIT``), make
  ``committed`` say "timed out" for all of its partitions: later attempts ask in smaller chunks;
- ``on_commit`` gives every partition the error of the last one that was refused, also those that were written;
- a commit that finds no coordinator, or whose coordinator hangs, cannot be called off: it may be sent for as long as
  the client lives. Hence the time-outs of ``consumer_settings``, and no ``close()``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from airflow_kafka_offsets.broker.config import check_group_id
from airflow_kafka_offsets.broker.connection import (
    NOT_AUTHORIZED,
    TRANSIENT,
    Clients,
    Connection,
    OffsetConsumer,
    in_words,
)
from airflow_kafka_offsets.broker.partition_errors import CHUNK, Refusals, chunks, epoch_of, in_chunks, to_kafka
from airflow_kafka_offsets.errors import ClusterUnavailable, GroupActive, clean_text
from airflow_kafka_offsets.kafka_values import CommittedOffset, GroupDescription, TopicPartition

_STATES = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
}
_OF_A_TOPIC = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, KafkaError.TOPIC_AUTHORIZATION_FAILED}
_OF_THE_GROUP = (TRANSIENT | NOT_AUTHORIZED) - _OF_A_TOPIC  # or of its coordinator, and so of every partition
_FIRST_LOOK_S = 1.0  # then the coordinator's refusal is asked for, so that it is not waited for until the deadline
_SHORT_WAIT_S = 1.0  # of one small chunk, when the whole had no answer
_PENDING = "; the group answers for others: a pending transactional commit (UNSTABLE_OFFSET_COMMIT) has this effect"


def describe_group(connection: Connection, group_id: str) -> GroupDescription:
    check_group_id(group_id)

    def look(client: AdminClient) -> GroupDescription:
        future = client.describe_consumer_groups([group_id], request_timeout=connection.attempt_s)[group_id]
        try:
            group = future.result(connection.attempt_s + 1)
        except KafkaException as raised:
            _check_right(connection, group_id, raised.args[0], "describe", "Describe")
            if raised.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return GroupDescription("Dead")
            raise
        members = (clean_text(f"{member.client_id} at {member.host}") for member in group.members)
        return GroupDescription(_STATES.get(group.state, group.state.name.title()), tuple(members))

    return connection.ask(connection.admin, f"describe group {group_id!r}", look)


def committed(
    connection: Connection, group_id: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, CommittedOffset]:
    what = f"read offsets of group {group_id!r}"
    answers: dict[TopicPartition, CommittedOffset | None] = {}
    size = CHUNK

    def look(client: OffsetConsumer) -> None:
        nonlocal size
        refusals = Refusals(connection, what)
        end = time.monotonic() + 2 * connection.attempt_s
        wait_s = connection.attempt_s if size == CHUNK else min(_SHORT_WAIT_S, connection.attempt_s)
        before, largest_failed = len(answers), 0

        def fetch(chunk: list[TopicPartition]) -> list[KafkaTopicPartition] | KafkaError | None:
            try:
                return _fetch(client, chunk, wait_s) if time.monotonic() <= end else None
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                _check_right(connection, group_id, error, "read offsets of", "Describe")
                return error

        for chunk, found in in_chunks([tp for tp in sorted(partitions) if tp not in answers], fetch, size):
            if found is None:
                refusals.waiting.update(dict.fromkeys(chunk, "not asked, because others had no answer"))
            elif isinstance(found, KafkaError):
                largest_failed = max(largest_failed, len(chunk))
                if len(chunk) == 1:
                    refusals.add(chunk, found, _PENDING if answers else "")
                else:  # one partition of it may be the cause
                    refusals.waiting.update(dict.fromkeys(chunk, in_words(found)))
            else:
                for tp, answer in zip(chunk, found, strict=True):
                    if answer.error is None:
                        answers[tp] = _committed(answer)
                    else:
                        refusals.add([tp], answer.error)
        # Where smaller chunks have no answer either, the coordinator has none for any.
        size = max(1, largest_failed // 10) if size == CHUNK or len(answers) > before else CHUNK
        refusals.settle()

    if partitions:
        connection.ask(_consumer(connection, group_id, partitions), what, look)
    return {tp: commit for tp, commit in answers.items() if commit is not None}


def commit_offsets(connection: Connection, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
    """Commit these offsets. A retry looks first, and does not write again what the group has."""
    what = f"commit to group {group_id!r}"
    written: set[TopicPartition] = set()
    is_retry = False

    def look(client: OffsetConsumer, partitions: Collection[TopicPartition]) -> None:
        """Which of them does the group have as they are to be written?"""
        for chunk in chunks(partitions):
            for tp, found in zip(chunk, _fetch(client, chunk, connection.attempt_s), strict=True):
                if found.error is None and _committed(found) == offsets[tp]:
                    written.add(tp)

    def write(client: OffsetConsumer) -> None:
        nonlocal is_retry
        refusals = Refusals(connection, what, "Read")
        left = [tp for tp in sorted(offsets) if tp not in written]
        try:
            if is_retry:
                look(client, left)
            else:  # finds the coordinator: a commit that has to look for it first cannot be called off
                _fetch(client, left[:1], connection.attempt_s)
            is_retry = True
            for chunk in chunks([tp for tp in left if tp not in written]):
                refused = _send(client, {tp: offsets[tp] for tp in chunk}, connection.attempt_s)
                for error in refused.values():
                    if error.code() == KafkaError.UNKNOWN_MEMBER_ID:
                        raise _group_active(connection, group_id)
                    if error.code() in _OF_THE_GROUP:
                        raise KafkaException(error)
                written.update(tp for tp in chunk if tp not in refused)
                look(client, refused)
                for tp, error in refused.items():
                    if tp not in written:
                        refusals.add([tp], error)
        except KafkaException as raised:
            _check_right(connection, group_id, raised.args[0], "commit to", "Read")
            refusals.add([tp for tp in left if tp not in written], raised.args[0])
        refusals.settle()

    if offsets:
        connection.ask(_consumer(connection, group_id, offsets), what, write)


def _group_active(connection: Connection, group_id: str) -> GroupActive:
    """The broker refused a commit because the group has members."""
    try:
        group = describe_group(connection, group_id)
    except ClusterUnavailable:  # the members are worth a question, and not another error
        group = GroupDescription("in use")
    return GroupActive(group_id, group.state, group.members)


def _consumer(connection: Connection, group_id: str, partitions: Collection[TopicPartition]) -> Clients[OffsetConsumer]:
    """Under ``read_committed``, librdkafka asks for stable offsets (KIP-447), as Java's consumer always does."""
    check_group_id(group_id)
    return connection.consumer("read_committed", min(partitions).topic, group_id)


def _check_right(connection: Connection, group_id: str, error: KafkaError, verb: str, right: str) -> None:
    if error.code() in NOT_AUTHORIZED & _OF_THE_GROUP:
        raise connection.not_authorized(f"{verb} group {group_id!r}", error, f"{right} on group {group_id}") from None


def _committed(found: Any) -> CommittedOffset | None:
    if found.offset < 0:  # -1001, librdkafka's "no offset stored"
        return None
    try:
        # Where another client wrote none of confluent-kafka's NUL at the end, librdkafka's copy has no end
        # (rd_kafka_topic_partition_copy), and other memory is read along: it is compared with ours, and never shown.
        metadata = found.metadata or ""
    except UnicodeDecodeError:
        metadata = ""
    return CommittedOffset(found.offset, epoch_of(found.leader_epoch), metadata)


def _fetch(client: OffsetConsumer, partitions: Collection[TopicPartition], wait_s: float) -> list[KafkaTopicPartition]:
    """What the group has, an answer per partition.

    :raises KafkaException: one error for all of them: the coordinator's refusal, or a time-out.
    """
    asked = [to_kafka(tp) for tp in partitions]
    first_s = min(_FIRST_LOOK_S, wait_s / 2)
    for part_s in (first_s, wait_s - first_s):
        try:
            found: list[KafkaTopicPartition] = client.committed(asked, part_s)
            return found
        except KafkaException as raised:
            if raised.args[0].code() != KafkaError._TIMED_OUT:
                raise
        _raise_refusal(client)
    raise _timed_out(wait_s)


def _send(
    client: OffsetConsumer, commits: Mapping[TopicPartition, CommittedOffset], wait_s: float
) -> dict[TopicPartition, KafkaError]:
    """Commit, to a coordinator that ``_fetch`` has found.

    :returns: the refused partitions; where there is one, also those that were written.
    :raises KafkaException: no answer; whether they were written is not known.
    """
    client.commit(offsets=[to_kafka(tp, commit) for tp, commit in commits.items()], asynchronous=True)
    # poll() does not return when it has called on_commit, but when its time is over: short times first.
    end, poll_s = time.monotonic() + wait_s, 0.001
    while not client.commit_answers:
        _raise_refusal(client, poll_s)
        poll_s = min(2 * poll_s, 0.02)
        if time.monotonic() >= end and not client.commit_answers:
            raise _timed_out(wait_s)
    last, answers = client.commit_answers.pop()
    errors = {TopicPartition(answer.topic, answer.partition): answer.error or last for answer in answers}
    return {tp: error for tp, error in errors.items() if error is not None}


def _raise_refusal(client: OffsetConsumer, wait_s: float = 0.0) -> None:
    """Raise what the coordinator's look-up was refused with (``rd_kafka_cgrp_handle_FindCoordinator``)."""
    while (event := client.poll(wait_s)) is not None:
        error = event.error()
        if error is not None and error.code() not in TRANSIENT:
            raise KafkaException(error)


def _timed_out(wait_s: float) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {wait_s:g} s"))
