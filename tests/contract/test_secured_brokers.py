"""A secured cluster and a client that does not fit it: what the error says, whom it names, and what it keeps to itself.

All misfits are asked at once, in threads: each takes a second or more, since librdkafka has to fail first.
"""

from __future__ import annotations

import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import ClusterUnavailable, InvalidRequest, NotAuthorized
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.refusal_reasons import addresses, misfit
from airflow_kafka_offsets.request.subscription import TopicList
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
    """A broker, who trusts it, and the settings of a client for each kind of listener."""

    broker: KafkaBroker
    trusted: Authority
    stranger: Authority

    def plain(self, listener: str = "") -> dict[str, Any]:
        return {"bootstrap.servers": self.broker.servers_of(listener) if listener else self.broker.bootstrap_servers}

    def tls(self, listener: str = "TLS", **more: Any) -> dict[str, Any]:
        settings = {"security.protocol": "SSL", "ssl.ca.location": str(self.trusted.ca)}
        return {**self.plain(listener), **settings, **more}

    def mutual_tls(self, name: str) -> dict[str, Any]:
        signed = self.trusted.sign(name)
        own = {"ssl.certificate.location": str(signed.certificate), "ssl.key.location": str(signed.key)}
        return self.tls("TLS_CLIENTS", **own)

    def sasl(self, listener: str = "", **more: Any) -> dict[str, Any]:
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        user = {"sasl.username": "alice", "sasl.password": PASSWORD}
        servers = self.plain(listener) if listener else {"bootstrap.servers": self.broker.sasl_bootstrap_servers}
        return {**servers, **settings, **user, **more}

    def sasl_tls(self, listener: str = "SASL_TLS") -> dict[str, Any]:
        return {**self.sasl(listener), **self.tls(listener), "security.protocol": "SASL_SSL"}

    def tokens(self, callback: Callable[[Any], Any] | None = None, **more: Any) -> dict[str, Any]:
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
        source = {} if callback is None else {"oauth_cb": callback}
        return {**self.plain("TOKENS"), **settings, **source, **more}


