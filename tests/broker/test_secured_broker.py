"""A secured broker: one clear error where it does not let this client in, the missing right, and no secret anywhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import (
    ClusterUnavailable,
    InvalidRequest,
    KafkaOffsetsError,
    NotAuthorized,
    NothingToDiscover,
)
from airflow_kafka_offsets.kafka_values import CommittedOffset, PartitionSet, TopicList, TopicPartition, TopicPattern
from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.certificates import Authority
from testbed.guarded_broker import guarded_broker, unsigned_token
from testbed.java import Java
from testbed.ports import free_ports
from tests.cluster.rights import allow

PASSWORD = "open-sesame-4711"


@dataclass(frozen=True)
class Secured:
    """A broker, who trusts it, and the settings of a client for its listeners."""

    broker: KafkaBroker
    trusted: Authority
    stranger: Authority

    def plain(self, listener: str = "") -> dict[str, Any]:
        return {"bootstrap.servers": self.broker.servers_of(listener) if listener else self.broker.bootstrap_servers}

    def tls(self, listener: str = "TLS", **more: Any) -> dict[str, Any]:
        settings = {"security.protocol": "SSL", "ssl.ca.location": str(self.trusted.ca)}
        return {**self.plain(listener), **settings, **more}

    def mutual_tls(self) -> dict[str, Any]:
        signed = self.trusted.sign("alice")
        own = {"ssl.certificate.location": str(signed.certificate), "ssl.key.location": str(signed.key)}
        return self.tls("TLS_CLIENTS", **own)

    def sasl(self, **more: Any) -> dict[str, Any]:
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        user = {"sasl.username": "alice", "sasl.password": PASSWORD}
        return {"bootstrap.servers": self.broker.sasl_bootstrap_servers, **settings, **user, **more}

    def sasl_tls(self) -> dict[str, Any]:
        return {**self.sasl(), **self.tls("SASL_TLS"), "security.protocol": "SASL_SSL"}

    def tokens(self, callback: Callable[[Any], Any] = lambda _: unsigned_token("alice")) -> dict[str, Any]:
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
        return {**self.plain("TOKENS"), **settings, "oauth_cb": callback, "sasl.oauthbearer.config": "scope=kafka"}


@pytest.fixture(scope="module")
def secured(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    trusted, stranger = Authority(folder / "trusted"), Authority(folder / "stranger", "Somebody else")
    with guarded_broker(folder / "kafka", trusted, {"alice": PASSWORD}, java=java, say=say) as broker:
        yield Secured(broker, trusted, stranger)


def refusal(config: dict[str, Any]) -> tuple[KafkaOffsetsError, float]:
    began = time.monotonic()
    with KafkaCluster(config, first_contact_s=5.0) as cluster, pytest.raises(KafkaOffsetsError) as refused:
        cluster.end_offsets([TopicPartition("orders", 0)], "read_committed")
    return refused.value, time.monotonic() - began


MISFITS: dict[str, tuple[Callable[[Secured], dict[str, Any]], str, bool]] = {
    "another password": (lambda of: of.sasl(**{"sasl.password": f"not {PASSWORD}"}), "Authentication failed", False),
    "another mechanism": (lambda of: of.sasl(**{"sasl.mechanism": "SCRAM-SHA-512"}), "mechanism", False),
    "an unknown authority": (
        lambda of: of.tls(**{"ssl.ca.location": str(of.stranger.ca)}),
        "certificate verify failed",
        False,
    ),
    "an expired certificate": (lambda of: of.tls("EXPIRED"), "certificate verify failed", False),
    "an unknown host": (lambda of: of.sasl(**{"bootstrap.servers": "kafka.invalid:9092"}), "resolve", False),
    "TLS on plaintext": (lambda of: of.tls(""), "SSL", True),
    "plaintext on TLS": (lambda of: of.plain("TLS"), "", True),
    "plaintext on SASL": (lambda of: {"bootstrap.servers": of.broker.sasl_bootstrap_servers}, "", True),
    "nobody listens": (lambda _: {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}, "refused", True),
}


def test_a_client_that_is_not_let_in_is_told_in_librdkafkas_words_at_once_and_no_secret_is_said(
    secured: Secured, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """All at once, in threads: each takes a second or more."""
    configs = {case: misfit[0](secured) for case, misfit in MISFITS.items()}
    with caplog.at_level(logging.DEBUG), ThreadPoolExecutor(len(MISFITS)) as threads:
        refusals = dict(zip(MISFITS, threads.map(refusal, configs.values()), strict=True))
    out, err = capfd.readouterr()
    for case, (_, words, retriable) in MISFITS.items():
        error, took_s = refusals[case]
        assert isinstance(error, ClusterUnavailable), case
        assert words in error.reason, (case, error.reason)
        assert configs[case]["bootstrap.servers"] in str(error)
        assert "docs/kafka-connection.md" in error.remedy, case
        assert error.retriable == retriable, (case, str(error))
        assert took_s < 12.0, (case, took_s)
        for text in (str(error), repr(error), caplog.text, out, err):
            assert PASSWORD not in text
    assert "as User:alice" in str(refusals["another password"][0])


@pytest.mark.parametrize("settings", ["plain", "tls", "mutual_tls", "sasl", "sasl_tls", "tokens"])
def test_a_client_that_fits_is_let_in(secured: Secured, settings: str) -> None:
    with KafkaCluster(getattr(secured, settings)()) as cluster, pytest.raises(NothingToDiscover):
        cluster.describe(TopicPattern("no-such-topic"))


@pytest.mark.parametrize(
    ("config", "name"),
    [({"sasl.pasword": PASSWORD}, "sasl.pasword"), ({"security.protocol": PASSWORD}, "security.protocol")],
)
def test_a_setting_that_librdkafka_does_not_accept_is_named_without_any_value(config: Any, name: str) -> None:
    error, _ = refusal({"bootstrap.servers": "127.0.0.1:1", "sasl.password": PASSWORD, **config})
    assert isinstance(error, InvalidRequest)
    assert name in str(error)
    assert PASSWORD not in str(error)


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_token_callback_that_fails_is_asked_again_and_all_clients_share_its_token(
    secured: Secured, group: str
) -> None:
    asked: list[Any] = []

    def callback(config: Any) -> Any:
        asked.append(config)
        if len(asked) < 3:
            raise ConnectionError("the token server is restarting")
        return unsigned_token("ANONYMOUS")  # who may do everything here

    with KafkaCluster(secured.tokens(callback)) as cluster:
        cluster.describe_group(group)
        cluster.committed(group, [TopicPartition("orders", 0)])
        assert asked == ["scope=kafka"] * 3


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (None, "oauth_cb returned NoneType, not (token"),
        (("a-token", 0), "expired"),
        (RuntimeError(f"503 from https://me:{PASSWORD}@tokens.example\x1b[2J"), "503 from https://***@tokens"),
    ],
)
def test_what_a_token_callback_says_is_told_without_secrets_and_control_characters(
    secured: Secured, returned: Any, reason: str
) -> None:
    def callback(_: Any) -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    began = time.monotonic()
    with KafkaCluster(secured.tokens(callback), first_contact_s=1.0) as cluster:
        with pytest.raises(ClusterUnavailable) as refused:
            cluster.describe_group("nobody")
        assert time.monotonic() - began < 5.0, "librdkafka alone waits for ten seconds, for each client"
    assert reason in refused.value.reason
    assert refused.value.retriable
    assert PASSWORD not in str(refused.value)
    assert "\x1b" not in str(refused.value)


# ── rights ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_right_is_named_with_principal_operation_and_resource_until_it_is_given(
    secured: Secured, group: str
) -> None:
    """Describe on topic and group to read; Read on both to commit. Epochs and times of a log need no more."""
    tp = TopicPartition(f"orders-{group}", 0)
    secured.broker.create_topic(tp.topic)
    secured.broker.produce(tp.topic, [(0, None, "x", 1000)])
    with KafkaCluster(secured.sasl()) as alice:

        def denied(ask: Callable[[], object], right: str) -> None:
            began = time.monotonic()
            with pytest.raises(NotAuthorized) as refused:
                ask()
            assert f"Give User:alice the right {right}" in refused.value.remedy
            assert not refused.value.retriable
            assert time.monotonic() - began < 6.0, "the deadline is a minute"

        def grant(kind: ResourceType, operation: AclOperation) -> None:
            name = tp.topic if kind == ResourceType.TOPIC else group
            allow(secured.broker, "User:alice", kind, name, operation)

        with pytest.raises(NothingToDiscover, match="may not describe"):
            alice.describe(TopicPattern(tp.topic))
        denied(lambda: alice.describe(TopicList((tp.topic,))), f"Describe on topic {tp.topic}")
        denied(lambda: alice.describe(PartitionSet((tp,))), f"Describe on topic {tp.topic}")
        denied(lambda: alice.end_offsets([tp], "read_committed"), f"Describe on topic {tp.topic}")
        grant(ResourceType.TOPIC, AclOperation.DESCRIBE)
        assert alice.describe(TopicList((tp.topic,))).partitions == (tp,)
        end = alice.end_offsets([tp], "read_committed")[tp]
        assert alice.ends_of_epochs({tp: end.leader_epoch or 0}) == {tp: 1}
        assert alice.newest_timestamps([tp], "read_committed") == {tp: 1000}
        denied(lambda: alice.first_times({tp: 0}, "read_committed"), f"Read on topic {tp.topic}")

        denied(lambda: alice.committed(group, [tp]), f"Describe on group {group}")
        denied(lambda: alice.describe_group(group), f"Describe on group {group}")
        grant(ResourceType.GROUP, AclOperation.DESCRIBE)
        assert alice.committed(group, [tp]) == {}

        commit = {tp: CommittedOffset(1)}
        denied(lambda: alice.commit_offsets(group, commit), f"Read on group {group}")
        grant(ResourceType.GROUP, AclOperation.READ)
        denied(lambda: alice.commit_offsets(group, commit), f"Read on topic {tp.topic}")
        grant(ResourceType.TOPIC, AclOperation.READ)
        alice.commit_offsets(group, commit)
        assert alice.committed(group, [tp]) == commit
        assert alice.first_times({tp: 0}, "read_committed") == {tp: 1000}


def test_of_topics_that_are_read_from_a_group_only_the_denied_one_is_named(secured: Secured, group: str) -> None:
    shown, hidden = TopicPartition(f"shown-{group}", 0), TopicPartition(f"hidden-{group}", 0)
    for tp in (shown, hidden):
        secured.broker.create_topic(tp.topic)
    allow(secured.broker, "User:alice", ResourceType.TOPIC, shown.topic, AclOperation.DESCRIBE)
    allow(secured.broker, "User:alice", ResourceType.GROUP, group, AclOperation.DESCRIBE)
    with KafkaCluster(secured.sasl()) as alice:
        with pytest.raises(NotAuthorized, match=f"Describe on topic {hidden.topic}") as refused:
            alice.committed(group, [shown, hidden])
        assert shown.topic not in str(refused.value)
