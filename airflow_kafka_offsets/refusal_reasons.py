"""Why a broker does not let a client in, as far as it can be seen from outside: what listens at an address (TLS or not,
SASL or not, a certificate that can be trusted or not), and what the client's token says.

Where a client and a listener do not fit, librdkafka says no more than "1/1 brokers are down" (without TLS to a TLS
listener, without SASL to a SASL listener), and "certificate verify failed" for each of an unknown authority, another
host's name and a date that has passed. So the listener is looked at once more, by a connection of its own. Only what it
has answered counts: whoever does not answer gives no finding.

Kafka's Java client in Spark says less still: that it timed out. The settings that are read here have one name in both
clients, so the Spark driver asks here, too; it has no librdkafka.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.errors import ClusterUnavailable

_ADDRESS = re.compile(r"(?:\w+://)?\[?([^\[\],]+?)\]?(?::(\d+))?")
_SASL_HANDSHAKE, _VERSION = 17, 1
_NO_SASL_HERE = 34  # ILLEGAL_SASL_STATE
_LONGEST = 65_536  # of an answer
_REFUSED = re.compile(r'"status":\s*"\w+"')  # RFC 7628, 3.2.2
_CLAIMS = {"iss": "issuer", "aud": "audience", "sub": "subject", "scope": "scope"}
_SHOWN = 200  # characters of a claim


def misfit(config: Mapping[str, Any], *, certificate: bool, timeout_s: float = 1.0) -> str | None:
    """How the settings do not fit the first of ``bootstrap.servers`` that takes a connection, and what would.

    :param certificate: whether librdkafka does not trust the listener's certificate.
    :returns: ``None``: they fit, or nobody has answered.
    """
    for host, port in addresses(str(config.get("bootstrap.servers") or config.get("metadata.broker.list"))):
        try:
            return _misfit(config, host, port, certificate, timeout_s)
        except (ConnectionRefusedError, socket.gaierror):
            continue
        except (OSError, ValueError):
            return None
    return None


def addresses(servers: str) -> list[tuple[str, int]]:
    """``host:port,host`` → pairs; 9092 is librdkafka's default."""
    found = [_ADDRESS.fullmatch(server.strip()) for server in servers.split(",")]
    return [(match[1], int(match[2] or 9092)) for match in found if match]


def uses_sasl(config: Mapping[str, Any]) -> bool:
    return str(config.get("security.protocol", "")).lower().startswith("sasl")


def uses_tls(config: Mapping[str, Any]) -> bool:
    return str(config.get("security.protocol", "")).lower().endswith("ssl")


def mechanism_of(config: Mapping[str, Any]) -> str:
    return str(config.get("sasl.mechanism") or config.get("sasl.mechanisms") or "GSSAPI").upper()


def _misfit(config: Mapping[str, Any], host: str, port: int, certificate: bool, timeout_s: float) -> str | None:
    where = f"{host}:{port}"
    tls, sasl, mechanism = uses_tls(config), uses_sasl(config), mechanism_of(config)
    has_tls = _speaks_tls(host, port, timeout_s)
    if certificate and tls and has_tls:
        return _distrust(config, host, port, timeout_s)
    mechanisms = _mechanisms(host, port, has_tls, mechanism if sasl else "PLAIN", timeout_s)
    if mechanisms is None:  # it wants a certificate of the client before it says anything
        is_so, wanted, fits = "speaks TLS", "SSL or SASL_SSL", has_tls == tls
    else:
        is_so = f"{'speaks TLS' if has_tls else 'does not speak TLS'} and " + (
            f"asks for SASL ({', '.join(mechanisms)})" if mechanisms else "has no SASL"
        )
        wanted = ("SASL_" if mechanisms else "") + ("SSL" if has_tls else "PLAINTEXT")
        fits = (has_tls, bool(mechanisms)) == (tls, sasl)
    if not fits:
        protocol = str(config.get("security.protocol", "PLAINTEXT")).upper()
        return f"{where} {is_so}, and security.protocol is {protocol}: set it to {wanted}"
    if sasl and mechanisms and mechanism not in mechanisms:
        return f"{where} has the SASL mechanisms {', '.join(mechanisms)}, and sasl.mechanism is {mechanism}"
    return None


