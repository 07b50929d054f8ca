"""The pages of a DAG: which pipelines it has, by Airflow's database and the logs; and what a person does from them."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import InvalidRequest, NoPosition, ResetRefused
from airflow_kafka_offsets.hooks.dag_runs import next_run_of
from airflow_kafka_offsets.kafka_values import Actor
from airflow_kafka_offsets.log.entries import Planned
from airflow_kafka_offsets.page.actions import act
from airflow_kafka_offsets.page.dag_pipelines import PipelineName, open_pipeline, pipelines_of_dag
from airflow_kafka_offsets.page.kafka_look import KafkaLooks
from airflow_kafka_offsets.page.partition_page import partitions_view
from airflow_kafka_offsets.page.pipeline_page import pipeline_view
from airflow_kafka_offsets.page.views import BatchesAsked, PartitionsAsked
from tests.airflow.conftest import Orders

ALICE = "alice <script>"


@pytest.fixture
def done(orders: Orders) -> Orders:
    """Two batches of five and three records, and four that have come since."""
    for count in (5, 3):
        orders.produce(count)
        assert orders.run().state == "success"
    orders.produce(4)
    return orders


def test_a_dag_has_the_pages_of_its_pipelines_and_of_no_other(done: Orders) -> None:
    name = done.log.pipeline_id
    assert PipelineName(name, "orders.resolve") in pipelines_of_dag("batch")
    assert pipelines_of_dag("no_such_dag") == []
    assert all(not one.id.startswith(f"{done.group}/") for one in pipelines_of_dag("batch_sink"))
    with pytest.raises(NoPosition, match="DAG 'other' has no pipeline"):
        open_pipeline("other", name)
    with pytest.raises(NoPosition):
        open_pipeline("batch", "no such pipeline")
    assert next_run_of("no_such_dag").words == "Airflow does not know the DAG any more"

    page = open_pipeline("batch", name)
    seen = pipeline_view(page, BatchesAsked(), KafkaLooks(60.0))
    assert seen.not_asked == ()
    assert {figure.name: figure.number for figure in seen.figures}["unread"] == 4
    assert [row.records for row in seen.batches.rows] == [3, 5]
    assert seen.batches.rows[0].runs[0].run is not None
    assert seen.batches.rows[0].runs[0].run.dag_id == "batch"
    shown = partitions_view(page, "2", PartitionsAsked(), KafkaLooks(60.0))
    assert [(row["start"], row["end"], row["left"]) for row in shown.partitions.rows] == [(5, 8, 4)]


def test_an_action_is_checked_foreseen_and_done_and_the_log_names_the_person(done: Orders) -> None:
    page = open_pipeline("batch", done.log.pipeline_id)
    back = {"to_earliest": "yes", "reason": "the schema was wrong"}
    for action, fields, person in (
        ("clean", {}, ALICE),
        ("reset", {"work_store": "s3://elsewhere"}, ALICE),
        ("reset", {"execute": "yes"}, ALICE),
        ("reset", {"to_latest": "yes", "to_earliest": "yes"}, ALICE),
        ("reset", {"shift_by": "many"}, ALICE),
        ("reset", {"to_latest": "yes"}, " "),
    ):
        with pytest.raises(InvalidRequest):
            act(page, action, fields, person, execute=True)
    foreseen = act(page, "reset", back, ALICE, execute=False)
    assert foreseen.facts["read_again"] == 8
    assert foreseen.facts["dry_run"] is True
    assert "would set the position of 1 of 1 partitions" in foreseen.summary
    assert done.newest.log.plan.batch.number == 2, "nothing was written"
    with pytest.raises(ResetRefused):
        act(page, "reset", back, ALICE, execute=True)

    answer = act(page, "reset", {**back, "allow_duplicates": "yes"}, ALICE, execute=True)
    assert answer.facts["dry_run"] is False
    newest = done.newest
    assert newest.log.plan.batch.number == 3
    assert str(newest.log.plan.reason).endswith(": the schema was wrong")
    planned_by = Actor(None, newest.log.plan.by.instance, ALICE)
    assert [entry.by for _, entry in newest.entries()] == [planned_by] * 2
    assert isinstance(newest.entries()[0][1], Planned)
    assert done.committed == {0: 0}, "the group follows"

    assert done.run().state == "success"
    redone = act(open_pipeline("batch", page.log.pipeline_id), "redo", {"batch": "4"}, ALICE, execute=False)
    assert "airflow dags clear batch" in redone.head
    row = pipeline_view(open_pipeline("batch", page.log.pipeline_id), BatchesAsked(), KafkaLooks(60.0)).batches.rows[1]
    assert [link.words for link in row.runs] == [ALICE]
