"""What needs no provider but Spark's: `spark-submit` to a real YARN and to local Spark, and a real Connect server.

Standalone clusters are in tests/spark/test_standalone_cluster.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from testbed import airflow_home
from testbed.dag_runs import (
    RunResult,
    clear_tasks,
    continue_run,
    load_dag,
    retry_lost_tasks,
    run_and_lose_the_worker,
    run_dag,
)
from testbed.java import Java
from testbed.spark_connect import SparkConnectServer
from testbed.yarn import YarnCluster, yarn_conf
from tests.stores.kinds import BUCKET, s3_server
from tests.submitting.conftest import ROOT, Orders


def dag_of(code: str, airflow: Path) -> tuple[Path, Any]:
    """An example's file, and its DAG."""
    (name,) = re.findall(r'DAG\(\s*"(\w+)"', code)
    file = airflow / "dags" / f"{name}.py"
    file.write_text(code)
    return file, load_dag(file, name)


def run_and_clear(code: str, airflow: Path) -> tuple[RunResult, RunResult]:
    """A run, and the same run with its Spark task cleared."""
    _, dag = dag_of(code, airflow)
    first = run_dag(dag)
    assert first.state == "success", first
    clear_tasks(dag, first.run_id, "orders.spark")
    return first, continue_run(dag, first.run_id)


def run_with_a_lost_worker(code: str, airflow: Path, met: Callable[[], bool], log: Path) -> RunResult:
    """A run whose worker is killed as soon as `met()` is true, and whose Spark task is then retried."""
    file, dag = dag_of(code, airflow)
    run_id = run_and_lose_the_worker(file, dag, met, log)
    assert retry_lost_tasks(dag, run_id) == ["orders.spark"]
    return continue_run(dag, run_id)


@pytest.fixture(scope="module")
def yarn(
    airflow: Path, java: Java, spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[YarnCluster]:
    folder = tmp_path_factory.mktemp("yarn")
    with YarnCluster(java) as running, pytest.MonkeyPatch.context() as patch:
        variables = {
            **running.environment,
            **airflow_home.spark_defaults(folder / "conf", yarn_conf(spark_jars, folder / "staging")),
            "AIRFLOW_CONN_SPARK_YARN": json.dumps(running.connection),
            "PYTHONPATH": str(ROOT),
        }
        variables["SPARK_CONF_DIR"] = str(folder / "conf")
        with (folder / "conf" / "spark-defaults.conf").open("a") as settings:
            settings.write(f"spark.yarn.appMasterEnv.PYTHONPATH {ROOT}\nspark.executorEnv.PYTHONPATH {ROOT}\n")
            settings.write(f"spark.pyspark.python {sys.executable}\n")
        for name, value in variables.items():
            patch.setenv(name, value)
        yield running


def test_client_mode(orders: Orders, airflow: Path) -> None:
    _, cleared = run_and_clear(orders.code("spark-submit"), airflow)

    assert cleared.state == "success"
    assert orders.is_exact()
    assert orders.committed == {0: 100}


def test_on_yarn_in_cluster_mode_a_clear_is_another_application(
    orders: Orders, airflow: Path, yarn: YarnCluster
) -> None:
    before = applications(yarn)

    _, cleared = run_and_clear(orders.code("YARN, cluster mode"), airflow)

    assert cleared.state == "success", yarn.printed()[-6000:]
    assert len(applications(yarn) - before) == 2
    assert orders.is_exact()
    assert orders.committed == {0: 100}


def test_on_yarn_after_a_lost_worker_two_applications_run_and_each_record_is_there_once(
    orders: Orders, airflow: Path, yarn: YarnCluster, tmp_path: Path
) -> None:
    """The first application goes on: only `spark-submit`, which waited for it, was killed with its worker."""
    before = applications(yarn)

    resumed = run_with_a_lost_worker(
        orders.code("YARN, cluster mode"), airflow, lambda: applications(yarn) > before, tmp_path / "worker.log"
    )

    assert resumed.state == "success", yarn.printed()[-6000:]
    assert len(applications(yarn) - before) == 2
    assert orders.is_exact()
    assert orders.committed == {0: 100}


def applications(yarn: YarnCluster) -> set[str]:
    """All that were ever submitted to it and have got a container."""
    return {path.name for path in yarn.folder.glob("target/**/application_*") if path.is_dir()}


PRINTS = """
import json, sys
from pyspark.sql import SparkSession
SparkSession.builder.getOrCreate().stop()  # YARN's application master waits for one
print("given", json.dumps(sys.argv[1:]))
"""


def test_yarn_changes_what_is_refused_and_nothing_else(
    yarn: YarnCluster, spark_environment: Mapping[str, str], tmp_path: Path
) -> None:
    """Why `batch_arguments` refuses braces: Hadoop's ContainerLaunch.expandEnvironment."""
    job = tmp_path / "prints.py"
    job.write_text(PRINTS)
    kept = ["a b", "é", "{", "} }", "--x=y", "a,b", "$(HOME)", "$$", ""]
    changed = ['{"a":{"b":1}}', "{{x"]
    command = ["spark-submit", "--master", "yarn", "--deploy-mode", "cluster", str(job), *kept, *changed]
    subprocess.run(command, check=True, capture_output=True, timeout=300)  # it has the variables of `yarn`

    (given,) = re.findall(r"^given (.*)$", yarn.printed(), re.MULTILINE)
    came = json.loads(given)
    assert came[: len(kept)] == kept
    assert came[len(kept) :] == ['{"a":{"b":1', ""]


@pytest.fixture
def connect(
    orders: Orders, airflow: Path, java: Java, spark_jars: list[Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The page's example, with a Connect server of the test's own and a work store on S3."""
    for name, value in s3_server().environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__WORK_STORE", f"s3://{BUCKET}/{orders.folder.name}")
    # The client sets SPARK_CONNECT_MODE_ENABLED for its process, in which the next tests run.
    with SparkConnectServer(java, spark_jars) as server, mock.patch.dict(os.environ):
        yield orders.code("Spark Connect", {r"sc://spark-connect:15002": server.remote})


def test_on_spark_connect_the_store_is_reached_through_fsspec(orders: Orders, airflow: Path, connect: str) -> None:
    _, cleared = run_and_clear(connect, airflow)

    assert cleared.state == "success"
    assert orders.is_exact()
    assert orders.committed == {0: 100}


def test_on_spark_connect_after_a_lost_worker_the_retry_writes_again(
    orders: Orders, airflow: Path, connect: str, tmp_path: Path
) -> None:
    """It is killed once the server has begun to write, and what it had asked for may be written to its end."""
    resumed = run_with_a_lost_worker(connect, airflow, orders.output.exists, tmp_path / "worker.log")

    assert resumed.state == "success"
    assert [task.tries for task in resumed.tasks if task.task_id == "orders.spark"] == [2]
    assert orders.is_exact()
    assert orders.committed == {0: 100}
