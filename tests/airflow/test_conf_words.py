"""What a run's conf says under `kafka_offsets`, for that run alone: policies, and a person's orders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPartition
from airflow_kafka_offsets.request.policies import SITUATIONS
from airflow_kafka_offsets.request.run_conf import CONF_WORDS
from testbed.broker import KafkaBroker
from testbed.java import Java
from tests.airflow.conftest import Orders

Said = Callable[[], str]
Case = Callable[[Orders], None]
Xcom = Callable[..., Any]


def plan_of(orders: Orders) -> Any:
    return orders.newest.log.plan


# ── a policy for one run ──────────────────────────────────────────────────────────────────────────────────────────────
# Each case makes the trouble, after a first run that has committed five records.


def records_are_gone(orders: Orders) -> None:
    orders.produce(5)
    gone = orders.broker.offset_bounds(orders.topic)[0][1] - 2
    orders.broker.delete_records({(orders.topic, 0): gone})


def the_topic_is_made_anew(orders: Orders) -> None:
    orders.broker.delete_topic(orders.topic)
    orders.broker.create_topic(orders.topic)
    orders.produce(2)


def the_group_is_reset(orders: Orders) -> None:
    with KafkaCluster(orders.broker.client_config) as cluster:
        cluster.commit_offsets(orders.group, {TopicPartition(orders.topic, 0): CommittedOffset(2)})


POLICIES: dict[str, tuple[Case, str, str, list[tuple[int, int]]]] = {
    "data_loss": (records_are_gone, "advance", "is below log start offset", [(8, 10), (13, 15)]),
    "topic_recreated": (the_topic_is_made_anew, "earliest", "deleted and created again", [(0, 2), (0, 2)]),
    "group_moved": (the_group_is_reset, "adopt-group", "Somebody else wrote to group", [(2, 5), (2, 5)]),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_in_the_conf_is_for_that_run_and_no_other(orders: Orders, said: Said, name: str) -> None:
    trouble, policy, refusal, read = POLICIES[name]
    orders.produce(5)
    assert orders.run().state == "success"
    for expected in read:
        trouble(orders)
        said()
        refused = orders.run()
        assert refused.states("orders.resolve") == ["failed"]
        assert refusal in said()
        assert orders.run({"policies": {name: policy}}).state == "success"
        (p,) = plan_of(orders).partitions
        assert (p.start_offset, p.end_offset) == expected
        assert orders.committed == {0: expected[1]}
        assert orders.run().state == "success", "the trouble is over"


def test_a_topic_that_has_vanished_may_be_ignored_by_one_run(
    orders: Orders, topic: Callable[..., str], said: Said
) -> None:
    orders.dag_id = "batch_of_a_pattern"
    other = f"{orders.topic}-more"
    orders.broker.create_topic(other)
    orders.produce(2)
    assert orders.run().state == "success"
    orders.broker.delete_topic(other)

    assert orders.run().states("orders.resolve") == ["failed"]
    assert f"{other}: the pipeline has read it, and the pattern finds it no more" in said()
    assert orders.run({"policies": {"topic_vanished": "drop"}}).state == "success"
    assert orders.run().states("orders.resolve") == ["failed"]


def test_another_cluster_behind_the_connection_is_read_by_the_run_that_says_so(
    orders: Orders, java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    orders.produce(3)
    assert orders.run().state == "success"
    with KafkaBroker(tmp_path / "another", java=java) as another:
        connection = {"conn_type": "kafka", "extra": json.dumps(another.client_config)}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_ANOTHER", json.dumps(connection))
        another.create_topic(orders.topic)
        another.produce_many(orders.topic, 2)

        assert orders.run(kafka="kafka_another").states("orders.resolve") == ["failed"]
        assert "and the connection leads to cluster" in said()
        assert orders.run({"policies": {"cluster_changed": "earliest"}}, kafka="kafka_another").state == "success"
        assert [len(rows) for rows in orders.rows.values()] == [3, 2]
        assert orders.run(kafka="kafka_another").state == "success"


def test_what_a_group_without_a_commit_means_may_be_said_for_the_first_run(orders: Orders, said: Said) -> None:
    orders.produce(3)
    assert orders.run(startup_mode="group-offsets").states("orders.resolve") == ["failed"]
    assert "earliest-offset" in said()
    assert orders.run({"auto_offset_reset": "latest"}, startup_mode="group-offsets").state == "success"
    orders.produce(1)
    assert orders.run(startup_mode="group-offsets").state == "success"
    assert orders.rows[orders.key] == ["3"]


def test_one_run_may_leave_the_group_alone(orders: Orders) -> None:
    orders.produce(3)
    assert orders.run({"commit_mode": "checkpoint-only"}).state == "success"
    assert orders.committed == {}
    orders.produce(1)
    assert orders.run().state == "success"
    assert orders.committed == {0: 4}
    assert orders.is_exact()


def test_one_run_may_read_committed_records_only(orders: Orders) -> None:
    orders.produce(1)
    assert orders.run({"isolation_level": "read_committed"}).state == "success"
    assert plan_of(orders).asked.isolation_level == "read_committed"
    orders.produce(1)
    assert orders.run().state == "success"
    assert plan_of(orders).asked.isolation_level == "read_uncommitted"


def test_one_run_may_hold_a_partition(orders: Orders) -> None:
    """Its sensor, too, is told so."""
    orders.produce(2)
    assert orders.run().state == "success"
    orders.produce(3)
    assert orders.run({"hold": [f"{orders.topic}-0"], "policies": {"unavailable": "hold"}}).state == "success"
    assert orders.committed == {0: 2}
    assert orders.run().state == "success"
    assert orders.committed == {0: 5}
    assert orders.is_exact()


def test_the_situations_that_are_shown_at_work() -> None:
    """In the tests above, and in `test_lost_state`. The others are the same without Airflow."""
    shown = {*POLICIES, "topic_vanished", "cluster_changed", "another_airflow", "unavailable"}
    assert SITUATIONS.keys() == shown | {"output_changed", "no_match", "new_partition", "retention_margin"}
    assert "policies" in CONF_WORDS


# ── orders ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_re_plan_takes_what_has_come_since_into_the_unfinished_batch(orders: Orders) -> None:
    orders.produce(4)
    orders.run(reject=True)
    key = orders.key
    orders.produce(3)

    assert orders.run({"re_plan": True}).state == "success"

    assert orders.key == key
    assert (list(orders.rows), orders.committed) == ([key], {0: 7})
    assert orders.is_exact()


def test_restart_applies_the_startup_mode_once_more_for_that_run(orders: Orders, xcom: Xcom) -> None:
    orders.produce(4)
    assert orders.run().state == "success"

    again = orders.run({"restart": True})

    assert again.state == "success"
    assert [len(rows) for rows in orders.rows.values()] == [4, 4]
    assert plan_of(orders).restarts == (f"run {again.run_id}",)
    orders.produce(1)
    assert orders.clear(again).state == "success", "its own word is applied once"
    assert orders.run().state == "success"
    assert [len(rows) for rows in orders.rows.values()] == [4, 4, 1]


def test_a_restart_by_a_word_is_applied_once_in_the_pipelines_life(orders: Orders) -> None:
    orders.produce(4)
    for _ in range(2):
        assert orders.run({"restart": "2026-11-20"}).state == "success"
    assert [len(rows) for rows in orders.rows.values()] == [4]
    assert orders.run({"restart": "2026-11-21"}).state == "success"
    assert [len(rows) for rows in orders.rows.values()] == [4, 4]


def test_skip_leaves_out_what_cannot_pass_up_to_an_offset(orders: Orders, said: Said) -> None:
    orders.produce(5)
    orders.run(reject=True)
    skip = {"batch": orders.key, "past": f"{orders.topic}-0:1", "reason": "poison"}

    assert orders.run({"skip": skip}).state == "success"

    assert orders.rows == {orders.key: ["2", "3", "4"]}
    assert orders.committed == {0: 5}
    assert "up to 2 records are skipped although still in Kafka (" in said()


def test_skip_leaves_out_one_record_alone(orders: Orders, said: Said) -> None:
    orders.produce(5)
    orders.run(reject=True)
    skip = {"batch": orders.key, "only": f"{orders.topic}-0:2", "reason": "poison"}

    assert orders.run({"skip": skip}).state == "success"

    assert {key: sorted(rows) for key, rows in orders.rows.items()} == {orders.key: ["0", "1", "3", "4"]}
    assert orders.committed == {0: 5}
    assert "starting_offsets and ending_offsets are not pushed: offsets between the bounds are left out" in said()


def test_skip_empties_the_batch_and_takes_its_rows_away(orders: Orders) -> None:
    orders.produce(5)
    orders.run(reject=True)
    rejected = orders.key
    assert orders.run({"skip": {"batch": rejected, "reason": "poison"}}).state == "success"
    assert (orders.rows, orders.committed) == ({rejected: []}, {0: 5})
    orders.produce(2)
    assert orders.run().state == "success"
    assert orders.rows[orders.key] == ["5", "6"]


def test_skip_of_another_batch_than_the_unfinished_one_changes_nothing(orders: Orders, said: Said) -> None:
    orders.produce(5)
    orders.run(reject=True)
    before = orders.newest.log
    refused = orders.run({"skip": {"batch": "0000000007-20261122T022057-k3f9", "reason": "a slip"}})
    assert refused.states("orders.resolve") == ["failed"]
    assert f"the unfinished batch is {orders.key}" in said()
    assert orders.newest.log == before


@pytest.mark.parametrize(
    ("task", "conf", "sentence"),
    [
        (
            "wait_for_partitions",
            {"on_dataloss": "advance", "topics": "all"},
            'unknown keys under "kafka_offsets": on_dataloss, topics. It may have auto_offset_reset, commit_mode, '
            "hold, isolation_level, policies, re_plan, redo, restart, skip.",
        ),
        (
            "wait_for_partitions",
            {"policies": {"data_loss": "shrug"}},
            "policies has data_loss='shrug'; use one of fail, advance, reset",
        ),
        ("resolve", {"skip": {"past": "a-0:1"}}, "skip is {'past': 'a-0:1'}; expected"),
        ("resolve", {"restart": 5}, "restart is 5; it must be a word"),
    ],
    ids=["unknown keys", "a policy that is none", "skip without a batch", "restart that is no word"],
)
def test_a_word_that_is_wrong_is_refused_with_those_that_there_are(
    orders: Orders, said: Said, task: str, conf: dict[str, Any], sentence: str
) -> None:
    """By the first task that needs the word, and not tried again."""
    orders.dag_id = "batch_retried"
    result = orders.run(conf)
    assert [(t.task_id, t.tries) for t in result.tasks if t.state == "failed"] == [(f"orders.{task}", 1)]
    assert sentence in said()


def test_a_conf_that_is_no_object_is_said(orders: Orders, said: Said) -> None:
    assert orders.run(kafka_offsets=True).states("orders.wait_for_partitions") == ["failed"]
    assert 'The run\'s conf has "kafka_offsets": True; expected an object' in said()