def _speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """
    :raises TimeoutError: no answer.
    """
    try:
        with _connected(host, port, timeout_s, _trusting()):
            return True
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError):
        return False
    except ssl.SSLError as error:  # an alert is TLS, too: it wants a certificate of the client, or another version
        return error.reason not in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


def _distrust(config: Mapping[str, Any], host: str, port: int, timeout_s: float) -> str | None:
    """Why the listener's certificate is not trusted, by Python's OpenSSL, which says it."""
    location, pem = config.get("ssl.ca.location"), config.get("ssl.ca.pem")
    folder = bool(location) and Path(str(location)).is_dir()
    context = ssl.create_default_context(
        cafile=None if folder else location, capath=location if folder else None, cadata=pem
    )
    context.check_hostname = config.get("ssl.endpoint.identification.algorithm", "https") == "https"
    try:
        with _connected(host, port, timeout_s, context):
            return None
    except ssl.SSLCertVerificationError as error:
        by = f"ssl.ca.location {location}" if location else "ssl.ca.pem" if pem else "this machine's own authorities"
        return f"the certificate of {host}:{port} is not trusted by {by}: {error.verify_message.rstrip('.')}"


def _mechanisms(host: str, port: int, tls: bool, mechanism: str, timeout_s: float) -> list[str] | None:
    """The SASL mechanisms of a listener, by Kafka's SaslHandshake (KIP-43); none where it has no SASL."""
    name = mechanism.encode()
    request = struct.pack(">hhih", _SASL_HANDSHAKE, _VERSION, 1, -1) + struct.pack(">h", len(name)) + name
    try:
        with (
            _connected(host, port, timeout_s, _trusting() if tls else None) as connection,
            connection.makefile("rb") as answers,
        ):
            connection.sendall(struct.pack(">i", len(request)) + request)
            size = int.from_bytes(answers.read(4), signed=True)
            answer = answers.read(size) if 10 <= size <= _LONGEST else b""
            if len(answer) < 10:
                raise ValueError("this is not Kafka's protocol")
    except ssl.SSLError:
        return None
    error, count = struct.unpack_from(">hi", answer, 4)
    if error == _NO_SASL_HERE:
        return []
    found, at = [], 10
    for _ in range(count):
        length = int.from_bytes(answer[at : at + 2], signed=True)
        if length < 0 or at + 2 + length > len(answer):
            raise ValueError("the answer is too short")
        found.append(answer[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return found


@contextmanager
def _connected(host: str, port: int, timeout_s: float, context: ssl.SSLContext | None) -> Iterator[socket.socket]:
    with socket.create_connection((host, port), timeout_s) as plain:
        if context is None:
            yield plain
        else:
            with context.wrap_socket(plain, server_hostname=host) as wrapped:
                yield wrapped


def _trusting() -> ssl.SSLContext:
    """A TLS context that trusts anybody. It is used to look at the listener; no secret is sent."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


# ── what a token says of itself (RFC 7519): brokers refuse one without saying why, and only their log knows ───────────


def claims_of(token: str) -> dict[str, Any]:
    """Its claims; none where it is opaque: only the token's server can read it."""
    try:
        payload = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def refusal_of_token(where: str, reason: str, token: str | None) -> ClusterUnavailable | None:
    """The error, if ``reason`` is a broker's answer to a token, or the token has expired.

    :param where: the beginning of the error's sentence.
    :param token: ``None`` where this client does not see it.
    """
    claims = claims_of(token or "")
    times = {name: claims[name] for name in ("nbf", "exp") if isinstance(claims.get(name), int | float)}
    now = time.time()
    has_expired = times.get("exp", now + 1) <= now
    if not has_expired and not _REFUSED.search(reason):
        return None
    words = [f"{word} {claims[name]!r:.{_SHOWN}}" for name, word in _CLAIMS.items() if name in claims]
    if has_expired:
        words.append(f"it has expired {now - times['exp']:.0f} s ago by this machine's clock")
    if times.get("nbf", now) > now:
        words.append(f"it is valid from {times['nbf'] - now:.0f} s from now on by this machine's clock")
    return ClusterUnavailable(
        where,
        f"the token is not accepted ({reason})" + (f"; it has {', '.join(words)}" if words else ""),
        "The broker's log says why. Check the token against the broker's settings: sasl.oauthbearer.expected.issuer, "
        "sasl.oauthbearer.expected.audience, the keys at sasl.oauthbearer.jwks.endpoint.url, and its clock.",
    )
