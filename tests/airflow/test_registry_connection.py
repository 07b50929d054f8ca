"""An Airflow connection leads to a schema registry: its address, one login, and nothing of either in a message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.broker.schema_registry import subject_schemas
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.hooks.registry_connection import registry_config

SECRET = "the registry's secret"


@pytest.fixture
def connect(airflow: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`connect(host=…, extra={…})` makes the connection `registry`."""

    def make(**fields: Any) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", json.dumps({"conn_type": "http", **fields}))

    return make


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"host": "registry", "port": 8081}, "http://registry:8081"),
        ({"host": "registry", "port": 8081, "schema": "https"}, "https://registry:8081"),
        ({"host": "registry/apis/ccompat/v7/", "port": 8080}, "http://registry:8080/apis/ccompat/v7"),
        ({"host": "https://registry"}, "https://registry"),
        ({"host": "https://registry/v7", "port": 8443}, "https://registry:8443/v7"),
        ({"host": "https://registry:9000/v7", "port": 8443, "schema": "http"}, "https://registry:9000/v7"),
        ({"host": "[::1]", "port": 8081}, "http://[::1]:8081"),
    ],
)
def test_the_host_is_a_name_or_the_whole_address(connect: Any, fields: dict[str, Any], url: str) -> None:
    connect(**fields)
    assert registry_config("registry") == {"url": url}


def test_a_login_is_the_clients_and_so_are_the_files(connect: Any) -> None:
    files = {"ssl.ca.location": "/ca.pem", "ssl.certificate.location": "/own.pem", "ssl.key.location": "/own.key"}
    connect(host="registry", login="etl", password=SECRET, extra={**files, "timeout": 3})
    login = {"basic.auth.user.info": f"etl:{SECRET}"}
    assert registry_config("registry") == {"url": "http://registry", **login, **files}


def test_a_token_is_sent_as_a_bearer_and_what_confluents_cloud_wants_besides_is_passed_on(connect: Any) -> None:
    connect(host="registry", extra={"token": f" {SECRET}\n", "bearer.auth.logical.cluster": "lsrc-1"})
    assert registry_config("registry") == {
        "url": "http://registry",
        "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.token": SECRET,
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "",
    }


@pytest.mark.parametrize("extra", [{"token": "t"}, {"ssl.key.location": "/k", "ssl.certificate.location": "/c"}, {}])
def test_the_client_takes_every_setting(connect: Any, extra: dict[str, str], tmp_path: Path) -> None:
    """Of files it says that they are not there, and of no setting that it does not know it."""
    connect(host="127.0.0.1", port=1, extra=extra)
    with pytest.raises(Exception, match=r"refused|No such file"):
        subject_schemas(registry_config("registry"), ["orders-value"])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "has no host: set it to the registry's, or to its whole URL."),
        (
            {"host": f"https://etl:{SECRET}@registry"},
            "has a login in its host: put it in the fields login and password.",
        ),
        ({"host": "registry:many"}, "has a host that is no address: correct it."),
        ({"host": "registry", "login": "etl", "extra": {"token": SECRET}}, "has a login and a token: leave out one of"),
        ({"host": "registry", "extra": {"ssl.ca.location": 3}}, "has an extra that is no object of texts: correct its"),
        ({"host": "registry", "extra": [SECRET]}, "has an extra that is no object of texts: correct its token"),
    ],
)
def test_a_connection_that_cannot_be_used_says_what_to_change(connect: Any, fields: dict[str, Any], said: str) -> None:
    connect(**fields)
    with pytest.raises(InvalidRequest) as refused:
        registry_config("registry")
    assert f"The schema registry's connection 'registry' {said}" in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_connection_that_is_not_there_is_named_with_what_to_create(airflow: Path) -> None:
    with pytest.raises(InvalidRequest, match="connection 'nowhere' is not there: create one of type 'http'"):
        registry_config("nowhere")
