"""What a real broker and librdkafka do wrong, each made to happen, and what comes of it here.

The naive call stands beside ours where it fails silently: if a later librdkafka mends it, that line says so.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, OffsetSpec, ResourceType

from airflow_kafka_offsets.batch.preview import plan_offsets
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.lookups import LOOK_UP_CHUNK, LookUpClient
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import (
    ClusterUnavailable,
    GroupActive,
    InvalidRequest,
    KafkaOffsetsError,
    NotAuthorized,
    RetentionTooClose,
)
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.request.subscription import PartitionSet, TopicList, TopicPattern
from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.java import Java
from testbed.ports import free_ports
from testbed.topics import DEADLINE_S, quiet, wait_for
from tests.cluster import rights
from tests.cluster.real import RealHands

PASSWORD = "open-sesame-4711"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def fragile(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker of this file's own, which is paused, killed and started again."""
    with KafkaBroker(
        tmp_path_factory.mktemp("fragile"),
        java=java,
        say=say,
        sasl_users={"admin": "admin", "alice": PASSWORD},
        loaded_groups=False,
    ) as running:
        yield running


@pytest.fixture
def orders(fragile: KafkaBroker) -> str:
    name = f"orders-{uuid.uuid4().hex[:12]}"
    fragile.create_topic(name, 3)
    fragile.produce(name, [(0, None, b"x", None)] * 4)
    return name


def tps(topic: str, count: int = 3) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def wait_until_let_in(broker: KafkaBroker) -> None:
    """After a pause longer than its session a broker is fenced for a moment. An admin client that is made in it has a
    cluster without a controller, and does not look again for a minute.
    """

    def can_make_a_topic() -> bool:
        new = NewTopic(f"let-in-{uuid.uuid4().hex[:12]}", num_partitions=1, replication_factor=1)
        admin = broker.admin()
        [future] = admin.create_topics([new], request_timeout=2.0).values()
        return future.result(DEADLINE_S) is None

    wait_for("the broker is let in", can_make_a_topic)


# A broker that hangs, dies and comes back


def test_a_paused_broker_is_an_error_and_not_an_offset(fragile: KafkaBroker, orders: str, group: str) -> None:
    """Also: without the rule in `Connection._asked` this test does not fail, it aborts the interpreter."""
    naive = AdminClient(fragile.client_config, logger=quiet)
    asked = {KafkaTopicPartition(orders, number): OffsetSpec.latest() for number in range(3)}
    assert [f.result(10).offset for f in naive.list_offsets(asked, request_timeout=5).values()] == [4, 0, 0]
    with KafkaCluster(fragile.client_config, deadline_s=2.0, attempt_s=1.0) as cluster:
        assert cluster.end_offsets(tps(orders), "read_uncommitted")[TopicPartition(orders, 0)].offset == 4
        fragile.pause()
        try:

            def silently_wrong() -> bool:  # not at once: SIGSTOP takes a moment to reach every thread
                offsets = [f.result(10).offset for f in naive.list_offsets(asked, request_timeout=1.0).values()]
                return offsets == [-1001, -1001, -1001]

            wait_for("list_offsets answers -1001 without an error", silently_wrong, deadline_s=10)
            with pytest.raises(ClusterUnavailable) as looked_up:
                cluster.end_offsets(tps(orders), "read_uncommitted")
            with pytest.raises(ClusterUnavailable) as read:
                cluster.committed(group, tps(orders))
            with pytest.raises(ClusterUnavailable) as wrote:
                cluster.commit_offsets(group, {tp: CommittedOffset(1) for tp in tps(orders)})
        finally:
            fragile.resume()
            wait_until_let_in(fragile)
        for unavailable in (looked_up, read, wrote):
            assert unavailable.value.retriable
            assert fragile.bootstrap_servers in str(unavailable.value)
        for tp in tps(orders):
            assert str(tp) in str(looked_up.value)
        assert cluster.end_offsets(tps(orders), "read_uncommitted")[TopicPartition(orders, 0)].offset == 4


def test_one_cluster_object_lives_through_a_restart_of_the_broker(
    fragile: KafkaBroker, orders: str, group: str
) -> None:
    """The first commit to a coordinator that loads is answered by an error, and is repeated."""
    with KafkaCluster(fragile.client_config, deadline_s=30.0) as cluster:
        commits = {tp: CommittedOffset(tp.partition, 0, "before") for tp in tps(orders)}
        cluster.commit_offsets(group, commits)
        fragile.kill()
        fragile.start()
        assert cluster.end_offsets(tps(orders), "read_committed")[TopicPartition(orders, 0)].offset == 4
        assert cluster.committed(group, tps(orders)) == commits
        cluster.commit_offsets(group, dict.fromkeys(tps(orders), CommittedOffset(4)))
        assert cluster.committed(group, tps(orders)) == dict.fromkeys(tps(orders), CommittedOffset(4))


