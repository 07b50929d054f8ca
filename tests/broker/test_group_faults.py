"""A group is read and written while its coordinator refuses, loads, hangs, or answers in part.

The faults are made at the socket, so that librdkafka is the real one: what it hides of an answer is what is hard here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.partition_errors import CHUNK
from airflow_kafka_offsets.errors import ClusterUnavailable, GroupActive
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from testbed import kafka_answers, kafka_proxy
from testbed.broker import KafkaBroker
from testbed.kafka_proxy import OFFSET_COMMIT, OFFSET_FETCH, Deed, Exchange, KafkaProxy, Moment
from testbed.topics import quiet, wait_for
from tests.cluster.real import RealHands

ALWAYS = 10**6
CONSUMER_GROUP_DESCRIBE = 69


@pytest.fixture
def orders(topic: Callable[..., str]) -> str:
    return topic(3, prefix="orders")


@pytest.fixture
def committer(proxy: KafkaProxy) -> dict[str, Any]:
    """A client whose requests go through the proxy, where its name tells them from others'."""
    return {"bootstrap.servers": proxy.bootstrap_servers, "client.id": "committer"}


def tps(topic: str, count: int = 3) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def all_at(topic: str, offset: int, metadata: str = "") -> dict[TopicPartition, CommittedOffset]:
    return dict.fromkeys(tps(topic), CommittedOffset(offset, 0, metadata))


# ── a commit ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def refuse_commit(code: int) -> Deed:
    """Answer an OffsetCommit (version 9) with ``code`` for each partition; the broker never sees it."""

    def deed(exchange: Exchange) -> bytes:
        topics = partitions_of_commit(exchange.request)
        answer = exchange.request[4:8] + b"\0" + struct.pack(">i", 0) + varint(len(topics) + 1)
        for name, numbers in topics.items():
            answer += varint(len(name) + 1) + name + varint(len(numbers) + 1)
            answer += b"".join(struct.pack(">ih", number, code) + b"\0" for number in numbers) + b"\0"
        return answer + b"\0"

    return deed


def partitions_of_commit(request: bytes) -> dict[bytes, list[int]]:
    """The partitions of an OffsetCommit, version 9."""
    (version,) = struct.unpack_from(">h", request, 2)
    assert version == 9, f"OffsetCommit v{version} is not known here"
    at = 10 + struct.unpack_from(">h", request, 8)[0] + 1  # the header: …, client id, tags

    def number() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            byte: int = request[at]
            value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
            if not byte & 0x80:
                return value

    def text() -> bytes:
        nonlocal at
        length = max(number() - 1, 0)
        at += length
        return request[at - length : at]

    text()  # group
    at += 4  # generation
    text(), text()  # member, instance
    topics: dict[bytes, list[int]] = {}
    for _ in range(number() - 1):
        partitions = topics.setdefault(text(), [])
        for _ in range(number() - 1):
            partitions.append(struct.unpack_from(">i", request, at)[0])
            at += 4 + 8 + 4  # index, offset, epoch
            text()  # metadata
            at += 1  # tags
        at += 1
    return topics


def varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def test_a_commit_that_a_loading_coordinator_refuses_is_repeated(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    deed = refuse_commit(kafka_answers.COORDINATOR_LOAD_IN_PROGRESS)
    rule = proxy.arm("loading", Moment("committer", OFFSET_COMMIT), deed, times=4)  # three of them by librdkafka itself
    with KafkaCluster(committer) as cluster:
        cluster.commit_offsets(group, all_at(orders, 3, "mark"))
        assert rule.proof()
        assert cluster.committed(group, tps(orders)) == all_at(orders, 3, "mark")


def test_a_commit_that_is_never_accepted_names_each_partition_at_the_deadline(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    deed = refuse_commit(kafka_answers.COORDINATOR_LOAD_IN_PROGRESS)
    rule = proxy.arm("loading", Moment("committer", OFFSET_COMMIT), deed, times=ALWAYS)
    with KafkaCluster(committer, deadline_s=2.0) as cluster:
        with pytest.raises(ClusterUnavailable, match="COORDINATOR_LOAD_IN_PROGRESS") as unavailable:
            cluster.commit_offsets(group, all_at(orders, 3))
        assert rule.proof()
        assert set(unavailable.value.unanswered) == set(tps(orders))
        assert unavailable.value.retriable
        assert cluster.committed(group, tps(orders)) == {}


def test_a_commit_under_which_the_broker_falls_silent_ends_at_the_deadline_and_is_not_sent_afterwards(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    """``Consumer.close()`` would not return, and librdkafka would send the commit for as long as its client lives."""

    def fall_silent(exchange: Exchange) -> None:
        proxy.arm("no client is let in", Moment("committer", kafka_proxy.API_VERSIONS), kafka_proxy.hang, times=ALWAYS)
        kafka_proxy.hang(exchange)

    rule = proxy.arm("never answered", Moment("committer", OFFSET_COMMIT), fall_silent, times=ALWAYS)
    ended: list[ClusterUnavailable] = []

    def write() -> None:
        with (
            KafkaCluster(committer, deadline_s=3.0, attempt_s=1.0) as cluster,
            pytest.raises(ClusterUnavailable, match="within") as unavailable,
        ):
            cluster.commit_offsets(group, all_at(orders, 3))
        ended.append(unavailable.value)

    thread = Thread(target=write, daemon=True)
    thread.start()
    thread.join(12.0)
    proxy.disarm()
    assert ended, "it is still waiting"
    assert ended[0].retriable
    assert set(ended[0].unanswered) == set(tps(orders))
    assert rule.proof()
    with KafkaCluster({**committer, "client.id": "reader"}) as cluster:
        wait_for("each client that sent one is gone", lambda: len(rule.fired) == rule.seen, deadline_s=2.0)
        assert cluster.committed(group, tps(orders)) == {}


def test_members_that_the_broker_does_not_describe_are_members_all_the_same(
    broker: KafkaBroker, proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    for key in (kafka_proxy.DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE):
        proxy.arm("never answered", Moment("committer", key), kafka_proxy.hang, times=ALWAYS)
    with (
        RealHands(broker).live_member(group, orders, protocol="consumer"),
        KafkaCluster(committer, deadline_s=2.0) as cluster,
        pytest.raises(GroupActive, match="in use"),
    ):
        cluster.commit_offsets(group, all_at(orders, 3))


def test_librdkafka_gives_a_written_partition_the_error_of_another_one(
    broker: KafkaBroker, orders: str, group: str
) -> None:
    """Why the group is read after a refusal. If this fails, the second question can go."""
    answers: list[Any] = []
    settings = {"group.id": group, "on_commit": lambda error, found: answers.append(found)}
    naive = Consumer({**broker.client_config, **settings}, logger=quiet)
    naive.commit(
        offsets=[KafkaTopicPartition(orders, 0, 5), KafkaTopicPartition(f"{orders}-gone", 0, 5)], asynchronous=True
    )
    wait_for("on_commit was called", lambda: naive.poll(0.02) is None and bool(answers))
    assert [found.error is None for found in answers[0]] == [False, False]
    with KafkaCluster(broker.client_config) as cluster:
        assert cluster.committed(group, tps(orders)) == {TopicPartition(orders, 0): CommittedOffset(5)}


def test_what_was_written_beside_a_refused_partition_is_not_written_again(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    """An unknown partition may exist in a moment, so it is tried until the deadline; the others are done."""
    requests: list[dict[bytes, list[int]]] = []

    def look(exchange: Exchange) -> bytes:
        requests.append(partitions_of_commit(exchange.request))
        return exchange.forward()

    proxy.arm("seen", Moment("committer", OFFSET_COMMIT), look, times=ALWAYS)
    missing = TopicPartition(orders, 7)
    with KafkaCluster(committer, deadline_s=2.0) as cluster:
        with pytest.raises(ClusterUnavailable, match="UNKNOWN_TOPIC_OR_PART") as unavailable:
            cluster.commit_offsets(group, {**all_at(orders, 3), missing: CommittedOffset(1)})
        assert set(unavailable.value.unanswered) == {missing}
        assert cluster.committed(group, tps(orders)) == all_at(orders, 3)
    name = orders.encode()
    assert requests[0] == {name: [0, 1, 2, 7]}
    assert requests[1:]
    assert all(request == {name: [7]} for request in requests[1:]), requests


def test_what_was_written_although_it_was_refused_is_not_written_again(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    refuse = refuse_commit(kafka_answers.COORDINATOR_LOAD_IN_PROGRESS)

    def deny(exchange: Exchange) -> bytes | None:
        exchange.forward()
        return refuse(exchange)

    rule = proxy.arm("written and denied", Moment("committer", OFFSET_COMMIT), deny, times=ALWAYS)
    with KafkaCluster(committer) as cluster:
        cluster.commit_offsets(group, all_at(orders, 3))
        assert rule.proof()
        assert rule.seen == 3, "librdkafka's own; then the retry finds the offsets in the group"
        assert cluster.committed(group, tps(orders)) == all_at(orders, 3)


def test_offsets_that_have_not_changed_are_committed_again(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    """Each partition's offset expires offsets.retention.minutes after its own commit (KIP-211)."""
    with KafkaCluster(committer) as cluster:
        cluster.commit_offsets(group, all_at(orders, 3, "mark"))
        requests: list[dict[bytes, list[int]]] = []

        def seen(exchange: Exchange) -> bytes:
            requests.append(partitions_of_commit(exchange.request))
            return exchange.forward()

        proxy.arm("seen", Moment("committer", OFFSET_COMMIT), seen, times=ALWAYS)
        cluster.commit_offsets(group, all_at(orders, 3, "mark"))
    assert requests == [{orders.encode(): [0, 1, 2]}]


# ── a read ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_read_that_a_loading_coordinator_refuses_ends_at_the_deadline(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    deed = kafka_proxy.changed(kafka_answers.offset_fetch_error(kafka_answers.COORDINATOR_LOAD_IN_PROGRESS))
    rule = proxy.arm("loading", Moment("committer", OFFSET_FETCH), deed, times=ALWAYS)
    with (
        KafkaCluster(committer, deadline_s=2.0) as cluster,
        pytest.raises(ClusterUnavailable, match=r"read offsets of group .* within 2 s") as unavailable,
    ):
        cluster.committed(group, tps(orders))
    assert rule.proof()
    assert unavailable.value.retriable
    assert set(unavailable.value.unanswered) == set(tps(orders))


def test_a_read_that_is_never_answered_is_asked_again_by_a_new_client(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    rule = proxy.arm("never answered", Moment("committer", OFFSET_FETCH), kafka_proxy.hang)
    with KafkaCluster(committer, attempt_s=1.0) as cluster:
        assert cluster.committed(group, tps(orders)) == {}
        rule.wait(5.0)


def test_an_error_of_the_whole_answer_names_only_the_partitions_that_have_it(
    proxy: KafkaProxy, committer: dict[str, Any], topic: Callable[..., str], group: str
) -> None:
    good, bad = topic(2, prefix="good"), topic(2, prefix="bad")

    def spoil(exchange: Exchange) -> bytes:
        answer = exchange.forward()
        if bad.encode() not in exchange.request:
            return answer
        return kafka_answers.offset_fetch_error(kafka_answers.UNKNOWN_SERVER_ERROR)(exchange.version, answer)

    proxy.arm("spoilt", Moment("committer", OFFSET_FETCH), spoil, times=ALWAYS)
    with KafkaCluster(committer) as cluster:
        with pytest.raises(ClusterUnavailable, match="UNKNOWN") as unavailable:
            cluster.committed(group, [*tps(good, 2), *tps(bad, 2)])
        assert not unavailable.value.retriable
        assert all(str(tp) in unavailable.value.reason for tp in tps(bad, 2))
        assert good not in unavailable.value.reason


def test_an_error_of_one_partition_is_not_taken_for_no_offset(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    deed = kafka_proxy.changed(
        kafka_answers.offset_fetch_partition_error(orders, 1, kafka_answers.UNKNOWN_SERVER_ERROR)
    )
    with KafkaCluster(committer) as cluster:
        cluster.commit_offsets(group, all_at(orders, 3))
        rule = proxy.arm("spoilt", Moment("committer", OFFSET_FETCH), deed, times=ALWAYS)
        with pytest.raises(ClusterUnavailable) as unavailable:
            cluster.committed(group, tps(orders))
        assert rule.proof()
        assert str(tps(orders)[1]) in unavailable.value.reason
        assert str(tps(orders)[0]) not in unavailable.value.reason


def test_one_pending_commit_among_many_partitions_is_named_alone(
    broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    """librdkafka holds back the answer of its whole chunk."""
    wide = topic(CHUNK + 20)
    pending = TopicPartition(wide, 123)
    transaction = RealHands(broker).begin_transaction()
    transaction.produce(pending, [1])
    with KafkaCluster(broker.client_config, deadline_s=8.0, attempt_s=1.0) as cluster:
        cluster.commit_offsets(group, dict.fromkeys(tps(wide, CHUNK + 20), CommittedOffset(1)))
        transaction.send_offsets(group, {pending: 5})
        with pytest.raises(ClusterUnavailable, match="UNSTABLE_OFFSET_COMMIT") as unavailable:
            cluster.committed(group, tps(wide, CHUNK + 20))
        assert set(unavailable.value.unanswered) == {pending}
    transaction.abort()
    broker.delete_topic(wide)


def test_many_partitions_go_out_in_chunks(
    broker: KafkaBroker, proxy: KafkaProxy, committer: dict[str, Any], topic: Callable[..., str], group: str
) -> None:
    many = 2 * CHUNK + 1
    wide = topic(many)
    commits = {tp: CommittedOffset(tp.partition, 0, f"n={tp.partition}") for tp in tps(wide, many)}
    seen = {
        key: proxy.arm("counted", Moment("committer", key), kafka_proxy.before(lambda: None), times=ALWAYS)
        for key in (OFFSET_FETCH, OFFSET_COMMIT)
    }
    with KafkaCluster(committer) as cluster:
        cluster.commit_offsets(group, commits)
        assert (seen[OFFSET_FETCH].seen, seen[OFFSET_COMMIT].seen) == (1, 3)
        assert cluster.committed(group, commits) == commits
        assert (seen[OFFSET_FETCH].seen, seen[OFFSET_COMMIT].seen) == (4, 3)
    broker.delete_topic(wide)
