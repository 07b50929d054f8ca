"""`kafka-offsets partitions` and `lag`: how things stand."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import pytest

from airflow_kafka_offsets.broker.connection import Connection
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from testbed.broker import KafkaBroker
from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline
from tests.cluster.real import RealHands

HOUR_MS = 3_600_000


def by_partition(output: str) -> dict[int, dict[str, object]]:
    return {row["partition"]: row for row in json.loads(output)["partitions"]}


# partitions


def test_partitions_have_their_leader_and_both_ends(says: Say, broker: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic(2)
    broker.produce(name, [(0, None, b"x", None)] * 5)
    RealHands(broker).delete_records(TopicPartition(name, 0), 2)
    at = ("--bootstrap-servers", broker.bootstrap_servers, "--topics", name)
    status, output, messages = says("partitions", *at, "--output", "json")
    assert (status, messages) == (0, "")
    assert json.loads(output)["version"] == 1
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


# lag


def test_lag_counts_from_the_groups_commits_and_says_who_wrote_them(
    says: Say, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    words = ("lag", *at, "--group-id", pipeline.group)
    status, output, messages = says(*words, "--output", "json")
    assert (status, messages) == (0, "")
    found = json.loads(output)
    assert (found["version"], found["group_id"], found["pipeline_id"]) == (1, pipeline.group, None)
    rows = by_partition(output)
    assert [rows[0][name] for name in ("committed", "log_start", "end", "lag")] == [4, 0, 10, 6]
    mark = (pipeline.pipeline_id, "no-airflow", pipeline.newest_key)
    assert (rows[0]["pipeline"], rows[0]["instance"], rows[0]["batch"]) == mark
    _, table, _ = says(*words)
    assert f"pipeline '{pipeline.pipeline_id}'" in table
    assert "lag 6 in 2 partitions" in table
    assert pipeline.newest_key not in table, "hidden: 'committed by' says it for people"


def test_lag_has_the_age_of_the_first_unread_record_and_when_retention_takes_it(
    says: Say, broker: KafkaBroker, group: str
) -> None:
    """Partition 1 has nothing unread, 2 has no commit, and 3 has lost a record. A compacted topic loses none."""
    hands, kept, compacted = RealHands(broker), f"kept-{group}", f"compacted-{group}"
    hands.create_topic(kept, 4, retention_ms=24 * HOUR_MS)
    broker.create_topic(compacted, 1, {"cleanup.policy": "compact", "retention.ms": "1"})
    hour_ago, three_ago = (now_ms() - hours * HOUR_MS - 60_000 for hours in (1, 3))
    for number in range(4):
        broker.produce(kept, [(number, None, b"x", three_ago), (number, None, b"x", hour_ago)])
    broker.produce(compacted, [(0, b"k", b"x", three_ago)])
    hands.delete_records(TopicPartition(kept, 3), 1)
    at = {TopicPartition(kept, 0): 1, TopicPartition(kept, 1): 2, TopicPartition(kept, 3): 0}
    committed = {tp: CommittedOffset(offset) for tp, offset in {**at, TopicPartition(compacted, 0): 0}.items()}
    hands.commit_as_somebody_else(group, committed)
    words = ("lag", "--bootstrap-servers", broker.bootstrap_servers, "--group-id", group)
    topics = ("--topics", f"{kept},{compacted}")
    status, output, messages = says(*words, *topics, "--output", "json")
    assert (status, messages) == (0, "")
    found = json.loads(output)
    rows = {(row["topic"], row["partition"]): row for row in found["partitions"]}
    hours = {
        at: [None if row[name] is None else row[name] / HOUR_MS for name in ("behind_ms", "margin_ms")]
        for at, row in rows.items()
    }
    assert hours == {
        (compacted, 0): [pytest.approx(3, abs=0.1), None],
        (kept, 0): [pytest.approx(1, abs=0.1), pytest.approx(23, abs=0.1)],
        (kept, 1): [0, None],
        (kept, 2): [None, None],
        (kept, 3): [pytest.approx(1, abs=0.1), 0],
    }
    margins = {at: (row["lag"], row["margin"], row["held_back"]) for at, row in rows.items()}
    assert margins == {
        (compacted, 0): (1, None, 0),
        (kept, 0): (1, 1, 0),
        (kept, 1): (0, None, 0),
        (kept, 2): (None, None, 0),
        (kept, 3): (2, -1, 0),
    }
    assert (found["lag"], found["margin"], found["margin_ms"]) == (4, -1, 0)
    _, table, _ = says(*words, "--topics", kept)
    assert "oldest unread" in table
    assert "23 h" not in table, "cut, not rounded: it is a minute less"
    assert "22 h" in table
    assert (
        "lag 3 in 3 partitions, unknown in 1 more, the oldest unread record is 1 h 1 min old, retention takes" in table
    )


def test_lag_says_what_a_transaction_holds_back_and_counts_it_for_those_who_read_it(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    name = topic(1)
    broker.produce(name, [(0, None, b"x", None)] * 2)
    RealHands(broker).commit_as_somebody_else(group, {TopicPartition(name, 0): CommittedOffset(0)})
    transaction = RealHands(broker).begin_transaction()
    transaction.produce(TopicPartition(name, 0), [0])
    words = ("lag", "--bootstrap-servers", broker.bootstrap_servers, "--group-id", group, "--output", "json")
    try:
        levels = [
            by_partition(says(*words, "--isolation-level", f"read_{level}")[1])[0]
            for level in ("committed", "uncommitted")
        ]
    finally:
        transaction.abort()
    assert [(row["lag"], row["held_back"]) for row in levels] == [(2, 1), (3, 0)]


def test_lag_of_a_pipeline_counts_from_its_log_wherever_the_group_is(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    moved = {TopicPartition(pipeline.topic, 0): CommittedOffset(9)}
    RealHands(broker).commit_as_somebody_else(pipeline.group, moved)
    status, output, messages = says("lag", *at, *of(pipeline), "--output", "json")
    assert (status, messages) == (0, "")
    rows = by_partition(output)
    assert [rows[0][name] for name in ("position", "committed", "end", "lag")] == [4, 9, 10, 6]
    assert rows[0]["committed_by"] == "somebody else (not this provider)"
    assert f"pipeline {pipeline.pipeline_id}: lag 6 in 2 partitions" in says("lag", *at, *of(pipeline))[1]


def test_lag_of_a_pipeline_needs_no_group_that_the_cluster_knows(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    RealHands(broker).expire(pipeline.group)
    status, output, _ = says("lag", *at, *of(pipeline), "--output", "json")
    assert status == 0
    assert [by_partition(output)[0][name] for name in ("position", "committed", "lag")] == [4, None, 6]


def test_a_topic_that_was_made_anew_has_no_position_any_more(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    RealHands(broker).recreate_topic(pipeline.topic)
    status, output, messages = says("lag", *at, *of(pipeline), "--topics", pipeline.topic, "--output", "json")
    assert status == 0
    assert f"topic {pipeline.topic} was deleted and created again" in messages
    assert [by_partition(output)[0][name] for name in ("position", "lag")] == [None, None]


def test_without_a_commit_the_lag_is_unknown_and_not_0(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    name = topic(2)
    broker.produce(name, [(0, None, b"x", None)] * 5)
    RealHands(broker).commit_as_somebody_else(group, {TopicPartition(name, 0): CommittedOffset(5)})
    at = ("lag", "--bootstrap-servers", broker.bootstrap_servers, "--group-id", group)
    _, output, _ = says(*at, "--topics", name, "--output", "json")
    rows = by_partition(output)
    assert (rows[0]["lag"], rows[0]["committed_by"]) == (0, "somebody else (not this provider)")
    assert (rows[1]["lag"], rows[1]["committed"], rows[1]["committed_by"]) == (None, None, None)
    _, table, _ = says(*at, "--topics", name)
    assert "lag 0 in 1 partitions, unknown in 1 more" in table
    _, output, _ = says(*at, "--output", "json")
    assert list(by_partition(output)) == [0]  # all that the group has commits for


def test_a_group_that_nobody_knows_is_status_1_and_said(says: Say, pipeline: Pipeline, at: tuple[str, ...]) -> None:
    """A misspelt name is no group without lag."""
    for words in ((), ("--topics", pipeline.topic)):
        status, output, messages = says("lag", *at, "--group-id", "nobody-knows-it", *words, "--output", "json")
        assert (status, output) == (1, "")
        assert "Group 'nobody-knows-it' is not known to cluster" in messages


def test_a_group_with_members_and_no_commit_is_known(
    says: Say, broker: KafkaBroker, topic: Callable[..., str], group: str
) -> None:
    name = topic(1)
    with RealHands(broker).live_member(group, name):
        at = ("--bootstrap-servers", broker.bootstrap_servers, "--group-id", group, "--topics", name)
        status, output, _ = says("lag", *at, "--output", "json")
    assert (status, by_partition(output)[0]["lag"]) == (0, None)


def test_nobodys_lag_is_a_wrong_request_and_an_unknown_pipeline_is_status_1(
    says: Say, pipeline: Pipeline, at: tuple[str, ...]
) -> None:
    status, _, messages = says("lag", *at)
    assert status == 2
    assert "Whose lag? Give --group-id or --pipeline-id" in messages
    status, _, messages = says("lag", *at, "--pipeline-id", "another", "--work-store", pipeline.store.uri)
    assert status == 1
    assert "has no pipeline 'another'" in messages


@pytest.mark.parametrize("command", ["partitions", "lag"])
def test_a_cluster_that_does_not_answer_is_status_3(says: Say, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Connection.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(Connection.__init__.__kwdefaults__, "first_contact_s", 1.0)
    at = ("--bootstrap-servers", "127.0.0.1:1", "--topics", "orders")
    status, output, _ = says(command, *at, *(("--group-id", "g") if command == "lag" else ()))
    assert (status, output) == (3, "")
