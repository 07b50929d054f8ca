"""Why librdkafka does not take a client's settings, in words that say what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.refusal_reasons import mechanism_of

# In OpenSSL's words: a key that its password does not open.
_CLOSED_KEY = re.compile(r"(ssl\.key(?:store)?)\.(?:location|pem)(?=.*(?:PEM lib|PEM routines|PKCS12 routines))")
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


def _asked_for_kerberos(config: Mapping[str, Any]) -> str:
    if config.get("sasl.mechanism") or config.get("sasl.mechanisms"):
        return f"sasl.mechanism is {mechanism_of(config)}, which is Kerberos"
    return "The Kafka configuration has no sasl.mechanism, which means GSSAPI (Kerberos)"


_WAYS_OUT = (
    "Choose another mechanism that the brokers have (such as SCRAM-SHA-512), and a listener that has it in "
    'bootstrap.servers. Or build confluent-kafka against libsasl2: the section "Kerberos" of docs/secured-kafka.md has '
    "the steps. Spark's own connection (kafka=) can use Kerberos without that."
)
