# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Clients for one cluster: a question is asked by one client after another, until an answer or the deadline.

What librdkafka does, and what this file makes of it (measured on real brokers):

- a client that could not reach a broker keeps asking the dead one: each retry has a new client;
- why a connection fails (a wrong password, an unknown host) comes through ``error_cb`` and the log only, while the call
  says "timed out": both are collected;
- a client that is dropped before its futures resolve leaves them unresolved for ever: the client outlives its answers;
- a client that gave up waiting for a coordinator aborts the process when the answer comes
  (confluentinc/librdkafka#4605, ``eonce->refcnt > 0``): it is destroyed before anything waits;
- to destroy a client is to drop the last reference. ``Consumer.close()`` never returns while a broker hangs that was
  sent a commit. Questions get a weak proxy, because frames of a traceback would keep the client;
- ``KafkaError.retriable()`` is false for all that was seen: errors that heal by themselves are listed here.
"""

from __future__ import annotations

import logging
import re
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from airflow_kafka_offsets.broker import config as settings_of
from airflow_kafka_offsets.broker.tokens import NoToken, token_source
from airflow_kafka_offsets.errors import ClusterUnavailable, InvalidRequest, NotAuthorized, clean_text
from airflow_kafka_offsets.kafka_values import IsolationLevel, TopicPartition

C = TypeVar("C")  # a kind of client
T = TypeVar("T")

TRANSIENT = {
    KafkaError._TRANSPORT,
    KafkaError._DESTROY_BROKER,  # a bootstrap server, once the cluster has named its brokers
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._WAIT_COORD,
    KafkaError._NOENT,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError.REBOOTSTRAP_REQUIRED,
}
NOT_AUTHORIZED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
# Waiting does not mend these, except a name server or a token's server that may be back in a moment.
_HOPELESS = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE, KafkaError.SASL_AUTHENTICATION_FAILED}
_PASSING = re.compile(r"Temporary failure in name resolution|Failed to acquire SASL OAUTHBEARER token", re.IGNORECASE)
_QUICK = {"reconnect.backoff.ms": 10}  # a new client pauses once on its way from the bootstrap server to a broker
_PREFIX = re.compile(r"^(?:\w+ \[rdkafka#[^\]]*\] )?\[thrd:[^\]]*\]:\s*")
_NEUTRAL_GROUP = (
    "airflow-kafka-offsets"  # a consumer without a group's name aborts the process; it needs no right on it
)
_CHECK = (
    "Check bootstrap.servers, security.protocol and the credentials in the Kafka connection: docs/kafka-connection.md."
)


SEE_LOG = "See the broker's log, then retry."
log = logging.getLogger(__name__)


class NotYet(Exception):
    """An answer that time may change: the question is asked again, by a new client.

    :ivar unanswered: the partitions without an answer, and why.
    """

    def __init__(self, reason: str, unanswered: Mapping[TopicPartition, str] | None = None) -> None:
        super().__init__(reason)
        self.unanswered = unanswered or {}


class OffsetConsumer(Consumer):
    """A consumer that never joins its group. It has no methods: their frames would keep it alive.

    :ivar commit_answers: what ``on_commit`` was called with.
    """

    commit_answers: list[tuple[KafkaError | None, list[KafkaTopicPartition]]]


class Clients(Generic[C]):
    """A client that is made for the first question, and made again after it was dropped.

    :param make: makes the client.
    :param contact: asks it something cheap first, by a time-out in seconds, so that it connects.
    """

    def __init__(self, make: Callable[[], C], contact: Callable[[C, float], object] | None, group_id: str = "") -> None:
        self.make = make
        self.contact = contact
        self.group_id = group_id
        self.client: C | None = None

    def drop(self) -> None:
        self.client = None


class Connection:
    """One admin client, and one consumer per isolation level, made when they are needed; for one process.

    :param config: librdkafka settings, with secrets. Only the clients get them.
    :param deadline_s: how long one question may take with all its retries. A group may be without a coordinator for
        30 s, where the active controller hangs (``controller.socket.timeout.ms`` of brokers).
    :param attempt_s: how long one attempt may take.
    :param first_contact_s: how long the cluster may take to answer at all.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        deadline_s: float = 60.0,
        attempt_s: float = 5.0,
        first_contact_s: float = 10.0,
    ) -> None:
        self.address = settings_of.address(config)
        self.attempt_s = min(attempt_s, deadline_s / 2)  # a second client may answer where the first one does not
        self._deadline_s = deadline_s
        self._first_contact_s = first_contact_s
        self._config = settings_of.client_settings(config)
        self._heard = _Heard(self._config)
        self._tokens = token_source(self._config)
        self._is_known = False
        self._consumers: dict[IsolationLevel, Clients[OffsetConsumer]] = {}
        self.admin: Clients[AdminClient] = Clients(
            lambda: self._make(AdminClient, {}),
            lambda client, wait_s: client.describe_cluster(request_timeout=wait_s).result(wait_s + 1),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.drop()
        self._consumers.clear()

    @property
    def principal(self) -> str:
        return settings_of.principal(self._config, self._tokens.token if self._tokens else None)

    def consumer(
        self, isolation_level: IsolationLevel, topic: str, group_id: str | None = None
    ) -> Clients[OffsetConsumer]:
        """The consumer of this isolation level, which look-ups and the group share; another group gets a new one.

        :param topic: a new consumer asks for it first: without that, every twentieth stops for 0.7 s at a look-up.
        """
        known = self._consumers.get(isolation_level)
        if known is None or group_id not in (None, known.group_id):
            settings = {"group.id": group_id or _NEUTRAL_GROUP, "isolation.level": isolation_level}
            known = self._consumers[isolation_level] = self.new_consumer(settings, topic)
        return known

    def new_consumer(self, settings: Mapping[str, Any], topic: str | None = None) -> Clients[OffsetConsumer]:
        """A consumer of its own. Without ``topic`` it knows no leaders when it is assigned partitions."""
        merged = {**settings_of.consumer_settings(self.attempt_s), "group.id": _NEUTRAL_GROUP, **settings}

        def make() -> OffsetConsumer:
            answers: list[Any] = []
            heard = {"on_commit": lambda error, partitions: answers.append((error, partitions))}
            client = self._make(OffsetConsumer, {**merged, **heard})
            client.commit_answers = answers
            return client

        contact = (lambda client, wait_s: client.list_topics(topic, timeout=wait_s)) if topic else None
        return Clients(make, contact, merged["group.id"])

    def ask(self, clients: Clients[C], what: str, question: Callable[[C], T]) -> T:
        """The answer to ``question``, asked again with a new client while it raises :class:`NotYet`.

        :param what: the question in words, for the error.
        :raises ClusterUnavailable: no contact, or no answer until the deadline, with the last reason.
        """
        started, pause_s, last = time.monotonic(), 0.1, NotYet("")
        while True:
            try:
                return self._attempt(clients, what, question)
            except NotYet as not_yet:
                log.info("No answer yet: %s at %s: %s", what, self.address, not_yet)
                last = not_yet if not_yet.unanswered or not last.unanswered else last
            limit_s = self._deadline_s if self._is_known else min(self._first_contact_s, self._deadline_s)
            if time.monotonic() + pause_s - started > limit_s:
                break
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 2.0)
        heard = self._heard.last()
        raise ClusterUnavailable(
            f"Cannot {what} at {self.address}",
            f"no answer within {limit_s:g} s; last: {last}{f' ({heard})' if heard else ''}",
            "Check that the brokers are up and every partition has a leader, then retry." if self._is_known else _CHECK,
            retriable=True,
            unanswered=last.unanswered,
        )

    def not_authorized(self, what: str, error: KafkaError, right: str) -> NotAuthorized:
        """
        :param right: the operation and the resource: ``Describe on topic orders``.
        """
        return NotAuthorized(
            f"{self.principal} is not allowed to {what} at {self.address}",
            in_words(error),
            f"Give {self.principal} the right {right}: docs/kafka-connection.md.",
        )

    def _attempt(self, clients: Clients[C], what: str, question: Callable[[C], T]) -> T:
        """One attempt. A client that has failed is destroyed at once, before anything waits."""
        try:
            if clients.client is None:
                clients.client = clients.make()
                if clients.contact:
                    self._contact(clients, clients.contact)
            return question(weakref.proxy(clients.client))
        except Exception as error:
            self._hear(clients)
            clients.drop()
            raise self._translated(error, what) from None

    def _translated(self, error: Exception, what: str) -> Exception:
        match error:
            case NoToken():
                return NotYet(str(error))
            case TimeoutError():  # of a future that librdkafka did not resolve in its own time-out
                return NotYet(f"no answer within {self.attempt_s:g} s")
            case KafkaException() if error.args[0].code() in TRANSIENT:
                return NotYet(in_words(error.args[0]))
            case KafkaException():
                return ClusterUnavailable(f"Cannot {what} at {self.address}", in_words(error.args[0]), SEE_LOG)
        return error

    def _contact(self, clients: Clients[Any], contact: Callable[[Any, float], object]) -> None:
        """Connect a new client, second by second: a reason for which waiting is vain is raised at once."""
        end = time.monotonic() + self.attempt_s
        while True:
            try:
                contact(weakref.proxy(clients.client), max(0.1, min(1.0, end - time.monotonic())))
                self._is_known = True
                return
            except (KafkaException, TimeoutError):
                self._hear(clients)
                vain = None if self._is_known else self._heard.hopeless()
                if vain is not None:
                    what = f"Cannot connect to Kafka at {self.address} as {self.principal}"
                    raise ClusterUnavailable(what, vain, _CHECK) from None
                if time.monotonic() >= end:
                    raise

    def _hear(self, clients: Clients[Any]) -> None:
        """Have ``error_cb`` called, which ``poll`` alone does: it returns how many (admin), or an event (consumer)."""
        with suppress(NoToken):
            while clients.client is not None and clients.client.poll(0) not in (0, None):
                pass

    def _make(self, kind: Callable[..., C], settings: Mapping[str, Any]) -> C:
        """
        :raises InvalidRequest: librdkafka does not take the settings.
        :raises NoToken: ``oauth_cb`` gives none.
        """
        tokens = {"oauth_cb": self._tokens} if self._tokens else {}
        if self._tokens:
            self._tokens()
        try:
            merged = {**_QUICK, **self._config, **settings, **tokens, "error_cb": self._heard.error}
            return kind(merged, logger=self._heard.logger())
        except (KafkaException, TypeError, ValueError) as error:
            text = str(error.args[0].str() if isinstance(error, KafkaException) else error)
            for value in map(str, self._config.values()):  # it names the property, and sometimes any value
                text = text.replace(value, "***") if len(value) > 3 and value != self.address else text
            raise InvalidRequest((f"librdkafka does not accept the Kafka connection: {clean_text(text)}",)) from None


