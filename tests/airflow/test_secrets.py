"""What a connection keeps secret gets into no log, no XCom, no database, no plan and no argument list."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets import KafkaOffsetsHook, ResolveStartupOffsetsOperator
from airflow_kafka_offsets.errors import InvalidRequest
from testbed.broker import KafkaBroker
from testbed.dag_runs import RunResult
from tests.airflow.conftest import Orders

SECRETS = {
    "sasl.password": "hunter2-password",
    "ssl.key.pem": "hunter2-key",
    "sasl.oauthbearer.config": "hunter2-token",
}


@pytest.fixture
def secret_connection(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_up(**extra: Any) -> None:
        connection = {"conn_type": "kafka", "extra": json.dumps({**broker.client_config, **SECRETS, **extra})}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))

    return set_up


def test_whole_runs_leave_no_secret_anywhere(
    airflow: Path,
    orders: Orders,
    secret_connection: Callable[..., None],
    set_run_state: Callable[[RunResult, str], None],
    said: Callable[[], str],
) -> None:
    """Not in XComs, rendered fields, logs, a trigger's arguments, the work store or the output; one that succeeds, one
    that fails, one that waits. What is no secret is found in each of these places: the search does look there.
    """
    secret_connection()
    orders.produce(3)
    rejected = orders.run(reject=True)
    set_run_state(rejected, "running")
    assert orders.run(overlap_timeout="5").states("orders.resolve") == ["failed"]
    set_run_state(rejected, "failed")
    assert orders.run().state == "success"
    refused = orders.run(startup_mode="no such mode")
    assert refused.states("orders.resolve") == ["failed"]

    logs = said()
    assert (
        orders.topic in logs,
        "no such mode" in logs,
        "Waiting: AKO-305 OverlappingRun: batch 1 is being done" in logs,
    ) == (True,) * 3
    assert "hunter2" not in logs
    places = {"airflow.db": airflow, "1.json": airflow / "kafka_offsets", "0.json": orders.output}
    for name, folder in places.items():
        files = [file for file in folder.rglob("*") if file.is_file()]
        assert any(file.name.startswith(name) and orders_in(file, orders) for file in files), f"{name} is looked at"
        assert [file for file in files if b"hunter2" in file.read_bytes()] == []


def orders_in(file: Path, orders: Orders) -> bool:
    return file.name == "0.json" or orders.topic.encode() in file.read_bytes()


def test_a_setting_that_librdkafka_refuses_is_named_without_its_value(
    airflow: Path, secret_connection: Callable[..., None]
) -> None:
    secret_connection(**{"sasl.pasword": "hunter2-typo"})
    with pytest.raises(InvalidRequest) as error, KafkaOffsetsHook().open_cluster() as cluster:
        cluster.describe_group("g")
    assert "sasl.pasword" in str(error.value)
    assert "hunter2" not in repr(error.value)


def test_a_connection_that_does_not_exist_is_named(airflow: Path) -> None:
    with pytest.raises(
        InvalidRequest, match="kafka_config_id is 'no-such-connection', and there is no such connection"
    ):
        _ = KafkaOffsetsHook("no-such-connection").client_config


def test_a_connection_without_brokers_is_named(airflow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EMPTY", json.dumps({"conn_type": "kafka", "extra": "{}"}))
    with pytest.raises(InvalidRequest, match=r"'empty'.*bootstrap\.servers"):
        _ = KafkaOffsetsHook("empty").client_config


def test_a_missing_connection_fails_the_task_for_good(airflow: Path) -> None:
    class Run:
        run_type = "manual"
        conf = None

    class Instance:
        dag_id, run_id, task_id, map_index = "d", "r", "t", -1

    operator = ResolveStartupOffsetsOperator(task_id="t", topics=["a"], kafka_config_id="no-such-connection")
    with pytest.raises(AirflowFailException, match="no-such-connection"):
        operator.execute({"ti": Instance(), "dag_run": Run()})
