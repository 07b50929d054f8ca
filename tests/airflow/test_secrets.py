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


def test_a_whole_run_leaves_no_secret_anywhere(
    airflow: Path,
    run: Callable[..., RunResult],
    broker: KafkaBroker,
    topic: Any,
    group: str,
    secret_connection: Callable[..., None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    secret_connection()
    name = topic(1)
    broker.produce(name, [(0, None, b"x", None)])

    result = run("resolve_and_commit", {"topic": name, "group": group})

    assert result.state == "success"
    assert "hunter2" not in "".join(capfd.readouterr())
    holding = [file for file in airflow.rglob("*") if file.is_file() and b"hunter2" in file.read_bytes()]
    assert holding == []


def test_a_setting_that_librdkafka_refuses_is_named_without_its_value(
    airflow: Path, secret_connection: Callable[..., None]
) -> None:
    secret_connection(**{"sasl.pasword": "hunter2-typo"})
    with pytest.raises(InvalidRequest) as error, KafkaOffsetsHook().open_cluster() as cluster:
        cluster.describe_group("g")
    assert "sasl.pasword" in str(error.value)
    assert "hunter2" not in repr(error.value)


def test_a_connection_that_does_not_exist_is_named(airflow: Path) -> None:
    with pytest.raises(InvalidRequest, match="There is no connection 'no-such-connection'"):
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
