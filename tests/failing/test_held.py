"""The only copy of a partition is on a broker that is gone: the others are read, and it keeps its position.

The policy ``unavailable`` on real brokers; ``tests/contract/test_held.py`` has each case in memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import ClusterUnavailable
from airflow_kafka_offsets.kafka_values import TopicPartition
from airflow_kafka_offsets.stores.local import LocalStore
from testbed.cache import Say
from testbed.java import Java
from testbed.three_brokers import ThreeBrokers
from testbed.topics import DEADLINE_S, wait_for
from tests.contract.pipeline import Pipeline
from tests.failing.timed import Timed

COPIES = [[1], [2], [3]]  # of each partition
HOLD = {"unavailable": "hold"}


@pytest.fixture
def topic(kafka: ThreeBrokers, group: str) -> Iterator[str]:
    name, admin = f"orders-{group}", kafka.admin()
    new = NewTopic(name, num_partitions=3, replica_assignment=COPIES, config={"min.insync.replicas": "1"})
    admin.create_topics([new])[name].result(DEADLINE_S)
    wait_for("each partition has a leader", lambda: leaders(kafka, name) == [1, 2, 3])
    yield name
    for broker in kafka.nodes.values():
        if not broker.is_running:
            broker.start()
    kafka.delete_topic(name)


def leaders(kafka: ThreeBrokers, topic: str) -> list[int]:
    """As each broker knows them that runs; none where they differ."""
    running = [broker for broker in kafka.nodes.values() if broker.is_running]
    topics = [broker.admin().list_topics(timeout=5.0).topics.get(topic) for broker in running]
    known = [[of.partitions[n].leader for n in sorted(of.partitions)] for of in topics if of]
    return known[0] if len(known) == len(running) and all(one == known[0] for one in known) else []


def produce(kafka: ThreeBrokers, topic: str, *partitions: int) -> None:
    kafka.produce(topic, [(partition, None, "x", None) for partition in partitions] * 10)


def test_F13_runs_go_on_without_it_and_read_it_when_its_broker_is_back(
    kafka: ThreeBrokers, topic: str, group: str, tmp_path: Path
) -> None:
    held = TopicPartition(topic, 1)
    produce(kafka, topic, 0, 1, 2)
    with KafkaCluster(kafka.client_config, deadline_s=8.0, attempt_s=2.0) as cluster:
        pipeline = Pipeline(Timed(cluster), LocalStore(tmp_path / "store"), topic, group)
        pipeline.run("one")
        before = pipeline.position.offsets[held]
        produce(kafka, topic, 0, 1, 2)
        planned = pipeline.resolve("two")
        assert planned.ranges == [(10, 20)] * 3

        kafka.nodes[2].kill()
        wait_for("nobody leads it", lambda: leaders(kafka, topic) == [1, -1, 3])

        with pytest.raises(ClusterUnavailable, match=r"\[1\]: it has no leader"):
            pipeline.resolve("two")
        second = pipeline.run("two", **HOLD)
        assert (second.batch_key, second.ranges) == (planned.batch_key, [(10, 20), (10, 10), (10, 20)])
        produce(kafka, topic, 0, 2)
        third = pipeline.run("three", **HOLD)
        assert third.ranges == [(20, 30), (10, 10), (20, 30)]
        assert [p.end_reason for p in third.plan.partitions] == ["latest", "held: it has no leader", "latest"]
        assert pipeline.position.offsets[held] == before
        assert pipeline.held() == pipeline.at() == {0: 30, 1: 10, 2: 30}

        kafka.nodes[2].start()
        wait_for("it has a leader", lambda: leaders(kafka, topic) == [1, 2, 3])
        assert pipeline.run("four").ranges == [(30, 30), (10, 20), (30, 30)]
        assert pipeline.lake.offsets() == {0: [*range(30)], 1: [*range(20)], 2: [*range(30)]}
        assert pipeline.held() == pipeline.at() == {0: 30, 1: 20, 2: 30}


@pytest.fixture
def patient(java: Java, say: Say) -> Iterator[ThreeBrokers]:
    """A cluster whose controller takes a broker that hangs for alive, as long as a test lasts."""
    with ThreeBrokers(config={"broker.session.timeout.ms": "300000"}, java=java, say=say) as cluster:
        yield cluster


def test_F17_a_leader_that_hangs_is_waited_for_once_and_named(
    patient: ThreeBrokers, group: str, tmp_path: Path
) -> None:
    """It is stopped (SIGSTOP): connections to it stand, and the cluster goes on to name it as the leader."""
    name, admin = f"orders-{group}", patient.admin()
    new = NewTopic(name, num_partitions=3, replica_assignment=COPIES, config={"min.insync.replicas": "1"})
    admin.create_topics([new])[name].result(DEADLINE_S)
    wait_for("each partition has a leader", lambda: leaders(patient, name) == [1, 2, 3])
    produce(patient, name, 0, 1, 2)
    with KafkaCluster(patient.client_config, deadline_s=12.0, attempt_s=1.0) as cluster:
        pipeline = Pipeline(Timed(cluster), LocalStore(tmp_path / "store"), name, group)
        pipeline.run("one")
        node = next(node for node in (2, 3, 1) if node not in (patient.coordinator(group), patient.controller()))
        held = TopicPartition(name, node - 1)
        before = pipeline.position.offsets[held]
        produce(patient, name, 0, 1, 2)

        patient.nodes[node].pause()
        with pytest.raises(ClusterUnavailable, match=f"its leader is broker {node} at "):
            pipeline.resolve("two")
        begun = time.monotonic()
        second = pipeline.resolve("two", **HOLD)
        took_s = time.monotonic() - begun
        patient.nodes[node].resume()  # a commit to the group waits for its copy there, up to replica.lag.time.max.ms
        second.done()

        [partition] = [p for p in second.plan.partitions if p.held]
        assert partition.topic_partition == held
        assert f"; its leader is broker {node} at " in partition.end_reason
        assert took_s < 2 * 12.0, "one deadline, and the look at those that answer"
        assert sorted(second.ranges) == [(10, 10), (10, 20), (10, 20)]
        assert pipeline.position.offsets[held] == before

        wait_for("each partition has a leader", lambda: leaders(patient, name) == [1, 2, 3])
        pipeline.run("three")
        assert pipeline.lake.offsets() == {number: [*range(20)] for number in range(3)}
