"""`kafka-offsets partitions` and `lag`: how things stand."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import pytest

from airflow_kafka_offsets.offsets.model import CommittedOffset, TopicPartition
from testbed.broker import KafkaBroker
from tests.cli.conftest import Say
from tests.cluster.real import RealHands
from tests.contract.pipeline import CHECKPOINT, Pipeline


def by_partition(output: str) -> dict[int, dict[str, object]]:
    return {row["partition"]: row for row in json.loads(output)["partitions"]}


def test_partitions_have_their_leader_and_both_ends(says: Say, broker: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic(2)
    broker.produce(name, [(0, None, b"x", None)] * 5)
    RealHands(broker).delete_records(TopicPartition(name, 0), 2)
    at = ("--bootstrap-servers", broker.bootstrap_servers, "--topics", name)
    status, output, messages = says("partitions", *at, "--output", "json")
    assert (status, messages) == (0, "")
    rows = by_partition(output)
    assert (rows[0]["log_start"], rows[0]["end"], rows[0]["records"]) == (2, 5, 3)
    assert (rows[1]["log_start"], rows[1]["end"], rows[1]["records"]) == (0, 0, 0)
    assert rows[0]["topic_id"] == rows[1]["topic_id"] != None  # noqa: E711
    assert rows[0]["leader"] is not None
    _, table, _ = says("partitions", *at)
    assert "up to 3 records in 2 partitions, read_uncommitted" in table
    _, text, _ = says("partitions", *at, "--output", "csv")
    assert [row["end"] for row in csv.DictReader(io.StringIO(text))] == ["5", "0"]


def test_the_end_is_the_last_stable_one_where_that_is_asked_for(
    says: Say, broker: KafkaBroker, topic: Callable[..., str]
) -> None:
    name = topic(1)
    broker.produce(name, [(0, None, b"x", None)] * 2)
    transaction = RealHands(broker).begin_transaction()
    transaction.produce(TopicPartition(name, 0), [0])
    at = ("partitions", "--bootstrap-servers", broker.bootstrap_servers, "--topics", name, "--output", "json")
    try:
        ends = [by_partition(says(*at, *words)[1])[0]["end"] for words in ([], ["--isolation-level", "read_committed"])]
    finally:
        transaction.abort()
    assert ends == [3, 2]


def test_a_wrong_request_names_everything_and_asks_no_cluster(says: Say) -> None:
    status, output, messages = says(
        "partitions", "--bootstrap-servers", "127.0.0.1:1", "--topics", "a", "--topic-pattern", "b",
        "--isolation-level", "some",
    )  # fmt: skip
    assert (status, output) == (2, "")
    assert "2 problems" in messages


def test_lag_counts_from_the_commit_says_who_wrote_it_and_has_the_checkpoint_beside_it(
    says: Say, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    words = ("lag", *at, "--group-id", pipeline.group, "--checkpoint-id", CHECKPOINT)
    status, output, messages = says(*words, "--output", "json")
    assert (status, messages) == (0, "")
    rows = by_partition(output)
    assert [rows[0][name] for name in ("committed", "checkpoint", "log_start", "end", "lag")] == [4, 4, 0, 10, 6]
    assert rows[0]["run"] == "dag/one/resolve"
    assert rows[0]["plan"] == pipeline.plan("one").plan_id
    _, table, _ = says(*words)
    assert f"run dag/one/resolve, plan {pipeline.plan('one').plan_id}" in table
    assert "lag 6 in 2 partitions" in table


def test_without_a_commit_the_lag_is_unknown_and_not_0(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    name = topic(2)
    broker.produce(name, [(0, None, b"x", None)] * 5)
    RealHands(broker).commit_as_somebody_else(group, {TopicPartition(name, 0): CommittedOffset(5)})
    at = ("lag", "--bootstrap-servers", broker.bootstrap_servers, "--group-id", group)
    _, output, _ = says(*at, "--topics", name, "--output", "json")
    rows = by_partition(output)
    assert (rows[0]["lag"], rows[0]["committed_by"]) == (0, "somebody else (not by this provider)")
    assert (rows[1]["lag"], rows[1]["committed"], rows[1]["committed_by"]) == (None, None, None)
    _, table, _ = says(*at, "--topics", name)
    assert "unknown in 1 of them" in table
    _, output, _ = says(*at, "--output", "json")
    assert list(by_partition(output)) == [0]  # all that the group has commits for


def test_lag_of_a_group_that_nobody_knows_is_no_row_and_no_error(says: Say, broker: KafkaBroker, group: str) -> None:
    status, output, _ = says(
        "lag", "--bootstrap-servers", broker.bootstrap_servers, "--group-id", group, "--output", "json"
    )
    assert (status, json.loads(output)["partitions"]) == (0, [])


def test_a_partition_without_a_leader_has_none_and_its_ends_are_unknown() -> None:
    from airflow_kafka_offsets.offsets.spec import TopicList
    from airflow_kafka_offsets.overview import partition_states
    from tests.cluster.memory import InMemoryCluster

    cluster = InMemoryCluster()
    cluster.create_topic("orders", 2)
    cluster.produce(TopicPartition("orders", 0), [0])
    cluster.elect(TopicPartition("orders", 1), None)
    found = cluster.describe(TopicList(("orders",)))
    led, leaderless = partition_states(cluster, found, found.partitions(), "read_uncommitted")
    assert led.lag(CommittedOffset(0)) == 1
    assert (leaderless.leader, leaderless.log, leaderless.lag(CommittedOffset(0))) == (None, None, None)


@pytest.mark.parametrize("command", ["partitions", "lag"])
def test_a_cluster_that_does_not_answer_is_status_3(says: Say, command: str) -> None:
    at = ("--bootstrap-servers", "127.0.0.1:1", "--topics", "orders")
    status, output, _ = says(command, *at, *(("--group-id", "g") if command == "lag" else ()))
    assert (status, output) == (3, "")
