"""Rules L, B15 and D16: answers of a cluster that give no offset; a client with a script stands in for librdkafka's."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from airflow_kafka_offsets.broker import connection, group_offsets, lookups
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import ClusterUnavailable, NotAuthorized
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.request.subscription import TopicList
from airflow_kafka_offsets.stores.local import LocalStore
from testbed.broker import KafkaBroker
from testbed.topics import DEADLINE_S
from tests.conformance.conftest import Site
from tests.conformance.pipeline import Pipeline, Wrapped, ranges
from tests.conformance.situations import EARLIEST, at, specific

ORDERS = TopicPartition("orders", 0)


def resolved(outcome: Any) -> Future[Any]:
    """``outcome``: an error's code, or what the future gives."""
    future: Future[Any] = Future()
    if isinstance(outcome, int):
        future.set_exception(KafkaException(KafkaError(outcome)))
    else:
        future.set_result(outcome)
    return future


class Scripted:
    """An admin client whose answers are given; the last one stays."""

    answers: list[Any] = []  # noqa: RUF012 - one script at a time
    asked = 0

    def __init__(self, _config: object, **_: object) -> None: ...

    def poll(self, _timeout: float) -> int:
        return 0

    def describe_cluster(self, **_: object) -> Future[Any]:
        return resolved(SimpleNamespace(cluster_id="c"))

    def list_topics(self, *_: object, **__: object) -> object:
        partition = SimpleNamespace(leader=-1)
        topic = SimpleNamespace(error=None, partitions={0: partition})
        return SimpleNamespace(cluster_id="c", topics={"orders": topic})

    def _next(self) -> Any:
        Scripted.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def list_offsets(self, asked: dict[Any, Any], **_: object) -> dict[Any, Future[Any]]:
        answer = self._next()
        return {tp: resolved(answer) for tp in asked}

    def describe_topics(self, asked: Any, **_: object) -> dict[str, Future[Any]]:
        return {"orders": resolved(self._next())}


class ScriptedLookUps(Scripted):
    """The same of the consumer that looks up offsets."""

    is_connected = True

    def poll(self, _timeout: float) -> None:  # type: ignore[override]
        return None

    def offsets_for_times(self, asked: list[KafkaTopicPartition], **_: object) -> list[Any]:
        answer = self._next()
        if isinstance(answer, int):  # librdkafka leaves the question in the place of the answer
            error = KafkaError(answer)
            return [SimpleNamespace(offset=tp.offset, leader_epoch=None, error=error) for tp in asked]
        return [answer for _ in asked]


