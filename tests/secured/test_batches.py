"""Resolve, Spark and commit on a secured Kafka, by the page's connections and DAG; and what is said where it fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import pytest

from testbed import airflow_home
from testbed.certificates import Authority
from testbed.secured_broker import LISTENERS
from tests.secured.conftest import PASSWORDS, Pipeline
from tests.secured.page import client_properties

SOON_S = 15  # the driver's own limit is 10. Spark's own start is no part of it: it takes 5 s, and 20 on a busy machine


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_batch_is_read_and_committed_with_the_least_rights_of_each_principal(
    pipeline: Pipeline, listener: str
) -> None:
    pipeline.as_principals(listener)
    pipeline.produce(100)
    result = pipeline.run()
    said = pipeline.said()
    assert result.state == "success", said
    assert pipeline.is_exact
    assert pipeline.committed == {0: 50, 1: 50}
    assert [secret for secret in PASSWORDS.values() if secret in said] == []


def test_a_driver_finds_the_page_s_file_where_it_runs(pipeline: Pipeline, tmp_path: Path) -> None:
    """Spark is told a path, and no connection of Airflow has Spark's credentials."""
    file, kafka = tmp_path / "client.properties", pipeline.kafka
    names = {"kafka.example.com:9093": kafka.address("scram"), "/etc/kafka/ca.pem": str(kafka.authority.ca)}
    file.write_text(client_properties({**names, 'username="spark"': 'username="etl"', "…": PASSWORDS["etl"]}))
    pipeline.as_principals("oauth")
    pipeline.words['"kafka": "kafka_spark"'] = f'"kafka": {{"file": "{file}"}}'
    kafka.deny("spark", *pipeline.rights("spark"))
    pipeline.produce(100)
    assert pipeline.run().state == "success", pipeline.said()
    assert pipeline.is_exact
    assert file.exists()


def of_another_authority(folder: Path) -> dict[str, str]:
    """The authority has the real one's name: with another, Java would not even show the certificate."""
    signed = Authority(folder / "another").sign("spark", password=PASSWORDS["spark"])
    return {"ssl.certificate.location": str(signed.certificate), "ssl.key.location": str(signed.key)}


WRONG = [
    ("scram", lambda _: {"sasl.password": "not it"}, "invalid credentials with SASL mechanism SCRAM-SHA-512"),
    (
        "scram",
        lambda _: {"ssl.ca.location": "probe"},
        "SSL handshake failed: unable to find valid certification path",
    ),
    ("mtls", of_another_authority, "Received fatal alert: certificate_unknown"),
    ("oauth", lambda _: {"sasl.oauthbearer.client.secret": "not it"}, "The response code 401"),
    ("oauth", lambda _: {"https.ca.location": "probe"}, "certificate authority (https.ca.location)"),
]


@pytest.mark.parametrize(("listener", "wrong", "reason"), WRONG)
def test_why_spark_is_not_let_in_is_said_soon(
    pipeline: Pipeline, tmp_path: Path, listener: str, wrong: Callable[[Path], dict[str, str]], reason: str
) -> None:
    """In the driver's log, which in client mode is part of the task's, and in the task's own error."""
    pipeline.as_principals(listener, spark=wrong(tmp_path))
    pipeline.produce(2)
    result = pipeline.run()
    said = pipeline.said()
    assert result.states("orders.spark") == ["failed"], said
    driver, _, error = said.partition("Cannot execute: spark-submit")
    for log in (driver, error):
        assert "AKO-501 ClusterUnavailable: Spark cannot ask the Kafka cluster" in log
        assert reason in log, said
    assert seconds_between("AdminClientConfig values", "Invoking stop()", driver) < SOON_S
    assert pipeline.committed == {}


