"""``oauth_cb`` of an Airflow connection: the path of a function, looked up where Airflow's settings allow it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import ClusterUnavailable, InvalidRequest
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook

TOKENS = f"{__name__}.tokens"
ASKED: list[str] = []


def tokens(config: str) -> Any:
    ASKED.append(config)
    raise RuntimeError("the token server is away")


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> KafkaOffsetsHook:
    path, allowed = request.param
    extra = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "scope=kafka",
        "oauth_cb": path,
    }
    monkeypatch.setenv("AIRFLOW_CONN_TOKENS", json.dumps({"conn_type": "kafka", "extra": json.dumps(extra)}))
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", allowed)
    return KafkaOffsetsHook("tokens")


@pytest.mark.parametrize("hook", [(TOKENS, f"other.path, {TOKENS}")], indirect=True)
def test_the_function_of_an_allowed_path_is_asked_for_a_token(hook: KafkaOffsetsHook) -> None:
    """Before there is a client, so no broker is needed; tests/contract/test_secured_brokers.py has real tokens."""
    ASKED.clear()
    cluster = KafkaCluster(hook.client_config, first_contact_s=0.1)
    with cluster, pytest.raises(ClusterUnavailable, match=r"tokens raised RuntimeError: the token server is away"):
        cluster.cluster_id()
    assert set(ASKED) == {"scope=kafka"}


@pytest.mark.parametrize(
    ("hook", "problem"),
    [
        ((TOKENS, ""), "callback_allowlist is empty"),
        ((TOKENS, f"{TOKENS}.other"), "is not in the"),
        (("nowhere.tokens", "nowhere.tokens"), "oauth_cb, that cannot be imported here: No module named 'nowhere'"),
        ((f"{__name__}.nothing", f"{__name__}.nothing"), "oauth_cb, that cannot be imported here"),
        (("tokens", "tokens"), "oauth_cb, that cannot be imported here"),
    ],
    indirect=["hook"],
)
def test_another_path_is_refused(hook: KafkaOffsetsHook, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        _ = hook.client_config


@pytest.mark.parametrize("hook", [(f"{__name__}.TOKENS", f"{__name__}.TOKENS")], indirect=True)
def test_what_is_no_function_is_refused(hook: KafkaOffsetsHook) -> None:
    with pytest.raises(InvalidRequest, match="oauth_cb in the Kafka connection is a str"):
        KafkaCluster(hook.client_config)
