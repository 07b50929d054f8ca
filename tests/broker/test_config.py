"""Settings, names of groups, and secrets in what client libraries say: tables without a broker."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.config import check_group_id, client_settings, mask, principal
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from testbed.guarded_broker import unsigned_token

SECRET = "open-sesame-4711"
TP = TopicPartition("orders", 0)


def test_settings_of_a_member_of_a_group_do_not_reach_the_clients() -> None:
    kept = {"bootstrap.servers": "a:1", "client.id": "c", "security.protocol": "ssl"}
    dropped = {"group.id": "g", "isolation.level": "read_committed", "group.protocol": "consumer", "on_commit": print}
    assert client_settings({**kept, **dropped, "allow.auto.create.topics": True}) == kept


def test_a_connection_without_an_address_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"bootstrap\.servers"):
        KafkaCluster({"group.id": "g"})


@pytest.mark.starts_processes
@pytest.mark.parametrize("name", ["", "  ", "a\ud800"], ids=["empty", "spaces", "lone surrogate"])
def test_a_group_name_that_ends_the_process_is_refused(name: str) -> None:
    script = f"from confluent_kafka import Consumer; Consumer({{'group.id': {name!r}, 'bootstrap.servers': 'x'}})"
    naive = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert naive.returncode == -signal.SIGABRT, naive.stderr
    refuses(name)


@pytest.mark.parametrize("name", [" group", "\tgroup", "group\0more", "x" * 32_701, "ü" * 16_351])
def test_a_group_name_that_librdkafka_cuts_or_kafka_does_not_take_is_refused(name: str) -> None:
    refuses(name)


@pytest.mark.parametrize("name", ["a", "a b", "a\tb", "team.orders-v2_1/x:y ", "größe", "組織", "~" * 32_700])
def test_any_other_group_name_is_accepted(name: str) -> None:
    check_group_id(name)


def refuses(name: str) -> None:
    """Before anything is sent: the broker of this client does not exist."""
    with KafkaCluster({"bootstrap.servers": "127.0.0.1:1"}) as cluster:
        for question in (
            lambda: cluster.commit_offsets(name, {TP: CommittedOffset(1)}),
            lambda: cluster.committed(name, [TP]),
            lambda: cluster.describe_group(name),
        ):
            with pytest.raises(InvalidRequest, match="group_id"):
                question()


@pytest.mark.parametrize(
    "said",
    [
        f"sasl.password {SECRET} is wrong",
        f"https://me:{SECRET}@tokens.example/",
        f"?client_secret={SECRET}&scope=kafka",
        f"Authorization: Bearer {SECRET}",
        f'{{"access_token": "{SECRET}", "error": "overloaded"}}',
        unsigned_token(SECRET)[0],
    ],
)
def test_no_secret_is_left_in_what_is_said(said: str) -> None:
    shown = mask(said, {"sasl.password": SECRET})
    assert SECRET not in shown
    assert "eyJ" not in shown


SASL = {"security.protocol": "sasl_ssl"}
PRINCIPALS: list[tuple[dict[str, Any], tuple[Any, ...] | None, str]] = [
    ({}, None, "User:ANONYMOUS"),
    ({**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "alice"}, None, "User:alice"),
    ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, unsigned_token("bob"), "User:bob"),
    ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, ("opaque", 1.0, "carol"), "User:carol"),
    ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, None, "the principal of this client's certificate or token"),
    ({"security.protocol": "ssl"}, None, "the principal of this client's certificate or token"),
]


@pytest.mark.parametrize(("config", "token", "name"), PRINCIPALS)
def test_the_principal_is_named_as_far_as_the_settings_say_it(config: Any, token: Any, name: str) -> None:
    assert principal(config, token) == name


def test_oauthbearer_without_a_source_of_tokens_is_refused() -> None:
    """librdkafka would wait, and say nothing."""
    config = {"bootstrap.servers": "a:1", **SASL, "sasl.mechanism": "OAUTHBEARER"}
    for wrong in (config, {**config, "oauth_cb": "module.function"}):
        with pytest.raises(InvalidRequest, match=r"oidc .* or oauth_cb"):
            KafkaCluster(wrong)
    KafkaCluster({**config, "sasl.oauthbearer.method": "oidc"})
