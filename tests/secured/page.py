"""docs/secured-kafka.md as its reader takes it: the connections and the DAG, with this machine's names in them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.kdc import REALM
from testbed.secured_broker import SecuredBroker

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "secured-kafka.md").read_text()
DAG_ID = "orders_to_lake"
_OF = {
    "scram": "sasl.username",
    "mtls": "ssl.key.location",
    "oauth": "sasl.oauthbearer.client.id",
    "kerberos": "sasl.kerberos.keytab",
}
_SECRETS = ("sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def connection(kafka: SecuredBroker, listener: str, name: str) -> dict[str, Any]:
    """The page's connection for that listener, as the principal `name` writes it here."""
    (written,) = (found for found in map(json.loads, blocks("json")) if _OF[listener] in found)
    signed = kafka.authority.sign(name, password=kafka.passwords[name])
    instead = {
        "kafka.example.com:9093": kafka.address(listener),
        "https://login.example.com/token": kafka.tokens.token_url,
        "/etc/kafka/ca.pem": str(kafka.authority.ca),
        "/etc/kafka/airflow.crt": str(signed.certificate),
        "/etc/kafka/airflow.key": str(signed.key),
        "airflow": name,
    }
    if kafka.kdc is not None:
        instead |= {"/etc/kafka/spark.keytab": str(kafka.kdc.keytab(name)), "spark@EXAMPLE.COM": f"{name}@{REALM}"}
    secret = {key: kafka.passwords[name] for key in _SECRETS if key in written}
    return {key: instead.get(value, value) for key, value in written.items()} | secret


def dag_text(instead: Mapping[str, str]) -> str:
    """The page's DAG, with other words in the place of some."""
    (text,) = blocks("python")
    return _with(text, instead)


def client_properties(instead: Mapping[str, str], token: tuple[str, str] | None = None) -> str:
    """The page's client.properties, with other words in the place of some.

    :param token: of a delegation token, id and HMAC: the page's login by one takes the place of that by a password.
    """
    text, login = blocks("properties")
    if token is not None:
        login = _with(login, dict(zip(("TOKEN_ID", "HMAC"), token, strict=True)))
        text = re.sub("^sasl.jaas.config=.*\n", lambda _: login, text, flags=re.MULTILINE)
        assert login in text
    return _with(text, instead)


def _with(text: str, instead: Mapping[str, str]) -> str:
    for words, here in instead.items():
        assert words in text, words
        text = text.replace(words, here)
    return text
