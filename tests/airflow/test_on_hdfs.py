"""The hourly batch with its work store on HDFS: Airflow asks WebHDFS, Spark's driver Hadoop's own file system."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets, duplicated_or_missing, rows_by_batch
from testbed.dag_runs import clear_tasks, continue_run, load_dag, run_dag
from testbed.spark import PATIENT
from tests.stores.kinds import hdfs_server

HOURLY = Path(__file__).resolve().parents[2] / "dags" / "hourly_batch.py"


def test_two_splits_the_next_run_and_one_that_is_cleared(
    airflow: Path,
    broker: KafkaBroker,
    topic: Callable[..., str],
    group: str,
    spark_settings: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, name, output = hdfs_server(), topic(2), tmp_path / "orders"
    folder = f"{server.folder}/{group}"
    host, port = server.addresses[0].split(":")
    connection = {"conn_type": "webhdfs", "host": host, "port": int(port), "login": "airflow"}
    environment = {
        **airflow_home.spark_defaults(tmp_path / "spark", {**spark_settings, **PATIENT}),
        "AIRFLOW_CONN_LAKE": json.dumps(connection),
        "AIRFLOW__KAFKA_OFFSETS__WORK_STORE": server.uri.replace("hdfs://", "hdfs://lake@") + folder,
        "HADOOP_USER_NAME": "spark",
        "AIRFLOW_VAR_KAFKA_OFFSETS_TOPICS": name,
        "AIRFLOW_VAR_KAFKA_OFFSETS_GROUP": group,
        "AIRFLOW_VAR_KAFKA_OFFSETS_OUTPUT": str(output),
    }
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)

    broker.produce_many(name, 400, partitions=2)
    dag = load_dag(HOURLY, "kafka_hourly_batch")
    first = run_dag(dag, conf={"splits": 2})
    assert (first.state, first.states("orders.spark")) == ("success", ["success", "success"])
    broker.produce_many(name, 200, partitions=2, value=lambda n: str(400 + n).encode())
    assert run_dag(dag).state == "success"

    before = rows_by_batch(output)
    assert sorted(before.values()) == [200, 400]
    clear_tasks(dag, first.run_id, "orders.wait_for_partitions")
    assert continue_run(dag, first.run_id).state == "success"
    assert rows_by_batch(output) == before, "into its own place"
    assert duplicated_or_missing(output, 600) == (0, 0)
    assert committed_offsets(broker, group, name) == {0: 300, 1: 300}

    owners = server.owners(folder)
    assert {owner for path, owner in owners.items() if path.endswith((".begun.json", ".report.json"))} == {"spark"}
    assert {owner for path, owner in owners.items() if path.endswith("/1.json")} == {"airflow"}
    assert sum(path.endswith(".report.json") for path in owners) == 2 + 2 + 2
    assert not [path for path in owners if path.endswith(".draft")]
