"""Reads and writes of a group's offsets while its coordinator refuses, loads, hangs, or answers in part.

The faults are made at the socket, so that librdkafka is the real one: what it hides of an answer is what is hard here.
Each naive call stands beside ours where it is silently wrong or ends the process.
"""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.group_offsets import GROUP_CHUNK
from airflow_kafka_offsets.errors import ClusterUnavailable, GroupActive, InvalidRequest
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.plan.commit_metadata import CommitMetadata
from airflow_kafka_offsets.request.subscription import MAX_GROUP_ID_BYTES, group_id_problem
from benchmarks.floor import Floor
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
    """The settings of a client whose requests go through the proxy, where they are told from others' by its name."""
    return {"bootstrap.servers": proxy.bootstrap_servers, "client.id": "committer"}


def tps(topic: str, count: int = 3) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def all_at(topic: str, offset: int, metadata: str = "") -> dict[TopicPartition, CommittedOffset]:
    return dict.fromkeys(tps(topic), CommittedOffset(offset, 0, metadata))


# ── a coordinator that does not take a commit ─────────────────────────────────────────────────────────────────────────


def refuse_commit(code: int) -> Deed:
    """Answer an OffsetCommit (version 9) with ``code`` beside each partition; the broker never sees it."""

    def deed(exchange: Exchange) -> bytes:
        topics = commit_request(exchange.request)
        answer = exchange.request[4:8] + b"\0" + struct.pack(">i", 0) + varint(len(topics) + 1)
        for name, numbers in topics.items():
            answer += varint(len(name) + 1) + name + varint(len(numbers) + 1)
            answer += b"".join(struct.pack(">ih", number, code) + b"\0" for number in numbers) + b"\0"
        return answer + b"\0"

    return deed


def commit_request(request: bytes) -> dict[bytes, list[int]]:
    """The partitions of an OffsetCommit of one, in its version 9: the shape of each is of a fixed size but two."""
    (version,) = struct.unpack_from(">h", request, 2)
    assert version == 9, f"OffsetCommit v{version} is not known here"
    at = 10 + struct.unpack_from(">h", request, 8)[0] + 1  # the header: …, client id, tags

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = request[at]
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
    """A broker answers like this right after its start, and not at will. librdkafka itself sends it three times."""
    deed = refuse_commit(kafka_answers.COORDINATOR_LOAD_IN_PROGRESS)
    rule = proxy.arm("loading", Moment("committer", OFFSET_COMMIT), deed, times=4)
    with KafkaCluster(committer) as cluster:
        cluster.commit_offsets(group, all_at(orders, 3, "mark"))
        assert rule.proof()
        assert (len(rule.fired), rule.seen) == (4, 5)
        assert cluster.committed(group, tps(orders)) == all_at(orders, 3, "mark")


