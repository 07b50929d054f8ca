"""Spark reads by Kerberos: MIT's KDC, a broker's GSSAPI listener, and a keytab, by the page's connection and DAG.

Airflow's own client is librdkafka, which is installed without Kerberos: it uses another listener of the same broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from testbed import airflow_home
from testbed.cache import Say
from testbed.java import Java
from testbed.kdc import Kdc
from testbed.secured_broker import SecuredBroker
from tests.secured.conftest import PASSWORDS, PATIENT, Pipeline
from tests.secured.page import connection


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


def test_airflow_s_first_task_says_that_its_client_has_no_kerberos(by_keytab: Pipeline) -> None:
    by_keytab.connect("kafka_default", connection(by_keytab.kafka, "kerberos", "airflow"))
    result = by_keytab.run()
    assert result.states("orders.wait_for_partitions") == ["failed"]
    assert result.states("orders.resolve") == ["upstream_failed"]
    said = by_keytab.said()
    assert "AKO-001 InvalidRequest" in said, said
    assert "the confluent-kafka that is installed here was built without Kerberos" in said, said
