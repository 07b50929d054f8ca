"""Spark reads by Kerberos: MIT's KDC, a broker's GSSAPI listener, and a keytab, by the page's connection and DAG.

Airflow's own client is librdkafka, which is installed without Kerberos: it uses another listener of the same broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import NotAuthorized
from airflow_kafka_offsets.spark import read_batch
from airflow_kafka_offsets.stores.local import LocalStore
from testbed import airflow_home
from testbed.cache import Say
from testbed.java import Java
from testbed.kdc import REALM, Kdc
from testbed.secured_broker import SecuredBroker
from testbed.spark import PATIENT
from tests.conftest import unique_name
from tests.secured.conftest import PASSWORDS, Pipeline
from tests.secured.page import connection
from tests.spark.conftest import Plans, offset_numbers, spark

__all__ = ["spark"]  # a fixture


@pytest.fixture(scope="module")
def kafka(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """In the place of the folder's: one that has a KDC."""
    folder = tmp_path_factory.mktemp("kerberos")
    with Kdc(folder / "kdc") as kdc, SecuredBroker(folder / "broker", PASSWORDS, java, say, kdc) as running:
        yield running


@pytest.fixture
def by_keytab(
    pipeline: Pipeline, spark_settings: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Pipeline:
    """Airflow by SCRAM, Spark by its keytab; Spark's JVM is told where the KDC is."""
    assert pipeline.kafka.kdc is not None
    settings = {
        **spark_settings,
        **PATIENT,
        "spark.driver.extraJavaOptions": f"-Djava.security.krb5.conf={pipeline.kafka.kdc.config}",
    }
    for name, value in airflow_home.spark_defaults(tmp_path / "spark", settings).items():
        monkeypatch.setenv(name, value)
    pipeline.connect("kafka_default", connection(pipeline.kafka, "scram", "airflow"))
    pipeline.connect("kafka_spark", connection(pipeline.kafka, "kerberos", "spark"))
    pipeline.produce(100)
    return pipeline


def test_spark_reads_a_batch_by_its_keytab_and_airflow_commits_it(by_keytab: Pipeline) -> None:
    assert by_keytab.run().state == "success", by_keytab.said()
    assert by_keytab.is_exact
    assert by_keytab.committed == {0: 50, 1: 50}


def test_a_right_that_spark_s_kerberos_principal_lacks_is_named(by_keytab: Pipeline) -> None:
    """So it was this principal that the brokers have let in."""
    by_keytab.kafka.deny("spark", *by_keytab.rights("spark"))
    assert by_keytab.run().states("orders.spark") == ["failed"]
    said = by_keytab.said()
    assert f"AKO-502 NotAuthorized: Spark may not read {by_keytab.topic} at" in said, said
    assert "Spark's principal (Kerberos, spark@TEST)" in said, said
    assert by_keytab.committed == {}


def test_a_keytab_of_somebody_else_is_refused_before_the_batch_begins(by_keytab: Pipeline) -> None:
    kdc = by_keytab.kafka.kdc
    assert kdc is not None
    settings = connection(by_keytab.kafka, "kerberos", "spark")
    by_keytab.connect("kafka_spark", {**settings, "sasl.kerberos.keytab": str(kdc.keytab("etl"))})
    assert by_keytab.run().states("orders.spark") == ["failed"]
    said = by_keytab.said()
    assert "AKO-501 ClusterUnavailable: Spark cannot ask the Kafka cluster" in said, said
    assert "Unable to obtain password from user" in said, said
    assert by_keytab.committed == {}


def test_spark_reads_by_a_delegation_token_that_it_has_fetched_itself_by_its_keytab(
    kafka: SecuredBroker, spark: SparkSession, tmp_path: Path
) -> None:
    """As it does on YARN and Kubernetes, where its driver calls the same class. No option has a credential."""
    assert kafka.kdc is not None
    topic = unique_name("topic")
    jvm: Any = spark._jvm
    kafka.plain.create_topic(topic, 1)
    kafka.plain.produce_many(topic, 20)
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(kafka.authority.ca)}
    of_cluster = {"auth.bootstrap.servers": kafka.address("kerberos"), "security.protocol": "SASL_SSL", **trust}
    conf = jvm.org.apache.spark.SparkEnv.get().conf()
    asked = {
        **{f"spark.kafka.clusters.lake.{name}": value for name, value in of_cluster.items()},
        "spark.kerberos.keytab": str(kafka.kdc.keytab("spark")),
        "spark.kerberos.principal": f"spark@{REALM}",
    }
    for name, value in asked.items():
        conf.set(name, value)
    jvm.System.setProperty("java.security.krb5.conf", str(kafka.kdc.config))
    security = jvm.org.apache.hadoop.security
    tokens = security.Credentials()
    provider = jvm.org.apache.spark.kafka010.KafkaDelegationTokenProvider()
    provider.obtainDelegationTokens(jvm.org.apache.hadoop.conf.Configuration(), conf, tokens)
    assert tokens.numberOfTokens() == 1
    security.UserGroupInformation.getCurrentUser().addCredentials(tokens)
    source = {"bootstrap.servers": kafka.address("scram"), **trust}
    plans = Plans(LocalStore(tmp_path / "store"), kafka.plain)
    job = plans.job(plans.batch({(topic, 0): (0, 20)}))

    def read() -> list[int]:
        return offset_numbers(read_batch(spark, job, **{f"kafka.{name}": value for name, value in source.items()}))

    try:
        with pytest.raises(NotAuthorized, match=r"SASL_SSL: .*Spark's principal, the owner of delegation token"):
            read()
        kafka.allow("spark", ("topic", topic, "read"))
        assert read() == [*range(20)]
    finally:
        for name in asked:
            conf.remove(name)


def test_airflow_s_first_task_says_that_its_client_has_no_kerberos(by_keytab: Pipeline) -> None:
    by_keytab.connect("kafka_default", connection(by_keytab.kafka, "kerberos", "airflow"))
    result = by_keytab.run()
    assert result.states("orders.wait_for_partitions") == ["failed"]
    assert result.states("orders.resolve") == ["upstream_failed"]
    said = by_keytab.said()
    assert "AKO-001 InvalidRequest" in said, said
    assert "the confluent-kafka that is installed here was built without Kerberos" in said, said
