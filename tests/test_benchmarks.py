"""What the benchmarks hold everything against answers as the package does, and what they call of it is there."""

from __future__ import annotations

import importlib
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from benchmarks.floor import LOG_END, LOG_START, Floor
from benchmarks.ours import Ours
from testbed.broker import KafkaBroker
from tests.conftest import unique_name

TIME_MS = 1_700_000_000_000


def test_the_floor_s_requests_have_the_answers_that_the_package_has(broker: KafkaBroker) -> None:
    topic, group = unique_name("topic"), unique_name("group")
    broker.create_topic(topic, 3)
    broker.produce(topic, [(number % 3, None, b"x", TIME_MS + number) for number in range(7)])
    broker.delete_records({(topic, 0): 1})
    partitions = [TopicPartition(topic, number) for number in range(3)]
    with KafkaCluster(broker.client_config) as cluster, Floor(broker.bootstrap_servers) as floor:
        leaders = {tp: leader for tp, leader in floor.metadata().items() if tp[0] == topic}
        assert sorted(leaders) == partitions
        assert floor.offsets(leaders, LOG_START) == cluster.log_start_offsets(partitions)
        ends = cluster.end_offsets(partitions, "read_uncommitted")
        assert floor.offsets(leaders, LOG_END) == {tp: end.offset for tp, end in ends.items()}
        at = dict.fromkeys(partitions, TIME_MS + 2)
        assert floor.offsets(leaders, TIME_MS + 2) == cluster.offsets_for_times(at, "read_uncommitted")
        cluster.commit_offsets(group, {partitions[0]: CommittedOffset(2)})
        assert floor.committed(group, partitions) == {partitions[0]: 2, partitions[1]: -1, partitions[2]: -1}
        floor.commit(group, dict.fromkeys(partitions, 1), "mark\0")
        assert cluster.committed(group, partitions) == dict.fromkeys(partitions, CommittedOffset(1, None, "mark"))


def test_what_the_benchmarks_call_of_the_package_does_what_its_users_do(broker: KafkaBroker, tmp_path: Path) -> None:
    broker.create_topic(f"t{uuid.uuid4().int}", 2)  # a name that the benchmarks' pattern finds
    ours = Ours(broker.bootstrap_servers)
    group = unique_name("bench")
    with closing(ours.cluster):
        assert len(ours.partitions) >= 2
        assert ours.arguments(group, tmp_path)[0] == "--plan"
        batch = ours.committed_batch(group, tmp_path)
        batch.verify()
        assert batch.report_json() > 0
        assert batch.mirror() == len(ours.partitions)


@pytest.mark.parametrize(
    "module",
    ["first_task", "page", "read", "report_ways", "run_overhead", "spark_task", "store_requests", "typed_rows"],
)
def test_each_benchmark_can_be_started(module: str) -> None:
    assert importlib.import_module(f"benchmarks.{module}")
