"""Tokens for SASL OAUTHBEARER: where they come from, and the error when there is none.

librdkafka drops the text of an ``oauth_cb`` that raises, and fails ten seconds later with "OAuth token not set"
(measured, confluent-kafka 2.16). Where there is no source of tokens at all it says nothing, and waits. So the source is
asked here, before a client is made; all clients of a connection share the token until half of its life is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from airflow_kafka_offsets.broker.secrets import mask
from airflow_kafka_offsets.errors import CONNECTION, InvalidRequest, named
from airflow_kafka_offsets.refusal_reasons import mechanism_of, uses_sasl

Token = tuple[Any, ...]
"""What ``oauth_cb`` returns: the token, when it expires (seconds since the epoch), perhaps a principal, extensions."""

_NO_AWS = "'NoneType' object has no attribute 'access_key'"  # all that Amazon's signer for MSK says
_SHOWN = 500  # of what a callback says: some put a whole answer of their token server into it


class NoToken(Exception):
    """There is no token now. The text has no secret in it."""


class TokenSource:
    """An ``oauth_cb``, asked in its place by librdkafka too; see the head of this file.

    :param config: librdkafka settings, with secrets.
    :ivar token: the one that was taken last.
    """

    def __init__(self, callback: Callable[[Any], Token], config: Mapping[str, Any]) -> None:
        self._callback = callback
        self._config = config
        self._lock = threading.Lock()
        self.token: Token | None = None
        self._renew_at = 0.0

    def __call__(self, _: Any = None) -> Token:
        """A token that has not expired.

        :raises NoToken: with what the callback said.
        """
        with self._lock:
            if self.token is None or time.time() >= self._renew_at:
                try:
                    self._take(self._ask())
                except NoToken:
                    if self.token is None or self.token[1] <= time.time():
                        raise
            assert self.token is not None
            return self.token

    def _take(self, token: Token) -> None:
        now = time.time()
        if token[1] <= now:
            raise NoToken(f"the token of {self._named()} has expired {now - token[1]:.0f} s ago")
        self.token, self._renew_at = token, now + (token[1] - now) / 2

    def _ask(self) -> Token:
        try:
            found = self._callback(self._config.get("sasl.oauthbearer.config"))
        except Exception as error:
            text = mask(f"{type(error).__name__}: {error}", self._config, *(map(str, (self.token or ())[:1])))
            why = ": boto3 finds no AWS credentials in this process" if _NO_AWS in text else ""
            raise NoToken(f"{self._named()} raised {text[:_SHOWN]}{why}") from None
        if not isinstance(found, tuple) or len(found) < 2 or not isinstance(found[1], int | float):
            raise NoToken(
                f"{self._named()} returned {type(found).__name__}, and not (token, seconds since the epoch until "
                "which it is valid)"
            )
        return found

    def _named(self) -> str:
        callback = getattr(self._callback, "func", self._callback)  # of a functools.partial
        if not hasattr(callback, "__qualname__"):
            callback = type(callback)
        return f"oauth_cb {callback.__module__}.{callback.__qualname__}"


def token_source(config: Mapping[str, Any]) -> TokenSource | None:
    """The connection's ``oauth_cb``; ``None`` where librdkafka fetches tokens itself, or needs none.

    :raises InvalidRequest: OAUTHBEARER, and nothing gives tokens.
    """
    callback = config.get("oauth_cb")
    if callback is not None and not callable(callback):
        raise InvalidRequest(
            (
                f"oauth_cb in {named(CONNECTION)} is a {type(callback).__name__} and no function. Only of an Airflow "
                "connection is the path of a function looked up, where [apache_kafka] callback_allowlist names it.",
            )
        )
    if callback is not None:
        return TokenSource(callback, config)
    own = str(config.get("sasl.oauthbearer.method", "")).lower() == "oidc"
    unsigned = str(config.get("enable.sasl.oauthbearer.unsecure.jwt", "")).lower() == "true"
    if uses_sasl(config) and mechanism_of(config) == "OAUTHBEARER" and not own and not unsigned:
        raise InvalidRequest(
            (
                f"sasl.mechanism is OAUTHBEARER in {named(CONNECTION)}, and nothing gives tokens. Set "
                "sasl.oauthbearer.method=oidc with sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.id and "
                "sasl.oauthbearer.client.secret; or oauth_cb, the path of a function that [apache_kafka] "
                "callback_allowlist names. (Amazon MSK and Google's managed Kafka are known by their addresses.)",
            )
        )
    return None
