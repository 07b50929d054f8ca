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

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.engine.commit import commit
from airflow_kafka_offsets.engine.surroundings import NoAirflow
from airflow_kafka_offsets.engine.turn import resolve
from airflow_kafka_offsets.engine.work import ResolvedBatch
from airflow_kafka_offsets.kafka_values import RunKey
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.request import RunContext, parse_request
from airflow_kafka_offsets.store.open import open_store
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


def test_what_a_run_left_is_shown_and_an_act_is_tried(
    broker: KafkaBroker, call: Call, topic: Callable[..., str], group: str, tmp_path: Path
) -> None:
    name = topic(2, prefix="orders")
    produce(broker, name, 0, 10)
    produce(broker, name, 1, 5)
    first = ("plan", "orders", "--topics", name, "--group-id", group, "--start", "earliest", "--output", "json")
    assert json.loads(call(*first).stdout)["offsets"] == 15
    assert json.loads(call("list", "--output", "json", where=()).stdout)["pipelines"] == []

    parameters = {"topics": [name], "group_id": group, "start": "earliest", "pipeline_id": "orders"}
    request = parse_request({**parameters, "require_report": False}, RunContext(now_ms()), {})
    log = PipelineLog(open_store(str(tmp_path)), "orders")
    with KafkaCluster(broker.client_config) as kafka:
        work = resolve(request, RunKey("dag", "one", "orders"), log, kafka, NoAirflow())
        assert isinstance(work, ResolvedBatch)
        commit(work.given(), log, kafka)
    produce(broker, name, 0, 6)
    planned = json.loads(call("plan", "orders", "--output", "json").stdout)
    assert [(row["start"], row["end"]) for row in planned["partitions"]] == [(10, 16), (5, 5)]
    act = {"pipeline": "orders", "after": 1, "reason": "broken", "reset": {"start": {f"{name}-0": 14}}}
    tried = call("plan", "orders", "--conf", json.dumps({"kafka_offsets": act})).stdout
    assert f"{name}-0: 10 → 14, skipped 4" in tried
    lag = json.loads(call("lag", "orders", "--output", "json").stdout)
    assert [row["unread"] for row in lag["partitions"]] == [6, 0]
    assert 0 <= lag["age_s"] < 600
    of_group = json.loads(call("lag", "--group-id", group, "--topics", name, "--output", "json").stdout)
    assert of_group["partitions"] == [
        {**row, "age_s": other["age_s"]} for row, other in zip(lag["partitions"], of_group["partitions"], strict=True)
    ]
    assert "Pipeline orders, 1 batch." in call("audit", "orders", where=()).stdout
    assert len(json.loads(call("show", "orders", "--output", "json", where=()).stdout)["identities"]) == 1


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
