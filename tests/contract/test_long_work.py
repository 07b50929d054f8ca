"""What may take long at 10,000 partitions shows itself: here every step is long."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.broker.group_offsets import GROUP_CHUNK
from airflow_kafka_offsets.broker.lookups import LOOK_UP_CHUNK
from airflow_kafka_offsets.broker.topic_discovery import DESCRIBE_CHUNK
from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.request.subscription import TopicList
from testbed.broker import KafkaBroker
from tests.contract.pipeline import Pipeline


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr("airflow_kafka_offsets.progress_log.QUIET_S", 0.0)
    monkeypatch.setattr("airflow_kafka_offsets.progress_log.EVERY_S", 0.0)
    caplog.set_level(logging.INFO, "airflow_kafka_offsets.progress_log")
    return caplog


def test_a_group_is_read_and_written_in_chunks_of_partitions(
    broker: KafkaBroker, topic: Callable[..., str], group: str, said: pytest.LogCaptureFixture
) -> None:
    many = GROUP_CHUNK + 50
    name = topic(many)
    offsets = {TopicPartition(name, number): CommittedOffset(0) for number in range(many)}
    with KafkaCluster(broker.client_config) as cluster:
        cluster.commit_offsets(group, offsets)
        assert len(cluster.committed(group, offsets)) == many
    for what in ("commit to", "read the offsets of"):
        assert f"{what} group {group!r}: {GROUP_CHUNK} of {many} partitions" in said.messages
        assert any(line.startswith(f"{what} group {group!r}: {many} of {many} partitions, ") for line in said.messages)


def test_topics_and_offsets_are_looked_up_in_chunks(
    broker: KafkaBroker, topic: Callable[..., str], said: pytest.LogCaptureFixture
) -> None:
    names = topic(DESCRIBE_CHUNK), topic(LOOK_UP_CHUNK)
    with KafkaCluster(broker.client_config) as cluster:
        partitions = cluster.describe(TopicList(names)).partitions()
        assert len(cluster.end_offsets(partitions, "read_uncommitted")) == len(partitions)
    assert "describe the topics: 1 of 2 topics" in said.messages
    assert any(line.startswith("describe the topics: 2 of 2 topics, ") for line in said.messages)
    assert f"look up offsets: {LOOK_UP_CHUNK} of {len(partitions):,} partitions" in said.messages
    assert any(line.startswith(f"look up offsets: {len(partitions):,} of ") for line in said.messages)


def test_a_commit_reads_the_reports_split_by_split(in_memory: Pipeline, said: pytest.LogCaptureFixture) -> None:
    in_memory.run("one", splits=3)
    assert "read the reports: 1 of 3 splits" in said.messages


def test_the_command_line_says_it_on_standard_error(
    in_memory: Pipeline, said: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two", "three"):
        in_memory.run(name)
    logging.getLogger("airflow_kafka_offsets.progress_log").setLevel(logging.NOTSET)
    assert main(["clean", "--work-store", in_memory.store.uri, "--keep", "1d"]) == 0
    assert logging.getLogger("airflow_kafka_offsets.progress_log").getEffectiveLevel() == logging.INFO