class _Heard(logging.Handler):
    """What librdkafka says about its connections: each thing once, however often it says it, and without secrets."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(logging.INFO)
        self._config = config
        self._errors: dict[str, int] = {}
        self._lines: dict[str, None] = {}

    def logger(self) -> logging.Logger:
        logger = logging.Logger("airflow_kafka_offsets.librdkafka")  # not in the tree: nothing else hears it
        logger.addHandler(self)
        return logger

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._lines) < 200:
            self._lines[self._clean(record.getMessage())] = None

    def error(self, error: KafkaError) -> None:
        self._errors[self._clean(error.str())] = error.code()

    def hopeless(self) -> str | None:
        return next((t for t, code in self._errors.items() if code in _HOPELESS and not _PASSING.search(t)), None)

    def last(self) -> str | None:
        specific = [text for text, code in self._errors.items() if code != KafkaError._ALL_BROKERS_DOWN]
        texts = specific or list(self._lines) or list(self._errors)
        return texts[-1] if texts else None

    def _clean(self, text: str) -> str:
        return clean_text(settings_of.mask(_PREFIX.sub("", text), self._config))


def in_words(error: KafkaError) -> str:
    """``COORDINATOR_LOAD_IN_PROGRESS: the coordinator is loading …``: the name to search for, and the text."""
    return f"{error.name()}: {clean_text(_PREFIX.sub('', error.str()))}"
