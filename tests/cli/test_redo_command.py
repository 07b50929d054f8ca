"""`kafka-offsets redo`: write a committed batch again, into the same place."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_offsets.clock import now_ms
from airflow_kafka_offsets.kafka_values import Actor, TopicPartition
from airflow_kafka_offsets.log.entries import Taken
from airflow_kafka_offsets.log.pipeline_log import read_plan
from airflow_kafka_offsets.log.read_reports import begin
from airflow_kafka_offsets.log.verify_reads import PartitionRead, ReadReport
from airflow_kafka_offsets.plan.job_arguments import parse_job_arguments
from testbed.broker import KafkaBroker
from tests.cli.conftest import Say, of
from tests.cli.pipeline import Pipeline, key_of
from tests.cluster.real import RealHands

At = tuple[str, ...]


def test_redo_says_who_wrote_the_batch_where_to_and_how_to_write_it_again(
    says: Say, pipeline: Pipeline, at: At
) -> None:
    before = pipeline.objects()
    words = ("redo", *at, *of(pipeline), "--batch", "1")
    status, output, messages = says(*words, "--output", "json")
    assert status == 0
    assert "dry run" in messages
    shown = json.loads(output)
    assert (shown["version"], shown["dry_run"], shown["key"]) == (1, True, pipeline.newest_key)
    assert shown["run"] == {"dag_id": "dag", "run_id": "one", "task_id": "resolve", "map_index": -1}
    assert (shown["records_there"], shown["gone"], shown["arguments"]) == (True, [], {})
    assert shown["row_filter"] == f"kafka_batch = '{pipeline.newest_key}'"
    assert shown["airflow"] == "airflow dags clear dag --run-id one"
    assert [(row["split"], row["records"], row["row_filter"]) for row in shown["splits"]] == [
        (0, 4, f"kafka_batch = '{pipeline.newest_key}' AND kafka_split = 0")
    ]
    _, table, _ = says(*words)
    assert "in Airflow: airflow dags clear dag --run-id one" in table
    assert "all of them are still in Kafka" in table
    assert pipeline.objects() == before


def test_a_redo_is_taken_and_submitted_by_hand_and_commit_says_whether_it_is_whole(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: At
) -> None:
    status, output, messages = says("redo", *at, *of(pipeline), "--batch", "1", "--execute", "--output", "json")
    assert status == 0
    assert "The batch is yours now" in messages
    words = json.loads(output)["arguments"]["0"]
    newest = pipeline.log.newest()
    assert newest is not None
    taken = newest.log.later[-1]
    assert isinstance(taken, Taken)
    assert (taken.by, taken.attempts) == (Actor(None, None), {0: 1})

    commit = ("commit", *at, *of(pipeline), "--batch", "1", "--execute")
    status, _, messages = says(*commit)
    assert status == 1, "what was written before the redo does not verify it"
    assert "split 0" in messages

    job = parse_job_arguments(words)
    assert (job.split, job.bootstrap_servers, job.store_uri) == (0, broker.bootstrap_servers, pipeline.store.driver_uri)
    planned = read_plan(pipeline.store, job.plan_object)
    assert planned is not None
    assert planned.plan.plan_id == job.plan_id
    attempt = begin(pipeline.store, job.plan_object, planned.plan, job.split, planned.plan.asked.output)
    attempt.look()
    reads = {TopicPartition(pipeline.topic, 0): PartitionRead(4, 4, 0, 3)}
    attempt.report(ReadReport(job.plan_id, job.split, attempt.number, "rows", reads, attempt.output))
    status, output, _ = says(*commit)
    assert status == 0
    assert "batch 1 was committed before, by run dag/one/resolve" in output
    assert says("verify", *of(pipeline), "--batch", "1")[2] == "", "and the redo is verified too"


def test_a_redo_that_somebody_has_begun_is_said(says: Say, pipeline: Pipeline, at: At) -> None:
    says("redo", *at, *of(pipeline), "--batch", "1", "--execute")
    _, output, _ = says("redo", *at, *of(pipeline), "--batch", "1")
    assert "a person at the command line is doing it once more since" in output


def test_a_cleared_run_takes_the_redo_of_a_person_over(says: Say, pipeline: Pipeline, at: At) -> None:
    says("redo", *at, *of(pipeline), "--batch", "1", "--execute")
    again = pipeline.run("one")
    assert again.splits == (0,)
    assert says("verify", *of(pipeline), "--batch", "1")[2] == ""


def test_a_batch_whose_records_are_gone_is_status_1_and_left(
    says: Say, broker: KafkaBroker, pipeline: Pipeline, at: At
) -> None:
    RealHands(broker).delete_records(TopicPartition(pipeline.topic, 0), 2)
    before = pipeline.objects()
    status, output, messages = says("redo", *at, *of(pipeline), "--batch", "1", "--output", "json")
    shown = json.loads(output)
    assert (status, shown["records_there"], shown["airflow"]) == (1, False, None)
    assert "2 offsets are gone" in messages
    status, output, messages = says("redo", *at, *of(pipeline), "--batch", "1", "--execute")
    assert (status, output) == (1, "")
    assert "its output stays as it is" in messages
    assert pipeline.objects() == before


def test_a_window_is_done_again_too(says: Say, pipeline: Pipeline, at: At) -> None:
    now = now_ms()
    bounds = {"startup_timestamp": now - 3_600_000, "bounded_timestamp": now, "output_name": "windows"}
    key = key_of(pipeline.run("w", startup_mode="timestamp", bounded_mode="timestamp", **bounds).plan)
    status, output, _ = says("redo", *at, *of(pipeline), "--batch", key, "--execute", "--output", "json")
    found = json.loads(output)
    assert (status, found["key"], list(found["arguments"])) == (0, key, ["0"])
    assert found["airflow"] == "airflow dags clear dag --run-id w"
    window = pipeline.log.window(found["stored_as"].rpartition("/")[2])
    assert window is not None
    assert window.log.redone is not None
    assert window.log.redone.attempts == {0: 1}


def test_an_unfinished_batch_is_the_next_runs(says: Say, pipeline: Pipeline, at: At) -> None:
    pipeline.plan("two")
    status, _, messages = says("redo", *at, *of(pipeline), "--batch", "2", "--execute")
    assert status == 1
    assert "it is not committed, so its pipeline's next run does it anyway" in messages


def test_a_reset_has_nothing_to_be_done_again(says: Say, pipeline: Pipeline, at: At) -> None:
    says("reset", *at, *of(pipeline), "--to-latest", "--execute")
    before = pipeline.objects()
    status, output, messages = says("redo", *at, *of(pipeline), "--batch", "2", "--execute")
    assert (status, messages) == (0, "")
    assert "It has no records, and no split to start." in output
    assert pipeline.objects() == before


@pytest.mark.parametrize("words", [["--batch", "9"], ["--dag-id", "dag", "--run-id", "two", "--task-id", "resolve"]])
def test_a_batch_that_is_not_there_is_status_1(says: Say, pipeline: Pipeline, at: At, words: list[str]) -> None:
    assert says("redo", *at, *of(pipeline), *words)[0] == 1