# Nobody there, or not as the configuration says


def refusal(config: dict[str, Any], caplog: pytest.LogCaptureFixture, capfd: Any) -> KafkaOffsetsError:
    """The error of a first question; within 15 s, and the password is nowhere."""
    started = time.monotonic()
    with caplog.at_level(logging.DEBUG), pytest.raises(KafkaOffsetsError) as refused:
        KafkaCluster(config).describe(TopicPattern(".*"))
    assert time.monotonic() - started < 15
    out, err = capfd.readouterr()
    for text in (str(refused.value), repr(refused.value), caplog.text, out, err):
        assert PASSWORD not in text
    return refused.value


def sasl(broker: KafkaBroker, **more: Any) -> dict[str, Any]:
    settings = {"bootstrap.servers": broker.sasl_bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
    return {**settings, "sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": PASSWORD, **more}


def test_the_right_password_opens(fragile: KafkaBroker, orders: str) -> None:
    with KafkaCluster(sasl(fragile)) as cluster:
        assert list(cluster.describe(TopicList((orders,))).topics) == [orders]


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("nobody listens", "refused"),
        ("unknown host", "resolve"),
        ("TLS against plaintext", "does not speak TLS and has no SASL"),
        ("plaintext against SASL", ""),
        ("wrong password", "uthentication"),
        ("wrong mechanism", "mechanism"),
    ],
)
def test_a_wrong_address_or_configuration_is_told_with_librdkafkas_reason(
    fragile: KafkaBroker, caplog: pytest.LogCaptureFixture, capfd: Any, case: str, reason: str
) -> None:
    configs: dict[str, dict[str, Any]] = {
        "nobody listens": sasl(fragile, **{"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}),
        "unknown host": sasl(fragile, **{"bootstrap.servers": "kafka.invalid:9092"}),
        "TLS against plaintext": {**fragile.client_config, "security.protocol": "SSL"},
        "plaintext against SASL": {"bootstrap.servers": fragile.sasl_bootstrap_servers},
        "wrong password": sasl(fragile, **{"sasl.username": "admin"}),
        "wrong mechanism": sasl(fragile, **{"sasl.mechanism": "SCRAM-SHA-256"}),
    }
    error = refusal(configs[case], caplog, capfd)
    assert isinstance(error, ClusterUnavailable)
    assert configs[case]["bootstrap.servers"] in str(error)
    assert reason.lower() in error.reason.lower()
    assert error.reason


def test_a_property_that_librdkafka_does_not_know_is_named_without_any_value(
    caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    config = {"bootstrap.servers": "127.0.0.1:1", "sasl.password": PASSWORD, "sasl.pasword": PASSWORD}
    error = refusal(config, caplog, capfd)
    assert isinstance(error, InvalidRequest)
    assert "sasl.pasword" in str(error)


def test_a_value_that_librdkafka_does_not_take_is_not_shown(caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    error = refusal({"bootstrap.servers": "127.0.0.1:1", "security.protocol": PASSWORD}, caplog, capfd)
    assert isinstance(error, InvalidRequest)
    assert "security.protocol" in str(error)


# Members, of both protocols


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_no_offset_is_written_under_a_live_member(fragile: KafkaBroker, orders: str, group: str, protocol: str) -> None:
    first = TopicPartition(orders, 0)
    with KafkaCluster(fragile.client_config) as cluster:
        cluster.commit_offsets(group, {first: CommittedOffset(1, 0, "before")})
        with RealHands(fragile).live_member(group, orders, client_id="the-one", protocol=protocol):
            with pytest.raises(GroupActive) as refused:
                cluster.commit_offsets(group, dict.fromkeys(tps(orders), CommittedOffset(4)))
            assert "the-one" in str(refused.value)
            assert cluster.committed(group, tps(orders)) == {first: CommittedOffset(1, 0, "before")}
        cluster.commit_offsets(group, dict.fromkeys(tps(orders), CommittedOffset(4)))
        assert cluster.committed(group, tps(orders)) == dict.fromkeys(tps(orders), CommittedOffset(4))


# Clients, chunks and defaults


def test_a_cluster_that_nobody_holds_still_answers(fragile: KafkaBroker, orders: str) -> None:
    """A client that is collected before its futures resolve leaves them unresolved for ever."""
    assert KafkaCluster(fragile.client_config).end_offsets(tps(orders), "read_committed")[tps(orders)[0]].offset == 4


def test_the_clients_default_is_not_the_isolation_level_of_a_committed_reader(
    fragile: KafkaBroker, orders: str
) -> None:
    """AdminClient reads uncommitted unless told otherwise, a Consumer committed: here the level is always told."""
    tp = TopicPartition(orders, 0)
    transaction = RealHands(fragile).begin_transaction()
    transaction.produce(tp, [int(time.time() * 1000)] * 2)
    naive = AdminClient(fragile.client_config, logger=quiet)
    asked = {KafkaTopicPartition(orders, 0): OffsetSpec.latest()}
    [future] = naive.list_offsets(asked, request_timeout=DEADLINE_S).values()
    with KafkaCluster(fragile.client_config) as cluster:
        uncommitted = cluster.end_offsets([tp], "read_uncommitted")[tp].offset
        committed = cluster.end_offsets([tp], "read_committed")[tp].offset
    assert (future.result(DEADLINE_S).offset, uncommitted, committed) == (6, 6, 4)
    transaction.abort()


class Counting(LookUpClient):
    """What each client was asked for, one after the other: topics, or the offsets of so many partitions."""

    asked_for: ClassVar[dict[int, list[str | int]]] = {}

    def list_topics(self, *args: Any, **settings: Any) -> Any:
        self.asked_for.setdefault(id(self), []).append("topics")
        return super().list_topics(*args, **settings)

    def offsets_for_times(self, asked: Any, **settings: Any) -> Any:
        self.asked_for.setdefault(id(self), []).append(len(asked))
        return super().offsets_for_times(asked, **settings)


def test_many_partitions_go_out_in_chunks(fragile: KafkaBroker, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's cost grows with the square of the partitions in one call. (A group's: see test_group_faults.)"""
    many = 4 * LOOK_UP_CHUNK + 1
    monkeypatch.setattr(Counting, "asked_for", {})
    monkeypatch.setattr("airflow_kafka_offsets.broker.lookups.LookUpClient", Counting)
    topic = f"wide-{group}"
    fragile.create_topic(topic, many)
    with KafkaCluster(fragile.client_config) as cluster:
        assert set(cluster.log_start_offsets(tps(topic, many)).values()) == {0}
    fragile.delete_topic(topic)
    assert len(Counting.asked_for) == 2, "two clients take turns"
    assert all(first == "topics" for first, *_ in Counting.asked_for.values()), "a new client stops for 0.7 s without"
    offsets = [size for _, *sizes in Counting.asked_for.values() for size in sizes]
    assert sorted(offsets, key=str) == [1, *[LOOK_UP_CHUNK] * 4]


# Rights


@pytest.fixture(scope="module")
def guarded(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker where alice may do nothing, and who comes without a name may do everything."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    users = {"admin": "admin", "alice": PASSWORD}
    folder = tmp_path_factory.mktemp("guarded")
    with KafkaBroker(folder, java=java, say=say, sasl_users=users, config=config, loaded_groups=False) as running:
        yield running


def allow(broker: KafkaBroker, resource: ResourceType, name: str, operation: AclOperation) -> None:
    rights.allow(broker, "User:alice", resource, name, operation)


def test_a_missing_right_is_named_until_it_is_given(guarded: KafkaBroker, group: str) -> None:
    """Describe on the topic and the group to read; Read on both to commit."""
    topic = f"orders-{group}"
    guarded.create_topic(topic)
    tp = TopicPartition(topic, 0)
    with KafkaCluster(sasl(guarded), deadline_s=3.0) as alice:

        def denied(question: Any, right: str) -> None:
            with pytest.raises(NotAuthorized) as refused:
                question()
            assert right in refused.value.remedy
            assert "User:alice" in refused.value.remedy
            assert not refused.value.retriable

        def describe() -> Any:
            return alice.describe(TopicList((topic,)))

        def read() -> Any:
            return alice.committed(group, [tp])

        def write() -> None:
            alice.commit_offsets(group, {tp: CommittedOffset(1)})

        assert alice.discover(TopicPattern(".*")).topics == {}  # a topic that may not be described is not seen
        denied(lambda: alice.discover(TopicList((topic,))), f"Describe on topic {topic}")
        denied(lambda: alice.discover(PartitionSet((tp,))), f"Describe on topic {topic}")
        denied(describe, f"Describe on topic {topic}")
        denied(lambda: alice.end_offsets([tp], "read_committed"), f"Describe on topic {topic}")
        allow(guarded, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
        assert describe().partitions() == [tp]
        assert alice.end_offsets([tp], "read_committed")[tp].offset == 0

        def look() -> Any:
            return dict(alice.records_from({tp: 0}, 1))

        denied(look, f"Read on topic {topic}")
        denied(read, f"Describe on group {group}")
        denied(lambda: alice.describe_group(group), f"Describe on group {group}")
        allow(guarded, ResourceType.GROUP, group, AclOperation.DESCRIBE)
        assert read() == {}

        denied(write, f"Read on group {group}")
        allow(guarded, ResourceType.GROUP, group, AclOperation.READ)
        denied(write, f"Read on topic {topic}")
        assert read() == {}
        allow(guarded, ResourceType.TOPIC, topic, AclOperation.READ)
        assert look() == {tp: []}
        write()
        assert read() == {tp: CommittedOffset(1)}


@pytest.mark.parametrize("rights", [(), (AclOperation.DESCRIBE,)], ids=["none", "describe"])
def test_a_missing_right_on_the_group_is_named_long_before_the_deadline(
    guarded: KafkaBroker, group: str, rights: tuple[AclOperation, ...]
) -> None:
    """``committed`` says "timed out", and a commit waits for a coordinator that nobody will tell this client of."""
    tp = TopicPartition(f"orders-{group}", 0)
    guarded.create_topic(tp.topic)
    allow(guarded, ResourceType.TOPIC, tp.topic, AclOperation.READ)
    for right in rights:
        allow(guarded, ResourceType.GROUP, group, right)
    with KafkaCluster(sasl(guarded)) as alice:
        alice.discover(TopicList((tp.topic,)))
        began = time.monotonic()
        if not rights:
            with pytest.raises(NotAuthorized, match=f"Describe on group {group}"):
                alice.committed(group, [tp])
            with pytest.raises(NotAuthorized, match=f"Describe on group {group}"):
                alice.all_committed(group)
        with pytest.raises(NotAuthorized, match=f"Read on group {group}"):
            alice.commit_offsets(group, {tp: CommittedOffset(1)})
        assert time.monotonic() - began < 6.0, "three questions; the deadline of one is a minute"


def test_what_a_group_holds_of_topics_that_are_not_shown_is_no_part_of_everything(
    guarded: KafkaBroker, group: str
) -> None:
    shown, hidden = TopicPartition(f"shown-{group}", 0), TopicPartition(f"hidden-{group}", 0)
    for tp in (shown, hidden):
        guarded.create_topic(tp.topic)
    allow(guarded, ResourceType.TOPIC, shown.topic, AclOperation.DESCRIBE)
    allow(guarded, ResourceType.GROUP, group, AclOperation.DESCRIBE)
    with KafkaCluster(guarded.client_config) as cluster, KafkaCluster(sasl(guarded)) as alice:
        cluster.commit_offsets(group, {shown: CommittedOffset(1), hidden: CommittedOffset(2)})
        assert alice.all_committed(group) == {shown: CommittedOffset(1)}
        with pytest.raises(NotAuthorized, match=f"Describe on topic {hidden.topic}") as refused:
            alice.committed(group, [shown, hidden])
        assert shown.topic not in str(refused.value)


def test_E13_without_the_rights_to_read_and_to_know_there_is_no_time_and_no_margin(
    guarded: KafkaBroker, group: str
) -> None:
    """What this client may read or know has it all the same."""
    hidden, shown = f"hidden-{group}", f"shown-{group}"
    for name in (hidden, shown):
        guarded.create_topic(name, 1, {"retention.ms": str(HOUR_MS)})
        guarded.produce(name, [(0, None, "x", now_ms())])
        allow(guarded, ResourceType.TOPIC, name, AclOperation.DESCRIBE)
    for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS):
        allow(guarded, ResourceType.TOPIC, shown, operation)
    with KafkaCluster(sasl(guarded), deadline_s=3.0) as alice:
        starts = {TopicPartition(hidden, 0): 0, TopicPartition(shown, 0): 0}
        times, why = alice.first_times(starts, "read_uncommitted")
        assert list(times) == [TopicPartition(shown, 0)]
        assert f"read records of {hidden}[0]" in str(why)
    asked = {"topics": [hidden, shown], "startup_mode": "earliest-offset", "min_retention_margin": "PT2H"}
    near, not_known = plan_offsets(sasl(guarded), **asked, policies={"retention_margin": "warn"}).warnings
    assert f"within 2 h: {shown}[0]: up to 1 of the records that it reads" in near
    assert f"the records of {hidden} is not known" in not_known
    with pytest.raises(RetentionTooClose, match=shown):
        plan_offsets(sasl(guarded), **asked, policies={"retention_margin": "fail"})


def test_who_stamps_a_topics_records_is_absent_without_the_right_to_know(guarded: KafkaBroker, group: str) -> None:
    asked, open_to_all = f"guarded-{group}", f"known-{group}"
    for name in (asked, open_to_all):
        guarded.create_topic(name, 1, {"message.timestamp.type": "LogAppendTime"})
        allow(guarded, ResourceType.TOPIC, name, AclOperation.DESCRIBE)
    allow(guarded, ResourceType.TOPIC, open_to_all, AclOperation.DESCRIBE_CONFIGS)
    with KafkaCluster(sasl(guarded), deadline_s=3.0) as alice:
        assert set(alice.topic_settings([asked, open_to_all])) == {open_to_all}
        assert alice.newest_timestamps([TopicPartition(asked, 0)], "read_committed") == {}
