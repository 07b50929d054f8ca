"""What each operator tells before and after its work; real runs: tests/airflow/test_lineage.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets import (
    BatchCommittedSensor,
    CommitOffsetsOperator,
    GroupEmptySensor,
    OffsetLagSensor,
    PartitionDiscoverySensor,
    ResolveStartupOffsetsOperator,
    WindowCompleteSensor,
)
from airflow_kafka_offsets.batch.carry_out import CommitOutcome
from airflow_kafka_offsets.batch.follow_group import Followed
from airflow_kafka_offsets.hooks.tells_lineage import TellsLineage
from airflow_kafka_offsets.log.entries import Committed, Planned
from airflow_kafka_offsets.log.pipeline_log import PipelineLog, StoredBatch
from airflow_kafka_offsets.log.read_reports import begin
from airflow_kafka_offsets.log.verify_reads import Fates, PartitionRead, ReadReport
from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from airflow_kafka_offsets.plan.position import position_after
from airflow_kafka_offsets.sensors.waiting_sensor import WaitingSensor
from airflow_kafka_offsets.stores.local import LocalStore
from tests.builders import KEY, PIPELINE, job_arguments, plan, planned, tp

ORDERS = ("kafka://kafka-1:9092", "orders")
LAKE = ("file", "/lake/orders")


@pytest.fixture(autouse=True)
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = json.dumps({"bootstrap.servers": "kafka-1:9092", "sasl.password": "hunter2"})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))


@pytest.fixture
def batch(tmp_path: Path) -> StoredBatch:
    """A batch in a store: four records of ``orders``, for the folder ``/lake/orders``."""
    made = plan([planned(0, 5, 9)], output="/lake/orders")
    found = PipelineLog(LocalStore(tmp_path, f"file://{tmp_path}"), PIPELINE).begin(7, Planned(made))
    assert found is not None
    return found


def spark_task(batch: StoredBatch) -> SparkSubmitPlanOperator:
    arguments = job_arguments(batch.plan_object, batch.log.plan.plan_id, 0, batch.store.driver_uri, "kafka-1:9092")
    return SparkSubmitPlanOperator(task_id="spark", application_args=arguments)


def report(batch: StoredBatch) -> None:
    """A driver writes the split and reports it."""
    attempt = begin(batch.store, batch.plan_object, batch.log.plan, 0, "/lake/orders")
    reads, columns = {tp(): PartitionRead(4, 4, 5, 8)}, {"/lake/orders": {"id": "bigint"}}
    attempt.report(
        ReadReport(batch.log.plan.plan_id, 0, attempt.number, "rows", reads, "/lake/orders", columns=columns)
    )


def reference(batch: StoredBatch) -> dict[str, Any]:
    """What resolve pushes."""
    about = {"pipeline": PIPELINE, "work_store": batch.store.uri, "plan_id": batch.log.plan.plan_id}
    return {**about, "stored_as": batch.name}


def test_resolve_tells_its_topics_and_then_its_plan() -> None:
    resolve = ResolveStartupOffsetsOperator(task_id="resolve", topics="payments,orders", group_id="g")
    before = resolve._task_lineage(is_over=False)
    assert before.inputs.keys() == {ORDERS, (ORDERS[0], "payments")}
    resolve._planned = plan([planned(0, 5, 9)], output="/lake/orders")
    after = resolve._task_lineage(is_over=True)
    assert after.inputs[ORDERS]["kafkaOffsets_ranges"]["offsetCount"] == 4
    assert (after.outputs, after.batch and after.batch["batch"]) == ({}, KEY)


def test_spark_tells_the_counts_of_its_report_once_it_is_over(batch: StoredBatch) -> None:
    task = spark_task(batch)
    report(batch)  # of an attempt before
    before = task._task_lineage(is_over=False)
    assert before.inputs[ORDERS].keys() == {"kafkaOffsets_ranges"}, "what this attempt will have read is not known"
    assert before.outputs == {LAKE: {}}
    after = task._task_lineage(is_over=True)
    assert after.inputs[ORDERS]["inputStatistics"] == {"rowCount": 4}
    assert after.outputs == {
        LAKE: {"schema": {"fields": [{"name": "id", "type": "bigint"}]}, "outputStatistics": {"rowCount": 4}}
    }
    assert after.batch is not None
    assert (after.batch["batch"], after.batch["split"]) == (KEY, 0)


def test_spark_tells_no_count_where_two_drivers_wrote_or_none_has_reported(batch: StoredBatch) -> None:
    task = spark_task(batch)
    assert task._task_lineage(is_over=True).outputs == {LAKE: {}}
    names = batch.store.list(batch.folder)
    for _ in range(2):  # both have looked before either began
        begin(batch.store, batch.plan_object, batch.log.plan, 0, "/lake/orders", names)
    assert task._task_lineage(is_over=True).outputs == {LAKE: {}}


def test_spark_that_is_given_offsets_tells_nothing() -> None:
    task = SparkSubmitPlanOperator(task_id="spark", application_args=["/lake", "orders-0"])
    assert task._task_lineage(is_over=True).inputs == {}


def test_commit_tells_the_batch_and_then_what_it_has_verified(batch: StoredBatch) -> None:
    commit = CommitOffsetsOperator(task_id="commit", plan=reference(batch))
    before = commit._task_lineage(is_over=False)
    assert before.inputs[ORDERS]["kafkaOffsets_ranges"]["offsetCount"] == 4
    assert before.outputs == {LAKE: {}}
    fates = Fates(topics={"orders": (4, 0, 0)})
    commit._done = CommitOutcome(batch, True, Followed(), "rows", fates)
    after = commit._task_lineage(is_over=True)
    assert after.outputs == {LAKE: {"outputStatistics": {"rowCount": 4}}}
    assert after.batch is not None
    assert (after.batch["committed"], after.batch["proof"]) == (True, "rows")
    commit._done = CommitOutcome(batch, True, Followed())  # no report was asked for
    assert commit._task_lineage(is_over=True).outputs == {LAKE: {}}


@pytest.mark.parametrize(
    "given", [None, {"pipeline": PIPELINE, "work_store": "/w", "stored_as": None, "plan_id": None}]
)
def test_commit_of_a_run_that_has_nothing_to_do_tells_nothing(given: Any) -> None:
    commit = CommitOffsetsOperator(task_id="commit", plan=given)
    assert commit._task_lineage(is_over=False).inputs == {}
    commit._done = CommitOutcome(None, False, Followed())
    assert commit._task_lineage(is_over=True).inputs == {}


def sensors(batch: StoredBatch) -> dict[str, WaitingSensor]:
    """Each sensor, by what it is asked to wait for."""
    there: dict[str, Any] = {"pipeline_id": PIPELINE, "work_store": batch.store.uri}
    return {
        "lag": OffsetLagSensor(task_id="lag", topics="orders,payments", group_id="g"),
        "partitions": PartitionDiscoverySensor(task_id="partitions", partitions={"orders": [0, 2]}),
        "a pattern": PartitionDiscoverySensor(task_id="pattern", topic_pattern="orders.*"),
        "a window": WindowCompleteSensor(task_id="window", topics="orders", end="2026-11-20T10:00:00Z"),
        "a time": BatchCommittedSensor(task_id="time", end="2026-11-20T10:00:00Z", **there),
        "a time of topics": BatchCommittedSensor(task_id="of", end="2026-11-20T10:00:00Z", topics="payments", **there),
        "a batch": BatchCommittedSensor(task_id="batch", batch=7, **there),
        "offsets": BatchCommittedSensor(task_id="offsets", offsets={"orders": {"0": 42}}, **there),
        "a group": GroupEmptySensor(task_id="group", group_id="g"),
    }


def test_a_sensor_tells_the_topics_that_it_asks_kafka_about_and_no_ranges(batch: StoredBatch) -> None:
    payments = (ORDERS[0], "payments")
    for_time = batch.append(
        Committed(batch.log.by, 1, batch.log.plan.plan_id, position=position_after(batch.log.plan, None))
    )
    assert for_time is not None
    told = {what: sensor._task_lineage(is_over=False) for what, sensor in sensors(batch).items()}
    assert {what: set(lineage.inputs) for what, lineage in told.items()} == {
        "lag": {ORDERS, payments},
        "partitions": {ORDERS},
        "a pattern": set(),
        "a window": {ORDERS},
        "a time": {ORDERS},
        "a time of topics": {payments},
        "a batch": set(),
        "offsets": set(),
        "a group": set(),
    }
    for lineage in told.values():
        assert (set(map(len, lineage.inputs.values())) | {0}, lineage.outputs, lineage.batch) == ({0}, {}, None)


def test_a_sensor_tells_the_topics_of_a_pattern_once_it_has_found_them(batch: StoredBatch) -> None:
    sensor = sensors(batch)["a pattern"]
    sensor.execute_complete({}, {"cluster_id": "c", "topics": {"orders": [0], "orders-2": [0]}})
    assert set(sensor._task_lineage(is_over=True).inputs) == {ORDERS, (ORDERS[0], "orders-2")}


@pytest.mark.parametrize(
    "kind",
    [
        ResolveStartupOffsetsOperator,
        SparkSubmitPlanOperator,
        CommitOffsetsOperator,
        OffsetLagSensor,
        PartitionDiscoverySensor,
        WindowCompleteSensor,
        BatchCommittedSensor,
        GroupEmptySensor,
    ],
)
def test_the_provider_finds_the_methods_that_it_looks_for(kind: type) -> None:
    from airflow.providers.openlineage.extractors import base

    for name in (base.OL_METHOD_NAME_START, base.OL_METHOD_NAME_COMPLETE, base.OL_METHOD_NAME_FAIL):
        assert getattr(kind, name) is getattr(TellsLineage, name)
