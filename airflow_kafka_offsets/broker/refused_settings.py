"""Why librdkafka does not take a client's settings, or cannot log in by them, in words that say what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.refusal_reasons import mechanism_of

# In OpenSSL's words: a key that its password does not open.
_CLOSED_KEY = re.compile(r"(ssl\.key(?:store)?)\.(?:location|pem)(?=.*(?:PEM lib|PEM routines|PKCS12 routines))")
# As Kafka makes them (KIP-48): a UUID in base 64 for URLs, and an HMAC of 64 bytes in base 64.
_TOKEN_ID, _TOKEN_HMAC = re.compile(r"[\w-]{22}"), re.compile(r"[\w+/]{86}==")
_NOT_BUILT_IN = "No provider for SASL mechanism"


def refusal_of_settings(text: str, config: Mapping[str, Any]) -> str:
    """One problem of a request.

    :param text: what librdkafka says, without secrets.
    """
    closed = _CLOSED_KEY.search(text)
    if closed is not None:
        password = f"{closed[1]}.password"
        given = "" if config.get(password) else ", which is not given"
        return f"{closed[0]} has no private key that opens with {password}{given}: {text}"
    if _NOT_BUILT_IN in text and mechanism_of(config) == "GSSAPI":
        asked = _asked_for_kerberos(config)
        return f"{asked}, and the confluent-kafka that is installed here was built without Kerberos. {_WAYS_OUT}"
    return f"librdkafka does not take the Kafka configuration: {text}"


def refusal_of_login(text: str, config: Mapping[str, Any]) -> str:
    """Why the brokers do not take the credentials, as far as the credentials say it.

    librdkafka has no ``tokenauth``, by which a broker knows a token from a user's password; the broker says no more
    than that the credentials are invalid.

    :param text: what librdkafka says, without secrets.
    """
    name, password = str(config.get("sasl.username")), str(config.get("sasl.password"))
    if "credentials" not in text or not (_TOKEN_ID.fullmatch(name) and _TOKEN_HMAC.fullmatch(password)):
        return text
    return (
        "sasl.username and sasl.password look like a delegation token, and librdkafka cannot log in by a delegation "
        f"token: give this connection a user's password or another mechanism. Spark can use a token. ({text})"
    )


def _asked_for_kerberos(config: Mapping[str, Any]) -> str:
    if config.get("sasl.mechanism") or config.get("sasl.mechanisms"):
        return f"sasl.mechanism is {mechanism_of(config)}, which is Kerberos"
    return "The Kafka configuration has no sasl.mechanism, which means GSSAPI (Kerberos)"


_WAYS_OUT = (
    "Choose another mechanism that the brokers have (such as SCRAM-SHA-512), and a listener that has it in "
    'bootstrap.servers. Or build confluent-kafka against libsasl2: the section "Kerberos" of docs/secured-kafka.md has '
    "the steps. Spark's own connection (kafka=) can use Kerberos without that."
)
