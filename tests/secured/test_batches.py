"""Resolve, Spark and commit on a secured Kafka, by the page's connections and DAG; and what is said where it fails."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest

from testbed.secured_broker import LISTENERS
from tests.secured.conftest import PASSWORDS, Pipeline
from tests.secured.page import client_properties

SOON_S = 15  # of which Spark's own start is no part: it takes 5 s on an idle machine, and 20 on a busy one


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


UNKNOWN_CA = {"ssl.ca.location": "probe"}
WRONG = [
    ("scram", {"sasl.password": "not it"}, "invalid credentials with SASL mechanism SCRAM-SHA-512"),
    ("scram", UNKNOWN_CA, "SSL handshake failed: unable to find valid certification path"),
    ("oauth", {"sasl.oauthbearer.client.secret": "not it"}, "The response code 401"),
]


@pytest.mark.parametrize(("listener", "wrong", "reason"), WRONG)
def test_why_spark_is_not_let_in_is_said_soon(
    pipeline: Pipeline, listener: str, wrong: dict[str, str], reason: str
) -> None:
    """In the driver's log, which in client mode is part of the task's, and in the task's own error."""
    pipeline.as_principals(listener, spark=wrong)
    pipeline.produce(2)
    result = pipeline.run()
    said = pipeline.said()
    assert result.states("orders.spark") == ["failed"], said
    driver, _, error = said.partition("Cannot execute: spark-submit")
    for log in (driver, error):
        assert "AKO-501 ClusterUnavailable: Spark cannot ask the Kafka cluster" in log
        assert reason in log
    assert seconds_between("AdminClientConfig values", "Invoking stop()", driver) < SOON_S
    assert pipeline.committed == {}


def seconds_between(first: str, second: str, log: str) -> float:
    """By the times that Spark writes before what it logs."""
    begin, end = (
        re.findall(rf"(\d\d/\d\d/\d\d \d\d:\d\d:\d\d) INFO \w+: {re.escape(words)}", log)[-1]
        for words in (first, second)
    )
    begun, ended = (datetime.strptime(time, "%y/%m/%d %H:%M:%S") for time in (begin, end))
    return (ended - begun).total_seconds()


@pytest.mark.parametrize("left", [[], ["describe"]])
def test_a_right_that_spark_lacks_is_named_before_anything_begins(pipeline: Pipeline, left: list[str]) -> None:
    pipeline.as_principals("scram")
    pipeline.kafka.deny("spark", *pipeline.rights("spark"))
    pipeline.kafka.allow("spark", *(("topic", pipeline.topic, operation) for operation in left))
    pipeline.produce(2)
    assert pipeline.run().states("orders.spark") == ["failed"]
    assert f"AKO-502 NotAuthorized: Spark may not read {pipeline.topic} at" in pipeline.said()
    assert pipeline.committed == {}


@pytest.mark.parametrize(
    ("topic", "group", "failed"),
    [("read", None, "orders.resolve"), ("read", "describe", "orders.commit"), ("describe", "read", "orders.commit")],
)
def test_a_right_that_airflow_lacks_is_named(pipeline: Pipeline, topic: str, group: str | None, failed: str) -> None:
    """Nothing is committed; what Spark has written is the same batch's when the right is given."""
    pipeline.as_principals("scram")
    pipeline.kafka.deny("airflow", *pipeline.rights("airflow"))
    left = [("topic", pipeline.topic, topic), *([("group", pipeline.group, group)] if group else [])]
    pipeline.kafka.allow("airflow", *left)
    pipeline.produce(2)
    assert pipeline.run().states(failed) == ["failed"]
    assert "AKO-502 NotAuthorized" in pipeline.said()
    assert pipeline.committed == {}
    pipeline.kafka.allow("airflow", *pipeline.rights("airflow"))
    assert pipeline.run().state == "success", pipeline.said()
    assert pipeline.is_exact
    assert pipeline.committed == {0: 1, 1: 1}
