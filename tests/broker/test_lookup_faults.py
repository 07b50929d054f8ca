"""Look-ups while a broker hangs, dies and comes back, while a partition has no leader, and from how many clients."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from airflow_kafka_offsets import progress_log
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.connection import OffsetConsumer
from airflow_kafka_offsets.broker.partition_errors import CHUNK
from airflow_kafka_offsets.broker.protocol import Cluster
from airflow_kafka_offsets.errors import ClusterUnavailable
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicList, TopicPartition
from testbed import kafka_answers, kafka_proxy
from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.java import Java
from testbed.kafka_proxy import LIST_OFFSETS, METADATA, KafkaProxy, Moment
from testbed.topics import DEADLINE_S, quiet, wait_for

ALWAYS = 10**6


def tps(topic: str, count: int = 3) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


# ── answers that are spoilt on their way ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def orders(topic: Callable[..., str]) -> str:
    return topic(3, prefix="orders")


@pytest.fixture
def asker(proxy: KafkaProxy) -> dict[str, Any]:
    return {"bootstrap.servers": proxy.bootstrap_servers, "client.id": "asker"}


def test_a_partition_without_a_leader_is_named_alone(proxy: KafkaProxy, asker: dict[str, Any], orders: str) -> None:
    """librdkafka fails the whole call."""
    rule = proxy.arm(
        "no leader",
        Moment("asker", METADATA),
        kafka_proxy.changed(kafka_answers.without_leader(orders, 1)),
        times=ALWAYS,
    )
    with (
        KafkaCluster(asker, deadline_s=4.0, attempt_s=1.0) as cluster,
        pytest.raises(ClusterUnavailable) as unavailable,
    ):
        cluster.end_offsets(tps(orders), "read_uncommitted")
    assert rule.proof()
    assert dict(unavailable.value.unanswered) == {TopicPartition(orders, 1): "it has no leader"}
    assert unavailable.value.retriable


def test_an_answer_of_a_broker_that_no_longer_leads_is_asked_again(
    proxy: KafkaProxy, asker: dict[str, Any], orders: str
) -> None:
    deed = kafka_proxy.changed(kafka_answers.list_offsets_error(kafka_answers.NOT_LEADER_OR_FOLLOWER))
    rule = proxy.arm("moved", Moment("asker", LIST_OFFSETS), deed, times=2)
    with KafkaCluster(asker) as cluster:
        assert cluster.log_start_offsets(tps(orders)) == dict.fromkeys(tps(orders), 0)
    assert rule.proof()


def test_a_leader_that_does_not_answer_is_named_at_the_deadline(
    proxy: KafkaProxy, asker: dict[str, Any], orders: str
) -> None:
    rule = proxy.arm("hangs", Moment("asker", LIST_OFFSETS), kafka_proxy.hang, times=ALWAYS)
    began = time.monotonic()
    with (
        KafkaCluster(asker, deadline_s=4.0, attempt_s=1.0) as cluster,
        pytest.raises(ClusterUnavailable, match=f"its leader is broker 1 at {proxy.bootstrap_servers}") as unavailable,
    ):
        cluster.end_offsets(tps(orders), "read_committed")
    assert rule.proof()
    assert set(unavailable.value.unanswered) == set(tps(orders))
    assert time.monotonic() - began < 8.0


# ── clients ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Counting(KafkaCluster):
    """Remembers the kinds of clients that it has made, how many partitions each look-up asked for, and how often all
    topics were listed."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.made: list[type] = []
        self.asked: list[int] = []
        self.listed = 0

    def _make(self, kind: Any, settings: Mapping[str, Any]) -> Any:
        self.made.append(kind)
        if kind is not OffsetConsumer:
            return super()._make(kind, settings)
        asked, cluster = self.asked, self

        class Watched(OffsetConsumer):
            def list_topics(self, topic: str | None = None, timeout: float = -1.0) -> Any:
                cluster.listed += topic is None
                return super().list_topics(topic, timeout=timeout)

            def offsets_for_times(
                self, partitions: list[KafkaTopicPartition], timeout: float = -1.0
            ) -> list[KafkaTopicPartition]:
                asked.append(len(partitions))
                return super().offsets_for_times(partitions, timeout)

        return super()._make(Watched, settings)


def test_a_commit_opens_one_client_and_a_plan_one_more(broker: KafkaBroker, orders: str, group: str) -> None:
    """Under ``read_uncommitted``, ends need another consumer than the group, which is read under ``read_committed``."""
    partitions = tps(orders)
    with Counting(broker.client_config) as cluster:
        cluster.committed(group, partitions)
        cluster.commit_offsets(group, dict.fromkeys(partitions, CommittedOffset(3)))
        cluster.committed(group, partitions)
        cluster.end_offsets(partitions, "read_committed")
        assert cluster.made == [OffsetConsumer]
        cluster.describe(TopicList((orders,)))
        cluster.describe_group(group)
        assert cluster.made == [OffsetConsumer, AdminClient]
        cluster.log_start_offsets(partitions)
        cluster.end_offsets(partitions, "read_uncommitted")
        cluster.offsets_for_times(dict.fromkeys(partitions, 0), "read_uncommitted")
        assert cluster.made == [OffsetConsumer, AdminClient, OffsetConsumer]


