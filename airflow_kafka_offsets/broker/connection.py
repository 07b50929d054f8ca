"""One client after another, until a question is answered or the deadline passes.

What librdkafka does, and what this file makes of it (all measured on real brokers):

- a client that could not reach a broker keeps asking the dead one: each retry has a new client;
- why a connection fails (a wrong password, an unknown host) comes through ``error_cb`` and the log only, while the call
  itself says "timed out": both are collected, and where waiting is vain the error comes at once. What they do not say,
  a look at the listener does (``listener``), and what a token callback says is added (``tokens``);
- a client that is dropped before its futures resolve leaves them unresolved for ever: the client outlives its answers;
- a client that gave up waiting for a group's coordinator aborts the process when the answer comes: it is destroyed;
- to destroy a client is to drop the last reference to it. ``Consumer.close()`` never returns while a broker hangs that
  was sent a commit (librdkafka sends it again and again), and what is dropped is gone within a request's time-out;
- ``KafkaError.retriable()`` is false for all that was seen: which errors heal by themselves is listed here.
"""

from __future__ import annotations

import logging
import re
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Self, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from airflow_kafka_offsets.broker.client_principal import principal_of
from airflow_kafka_offsets.broker.config import address, admin_settings
from airflow_kafka_offsets.broker.refused_settings import refusal_of_login, refusal_of_settings
from airflow_kafka_offsets.broker.secrets import mask
from airflow_kafka_offsets.broker.tokens import NoToken, token_source
from airflow_kafka_offsets.errors import (
    CLIENT_SETTINGS,
    CONNECTION,
    ClusterUnavailable,
    InvalidRequest,
    NotAuthorized,
    named,
)
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.refusal_reasons import misfit, refusal_of_token

C = TypeVar("C")  # a kind of client
T = TypeVar("T")


TRANSIENT = {
    KafkaError._TRANSPORT,
    KafkaError._DESTROY_BROKER,  # a bootstrap server, whose place a broker takes once the cluster has named its brokers
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
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
# Waiting does not mend these: the configuration is wrong on one of the two sides.
_HOPELESS = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE, KafkaError.SASL_AUTHENTICATION_FAILED}
_HOPELESS_WORDS = re.compile(
    r"mechanism handshake|invalid credentials|Authentication failed|Failed to resolve|certificate", re.IGNORECASE
)
# … except these: a name server or a token's server may be back in a moment.
_PASSING = re.compile(r"Temporary failure in name resolution|Failed to acquire SASL OAUTHBEARER token", re.IGNORECASE)
_NO_NAME = re.compile(r"Failed to resolve", re.IGNORECASE)
_DISTRUST = re.compile(r"certificate verify failed", re.IGNORECASE)
_TOKEN_PAUSE_S = 0.5
# A new client pauses once, as if it had lost a broker, when it goes from the bootstrap servers to one that it needs.
_QUICK = {"reconnect.backoff.ms": 10}
_PREFIX = re.compile(r"^\[thrd:[^\]]*\]:\s*")


class NotYet(Exception):
    """An answer that time may change; the question is asked again, by a new client.

    :ivar unanswered: as of the error that it becomes.
    """

    def __init__(self, reason: str, unanswered: Mapping[TopicPartition, str] | None = None) -> None:
        super().__init__(reason)
        self.unanswered = unanswered or {}


