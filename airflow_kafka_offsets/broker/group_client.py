"""A consumer that never joins its group: how a group's offsets are read and written without ending the process.

The admin client's calls are not used: ``list_consumer_group_offsets`` on a broker whose group coordinator is not there
yet is a SIGSEGV (confluentinc/librdkafka#5040). What a consumer does instead (librdkafka 2.16, all measured):

- A missing right on the group is an event of ``poll``. ``committed`` itself says "timed out", and a commit waits.
- A coordinator that loads, and an offset that is not stable, make ``committed`` say "timed out" too. The lines of
  ``debug`` say which it is (docs/private-parts.md). They cost 25 ms for 250 partitions: only a client that is made
  because the one before it had no answer writes them.
- ``on_commit`` gives every partition the error of the last one that was refused, also those that were written.
- A commit that finds no coordinator, or whose coordinator hangs, cannot be called off: it may be sent for as long as
  the client is there. Hence the time-outs in ``group_settings``, and no ``close()`` (see ``connection``).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Mapping
from itertools import chain, repeat

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets.broker.config import group_settings, refuse_name
from airflow_kafka_offsets.broker.connection import TRANSIENT, Clients, Connection
from airflow_kafka_offsets.broker.partition_errors import to_kafka
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition

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