def test_many_partitions_go_out_in_chunks_and_reads_say_how_far_they_are(
    broker: KafkaBroker, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress_log, "QUIET_S", 0.0)
    caplog.set_level("INFO", progress_log.__name__)
    wide = topic(2 * CHUNK + 1)
    with Counting(broker.client_config) as cluster:
        assert set(cluster.log_start_offsets(tps(wide, 2 * CHUNK + 1)).values()) == {0}
        assert sorted(cluster.asked) == [1, CHUNK, CHUNK]  # side by side, in any order
        assert len(cluster.end_offsets(tps(wide, 2 * CHUNK + 1), "read_uncommitted")) == 2 * CHUNK + 1
        assert cluster.listed == 1, "no look-up asks for its leaders"
        assert cluster.made == [OffsetConsumer]
        assert cluster.first_times(dict.fromkeys(tps(wide, 2 * CHUNK + 1), 0), "read_uncommitted") == {}
        assert "read the first records: 500 of 1,001" in caplog.text
    broker.delete_topic(wide)


def test_a_cluster_that_nothing_refers_to_still_answers(broker: KafkaBroker, orders: str) -> None:
    """A client that is collected before its futures resolve leaves them unresolved for ever."""
    cluster: Cluster = KafkaCluster(broker.client_config)
    assert cluster.describe(TopicList((orders,))).partitions == tuple(tps(orders))
    assert KafkaCluster(broker.client_config).newest_timestamps(tps(orders), "read_committed") == {}


# ── a broker that hangs, dies and comes back ──────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def fragile(java: Java, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker of this file's own, which is paused, killed and started again."""
    with KafkaBroker(tmp_path_factory.mktemp("fragile"), java=java, say=say, loaded_groups=False) as running:
        running.create_topic("orders", 3)
        running.produce("orders", [(0, None, b"x", None)] * 4)
        yield running


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


def test_a_paused_broker_is_an_error_and_not_an_offset(fragile: KafkaBroker, group: str) -> None:
    """Also: if a client that gave up were kept, this test would not fail, it would abort the interpreter."""
    orders = tps("orders")
    naive = AdminClient(fragile.client_config, logger=quiet)
    asked = {KafkaTopicPartition("orders", number): OffsetSpec.latest() for number in range(3)}
    assert [f.result(10).offset for f in naive.list_offsets(asked, request_timeout=5).values()] == [4, 0, 0]
    with KafkaCluster(fragile.client_config, deadline_s=2.0, attempt_s=1.0) as cluster:
        assert cluster.end_offsets(orders, "read_uncommitted")[orders[0]].offset == 4
        ends = cluster.end_offsets(orders, "read_uncommitted")
        fragile.pause()
        try:

            def silently_wrong() -> bool:  # not at once: SIGSTOP takes a moment to reach every thread
                offsets = [f.result(10).offset for f in naive.list_offsets(asked, request_timeout=1.0).values()]
                return offsets == [-1001, -1001, -1001]

            wait_for("list_offsets answers -1001 without an error", silently_wrong, deadline_s=10)
            questions: list[Callable[[], object]] = [
                lambda: cluster.end_offsets(orders, "read_uncommitted"),
                lambda: cluster.newest_timestamps(orders, "read_uncommitted"),
                lambda: cluster.committed(group, orders),
                lambda: cluster.commit_offsets(group, dict.fromkeys(orders, CommittedOffset(1))),
                lambda: cluster.describe_group(group),
                lambda: cluster.describe(TopicList(("orders",))),
                lambda: cluster.ends_of_epochs({tp: end.leader_epoch or 0 for tp, end in ends.items()}),
                lambda: cluster.first_times(dict.fromkeys(orders, 0), "read_committed"),
            ]
            for question in questions:
                began = time.monotonic()
                with pytest.raises(ClusterUnavailable, match=fragile.bootstrap_servers) as unavailable:
                    question()
                assert unavailable.value.retriable
                assert time.monotonic() - began < 6.0
        finally:
            fragile.resume()
            wait_until_let_in(fragile)
        assert cluster.end_offsets(orders, "read_uncommitted")[orders[0]].offset == 4


def test_one_cluster_object_survives_a_restart_of_the_broker_and_sees_the_earlier_epoch_end(
    fragile: KafkaBroker, group: str
) -> None:
    """The first commit to a coordinator that loads is answered by an error, and is repeated."""
    orders = tps("orders")
    with KafkaCluster(fragile.client_config, deadline_s=30.0) as cluster:
        commits = {tp: CommittedOffset(tp.partition, 0, "before") for tp in orders}
        before = cluster.end_offsets(orders, "read_committed")
        cluster.commit_offsets(group, commits)
        fragile.kill()
        fragile.start()
        fragile.produce("orders", [(0, None, b"x", None)] * 3)
        now = cluster.end_offsets(orders, "read_committed")
        assert cluster.committed(group, orders) == commits
        cluster.commit_offsets(group, dict.fromkeys(orders, CommittedOffset(4)))
        assert cluster.committed(group, orders) == dict.fromkeys(orders, CommittedOffset(4))
        earlier, later = ({tp: end.leader_epoch or 0 for tp, end in ends.items()} for ends in (before, now))
        assert all(later[tp] > earlier[tp] for tp in orders)
        assert cluster.ends_of_epochs(earlier) == dict(zip(orders, (4, 0, 0), strict=True))
        assert cluster.ends_of_epochs(later) == dict(zip(orders, (7, 0, 0), strict=True))
