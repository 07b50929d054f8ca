"""What a plan, a commit and a sensor know of retention, and what a run does where it comes near."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.batch.measured_lag import lag_question, look_at_lag
from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.errors import NotAuthorized, RetentionTooClose
from airflow_kafka_offsets.kafka_values import ClusterDescription, TopicPartition, TopicSettings
from airflow_kafka_offsets.plan.consumer_lag import Lag, parse_limits
from airflow_kafka_offsets.plan.lag_and_margin import lag_and_margin, together
from airflow_kafka_offsets.plan.plan import Draft
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.request.parse_request import RunContext, request_for
from airflow_kafka_offsets.request.subscription import parse_scope
from testbed.broker import KafkaBroker
from testbed.cache import Say
from testbed.java import Java
from testbed.topics import wait_for
from tests.asked import request_parameters
from tests.builders import snap
from tests.contract.conftest import AnyCluster
from tests.contract.pipeline import Pipeline
from tests.engine import committed_sentence, last_sentence, left_by, preview

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NEAR = "Retention may delete unread records within 4 h: "


def planned(reader: Any, topic: str, **asked: Any) -> Draft:
    parameters = request_parameters(topics=[topic], group_id="g", startup_mode="earliest-offset", **asked)
    return preview(request_for({}, parameters, RunContext(now_ms())), reader, None)


@pytest.fixture
def aged(cluster: AnyCluster, group: str) -> str:
    """Records stay for a day: there are four, of 23, 22, 21 and 2 hours ago, and a partition that was never written."""
    name, now = f"aged-{group}", now_ms()
    cluster.create_topic(name, 2, retention_ms=DAY)
    cluster.produce(name, timestamps_ms=[now - hours * HOUR + MINUTE for hours in (23, 22, 21, 2)])
    return name


# ── the policy ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.also_on_a_broker
def test_E12_a_run_that_retention_comes_near_to_says_so_and_reads(cluster: AnyCluster, aged: str) -> None:
    plan = planned(cluster.reader, aged, max_records=1, min_retention_margin="PT4H")
    assert plan.warnings == (f"{NEAR}{aged}[0]: up to 1 of the records that it reads, 2 of those that it leaves.",)
    assert plan.record_count_upper_bound == 1
    assert (
        planned(cluster.reader, aged, min_retention_margin="PT4H")
        .warnings[0]
        .endswith("reads, 0 of those that it leaves.")
    )


@pytest.mark.also_on_a_broker
def test_E12_where_it_does_not_come_near_or_nobody_looks_nothing_is_said(cluster: AnyCluster, aged: str) -> None:
    cluster.delete_records(aged, 3)
    for least in (None, "PT4H"):
        assert planned(cluster.reader, aged, min_retention_margin=least, retention_margin="fail").warnings == ()


@pytest.mark.also_on_a_broker
def test_E12_a_run_can_be_refused_for_it_and_writes_nothing(cluster: AnyCluster, pipeline: Pipeline, aged: str) -> None:
    pipeline.topic = aged
    with pytest.raises(RetentionTooClose, match=rf"{aged}\[0\]: up to 3 of the records that it reads") as refused:
        pipeline.resolve("one", min_retention_margin="PT4H", retention_margin="fail")
    assert len(refused.value.partitions) == 1
    assert pipeline.log.newest() is None


@pytest.mark.also_on_a_broker
def test_E12_an_unfinished_batch_is_warned_of_and_refused_likewise(
    cluster: AnyCluster, pipeline: Pipeline, aged: str
) -> None:
    pipeline.topic = aged
    pipeline.resolve("one")
    again = pipeline.resolve("two", min_retention_margin="PT4H")
    assert [warning for warning in again.assignment.warnings if warning.startswith(NEAR)]
    with pytest.raises(RetentionTooClose):
        pipeline.resolve("two", min_retention_margin="PT4H", retention_margin="fail")


def test_E13_what_is_hidden_is_said_once_and_the_run_goes_on(memory: AnyCluster, in_memory: Pipeline) -> None:
    memory.create_topic("payments", 9)
    memory.produce("payments", 5)
    memory.reader.hidden |= {"orders", "payments"}  # type: ignore[union-attr]
    plan = in_memory.preview(topics=["orders", "payments"], min_retention_margin="PT4H", retention_margin="fail")
    [warning] = plan.warnings
    assert "How near retention is to the records of orders, payments is not known" in warning
    assert "the right DescribeConfigs" in warning
    assert {p.margin_ms for p in plan.partitions} == {None}


# ── what the plan and the commit hold ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.also_on_a_broker
def test_J8_a_plan_counts_what_lies_past_its_end_and_what_an_open_transaction_holds_back(
    cluster: AnyCluster, aged: str
) -> None:
    transaction = cluster.begin_transaction()
    transaction.produce(TopicPartition(aged, 0), [now_ms()] * 2)
    try:
        ends_by_time = {"bounded_mode": "timestamp", "bounded_timestamp": "now-3h"}
        plan = planned(cluster.reader, aged, isolation_level="read_committed", max_records=1, **ends_by_time)
    finally:
        transaction.abort()
    assert [(p.size, p.past_end, p.held_back) for p in plan.partitions] == [(1, 3, 2), (0, 0, 0)]
    said = last_sentence(plan, 1)
    assert "The cap left 2 records" in said
    assert said.endswith(" 1 record is at or after its end, for a later run. Open transactions hold back 2 offsets.")
    assert "for a later run" not in last_sentence(plan, 1, is_new=False)


def test_E14_the_margin_of_a_plan_is_by_the_pace_of_the_log_start(memory: AnyCluster, in_memory: Pipeline) -> None:
    """An hour took two offsets of partition 0; the position is four offsets from what is gone."""
    in_memory.run("one")
    for partition in range(3):
        memory.produce("orders", 4, partition)
    memory.delete_records("orders", 2)
    in_memory.now_ms += HOUR

    def known(retention_bytes: int | None) -> int | None:
        """Where the run asks how long records stay."""
        memory.reader.topics["orders"].retention_bytes = retention_bytes  # type: ignore[union-attr]
        return in_memory.preview(min_retention_margin="PT1M").partitions[0].margin_ms

    assert (known(10), known(None)) == (HOUR, None), "where nothing deletes, there is no margin"
    plan = in_memory.resolve("two").plan
    assert [p.margin_ms for p in plan.partitions] == [HOUR, None, None]
    assert last_sentence(plan, 1).endswith(" Retention takes the first record in 1 h at the earliest.")


def test_E14_a_commit_says_when_retention_comes_to_what_is_left(memory: AnyCluster, in_memory: Pipeline) -> None:
    run = in_memory.resolve("one", max_records_per_partition=3).spark()
    memory.delete_records("orders", 1)
    left = left_by(run.plan, in_memory.cluster, in_memory.now_ms + HOUR)
    assert left is not None
    assert [(left[tp].lag, left[tp].margin, left[tp].margin_ms) for tp in sorted(left)] == [
        (1, 2, 2 * HOUR),
        (1, 3, None),
        (1, 3, None),
    ]
    assert committed_sentence(run.commit(), together(left.values())).endswith(
        "3 records are left for the next run; retention takes the first record in 2 h at the earliest."
    )


@pytest.mark.also_on_a_broker
def test_E14_the_margin_of_a_start_by_time_is_that_time_and_what_records_may_stay(
    cluster: AnyCluster, aged: str
) -> None:
    parameters = request_parameters(topics=[aged], startup_mode="timestamp", startup_timestamp="now-22h")
    plan = preview(request_for({}, parameters, RunContext(now_ms())), cluster.reader, None)
    assert [p.margin_ms for p in plan.partitions] == [2 * HOUR, None]


# ── the sensor ────────────────────────────────────────────────────────────────────────────────────────────────────────


def look(cluster: Any, topic: str, margin: str, pipeline: Pipeline | None = None, at_ms: int | None = None) -> Lag:
    scope = parse_scope(ScopeParameters(topics=topic, group_id="nobody"))
    question = lag_question(scope, parse_limits(None, None, margin), pipeline.log if pipeline else None)
    found: ClusterDescription = cluster.discover(scope.subscription)
    return look_at_lag(question, cluster, found, at_ms or now_ms())


@pytest.mark.also_on_a_broker
def test_E12_a_sensor_waits_until_retention_comes_near(cluster: AnyCluster, aged: str) -> None:
    assert not look(cluster.reader, aged, "PT1H").is_enough
    near = look(cluster.reader, aged, "PT2H")
    assert near.is_enough
    assert near.to_dict()["partitions_near_retention"] == 1


def test_E13_a_sensor_by_size_goes_by_the_pace_of_the_log_start_and_knows_it_of_a_pipeline_alone(
    memory: AnyCluster, in_memory: Pipeline
) -> None:
    in_memory.run("one")
    memory.produce("orders", 4)
    memory.delete_records("orders", 2)
    memory.reader.topics["orders"].retention_bytes = 10  # type: ignore[union-attr]
    later = in_memory.now_ms + HOUR  # at two offsets an hour, the position is an hour away
    assert not look(memory.reader, "orders", "PT1H", in_memory, later).is_enough
    assert look(memory.reader, "orders", "PT2H", in_memory, later).near == 1
    memory.produce("orders", 4)
    assert not look(memory.reader, "orders", "PT2H", None, later).is_enough


def test_E13_a_sensor_that_may_not_know_names_the_right(memory: AnyCluster, in_memory: Pipeline) -> None:
    memory.reader.hidden.add("orders")  # type: ignore[union-attr]
    with pytest.raises(NotAuthorized, match="DescribeConfigs"):
        look(memory.reader, "orders", "PT1H")


# ── Kafka ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def hasty(java: Java, say: Say, tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that looks for what it may delete every 100 ms, and not every five minutes."""
    often = {"log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "100"}
    with KafkaBroker(tmp_path / "kafka", java=java, say=say, config=often, loaded_groups=False) as broker:
        yield broker


def test_E14_kafka_deletes_no_record_before_its_margin_is_over_and_the_newest_segment_too(hasty: KafkaBroker) -> None:
    """`local.retention.ms` is of tiered storage: how long a record stays on the broker, and not how long it stays."""
    hasty.create_topic("t", 2, {"retention.ms": "3000", "local.retention.ms": "100"})
    hasty.create_topic("compacted", 1, {"retention.ms": "1", "cleanup.policy": "compact"})
    hasty.create_topic(
        "both", 1, {"retention.ms": "4000", "cleanup.policy": "compact,delete", "retention.bytes": "10000"}
    )
    written = now_ms()
    hasty.produce("t", [(0, None, "x", written - 2000), (0, None, "x", written), (1, None, "x", written)])
    first, other = TopicPartition("t", 0), TopicPartition("t", 1)
    with KafkaCluster(hasty.client_config) as cluster:
        settings = cluster.topic_settings(["t", "compacted", "both"])
        assert settings == {
            "t": TopicSettings("CreateTime", 3000),
            "compacted": TopicSettings(),
            "both": TopicSettings("CreateTime", 4000, 10_000),
        }
        times, why = cluster.first_times({first: 0, other: 0, TopicPartition("compacted", 0): 0}, "read_uncommitted")
        assert (times, why) == ({first: written - 2000, other: written}, None)
        log = look(cluster, "t", "PT1S").partitions
        assert [p.records for p in log] == [2, 1]
        found = lag_and_margin(0, snap(0, 2), written, record_ms=times[first], settings=settings["t"])
        assert (found.behind_ms, found.margin_ms) == (2000, 1000)
        wait_for("retention", lambda: hasty.offset_bounds("t") == {0: (2, 2), 1: (1, 1)})
        assert now_ms() >= written + 3000, "its segment has a record that is younger"