@pytest.fixture(scope="module")
def secured(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    trusted, stranger = Authority(folder / "trusted"), Authority(folder / "stranger", "Somebody else")
    with guarded_broker(folder / "kafka", trusted, {"alice": PASSWORD}, java=java, say=say) as broker:
        yield Secured(broker, trusted, stranger)


# ── a client and a listener that do not fit ───────────────────────────────────────────────────────────────────────────

MISFITS: dict[str, tuple[Callable[[Secured], dict[str, Any]], str]] = {
    "plaintext on TLS": (
        lambda of: of.plain("TLS"),
        "speaks TLS and has no SASL, and security.protocol is PLAINTEXT: set it to SSL",
    ),
    "plaintext on TLS that wants a certificate": (
        lambda of: of.plain("TLS_CLIENTS"),
        "speaks TLS, and security.protocol is PLAINTEXT",
    ),
    "plaintext on SASL": (
        lambda of: {"bootstrap.servers": of.broker.sasl_bootstrap_servers},
        "does not speak TLS and asks for SASL (PLAIN), and security.protocol is PLAINTEXT: set it to SASL_PLAINTEXT",
    ),
    "plaintext on SASL over TLS": (
        lambda of: of.plain("SASL_TLS"),
        "speaks TLS and asks for SASL (PLAIN), and security.protocol is PLAINTEXT: set it to SASL_SSL",
    ),
    "TLS on plaintext": (
        lambda of: of.tls(""),
        "does not speak TLS and has no SASL, and security.protocol is SSL: set it to PLAINTEXT",
    ),
    "TLS on SASL": (
        lambda of: of.tls("TOKENS"),
        "asks for SASL (OAUTHBEARER), and security.protocol is SSL: set it to SASL_PLAINTEXT",
    ),
    "TLS on SASL over TLS": (lambda of: of.tls("SASL_TLS"), "and security.protocol is SSL: set it to SASL_SSL"),
    "SASL on TLS": (lambda of: of.sasl("TLS"), "and security.protocol is SASL_PLAINTEXT: set it to SSL"),
    "SASL over TLS on TLS": (
        lambda of: of.sasl_tls("TLS"),
        "has no SASL, and security.protocol is SASL_SSL: set it to SSL",
    ),
    "SASL where there is none": (
        lambda of: {**of.sasl(), **of.plain()},
        "has no SASL, and security.protocol is SASL_PLAINTEXT: set it to PLAINTEXT",
    ),
    "another mechanism": (
        lambda of: of.sasl(**{"sasl.mechanism": "SCRAM-SHA-512"}),
        "has the SASL mechanisms PLAIN, and sasl.mechanism is SCRAM-SHA-512",
    ),
    "another password": (lambda of: of.sasl(**{"sasl.password": f"not {PASSWORD}"}), "Authentication failed"),
    "an authority that is not known": (
        lambda of: of.tls(**{"ssl.ca.location": str(of.stranger.ca)}),
        "unable to get local issuer certificate",
    ),
    "no authority given": (
        lambda of: {name: value for name, value in of.tls().items() if name != "ssl.ca.location"},
        "is not trusted by this machine's own authorities",
    ),
    "a certificate that has expired": (lambda of: of.tls("EXPIRED"), "certificate has expired"),
    "a certificate of another host": (lambda of: of.tls("ELSEWHERE"), "certificate is not valid for '127.0.0.1'"),
    "no certificate of the client": (lambda of: of.tls("TLS_CLIENTS"), "alert bad certificate"),
}


@pytest.fixture(scope="module")
def refusals(secured: Secured) -> dict[str, tuple[ClusterUnavailable, float]]:
    """What each of them is told, and how long it took."""

    def ask(case: str) -> tuple[ClusterUnavailable, float]:
        config, _ = MISFITS[case]
        began = time.monotonic()
        with KafkaCluster(config(secured)) as cluster, pytest.raises(ClusterUnavailable) as refused:
            cluster.cluster_id()
        return refused.value, time.monotonic() - began

    with ThreadPoolExecutor(len(MISFITS)) as threads:
        return dict(zip(MISFITS, threads.map(ask, MISFITS), strict=True))


@pytest.mark.parametrize("case", MISFITS)
def test_a_client_that_does_not_fit_the_listener_is_told_how(
    refusals: dict[str, tuple[ClusterUnavailable, float]], secured: Secured, case: str
) -> None:
    error, took_s = refusals[case]
    assert MISFITS[case][1] in error.reason
    assert MISFITS[case][0](secured)["bootstrap.servers"] in str(error)
    assert not error.retriable or case == "no certificate of the client"
    assert PASSWORD not in str(error)
    assert took_s < 10.0 or error.retriable


@pytest.mark.parametrize("settings", ["plain", "tls", "mutual_tls", "sasl", "sasl_tls", "tokens"])
def test_a_client_that_fits_is_let_in(secured: Secured, settings: str) -> None:
    arguments = {"mutual_tls": ["alice"], "tokens": [lambda _: unsigned_token("alice")]}.get(settings, [])
    with KafkaCluster(getattr(secured, settings)(*arguments)) as cluster:
        assert cluster.cluster_id() == secured.broker.cluster_id


def test_nobody_there_is_no_misfit() -> None:
    config = {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}", "security.protocol": "SSL"}
    with KafkaCluster(config, first_contact_s=1.0) as cluster, pytest.raises(ClusterUnavailable) as refused:
        cluster.cluster_id()
    assert "refused" in refused.value.reason
    assert refused.value.retriable


class Strange(socketserver.BaseRequestHandler):
    """Answers whatever it is asked with what the test has chosen, and closes."""

    def handle(self) -> None:
        self.request.recv(65_536)
        self.request.sendall(self.server.answer)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack(">iihi", 2**31 - 1, 1, 33, 1),
        struct.pack(">iihi", 10, 1, 33, 2**31 - 1),
        struct.pack(">iihih", 12, 1, 33, 2**31 - 1, -1),
        struct.pack(">iihih", 12, 1, 33, 1, 9),
        struct.pack(">iihih", 21, 1, 33, 1, 9) + b"\xff" * 9,
    ],
    ids=["nothing", "HTTP", "a long answer", "many mechanisms", "lengths below zero", "a name too short", "no text"],
)
def test_what_is_not_kafka_gives_no_finding(answer: bytes) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Strange) as server:
        server.answer = answer  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            began = time.monotonic()
            host, port = server.server_address
            for protocol in ("PLAINTEXT", "SASL_SSL"):
                config = {"bootstrap.servers": f"{host}:{port}", "security.protocol": protocol}
                assert misfit(config, certificate=False) is None
            assert time.monotonic() - began < 3.0
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("servers", "found"),
    [
        ("a:9093, b", [("a", 9093), ("b", 9092)]),
        ("SASL_SSL://kafka.example:1", [("kafka.example", 1)]),
        ("[::1]:9094", [("::1", 9094)]),
        ("", []),
    ],
)
def test_the_addresses_are_read_as_librdkafka_reads_them(servers: str, found: list[tuple[str, int]]) -> None:
    assert addresses(servers) == found


