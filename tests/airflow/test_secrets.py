"""The Kafka connection's password reaches the brokers, from Airflow and from Spark, and nothing else."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.hooks import spark_kafka
from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.checks import values_of
from testbed.java import Java
from tests.airflow.conftest import Orders
from tests.conftest import unique_name

pytestmark = pytest.mark.long

SECRET = 'hunter2 "pass\\word"'


def test_a_password_is_in_no_xcom_log_rendered_template_or_file_once_a_batch_is_committed(
    airflow: Path, java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    folders, make_folder = [], tempfile.mkdtemp

    def make(*args: Any, **about: Any) -> str:
        made = make_folder(*args, **about)
        if about.get("prefix") == "kafka-offsets-":
            folders.append(made)
        return made

    monkeypatch.setattr(spark_kafka.tempfile, "mkdtemp", make)
    with KafkaBroker(tmp_path / "kafka", sasl_users={"app": SECRET}, java=java) as broker:
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "app", "sasl.password": SECRET}
        servers = {"bootstrap.servers": broker.sasl_bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
        for name, value in airflow_home.connections({**servers, **login}).items():
            monkeypatch.setenv(name, value)
        topic, group = unique_name("orders"), unique_name("group")
        broker.create_topic(topic)
        orders = Orders(broker, topic, group, tmp_path / "orders", dag_id="batch_by_spark")
        orders.produce(5)
        run = orders.run()

    assert run.state == "success"
    assert values_of(orders.output) == [*range(5)]
    assert len(folders) == 1
    assert not Path(folders[0]).exists()
    assert "hunter2" not in said()
    written = [file for root in (airflow, orders.output) for file in root.rglob("*") if file.is_file()]
    assert [str(file) for file in written if b"hunter2" in file.read_bytes()] == []
