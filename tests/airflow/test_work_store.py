"""The work store that Airflow is configured with: its default, and one on S3 that a connection leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.hooks.work_store import configured_work_store
from testbed.airflow_home import s3_connection
from tests.stores.kinds import BUCKET, s3_server

SETTING = "AIRFLOW__KAFKA_OFFSETS__WORK_STORE"


@pytest.mark.parametrize(
    "executor", ["LocalExecutor", "airflow.executors.local_executor.LocalExecutor", "LocalExecutor,team:LocalExecutor"]
)
def test_one_machine_has_a_store_in_its_own_folder(
    airflow: Path, monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    assert configured_work_store(None).uri == f"file://{airflow}/kafka_offsets"


@pytest.mark.parametrize("executor", ["CeleryExecutor", "LocalExecutor,KubernetesExecutor", "my.own.EdgeExecutor"])
def test_several_machines_have_none_until_somebody_names_it(
    airflow: Path, monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    last = executor.rpartition(",")[2]
    with pytest.raises(InvalidRequest, match=rf"{last} may run tasks on several machines.*{SETTING}"):
        configured_work_store(None)
    assert configured_work_store("file:///shared/kafka_offsets").uri == "file:///shared/kafka_offsets"
    monkeypatch.setenv(SETTING, "/shared")
    assert configured_work_store(None).uri == "/shared"


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
