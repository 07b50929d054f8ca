"""Whose a pipeline is, its log says: an address that names another DAG's shows nothing."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import NoPosition
from airflow_kafka_offsets.kafka_values import RunKey, TopicPartition
from airflow_kafka_offsets.page.dag_pipelines import look_at_newest, require_dag
from airflow_kafka_offsets.page.kafka_look import KafkaLooks
from airflow_kafka_offsets.page.partition_page import partitions_view
from airflow_kafka_offsets.page.views import PartitionsAsked
from airflow_kafka_offsets.page.window_page import windows_view
from tests.contract.pipeline import Pipeline
from tests.page.conftest import TOPIC, page_of, produce, run, view
from tests.page.test_window_page import T, hours


def is_shown(pipeline: Pipeline, dag_id: str) -> bool:
    try:
        require_dag(dag_id, pipeline.pipeline_id, look_at_newest(pipeline.log))
    except NoPosition:
        return False
    return True


def test_a_pipeline_is_the_dags_that_planned_its_newest_batch(pipeline: Pipeline) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    assert is_shown(pipeline, "dag")
    assert not is_shown(pipeline, "other")
    produce(pipeline)
    pipeline.run(RunKey("other", "r", "resolve"))
    assert (is_shown(pipeline, "dag"), is_shown(pipeline, "other")) == (False, True)
    pipeline.reset_to_earliest()
    assert is_shown(pipeline, "other"), "a person's batch names the task before it"


def test_a_pipeline_without_a_batch_is_nobodys_yet(pipeline: Pipeline) -> None:
    assert is_shown(pipeline, "dag")


def test_a_dag_that_plans_windows_of_a_pipeline_has_its_page_too(pipeline: Pipeline) -> None:
    pipeline.cluster.produce(TopicPartition(TOPIC, 0), [T, T + 1])
    pipeline.run(run(10))
    pipeline.run(RunKey("again", "r", "resolve"), output_name="/lake/again", **hours(0, 1))
    assert (is_shown(pipeline, "dag"), is_shown(pipeline, "again"), is_shown(pipeline, "other")) == (True, True, False)


def test_whose_it_is_is_looked_at_again_where_the_store_did_not_answer_when_it_was_opened(pipeline: Pipeline) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    seen = view(pipeline, dag_id="other")
    assert (seen.batches.total, seen.sentence) == (0, ())
    assert "DAG 'other' has no pipeline" in seen.not_asked[0]
    assert "DAG 'other'" in windows_view(page_of(pipeline, dag_id="other")).not_asked[0]
    with pytest.raises(NoPosition):
        partitions_view(page_of(pipeline, dag_id="other"), "1", PartitionsAsked(), KafkaLooks())


@pytest.mark.parametrize(("instance", "can"), [(None, ("reset", "redo")), ("https://standby.example", ("take over",))])
def test_of_another_airflows_pipeline_it_is_taken_over_first(
    pipeline: Pipeline, instance: str | None, can: tuple[str, ...]
) -> None:
    produce(pipeline)
    pipeline.run(run(10))
    assert view(pipeline, instance=instance).can == can
    assert view(pipeline, instance=pipeline.airflow.instance).can == ("reset", "redo")
