"""A group's offsets on a broker that has just started, and while its coordinator moves: no crash, no wrong answer.

The admin client's question for a group's offsets is a SIGSEGV where the coordinator is not there yet
(confluentinc/librdkafka#5040), so each question here comes from a process of its own. Twenty brokers are asked in
``tests/faults/test_new_brokers.py``.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.errors import ClusterUnavailable
from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.java import Java
from testbed.three_brokers import ThreeBrokers
from tests.cluster.group_process import ask_new_broker, group_process, offsets_at

DEADLINE_S = 30.0


@pytest.mark.parametrize("number", range(3))
def test_a_broker_that_has_just_started_is_asked_for_a_group_at_once(
    java: Java, say: Say, tmp_path: Path, number: int
) -> None:
    """Twice: a new one, which has no offsets topic yet, and one that was killed, which has offsets to load."""
    ask_new_broker(KafkaBroker(tmp_path / "kafka", java=java, say=say, loaded_groups=False), write_first=number == 1)


def test_a_cluster_that_has_no_coordinator_says_why(java: Java, say: Say, tmp_path: Path, group: str) -> None:
    """The offsets topic wants three copies, and there is one broker."""
    copies = {"offsets.topic.replication.factor": "3"}
    with (
        KafkaBroker(tmp_path / "kafka", java=java, say=say, config=copies, loaded_groups=False) as broker,
        KafkaCluster(broker.client_config, deadline_s=3.0) as cluster,
    ):
        broker.create_topic("orders", 3)
        offsets = offsets_at("orders", 1)
        with pytest.raises(ClusterUnavailable, match="COORDINATOR_NOT_AVAILABLE") as read:
            cluster.committed(group, offsets)
        with pytest.raises(ClusterUnavailable, match="COORDINATOR_NOT_AVAILABLE") as wrote:
            cluster.commit_offsets(group, offsets)
        for unavailable in (read, wrote):
            assert unavailable.value.retriable
            assert all(str(tp) in str(unavailable.value) for tp in offsets)


def test_a_coordinator_that_moves_is_followed(java: Java, say: Say, tmp_path: Path, group: str) -> None:
    """Its broker is killed, twice, while a process reads and commits again and again."""
    with ThreeBrokers(tmp_path / "kafka", java=java, say=say) as kafka, group_process() as process:
        kafka.create_topic("orders", 3)
        process.ask(kafka.client_config, group, "orders", deadline_s=DEADLINE_S)
        rounds = process.rounds_until(time.monotonic())
        coordinators = [kafka.coordinator(group)]
        for _ in range(2):
            killed = kafka.nodes[coordinators[-1]]
            killed.kill()
            rounds += process.rounds_until(time.monotonic())
            coordinators.append(kafka.coordinator(group))
            assert coordinators[-2] != coordinators[-1]
            killed.start()
            kafka.wait_for_nodes({1, 2, 3})
            rounds += process.rounds_until(time.monotonic())
        rounds += process.stop()
        assert [found["round"] for found in rounds] == list(range(1, len(rounds) + 1))
        assert [found["before"] for found in rounds[1:]] == [[found["round"]] for found in rounds[:-1]]
        assert max(found["longest_s"] for found in rounds) < DEADLINE_S
        with KafkaCluster(kafka.client_config) as cluster:
            last = offsets_at("orders", len(rounds))
            assert cluster.committed(group, last) == last
            assert cluster.all_committed(group) == last