class ScriptedGroup(Scripted):
    """The same of the consumer that a group's offsets are read by."""

    def poll(self, _timeout: float) -> None:  # type: ignore[override]
        return None

    def committed(self, asked: list[KafkaTopicPartition], _timeout: float) -> Any:
        answer = self._next()
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``scripted(answers…)`` is a cluster that gives them one after the other."""
    monkeypatch.setattr(connection, "AdminClient", Scripted)
    monkeypatch.setattr(lookups, "LookUpClient", ScriptedLookUps)
    monkeypatch.setattr(group_offsets, "GroupClient", ScriptedGroup)
    monkeypatch.setattr(Scripted, "asked", 0)

    def cluster(*answers: Any) -> KafkaCluster:
        monkeypatch.setattr(Scripted, "answers", list(answers))
        return KafkaCluster({"bootstrap.servers": "kafka:9092"}, deadline_s=0.5, attempt_s=0.2, first_contact_s=0.2)

    return cluster


def offset(value: int, epoch: int | None = 0) -> object:
    return SimpleNamespace(offset=value, leader_epoch=epoch, error=None)


LATER = [
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
]


@pytest.mark.parametrize("error", LATER, ids=lambda code: str(KafkaError(code).name()))
def test_B15_L6_a_leader_that_cannot_answer_yet_is_asked_again(error: int, scripted: Any) -> None:
    cluster = scripted(error, offset(7))
    assert cluster.log_start_offsets([ORDERS]) == {ORDERS: 7}
    assert Scripted.asked == 2


def test_a_bootstrap_server_that_gives_way_to_a_broker_is_asked_again(scripted: Any) -> None:
    """librdkafka drops its handle of the address once the cluster has told its brokers, and what was asked there."""
    leader = SimpleNamespace(id=1)
    partition = SimpleNamespace(id=0, leader=leader)
    topic = SimpleNamespace(topic_id="A" * 22, is_internal=False, partitions=[partition])
    cluster = scripted(KafkaError._DESTROY_BROKER, topic)
    assert cluster.describe(TopicList(("orders",))).partitions() == [ORDERS]
    assert Scripted.asked == 2


def test_L6_L7_one_that_never_answers_is_named_at_the_deadline(scripted: Any) -> None:
    with pytest.raises(ClusterUnavailable, match=r"kafka:9092.*within 0.5 s.*orders\[0\]: it has no leader") as caught:
        scripted(KafkaError.LEADER_NOT_AVAILABLE).end_offsets([ORDERS], "read_committed")
    assert caught.value.retriable


def test_L8_a_missing_answer_is_never_taken_for_an_offset(scripted: Any) -> None:
    """librdkafka gives -1001 without an error where nobody answered in time, or what it was asked."""
    with pytest.raises(ClusterUnavailable, match=r"orders\[0\]"):
        scripted(offset(-1001)).end_offsets([ORDERS], "read_uncommitted")
    with pytest.raises(ClusterUnavailable, match=r"orders\[0\]"):
        scripted(offset(-1001)).offsets_for_times({ORDERS: at(0)}, "read_uncommitted")
    with pytest.raises(ClusterUnavailable, match=r"orders\[0\]"):
        scripted(offset(at(0), epoch=None)).offsets_for_times({ORDERS: at(0)}, "read_uncommitted")
    with pytest.raises(ClusterUnavailable, match=r"orders\[0\]"):
        scripted(offset(-1001)).newest_timestamps([ORDERS], "read_uncommitted")


@pytest.mark.parametrize(
    "error",
    [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE],
    ids=lambda code: str(KafkaError(code).name()),
)
def test_L5_a_coordinator_that_loads_or_moves_is_asked_again(error: int, scripted: Any) -> None:
    held = SimpleNamespace(topic="orders", partition=0, offset=7, leader_epoch=3, metadata="m", error=None)
    cluster = scripted(error, [held])
    assert cluster.committed("g", [ORDERS]) == {ORDERS: CommittedOffset(7, 3, "m")}
    assert Scripted.asked == 2


def test_L2_a_topic_that_may_not_be_described_is_named_with_the_right(scripted: Any) -> None:
    with pytest.raises(NotAuthorized, match="Describe on topic orders"):
        scripted(KafkaError.TOPIC_AUTHORIZATION_FAILED).describe(TopicList(("orders",)))
    with pytest.raises(NotAuthorized, match=r"orders\[0\](.|\n)*Describe on topic orders"):
        scripted(KafkaError.TOPIC_AUTHORIZATION_FAILED).log_start_offsets([ORDERS])
    assert Scripted.asked == 2, "waiting does not give a right"


def test_L3_a_group_that_may_not_be_read_is_named_with_the_right(scripted: Any) -> None:
    with pytest.raises(NotAuthorized, match=r"group 'g'(.|\n)*Describe on group g"):
        scripted(KafkaError.GROUP_AUTHORIZATION_FAILED).committed("g", [ORDERS])


class NoGroupRight(Wrapped):
    def committed(self, *_: object, **__: object) -> dict[TopicPartition, CommittedOffset]:
        raise NotAuthorized("Not allowed to read the group", "GROUP_AUTHORIZATION_FAILED", "Describe on group g")


@pytest.fixture
def without_right(memory_site: Site, store: LocalStore, group: str) -> Pipeline:
    """A pipeline whose client may not read the group."""
    memory_site.hands.create_topic("orders")
    memory_site.hands.produce(ORDERS, [at(0)] * 3)
    return Pipeline(NoGroupRight(memory_site.cluster), store, "orders", group, {})


def test_L3_without_the_right_to_read_the_group_a_mode_that_needs_no_commit_still_works(
    without_right: Pipeline,
) -> None:
    without_right.pipeline_id = None  # type: ignore[assignment]  # kafka-offsets plan
    plan = without_right.first(**EARLIEST)
    assert ranges(plan) == {0: (0, 3)}
    assert [w for w in plan.warnings if "cannot follow this plan: GROUP_AUTHORIZATION_FAILED" in w]


NEEDING = [
    {"auto_offset_reset": "earliest"},
    specific(p0=1),
    {**EARLIEST, "bounded_mode": "group-offsets"},
]


@pytest.mark.parametrize("needing", NEEDING, ids=lambda ask: "-".join(map(str, ask)))
@pytest.mark.parametrize("commit_mode", ["on-success", "checkpoint-only"])
def test_L3_a_plan_that_needs_a_commit_is_refused(
    needing: dict[str, Any], commit_mode: str, without_right: Pipeline
) -> None:
    with pytest.raises(NotAuthorized):
        without_right.first(**needing)
    with pytest.raises(NotAuthorized):
        without_right.next(**needing, commit_mode=commit_mode)


def test_L3_a_pipeline_whose_group_is_to_follow_is_refused_before_spark_works(without_right: Pipeline) -> None:
    with pytest.raises(NotAuthorized):
        without_right.next(**EARLIEST)
    assert without_right.log.newest() is None
    assert ranges(without_right.ends_well(**EARLIEST, commit_mode="checkpoint-only").plan) == {0: (0, 3)}


def test_L4_an_unknown_partition_is_an_error_that_names_it(site: Site, orders: str) -> None:
    """In memory at once; a broker is asked until the deadline, because a new partition is unknown for a moment."""
    site.hands.create_topic(orders)
    missing = TopicPartition(orders, 7)
    cluster: Any = site.cluster
    if isinstance(cluster, KafkaCluster):
        cluster = KafkaCluster({"bootstrap.servers": cluster.address}, deadline_s=1.0)
    with pytest.raises(ClusterUnavailable, match=rf"{orders}\[7\]"):
        cluster.log_start_offsets([TopicPartition(orders, 0), missing])


def test_L1_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = KafkaCluster({"bootstrap.servers": "127.0.0.1:1"}, first_contact_s=0.5)
    with pytest.raises(ClusterUnavailable, match=r"No Kafka broker answers at 127\.0\.0\.1:1"):
        nobody.describe(TopicList(("orders",)))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_D16_the_commits_of_both_group_protocols_are_read(
    protocol: str, broker: KafkaBroker, real_site: Site, orders: str, group: str
) -> None:
    real_site.hands.create_topic(orders)
    real_site.hands.produce(TopicPartition(orders, 0), [at(0)] * 5)
    consumer = Consumer(
        {
            **broker.client_config,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([orders])
        assert consumer.consume(1, DEADLINE_S)
        consumer.commit(offsets=[KafkaTopicPartition(orders, 0, 3)], asynchronous=False)
    finally:
        consumer.close()
    found = real_site.cluster.committed(group, [TopicPartition(orders, 0)])
    assert [commit.offset for commit in found.values()] == [3]
