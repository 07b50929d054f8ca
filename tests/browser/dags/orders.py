"""Two DAGs with a pipeline each. What stands for Spark reports what the plan lists, and reads nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, TaskGroup, XComArg, task

from airflow_kafka_offsets import CommitOffsetsOperator, ResolveStartupOffsetsOperator
from airflow_kafka_offsets.log.pipeline_log import PipelineLog
from airflow_kafka_offsets.log.read_reports import begin
from airflow_kafka_offsets.log.verify_reads import PartitionRead, ReadReport
from airflow_kafka_offsets.stores.open import open_store

COMMON: dict[str, Any] = {"schedule": "@hourly", "start_date": datetime(2026, 1, 1, tzinfo=UTC), "catchup": False}


@task
def spark(reference: dict[str, Any], set_aside: int = 0) -> None:
    store = open_store(reference["work_store"])
    batch = PipelineLog(store, reference["pipeline"]).read(reference["stored_as"]) if reference["stored_as"] else None
    if batch is None:
        return
    plan, output = batch.log.plan, batch.log.plan.asked.output
    for split, partitions in enumerate(plan.splits):
        reads = {}
        for p in partitions:
            count = p.end_offset - p.start_offset
            bad = min(set_aside, count) if not reads else 0
            reads[p.topic_partition] = PartitionRead(count, count, p.start_offset, p.end_offset - 1, bad)
        attempt = begin(store, batch.plan_object, plan, split, output)
        attempt.report(ReadReport(plan.plan_id, split, attempt.number, "rows", reads, output))


def pipeline(name: str, topics: str = "orders", **resolve: Any) -> None:
    with TaskGroup(name):
        plan = ResolveStartupOffsetsOperator(
            task_id="resolve", topics=topics, output_name=f"lake.{resolve['group_id']}", **resolve
        )
        commit = CommitOffsetsOperator(task_id="commit", plan=XComArg(plan, key="plan"))
        spark(XComArg(plan, key="plan"), "{{ params.set_aside | int }}") >> commit


with DAG("orders_to_lake", params={"set_aside": 0}, render_template_as_native_obj=True, **COMMON):
    pipeline("orders", group_id="orders-to-lake", splits=2, auto_offset_reset="earliest")

with DAG("evil", params={"set_aside": 0}, render_template_as_native_obj=True, **COMMON):
    pipeline(
        "orders",
        pipeline_id="<script>alert('pipeline')</script>",
        group_id='"><img src=x onerror=alert(1)>',
        auto_offset_reset="earliest",
        topics="orders,wide",
    )


with DAG("by_hour", params={"set_aside": 0, "since": "", "until": ""}, render_template_as_native_obj=True, **COMMON):
    pipeline(
        "orders",
        group_id="orders-by-hour",
        startup_mode="timestamp",
        startup_timestamp="{{ params.since }}",
        bounded_mode="timestamp",
        bounded_timestamp="{{ params.until }}",
    )