CLOSED: dict[str, tuple[dict[str, Any], str]] = {
    "another password": ({"ssl.key.password": "another"}, "opens with ssl.key.password: "),
    "no password": ({}, "opens with ssl.key.password, which is not given: "),
}


@pytest.mark.parametrize("case", CLOSED)
@pytest.mark.parametrize("kind", ["location", "pem"])
def test_a_key_that_its_password_does_not_open_is_said(tmp_path: Path, case: str, kind: str) -> None:
    """librdkafka says "PEM lib"."""
    signed = Authority(tmp_path).sign("alice", password=PASSWORD)
    files = {"ssl.certificate": signed.certificate, "ssl.key": signed.key}
    texts = {f"{name}.{kind}": str(file) if kind == "location" else file.read_text() for name, file in files.items()}
    more, words = CLOSED[case]
    config = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "ssl", **texts, **more}
    with KafkaCluster(config) as cluster, pytest.raises(InvalidRequest) as refused:
        cluster.cluster_id()
    assert f"ssl.key.{kind} has no private key that {words}" in str(refused.value)
    assert "BEGIN" not in str(refused.value)


def test_a_keystore_that_its_password_does_not_open_is_said(tmp_path: Path) -> None:
    signed = Authority(tmp_path).sign("alice")
    key = load_pem_private_key(signed.key.read_bytes(), None)
    certificate = load_pem_x509_certificate(signed.certificate.read_bytes())
    closed = BestAvailableEncryption(PASSWORD.encode())
    store = tmp_path / "alice.p12"
    store.write_bytes(serialize_key_and_certificates(b"alice", key, certificate, None, closed))
    own = {"ssl.keystore.location": str(store), "ssl.keystore.password": "another"}
    config = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "ssl", **own}
    with KafkaCluster(config) as cluster, pytest.raises(InvalidRequest) as refused:
        cluster.cluster_id()
    assert "ssl.keystore.location has no private key that opens with ssl.keystore.password: " in str(refused.value)


def test_a_key_that_is_not_there_has_no_wrong_password(tmp_path: Path) -> None:
    own = {"ssl.certificate.location": str(Authority(tmp_path).sign("alice").certificate)}
    config = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "ssl", **own, "ssl.key.location": "/nowhere"}
    with KafkaCluster(config) as cluster, pytest.raises(InvalidRequest, match=r"ssl\.key\.location failed") as refused:
        cluster.cluster_id()
    assert "password" not in str(refused.value)


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_token_callback_that_fails_is_asked_again(secured: Secured) -> None:
    """And each client after it has the same token: a new one for each attempt would be many for the token server."""
    asked: list[Any] = []

    def callback(config: Any) -> Any:
        asked.append(config)
        if len(asked) < 3:
            raise ConnectionError("the token server is restarting")
        return unsigned_token("alice")

    with KafkaCluster(secured.tokens(callback, **{"sasl.oauthbearer.config": "scope=kafka"})) as cluster:
        assert cluster.cluster_id() == secured.broker.cluster_id
        cluster.committed("nobody", [])
        assert asked == ["scope=kafka"] * 3


SAID = (
    '503 from https://me:SECRET@tokens.example/?client_secret=SECRET&scope=kafka, sent "Authorization: Bearer SECRET", '
    'answered {"access_token": "SECRET", "error": "overloaded"} '
).replace("SECRET", PASSWORD)


def test_what_a_token_callback_says_is_kept_without_its_secrets(secured: Secured) -> None:
    def callback(_: Any) -> Any:
        raise RuntimeError(SAID + unsigned_token("alice")[0])

    began = time.monotonic()
    cluster = KafkaCluster(secured.tokens(callback), first_contact_s=1.0)
    with cluster, pytest.raises(ClusterUnavailable) as refused:
        cluster.cluster_id()
    assert time.monotonic() - began < 5.0, "librdkafka alone waits for ten seconds, for each client"
    error = refused.value
    assert error.retriable
    for part in ("oauth_cb", "RuntimeError", "503 from", "tokens.example", "scope=kafka", "overloaded"):
        assert part in error.reason
    assert PASSWORD not in str(error)
    assert "eyJ" not in str(error)


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (None, "returned NoneType, and not (token"),
        (("a-token", "tomorrow"), "returned tuple, and not (token"),
        (("a-token", 0), "has expired"),
    ],
)
def test_what_is_no_token_is_said(secured: Secured, returned: Any, reason: str) -> None:
    cluster = KafkaCluster(secured.tokens(lambda _: returned), first_contact_s=0.5)
    with cluster, pytest.raises(ClusterUnavailable) as refused:
        cluster.cluster_id()
    assert reason in refused.value.reason
    assert refused.value.retriable