def test_a_client_without_tls_is_told_of_tls_with_spark_s_own_time_limit(
    pipeline: Pipeline, spark_settings: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's Java client says no more than that it timed out."""
    for name, value in airflow_home.spark_defaults(tmp_path / "impatient", spark_settings).items():
        monkeypatch.setenv(name, value)
    pipeline.as_principals("scram", spark={"security.protocol": "plaintext"})
    pipeline.produce(2)
    assert pipeline.run().states("orders.spark") == ["failed"]
    said = pipeline.said()
    driver, _, error = said.partition("Cannot execute: spark-submit")
    reason = "speaks TLS and asks for SASL (SCRAM-SHA-512), and security.protocol is PLAINTEXT: set it to SASL_SSL"
    for log in (driver, error):
        assert "AKO-501 ClusterUnavailable: Spark cannot ask the Kafka cluster" in log, said
        assert f"{pipeline.kafka.address('scram')} {reason}" in log, said
    assert seconds_between("AdminClientConfig values", "Invoking stop()", driver) < SOON_S
    assert pipeline.committed == {}


def seconds_between(first: str, second: str, log: str) -> float:
    """By the times that Spark writes before what it logs."""
    begin, end = (
        re.findall(rf"(\d\d/\d\d/\d\d \d\d:\d\d:\d\d) INFO \w+: {re.escape(words)}", log)[at]
        for words, at in ((first, 0), (second, -1))
    )
    begun, ended = (datetime.strptime(time, "%y/%m/%d %H:%M:%S") for time in (begin, end))
    return (ended - begun).total_seconds()


SPARK = {
    "scram": "Spark's principal, User:spark Give it Read",
    "mtls": "Spark's principal, User:CN=spark Give it Read",
    "oauth": "Spark's principal (OAUTHBEARER, client id spark) Give it Read",
}


@pytest.mark.parametrize(("listener", "left"), [("scram", []), *((listener, ["describe"]) for listener in LISTENERS)])
def test_a_right_that_spark_lacks_is_named_before_anything_begins(
    pipeline: Pipeline, listener: str, left: list[str]
) -> None:
    pipeline.as_principals(listener)
    pipeline.kafka.deny("spark", *pipeline.rights("spark"))
    pipeline.kafka.allow("spark", *(("topic", pipeline.topic, operation) for operation in left))
    pipeline.produce(2)
    assert pipeline.run().states("orders.spark") == ["failed"]
    said = pipeline.said()
    assert f"AKO-502 NotAuthorized: Spark may not read {pipeline.topic} at" in said
    assert f"the topic's ACLs do not give Read to {SPARK[listener]}" in said, said
    assert pipeline.committed == {}


AIRFLOW = {
    "scram": "this client's principal, User:airflow,",
    "mtls": "this client's principal, User:CN=airflow,",
    "oauth": "this client's principal",  # librdkafka fetches its token itself
}


@pytest.mark.parametrize(
    ("listener", "topic", "group", "failed"),
    [
        *((listener, "read", None, "orders.resolve") for listener in LISTENERS),
        ("scram", "read", "describe", "orders.commit"),
        ("scram", "describe", "read", "orders.commit"),
    ],
)
def test_a_right_that_airflow_lacks_is_named(
    pipeline: Pipeline, listener: str, topic: str, group: str | None, failed: str
) -> None:
    """Nothing is committed; what Spark has written is the same batch's when the right is given."""
    pipeline.as_principals(listener)
    pipeline.kafka.deny("airflow", *pipeline.rights("airflow"))
    left = [("topic", pipeline.topic, topic), *([("group", pipeline.group, group)] if group else [])]
    pipeline.kafka.allow("airflow", *left)
    pipeline.produce(2)
    assert pipeline.run().states(failed) == ["failed"]
    said = pipeline.said()
    assert "AKO-502 NotAuthorized" in said
    assert AIRFLOW[listener] in said, said
    assert pipeline.committed == {}
    pipeline.kafka.allow("airflow", *pipeline.rights("airflow"))
    assert pipeline.run().state == "success", pipeline.said()
    assert pipeline.is_exact
    assert pipeline.committed == {0: 1, 1: 1}