class Clients(Generic[C]):
    """A client that is made when it is needed, and made anew after it was dropped.

    Questions get a weak proxy: the frames of an exception's traceback would keep the client itself alive.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._client: C | None = None

    def current(self) -> C:
        if self._client is None:
            self._client = self._make()
        proxy: C = weakref.proxy(self._client)
        return proxy

    def drop(self) -> None:
        """Destroy it: the next question gets a new one."""
        self._client = None


class Connection:
    """Clients for one cluster, made when they are needed; not shared between processes.

    :param config: librdkafka settings, with secrets. They are handed to the client and to nobody else.
    :param deadline_s: how long one question may take with all its retries.
    :param attempt_s: how long one attempt may take.
    :param first_contact_s: how long the first answer of the cluster may take.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        deadline_s: float = 60.0,
        attempt_s: float = 5.0,
        first_contact_s: float = 10.0,
    ) -> None:
        self.address = address(config)
        self.attempt_s = attempt_s
        self.deadline_s = deadline_s
        self._first_contact_s = first_contact_s
        self._config = admin_settings(config)
        self._heard = _Heard(self._config)
        self._tokens = token_source(self._config)
        self._admin = Clients(lambda: self.make(AdminClient, self.settings))
        self._known_good = False

    @property
    def settings(self) -> dict[str, Any]:
        """A client's settings, with secrets; what goes wrong with that client is heard here."""
        tokens = {"oauth_cb": self._tokens} if self._tokens else {}
        return {**_QUICK, **self._config, **tokens, "error_cb": self._heard.error}

    @property
    def principal(self) -> str:
        """The client's principal, worded as the object of a sentence."""
        name = principal_of(self._config, self._tokens.token if self._tokens else None)
        return f"this client's principal, {name}," if name else "this client's principal"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._admin.drop()

    def make(self, kind: Callable[..., C], settings: Mapping[str, Any], *more: logging.Handler) -> C:
        """A new client.

        :param more: who else gets the lines that it logs, and alone gets those of ``debug``.
        :raises InvalidRequest: librdkafka does not take the settings.
        :raises NoToken: ``oauth_cb`` gives none.
        """
        if self._tokens is not None:
            self._tokens()  # librdkafka would wait ten seconds for it, and drop what it says
        try:
            return kind(dict(settings), logger=self._heard.logger(*more))
        except (KafkaException, TypeError, ValueError) as error:
            problem = refusal_of_settings(self._without_secrets(error), self._config)
            raise InvalidRequest((problem,)) from None

    def ask(self, what: str, question: Callable[[AdminClient], T]) -> T:
        """The answer to ``question``, asked again with a new client while it raises :class:`NotYet`.

        :param what: the question in words, for the error.
        :raises ClusterUnavailable: no contact, or no answer until the deadline, with the last reason.
        """
        return self.ask_with(self._admin, what, question)

    def admin(self) -> AdminClient:
        """The admin client, to ask what another client's answer left open."""
        return self._admin.current()

    def cluster_id(self) -> str:
        return self.ask("ask for the cluster's id", lambda client: _cluster_id(client, self.attempt_s))

    def ask_with(self, clients: Clients[C], what: str, question: Callable[[C], T]) -> T:
        """The same with clients that are not admin clients."""
        self.contact()
        attempts = Retrying(
            stop=stop_after_delay(self.deadline_s),
            wait=wait_exponential(multiplier=0.1, max=2.0),
            retry=retry_if_exception_type((NotYet, NoToken)),
            reraise=True,
        )
        try:
            return attempts(partial(self._asked, clients, question))
        except (NotYet, NoToken) as last:
            raise ClusterUnavailable(
                f"Cannot {what} at {self.address}",
                f"no answer within {self.deadline_s:g} s; last: {last}{self._heard.in_parentheses()}",
                "Check that the brokers are up and every partition has a leader, then retry.",
                retriable=True,
                unanswered=last.unanswered if isinstance(last, NotYet) else {},
            ) from None

    def _asked(self, clients: Clients[C], question: Callable[[C], T]) -> T:
        """One attempt. A client that has failed is destroyed at once, before anything waits.

        Where the coordinator of a group answers a client that has given up waiting for it, librdkafka aborts the whole
        process (confluentinc/librdkafka#4605, ``eonce->refcnt > 0``).
        """
        client = clients.current()
        try:
            return question(client)
        except KafkaException as error:
            self._hear(client)
            clients.drop()
            if error.args[0].code() in TRANSIENT:
                raise NotYet(in_words(error.args[0])) from None
            raise
        except TimeoutError:  # of a future that librdkafka did not resolve in its own request timeout
            clients.drop()
            raise NotYet(f"no answer within {self.attempt_s:g} s") from None
        except Exception:
            self._hear(client)
            clients.drop()
            raise

    def _without_secrets(self, error: Exception) -> str:
        """librdkafka names the property that it refuses, and sometimes its value."""
        text = str(error.args[0].str() if isinstance(error, KafkaException) else error)
        return mask(text, {}, *(v for v in self._config.values() if isinstance(v, str) and v != self.address))

    def contact(self) -> None:
        """Once: does anybody answer? If not, say why, within ``first_contact_s`` and at once where waiting is vain."""
        end = time.monotonic() + self._first_contact_s
        while not self._known_good:
            refused, is_final = self._refused(end)
            if refused is None:
                self._known_good = True
            elif is_final or time.monotonic() >= end:
                self._admin.drop()
                raise refused

    def _refused(self, end: float) -> tuple[ClusterUnavailable | None, bool]:
        """Why nobody answers just now, and whether waiting is vain; no reason where somebody does."""
        try:
            client = self._admin.current()
        except NoToken as error:
            time.sleep(max(0.0, min(_TOKEN_PAUSE_S, end - time.monotonic())))
            return ClusterUnavailable(
                f"There is no token for the Kafka brokers at {self.address}",
                str(error),
                f"See the token server's log, and check what oauth_cb is given in {named(CONNECTION)}; then retry.",
                retriable=True,
            ), False
        try:
            # Not the topics: to list ten thousand partitions is half of what a discovery takes.
            _cluster_id(client, max(0.1, min(1.0, end - time.monotonic())))
        except (KafkaException, TimeoutError) as error:
            self._hear(client)
            reason, is_final = self._why_no_contact()
            token = self._tokens.token if self._tokens else None
            where = f"The Kafka brokers at {self.address} do not let this client in"
            return refusal_of_token(where, reason or "", str(token[0]) if token else None) or ClusterUnavailable(
                f"No Kafka broker answers at {self.address}",
                reason or (in_words(error.args[0]) if isinstance(error, KafkaException) else "no answer"),
                f"Check {named(CLIENT_SETTINGS)}, and that the brokers can be reached from here.",
                retriable=not is_final,
            ), is_final
        return None, True

    def _why_no_contact(self) -> tuple[str | None, bool]:
        """The reason, and whether waiting is vain: what librdkafka has heard, and what the listener says itself."""
        vain = self._heard.hopeless()
        heard = vain or self._heard.last()
        if heard and _NO_NAME.search(heard):
            return heard, vain is not None
        found = misfit(self._config, certificate=bool(heard and _DISTRUST.search(heard)))
        if found is not None:
            return f"{found} ({heard})" if heard else found, True
        return refusal_of_login(vain, self._config) if vain else heard, vain is not None

    def _hear(self, client: Any) -> None:
        """Errors are delivered by ``poll`` and by nothing else; it says how many (admin), or gives one (consumer)."""
        with suppress(NoToken):  # of a token that was to be renewed: the next client's attempt says so
            while client.poll(0) not in (0, None):
                pass


