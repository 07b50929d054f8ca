"""Kafka's delegation tokens (KIP-48) on a real broker: Spark reads by one; Airflow's client says why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.java_client import java_client
from airflow_kafka_offsets.errors import ClusterUnavailable, NotAuthorized
from airflow_kafka_offsets.spark import read_batch
from airflow_kafka_offsets.spark.client_properties import SETTING
from airflow_kafka_offsets.stores.local import LocalStore
from testbed.secured_broker import SecuredBroker
from tests.conftest import unique_name
from tests.secured.conftest import PASSWORDS
from tests.secured.page import client_properties, connection
from tests.spark.conftest import Plans, attempts, offset_numbers, spark

__all__ = ["spark"]  # a fixture


@dataclass
class Token:
    """:ivar expire: as its owner does."""

    id: str
    hmac: str
    expire: Callable[[], None]


@pytest.fixture
def token(kafka: SecuredBroker, spark: SparkSession) -> Iterator[Token]:
    """Of the principal `spark`, who has made it himself, by Kafka's own client and his password."""
    jvm: Any = spark._jvm
    settings = jvm.java.util.HashMap()
    for name, value in java_client(connection(kafka, "scram", "spark")).items():
        settings.put(name, value)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
    made = admin.createDelegationToken().delegationToken().get()
    options = jvm.org.apache.kafka.clients.admin.ExpireDelegationTokenOptions().expiryTimePeriodMs(-1)
    yield Token(
        made.tokenInfo().tokenId(),
        made.hmacAsBase64String(),
        lambda: admin.expireDelegationToken(made.hmac(), options).expiryTimestamp().get(),
    )
    admin.close()


@dataclass
class Job:
    """A Spark job whose driver finds the page's client.properties with the page's line for a token."""

    spark: SparkSession
    plans: Plans
    topic: str

    def read(self) -> list[int]:
        self.batch = self.plans.batch({(self.topic, 0): (0, 20)})
        return offset_numbers(read_batch(self.spark, self.plans.job(self.batch)))


@pytest.fixture
def job(kafka: SecuredBroker, spark: SparkSession, token: Token, tmp_path: Path) -> Iterator[Job]:
    topic = unique_name("topic")
    kafka.plain.create_topic(topic, 1)
    kafka.plain.produce_many(topic, 20)
    file = tmp_path / "client.properties"
    here = {"kafka.example.com:9093": kafka.address("scram"), "/etc/kafka/ca.pem": str(kafka.authority.ca)}
    file.write_text(client_properties(here, token=(token.id, token.hmac)))
    assert PASSWORDS["spark"] not in file.read_text()
    spark.conf.set(SETTING, str(file))
    yield Job(spark, Plans(LocalStore(tmp_path / "store"), kafka.plain), topic)
    spark.conf.unset(SETTING)
    kafka.deny("spark", ("topic", topic, "read"))


def test_spark_reads_by_a_token_with_the_rights_of_its_owner(kafka: SecuredBroker, job: Job, token: Token) -> None:
    with pytest.raises(NotAuthorized) as refused:
        job.read()
    assert f"Spark's principal, the owner of delegation token {token.id}" in str(refused.value)
    kafka.allow("spark", ("topic", job.topic, "read"))
    assert job.read() == [*range(20)]


def test_an_expired_token_is_refused_before_the_attempt_begins(kafka: SecuredBroker, job: Job, token: Token) -> None:
    kafka.allow("spark", ("topic", job.topic, "read"))
    token.expire()
    with pytest.raises(ClusterUnavailable, match="Spark cannot ask the Kafka cluster") as refused:
        job.read()
    assert "invalid credentials" in str(refused.value)
    assert token.hmac not in str(refused.value)
    assert not refused.value.retriable
    assert attempts(job.batch) == []


def test_airflow_s_client_cannot_log_in_by_a_token_and_says_so(kafka: SecuredBroker, token: Token) -> None:
    by_token = {"sasl.username": token.id, "sasl.password": token.hmac}
    settings = {**connection(kafka, "scram", "airflow"), **by_token}
    with KafkaCluster(settings) as cluster, pytest.raises(ClusterUnavailable) as refused:
        cluster.cluster_id()
    said = str(refused.value)
    assert "librdkafka cannot log in by a delegation token" in said, said
    assert token.hmac not in said
    assert not refused.value.retriable


def test_a_wrong_password_is_not_taken_for_a_token(kafka: SecuredBroker) -> None:
    settings = connection(kafka, "scram", "airflow")
    with KafkaCluster({**settings, "sasl.password": "wrong"}) as cluster, pytest.raises(ClusterUnavailable) as refused:
        cluster.cluster_id()
    assert "invalid credentials" in str(refused.value)
    assert "delegation token" not in str(refused.value)
