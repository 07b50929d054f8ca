"""The installed program as a process, against a real broker, with the log in a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from testbed.broker import KafkaBroker
from testbed.ports import free_ports

PROGRAM = Path(sys.executable).with_name("kafka-offsets")
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def call(broker: KafkaBroker, tmp_path: Path) -> Call:
    """``call("list", status=0)``: the cluster and the checkpoint location are given, unless it says where."""

    def run(*words: str, status: int = 0, where: tuple[str, ...] | None = None, **env: str):
        given = ("--bootstrap-servers", broker.bootstrap_servers) if where is None else where
        place = {"AIRFLOW__KAFKA_OFFSETS__CHECKPOINT_LOCATION": str(tmp_path)}
        ended = subprocess.run(
            [PROGRAM, *words, *given], env={**os.environ, **place, **env}, capture_output=True, text=True
        )
        assert ended.returncode == status, ended
        assert "Traceback" not in ended.stderr
        return ended

    return run


def produce(broker: KafkaBroker, topic: str, partition: int, count: int) -> None:
    producer = Producer(broker.client_config)
    for _ in range(count):
        producer.produce(topic, b"value", partition=partition)
    assert producer.flush(30) == 0


def test_from_the_first_start_to_a_move(broker: KafkaBroker, call: Call, topic: Callable[..., str], group: str) -> None:
    """A person sets the first position, looks what a run would read, and moves the position."""
    name = topic(2, prefix="orders")
    produce(broker, name, 0, 10)
    produce(broker, name, 1, 5)
    first = ("reset", "orders", "--topics", name, "--group-id", group, "--start", "earliest")
    assert "This was a dry run" in call(*first).stderr
    assert json.loads(call("list", "--output", "json", where=()).stdout)["pipelines"] == []
    call(*first, "--execute")
    planned = json.loads(call("plan", "orders", "--output", "json").stdout)
    assert [(row["start"], row["end"], row["why"]) for row in planned["partitions"]] == [
        (0, 10, "position"),
        (0, 5, "position"),
    ]
    moved = call("reset", "orders", "--start", f'offsets:{{"{name}": {{"0": 4}}}}', "--execute", "--output", "json")
    assert [row["after"] for row in json.loads(moved.stdout)["partitions"]] == [4, 0]
    lag = json.loads(call("lag", "orders", "--output", "json").stdout)
    assert [row["unread"] for row in lag["partitions"]] == [6, 5]
    assert 0 <= lag["age_s"] < 600
    of_group = json.loads(call("lag", "--group-id", group, "--topics", name, "--output", "json").stdout)
    assert of_group["partitions"] == [
        {**row, "age_s": other["age_s"]} for row, other in zip(lag["partitions"], of_group["partitions"], strict=True)
    ]
    assert "Pipeline orders, 2 batches." in call("audit", "orders", where=()).stdout
    assert len(json.loads(call("show", "orders", "--output", "json", where=()).stdout)["batches"]) == 2


def test_an_airflow_connection_is_looked_up_and_its_log_stays_out_of_the_answer(
    broker: KafkaBroker, call: Call, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1)
    mine, dead = (
        json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": servers}})
        for servers in (broker.bootstrap_servers, f"127.0.0.1:{free_ports(1)[0]}")
    )
    airflow = {"AIRFLOW_CONN_MINE": mine, "AIRFLOW_CONN_DEAD": dead, "AIRFLOW_HOME": str(tmp_path / "airflow")}
    airflow["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "INFO"
    words = ("plan", "orders", "--topics", name, "--start", "earliest", "--output", "json")
    assert json.loads(call(*words, where=("--kafka-config-id", "mine"), **airflow).stdout)["offsets"] == 0
    ended = call(*words, where=("--kafka-config-id", "dead"), status=3, **airflow)
    assert "No answer yet" in ended.stderr  # Airflow's log shows it
    assert ended.stdout == ""


def test_a_cluster_that_does_not_answer_has_status_3_and_no_secret_is_named(call: Call) -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    secret = ("--config", "security.protocol=SASL_PLAINTEXT", "--config", "sasl.mechanism=PLAIN",
              "--config", "sasl.username=me", "--config", "sasl.password=s3cr3t-w0rd")  # fmt: skip
    words = ("plan", "orders", "--topics", "orders", "--start", "earliest")
    ended = call(*words, where=("--bootstrap-servers", nobody, *secret), status=3)
    assert nobody in ended.stderr
    assert "s3cr3t" not in ended.stdout + ended.stderr


def test_a_checkpoint_location_that_is_not_there_has_status_3(call: Call, tmp_path: Path) -> None:
    ended = call("list", "--checkpoint-location", f"{tmp_path}/none", where=(), status=3)
    assert f"mkdir -p {tmp_path}/none" in ended.stderr
