"""A Kafka connection's extra, through Airflow's hook to librdkafka itself: a client, or a refusal without a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import example, given

from airflow_kafka_offsets.broker.connection import Connection
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.spark_kafka import handed_over
from airflow_kafka_offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.request.parse_request import RunContext, request_for
from tests.builders import NOW
from tests.fuzz.strange import changed, changed_text, fuzzed

SECRET = "hunter2-secret"
PLAIN = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "auto.offset.reset": "earliest", "client.id": "me"}
EXTRAS: list[dict[str, Any]] = [
    PLAIN,
    {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": SECRET,
        "isolation.level": "read_committed",
    },
]


OF_JAVA: list[dict[str, Any]] = [
    *EXTRAS,
    {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SSL",
        "ssl.ca.pem": "-----BEGIN CERTIFICATE-----",
        "ssl.certificate.location": "/etc/hostname",
        "ssl.key.location": "/etc/hostname",
        "ssl.key.password": SECRET,
        "ssl.endpoint.identification.algorithm": "https",
        "enable.ssl.certificate.verification": True,
    },
    {
        "bootstrap.servers": "b-1.demo.kafka.eu-west-1.amazonaws.com:9098",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "a=b,c=d",
        "https.ca.location": "probe",
    },
    {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", "ssl.key.pem": SECRET, "ssl.certificate.pem": "x"},
]
"""What ``spark_kafka`` hands over to Spark's client, in each of its ways."""


@fuzzed(0.5)
@given(changed(EXTRAS).map(json.dumps) | changed_text([json.dumps(extra) for extra in EXTRAS]))
@example("[]")
@example('"text"')
@example("[1]")
@example(json.dumps({**PLAIN, "bootstrap.servers": ["a:1"]}))
@example(json.dumps({**PLAIN, "client.id": {"a": 1}}))
@example(json.dumps({**PLAIN, "group.id": 5}))
@example(json.dumps({**PLAIN, "group.id": {"a": [1]}}))
@example(json.dumps({**PLAIN, "auto.offset.reset": ["earliest"]}))
@example(json.dumps({**PLAIN, "bootstrap.servers": "\ud800"}))
@example(json.dumps({**PLAIN, "sasl.password": "\0" + SECRET}))
def test_an_extra_makes_a_client_or_is_refused(extra: str) -> None:
    refused = ""
    with pytest.MonkeyPatch.context() as patch:
        try:
            patch.setenv("AIRFLOW_CONN_FUZZED", json.dumps({"conn_type": "kafka", "extra": extra}))
            config = dict(KafkaOffsetsHook("fuzzed").client_config)
            request_for(config, RequestParameters(topics="orders"), RunContext(NOW))
            connection = Connection(config, deadline_s=1, attempt_s=1, first_contact_s=1)
            connection.make(AdminClient, connection.settings)
            connection.close()
        except InvalidRequest as error:
            refused = str(error)
    assert SECRET not in refused


@fuzzed()
@given(changed(OF_JAVA))
@example({**OF_JAVA[2], "ssl.ca.location": "a\0b", "ssl.ca.pem": None})
@example({**OF_JAVA[2], "ssl.key.location": "/dev/zero"})
@example({**OF_JAVA[2], "ssl.key.location": "/dev/stdin"})
@example({**OF_JAVA[2], "ssl.key.location": 5})
@example({**OF_JAVA[4], "ssl.key.pem": ["x"]})
@example({**OF_JAVA[4], "ssl.key.password": 5})
@example({**OF_JAVA[3], "sasl.oauthbearer.client.secret": [SECRET]})
@example({**OF_JAVA[4], "ssl.key.pem": "\ud800"})
def test_an_extra_is_handed_over_to_spark_or_is_refused(extra: Any) -> None:
    refused, settings = "", {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_FUZZED", json.dumps({"conn_type": "kafka", "extra": json.dumps(extra)}))
        try:
            with handed_over("fuzzed", {}, cluster_mode=False) as settings:
                pass
        except InvalidRequest as error:
            refused = str(error)
    assert SECRET not in refused + str(settings)
