"""What Airflow's UI shows of a task before anybody opens its log: a text of its own, and which batch an index is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_kafka_offsets import (
    BatchCommittedSensor,
    CommitOffsetsOperator,
    GroupEmptySensor,
    OffsetLagSensor,
    PartitionDiscoverySensor,
    ResolveStartupOffsetsOperator,
    WindowCompleteSensor,
    kafka_spark_batch,
)
from airflow_kafka_offsets.operators.submit import SparkSubmitPlanOperator
from airflow_kafka_offsets.plan.window_claims import TimeClaim
from tests.builders import NOW, job_arguments

DOCS = Path(__file__).parents[2] / "docs"
TASKS = {
    ResolveStartupOffsetsOperator: {"topics": "orders"},
    CommitOffsetsOperator: {"plan": {}},
    SparkSubmitPlanOperator: {"application": "job.py"},
    PartitionDiscoverySensor: {"topics": "orders"},
    OffsetLagSensor: {"topics": "orders"},
    WindowCompleteSensor: {"topics": "orders"},
    GroupEmptySensor: {},
    BatchCommittedSensor: {"pipeline_id": "p"},
}
every_task = pytest.mark.parametrize("kind", TASKS, ids=lambda kind: kind.__name__)


@every_task
def test_each_task_says_what_it_does_and_which_page_to_read(kind: Any) -> None:
    text = kind(task_id="t", **TASKS[kind]).doc_md
    *_, last = text.strip().splitlines()
    assert last.startswith("Read on: docs/")
    assert (DOCS.parent / last.removeprefix("Read on: ")).is_file()
    assert "kafka-offsets explain" in text
    assert (DOCS / "errors" / "README.md").is_file()


@every_task
def test_what_the_author_says_counts(kind: Any) -> None:
    assert kind(task_id="t", doc_md="mine", **TASKS[kind]).doc_md == "mine"


def test_the_tasks_of_a_group_have_them_too_also_the_mapped_one() -> None:
    with DAG("documented", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        kafka_spark_batch("orders", topics="orders", group_id="g", application="job.py")
    assert len(dag.tasks) == 4
    assert [task.task_id for task in dag.tasks if "Read on: " not in (task.doc_md or "")] == []
    assert dag.get_task("orders.spark").map_index_template == "{{ task.batch_and_split }}"


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("batches/00000000/0000000007", "batch 7, split 3"),
        (f"windows/{TimeClaim(NOW, NOW + 3_600_000).name}", "window 2026-11-20T10:00Z to 2026-11-20T11:00Z, split 3"),
        ("windows/offsets-0123", "window offsets-0123, split 3"),
    ],
)
def test_a_split_is_named_by_its_batch(folder: str, words: str) -> None:
    arguments = job_arguments(f"pipelines/g%2Fdag%2Fresolve/{folder}/1.json", "plan", 3, "file:///store")
    task = SparkSubmitPlanOperator(task_id="spark", application="job.py", application_args=["own", *arguments])
    assert task.batch_and_split == words


def test_arguments_that_are_no_batchs_name_none() -> None:
    """The task itself refuses them; Airflow renders the name even of a task that has failed."""
    assert SparkSubmitPlanOperator(task_id="spark", application="job.py").batch_and_split == ""


def test_the_author_of_a_mapped_task_can_name_it_otherwise() -> None:
    mapped = SparkSubmitPlanOperator.partial(task_id="spark", application="job.py", map_index_template="mine")
    assert mapped.kwargs["map_index_template"] == "mine"
    assert SparkSubmitPlanOperator(task_id="t", map_index_template="mine").map_index_template == "mine"
