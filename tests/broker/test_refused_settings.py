"""What the client that is installed here refuses, by that client itself; nobody is asked."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import InvalidRequest

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}
KEYTAB = {"sasl.kerberos.keytab": "/etc/kafka/airflow.keytab", "sasl.kerberos.principal": "airflow@EXAMPLE.COM"}


@pytest.mark.parametrize("protocol", ["sasl_plaintext", "SASL_SSL"])
@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({"sasl.mechanism": "GSSAPI", **KEYTAB}, "sasl.mechanism is GSSAPI, which is Kerberos,"),
        ({"sasl.mechanisms": "GSSAPI"}, "sasl.mechanism is GSSAPI, which is Kerberos,"),
        ({}, "The Kafka configuration has no sasl.mechanism, which means GSSAPI (Kerberos),"),
    ],
)
def test_a_client_that_was_built_without_kerberos_says_so_with_the_ways_out(
    protocol: str, settings: dict[str, Any], asked: str
) -> None:
    with (
        KafkaCluster({**NOBODY, "security.protocol": protocol, **settings}) as cluster,
        pytest.raises(InvalidRequest) as refused,
    ):
        cluster.cluster_id()
    (problem,) = refused.value.problems
    assert problem.startswith(f"{asked} and the confluent-kafka that is installed here was built without Kerberos.")
    assert "another mechanism that the brokers have" in problem
    assert 'the section "Kerberos" of docs/secured-kafka.md' in problem


def test_another_refusal_is_given_in_librdkafka_s_words() -> None:
    with KafkaCluster({**NOBODY, "no.such.setting": "x"}) as cluster, pytest.raises(InvalidRequest) as refused:
        cluster.cluster_id()
    (problem,) = refused.value.problems
    assert problem.startswith("librdkafka does not take the Kafka configuration: ")
    assert "no.such.setting" in problem
