# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Tokens for SASL OAUTHBEARER, and the error if there is none.

librdkafka drops the text of an ``oauth_cb`` that raises and fails ten seconds later with "OAuth token not set"; with no
source of tokens it only waits (measured, confluent-kafka 2.16). So the callback is asked here, before a client is made.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from airflow_kafka_offsets.broker.config import mask, mechanism
from airflow_kafka_offsets.errors import InvalidRequest, clean_text

Token = tuple[Any, ...]
"""What ``oauth_cb`` returns: the token, when it expires (seconds since the epoch), perhaps a principal, extensions."""


class NoToken(Exception):
    """There is no token now. The text has no secret in it."""


class TokenSource:
    """An ``oauth_cb`` whose token all clients share until half of its life is over.

    :ivar token: the one that was taken last.
    """

    def __init__(self, callback: Callable[[Any], Token], config: Mapping[str, Any]) -> None:
        self._callback = callback
        self._config = config
        self._lock = threading.Lock()
        self._renew_at = 0.0
        self.token: Token | None = None

    def __call__(self, _: Any = None) -> Token:
        """Return a token that has not expired. librdkafka calls this, too.

        :raises NoToken: with what the callback said.
        """
        with self._lock:
            if self.token is None or time.time() >= self._renew_at:
                self.token = self._ask()
                self._renew_at = (time.time() + self.token[1]) / 2
            return self.token

    def _ask(self) -> Token:
        try:
            token = self._callback(self._config.get("sasl.oauthbearer.config"))
        except Exception as error:
            said = mask(f"{type(error).__name__}: {error}", self._config)
            raise NoToken(f"oauth_cb raised {clean_text(said)[:500]}") from None
        if not isinstance(token, tuple) or len(token) < 2 or not isinstance(token[1], int | float):
            raise NoToken(f"oauth_cb returned {type(token).__name__}, not (token, when it expires in epoch seconds)")
        if token[1] <= time.time():
            raise NoToken(f"the token of oauth_cb expired {time.time() - token[1]:.0f} s ago")
        return token


def token_source(config: Mapping[str, Any]) -> TokenSource | None:
    """The connection's ``oauth_cb``; ``None`` where librdkafka fetches tokens itself, or needs none.

    :raises InvalidRequest: the mechanism is OAUTHBEARER, and nothing gives tokens.
    """
    callback = config.get("oauth_cb")
    if callable(callback):
        return TokenSource(callback, config)
    is_oidc = str(config.get("sasl.oauthbearer.method", "")).lower() == "oidc"
    is_unsigned = str(config.get("enable.sasl.oauthbearer.unsecure.jwt", "")).lower() == "true"
    if callback is not None or (mechanism(config) == "OAUTHBEARER" and not is_oidc and not is_unsigned):
        raise InvalidRequest(
            (
                "sasl.mechanism is OAUTHBEARER in the Kafka connection, and nothing gives tokens. Set "
                "sasl.oauthbearer.method=oidc with its endpoint, client id and secret; or oauth_cb, the path of a "
                "function that [apache_kafka] callback_allowlist names.",
            )
        )
    return None
