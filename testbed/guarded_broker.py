"""One real broker with a listener of each kind that a secured cluster has, and of each that is set up wrong.

Who comes by `TLS_CLIENTS` is `User:CN=<name>`, by a SASL listener `User:<name>`; by the plain listener, nobody, who may
do everything, as a test has to. All others have no right until they are given one.
"""

import base64
import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from testbed.broker import KafkaBroker
from testbed.cache import Say, silent
from testbed.certificates import Authority
from testbed.java import Java

LISTENERS = {
    "TLS": "SSL",
    "TLS_CLIENTS": "SSL",  # asks for a certificate of the client
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",  # its certificate is another host's
    "SASL_TLS": "SASL_SSL",
    "TOKENS": "SASL_PLAINTEXT",
}
_OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


def guarded_broker(
    folder: Path, authority: Authority, users: dict[str, str], *, java: Java | None = None, say: Say = silent
) -> KafkaBroker:
    """A broker to start. `SASL_TLS` takes `users` by PLAIN; `TOKENS` takes whatever an unsigned token says."""
    broker = authority.sign("broker")
    stores = {
        "tls": broker,
        "tls_clients": broker,
        "sasl_tls": broker,
        "expired": authority.sign("expired", lives=timedelta(days=-1)),
        "elsewhere": authority.sign("elsewhere", hosts=["kafka.elsewhere.example"]),
    }
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
        "listener.name.tls_clients.ssl.client.auth": "required",
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.jaas.config": _OAUTHBEARER,
        "listener.name.sasl_tls.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_tls.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
            + "".join(f' user_{name}="{password}"' for name, password in users.items())
            + ";"
        ),
    }
    for listener, signed in stores.items():
        config[f"listener.name.{listener}.ssl.keystore.type"] = "PEM"
        config[f"listener.name.{listener}.ssl.keystore.location"] = str(signed.both)
    return KafkaBroker(
        folder, java=java, say=say, sasl_users=users, config=config, more_listeners=LISTENERS, loaded_groups=False
    )


def unsigned_token(name: str, lives_s: float = 600.0) -> tuple[str, float]:
    """What an `oauth_cb` returns: a token (RFC 7515, without a signature), and when it expires."""
    now = time.time()
    claims = {"sub": name, "iat": now, "exp": now + lives_s}
    return f"{_part({'alg': 'none'})}.{_part(claims)}.", now + lives_s


def _part(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
