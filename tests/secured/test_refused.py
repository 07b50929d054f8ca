"""What Spark and Airflow say of a token that the brokers refuse, and Spark of a listener that it does not fit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.java_client import java_client, system_properties
from airflow_kafka_offsets.errors import ClusterUnavailable
from airflow_kafka_offsets.spark import read_batch
from airflow_kafka_offsets.stores.local import LocalStore
from testbed.secured_broker import SecuredBroker
from tests.conftest import unique_name
from tests.secured.conftest import PASSWORDS
from tests.secured.page import connection
from tests.spark.conftest import Plans, attempts, spark

__all__ = ["spark"]  # a fixture

PROMISED_S = 15
Read = Callable[[Mapping[str, Any]], None]


@pytest.fixture
def read(kafka: SecuredBroker, spark: SparkSession, tmp_path: Any) -> Iterator[Read]:
    """`read(connection)`: what a Spark job does first; no attempt is begun where that fails."""
    topic = unique_name("topic")
    kafka.plain.create_topic(topic, 1)
    kafka.allow("spark", ("topic", topic, "read"))
    kafka.plain.produce_many(topic, 2)
    plans = Plans(LocalStore(tmp_path / "store"), kafka.plain)

    def by_spark(settings: Mapping[str, Any]) -> None:
        java = java_client(settings)
        for name, value in system_properties(java).items():
            spark._jvm.System.setProperty(name, value)  # type: ignore[union-attr]
        batch = plans.batch({(topic, 0): (0, 2)})
        try:
            read_batch(spark, plans.job(batch), **{f"kafka.{name}": value for name, value in java.items()})
        except ClusterUnavailable:
            assert attempts(batch) == []
            raise

    yield by_spark
    kafka.deny("spark", ("topic", topic, "read"))


NOW = int(time.time())
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another key": ({}, "issuer 'https://localhost:"),
    "another audience": ({"aud": ["lake", "web"]}, "audience ['lake', 'web']"),
    "another issuer": ({"iss": "https://elsewhere"}, "issuer 'https://elsewhere'"),
    "it has expired": ({"iat": NOW - 7200, "exp": NOW - 3600}, "it has expired"),
    "not valid yet": ({"nbf": NOW + 3600, "iat": NOW + 3600, "exp": NOW + 7200}, "it is valid from"),
}


@pytest.fixture
def refused(kafka: SecuredBroker, request: pytest.FixtureRequest) -> Iterator[str]:
    """The token server gives a token that the brokers do not take; what is wrong with it, in the error's words."""
    change, words = REFUSED[request.param]
    kafka.tokens.changed = dict.fromkeys(PASSWORDS, change)
    kafka.tokens.forged = set() if change else set(PASSWORDS)
    yield words
    kafka.tokens.changed, kafka.tokens.forged = {}, set()


@pytest.mark.parametrize("refused", REFUSED, indirect=True)
def test_spark_says_what_is_in_a_token_that_the_brokers_refuse(kafka: SecuredBroker, read: Read, refused: str) -> None:
    with pytest.raises(ClusterUnavailable) as error:
        read(connection(kafka, "oauth", "spark"))
    said = str(error.value)
    assert "Spark cannot ask the Kafka cluster" in said
    assert "the token is not accepted" in said
    assert refused in said
    assert "subject 'spark'" in said
    assert "sasl.oauthbearer.expected.audience" in said
    assert not error.value.retriable
    assert PASSWORDS["spark"] not in said
    assert "eyJ" not in said


@pytest.mark.parametrize("refused", [name for name in REFUSED if name != "it has expired"], indirect=True)
@pytest.mark.parametrize("source", ["oidc", "oauth_cb"])
def test_airflow_says_that_the_token_was_refused(kafka: SecuredBroker, refused: str, source: str) -> None:
    """And what is in it, where it sees the token: librdkafka keeps those that it fetches itself."""
    settings = connection(kafka, "oauth", "airflow")
    if source == "oauth_cb":
        settings = {name: value for name, value in settings.items() if "oauthbearer" not in name}
        settings["oauth_cb"] = lambda _: (kafka.tokens.token("airflow"), time.time() + 3600)
    with KafkaCluster(settings) as cluster, pytest.raises(ClusterUnavailable) as error:
        cluster.cluster_id()
    said = str(error.value)
    assert "the token is not accepted" in said
    assert "sasl.oauthbearer.expected.audience" in said
    assert (refused in said) == (source == "oauth_cb")
    assert not error.value.retriable
    assert PASSWORDS["airflow"] not in said
    assert "eyJ" not in said


@pytest.mark.parametrize("refused", ["it has expired"], indirect=True)
def test_airflow_says_of_an_expired_token_that_it_is(kafka: SecuredBroker, refused: str) -> None:
    """librdkafka does not send it, and fetches another one until the time for a first answer is over."""
    cluster = KafkaCluster(connection(kafka, "oauth", "airflow"), first_contact_s=1.0)
    with cluster, pytest.raises(ClusterUnavailable, match="Must supply an unexpired token") as error:
        cluster.cluster_id()
    assert error.value.retriable


def test_spark_says_which_listener_it_does_not_fit_within_fifteen_seconds(kafka: SecuredBroker, read: Read) -> None:
    """Kafka's Java client says no more than that it timed out. All are asked at once.

    Of those without TLS only one: Java takes a TLS alert for the size of an answer, 336 MB.
    """
    by_scram = connection(kafka, "scram", "spark")
    read(by_scram)  # which makes Spark load what it needs
    misfits = {
        (kafka.address("scram"), "ssl"): "and security.protocol is SSL: set it to SASL_SSL",
        (kafka.address("mtls"), "plaintext"): "speaks TLS, and security.protocol is PLAINTEXT: set it to SSL or",
        (kafka.plain.bootstrap_servers, "ssl"): "does not speak TLS and has no SASL, and security.protocol is SSL: set "
        "it to PLAINTEXT",
        (kafka.plain.bootstrap_servers, "sasl_ssl"): "security.protocol is SASL_SSL: set it to PLAINTEXT",
    }

    def ask(address: str, protocol: str) -> tuple[str, float]:
        began = time.monotonic()
        with pytest.raises(ClusterUnavailable) as error:
            read({**by_scram, "bootstrap.servers": address, "security.protocol": protocol})
        return str(error.value), time.monotonic() - began

    with ThreadPoolExecutor(len(misfits)) as threads:
        for words, (said, took_s) in zip(misfits.values(), threads.map(lambda of: ask(*of), misfits), strict=True):
            assert words in said
            assert took_s < PROMISED_S
