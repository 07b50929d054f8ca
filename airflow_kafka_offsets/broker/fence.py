"""The fence round a commit: a transaction on the group's own transactional id (KIP-98, KIP-447).

A plain commit compares nothing. In a transaction that is opened *before* the group is read, read → compare → write is
one step among all who commit this way: a younger ``init_transactions`` fences the older committer for good, waits for
a commit that is on its way, and aborts one that was left behind. The offsets of all partitions arrive, or of none.

What it does not do (measured on a 4.1 broker): the broker takes a transactional commit although the group has live
members, hence a look for them before it. A plain commit gets past a pending one, whose offsets are then dropped without
an error: the next run finds what somebody wrote there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from airflow_kafka_offsets.broker.answers import to_kafka
from airflow_kafka_offsets.broker.config import refuse_name, transactional_settings
from airflow_kafka_offsets.broker.connection import NOT_AUTHORIZED, C, Connection, in_words, not_authorized
from airflow_kafka_offsets.broker.tokens import NoToken
from airflow_kafka_offsets.errors import (
    ClusterUnavailable,
    CommitConflict,
    CommitUnsettled,
    KafkaOffsetsError,
)
from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition

T = TypeVar("T")

TRANSACTIONAL_ID_PREFIX = "airflow-kafka-offsets."
# Whoever dies with offsets sent leaves them pending, and a stable read of the group waits: for this long, and the
# broker's look at time-outs (10 s), which together are less than a question's deadline.
TRANSACTION_TIMEOUT_MS = 30_000

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_COMPARE = 'set fencing="compare" on the resolve task (for all that commit to this group: one kind a group)'


class TransactionalCommit:
    """One commit to a group. Entering opens the fence; leaving without :meth:`commit` aborts what was sent."""

    def __init__(self, connection: Connection, group_id: str) -> None:
        self._connection = connection
        self._group_id = group_id
        self._transactional_id = TRANSACTIONAL_ID_PREFIX + group_id
        self._producer: Producer | None = None
        self._pending = False

    def __enter__(self) -> TransactionalCommit:
        refuse_name(self._group_id, fenced=True)
        self._connection.contact()
        settings = transactional_settings(self._connection.settings, self._transactional_id, TRANSACTION_TIMEOUT_MS)
        self._producer = self._make(Producer, settings)
        try:
            self._call("open a transaction for", lambda producer, left_s: producer.init_transactions(left_s))
        except BaseException:
            self._producer = None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pending and self._producer is not None:
            with suppress(KafkaException):  # fenced, or out of reach: the next committer, or the time-out, aborts it
                self._producer.abort_transaction(self._connection.attempt_s)
        self._producer = None

    def send(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Hand the offsets to the group's coordinator: pending until :meth:`commit`.

        :raises CommitConflict: a younger committer has opened the fence; nothing was committed.
        :raises ClusterUnavailable: the coordinator did not take them; nothing was committed.
        """
        if not offsets:
            return
        to_send = [to_kafka(tp, offsets[tp]) for tp in sorted(offsets)]
        group = self._group()
        self._call("begin a transaction for", lambda producer, _: producer.begin_transaction())
        self._pending = True
        self._call(
            "commit to",
            lambda producer, left_s: producer.send_offsets_to_transaction(to_send, group, left_s),
        )

    def commit(self) -> None:
        """All of them arrive now.

        :raises CommitConflict: a younger committer has opened the fence; nothing was committed.
        :raises CommitUnsettled: an error that does not tell whether they arrived. A 4.1 broker answers UNKNOWN where a
            younger committer opens the fence at the same moment (its log: "Preparing transaction state transition to
            PREPARE_COMMIT while it already a pending state PREPARE_EPOCH_FENCE").
        :raises ClusterUnavailable: no answer: whether they arrived is not known, and a repeat finds out.
        """
        if not self._pending:
            return
        self._call("commit to", lambda producer, left_s: producer.commit_transaction(left_s), CommitUnsettled)
        self._pending = False

    def _group(self) -> Any:
        """The group's name, as the producer takes it: of a consumer that never joins."""
        consumer = self._make(Consumer, {**self._connection.settings, "group.id": self._group_id})
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def _make(self, kind: Callable[..., C], settings: Mapping[str, Any]) -> C:
        try:
            return self._connection.make(kind, settings)
        except NoToken as error:
            what = f"Cannot open a transaction for group {self._group_id!r} at {self._connection.address}"
            raise ClusterUnavailable(
                what, str(error), "See the token server's log, then retry.", retriable=True
            ) from None

    def _call(
        self, what: str, call: Callable[[Producer, float], T], aborted: type[ClusterUnavailable] = ClusterUnavailable
    ) -> T:
        """``call``, repeated while librdkafka says that the same call may be repeated.

        :param aborted: what it is called where the transaction must be aborted, for another reason than fence or right.
        """
        assert self._producer is not None  # between __enter__ and __exit__
        end = time.monotonic() + self._connection.deadline_s
        while True:
            try:
                return call(self._producer, max(0.1, min(self._connection.attempt_s, end - time.monotonic())))
            except KafkaException as raised:
                error = raised.args[0]
                with suppress(KafkaException):  # what was heard meanwhile; after a fatal error it raises that once more
                    self._producer.poll(0)
                if not error.retriable() or time.monotonic() >= end:
                    raise self._refusal(what, error, aborted) from None

    def _refusal(self, what: str, error: KafkaError, aborted: type[ClusterUnavailable]) -> KafkaOffsetsError:
        where = f"group {self._group_id!r} at {self._connection.address}"
        if error.code() in _FENCED:
            return CommitConflict(
                [f"group {self._group_id!r}: another commit began while this one was under way, and fenced it off"],
                "Nothing of this commit was written. Retry: it compares again with what the other one left.",
            )
        if error.code() in NOT_AUTHORIZED:
            rights = {
                KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
                    f"Write on transactional id {self._transactional_id} (for all groups: the prefix "
                    f"{TRANSACTIONAL_ID_PREFIX}); or {_COMPARE}"
                ),
                KafkaError.GROUP_AUTHORIZATION_FAILED: f"Read on group {self._group_id}",
                KafkaError.TOPIC_AUTHORIZATION_FAILED: "Read on every topic of the plan",
            }
            right = rights.get(error.code(), f"Write on transactional id {self._transactional_id}")
            return not_authorized(f"{what} group {self._group_id!r}", self._connection, error, right)
        return (aborted if error.txn_requires_abort() else ClusterUnavailable)(
            f"Cannot {what} {where}",
            in_words(error) + self._connection.told(),
            "Retry; a repeat is safe, also if this commit arrived after all. Where the cluster has no transactions, "
            f"{_COMPARE}.",
            retriable=True,
        )
