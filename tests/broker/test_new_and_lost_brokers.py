"""A group on a broker that has just started, and on three of which one is lost: no crash, no wrong answer.

The admin client's question for a group's offsets is a SIGSEGV where the coordinator is not there yet
(confluentinc/librdkafka#5040), so a process of its own asks.
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

DEADLINE_S = 60.0  # users' own


@pytest.mark.parametrize("write_first", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_broker_that_has_just_started_is_asked_for_a_group_at_once(
    java: Java, say: Say, tmp_path: Path, write_first: bool
) -> None:
    """Twice: a new one, which has no offsets topic yet, and one that was killed, which has offsets to load."""
    broker = KafkaBroker(tmp_path / "kafka", java=java, say=say, loaded_groups=False)
    ask_new_broker(broker, write_first=write_first)


def test_a_cluster_without_a_coordinator_is_an_error_at_the_deadline(
    java: Java, say: Say, tmp_path: Path, group: str
) -> None:
    """The offsets topic needs three copies, and there is one broker."""
    copies = {"offsets.topic.replication.factor": "3"}
    with (
        KafkaBroker(tmp_path / "kafka", java=java, say=say, config=copies, loaded_groups=False) as broker,
        KafkaCluster(broker.client_config, deadline_s=3.0) as cluster,
    ):
        broker.create_topic("orders", 3)
        offsets = offsets_at("orders", 1)
        for question in (lambda: cluster.committed(group, offsets), lambda: cluster.commit_offsets(group, offsets)):
            began = time.monotonic()
            with pytest.raises(ClusterUnavailable) as unavailable:
                question()
            assert unavailable.value.retriable
            assert set(unavailable.value.unanswered) == set(offsets)
            assert time.monotonic() - began < 8.0


@pytest.mark.slow
def test_a_coordinator_and_a_leader_that_move_are_followed(java: Java, say: Say, tmp_path: Path, group: str) -> None:
    """Their broker is killed, then one hangs, while a process reads and commits again and again.

    The one that hangs is the active controller, as soon as the killed one is back. If leaders have just asked it to let
    that one into the in-sync replicas, they wait for its answer for 30 s (``controller.socket.timeout.ms``). Until then
    there are fewer than ``min.insync.replicas``, and the group gives no answer and takes no commit.
    """
    with ThreeBrokers(tmp_path / "kafka", java=java, say=say) as kafka, group_process() as process:
        kafka.create_topic("orders", 3)
        process.ask(kafka.client_config, group, "orders", deadline_s=DEADLINE_S)
        rounds = process.rounds_until(time.monotonic())
        coordinator = kafka.coordinator(group)
        with KafkaCluster(kafka.client_config, deadline_s=DEADLINE_S) as cluster:
            orders = list(offsets_at("orders", 0))
            assert set(cluster.log_start_offsets(orders).values()) == {0}
            kafka.nodes[coordinator].kill()
            rounds += process.rounds_until(time.monotonic())
            assert kafka.coordinator(group) != coordinator
            assert {end.offset for end in cluster.end_offsets(orders, "read_committed").values()} == {0}
            kafka.nodes[coordinator].start()
            kafka.wait_for_nodes({1, 2, 3})
            hung = kafka.active_controller()
            assert hung in {kafka.leader("orders", partition) for partition in range(3)}
            kafka.nodes[hung].pause()
            try:
                assert {end.offset for end in cluster.end_offsets(orders, "read_committed").values()} == {0}
                rounds += process.rounds_until(time.monotonic())
            finally:
                kafka.nodes[hung].resume()
            rounds += process.stop()
            assert [found["round"] for found in rounds] == list(range(1, len(rounds) + 1))
            assert [found["before"] for found in rounds[1:]] == [[found["round"]] for found in rounds[:-1]]
            assert max(found["longest_s"] for found in rounds) < DEADLINE_S
            last = offsets_at("orders", len(rounds))
            assert cluster.committed(group, list(last)) == last
