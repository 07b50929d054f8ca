"""librdkafka's settings → Java's, as a table. That Java reads them: tests/spark/test_client_properties.py."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.broker.java_client import (
    ALLOWED_URLS,
    as_properties,
    is_secured,
    java_client,
    system_properties,
)
from airflow_kafka_offsets.errors import InvalidRequest

AT = {"bootstrap.servers": "a:9093,b:9093"}
SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "SCRAM-SHA-256",
    "sasl.username": "u",
    "sasl.password": "p",
}
OIDC = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
    "sasl.oauthbearer.client.id": "c",
    "sasl.oauthbearer.client.secret": "s",
}
JAAS, TRUST = "sasl.jaas.config", "ssl.truststore"
LOGIN = "org.apache.kafka.common.security"
PEM = {f"{TRUST}.type": "PEM"}
MSK = "b-1.demo.abcde1.c2.kafka.us-east-1.amazonaws.com:9098"

TABLE: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"socket.timeout.ms": 1000, "group.id": "g", "client.id": "c", "error_cb": print}, {}),
    ({"security.protocol": "plaintext", "sasl.password": "p", "ssl.cipher.suites": "x"}, {}),  # librdkafka ignores them
    (
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "u",
            "sasl.password": 'a"b',
        },
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            JAAS: f'{LOGIN}.plain.PlainLoginModule required username="u" password="a\\"b";',
        },
    ),
    (
        {**SCRAM, "ssl.ca.pem": "CA"},
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            JAAS: f'{LOGIN}.scram.ScramLoginModule required username="u" password="p";',
            **PEM,
            f"{TRUST}.certificates": "CA",
        },
    ),
    (
        {**OIDC, "sasl.oauthbearer.scope": "x", "sasl.oauthbearer.extensions": "a=1,b=2", "https.ca.pem": "A\nB"},
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://login/token",
            "sasl.login.callback.handler.class": f"{LOGIN}.oauthbearer.OAuthBearerLoginCallbackHandler",
            JAAS: f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required "
            'clientId="c" clientSecret="s" scope="x" extension_a="1" extension_b="2" '
            'ssl.truststore.type="PEM" ssl.truststore.certificates="A\\nB";',
        },
    ),
    (
        {"security.protocol": "ssl", "ssl.certificate.pem": "C", "ssl.key.pem": "K", "ssl.ca.location": "/ca.pem"},
        {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": "C",
            "ssl.keystore.key": "K",
            **PEM,
            f"{TRUST}.location": "/ca.pem",
        },
    ),
    (
        {"security.protocol": "ssl", "ssl.keystore.location": "/k.p12", "ssl.keystore.password": "x"},
        {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": "/k.p12",
            "ssl.keystore.password": "x",
        },
    ),
    (
        {
            "security.protocol": "ssl",
            "ssl.keystore.type": "JKS",
            "ssl.keystore.location": "/k.jks",
            "ssl.key.password": "k",
            f"{TRUST}.type": "JKS",
            f"{TRUST}.location": "/t.jks",
            f"{TRUST}.password": "t",
        },
        {
            "security.protocol": "SSL",
            "ssl.keystore.type": "JKS",
            "ssl.keystore.location": "/k.jks",
            "ssl.key.password": "k",
            f"{TRUST}.type": "JKS",
            f"{TRUST}.location": "/t.jks",
            f"{TRUST}.password": "t",
        },
    ),
    (
        {"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "none", "ssl.ca.location": "probe"},
        {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""},
    ),
    (
        {
            "security.protocol": "sasl_plaintext",
            "sasl.kerberos.keytab": "/etc/kafka/spark.keytab",
            "sasl.kerberos.principal": "spark@EXAMPLE.COM",
            "sasl.kerberos.kinit.cmd": "kinit",
        },
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            JAAS: "com.sun.security.auth.module.Krb5LoginModule required "
            'useKeyTab="true" storeKey="true" doNotPrompt="true" '
            'keyTab="/etc/kafka/spark.keytab" principal="spark@EXAMPLE.COM";',
        },
    ),
    (
        {"security.protocol": "sasl_ssl", "sasl.mechanism": "AWS_MSK_IAM", "enable.ssl.certificate.verification": True},
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "AWS_MSK_IAM",
            JAAS: "software.amazon.msk.auth.iam.IAMLoginModule required;",
            "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        },
    ),
]


@pytest.mark.parametrize(("settings", "java"), TABLE)
def test_a_setting_has_its_counterpart(settings: dict[str, Any], java: dict[str, str]) -> None:
    found = java_client({**AT, **settings})
    assert found == {**AT, **java}
    assert is_secured(found) == ("security.protocol" in java)


def test_a_token_function_of_python_on_msk_is_iam() -> None:
    """The Kafka provider puts it there by itself."""
    settings = {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": print}
    assert java_client({"bootstrap.servers": MSK, **settings})["sasl.mechanism"] == "AWS_MSK_IAM"
    with pytest.raises(InvalidRequest, match="oauth_cb is a function of Python"):
        java_client({"bootstrap.servers": "kafka.example.com:9093", **settings})


def test_what_has_no_counterpart_is_refused_by_name_all_at_once_and_without_its_value() -> None:
    refused = {
        "enable.ssl.certificate.verification": False,
        "ssl.cipher.suites": "hunter2",
        "ssl.crl.location": "hunter2",
        "ssl.key.location": "hunter2",
        "sasl.jaas.config": "hunter2",
        "sasl.login.callback.handler.class": "hunter2",
        "sasl.oauthbearer.assertion.private.key.pem": "hunter2",
        "ssl.setting.of.tomorrow": "hunter2",
    }
    with pytest.raises(InvalidRequest) as error:
        java_client({**AT, **SCRAM, **refused})
    assert len(error.value.problems) == len(refused)
    assert [name for name in refused if not any(p.startswith(f"{name} ") for p in error.value.problems)] == []
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"sasl.oauthbearer.client.secret": None}, "sasl.oauthbearer.client.secret is missing"),
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "sasl.oauthbearer.token.endpoint.url is missing"),
        ({"sasl.oauthbearer.method": "default"}, "nothing gives a token"),
        ({"sasl.oauthbearer.grant.type": "urn:x"}, "grant.type has client_credentials alone"),
        ({"sasl.oauthbearer.extensions": "a"}, None),
        ({"sasl.oauthbearer.extensions": 'a" x="1=2'}, "extensions is not name=value"),
        (
            {"sasl.mechanism": "GSSAPI", "sasl.kerberos.keytab": "/k"},
            "sasl.kerberos.principal is missing, which GSSAPI",
        ),
        ({"sasl.mechanism": None}, "sasl.kerberos.keytab is missing, which GSSAPI needs"),
        ({"sasl.mechanism": "SRP"}, "sasl.mechanism SRP is not translated"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.username is missing, which PLAIN needs"),
        ({"ssl.certificate.pem": "C"}, "ssl.key.pem is missing"),
        ({"security.protocol": "tls"}, "security.protocol is none of"),
    ],
)
def test_half_a_setting_is_refused(changed: dict[str, Any], problem: str | None) -> None:
    if problem is None:
        assert 'extension_a=""' in java_client({**AT, **OIDC, **changed})[JAAS]
        return
    with pytest.raises(InvalidRequest, match=problem):
        java_client({**AT, **OIDC, **changed})


def test_both_jvms_are_told_which_token_server_they_may_ask() -> None:
    assert system_properties(java_client({**AT, **OIDC})) == {ALLOWED_URLS: "https://login/token"}
    assert system_properties(java_client({**AT, **SCRAM})) == {}


def test_a_properties_file_is_ascii() -> None:
    assert as_properties({"a.b": " x\\ü\n=#😀"}) == "a.b=\\u0020x\\u005c\\u00fc\\u000a=#\\ud83d\\ude00\n"