def test_a_token_that_lives_outlasts_a_callback_that_fails(secured: Secured) -> None:
    """It is renewed when half of its life is over. Until its end it will do."""
    answers: Iterator[Any] = iter([unsigned_token("alice", 30.0)])

    def callback(_: Any) -> Any:
        return next(answers)

    with KafkaCluster(secured.tokens(callback)) as cluster:
        cluster.cluster_id()
        source = cluster._tokens
        assert source is not None
        source._renew_at = 0.0
        assert source() == source.token


def test_a_token_server_that_is_down_is_no_wrong_password(secured: Secured) -> None:
    url = f"http://127.0.0.1:{free_ports(1)[0]}/token"
    oidc = {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": url}
    client = {"sasl.oauthbearer.client.id": "airflow", "sasl.oauthbearer.client.secret": PASSWORD}
    cluster = KafkaCluster(secured.tokens(**oidc, **client), first_contact_s=1.0)
    with cluster, pytest.raises(ClusterUnavailable, match="Failed to acquire SASL OAUTHBEARER token") as refused:
        cluster.cluster_id()
    assert refused.value.retriable
    assert PASSWORD not in str(refused.value)


def test_tokens_without_a_source_are_refused_before_anybody_is_asked() -> None:
    config = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER"}
    with pytest.raises(InvalidRequest, match=r"nothing gives tokens.*oidc.*oauth_cb"):
        KafkaCluster(config)


def test_the_path_of_a_callback_is_no_callback() -> None:
    """As a file of settings has it, for the command line: only Airflow's hook looks it up."""
    with pytest.raises(InvalidRequest, match="oauth_cb in the Kafka connection is a str"):
        KafkaCluster({"bootstrap.servers": "127.0.0.1:1", "oauth_cb": "my.module.tokens"})


# ── rights ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "principal"),
    [
        (lambda of: of.sasl(), "User:alice"),
        (lambda of: of.mutual_tls("carol"), "User:CN=carol"),
        (lambda of: of.tokens(lambda _: unsigned_token("bob")), "User:bob"),
        (lambda of: of.tls(), "User:ANONYMOUS"),
    ],
    ids=["user", "certificate", "token", "nobody"],
)
def test_a_denied_right_names_who_lacks_it(secured: Secured, group: str, settings: Any, principal: str) -> None:
    """And the right that it names, given to whom it names, is the one that was missing."""
    topic = f"orders-{group}"
    secured.broker.create_topic(topic)
    tp = TopicPartition(topic, 0)
    if principal == "User:ANONYMOUS":  # who may do everything here
        assert KafkaCluster(settings(secured)).principal == f"this client's principal, {principal},"
        return
    with KafkaCluster(settings(secured), deadline_s=5.0) as cluster:
        nothing = {tp: CommittedOffset(0)}
        wanted: list[tuple[Callable[[], Any], ResourceType, str, AclOperation]] = [
            (lambda: cluster.describe(TopicList((topic,))), ResourceType.TOPIC, topic, AclOperation.DESCRIBE),
            (lambda: cluster.committed(group, [tp]), ResourceType.GROUP, group, AclOperation.DESCRIBE),
            (
                lambda: cluster.commit_offsets(group, nothing),
                ResourceType.GROUP,
                group,
                AclOperation.READ,
            ),
            (
                lambda: cluster.commit_offsets(group, nothing),
                ResourceType.TOPIC,
                topic,
                AclOperation.READ,
            ),
        ]
        # A second for each client with a token: one right will do there.
        for question, kind, name, operation in wanted[:1] if principal == "User:bob" else wanted:
            with pytest.raises(NotAuthorized) as refused:
                question()
            right = f"{operation.name.title()} on {kind.name.lower().replace('_', ' ')} {name}"
            assert f"Give this client's principal, {principal}, the right: {right}" in refused.value.remedy
            allow(secured.broker, principal, kind, name, operation)
            if (kind, operation) != (ResourceType.GROUP, AclOperation.READ):  # which the topic's goes with
                question()
