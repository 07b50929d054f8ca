"""The checkpoint location as Airflow is configured with it, opened with the credentials of Airflow's connections."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_kafka_offsets.errors import InvalidRequest, StoreUnavailable
from airflow_kafka_offsets.hooks.checkpoint import configured_store, options_of_azure
from testbed import azure_server
from testbed.certificates import Authority
from testbed.http_proxy import HttpProxy
from testbed.s3_server import KEY, SECRET
from tests.store.kinds import BUCKET, S3, server_of

SETTING = "AIRFLOW__KAFKA_OFFSETS__CHECKPOINT_LOCATION"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
    for name in [SETTING, *(name for name in os.environ if name.startswith(("AWS_", "AZURE_")))]:
        monkeypatch.delenv(name, raising=False)


def connect(monkeypatch: pytest.MonkeyPatch, name: str, **fields: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields))


# ── which place ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_parameter_comes_first_then_the_setting_then_a_folder_in_airflow_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert configured_store().create("a/1.json", b"x")
    assert (tmp_path / "kafka_offsets/a/1.json").read_bytes() == b"x"
    monkeypatch.setenv(SETTING, "/data/setting")
    assert configured_store().uri == "/data/setting"
    assert configured_store("/data/parameter").uri == "/data/parameter"


@pytest.mark.parametrize(
    ("environment", "arguments", "what"),
    [
        ({"AIRFLOW__CORE__EXECUTOR": "CeleryExecutor"}, (), "CeleryExecutor"),
        ({"AIRFLOW__CORE__EXECUTOR": "LocalExecutor,k8s:path.KubernetesExecutor"}, (), "k8s:path.KubernetesExecutor"),
        ({}, ("airflow", "celery", "worker"), "`airflow celery worker`"),
        ({"AIRFLOW_IS_K8S_EXECUTOR_POD": "1"}, (), "AIRFLOW_IS_K8S_EXECUTOR_POD"),
    ],
)
@pytest.mark.parametrize("chosen", ["", "/data/offsets"])
def test_a_folder_of_one_machine_is_refused_where_tasks_may_run_on_several(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], arguments: tuple[str, ...], what: str, chosen: str
) -> None:
    for name, value in {**environment, SETTING: chosen}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", [*arguments])
    with pytest.raises(InvalidRequest) as refused:
        configured_store()
    assert f"{what} may run tasks on several machines" in str(refused.value)
    assert configured_store("file:///data/shared").uri == "file:///data/shared", "a disk that all of them share"


# ── with which credentials ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_connection_that_does_not_exist_is_named() -> None:
    with pytest.raises(InvalidRequest, match="s3://nobody@lake/x names a connection that does not exist: 'nobody'"):
        configured_store("s3://nobody@lake/x")


def test_a_connection_without_credentials_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    connect(monkeypatch, "empty", conn_type="aws")
    with pytest.raises(
        StoreUnavailable, match=r"Cannot open .* s3://empty@lake/x(?s:.*)Check Airflow connection empty"
    ):
        configured_store("s3://empty@lake/x")


def test_a_missing_provider_is_one_line_to_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "gcp", conn_type="google_cloud_platform")
    with pytest.raises(StoreUnavailable, match=r"pip install 'airflow-kafka-offsets\[gcs\]'") as refused:
        configured_store("gs://gcp@lake/x")
    assert not refused.value.retriable


@pytest.mark.starts_processes
def test_an_aws_connection_gives_keys_region_and_endpoint_and_a_driver_is_told_none_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = []

    class Listening(HttpProxy):
        def send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
            seen.append({name.lower(): value for name, value in headers.items()}["authorization"])
            return super().send(method, path, headers, body)

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    with Listening(server_of(S3.server).endpoint) as proxy:
        extra = {"endpoint_url": proxy.url, "region_name": "eu-west-1"}
        connect(monkeypatch, "lake", conn_type="aws", login=KEY, password=SECRET, extra=extra)
        monkeypatch.setenv(SETTING, f"s3://lake@{BUCKET}/{tmp_path.name}")
        store = configured_store()
        assert store.create("a/1.json", b"x")
        assert store.driver_uri == f"s3://{BUCKET}/{tmp_path.name}"
    assert all(f"Credential={KEY}/" in header and "/eu-west-1/s3/" in header for header in seen)
    assert SECRET not in f"{vars(store)}"


@pytest.mark.starts_processes
@pytest.mark.parametrize("verify", ["ca", False, None])
def test_an_aws_connection_says_which_authority_to_trust(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verify: str | bool | None
) -> None:
    authority = Authority(tmp_path)
    with HttpProxy(server_of(S3.server).endpoint, certificate=authority.sign("s3").both) as proxy:
        extra = {"endpoint_url": proxy.url, "verify": str(authority.ca) if verify == "ca" else verify}
        connect(monkeypatch, "lake", conn_type="aws", login=KEY, password=SECRET, extra=extra)
        monkeypatch.setattr("airflow_kafka_offsets.store.open.RETRY_CONFIG", {"max_retries": 0})
        store = configured_store(f"s3://lake@{BUCKET}/{tmp_path.name}")
        if verify is None:
            with pytest.raises(StoreUnavailable):
                store.create("a/1.json", b"x")
        else:
            assert store.create("a/1.json", b"x")


CONNECTIONS = {
    "a connection string": (
        {"extra": {"connection_string": azure_server.connection_string("http://127.0.0.1:1", "a2V5==")}},
        {
            "account_name": azure_server.ACCOUNT,
            "account_key": "a2V5==",
            "endpoint": f"http://127.0.0.1:1/{azure_server.ACCOUNT}",
        },
    ),
    "one without an endpoint": (
        {"extra": {"connection_string": "AccountName=acc;AccountKey=a2V5;EndpointSuffix=core.chinacloudapi.cn"}},
        {"account_name": "acc", "account_key": "a2V5", "endpoint": "https://acc.blob.core.chinacloudapi.cn"},
    ),
    "one with a SAS": (
        {"extra": {"connection_string": "BlobEndpoint=https://acc.blob.example/;SharedAccessSignature=sv=1&sig=x%3D"}},
        {"account_name": "acc", "sas_key": "sv=1&sig=x%3D", "endpoint": "https://acc.blob.example"},
    ),
    "login and key": ({"login": "acc", "password": "a2V5"}, {"account_name": "acc", "account_key": "a2V5"}),
    "a shared key": (
        {"login": "acc", "extra": {"shared_access_key": "a2V5"}},
        {"account_name": "acc", "account_key": "a2V5"},
    ),
    "a SAS": (
        {"host": "https://acc.blob.core.windows.net/", "extra": {"sas_token": "?sv=1&sig=x"}},
        {"account_name": "acc", "sas_key": "sv=1&sig=x"},
    ),
    "a service principal": (
        {"host": "acc", "login": "app", "password": "secret", "extra": {"tenant_id": "t"}},
        {"account_name": "acc", "client_id": "app", "client_secret": "secret", "tenant_id": "t"},
    ),
    "a managed identity": (
        {"host": "acc", "extra": {"managed_identity_client_id": "id"}},
        {"account_name": "acc", "client_id": "id"},
    ),
    "the machine's identity": ({"host": "acc"}, {"account_name": "acc"}),
}


@pytest.mark.parametrize(("fields", "options"), CONNECTIONS.values(), ids=CONNECTIONS)
def test_an_azure_connection_is_read_as_airflows_own_hook_reads_it(
    fields: dict[str, Any], options: dict[str, str]
) -> None:
    written = {**fields, "extra": json.dumps(fields.get("extra", {}))}
    found = options_of_azure(Connection(conn_id="az", conn_type="wasb", **written))
    assert {name: value for name, value in found.items() if value is not None} == options


@pytest.mark.clouds
def test_an_azure_connection_leads_to_a_container_and_a_driver_is_told_the_account(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = azure_server.connection_string(server_of(azure_server.AzureServer).endpoint)
    connect(monkeypatch, "az", conn_type="wasb", extra={"connection_string": text})
    store = configured_store(f"abfs://az@{BUCKET}/{tmp_path.name}")
    assert store.create("a/1.json", b"x")
    assert store.get("a/1.json") == b"x"
    assert store.driver_uri == f"abfss://{BUCKET}@{azure_server.ACCOUNT}.dfs.core.windows.net/{tmp_path.name}"
