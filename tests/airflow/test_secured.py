"""A batch on a secured Kafka, of each kind: what the connection says reaches Airflow's client and Spark's alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from testbed import airflow_home
from testbed.airflow_home import spark_defaults
from testbed.cache import Say
from testbed.checks import values_of
from testbed.java import Java
from testbed.secured_broker import LISTENERS, SecuredBroker
from testbed.spark import PATIENT
from tests.airflow.conftest import Orders
from tests.conftest import unique_name

pytestmark = pytest.mark.slow
PASSWORDS = {"etl": "hunter2 'spark'=;#\\u0041ü\""}  # with what quoting can get wrong


@pytest.fixture(scope="module")
def kafka(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured"), PASSWORDS, java, say) as running:
        yield running


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_batch_is_read_and_committed_with_the_least_rights_and_no_secret_is_said(
    airflow: Path,
    kafka: SecuredBroker,
    listener: str,
    spark_settings: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: Any,
) -> None:
    topic, group = unique_name("orders"), unique_name("group")
    kafka.plain.create_topic(topic)
    kafka.allow("etl", ("topic", topic, "read"), ("group", group, "read"))
    environment = {
        **airflow_home.connections(kafka.connection(listener, "etl")),
        **spark_defaults(tmp_path / "spark", {**spark_settings, **PATIENT}),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    orders = Orders(kafka.plain, topic, group, tmp_path / "orders", dag_id="batch_by_spark")
    orders.produce(5)
    run = orders.run()

    text = said()
    assert run.state == "success", text
    assert values_of(orders.output) == [*range(5)]
    assert orders.committed == {0: 5}
    assert "hunter2" not in text