def test_a_commit_that_is_never_taken_names_each_partition(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    deed = refuse_commit(kafka_answers.COORDINATOR_LOAD_IN_PROGRESS)
    rule = proxy.arm("loading", Moment("committer", OFFSET_COMMIT), deed, times=ALWAYS)
    with KafkaCluster(committer, deadline_s=2.0) as cluster:
        with pytest.raises(ClusterUnavailable, match="COORDINATOR_LOAD_IN_PROGRESS") as unavailable:
            cluster.commit_offsets(group, all_at(orders, 3))
        assert rule.proof()
        assert all(str(tp) in str(unavailable.value) for tp in tps(orders))
        assert unavailable.value.retriable
        assert cluster.committed(group, tps(orders)) == {}


def test_a_commit_under_which_the_broker_falls_silent_ends_at_the_deadline_and_is_not_sent_afterwards(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    """``Consumer.close()`` would not return, and librdkafka would send the commit for as long as its client lives."""

    def fall_silent(exchange: Exchange) -> None:
        proxy.arm(
            "nobody is let in again", Moment("committer", kafka_proxy.API_VERSIONS), kafka_proxy.hang, times=ALWAYS
        )
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
    assert all(str(tp) in str(ended[0]) for tp in tps(orders))
    assert rule.proof()
    with KafkaCluster({**committer, "client.id": "reader"}) as cluster:
        wait_for("each client that sent one is gone", lambda: len(rule.fired) == rule.seen, deadline_s=2.0)
        assert cluster.committed(group, tps(orders)) == {}


def test_members_that_cannot_be_told_are_members_all_the_same(
    broker: KafkaBroker, proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    for key in (kafka_proxy.DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE):
        proxy.arm("never answered", Moment("committer", key), kafka_proxy.hang, times=ALWAYS)
    with (
        RealHands(broker).live_member(group, orders),
        KafkaCluster(committer, deadline_s=2.0, attempt_s=1.0) as cluster,
        pytest.raises(GroupActive, match="in use"),
    ):
        cluster.commit_offsets(group, all_at(orders, 3))


# ── a commit that arrives in part ─────────────────────────────────────────────────────────────────────────────────────


def test_librdkafka_gives_a_written_partition_the_error_of_another_one(
    broker: KafkaBroker, orders: str, group: str
) -> None:
    """Why the group is asked what it has. If this fails, the second question can go."""
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
    """An unknown partition may be there in a moment, so it is tried until the deadline; the others are done."""
    requests: list[dict[bytes, list[int]]] = []

    def look(exchange: Exchange) -> bytes:
        requests.append(commit_request(exchange.request))
        return exchange.forward()

    proxy.arm("seen", Moment("committer", OFFSET_COMMIT), look, times=ALWAYS)
    missing = TopicPartition(orders, 7)
    with KafkaCluster(committer, deadline_s=2.0) as cluster:
        with pytest.raises(ClusterUnavailable, match="UNKNOWN_TOPIC_OR_PART") as unavailable:
            cluster.commit_offsets(group, {**all_at(orders, 3), missing: CommittedOffset(1)})
        assert str(missing) in str(unavailable.value)
        assert str(tps(orders)[0]) not in str(unavailable.value)
        assert cluster.committed(group, tps(orders)) == all_at(orders, 3)
    name = orders.encode()
    assert requests[0] == {name: [0, 1, 2, 7]}
    assert requests[1:]
    assert all(request == {name: [7]} for request in requests[1:]), requests


def test_a_refusal_for_good_names_the_partition_that_has_it_and_no_other(
    broker: KafkaBroker, orders: str, group: str
) -> None:
    first, *others = tps(orders)
    offsets = {**all_at(orders, 3), others[-1]: CommittedOffset(3, 0, "x" * 5_000)}
    with KafkaCluster(broker.client_config) as cluster:
        with pytest.raises(ClusterUnavailable, match=r"OFFSET_METADATA_TOO_LARGE|etadata") as unavailable:
            cluster.commit_offsets(group, offsets)
        assert str(others[-1]) in str(unavailable.value)
        assert str(first) not in str(unavailable.value)
        assert cluster.committed(group, tps(orders)) == {tp: offsets[tp] for tp in (first, *others[:-1])}


def test_what_arrived_although_it_was_refused_is_not_written_again(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    """After librdkafka's own three; the retry finds that the group has it."""
    refuse = refuse_commit(kafka_answers.COORDINATOR_LOAD_IN_PROGRESS)

    def deny(exchange: Exchange) -> bytes | None:
        exchange.forward()
        return refuse(exchange)

    rule = proxy.arm("written and denied", Moment("committer", OFFSET_COMMIT), deny, times=ALWAYS)
    with KafkaCluster(committer) as cluster:
        cluster.commit_offsets(group, all_at(orders, 3))
        assert rule.proof()
        assert rule.seen == 3
        assert cluster.committed(group, tps(orders)) == all_at(orders, 3)


# ── a coordinator that does not answer a read ─────────────────────────────────────────────────────────────────────────


def test_a_read_that_a_loading_coordinator_refuses_says_so_at_the_deadline(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    """librdkafka repeats it until the call is over, and then says "timed out"."""
    deed = kafka_proxy.changed(kafka_answers.offset_fetch_error(kafka_answers.COORDINATOR_LOAD_IN_PROGRESS))
    rule = proxy.arm("loading", Moment("committer", OFFSET_FETCH), deed, times=ALWAYS)
    with (
        KafkaCluster(committer, deadline_s=2.0, attempt_s=1.0) as cluster,
        pytest.raises(ClusterUnavailable, match="oordinator load in progress") as unavailable,
    ):
        cluster.committed(group, tps(orders))
    assert rule.proof()
    assert unavailable.value.retriable
    assert str(tps(orders)[0]) in str(unavailable.value)


def test_a_read_that_is_never_answered_is_asked_again_by_a_new_client(
    proxy: KafkaProxy, committer: dict[str, Any], orders: str, group: str
) -> None:
    rule = proxy.arm("never answered", Moment("committer", OFFSET_FETCH), kafka_proxy.hang)
    with KafkaCluster(committer, attempt_s=1.0) as cluster:
        assert cluster.committed(group, tps(orders)) == {}
        rule.wait(5.0)


def test_an_error_of_the_whole_answer_names_the_topic_that_has_it(
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
        assert all(str(tp) in str(unavailable.value) for tp in tps(bad, 2))
        assert good not in str(unavailable.value)
        assert cluster.committed(group, tps(good, 2)) == {}


def test_an_error_of_one_partition_is_not_taken_for_nothing_stored(
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
        assert str(tps(orders)[1]) in str(unavailable.value)


def test_many_partitions_go_out_in_chunks(
    broker: KafkaBroker, proxy: KafkaProxy, committer: dict[str, Any], topic: Callable[..., str], group: str
) -> None:
    """librdkafka's cost grows with the square of the partitions in one call. (10,000 are as many calls more.)"""
    many = 2 * GROUP_CHUNK + 1
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
    with KafkaCluster(broker.client_config) as cluster:
        assert cluster.all_committed(group) == commits
    broker.delete_topic(wide)


def test_what_another_client_wrote_beside_an_offset_is_no_error_and_no_mark(broker: KafkaBroker, group: str) -> None:
    """librdkafka hands over the metadata without an end: what comes after it in memory is read, too."""
    topic = f"wide-{group}"
    broker.create_topic(topic, 200)
    tps = [TopicPartition(topic, number) for number in range(200)]
    with Floor(broker.bootstrap_servers) as java_s_client, KafkaCluster(broker.client_config) as cluster:
        for size in range(1, 60):
            java_s_client.commit(group, dict.fromkeys(tps, 7), "é" * size)
            held = cluster.committed(group, tps)
            assert {commit.offset for commit in held.values()} == {7}
            assert not any(map(CommitMetadata.of, held.values()))


def test_everything_that_a_group_holds_is_found_without_being_asked_for_by_name(
    broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    first, second, gone = topic(2), topic(1), topic(1)
    with KafkaCluster(broker.client_config) as cluster:
        assert cluster.all_committed(group) == {}
        held = {TopicPartition(first, 1): CommittedOffset(4, 2, "mark"), TopicPartition(second, 0): CommittedOffset(0)}
        cluster.commit_offsets(group, {**held, TopicPartition(gone, 0): CommittedOffset(1)})
        cluster.commit_offsets(f"{group}-other", {TopicPartition(first, 0): CommittedOffset(9)})
        broker.delete_topic(gone)
        assert cluster.all_committed(group) == held


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["", "  ", "a\ud800"], ids=["empty", "spaces", "lone surrogate"])
def test_a_name_that_ends_the_process_is_refused(broker: KafkaBroker, orders: str, name: str) -> None:
    script = f"from confluent_kafka import Consumer; Consumer({{'group.id': {name!r}, 'bootstrap.servers': 'x'}})"
    naive = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert naive.returncode == -signal.SIGABRT, naive.stderr
    refuses(broker, name, orders)


@pytest.mark.parametrize("name", [" group", "\tgroup", "group\0more"])
def test_a_name_that_is_another_groups_for_librdkafka_is_refused(broker: KafkaBroker, orders: str, name: str) -> None:
    refuses(broker, name, orders)


def test_a_name_longer_than_kafka_takes_is_refused(broker: KafkaBroker, orders: str) -> None:
    """The broker closes the connection, and every call waits until the deadline."""
    naive = Consumer({**broker.client_config, "group.id": "x" * 32_768}, logger=quiet)
    with pytest.raises(KafkaException, match="Timed out"):
        naive.committed([KafkaTopicPartition(orders, 0)], 1.0)
    refuses(broker, "x" * (MAX_GROUP_ID_BYTES + 1), orders)
    refuses(broker, "ü" * (MAX_GROUP_ID_BYTES // 2 + 1), orders)


@pytest.mark.parametrize("name", ["größe", "組織", "a\tb", "a b"])
def test_letters_of_any_kind_will_do(broker: KafkaBroker, orders: str, group: str, name: str) -> None:
    name = f"{group}{name}"
    with KafkaCluster(broker.client_config) as cluster:
        assert cluster.committed(name, tps(orders)) == {}
        cluster.commit_offsets(name, all_at(orders, 3))
        assert cluster.committed(name, tps(orders)) == cluster.all_committed(name) == all_at(orders, 3)
        assert cluster.describe_group(name).state == "Empty"
    assert group_id_problem(name) is None


def test_the_longest_name_is_taken(broker: KafkaBroker, orders: str) -> None:
    name = "x" * MAX_GROUP_ID_BYTES
    with KafkaCluster(broker.client_config) as cluster:
        cluster.commit_offsets(name, all_at(orders, 3))
        assert cluster.committed(name, tps(orders)) == all_at(orders, 3)
        assert cluster.describe_group(name).state == "Empty"
        RealHands(broker).expire(name)


@pytest.mark.parametrize("name", ["a", "a b", "team.orders-v2_1/x:y ", "~" * MAX_GROUP_ID_BYTES])
def test_a_name_that_works_has_no_problem(name: str) -> None:
    assert group_id_problem(name) is None


def refuses(broker: KafkaBroker, name: str, topic: str) -> None:
    """Before anything is sent: the broker of this client is not there."""
    with KafkaCluster({"bootstrap.servers": "127.0.0.1:1"}) as nobody:
        questions: list[Callable[[], Any]] = [
            lambda: nobody.commit_offsets(name, all_at(topic, 3)),
            lambda: nobody.committed(name, tps(topic)),
            lambda: nobody.describe_group(name),
            lambda: nobody.all_committed(name),
        ]
        for question in questions:
            with pytest.raises(InvalidRequest, match="group_id"):
                question()
