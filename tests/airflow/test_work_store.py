"""The work store that Airflow is configured with: its default, and one on S3 that a connection leads to."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.hooks.work_store import configured_work_store
from airflow_kafka_offsets.operators.resolve import ResolveStartupOffsetsOperator
from testbed.airflow_home import s3_connection
from testbed.dag_runs import RunResult
from tests.airflow.test_value_sizes import Task
from tests.airflow.test_value_sizes import cluster as cluster
from tests.cluster.memory import InMemoryCluster
from tests.stores.kinds import BUCKET, s3_server

SETTING = "AIRFLOW__KAFKA_OFFSETS__WORK_STORE"


@pytest.mark.parametrize(
    "executor",
    [
        "LocalExecutor",
        "airflow.executors.local_executor.LocalExecutor",
        "LocalExecutor,team:LocalExecutor",
        "LocalExecutor;team=LocalExecutor",
    ],
)
def test_one_machine_has_a_store_in_its_own_folder(
    airflow: Path, monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    assert configured_work_store(None).uri == f"file://{airflow}/kafka_offsets"


@pytest.mark.parametrize(
    "executor",
    [
        "CeleryExecutor",
        "LocalExecutor,KubernetesExecutor",
        "my.own.EdgeExecutor",
        "LocalExecutor,LocalKubernetesExecutor",
        "LocalExecutor,CeleryKubernetesExecutor",
        "LocalExecutor;team=CeleryExecutor",
        "LocalExecutor,mine:airflow.providers.celery.executors.celery_executor.CeleryExecutor",
    ],
)
def test_several_machines_have_none_until_somebody_names_one_that_they_share(
    airflow: Path, monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    last = re.split("[,;]", executor)[-1]
    with pytest.raises(InvalidRequest, match=rf"{last} may run tasks on several machines.*{SETTING}"):
        configured_work_store(None)
    assert configured_work_store("file:///shared/kafka_offsets").uri == "file:///shared/kafka_offsets"
    with pytest.raises(InvalidRequest, match=r"work_store ~/shared is a folder.*file:///folder"):
        configured_work_store("~/shared")
    monkeypatch.setenv(SETTING, "/shared")
    with pytest.raises(InvalidRequest, match="work_store /shared is a folder"):
        configured_work_store(None)


@pytest.mark.parametrize("mark", ["AIRFLOW_IS_K8S_EXECUTOR_POD", "AIRFLOW_IS_EXECUTOR_CONTAINER"])
def test_a_container_of_an_executor_is_another_machine_whatever_it_is_told(
    airflow: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    """Pod templates say LocalExecutor."""
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
    monkeypatch.setenv(mark, "True")
    with pytest.raises(InvalidRequest, match=mark):
        configured_work_store(None)


@pytest.mark.parametrize("kind", ["celery", "edge"])
def test_a_worker_is_another_machine_whatever_it_is_told(
    airflow: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Without ``[core] executor`` it is told LocalExecutor. On a real one: tests/machines."""
    monkeypatch.setattr(sys, "argv", ["/bin/airflow", kind, "worker", "--concurrency", "2"])
    with pytest.raises(InvalidRequest, match=f"`airflow {kind} worker` may run tasks on several machines"):
        configured_work_store(None)


@pytest.fixture
def lake(airflow: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A store that only the connection `lake` leads to: nothing in the environment does."""
    endpoint = s3_server().endpoint
    for name in s3_server().environment:
        monkeypatch.delenv(name)
    for name, value in s3_connection("lake", endpoint).items():
        monkeypatch.setenv(name, value)
    return f"s3://lake@{BUCKET}/teams/a@b/{tmp_path.name}"


def test_a_connection_in_the_uri_leads_to_s3(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, lake)
    store = configured_work_store(None)
    assert store.create("a/1.json", b"x")
    assert configured_work_store(lake).get("a/1.json") == b"x"
    assert configured_work_store(lake).list("a") == ["1.json"]
    assert store.driver_uri == lake.replace("lake@", "", 1), "a driver has no connections"


def test_a_connection_that_does_not_exist_is_named(lake: str) -> None:
    with pytest.raises(InvalidRequest, match="names the connection 'pond', and there is none"):
        configured_work_store(lake.replace("lake@", "pond@", 1)).get("a")


def test_a_store_whose_package_is_missing_says_which_extra_brings_it(airflow: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"pip install 'airflow-kafka-offsets\[azure\]'"):
        configured_work_store("abfs://container/x")


def test_a_run_of_an_airflow_without_a_name_says_so_where_others_may_reach_the_store(
    run: Callable[..., RunResult],
    topic: Any,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    said: Callable[[], str],
    tmp_path: Path,
) -> None:
    store = f"file://{tmp_path}/shared"
    monkeypatch.setenv(SETTING, store)
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.delenv("AIRFLOW__KAFKA_OFFSETS__INSTANCE")
    result = run("resolve_and_commit", {"topic": topic(1), "group": group})
    assert result.states("resolve") == ["success"]
    assert f"Other Airflows may reach the work store {store}, and this one has no name" in said()


def test_where_a_copy_of_this_airflow_may_have_planned_another_output_is_not_gone_on_with(
    cluster: InMemoryCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"topic_pattern": "orders-.*", "group_id": "g", "startup_mode": "earliest-offset"}
    about |= {"pipeline_id": "orders", "work_store": f"file://{tmp_path}"}

    def resolve(run_id: str, output: str) -> None:
        ResolveStartupOffsetsOperator(task_id="resolve", output_name=output, **about).execute(
            Task("resolve", run_id=run_id).context
        )

    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.delenv("AIRFLOW__KAFKA_OFFSETS__INSTANCE")
    resolve("of a copy", "/development/orders")
    with pytest.raises(AirflowFailException, match="so that a copy of this Airflow is told from it"):
        resolve("of this one", "/lake/orders")
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
    resolve("of this one", "/lake/orders")