class _Heard(logging.Handler):
    """What librdkafka says about its connections: each thing once, however often it says it."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(logging.INFO)  # what `debug` adds is no reason why anything failed
        self._config = config
        self._errors: dict[str, int] = {}
        self._lines: dict[str, None] = {}

    def logger(self, *more: logging.Handler) -> logging.Logger:
        logger = logging.Logger("airflow_kafka_offsets.librdkafka")  # not in the tree: nothing else hears it
        for handler in (self, *more):
            logger.addHandler(handler)
        return logger

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._lines) < 200:
            self._lines[_PREFIX.sub("", record.getMessage())] = None

    def error(self, error: KafkaError) -> None:
        self._errors[mask(_PREFIX.sub("", error.str()), self._config)] = error.code()

    def hopeless(self) -> str | None:
        for text, code in self._errors.items():
            if (code in _HOPELESS or _HOPELESS_WORDS.search(text)) and not _PASSING.search(text):
                return text
        lines = (line for line in self._lines if _HOPELESS_WORDS.search(line) and not _PASSING.search(line))
        return next((mask(line, self._config) for line in lines), None)

    def last(self) -> str | None:
        specific = [text for text, code in self._errors.items() if code != KafkaError._ALL_BROKERS_DOWN]
        texts = specific or list(self._lines) or list(self._errors)
        return mask(texts[-1], self._config) if texts else None

    def in_parentheses(self) -> str:
        """What was heard last; empty where nothing was."""
        last = self.last()
        return f" ({last})" if last else ""


def _cluster_id(client: AdminClient, wait_s: float) -> str:
    return str(client.describe_cluster(request_timeout=wait_s).result(wait_s + 1).cluster_id)


def in_words(error: KafkaError) -> str:
    """``COORDINATOR_LOAD_IN_PROGRESS: the coordinator is loading …``: the name to search for, and the text."""
    return f"{error.name()}: {_PREFIX.sub('', error.str())}"


def not_authorized(what: str, connection: Connection, error: KafkaError, right: str) -> NotAuthorized:
    """
    :param right: the operation and the resource: ``Describe on topic orders``.
    """
    return NotAuthorized(
        f"Not allowed to {what} at {connection.address}",
        in_words(error),
        f"Give {connection.principal} the right: {right}.",
    )
