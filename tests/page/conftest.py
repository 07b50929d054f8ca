"""A pipeline whose page is looked at: its runs really resolve, read and commit, with the cluster in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.batch.pipeline_status import NextRun
from airflow_kafka_offsets.kafka_values import RunKey, TopicPartition
from airflow_kafka_offsets.log.verify_reads import PartitionRead, ReadReport
from airflow_kafka_offsets.page.dag_pipelines import PagePipeline
from airflow_kafka_offsets.page.kafka_look import KafkaLooks
from airflow_kafka_offsets.page.pipeline_page import pipeline_view
from airflow_kafka_offsets.page.views import BatchesAsked, PipelineView
from airflow_kafka_offsets.stores.local import LocalStore
from tests.cluster.memory import InMemoryCluster
from tests.contract.pipeline import Pipeline, Run

TOPIC = "orders"
LONG_S = 60.0  # a loaded machine may take its time; nobody waits for what is there


@pytest.fixture
def cluster() -> InMemoryCluster:
    made = InMemoryCluster()
    made.create_topic("__consumer_offsets")
    made.create_topic(TOPIC, 3)
    return made


@pytest.fixture
def pipeline(cluster: InMemoryCluster, tmp_path: Path) -> Pipeline:
    return Pipeline(cluster, LocalStore(tmp_path / "store"), TOPIC, "orders-to-lake")


def run(hour: int) -> RunKey:
    return RunKey("dag", f"scheduled__2026-11-20T{hour:02}:00:00+00:00", "resolve")


def produce(pipeline: Pipeline, count: int = 2, ago_ms: int = 0, partitions: int = 3) -> None:
    """``count`` records in each of the first partitions."""
    for partition in range(partitions):
        pipeline.cluster.produce(TopicPartition(TOPIC, partition), [pipeline.now_ms - ago_ms] * count)


def report_some_as_bad(resolved: Run, set_aside: int, left_out: int) -> None:
    """Spark wrote the batch, and its report says that some records are no rows."""
    for split in resolved.splits:
        job = resolved.job(split).begin().write()
        assert job.attempt is not None
        reads = {}
        for p in job.plan.splits[split]:
            bad, other = (set_aside, left_out) if p.topic_partition.partition == 0 else (0, 0)
            reads[p.topic_partition] = PartitionRead(p.size, p.size, p.start_offset, p.end_offset - 1, bad, other)
        job.attempt.report(
            ReadReport(job.plan.plan_id, split, job.attempt.number, "rows", reads, job.plan.asked.output)
        )


def page_of(pipeline: Pipeline, **fields: Any) -> PagePipeline:
    @contextmanager
    def open_cluster() -> Iterator[Any]:
        yield pipeline.cluster

    made = PagePipeline("dag", "resolve", pipeline.log, open_cluster, lambda: NextRun(None, "no schedule"))
    return replace(made, **fields)


def view(pipeline: Pipeline, asked: BatchesAsked | None = None, **fields: Any) -> PipelineView:
    return pipeline_view(page_of(pipeline, **fields), asked or BatchesAsked(), KafkaLooks(LONG_S))


def said(shown: PipelineView) -> str:
    return " ".join(phrase.text for phrase in shown.sentence)


def figures(shown: PipelineView) -> dict[str, int | None]:
    return {figure.name: figure.number for figure in shown.figures}


def values(shown: PipelineView) -> dict[str, str]:
    return {figure.name: figure.value for figure in shown.figures}
