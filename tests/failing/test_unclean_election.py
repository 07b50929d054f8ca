"""A leader is elected that lacks the end of the log, and the log grows past it again: both of its ends look normal.

Partition 0 loses what was read in this way; partition 1 has another leader, which lacks nothing; partition 2 is led on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import DataLoss
from airflow_kafka_offsets.stores.local import LocalStore
from testbed.three_brokers import ThreeBrokers
from testbed.topics import DEADLINE_S, wait_for
from tests.contract.pipeline import Pipeline
from tests.failing.timed import Timed

COPIES = [[1, 2], [1, 3], [3, 2]]  # of each partition; its first one leads


@pytest.fixture
def topic(kafka: ThreeBrokers, group: str) -> Iterator[str]:
    name, admin = f"orders-{group}", kafka.admin()
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    new = NewTopic(name, num_partitions=len(COPIES), replica_assignment=COPIES, config=config)
    admin.create_topics([new])[name].result(DEADLINE_S)

    def known() -> bool:
        found = [broker.admin().list_topics(timeout=5.0).topics.get(name) for broker in kafka.nodes.values()]
        return all(of and [of.partitions[n].leader for n in sorted(of.partitions)] == [1, 1, 3] for of in found)

    wait_for("each broker knows the leaders", known)
    yield name
    for broker in kafka.nodes.values():
        if not broker.is_running:
            broker.start()
    kafka.delete_topic(name)  # no other test waits for its copies


@pytest.fixture
def pipeline(kafka: ThreeBrokers, topic: str, group: str, tmp_path: Path) -> Iterator[Pipeline]:
    with KafkaCluster(kafka.client_config) as cluster:
        yield Pipeline(Timed(cluster), LocalStore(tmp_path / "store"), topic, group)


def in_sync(kafka: ThreeBrokers, topic: str, partition: int) -> list[int]:
    """As broker 3 knows it, which runs all the time."""
    found = kafka.nodes[3].admin().list_topics(topic, timeout=5.0).topics[topic].partitions[partition]
    return sorted(found.isrs) if found.leader >= 0 else []


def produce(kafka: ThreeBrokers, topic: str, partition: int, count: int) -> None:
    kafka.produce(topic, [(partition, None, "x", None)] * count)


def lose_the_end(kafka: ThreeBrokers, topic: str) -> None:
    """Broker 2 stops at offset 100 of partition 0, and leads it when broker 1 is gone; that comes back afterwards."""
    kafka.nodes[1].kill()
    kafka.nodes[2].start()
    wait_for("broker 2 leads, uncleanly", lambda: in_sync(kafka, topic, 0) == [2])
    wait_for("broker 3 leads, cleanly", lambda: in_sync(kafka, topic, 1) == [3])
    produce(kafka, topic, 0, 100)
    kafka.nodes[1].start()
    wait_for("each copy is in sync", lambda: [in_sync(kafka, topic, n) for n in range(2)] == [[1, 2], [1, 3]])


def test_a_log_that_was_cut_and_has_grown_past_the_position_is_data_loss(
    kafka: ThreeBrokers, topic: str, pipeline: Pipeline
) -> None:
    for partition in range(3):
        produce(kafka, topic, partition, 100)
    kafka.nodes[2].kill()
    wait_for("broker 1 is alone", lambda: in_sync(kafka, topic, 0) == [1])
    produce(kafka, topic, 0, 50)
    assert pipeline.run("first").ranges == [(0, 150), (0, 100), (0, 100)]
    assert pipeline.cluster.asked["ends_of_epochs"] == 0
    produce(kafka, topic, 2, 5)
    unfinished = pipeline.resolve("second")
    assert unfinished.ranges == [(150, 150), (100, 100), (100, 105)]
    unfinished.done()

    lose_the_end(kafka, topic)

    assert pipeline.cluster.log_start_offsets(pipeline.position.offsets)
    ends = pipeline.cluster.end_offsets(pipeline.position.offsets, "read_committed")
    assert sorted(end.offset for end in ends.values()) == [100, 105, 200], "past the position, all of them"
    with pytest.raises(DataLoss) as refused:
        pipeline.resolve("third")
    assert [line.split(": ")[0] for line in refused.value.partitions] == [f"{topic}[0]"]
    assert "from offset 100 on, the log is another one than the one that was read up to 150" in str(refused.value)
    assert pipeline.cluster.longest["ends_of_epochs"] < 5.0
    assert pipeline.run("third", data_loss="advance").ranges == [(100, 200), (100, 100), (105, 105)]
    assert pipeline.at() == pipeline.held() == {0: 200, 1: 100, 2: 105}
    asked = pipeline.cluster.asked["ends_of_epochs"]
    produce(kafka, topic, 0, 1)
    assert pipeline.run("fourth").ranges == [(200, 201), (100, 100), (105, 105)]
    assert pipeline.cluster.asked["ends_of_epochs"] == asked, "no leader has changed since"


def test_so_it_is_where_the_batch_was_planned_and_not_read_yet(
    kafka: ThreeBrokers, topic: str, pipeline: Pipeline
) -> None:
    """Done as it is, it reads other records at the offsets of its plan, or has read them."""
    produce(kafka, topic, 0, 100)
    kafka.nodes[2].kill()
    wait_for("broker 1 is alone", lambda: in_sync(kafka, topic, 0) == [1])
    produce(kafka, topic, 0, 50)
    planned = pipeline.resolve("first")
    assert planned.ranges == [(0, 150), (0, 0), (0, 0)]

    lose_the_end(kafka, topic)

    planned.spark()
    for step in (planned.commit, lambda: pipeline.resolve("first")):
        with pytest.raises(DataLoss, match=r"\[0\]: from offset 100 on, the log is another one"):
            step()
    again = pipeline.run("first", data_loss="advance")
    assert (again.batch_key, again.ranges) == (planned.batch_key, [(0, 200), (0, 0), (0, 0)])
