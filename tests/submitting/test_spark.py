"""What needs no provider but Spark's: `spark-submit` to a real YARN and to local Spark, and a real Connect server.

Standalone clusters are in tests/spark/test_standalone_cluster.py.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from testbed import airflow_home
from testbed.dag_runs import RunResult, clear_tasks, continue_run, load_dag, run_dag
from testbed.java import Java
from testbed.spark_connect import SparkConnectServer
from testbed.yarn import YarnCluster, yarn_conf
from tests.stores.kinds import BUCKET, s3_server
from tests.submitting.conftest import ROOT, Orders


def run_and_clear(code: str, airflow: Path) -> tuple[RunResult, RunResult]:
    """A run, and the same run with its Spark task cleared."""
    (name,) = re.findall(r'DAG\(\s*"(\w+)"', code)
    file = airflow / "dags" / f"{name}.py"
    file.write_text(code)
    dag = load_dag(file, name)
    first = run_dag(dag)
    assert first.state == "success", first
    clear_tasks(dag, first.run_id, "orders.spark")
    return first, continue_run(dag, first.run_id)


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
    _, cleared = run_and_clear(orders.code("YARN, cluster mode"), airflow)

    assert cleared.state == "success", yarn.printed()[-6000:]
    applications = {path.name for path in yarn.folder.glob("target/**/application_*") if path.is_dir()}
    assert len(applications) == 2
    assert orders.is_exact()
    assert orders.committed == {0: 100}


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


def test_on_spark_connect_the_store_is_reached_through_fsspec(
    orders: Orders, airflow: Path, java: Java, spark_jars: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server().environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__WORK_STORE", f"s3://{BUCKET}/{orders.folder.name}")
    with SparkConnectServer(java, spark_jars) as server:
        _, cleared = run_and_clear(orders.code("Spark Connect", {r"sc://spark-connect:15002": server.remote}), airflow)

    assert cleared.state == "success"
    assert orders.is_exact()
    assert orders.committed == {0: 100}
