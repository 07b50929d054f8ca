"""Airflow here, Spark there: the hourly batch with its work store and its output on S3, and nothing of it on a disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import airflow_home
from testbed.broker import KafkaBroker
from testbed.checks import committed_offsets, duplicated_or_missing, names_below, rows_by_batch
from testbed.dag_runs import clear_tasks, continue_run, load_dag, run_dag
from testbed.spark import s3a_conf, spark_conf
from testbed.spark_killer import SparkKiller
from tests.stores.kinds import BUCKET, s3_server

HOURLY = Path(__file__).resolve().parents[2] / "dags" / "hourly_batch.py"


@pytest.fixture
def on_s3(airflow: Path, spark_jars: list[Path], s3a_jars: list[Path], tmp_path: Path, group: str) -> Iterator[str]:
    """The folder of this test on the server, which Airflow reaches by the connection `lake` and Spark by s3a."""
    endpoint = s3_server().endpoint
    folder = f"{BUCKET}/{group}"
    spark = airflow_home.spark_defaults(tmp_path / "spark", spark_conf([*spark_jars, *s3a_jars]) | s3a_conf(endpoint))
    environment = {
        **spark,
        **airflow_home.s3_connection("lake", endpoint),
        "AIRFLOW__KAFKA_OFFSETS__WORK_STORE": f"s3://lake@{folder}/store",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield folder


def test_two_splits_the_next_run_a_killed_driver_and_what_is_cleared(
    on_s3: str, broker: KafkaBroker, topic: Callable[..., str], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, output = topic(2), f"s3a://{on_s3}/orders"
    for variable, value in {"TOPICS": name, "GROUP": group, "OUTPUT": output}.items():
        monkeypatch.setenv(f"AIRFLOW_VAR_KAFKA_OFFSETS_{variable}", value)
    produced = 0

    def produce(count: int) -> None:
        nonlocal produced
        first = produced
        broker.produce_many(name, count, partitions=2, value=lambda n: str(first + n).encode())
        produced += count

    def run(**conf: Any) -> Any:
        return run_dag(load_dag(HOURLY, "kafka_hourly_batch"), conf=conf)

    def require_exact() -> None:
        assert duplicated_or_missing(output, produced) == (0, 0)
        assert committed_offsets(broker, group, name) == {0: produced // 2, 1: produced // 2}

    produce(400)
    first = run(splits=2)
    assert (first.state, first.states("orders.spark")) == ("success", ["success", "success"])
    require_exact()

    produce(2_000)
    with SparkKiller(output, on_kill=lambda: committed_offsets(broker, group, name)) as killer:
        second = run(min_partitions=8)
    assert killer.kill is not None
    assert killer.kill.seen == {0: 200, 1: 200}, "nothing is committed when the driver is killed half-way"
    spark = [task for task in second.tasks if task.task_id == "orders.spark"]
    assert (second.state, [task.tries for task in spark]) == ("success", [2])
    require_exact()

    before = rows_by_batch(output)
    dag = load_dag(HOURLY, "kafka_hourly_batch")
    for cleared in (first.run_id, second.run_id):
        clear_tasks(dag, cleared, "orders.wait_for_partitions")
        assert continue_run(dag, cleared).state == "success"
    assert rows_by_batch(output) == before, "each into its own place"
    require_exact()

    on_disk = Path(os.environ["AIRFLOW_HOME"]) / "kafka_offsets"  # other tests' pipelines may be there
    assert not [path for path in on_disk.rglob("*") if group in path.name]
    store = names_below(f"s3://{on_s3}/store")[1]
    assert sum(name.endswith(".begun.json") for name in store) == 2 + 2 + 2 + 1
